"""Results as a picture."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, StrMethodFormatter

from benchmarks.goals import GOALS
from benchmarks.libraries import TITLES
from benchmarks.report import Report

MARKS = {  # colours that people who confuse red and green can tell apart, and a shape each
    "gradcore": ("#d55e00", "D"),
    "gradcore-numpy": ("#d55e00", "x"),
    "gradcore-compile": ("#d55e00", "s"),
    "gradcore-compile-flush": ("#d55e00", "*"),
    "gradcore-compile-numpy": ("#d55e00", "+"),
    "torch": ("#000000", "o"),
    "torch.compile": ("#999999", "o"),
    "jax": ("#0072b2", "s"),
    "autograd": ("#009e73", "^"),
    "numpy": ("#e69f00", "v"),
    "cupy": ("#cc79a7", "v"),
}
SPAN = (0.02, 10)
"""Ratios beyond are drawn at the edge."""


def save_plot(report: Report, path: Path) -> None:
    """Draw a row a case and a mark a library, at its time over the baseline's; bars span the rounds.

    Parameters
    ----------
    report : Report
        What is drawn.
    path : Path
        Where to; the ending decides the format.
    """
    columns = list(_columns(report))
    rows = max(sum(len(cases) + 1 for _, cases in column) for column in columns)
    figure = Figure(figsize=(2 + 6 * len(columns), 1.6 + 0.2 * rows), layout="constrained")
    panels = figure.subplots(1, len(columns), squeeze=False, sharex=True)[0]
    for axes, column in zip(panels, columns, strict=True):
        _draw_column(axes, report, column, rows)
    handles, labels = panels[0].get_legend_handles_labels()
    threads = report.about["threads"]
    figure.suptitle(
        f"Time (or memory) over {report.baseline}'s: left of 1 is better. "
        f"{report.about['device']}, {threads} CPU thread{'s' * (threads > 1)}. Short grey line: gradcore's goal",
        fontsize=9,
    )
    unique = dict(zip(labels, handles, strict=True))
    figure.legend(unique.values(), unique.keys(), loc="outside lower center", ncols=len(unique), frameon=False)
    figure.savefig(path, dpi=130)


Groups = list[tuple[str, list[str]]]


def _columns(report: Report) -> Iterator[Groups]:
    """Arrange the groups and their cases in one column, or in two if there are many."""
    groups = [
        (group, measured)
        for group, cases in report.by_group.items()
        if (measured := [c for c in cases if any(report.ratios(c, name) for name in report.libraries)])
    ]
    total = sum(len(cases) + 1 for _, cases in groups)
    if total < 40:
        yield groups
        return
    place = 0
    for half in (0, 1):
        column = []
        while place < len(groups) and (half or sum(len(c) + 1 for _, c in column) < total / 2):
            column.append(groups[place])
            place += 1
        yield column


def _draw_column(axes: Axes, report: Report, column: Groups, rows: int) -> None:
    labels: list[tuple[float, str]] = []
    others = [library for library in report.libraries if library != report.baseline]
    row = 0
    for group, cases in column:
        axes.axhspan(row - 0.5, row + 0.5, color="0.92")
        labels.append((row, group.upper()))
        goal = GOALS.get(group) if report.baseline == "torch" else None
        if goal is not None:
            axes.plot([goal, goal], [row + 0.5, row + len(cases) + 0.5], color="0.6", linewidth=1, zorder=1)
        for case in cases:
            row += 1
            labels.append((row, case.partition(": ")[2]))
            for place, library in enumerate(others):
                shift = 0.7 * ((place + 0.5) / len(others) - 0.5)
                _mark(axes, report.ratios(case, library), library, row + shift)
        row += 1
    axes.axvline(1, color=MARKS[report.baseline][0], linewidth=1, label=TITLES[report.baseline])
    axes.set_yticks([place for place, _ in labels], [text for _, text in labels], fontsize=7)
    axes.set_ylim(rows - 0.5, -0.5)
    axes.set_xscale("log")
    axes.set_xlim(SPAN[0] * 0.9, SPAN[1] * 1.1)
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.xaxis.set_minor_formatter("")
    axes.tick_params(axis="x", labelsize=7)
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)


def _mark(axes: Axes, ratios: Sequence[float], library: str, row: float) -> None:
    if not ratios:
        return
    least, middle, largest = (math.exp(_clipped(r)) for r in (min(ratios), median(ratios), max(ratios)))
    colour, marker = MARKS[library]
    axes.errorbar(
        [middle], [row], xerr=[[middle - least], [largest - middle]], fmt=marker, markersize=3, elinewidth=0.7,
        color=colour, label=TITLES[library],
    )  # fmt: skip


def _clipped(ratio: float) -> float:
    return math.log(min(max(ratio, SPAN[0]), SPAN[1]))
