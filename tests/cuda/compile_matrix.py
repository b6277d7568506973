"""All CUDA sources by one NVRTC, in pieces: ``python -m tests.cuda.compile_matrix --state FILE``.

A piece stops after ``--seconds``; the state file has what is done, so that the next piece goes on. Sources that are
equal with their macros and the files that they include are compiled once. `GRADCORE_TEST_NVRTC` is the path of a
compiler (``libnvrtc.so``) other than the rig's. It runs in the rig's Python: CuPy has the headers of complex
numbers, and generates the sources of some kernels.

Each source is compiled for one architecture of each of its code paths. What a compiler is given depends on the
architecture only where `__CUDA_ARCH__` is compared with a number, in a source or a header: `thresholds` reads these
numbers, and `test_where_architectures_differ` checks that there is one, 800, around the instructions that round to
bfloat16 and that copy to shared memory. A source with neither is the same program for every architecture, others are
one for those below and one for those from 8.0 on. Tensor cores are used from 8.0 on. ``--all`` compiles for the lowest
and highest architecture of each generation instead, which shows something of the compiler alone.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import hashlib
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise, product
from pathlib import Path
from typing import NamedTuple

import pytest

from gradcore.backends.codegen import launch
from gradcore.backends.cupy.kernels import INCLUDE
from tests.cuda.host import cupy_include, includes
from tests.cuda.test_compilation import OPTIONS, generated, own_on_tensor_cores, own_sources, quick_options
from tests.cupy_host.ptx import nvrtc

#: The architectures of a generation, for ``--all``: before Ampere, Ampere, Hopper, Blackwell.
GENERATIONS = ((70, 75), (80, 89), (90, 90), (100, 121))
#: The dtypes of generated kernels.
DTYPES = ("float32", "float16", "bfloat16", "float64", "complex64", "complex128", "uint8", "int32", "int64", "bool")


#: How the names of kernels begin that CuPy generates.
OF_CUPY = "CuPy's"

#: Generated sources that are compiled together: most of the time is that of the headers.
TOGETHER = 25


class Unit(NamedTuple):
    """A source with its macros, or several sources without."""

    name: str
    text: str
    defines: tuple[str, ...] = ()
    sources: int = 1

    @property
    def digest(self) -> str:
        """Return a digest of what makes sources differ: the text and the macros."""
        return hashlib.sha256("\n".join([self.text, *self.defines]).encode()).hexdigest()[:20]


@functools.cache
def supported() -> list[int]:
    """Return the compiler's architectures from 7.0 on, the lowest first."""
    library, count = ctypes.CDLL(str(nvrtc.library())), ctypes.c_int()
    library.nvrtcGetNumSupportedArchs(ctypes.byref(count))
    known = (ctypes.c_int * count.value)()
    library.nvrtcGetSupportedArchs(known)
    return sorted(n for n in known if n >= GENERATIONS[0][0])


def ends_of_generations() -> list[int]:
    """Return the lowest and the highest architecture of each generation that the compiler has."""
    found = []
    for low, high in GENERATIONS:
        generation = [n for n in supported() if low <= n <= high]
        found += sorted({generation[0], generation[-1]}) if generation else []
    return found


def headers() -> list[Path]:
    """Return the files that kernels are made of: sources and headers of the package, headers of CuPy's complex."""
    cupy = cupy_include()
    return sorted([*INCLUDE.glob("*.cu*"), *(cupy.glob("cupy/complex/*") if cupy else ())])


