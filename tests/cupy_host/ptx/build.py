"""A CUDA source as a library for the rig, by NVRTC, its PTX and g++; `host/compiler.cpp` runs it as a command.

``python build.py SOURCE LIBRARY [--header NAME FILE] [--expression NAME SYMBOL] -- OPTIONS OF NVRTC``. Errors of the
source are printed, with exit code 6.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from nvrtc import CompileError, compile_source
from translate import Unsupported, translate

#: Without any optimisation the registers of large kernels need more than a thread's stack.
FLAGS = (
    "-std=c++17", "-Og", "-fPIC", "-w", "-fwrapv", "-fno-strict-aliasing", "-ffp-contract=off",
    "-fvisibility=hidden", "-fno-math-errno",
)  # fmt: skip


def built(text: str, library: Path) -> None:
    """Compile what `translate` made; an error keeps the text beside the library."""
    source = library.with_suffix(".cpp")
    source.write_text(text)
    header = Path(__file__).with_name("instructions.h")
    compiled = Path(f"{header}.gch")
    if not compiled.exists() or compiled.stat().st_mtime < header.stat().st_mtime:
        partial = compiled.with_suffix(f".{os.getpid()}")
        _run(["g++", *FLAGS, "-x", "c++-header", str(header), "-o", str(partial)], header)
        partial.rename(compiled)
    _run(["g++", *FLAGS, f"-I{header.parent}", "-shared", str(source), "-o", str(library)], source)


def _run(command: list[str], source: Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unsupported(f"{source}:\n{done.stderr[:4000]}")


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("library", type=Path)
    parser.add_argument("--header", nargs=2, action="append", default=[])
    parser.add_argument("--expression", nargs=2, action="append", default=[])
    split = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    arguments, options = parser.parse_args(sys.argv[1:split]), sys.argv[split + 1 :]
    expressions = dict(arguments.expression)
    headers = {name: Path(path).read_text() for name, path in arguments.header}
    try:
        ptx, lowered = compile_source(arguments.source.read_text(), options, headers, list(expressions))
        arguments.library.with_suffix(".ptx").write_text(ptx)
        built(translate(ptx, {lowered[e]: symbol for e, symbol in expressions.items()}), arguments.library)
    except (CompileError, Unsupported) as error:
        print(error, file=sys.stderr)
        return 6
    return 0


if __name__ == "__main__":
    sys.exit(main())
