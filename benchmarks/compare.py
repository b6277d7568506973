"""Compare gradcore with other libraries: ``python -m benchmarks.compare --help``."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import random
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.threads import limit_threads

if TYPE_CHECKING:
    from benchmarks.measure import Result, Sample
    from benchmarks.report import Report
    from benchmarks.timing import Plan
    from benchmarks.workers import Worker

    Job = tuple[Result, Mapping[str, Callable[[], Sample]], list[Result]]


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads of every library (default: 1)")
    parser.add_argument("--cpu-time", action="store_true", help="measure CPU time: for a machine that others use, too")
    parser.add_argument("--only", default="", metavar="REGEX", help="cases whose 'group: name' matches")
    parser.add_argument("--libraries", default="", metavar="A,B", help="instead of all that are installed")
    parser.add_argument("--baseline", default="", help="whose time is 1 (default: torch, else numpy, cupy)")
    parser.add_argument("--quick", action="store_true", help="small sizes and few rounds: a smoke test")
    parser.add_argument("--seed", type=int, help="of the order in which things are measured")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every time to FILE")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table of ratios to FILE")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the ratios into FILE (.png, .svg)")
    parser.add_argument("--show", type=Path, metavar="FILE", help="measure nothing: show what --json wrote")
    return parser.parse_args(arguments)


def compare(options: argparse.Namespace) -> Report:
    """Measure what `options` ask for."""
    # Imported here: NumPy must not be loaded before the threads are limited.
    from benchmarks import measure, timing
    from benchmarks.libraries import LIBRARIES, QUICK
    from benchmarks.rates import measure_rates
    from benchmarks.report import Report, describe
    from benchmarks.workers import open_workers

    names = options.libraries.split(",") if options.libraries else list(QUICK if options.quick else LIBRARIES)
    unknown = sorted({*names, options.baseline} - {*LIBRARIES, ""})
    if unknown:
        raise SystemExit(f"no such library: {', '.join(unknown)}; there are {', '.join(LIBRARIES)}")
    ready, missing = open_workers(names, options.device, options.threads)
    baseline = options.baseline or next(
        (name for name in ("torch", "numpy", "cupy") if name in ready), next(iter(ready), "")
    )
    if baseline not in ready:
        raise SystemExit(f"no baseline: {missing or 'nothing to compare'}")
    if options.cpu_time and options.device != "cpu":
        raise SystemExit(f"--cpu-time says nothing about the device {options.device!r}")
    plan = dataclasses.replace(timing.QUICK if options.quick else timing.FULL, cpu_time=options.cpu_time)
    if options.threads > 1:
        plan = dataclasses.replace(plan, pause=0.04, warm_up=0.06)
    order = random.Random(options.seed)

    wanted = [job for job in jobs(options, ready, plan) if re.search(options.only, f"{job[0].group}: {job[0].case}")]
    if not wanted:
        raise SystemExit(f"no case matches {options.only!r}; names are such as 'tiny: TanhSum-100'")
    measured: dict[int, list[measure.Result]] = {}
    for count, number in enumerate(order.sample(range(len(wanted)), len(wanted)), start=1):
        blank, makers, skipped = wanted[number]
        print(f"[{count}/{len(wanted)}] {blank.case}", file=sys.stderr, flush=True)
        measured[number] = [*measure.measure(blank, makers, plan, order), *skipped]
    results = [result for number in range(len(wanted)) for result in measured[number]]
    about = describe(options.device, options.threads, ready, missing, measure_rates(options.device))
    about["clock"] = "CPU time, but for first calls" if options.cpu_time else "wall time"
    return Report(results, baseline, {**about, "plan": "quick" if options.quick else "full"})


def jobs(options: argparse.Namespace, ready: Mapping[str, Worker], plan: Plan) -> Iterator[Job]:
    """All that can be measured: a blank result, how each library is made ready, and who is left out."""
    from benchmarks import measure, memory, starting
    from benchmarks.cases import every_case
    from benchmarks.measure import Result

    if options.device == "cpu":
        imported = [name for name in ready if name != "numpy" and "compile" not in name]
        yield (
            Result("Import", "import", ""),
            {name: functools.partial(measure.import_sample, name, plan.cpu_time) for name in imported},
            [],
        )
    for case in every_case(options.quick):
        blank = Result(case.name, case.group, "", nodes=case.size * case.counts_nodes)
        blank.traffic, blank.flops = case.traffic, case.flops
        reasons = {name: case.reason_to_skip(name, options.device) for name in ready}
        makers = {
            name: functools.partial(measure.prepare_sample, worker, case, plan)
            for name, worker in ready.items()
            if reasons[name] is None and worker.kind.has_program(case)
        }
        skipped = [Result(case.name, case.group, name, skipped=why) for name, why in reasons.items() if why]
        if makers:
            yield blank, makers, skipped
    for number, (case, _) in enumerate(memory.CASES[: 1 if options.quick else None]):
        makers = {
            name: functools.partial(measure.memory_sample, name, options.device, number)
            for name, worker in ready.items()
            if memory.measurable(name, options.device) and worker.kind.has_program(case)
        }
        yield Result(case.name, "memory", "", unit="B"), makers, []
    for group, again in starting.GROUPS.items():
        for number, case in enumerate(starting.CASES[: 1 if options.quick else None]):
            makers = {
                name: functools.partial(measure.starting_sample, name, options.device, number, again)
                for name, worker in ready.items()
                if case.reason_to_skip(name, options.device) is None and worker.kind.has_program(case)
                and (worker.kind.compiling_calls or not again)
            }  # fmt: skip
            yield Result(case.name, group, ""), makers, []


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison; 1 where a result was wrong or a library failed."""
    options = parse(arguments)
    limit_threads(options.threads)
    if options.show:
        from benchmarks.report import Report

        report = Report.load(options.show)
    else:
        report = compare(options)
    print(report.text())
    if options.json:
        report.save_json(options.json)
    if options.markdown:
        options.markdown.write_text(report.markdown(), encoding="utf-8")
    if options.plot:
        from benchmarks.plot import save_plot

        save_plot(report, options.plot)
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