@functools.cache
def thresholds() -> dict[int, list[str]]:
    """Return the architectures that `__CUDA_ARCH__` is compared with, and the lines that do so."""
    found: dict[int, list[str]] = {}
    for path in headers():
        for line in path.read_text().splitlines():
            for number in re.findall(r"__CUDA_ARCH__ *[<>=!]=? *(\d+)", line):
                found.setdefault(int(number) // 10, []).append(f"{path.name}: {line}")
    return found


def included(text: str) -> set[str]:
    """Return the names of the package's headers that a source includes, by others too."""
    found: set[str] = set()
    left = re.findall(r'#include "(\w+\.cuh)"', text)
    while left:
        name = left.pop()
        if name not in found and (INCLUDE / name).exists():
            found.add(name)
            left += re.findall(r'#include "(\w+\.cuh)"', (INCLUDE / name).read_text())
    return found


def code_paths(unit: Unit) -> list[int]:
    """Return an architecture for each program that a unit is: the lowest that the compiler has."""
    limits = pairwise([0, *sorted(thresholds()), 1000])
    paths = [[n for n in supported() if low <= n < high] for low, high in limits]
    lowest = [path[0] for path in paths if path]
    if unit.name.startswith(OF_CUPY):
        return lowest  # CuPy's headers ask for the architecture, too.
    differs = any("bfloat16" in each for each in (unit.text, *unit.defines)) or "heads.cuh" in included(unit.text)
    return lowest if differs and "-DGRADCORE_TENSOR=1" not in unit.defines else lowest[-1:]


def of_cupy() -> Iterator[Unit]:
    """Return the sources that CuPy generates for kernels of the package, each once.

    Another process generates them: the rig's libraries take the place of NVRTC's functions in it.
    """
    command = [sys.executable, "-m", "tests.cuda.cupy_sources"]
    run = subprocess.run(command, env={**os.environ, "CUPY_HOST": "1"}, capture_output=True, text=True, check=True)
    for name, text, options in json.loads(run.stdout):
        yield Unit(f"{OF_CUPY} {name}", text, tuple(options))


def units() -> Iterator[Unit]:
    """Return the package's sources, and those that operations and CuPy generate, each once."""
    yield from of_cupy()
    for name, defines in dict.fromkeys([*own_sources(), *own_on_tensor_cores(), ("philox", ())]):
        yield Unit(name, (INCLUDE / f"{name}.cu").read_text(), defines)
    for dtype, most in product(DTYPES, (launch.MOST_OF_32_BITS, 0)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(launch, "MOST_OF_32_BITS", most)  # 0: as if arrays were large
            found = generated(dtype)
        for is_complex in (False, True):
            names = [name for name, text in found.items() if ("complex.cuh" in text) == is_complex]
            for i in range(0, len(names), TOGETHER):
                part = names[i : i + TOGETHER]
                text = "\n".join(found[name] for name in part)
                size = "" if most else ", large arrays"
                yield Unit(f"{dtype} {part[0]} to {part[-1]}{size}", text, (), len(part))


def main() -> None:
    """Parse the command line, compile a piece and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--state", type=Path, required=True, help="file of what is done")
    parser.add_argument("--seconds", type=float, default=600, help="after which the piece ends")
    parser.add_argument("--all", action="store_true", help="for all generations of architectures")
    arguments = parser.parse_args()
    end = time.monotonic() + arguments.seconds
    of_headers = hashlib.sha256(b"".join(p.read_bytes() for p in sorted(INCLUDE.glob("*.cuh")))).hexdigest()[:12]
    done: dict[str, str] = json.loads(arguments.state.read_text()) if arguments.state.exists() else {}
    release = ".".join(map(str, nvrtc.version()[1:]))
    pairs = [
        (f"{of_headers} {release} {architecture} {unit.digest}", unit, architecture)
        for unit in units()
        for architecture in (ends_of_generations() if arguments.all else code_paths(unit))
    ]
    left = [pair for pair in pairs if pair[0] not in done]
    # Drawn in an order that is the same each time, so that each piece has some of all.
    left.sort(key=lambda pair: hashlib.sha256(pair[0].encode()).digest())
    for key, unit, architecture in left:
        if time.monotonic() > end:
            break
        options = [f"--gpu-architecture=compute_{architecture}", *OPTIONS, *quick_options(), *unit.defines, *includes()]
        # Warnings are errors, but for architectures that the compiler calls deprecated, and for CuPy's sources: CuPy
        # ignores them, and NVRTC 13 warns of a type in the headers of CUDA 12.
        strict = architecture >= 75 and not unit.name.startswith(OF_CUPY)
        try:
            nvrtc.compile_source(unit.text, options, strict=strict)
            done[key] = ""
        except nvrtc.CompileError as error:
            done[key] = f"{unit.name} {' '.join(unit.defines)}: {error}"
        arguments.state.write_text(json.dumps(done))
    mine = {key: done[key] for key, _, _ in pairs if key in done}
    tried: Counter[int] = Counter()
    for key, unit, architecture in pairs:
        tried[architecture] += unit.sources if key in mine else 0
    failed = [text for text in mine.values() if text]
    sys.stdout.write(
        f"NVRTC {release}: {tried.total()} of {sum(unit.sources for _, unit, _ in pairs)} pairs of a source and an "
        f"architecture compiled ({dict(tried)}), {len(failed)} with errors\n" + "".join(f"{t}\n" for t in failed)
    )
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
