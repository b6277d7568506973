"""Command line ``python -m gradcore.compiled``: build compiled kernels, show their status, or remove them."""

from __future__ import annotations

import argparse
import functools
import sys
import time

from gradcore.tools import compiled


def main(arguments: list[str] | None = None) -> int:
    """Run the command line, and return 1 if the kernels could not be built, else 0."""
    parser = argparse.ArgumentParser(prog="python -m gradcore.compiled", description="Compiled kernels for the CPU.")
    parser.add_argument("command", choices=["build", "variants", "status", "remove"], nargs="?", default="build")
    parser.add_argument("--jobs", type=int, help="how many compilers run at a time (default: one for each core)")
    parser.add_argument("--this-cpu", action="store_true", help="with variants: only the one that this CPU uses")
    options = parser.parse_args(arguments)
    if options.command in ("build", "variants"):
        start = time.perf_counter()
        report = functools.partial(print, flush=True)
        try:
            if options.command == "variants":
                paths = compiled.build_variants(options.jobs, options.this_cpu, report)
            else:
                paths = [compiled.build(options.jobs, report)]
        except compiled.BuildError as error:
            print(error, file=sys.stderr)
            return 1
        print(f"Built in {time.perf_counter() - start:.0f} s: {', '.join(map(str, paths))}")
    elif options.command == "remove":
        print(f"Removed: {compiled.remove()}")
    else:
        print(f"Compiled kernels are {compiled.state()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
