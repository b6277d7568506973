"""How one time is taken."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import NamedTuple

from benchmarks.libraries import Library, Program

__all__ = ["FULL", "QUICK", "Plan", "Time", "Timer"]


class Time(NamedTuple):
    """What one measurement found: seconds for one run of the work (or bytes, where memory is measured).

    On a GPU, `host` is the time until all work was queued, and `device` the time that the device was at it.
    """

    total: float
    host: float | None = None
    device: float | None = None


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
    pause : float
        Seconds to wait before a time is taken: threads of BLAS and OpenMP keep cores busy for up to 30 ms after their
        last work, in the process whose turn it was before.
    warm_up : float
        Seconds of runs after the pause that are not timed, and at least one: the cores of a virtual machine sleep in
        the pause, and a loop that has run for a while is what is to be known.
    cpu_time : bool
        Whether a time is the CPU time of the library's process, all of its threads together, instead of the time that
        passes. Other processes then disturb it less.
    """

    rounds: int = 15
    seconds: float = 0.02
    budget: float = 15.0
    least: int = 3
    pause: float = 0.0
    warm_up: float = 0.0
    cpu_time: bool = False


FULL, QUICK = Plan(), Plan(rounds=3, seconds=0.002, budget=0.5, least=1)


class Timer:
    """Takes times of a program.

    A time covers some runs in a row, the release of their graphs, and one wait for the device at the end, as
    in a training loop. Garbage collection stays on, as it is for users.

    Parameters
    ----------
    library : Library
        Whose program it is.
    program : Program
        Warmed up here.
    plan : Plan
        Says how long a time is at least.
    """

    def __init__(self, library: Library, program: Program, plan: Plan) -> None:
        self.library, self.program, self.number, self.plan = library, program, 1, plan
        for _ in range(library.compiling_calls):
            library.wait(program.run())
        once = self.sample().total
        if once < plan.budget / 30:  # the first run may compile, and fills caches
            once = min(self.sample().total for _ in range(2))
        self.number = max(1, round(plan.seconds / once))

    def sample(self) -> Time:
        """Take one time."""
        library, run, number = self.library, self.program.run, self.number
        now = time.process_time if self.plan.cpu_time else time.perf_counter
        if self.plan.pause:
            self._rest_and_warm_up()
        begin = library.mark()
        start = now()
        for _ in range(number - 1):
            run()
        outputs = run()
        queued = now() - start
        end = library.mark()
        library.wait(outputs)
        del outputs
        total = now() - start
        if begin is None:
            return Time(total / number)
        return Time(total / number, queued / number, library.elapsed(begin, end) / number)

    def _rest_and_warm_up(self) -> None:
        time.sleep(self.plan.pause)
        end = time.perf_counter() + self.plan.warm_up
        self.library.wait(self.program.run())
        while time.perf_counter() < end:
            self.library.wait(self.program.run())
