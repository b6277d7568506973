"""CUDA sources compiled by g++ and run on NumPy arrays, in the place of `cupy.RawModule`.

What a kernel is given is compared with its signature: the number of arguments and the type of each, which on a GPU
nothing would do.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradcore.backends.cupy import kernels as cupy_kernels
from tests.strict import device
from tests.strict.capture import queued
from tests.strict.watching import tell

HERE = Path(__file__).parent
CUDA = cupy_kernels.INCLUDE
#: In the place of compute-sanitizer: with ``GRADCORE_TEST_SANITIZE=address,undefined`` GCC's sanitizers watch kernels.
#: Accesses beyond arrays, overflows of signed integers and misaligned addresses then end the tests with a report. For
#: `address` Python needs the rest of `sanitized` too: ``env $(python -m tests.cuda.host) pytest -s tests/cuda/...``.
SANITIZE = os.environ.get("GRADCORE_TEST_SANITIZE", "")
FLAGS = (
    *("-std=c++17", "-ffp-contract=off", "-fno-strict-aliasing", "-w", "-shared", "-fPIC"),
    *((f"-fsanitize={SANITIZE}", "-fno-sanitize-recover=all", "-g") if SANITIZE else ()),
)
KERNEL = re.compile(r'extern "C" __global__ void (?:__launch_bounds__\(\w+\) )?(\w+)\(')

#: The names that g++ gives to types, by NumPy's.
MANGLED = {
    "bool": "b", "int8": "a", "uint8": "h", "int16": "s", "uint16": "t", "int32": "i", "uint32": "j", "int64": "x",
    "uint64": "y", "float32": "f", "float64": "d", "float16": "N8gradcore7float16E", "bfloat16": "N8gradcore8bfloat16E",
    "complex64": "complexIfEE", "complex128": "complexIdEE",
}  # fmt: skip


@functools.cache
def cupy_include() -> Path | None:
    """CuPy's folder of headers, which has complex numbers; None if CuPy is not installed."""
    import importlib.util

    spec = importlib.util.find_spec("cupy")
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0], "_core", "include")


def includes() -> list[str]:
    """Return the include options of the sources."""
    cupy = cupy_include()
    return [
        f"-I{CUDA}",
        *([f"-I{cupy}", f"-I{cupy}/cupy/_cccl/thrust", f"-I{cupy}/cupy/_cccl/libcudacxx"] if cupy else []),
    ]


def needs_compiler() -> None:
    """Skip, visibly, where there is no g++."""
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed: CUDA sources are not run on the host")


class HostLibrary:
    """Kernels of one or several sources, compiled for the host.

    Parameters
    ----------
    sources : iterable of str
        CUDA sources whose kernels have different names.
    options : sequence of str
        Further options.
    """

    def __init__(self, sources: Iterable[str], options: Iterable[str] = ("-O1",)) -> None:
        text = "\n".join(sources)
        names = kernel_names(text)
        text = "\n".join(['#include "host.h"', text, *(f"LAUNCHER({name})" for name in names), ""])
        self.names = names
        self._library = _compiled(text, tuple(options))

    def __getitem__(self, name: str) -> Callable[..., None]:
        return HostKernel(self._library, name)


