"""Check results, then take times in turns, so that what disturbs the machine disturbs every library alike."""

from __future__ import annotations

import functools
import gc
import importlib.util
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from benchmarks.cases import Case
from benchmarks.libraries import LIBRARIES, Library, NoProgramError, Program


class Time(NamedTuple):
    """What one measurement found: seconds for one run of the work (or bytes, where memory is measured).

    On a GPU, `host` is the time until all work was queued, and `device` the time that the device was at it.
    """

    total: float
    host: float | None = None
    device: float | None = None


Sample = Callable[[], Time]


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
        Seconds after which a case with slow libraries stops.
    least : int
        Rounds that are taken whatever they cost.
    """

    rounds: int = 15
    seconds: float = 0.02
    budget: float = 15.0
    least: int = 3


FULL, QUICK = Plan(), Plan(rounds=3, seconds=0.002, budget=0.5, least=1)


@dataclass
class Result:
    """The times of one library for one case, or why there are none.

    Parameters
    ----------
    case, group, library : str
        What was measured.
    values : list of float
        One for each round: seconds, or bytes; empty where nothing could be measured.
    unit : str
        ``"s"`` or ``"B"``.
    host, device : list of float
        On a GPU: seconds until everything was queued, and seconds of the device.
    nodes : int
        Number of graph nodes, where a time per node means something, else 0.
    traffic, flops : float
        What the work has to move, in bytes, and to compute, at least; 0 where that says nothing.
    problem : str
        Why nothing was measured, or an empty string.
    skipped : str
        Why nothing was to be measured, or an empty string.
    """

    case: str
    group: str
    library: str
    values: list[float] = field(default_factory=list)
    unit: str = "s"
    host: list[float] = field(default_factory=list)
    device: list[float] = field(default_factory=list)
    nodes: int = 0
    traffic: float = 0
    flops: float = 0
    problem: str = ""
    skipped: str = ""

    @property
    def median(self) -> float:
        """The median time."""
        return median(self.values)

    def ratios(self, baseline: Result) -> list[float]:
        """Return time over the baseline's time, round by round."""
        return [a / b for a, b in zip(self.values, baseline.values, strict=True)]


# -- results are right ---------------------------------------------------------------------------------------------


@functools.cache
def _reference(case_type: type[Case], size: int) -> list[np.ndarray]:
    """The results in float64: as written by hand, else by PyTorch, or by gradcore where that is not installed."""
    case = case_type(size)
    arrays = tuple(
        tuple(a.astype(np.float64) if a.dtype == np.float32 else a for a in group) for group in case.arrays()
    )
    names = ("numpy", *(name for name in ("torch", "gradcore") if importlib.util.find_spec(name)))
    for library in (LIBRARIES[name]("cpu") for name in names):
        try:
            return [np.array(library.to_numpy(a)) for a in library.prepare(case, arrays).outputs()]
        except NoProgramError:
            continue
    raise NoProgramError


def _flat(outputs: Any) -> list[Any]:
    return [x for o in outputs for x in (_flat(o) if isinstance(o, (list, tuple)) else [o])]


def check(library: Library, case: Case, program: Program) -> None:
    """Compare all results with the case in float64.

    Raises
    ------
    WrongResultError
        Where a shape or a value differs.
    """
    outputs = _flat(program.outputs())
    library.wait(outputs)
    for number, (value, right) in enumerate(zip(outputs, _reference(type(case), case.size), strict=True)):
        array = library.to_numpy(value)
        if array.shape != right.shape:
            raise WrongResultError(f"result {number} has shape {array.shape}, not {right.shape}")
        error = np.linalg.norm(array - right) / max(np.linalg.norm(right), np.finfo(np.float32).tiny)
        if not error < case.tolerance:  # NaN is wrong too
            raise WrongResultError(f"result {number} is off by {error:.1e}")


# -- samples -------------------------------------------------------------------------------------------------------


def prepare_sample(library: Library, case: Case, plan: Plan) -> Sample:
    """Prepare `case`, check it, warm it up, and return what takes its times.

    A time covers some runs in a row, the release of their graphs, and one wait for the device at the end, as
    in a training loop. Garbage collection stays on, as it is for users.
    """
    program = library.prepare(case, case.arrays())
    check(library, case, program)
    run, wait = program.run, library.wait

    def sample(number: int) -> Time:
        begin = library.mark()
        start = time.perf_counter()
        for _ in range(number - 1):
            run()
        outputs = run()
        queued = time.perf_counter() - start
        end = library.mark()
        wait(outputs)
        del outputs
        total = time.perf_counter() - start
        if begin is None:
            return Time(total / number)
        return Time(total / number, queued / number, library.elapsed(begin, end) / number)

    sample(1)
    once = min(sample(1).total for _ in range(2))
    return functools.partial(sample, max(1, round(plan.seconds / once)))


def import_sample(module: str) -> Sample:
    """Return what times ``import module`` in a fresh process that has imported NumPy already."""
    code = f"import numpy, time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
    command = [sys.executable, "-c", code]
    _output(command)  # warm-up: the file system's cache, and byte code
    return lambda: Time(float(_output(command)))


def memory_sample(library: str, device: str, number: int) -> Sample:
    """Return what measures by how many bytes the work of a case of `benchmarks.memory` raises a process's peak."""
    command = [sys.executable, "-m", "benchmarks.memory", library, device, str(number)]
    return lambda: Time(float(_output(command)))


def _output(command: Sequence[str]) -> str:
    # Byte code is kept, as it is on a user's machine.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().rpartition("\n")[2])
    return done.stdout


# -- turns ---------------------------------------------------------------------------------------------------------


def take_turns(
    samples: Mapping[str, Sample], plan: Plan, order: random.Random, problems: dict[str, str]
) -> dict[str, list[Time]]:
    """Take one time of each in every round, in an order drawn anew for every round.

    Who fails is noted in `problems`, and takes no part any more.
    """
    times: dict[str, list[Time]] = {name: [] for name in samples}
    names = list(samples)
    gc.collect()
    gc.freeze()  # one library must not pay for the collector's walk through the objects of another
    start = time.perf_counter()
    for done in range(plan.rounds):
        if done >= plan.least and time.perf_counter() - start > plan.budget:
            break
        order.shuffle(names)
        for name in names:
            if name not in problems:
                try:
                    times[name].append(samples[name]())
                except Exception as error:
                    problems[name] = _words(error)
    gc.unfreeze()
    return {name: [] if name in problems else found for name, found in times.items()}


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0]


def measure(
    blank: Result, makers: Mapping[str, Callable[[], Sample]], plan: Plan, order: random.Random
) -> list[Result]:
    """Measure every library of `makers` on one case, which `blank` describes.

    Whatever goes wrong while a library is made ready is kept in its result; the others are measured.
    """
    samples: dict[str, Sample] = {}
    problems: dict[str, str] = {}
    for library, make in makers.items():
        try:
            samples[library] = make()
        except NoProgramError:
            continue
        except Exception as error:
            problems[library] = _words(error)
    times = take_turns(samples, plan, order, problems)
    tried = dict.fromkeys((*samples, *problems))
    return [_filled(blank, name, times.get(name, []), problems.get(name, "")) for name in tried]


def _filled(blank: Result, library: str, times: Sequence[Time], problem: str) -> Result:
    columns = [[t.total for t in times], [t.host for t in times], [t.device for t in times]]
    values, host, device = ([v for v in column if v is not None] for column in columns)
    return Result(
        blank.case, blank.group, library, values, blank.unit, host, device,
        blank.nodes, blank.traffic, blank.flops, problem,
    )  # fmt: skip
