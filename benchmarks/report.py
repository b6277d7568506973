"""Results as tables and as JSON."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any, Self

from benchmarks import starting
from benchmarks.goals import COMPILED_GOALS, GOALS, IMPORT_GOAL
from benchmarks.libraries import LIBRARIES, TITLES
from benchmarks.measure import Result
from benchmarks.workers import Worker

FORMAT = 3


class Report:
    """The results of one run, seen from one library, the baseline.

    Parameters
    ----------
    results : sequence of Result
        In the order in which they are shown.
    baseline : str
        The library whose time is 1.
    about : mapping
        What the figures belong to: device, threads, versions, and the machine's own rates.
    """

    def __init__(self, results: Sequence[Result], baseline: str, about: Mapping[str, Any]) -> None:
        self.results, self.baseline, self.about = list(results), baseline, dict(about)
        self.by_case: dict[str, dict[str, Result]] = {}
        self.by_group: dict[str, list[str]] = {}
        for result in results:
            case = f"{result.group}: {result.case}"
            self.by_case.setdefault(case, {})[result.library] = result
            cases = self.by_group.setdefault(result.group, [])
            if case not in cases:
                cases.append(case)
        present = {r.library for r in results}
        self.libraries = [name for name in LIBRARIES if name in present]
        self.problems = [r for r in results if r.problem]

    def ratios(self, case: str, library: str) -> list[float]:
        """Return the library's time over the baseline's, round by round; empty where one is missing.

        First calls have none: what they cost is a time.
        """
        if case.partition(": ")[0] in starting.GROUPS:
            return []
        found, base = self.by_case[case].get(library), self.by_case[case].get(self.baseline)
        if found is None or base is None or not found.values or not base.values:
            return []
        return found.ratios(base)

    def group_means(self) -> dict[str, dict[str, float]]:
        """Return, for every group and library, the geometric mean of the median ratios."""
        means: dict[str, dict[str, float]] = {}
        for group, cases in self.by_group.items():
            for library in self.libraries:
                medians = [median(ratios) for case in cases if (ratios := self.ratios(case, library))]
                if len(medians) == len(cases):  # a mean over other cases would compare unlike things
                    means.setdefault(group, {})[library] = geometric_mean(medians)
        return means

    # -- tables ---------------------------------------------------------------------------------------------------

    def tables(self) -> dict[str, list[str]]:
        """Return the lines of every table that has something to say, by its name."""
        made = {
            "about": self._about(), "ratios": self._ratios(), "goals": self._goals(),
            "compiled": self._compiled_goals(), "shares": self._shares(), "device": self._device_times(),
            "nodes": self._nodes(), "left out": self._left_out(),
        }  # fmt: skip
        return {name: lines for name, table in made.items() if (lines := list(table))}

    def text(self) -> str:
        """Return all tables, for a terminal."""
        return "\n\n".join("\n".join(lines) for lines in self.tables().values())

    def _about(self) -> Iterator[str]:
        yield from (f"{key}: {value}" for key, value in self.about.items() if key != "rates")
        rates = self.about.get("rates")
        if rates:
            yield f"rates: copy {rates['copy'] / 1e9:.3g} GB/s, matmul {rates['matmul'] / 1e9:.3g} GFLOP/s"

    def _ratios(self) -> Iterator[str]:
        yield f"Time (or memory) over {self.baseline}'s: median of the rounds [least-largest]; below 1 is better."
        others = [library for library in self.libraries if library != self.baseline]
        means = self.group_means()
        rows: list[list[str]] = []
        for group, cases in self.by_group.items():
            rows.append([group, self.baseline, *(TITLES[o] for o in others)])
            for case in cases:
                base = self.by_case[case].get(self.baseline)
                shown = _quantity(base) if base is not None and base.values else "-"
                rows.append([f"  {_name(case)}", shown, *(self._cell(case, library) for library in others)])
            mean = means.get(group, {})
            rows.append(["  geometric mean", "1.00", *(_ratio(mean[o]) if o in mean else "-" for o in others)])
        yield from _aligned(rows)

    def _cell(self, case: str, library: str) -> str:
        if ratios := self.ratios(case, library):
            return f"{_ratio(median(ratios))} [{_ratio(min(ratios))}-{_ratio(max(ratios))}]"
        found = self.by_case[case].get(library)
        if found is None or found.skipped:
            return "-"
        return "failed" if found.problem else _quantity(found)

    def goals(self, library: str = "gradcore") -> list[tuple[str, float, float]]:
        """Return group, goal and what was reached, for the groups that were measured with PyTorch."""
        means = self.group_means() if self.baseline == "torch" else {}
        rows = [(g, goal, means[g][library]) for g, goal in GOALS.items() if library in means.get(g, {})]
        found = self.by_case.get("import: Import", {}).get(library)
        if found is not None and found.values:
            rows.append(("import, seconds beyond NumPy", IMPORT_GOAL, found.median))
        return rows

    def _goals(self) -> Iterator[str]:
        for library in ("gradcore", "gradcore-numpy"):
            found = self.goals(library)
            rows = [[f"  {n}", _ratio(a), _ratio(b), "reached" if b <= a else "missed"] for n, a, b in found]
            if rows:
                yield "Goals: geometric means of gradcore's ratios to torch."
                yield from _aligned([["  group", "goal", TITLES[library], ""], *rows])

    def compiled_goals(
        self, library: str, goals: Mapping[str, Mapping[str, float]]
    ) -> Iterator[tuple[str, str, float, float]]:
        """Yield group, whom it is measured against, goal and what was reached; of several the fastest counts."""
        for group, cases in self.by_group.items():
            for others, goal in goals.get(group, {}).items():
                found = [self._against(case, library, others.split(" or ")) for case in cases]
                known = [ratio for ratio in found if ratio is not None]
                if known:
                    yield group, others, goal, geometric_mean(known)

    def _against(self, case: str, library: str, others: Sequence[str]) -> float | None:
        """Return the median ratio of the library's times to the fastest other one, or None if one is missing."""
        own = self.by_case[case].get(library)
        rivals = [r for r in map(self.by_case[case].get, others) if r is not None and r.values]
        if own is None or not own.values or not rivals:
            return None
        return median(own.ratios(min(rivals, key=lambda r: r.median)))

    def _compiled_goals(self) -> Iterator[str]:
        for library, goals in COMPILED_GOALS.items():
            rows = [
                [f"  {group}", others, _ratio(goal), _ratio(found), "reached" if found <= goal else "missed"]
                for group, others, goal, found in self.compiled_goals(library, goals)
            ]
            if rows:
                yield f"Goals of {TITLES[library]}: geometric means over the cases that both run."
                yield from _aligned([["  group", "against", "goal", "reached", ""], *rows])

    def _shares(self) -> Iterator[str]:
        """How near the machine's own rates gradcore comes."""
        rates = self.about.get("rates")
        measured = [r for r in self.results if r.library == "gradcore" and r.values and r.unit == "s"]
        rows = []
        for r in measured if rates else ():
            seconds = median(r.device) if r.device else r.median
            shares = [
                amount / seconds / rate for amount, rate in ((r.traffic, rates["copy"]), (r.flops, rates["matmul"]))
            ]
            if max(shares) >= 0.01:
                rows.append([f"  {r.case}", *(f"{s:.0%}" if s else "-" for s in shares)])
        if rows:
            yield "Shares of the machine's rates: bytes that have to move, of a copy's; products, of a large product's."
            yield from _aligned([["  gradcore", "copy", "matmul"], *rows])

    def _device_times(self) -> Iterator[str]:
        rows = [
            [f"  {r.case}", r.library, *(_time(median(column)) for column in (r.values, r.host, r.device))]
            for r in self.results
            if r.device
        ]
        if rows:
            yield "On the GPU: all of the time, until everything was queued, and the device's own."
            yield from _aligned([["  case", "", "total", "host", "device"], *rows])

    def _nodes(self) -> Iterator[str]:
        rows = [
            [f"  {r.case}", r.library, f"{r.median / r.nodes * 1e9:.0f}"] for r in self.results if r.nodes and r.values
        ]
        if rows:
            yield "Nanoseconds a node, forward and backward."
            yield from _aligned(rows)

    def _left_out(self) -> Iterator[str]:
        reasons: dict[tuple[str, str], list[str]] = {}
        for r in self.results:
            if r.problem or r.skipped:
                reasons.setdefault((r.library, r.problem or r.skipped), []).append(r.case)
        if reasons:
            yield "Not measured."
            yield from (f"  {library}: {', '.join(cases)}: {why}" for (library, why), cases in reasons.items())

    def markdown(self) -> str:
        """Return the ratios as a table in Markdown: for each group its geometric means, and a row for each case."""
        others = [library for library in self.libraries if library != self.baseline]
        means = self.group_means()
        rows = [["case", self.baseline, *(TITLES[o] for o in others)], ["---"] * (2 + len(others))]
        for group, cases in self.by_group.items():
            mean = means.get(group, {})
            rows.append([f"**{group}**", "", *(f"**{_ratio(mean[o])}**" if o in mean else "" for o in others)])
            for case in cases:
                base = self.by_case[case].get(self.baseline)
                shown = _quantity(base) if base is not None and base.values else ""
                rows.append([f"&nbsp; {_name(case)}", shown, *(self._cell(case, o).strip("-") for o in others)])
        about = "\n".join(f"{line}  " for line in self._about())
        return about + "\n\n" + "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"

    # -- files ----------------------------------------------------------------------------------------------------

    def save_json(self, path: Path) -> None:
        """Write everything that was measured, with the ratios worked out."""
        rows = []
        for r in self.results:
            ratios = self.ratios(f"{r.group}: {r.case}", r.library)
            filled = {key: value for key, value in asdict(r).items() if value or key in ("case", "group", "library")}
            rows.append({**filled, "median_ratio": median(ratios) if ratios else None})
        content = {
            "format": FORMAT, "about": self.about, "baseline": self.baseline, "group_means": self.group_means(),
            "goals": [dict(zip(("group", "goal", "reached"), goal, strict=True)) for goal in self.goals()],
            "results": rows,
        }  # fmt: skip
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save_json` wrote."""
        content = json.loads(path.read_text())
        if content.get("format") != FORMAT:
            raise ValueError(f"{path} was written by another version of the benchmarks")
        rows = [{key: value for key, value in row.items() if key != "median_ratio"} for row in content["results"]]
        return cls([Result(**row) for row in rows], content["baseline"], content["about"])


def describe(
    device: str, threads: int, ready: Mapping[str, Worker], missing: Mapping[str, str], rates: Mapping[str, float]
) -> dict[str, Any]:
    """Return what the figures belong to."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="minutes"),
        "device": _cuda_name() if device == "cuda" else _cpu_name(),
        "threads": threads,
        "python": platform.python_version(),
        "libraries": ", ".join(f"{name} {worker.version}" for name, worker in ready.items()),
        "left out": "; ".join(f"{name}: {reason}" for name, reason in missing.items()) or "none",
        "rates": dict(rates),
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


def _name(case: str) -> str:
    return case.partition(": ")[2]


def _ratio(value: float) -> str:
    return f"{value:.2f}" if value >= 0.095 else f"{value:.1g}"


def _quantity(result: Result) -> str:
    return _time(result.median) if result.unit == "s" else f"{result.median / 2**20:.0f} MiB"


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
