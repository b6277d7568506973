"""Check results, then take times in turns, so that what disturbs the machine disturbs every library alike."""

from __future__ import annotations

import functools
import importlib.util
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.cases import Case
from benchmarks.libraries import LIBRARIES, NoProgramError
from benchmarks.timing import Plan, Time
from benchmarks.workers import Worker, WorkerError, results

Sample = Callable[[], Time]


class WrongResultError(Exception):
    """A library's loss or gradient is not the reference's."""


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
    """Return the results in float64, by NumPy if the case has such a version, else by PyTorch, or else by gradcore."""
    case = case_type(size)
    arrays = tuple(
        tuple(a.astype(np.float64) if a.dtype == np.float32 else a for a in group) for group in case.arrays()
    )
    names = ("numpy", *(name for name in ("torch", "gradcore") if importlib.util.find_spec(name)))
    for library in (LIBRARIES[name]("cpu") for name in names):
        try:
            return results(library, library.prepare(case, arrays).outputs())
        except NoProgramError:
            continue
    raise NoProgramError


def check(case: Case, results: Sequence[np.ndarray]) -> None:
    """Compare all results with the case in float64.

    Raises
    ------
    WrongResultError
        Where a shape or a value differs.
    """
    for number, (array, right) in enumerate(zip(results, _reference(type(case), case.size), strict=True)):
        if array.shape != right.shape:
            raise WrongResultError(f"result {number} has shape {array.shape}, not {right.shape}")
        error = np.linalg.norm(array - right) / max(np.linalg.norm(right), np.finfo(np.float32).tiny)
        if not error < case.tolerance:  # NaN is wrong too
            raise WrongResultError(f"result {number} is off by {error:.1e}")


# -- samples -------------------------------------------------------------------------------------------------------


def prepare_sample(worker: Worker, case: Case, plan: Plan) -> Sample:
    """Prepare `case`, check it, and return what takes its times."""
    check(case, worker.prepare(case, plan))
    return worker.sample


def import_sample(library: str, cpu_time: bool = False) -> Sample:
    """Return what times the import of a library's module in a fresh process that has imported NumPy already."""
    clock = "process_time" if cpu_time else "perf_counter"
    module, environment = LIBRARIES[library].module, LIBRARIES[library].environment
    code = f"import numpy; from time import {clock} as now; t = now(); import {module}; print(now() - t)"
    command = [sys.executable, "-c", code]
    _output(command, environment)  # warm-up: the file system's cache, and byte code
    return lambda: Time(float(_output(command, environment)))


def memory_sample(library: str, device: str, number: int) -> Sample:
    """Return what measures by how many bytes the work of a case of `benchmarks.memory` raises a process's peak."""
    command = [sys.executable, "-m", "benchmarks.memory", library, device, str(number)]
    return lambda: Time(float(_output(command)))


def starting_sample(library: str, device: str, number: int, again: bool) -> Sample:
    """Return what measures the first calls of a case of `benchmarks.starting`.

    Nothing is compiled before them, or, if `again`, what an earlier process has compiled is there.
    """
    command = [sys.executable, "-m", "benchmarks.starting", library, device, str(number)]
    kept = tempfile.TemporaryDirectory()

    def sample() -> Time:
        with tempfile.TemporaryDirectory() as fresh:
            folder = Path(kept.name if again else fresh)
            return Time(float(_output(command, LIBRARIES[library].caches(folder))))

    if again:
        sample()
    return sample


def _output(command: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
    # Byte code is kept, as it is on a user's machine.
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**kept, **(environment or {})})
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
    return {name: [] if name in problems else found for name, found in times.items()}


def _words(error: Exception) -> str:
    text = str(error) if isinstance(error, WorkerError) else f"{type(error).__name__}: {error}"
    return text.partition("\n")[0]


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
