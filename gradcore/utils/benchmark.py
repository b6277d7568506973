"""Timing of statements, as in ``torch.utils.benchmark``: with warm-up, in one thread, synchronized with CUDA."""

from __future__ import annotations

import math
import statistics
import timeit
from collections.abc import Callable, Sequence
from typing import Any

from gradcore import cuda
from gradcore.backends.numpy.threads import get_num_threads, set_num_threads
from gradcore.torch_names import paths

__all__ = ["Compare", "Measurement", "Timer", "select_unit", "timer", "trim_sigfig"]

_NAMES = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_UNITS = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))


def timer() -> float:
    """Wait until all CUDA work is done, and return the time in seconds."""
    if cuda.is_available() and cuda.is_initialized():
        cuda.synchronize()
    return timeit.default_timer()


def select_unit(t: float) -> tuple[str, float]:
    """Return the unit for displaying a time, and its length in seconds."""
    return next(((unit, length) for unit, length in _UNITS if t >= length), _UNITS[-1])


def trim_sigfig(x: float, n: int) -> float:
    """Return a number rounded to `n` significant figures."""
    return round(x, n - 1 - math.floor(math.log10(abs(x)))) if x else 0.0


class Measurement:
    """Measured times of one statement.

    Parameters
    ----------
    number_per_run : int
        The number of runs in each measurement.
    raw_times : sequence of float
        Seconds of each measurement.
    title, label, sub_label, description : str, optional
        Names of the measurement; see `Timer`.
    num_threads : int
    env : str, optional
        The name of the environment, if several are compared.
    """

    def __init__(
        self,
        number_per_run: int,
        raw_times: Sequence[float],
        title: str = "",
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        num_threads: int = 1,
        env: str | None = None,
    ) -> None:
        self.number_per_run, self.raw_times = number_per_run, list(raw_times)
        self.title, self.label, self.sub_label, self.description = title, label, sub_label, description
        self.num_threads, self.env = num_threads, env

    @property
    def times(self) -> list[float]:
        """Seconds per run, for each measurement."""
        return [t / self.number_per_run for t in self.raw_times]

    @property
    def median(self) -> float:
        """Median of the times."""
        return statistics.median(self.times)

    @property
    def mean(self) -> float:
        """Mean of the times."""
        return statistics.fmean(self.times)

    @property
    def iqr(self) -> float:
        """Interquartile range of the times."""
        if len(self.times) < 2:
            return 0.0
        first, _, third = statistics.quantiles(self.times, n=4, method="inclusive")
        return third - first

    @property
    def significant_figures(self) -> int:
        """Number of significant figures of the median, estimated from the spread of the times."""
        spread = self.iqr / math.sqrt(len(self.times))
        return 3 if not spread else max(1, min(5, math.floor(math.log10(self.median / spread)) + 1))

    @property
    def has_warnings(self) -> bool:
        """Whether the times vary so much that they are unreliable."""
        return self.iqr / self.median > 0.1

    @staticmethod
    def merge(measurements: Sequence[Measurement]) -> list[Measurement]:
        """Merge measurements of the same task, and return one for each task."""
        groups: dict[Any, list[Measurement]] = {}
        for each in measurements:
            key = each.title, each.label, each.sub_label, each.description, each.num_threads, each.env
            groups.setdefault(key, []).append(each)
        return [Measurement(1, [t for m in group for t in m.times], *key) for key, group in groups.items()]

    def __repr__(self) -> str:
        unit, length = select_unit(self.median)
        lines = [f"<{__name__}.Measurement object at {id(self):#x}>", self.title or self.label or ""]
        lines += [f"  Median: {self.median / length:.2f} {unit}", f"  IQR:    {self.iqr / length:.2f} {unit}"]
        runs = "run" if self.number_per_run == 1 else "runs"
        lines.append(
            f"  {len(self.times)} measurements, {self.number_per_run} {runs} per measurement, {self.num_threads} thread"
            f"{'s' * (self.num_threads != 1)}"
        )
        return "\n".join(lines)


