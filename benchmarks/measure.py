"""Check results, then take times in turns, so that what disturbs the machine disturbs every library alike."""

from __future__ import annotations

import functools
import gc
import random
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from benchmarks.cases import Case
from benchmarks.libraries import Library, Program

Sample = Callable[[], float]
"""Takes one time: seconds for one run of the work."""


class WrongResultError(Exception):
    """A library's loss or gradient is not the reference's."""


@dataclass(frozen=True)
class Plan:
    """How much to measure.

    Parameters
    ----------
    rounds : int
        Times taken of each library, one a round; the order is drawn anew for every round.
    seconds : float
        Least length of one time; short work is repeated until it is reached.
    budget : float
        Seconds after which a case with slow libraries stops, though never before three rounds.
    """

    rounds: int = 15
    seconds: float = 0.02
    budget: float = 20.0


FULL, QUICK = Plan(), Plan(rounds=5, seconds=0.004, budget=2.0)


@dataclass
class Result:
    """The times of one library for one case, or why there are none.

    Parameters
    ----------
    case, group, library : str
        What was measured.
    nodes : int
        Number of graph nodes, where a time per node means something, else 0.
    seconds : list of float
        One time per round; empty where nothing could be measured.
    problem : str
        Why nothing was measured, or an empty string.
    """

    case: str
    group: str
    library: str
    nodes: int
    seconds: list[float]
    problem: str = ""

    @property
    def median(self) -> float:
        """The median time."""
        return median(self.seconds)

    def ratios(self, baseline: Result) -> list[float]:
        """Return time over the baseline's time, round by round."""
        return [a / b for a, b in zip(self.seconds, baseline.seconds, strict=True)]


@functools.cache
def _reference(case_type: type[Case], size: int) -> tuple[Any, Sequence[Any]]:
    case = case_type(size)
    parameters, constants = case.arrays()
    exact = [a.astype(np.float64) if a.dtype == np.float32 else a for a in (*parameters, *constants)]
    return case.by_hand(np, *exact)


def check(library: Library, case: Case, program: Program) -> None:
    """Compare the loss and every gradient with the hand-written case in float64.

    Raises
    ------
    WrongResultError
        Where a shape or a value differs.
    """
    loss, gradients = program.outputs()
    library.wait((loss, gradients))
    right_loss, right_gradients = _reference(type(case), case.size)
    for what, value, right in zip(
        ["loss", *(f"gradient {i}" for i in range(len(right_gradients)))],
        [loss, *gradients],
        [right_loss, *right_gradients],
        strict=True,
    ):
        array, right = library.to_numpy(value), np.asarray(right)
        if array.shape != right.shape:
            raise WrongResultError(f"{what} has shape {array.shape}, not {right.shape}")
        error = np.linalg.norm(array - right) / np.linalg.norm(right)
        if not error < case.tolerance:  # NaN is wrong too
            raise WrongResultError(f"{what} is off by {error:.1e}")


def prepare_sample(library: Library, case: Case, plan: Plan) -> Sample:
    """Prepare `case`, check it, warm it up, and return what takes its times.

    A time covers some runs in a row, the release of their graphs, and one wait for the device at the end, as
    in a training loop. Garbage collection stays on, as it is for users.
    """
    program = library.prepare(case)
    check(library, case, program)
    run, wait = program.run, library.wait

    def seconds(number: int) -> float:
        start = time.perf_counter()
        for _ in range(number - 1):
            run()
        wait(run())
        return (time.perf_counter() - start) / number

    seconds(1)  # warm-up: compilation, memory pools
    number = 1
    while (once := seconds(number)) * number < plan.seconds:
        number = max(2 * number, min(10 * number, int(plan.seconds / once)))
    return functools.partial(seconds, number)


def import_sample(module: str) -> Sample:
    """Return what times ``import module`` in a fresh process that has imported NumPy already."""
    code = f"import numpy, time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"

    def seconds() -> float:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr.strip().rpartition("\n")[2])
        return float(done.stdout)

    seconds()  # warm-up: the file system's cache
    return seconds


def take_turns(samples: Mapping[str, Sample], plan: Plan, order: random.Random) -> dict[str, list[float]]:
    """Take one time of each in every round, in an order drawn anew for every round."""
    times: dict[str, list[float]] = {name: [] for name in samples}
    names = list(samples)
    gc.collect()
    gc.freeze()  # one library must not pay for the collector's walk through the objects of another
    start = time.perf_counter()
    for done in range(plan.rounds):
        if done >= 3 and time.perf_counter() - start > plan.budget:
            break
        order.shuffle(names)
        for name in names:
            times[name].append(samples[name]())
    gc.unfreeze()
    return times


def measure(
    group: str,
    case: str,
    nodes: int,
    makers: Mapping[str, Callable[[], Sample]],
    plan: Plan,
    order: random.Random,
) -> list[Result]:
    """Measure every library of `makers` on one case.

    Whatever goes wrong while a library is made ready is kept in its result; the others are measured.
    """
    samples, problems = {}, {}
    for library, make in makers.items():
        try:
            samples[library] = make()
        except Exception as error:
            problems[library] = f"{type(error).__name__}: {error}"
    times = take_turns(samples, plan, order)
    return [
        Result(case, group, library, nodes, times.get(library, []), problems.get(library, "")) for library in makers
    ]
