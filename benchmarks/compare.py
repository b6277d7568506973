"""Compare gradcore with other libraries: ``python -m benchmarks.compare --help``."""

from __future__ import annotations

import argparse
import functools
import random
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.threads import limit_threads

if TYPE_CHECKING:
    from benchmarks.report import Report


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads of every library (default: 1)")
    parser.add_argument("--only", default="", metavar="REGEX", help="cases whose 'group: name' matches")
    parser.add_argument("--libraries", default="", metavar="A,B", help="instead of all that are installed")
    parser.add_argument("--baseline", default="", help="whose time is 1 (default: torch, else numpy, cupy)")
    parser.add_argument("--quick", action="store_true", help="small sizes and few rounds: a smoke test")
    parser.add_argument("--seed", type=int, help="of the order in which things are measured")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every time to FILE")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the ratios into FILE (.png, .svg)")
    return parser.parse_args(arguments)


def compare(options: argparse.Namespace) -> Report:
    """Measure what `options` ask for."""
    # Imported here: NumPy must not be loaded before the threads are limited.
    from benchmarks import measure
    from benchmarks.cases import every_case
    from benchmarks.libraries import DEFAULT, open_libraries
    from benchmarks.report import Report, describe

    names = options.libraries.split(",") if options.libraries else list(DEFAULT)
    ready, missing = open_libraries(names, options.device)
    baseline = options.baseline or next(
        (name for name in ("torch", "numpy", "cupy") if name in ready), next(iter(ready), "")
    )
    if baseline not in ready:
        raise SystemExit(f"no baseline: {missing or 'nothing to compare'}")
    plan = measure.QUICK if options.quick else measure.FULL
    order = random.Random(options.seed)

    jobs = {}  # group and name, number of nodes, and how each library is made ready
    if options.device == "cpu":
        makers = {
            name: functools.partial(measure.import_sample, library.module)
            for name, library in ready.items()
            if name != "numpy"
        }
        jobs["import", "Import"] = 0, makers
    for case in every_case(options.quick):
        jobs[case.group, case.name] = (
            case.size * case.counts_nodes,
            {
                name: functools.partial(measure.prepare_sample, library, case, plan)
                for name, library in ready.items()
                if case.reason_to_skip(name, options.device) is None
            },
        )

    wanted = [key for key in jobs if re.search(options.only, f"{key[0]}: {key[1]}")]
    measured = {}
    for count, key in enumerate(order.sample(wanted, len(wanted)), start=1):
        print(f"[{count}/{len(wanted)}] {key[1]}", file=sys.stderr, flush=True)
        measured[key] = measure.measure(*key, *jobs[key], plan, order)
    results = [result for key in wanted for result in measured[key]]
    return Report(results, baseline, describe(options.device, options.threads, ready, missing))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison; 1 where a result was wrong or a library failed."""
    options = parse(arguments)
    limit_threads(options.threads)
    report = compare(options)
    print(report.text())
    if options.json:
        report.save_json(options.json)
    if options.plot:
        from benchmarks.plot import save_plot

        save_plot(report, options.plot)
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