class Timer:
    """Stopwatch of a statement, which is run repeatedly.

    Parameters
    ----------
    stmt, setup : str
        The statement to measure, and a statement that runs once before it.
    global_setup : str
        Accepted for compatibility.
    timer : callable
        The clock.
    globals : dict, optional
        The names that both see.
    label, sub_label, description, env : str, optional
        For `Compare`: the table, the row, and the column of the measurement.
    num_threads : int
        The number of threads that NumPy's kernels use during the measurement.
    """

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Any = "python",
    ) -> None:
        if str(getattr(language, "name", language)).lower() not in ("python", "py"):
            raise ValueError("Timer: statements are Python")
        self._timer = timeit.Timer(stmt, setup, timer, dict(globals or {}))
        self._clock = timer
        self._names = (label or stmt, label, sub_label, description)
        self.num_threads, self.env = num_threads, env

    def timeit(self, number: int = 1_000_000) -> Measurement:
        """Measure `number` runs, after a short warm-up."""
        threads = get_num_threads()
        set_num_threads(self.num_threads)
        try:
            self._timer.timeit(max(number // 100, 2))
            return self._measure(number, [self._timer.timeit(number)])
        finally:
            set_num_threads(threads)

    def blocked_autorange(
        self, callback: Callable[[int, float], None] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Measure blocks of runs for at least `min_run_time` seconds. Each block is long enough for the clock."""
        return self._blocks(callback, min_run_time, lambda times: True)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callable[[int, float], None] | None = None,
    ) -> Measurement:
        """Measure like `blocked_autorange`, until the spread of the times is below `threshold` times the median."""

        def is_settled(times: list[float]) -> bool:
            measurement = Measurement(1, times)
            return sum(times) > max_run_time or (len(times) > 3 and measurement.iqr / measurement.median < threshold)

        return self._blocks(callback, min_run_time, is_settled)

    def autorange(self, callback: Callable[[int, float], None] | None = None) -> Measurement:
        """Measure as many runs as take a fifth of a second."""
        number, seconds = self._timer.autorange(callback)
        return self._measure(number, [seconds])

    def collect_callgrind(self, number: int = 100, **settings: Any) -> Any:
        """Raise an error: only time is measured, and no instructions are counted."""
        raise RuntimeError("collect_callgrind: instructions are not counted; use blocked_autorange()")

    def _blocks(
        self, callback: Callable[[int, float], None] | None, least: float, enough: Callable[[list[float]], bool]
    ) -> Measurement:
        threads = get_num_threads()
        set_num_threads(self.num_threads)
        try:
            number = self._block_size(least)
            times: list[float] = []
            while sum(times) < least or not enough(times):
                times.append(self._timer.timeit(number))
                if callback is not None:
                    callback(number, times[-1])
            return self._measure(number, times)
        finally:
            set_num_threads(threads)

    def _block_size(self, least: float) -> int:
        """Return the runs per block: a thousandth of the total time, and at least 100 clock readings."""
        clock = min(timeit.Timer("pass", timer=self._clock).timeit(0) for _ in range(5))
        number, target_time = 1, max(100 * clock, least / 1000)
        self._timer.timeit(1)
        while self._timer.timeit(number) < target_time and number < 10**8:
            number *= 10
        return number

    def _measure(self, number: int, times: list[float]) -> Measurement:
        return Measurement(number, times, *self._names, self.num_threads, self.env)


class Compare:
    """Tables of measurements: a table for each label, a row for each sub-label and a column for each description.

    Parameters
    ----------
    results : sequence of Measurement
    """

    def __init__(self, results: Sequence[Measurement]) -> None:
        self._results = list(results)
        self._figures: int | None = None

    def extend_results(self, results: Sequence[Measurement]) -> None:
        """Add measurements."""
        self._results += results

    def trim_significant_figures(self) -> None:
        """Show two significant figures only."""
        self._figures = 2

    def colorize(self, rowwise: bool = False) -> None:
        """Do nothing, for compatibility: tables have no colours."""

    def highlight_warnings(self) -> None:
        """Do nothing, for compatibility."""

    def print(self) -> None:
        """Print the tables."""
        print(self)

    def __str__(self) -> str:
        merged = Measurement.merge(self._results)
        labels = dict.fromkeys(m.label or m.title for m in merged)
        return "\n\n".join(self._table(label, [m for m in merged if (m.label or m.title) == label]) for label in labels)

    def _table(self, label: str, results: list[Measurement]) -> str:
        unit, length = select_unit(min(m.median for m in results))
        columns = list(dict.fromkeys((m.description or "", m.env or "") for m in results))
        rows: dict[Any, dict[Any, str]] = {}
        for m in results:
            shown = m.median / length
            shown = shown if self._figures is None else trim_sigfig(shown, self._figures)
            row = m.num_threads, m.sub_label or m.title
            rows.setdefault(row, {})[m.description or "", m.env or ""] = f"{shown:.1f}"
        heads = [" ".join(filter(None, column)) for column in columns]
        first = max(len(name) for _, name in rows) + 6
        widths = [max(len(head), 8) for head in heads]
        lines = [f"[{f' {label} ':-^{first + sum(widths) + 5 * len(widths) - 2}}]"]
        lines.append(" " * first + "".join(f"  |  {h:^{w}}" for h, w in zip(heads, widths, strict=True)))
        threads = 0
        for (count, name), cells in sorted(rows.items(), key=lambda pair: pair[0][0]):
            if count != threads:
                lines.append(f"{count} thread{'s' * (count != 1)}: ".ljust(len(lines[0]), "-"))
                threads = count
            values = (cells.get(column, "") for column in columns)
            line = "".join(f"  |  {value:>{width}}" for value, width in zip(values, widths, strict=True))
            lines.append(f"      {name:<{first - 6}}{line}")
        return "\n".join([*lines, "", f"Times are in {_NAMES[unit]} ({unit})."])


paths.show_public(__name__)
