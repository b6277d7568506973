"""Results as a table and as JSON."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

from benchmarks.libraries import LIBRARIES, Library
from benchmarks.measure import Result


class Report:
    """The results of one run, seen from one library, the baseline.

    Parameters
    ----------
    results : sequence of Result
        In the order in which they are shown.
    baseline : str
        The library whose time is 1.
    about : mapping
        What the figures belong to: device, threads, versions.
    """

    def __init__(self, results: Sequence[Result], baseline: str, about: Mapping[str, Any]) -> None:
        self.results, self.baseline, self.about = list(results), baseline, dict(about)
        self.by_case: dict[str, dict[str, Result]] = {}
        for result in results:
            self.by_case.setdefault(result.case, {})[result.library] = result
        self.libraries = sorted({r.library for r in results}, key=list(LIBRARIES).index)
        self.problems = [r for r in results if r.problem]

    def ratios(self, case: str, library: str) -> list[float]:
        """Return the library's time over the baseline's, round by round; empty where one is missing."""
        found, base = self.by_case[case].get(library), self.by_case[case].get(self.baseline)
        if found is None or base is None or not found.seconds or not base.seconds:
            return []
        return found.ratios(base)

    def group_means(self) -> dict[str, dict[str, float]]:
        """Return, for every group and library, the geometric mean of the median ratios."""
        means: dict[str, dict[str, float]] = {}
        for group, rows in groupby(self.results, lambda r: r.group):
            cases = dict.fromkeys(r.case for r in rows)
            for library in self.libraries:
                medians = [median(ratios) for case in cases if (ratios := self.ratios(case, library))]
                if len(medians) == len(cases):  # a mean over other cases would compare unlike things
                    means.setdefault(group, {})[library] = geometric_mean(medians)
        return means

    def text(self) -> str:
        """Return the tables for a terminal."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield from (f"{key}: {value}" for key, value in self.about.items())
        yield ""
        yield f"Time over {self.baseline}'s: median of the rounds [least-largest]; below 1 is faster."
        others = [library for library in self.libraries if library != self.baseline]
        means = self.group_means()
        rows: list[list[str]] = []
        for group, results in groupby(self.results, lambda r: r.group):
            rows.append([group, self.baseline, *others])
            for case in dict.fromkeys(r.case for r in results):
                base = self.by_case[case].get(self.baseline)
                shown = _time(base.median) if base is not None and base.seconds else "-"
                rows.append([f"  {case}", shown, *(self._cell(case, library) for library in others)])
            mean = means.get(group, {})
            rows.append(["  geometric mean", "1.00", *(_ratio(mean[o]) if o in mean else "-" for o in others)])
        yield from _aligned(rows)
        per_node = [r for r in self.results if r.nodes and r.seconds]
        if per_node:
            yield from ("", "Nanoseconds a node, forward and backward.")
            yield from _aligned([f"  {r.case}", r.library, f"{r.median / r.nodes * 1e9:.0f}"] for r in per_node)
        if self.problems:
            yield from ("", "Not measured.")
            yield from (f"  {r.case}, {r.library}: {r.problem}" for r in self.problems)

    def _cell(self, case: str, library: str) -> str:
        if ratios := self.ratios(case, library):
            return f"{_ratio(median(ratios))} [{_ratio(min(ratios))}-{_ratio(max(ratios))}]"
        found = self.by_case[case].get(library)
        if found is None:
            return "-"
        return "failed" if found.problem else _time(found.median)

    def save_json(self, path: Path) -> None:
        """Write everything that was measured, with the ratios worked out."""
        rows = [
            {
                "case": r.case,
                "group": r.group,
                "library": r.library,
                "problem": r.problem,
                "seconds": r.seconds,
                "median_ratio": median(ratios) if (ratios := self.ratios(r.case, r.library)) else None,
                "median_seconds_per_node": r.median / r.nodes if r.nodes and r.seconds else None,
            }
            for r in self.results
        ]
        content = {
            "about": self.about,
            "baseline": self.baseline,
            "results": rows,
            "group_means": self.group_means(),
        }
        path.write_text(json.dumps(content, indent=1) + "\n")


def describe(device: str, threads: int, ready: Mapping[str, Library], missing: Mapping[str, str]) -> dict[str, Any]:
    """Return what the figures belong to."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="minutes"),
        "device": _cuda_name() if device == "cuda" else _cpu_name(),
        "threads": threads,
        "python": platform.python_version(),
        "libraries": ", ".join(f"{name} {library.version}" for name, library in ready.items()),
        "left out": "; ".join(f"{name}: {reason}" for name, reason in missing.items()) or "none",
    }


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor() or platform.machine())


def _cuda_name() -> str:
    import cupy

    return str(cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)["name"].decode())


def _ratio(value: float) -> str:
    return f"{value:.2f}" if value >= 0.095 else f"{value:.1g}"


def _time(seconds: float) -> str:
    units = (("s", 1), ("ms", 1e3), ("us", 1e6))
    unit, scale = next((pair for pair in units if seconds * pair[1] >= 1), units[-1])
    return f"{seconds * scale:.3g} {unit}"


def _aligned(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *rest in rows:
        cells = (cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))
        yield "  ".join([first.ljust(widths[0]), *cells]).rstrip()
