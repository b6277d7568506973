"""``python -m gradcore.compiled``: build compiled kernels for this CPU, or the package's; their status; remove them."""

from __future__ import annotations

import argparse
import sys
import time

from gradcore import compiled


def main(arguments: list[str] | None = None) -> int:
    """Do what the command line says; 1 if the kernels could not be built."""
    parser = argparse.ArgumentParser(prog="python -m gradcore.compiled", description="Compiled kernels for the CPU.")
    parser.add_argument("command", choices=["build", "variants", "status", "remove"], nargs="?", default="build")
    parser.add_argument("--jobs", type=int, help="how many compilers run at a time (default: one for each core)")
    options = parser.parse_args(arguments)
    if options.command in ("build", "variants"):
        start = time.perf_counter()
        try:
            variants = options.command == "variants"
            paths = compiled.build_variants(options.jobs) if variants else [compiled.build(options.jobs)]
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
