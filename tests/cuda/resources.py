"""What kernels take of a device, by ptxas: ``python -m tests.cuda.resources``.

For each kernel, type and architecture: registers of a thread, bytes of shared memory, bytes that are spilled, and
instructions. It needs NVIDIA's wheels ``nvidia-cuda-nvrtc-cu12`` and ``nvidia-cuda-nvcc-cu12``, and CuPy's headers: all
are in the rig's Python, ``~/.cache/cupy-host/venv/bin/python``.
"""

from __future__ import annotations

import argparse
import json
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
from tests.cuda.test_compilation import OPTIONS, generated, own_on_tensor_cores, own_sources
from tests.cuda.test_fused_kernels import HostBackend
from tests.cupy_host.ptx.nvrtc import compile_source

ARCHITECTURES = (75, 80, 90, 100, 120)
#: The architectures and the file of recorded numbers, to which `tests/on_device/test_resources.py` holds kernels, and
#: the page that shows them.
RECORDED = (80, 90, 100)
RECORD = Path(__file__).with_name("resources.json")
PAGE = Path(__file__).parents[2] / "docs" / "cuda-performance.md"
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
    """Yield the resources of the kernels in the package's sources, for the given architectures and types."""
    for name, defines in own_sources():
        kind = " ".join(d.partition("=")[2] for d in defines)
        for architecture in architectures if not types or not kind or kind.split()[0] in types else ():
            yield from resources((INCLUDE / f"{name}.cu").read_text(), kind, architecture, defines)


def examples() -> dict[str, str]:
    """Return generated sources for ``x * y + y`` in float32, dense and broadcast."""
    backend = HostBackend()
    x, y = np.ones((64, 64), np.float32), np.ones((64, 64), np.float32)
    backend.evaluate_formula("multiply_add", lambda F, x, y: x * y + y, x=x, y=y)
    backend.evaluate_formula("multiply_add_broadcast", lambda F, x, y: x * y + y, x=x[:, :1], y=y[:1])
    return backend.batch.sources


def of_generated(architectures: Sequence[int], kinds: Sequence[str]) -> Iterator[Resources]:
    """Yield the resources of generated kernels: two examples, and those of operations in the given dtypes."""
    for kind, sources in {"float32 ": examples(), **{kind: generated(kind) for kind in kinds}}.items():
        for architecture in architectures:
            yield from resources("\n".join(sources.values()), kind.strip(), architecture)


def recorded_sources() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Return the sources and macros of which `RECORD` has the kernels: of float32 and bfloat16, 32-bit places."""
    for name, defines in [*own_sources(), *own_on_tensor_cores()]:
        kind = [d.partition("=")[2] for d in defines]
        if (not kind or kind[0] in ("float", "bfloat16")) and "i64" not in kind[1:]:
            yield name, defines


def measure(name: str, defines: Sequence[str], architecture: int) -> dict[str, list[int]]:
    """Return registers, spilled bytes and instructions of the kernels of a source, by name and types."""
    kind = " ".join(d.partition("=")[2] for d in defines)
    found = resources((INCLUDE / f"{name}.cu").read_text(), kind, architecture, defines)
    return {f"{r.kernel} {kind}".strip(): [r.registers, r.spilled, r.instructions] for r in found}


def compare(architecture: int) -> list[str]:
    """Compile the kernels of `RECORD`; return lines about those that take more, or that it lacks."""
    found: dict[str, list[int]] = {}
    for name, defines in recorded_sources():
        found |= measure(name, defines, architecture)
    return describe_risen(found, architecture)


def describe_risen(found: dict[str, list[int]], architecture: int) -> list[str]:
    """Return lines about kernels whose numbers are above those of `RECORD`, or are not there."""
    recorded, lines = json.loads(RECORD.read_text()), []
    for kernel, numbers in found.items():
        before = recorded.get(kernel, {}).get(str(architecture))
        if before is None:
            lines.append(f"{kernel} is not recorded")
        elif any(now > then for now, then in zip(numbers, before, strict=True)):
            lines.append(f"{kernel} on sm_{architecture}: {numbers}, recorded are {before}")
    return lines


def warps(registers: int) -> int:
    """Return how many warps a multiprocessor has room for by their registers: sm_80, sm_90 and sm_100 have 65,536."""
    return min(64, 65536 // (-(-registers // 8) * 8 * 32) // 4 * 4)


def record(files: Sequence[str]) -> None:
    """Measure kernels, all or those of some files, and write `RECORD` and the table of docs/cuda-performance.md."""
    found: dict[str, dict[str, list[int]]] = json.loads(RECORD.read_text()) if files else {}
    for name, defines in recorded_sources():
        if files and name not in files:
            continue
        for architecture in RECORDED:
            for kernel, numbers in measure(name, defines, architecture).items():
                found.setdefault(kernel, {})[str(architecture)] = numbers
    RECORD.write_text(json.dumps(found, indent=None, separators=(",", ":")).replace("},", "},\n") + "\n")
    heading = "| kernel, types | " + " | ".join(f"sm_{a}" for a in RECORDED) + " |"
    lines = [heading, "| --- |" + " --- |" * len(RECORDED)]
    for kernel, of in sorted(found.items()):
        cells = (f"{r} / {spilled} / {count} / {warps(r)}" for r, spilled, count in of.values())
        lines.append(f"| `{kernel}` | " + " | ".join(cells) + " |")
    text = PAGE.read_text()
    PAGE.write_text(text[: text.index(heading)] + "\n".join(lines) + "\n")


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
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--architectures", type=int, nargs="+", default=ARCHITECTURES)
    parser.add_argument("--types", nargs="+", default=[], help="such as float and bfloat16, of the package's sources")
    parser.add_argument("--generated", nargs="+", default=[], help="dtypes, as float32, of kernels of operations")
    parser.add_argument("--record", nargs="*", metavar="FILE", help="write the numbers that kernels are held to")
    parser.add_argument("--compare", type=int, metavar="ARCHITECTURE", help="with what is recorded; 1 if it rises")
    arguments = parser.parse_args()
    os.environ.pop("CUPY_HOST", None)
    if arguments.record is not None:
        record(arguments.record)
        return
    if arguments.compare:
        risen = compare(arguments.compare)
        sys.exit("\n".join(risen) if risen else 0)
    found = list(of_generated(arguments.architectures, arguments.generated))
    sys.stdout.write(table([*found, *own(arguments.architectures, arguments.types)]) + "\n")


if __name__ == "__main__":
    main()
