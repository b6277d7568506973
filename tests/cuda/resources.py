"""What kernels take of a device, by ptxas: ``python -m tests.cuda.resources``.

For each kernel, type and architecture: registers of a thread, bytes of shared memory, bytes that are spilled, and
instructions. It needs NVIDIA's wheels ``nvidia-cuda-nvrtc-cu12`` and ``nvidia-cuda-nvcc-cu12``, and CuPy's headers: all
are in the rig's Python, ``~/.cache/cupy-host/venv/bin/python``.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gradcore.backends.cupy.kernels import INCLUDE
from tests.cuda.host import includes
from tests.cuda.test_compilation import OPTIONS, generated, own_sources
from tests.cuda.test_fused_kernels import HostBackend
from tests.cupy_host.ptx.nvrtc import compile_source

ARCHITECTURES = (75, 80, 90, 100, 120)
_WORDS = re.compile(
    r"Compiling entry function '(\w+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
    r".*?Used (\d+) registers([^\n]*)",
    re.DOTALL,
)


class Resources(NamedTuple):
    """What a kernel takes."""

    kernel: str
    kind: str
    architecture: int
    registers: int
    shared: int
    spilled: int
    instructions: int


def ptxas() -> str | None:
    """Where ptxas is: beside this Python's packages, or on the path."""
    import sysconfig

    own = Path(sysconfig.get_paths()["purelib"], "nvidia/cuda_nvcc/bin/ptxas")
    return str(own) if own.exists() else shutil.which("ptxas")


def resources(source: str, kind: str, architecture: int, defines: Sequence[str] = ()) -> list[Resources]:
    """Those of all kernels of a source."""
    assembler = ptxas()
    if assembler is None:
        raise FileNotFoundError("ptxas is not installed: pip install nvidia-cuda-nvcc-cu12")
    options = [f"-arch=compute_{architecture}", "-ftz=true", *OPTIONS, *defines, *includes()]
    with tempfile.TemporaryDirectory() as folder:
        ptx, cubin = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        ptx.write_text(compile_source(source, options)[0])
        command = [assembler, "-v", f"-arch=sm_{architecture}", str(ptx), "-o", str(cubin)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr)
        counts = instructions(cubin.read_bytes())
    found = []
    for name, _, stored, loaded, registers, rest in _WORDS.findall(done.stderr):
        shared = re.search(r"(\d+) bytes smem", rest)
        spilled = int(stored) + int(loaded)
        found.append(
            Resources(name, kind, architecture, int(registers), int(shared[1]) if shared else 0, spilled, counts[name])
        )
    return found


def instructions(cubin: bytes) -> dict[str, int]:
    """How many instructions each kernel has, without those that fill up its end: each takes 16 bytes."""
    (start,), (size, count, names) = struct.unpack_from("<Q", cubin, 40), struct.unpack_from("<HHH", cubin, 58)
    headers = [struct.unpack_from("<IIQQQQ", cubin, start + i * size) for i in range(count)]
    strings = headers[names][4]
    found = {}
    for name, _, _, _, at, length in headers:
        text = cubin[strings + name : cubin.index(b"\0", strings + name)].decode()
        if text.startswith(".text."):
            words = np.frombuffer(cubin, "<u8", length // 8, at)[::2]
            found[text[6:]] = int(((words & 0xFFF) != 0x918).sum())  # NOP
    return found


def own(architectures: Sequence[int], types: Sequence[str]) -> Iterator[Resources]:
    """The kernels in the package's sources; of those that are compiled for several types these, or all."""
    for name, defines in own_sources():
        kind = " ".join(d.partition("=")[2] for d in defines)
        for architecture in architectures if not types or not kind or kind.split()[0] in types else ():
            yield from resources((INCLUDE / f"{name}.cu").read_text(), kind, architecture, defines)


def examples() -> dict[str, str]:
    """Generated sources: ``x * y + y`` of dense arrays, and of columns and rows, in float32."""
    backend = HostBackend()
    x, y = np.ones((64, 64), np.float32), np.ones((64, 64), np.float32)
    backend.evaluated("multiply_add", lambda F, x, y: x * y + y, x=x, y=y)
    backend.evaluated("multiply_add_broadcast", lambda F, x, y: x * y + y, x=x[:, :1], y=y[:1])
    return backend.batch.sources


def of_generated(architectures: Sequence[int], kinds: Sequence[str]) -> Iterator[Resources]:
    """The kernels of operations that are generated, and two that are looked at for their instructions."""
    for kind, sources in {"float32 ": examples(), **{kind: generated(kind) for kind in kinds}}.items():
        for architecture in architectures:
            yield from resources("\n".join(sources.values()), kind.strip(), architecture)


def table(found: Sequence[Resources]) -> str:
    """One line for each kernel and type, and those that spill once more at the end."""
    architectures = sorted({r.architecture for r in found})
    rows: dict[tuple[str, str], dict[int, Resources]] = {}
    for r in found:
        rows.setdefault((r.kernel, r.kind), {})[r.architecture] = r
    lines = ["registers / shared memory / spilled / instructions", ""]
    lines += [f"{'kernel':44} {'type':18}" + "".join(f"{f'sm_{a}':>22}" for a in architectures)]
    for (kernel, kind), of in rows.items():
        each = [f"{r.registers} / {r.shared} / {r.spilled} / {r.instructions}" for r in of.values()]
        lines.append(f"{kernel[:44]:44} {kind:18}" + "".join(f"{text:>22}" for text in each))
    spilling = [r for r in found if r.spilled]
    lines += [
        "",
        f"{len(found)} kernels, {len(spilling)} of which spill; at most {max(r.registers for r in found)} registers",
    ]
    return "\n".join([*lines, *(f"    {r.kernel} {r.kind} sm_{r.architecture}: {r.spilled} bytes" for r in spilling)])


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--architectures", type=int, nargs="+", default=ARCHITECTURES)
    parser.add_argument("--types", nargs="+", default=[], help="such as float and bfloat16, of the package's sources")
    parser.add_argument("--generated", nargs="+", default=[], help="dtypes, as float32, of kernels of operations")
    arguments = parser.parse_args()
    os.environ.pop("CUPY_HOST", None)
    found = list(of_generated(arguments.architectures, arguments.generated))
    sys.stdout.write(table([*found, *own(arguments.architectures, arguments.types)]) + "\n")


if __name__ == "__main__":
    main()
