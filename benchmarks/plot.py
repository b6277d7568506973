"""Results as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, StrMethodFormatter

from benchmarks.report import Report

MARKS = {  # colours that people who confuse red and green can tell apart, and a shape each
    "gradcore": ("#d55e00", "D"),
    "torch": ("#000000", "o"),
    "torch.compile": ("#999999", "o"),
    "jax": ("#0072b2", "s"),
    "autograd": ("#009e73", "^"),
    "numpy": ("#e69f00", "v"),
    "cupy": ("#cc79a7", "v"),
}


def save_plot(report: Report, path: Path) -> None:
    """Draw a row a case and a mark a library, at its time over the baseline's; bars span the rounds.

    Parameters
    ----------
    report : Report
        What is drawn.
    path : Path
        Where to; the ending decides the format.
    """
    cases = [case for case in report.by_case if report.ratios(case, report.baseline)]
    libraries = [library for library in report.libraries if library != report.baseline]
    figure = Figure(figsize=(9, 1.8 + 0.32 * len(cases)), layout="constrained")
    axes = figure.add_subplot(xscale="log", xlabel=f"time over {report.baseline}'s: left of 1 is faster")
    for place, library in enumerate(libraries):
        _draw(axes, report, cases, library, shift=0.6 * ((place + 0.5) / len(libraries) - 0.5))
    axes.axvline(1, color=MARKS[report.baseline][0], linewidth=1, label=report.baseline)
    _name_rows(axes, report, cases)
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 3) if len(cases) > 1 else (1, 2, 5)))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.xaxis.set_minor_formatter("")
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)
    threads = report.about["threads"]
    axes.set_title(f"{report.about['device']}, {threads} CPU thread{'s' * (threads > 1)}", fontsize=9)
    figure.legend(loc="outside upper center", ncols=len(libraries) + 1, frameon=False)
    figure.savefig(path, dpi=130)


def _draw(axes: Axes, report: Report, cases: Sequence[str], library: str, shift: float) -> None:
    found = ((row, report.ratios(case, library)) for row, case in enumerate(cases))
    points = [(row + shift, ratios) for row, ratios in found if ratios]
    if not points:
        return
    rows, ratios = zip(*points, strict=True)
    middles = [median(r) for r in ratios]
    left = [middle - min(r) for middle, r in zip(middles, ratios, strict=True)]
    right = [max(r) - middle for middle, r in zip(middles, ratios, strict=True)]
    colour, marker = MARKS[library]
    axes.errorbar(
        middles,
        rows,
        xerr=[left, right],
        fmt=marker,
        markersize=4,
        elinewidth=1,
        color=colour,
        label=library,
    )


def _name_rows(axes: Axes, report: Report, cases: Sequence[str]) -> None:
    groups = [next(iter(report.by_case[case].values())).group for case in cases]
    names = [f"{group}: {case}" for group, case in zip(groups, cases, strict=True)]
    axes.set_yticks(range(len(cases)), names, fontsize=8)
    axes.set_ylim(len(cases) - 0.5, -0.5)
    for row in range(1, len(cases)):
        axes.axhline(row - 0.5, color="0.6" if groups[row] != groups[row - 1] else "0.93", linewidth=0.8)