def sanitized() -> dict[str, str]:
    """Return the environment in which Python runs kernels under GCC's sanitizers, or skip if there are none."""
    needs_compiler()
    # C++'s library with the other one: what throws exceptions, SciPy for one, must be known to it from the start.
    found = [
        subprocess.run(["g++", f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout.strip()
        for name in ("libasan.so", "libstdc++.so")
    ]
    if not all(map(os.path.isabs, found)):
        pytest.skip("GCC's sanitizers are not installed")
    return {
        "GRADCORE_TEST_SANITIZE": "address,undefined",
        "LD_PRELOAD": ":".join(found),
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONMALLOC": "malloc",
    }


@functools.cache
def kept_in() -> Path:
    """Where libraries are kept: between runs if ``GRADCORE_TEST_CACHE`` names a folder."""
    kept = os.environ.get("GRADCORE_TEST_CACHE")
    if kept:
        return Path(kept)
    folder = Path(tempfile.mkdtemp(prefix="gradcore-kernels-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def kernel_names(text: str) -> list[str]:
    """Return the names of the kernels of a source."""
    return list(dict.fromkeys(KERNEL.findall(_expanded(text))))


def _expanded(text: str) -> str:
    """Expand the macros of a source that concatenate names."""
    if "void philox_uniform_##" not in text:
        return text
    command = ["g++", "-E", "-P", "-x", "c++", f"-I{CUDA}", "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def _compiled(text: str, options: tuple[str, ...]) -> ctypes.CDLL:
    needs_compiler()
    headers = b"".join(path.read_bytes() for path in sorted([*CUDA.glob("*.cu*"), HERE / "host.h"]))
    digest = hashlib.sha256(repr((text, FLAGS, options)).encode() + headers).hexdigest()[:24]
    folder = kept_in()
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / f"{digest}.so"
    if not library.exists():
        source = folder / f"{digest}.{os.getpid()}.cpp"
        source.write_text(text)
        partial = library.with_suffix(f".{os.getpid()}")
        # The folder of the precompiled header comes first, so that `host.h` is found there.
        searched = [f"-I{_precompile_header(folder, options)}", f"-I{HERE}", *includes()]
        command = ["g++", *FLAGS, *options, *searched, str(source), "-o", str(partial)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert not done.returncode, f"{source} does not compile:\n{done.stderr[:4000]}"
        partial.rename(library)
        source.unlink()
    return ctypes.CDLL(str(library))


def _precompile_header(folder: Path, options: tuple[str, ...]) -> Path:
    """Return a folder with `host.h`, compiled for these options: reading it takes half of the time of most kernels."""
    level = [option for option in options if option.startswith("-O")]
    content = (HERE / "host.h").read_bytes()
    digest = hashlib.sha256(repr((FLAGS, level, sys.version)).encode() + content).hexdigest()[:24]
    place = folder / f"header-{digest}"
    if not place.exists():
        partial = Path(tempfile.mkdtemp(prefix="header-", dir=folder))
        (partial / "host.h").write_bytes(content)
        command = ["g++", *FLAGS, *level, *includes(), "-x", "c++-header", "host.h", "-o", "host.h.gch"]
        subprocess.run(command, cwd=partial, capture_output=True, check=True)
        with contextlib.suppress(OSError):  # another process may have been faster
            partial.rename(place)
        shutil.rmtree(partial, ignore_errors=True)
    return place


class Batch:
    """Compiles many sources at once: kernels can be made and launched at any time; until `build` they write zeros."""

    def __init__(self) -> None:
        self.sources: dict[str, str] = {}
        self.library: dict[str, Callable[..., None]] = {}

    def compile(self, source: str, name: str) -> Callable[..., None]:
        unique = f"{name}_{len(self.sources)}"
        self.sources[unique] = source.replace(f" void {name}(", f" void {unique}(")

        (parameters,) = re.findall(rf" void {name}\((.*?)\)", source)
        written = [i for i, p in enumerate(parameters.split(",")) if "*" in p and "const" not in p]

        def kernel(grid: tuple[int, ...], block: tuple[int, ...], arguments: tuple[Any, ...]) -> None:
            if unique in self.library:
                self.library[unique](grid, block, arguments)
                return
            for i in written:
                getattr(arguments[i], "_a", arguments[i])[...] = 0

        return kernel

    def build(self, parts: int = 2) -> None:
        """Compile what was collected, in several processes."""
        names = [name for name in self.sources if name not in self.library]
        groups = [names[i::parts] for i in range(min(parts, len(names)))]
        with ThreadPoolExecutor(parts) as pool:
            made = pool.map(lambda group: HostLibrary((self.sources[n] for n in group), ("-O0",)), groups)
            for library in made:
                self.library.update((name, library[name]) for name in library.names)


class HostKernel:
    """A kernel, launched as CuPy's are: ``kernel(grid, block, arguments)``."""

    def __init__(self, library: ctypes.CDLL, name: str) -> None:
        self.name = name
        self._launch = getattr(library, f"launch_{name}")
        types = getattr(library, f"types_{name}")
        types.restype = ctypes.c_char_p
        names = types().decode().split()
        names = [re.sub(r"N6thrust.*7complex", "complex", name) for name in names]
        self.types = [{"l": "x", "m": "y"}.get(name, name) for name in names]
        sizes = getattr(library, f"sizes_{name}")
        sizes.restype = ctypes.POINTER(ctypes.c_size_t)
        self.sizes = sizes()[: len(self.types)]
        assert sum(self.sizes) <= 4096, f"{name} has arguments of {sum(self.sizes)} bytes"

    def __call__(self, grid: tuple[int, ...], block: tuple[int, ...], arguments: tuple[Any, ...]) -> None:
        assert len(arguments) == len(self.types), (
            f"{self.name} takes {len(self.types)} arguments and is given {len(arguments)}"
        )
        held = [self._argument(i, value) for i, value in enumerate(arguments)]
        places = (ctypes.c_void_p * len(held))(*(array.ctypes.data for array in held))
        dims = (ctypes.c_uint * 6)(*(*grid, 1, 1)[:3], *(*block, 1, 1)[:3])

        def launch(arrays: Any = (held, arguments)) -> None:  # what a captured launch needs stays alive
            self._launch(dims, places)

        queued(launch)

    def _argument(self, place: int, value: Any) -> np.ndarray[Any, Any]:
        """Convert an argument to an array in memory, after checking its type."""
        found = self.types[place]
        if hasattr(value, "_a"):  # a strict array
            assert value.index == device.current(), f"argument {place} of {self.name} is on another device"
            value = value._a
        if value is cupy_kernels.NULL:
            assert found.startswith("P"), f"argument {place} of {self.name} is no pointer"
            return np.array([value])
        if value.dtype.type is np.void:  # the bytes of a structure, by value
            value = value.base
            assert re.fullmatch(r"N8gradcore\d+(Parts|Heads)E", found), f"argument {place} of {self.name}: {found}"
            assert value.size == 1, f"argument {place} of {self.name}: CuPy takes arrays of one element by value"
            assert value.nbytes == self.sizes[place], f"argument {place} of {self.name} has {self.sizes[place]} bytes"
            for row, addresses in enumerate(value["addresses"][0] if "addresses" in value.dtype.names else ()):
                for address in addresses[addresses != 0]:
                    tell().used_at(int(address), writes=row == 0)
            return value
        wanted = MANGLED[value.dtype.name]
        if isinstance(value, np.ndarray):
            assert found in (f"P{wanted}", f"PK{wanted}"), f"argument {place} of {self.name}: {found}, not {wanted}*"
            (tell().read if found.startswith("PK") else tell().written)(value)
            return np.array([value.ctypes.data], np.uintp)
        assert isinstance(value, np.generic), f"argument {place} of {self.name} is a {type(value).__name__}"
        assert found == wanted, f"argument {place} of {self.name}: {found}, not {wanted}"
        return np.array([value])


class HostModule:
    """`cupy.RawModule` on the host."""

    def __init__(self, *, code: str, options: tuple[str, ...] = (), **named: Any) -> None:
        assert "-std=c++17" in options
        self._library = HostLibrary([code], ("-O0", *(o for o in options if o.startswith("-D"))))

    def get_function(self, name: str) -> Callable[..., None]:
        return self._library[name]


@contextlib.contextmanager
def launched() -> Iterator[dict[str, int]]:
    """Count the launches of kernels by name."""
    counts: dict[str, int] = {}
    plain = HostKernel.__call__

    def call(kernel: HostKernel, *args: Any) -> None:
        counts[kernel.name] = counts.get(kernel.name, 0) + 1
        plain(kernel, *args)

    HostKernel.__call__ = call  # type: ignore[method-assign, assignment]
    try:
        yield counts
    finally:
        HostKernel.__call__ = plain  # type: ignore[method-assign]


if __name__ == "__main__":
    print(*(f"{name}={value}" for name, value in sanitized().items()))
