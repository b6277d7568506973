"""Sphinx extension: ``benchmark-results`` shows the newest run of every device, number of threads and baseline."""

from __future__ import annotations

import sys
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
sys.path.append(str(ROOT))

from benchmarks.report import Report  # noqa: E402  (found through the path that was added)

SHOWN = {
    "goals": "Goals",
    "compiled": "Goals of compiled programs",
    "ratios": "Times and memory",
    "shares": "Beside what the machine can do",
    "device": "Host and device",
    "nodes": "Nodes",
    "left out": "Left out",
}


def newest() -> dict[tuple[str, str, int], tuple[Path, Report]]:
    """Return the newest run for every baseline, device and number of threads. Files in other formats are ignored."""
    found: dict[tuple[str, str, int], tuple[Path, Report]] = {}
    for path in sorted(RESULTS.glob("*.json")):
        try:
            report = Report.load(path)
        except ValueError:
            continue
        key = (report.baseline, report.about["device"], report.about["threads"])
        if key not in found or found[key][1].about["date"] <= report.about["date"]:
            found[key] = path, report
    return found


class BenchmarkResults(Directive):
    """Tables and plots of recorded runs."""

    def run(self) -> list[nodes.Node]:
        shown: list[nodes.Node] = []
        for (baseline, device, threads), (path, report) in sorted(newest().items(), reverse=True):
            where = f"{device}, {threads} CPU thread{'s' * (threads > 1)}, {report.about['date'][:10]}"
            title = f"Over {baseline}: {where}"
            section = nodes.section(ids=[nodes.make_id(title)])
            section += nodes.title(text=title)
            section += nodes.paragraph(text=f"Python {report.about['python']}, {report.about['libraries']}.")
            picture = path.with_suffix(".png")
            if picture.exists():
                section += nodes.image(uri=f"../benchmarks/results/{picture.name}", alt="Ratios of times, as a picture")
            for name, lines in report.tables().items():
                if name in SHOWN:
                    section += nodes.paragraph("", "", nodes.strong(text=SHOWN[name]))
                    section += nodes.literal_block(text="\n".join(lines), language="text")
            shown.append(section)
        return shown or [nodes.paragraph(text="No run is recorded yet.")]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive with Sphinx."""
    app.add_directive("benchmark-results", BenchmarkResults)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
