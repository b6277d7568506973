"""Libraries of native segments: compiled once, cached in the user's folder, and loaded by later processes."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from gradcore.backends.compiled.building import BuildError, find_compiler
from gradcore.backends.compiled.cache import cache_folder
from gradcore.backends.compiled.library import FLAGS, HERE, NATIVE, PHILOX, _processor, compute_digest, distrust
from gradcore.backends.compiled.workplaces import workplace
from gradcore.backends.numpy import threads
from gradcore.backends.numpy.openblas import NUMPY
from gradcore.backends.registry import CPU
from gradcore.compiler.targets.native.files import find_library, is_whole_library, write_library

__all__ = ["describe_build", "has_blas", "has_libraries", "has_vector_functions", "library_of", "load_functions"]

#: Options for faster compilation than with those of the library, whose optimizations do not pay off here.
_OPTIONS = ("-O2", "-ftree-vectorize", "-fwrapv", "-fvisibility=hidden", "-shared")
_FOLDER = Path(__file__).parent
_HEADERS = _FOLDER / "program.h", Path(PHILOX)


class _Tools(ctypes.Structure):
    """The C++ struct ``gradcore::Tools``."""

    _fields_ = (
        ("items", ctypes.c_int64), ("share", ctypes.c_void_p), ("multiply_f", ctypes.c_void_p),
        ("multiply_d", ctypes.c_void_p), ("long_integers", ctypes.c_int64), ("correlate_f", ctypes.c_void_p),
        ("correlate_d", ctypes.c_void_p), ("windows_f", ctypes.c_void_p), ("windows_d", ctypes.c_void_p),
    )  # fmt: skip


@functools.cache
def has_blas() -> bool:
    """Return whether NumPy's BLAS exports CBLAS functions."""
    return all(NUMPY.function(name) is not None for name in ("sgemm", "dgemm"))


@functools.cache
def _compiler() -> tuple[str, str]:
    """Return the compiler command and its version text."""
    path = find_compiler()
    version = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20, check=False).stdout
    return path, version


@functools.cache
def has_vector_functions() -> bool:
    """Return whether loops call vector functions of the C library (``GRADCORE_VECTORS`` in ``program.h``)."""
    library, version = platform.libc_ver()
    try:
        by_gcc = "Free Software Foundation" in _compiler()[1]
    except BuildError:
        return False
    is_recent = library == "glibc" and tuple(map(int, version.split(".")[:2])) >= (2, 35)
    return is_recent and by_gcc and platform.machine() == "x86_64"


def _name(source: str) -> str:
    """Return the stem of a library's name: a digest of source, compiler and CPU."""
    headers = [header.read_text() for header in _HEADERS]
    parts = [source, *headers, compute_digest(), *_compiler(), repr((_OPTIONS, NATIVE)), sys.prefix]
    return f"program-{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:32]}"


def describe_build() -> str:
    """Return a text of everything except sources that libraries depend on, without the slow compiler call."""
    path, machine = find_compiler(), _processor()
    status, vectors = os.stat(path), os.confstr("CS_GNU_LIBC_VERSION") if hasattr(os, "confstr") else ""
    return repr((path, status.st_size, status.st_mtime_ns, vectors, machine, FLAGS, NATIVE, _OPTIONS, sys.prefix))


def has_libraries() -> bool:
    """Return whether the cache contains libraries of programs."""
    folder = cache_folder()
    return folder is not None and os.path.isdir(os.path.join(folder, "programs"))


def library_of(source: str) -> Path:
    """Return the library of a source, compiled now if it does not exist.

    Raises
    ------
    BuildError
        If there is no compiler or no folder, or the compiler fails.
    """
    kept_in = cache_folder()
    if kept_in is None:
        raise BuildError("There is no absolute folder for libraries. Set GRADCORE_CACHE to one.")
    folder, name = Path(kept_in) / "programs", _name(source)
    path = find_library(folder, name)
    if path is not None:
        with suppress(OSError):
            os.utime(path)
        return path
    try:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        if problem := distrust(folder):
            raise BuildError(problem)
        with workplace(folder) as place:
            return write_library(folder, name, _compile(source, place))
    except (OSError, subprocess.SubprocessError) as error:
        raise BuildError(f"The program cannot be built: {error}") from None


def _compile(source: str, folder: Path) -> bytes:
    """Compile a source in a folder, and return the library."""
    text, library = folder / "program.cpp", folder / "program.so"
    text.write_text(source)
    flags = [*(flag for flag in FLAGS if flag != "-O3"), *NATIVE, *_OPTIONS]
    folders = [f"-I{each}" for each in (HERE, _FOLDER, os.path.dirname(PHILOX))]
    command = [_compiler()[0], *flags, *folders, str(text), "-o", str(library)]
    nice = shutil.which("nice")  # Compile at low priority.
    process = subprocess.run(
        [nice, *command] if nice else command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True, timeout=300, check=False, process_group=0,
    )  # fmt: skip
    if process.returncode:
        raise BuildError(f"The compiler failed: {' '.join(command)}\n{process.stderr[:4000]}")
    return library.read_bytes()


@functools.cache
def _tools() -> _Tools:
    """Return the functions and data that the process passes to its libraries."""
    library = getattr(CPU.backend, "library", None)

    def address(name: str) -> int:
        function = getattr(library, name, None)
        return 0 if function is None else ctypes.cast(function, ctypes.c_void_p).value or 0

    (sgemm, long), (dgemm, _) = (NUMPY.function(name) or (0, False) for name in ("sgemm", "dgemm"))
    convolution = [address(f"gradcore_program_{name}_{char}") for name in ("correlate", "sum_windows") for char in "fd"]
    return _Tools(tuple.__basicsize__, address("gradcore_share"), sgemm, dgemm, long, *convolution)


def load_functions(path: Path, first: int, parts: Sequence[tuple[bool, bool]]) -> list[Callable[..., Any]]:
    """Load a library; return the functions of its segments from `first` on, which take a tuple of arrays.

    Parameters
    ----------
    path : Path
    first : int
    parts : sequence of (bool, bool)
        `PartPlan.in_threads` and `PartPlan.multiplies` of each segment.

    Raises
    ------
    OSError
        If the library is damaged, if another user could have changed it, or if it cannot read the arrays of this
        interpreter.
    """
    problem = distrust(path.parent) or distrust(path)
    if problem is not None:
        raise OSError(problem)
    if not is_whole_library(path):
        raise OSError(f"{path} is damaged")
    library = ctypes.CDLL(str(path))
    begin = library.gradcore_program_begin
    begin.argtypes, begin.restype = [ctypes.c_int64, ctypes.c_void_p], None
    begin(object.__basicsize__, ctypes.addressof(_tools()))
    _check(library)
    return [_function(library, i, *each) for i, each in enumerate(parts, first)]


def _check(library: ctypes.CDLL) -> None:
    """Raise OSError unless the library reads this interpreter's arrays correctly."""
    describe = library.gradcore_program_describe
    describe.argtypes, describe.restype = [ctypes.py_object, ctypes.c_int64, ctypes.c_void_p], None
    description = (ctypes.c_int64 * 5)()
    if sys.implementation.name != "cpython":
        raise OSError("the arrays of this interpreter have another memory layout than expected")
    numbers = np.arange(24.0).reshape(4, 6)
    arrays = numbers, numbers.T, numbers[1:3]
    for i, array in enumerate(arrays):
        describe(arrays, i, description)
        flags = array.flags.aligned
        if list(description) != [array.ctypes.data, array.ndim, flags, array.shape[0], array.strides[1]]:
            raise OSError("the arrays of this interpreter have another memory layout than expected")


def _function(library: ctypes.CDLL, number: int, in_threads: bool, multiplies: bool) -> Callable[..., Any]:
    """Return the Python function of a segment, which takes a tuple of arrays; see `load_functions`."""
    address = ctypes.cast(getattr(library, f"part{number}"), ctypes.c_void_p).value or 0
    if not in_threads:  # The call is short, so it keeps the GIL.
        short: Any = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.py_object)(address)
        return short  # type: ignore[no-any-return]
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.py_object, ctypes.c_int64)(address)
    available = threads.available

    def run_in_threads(given: tuple[Any, ...]) -> Any:
        return function(given, available())

    def run_alone(given: tuple[Any, ...]) -> Any:
        number = available()
        if number < 2:
            return function(given, number)
        with NUMPY.alone():  # Threads of BLAS would compete with those of the segment.
            return function(given, number)

    run = run_alone if multiplies and _tools().share else run_in_threads
    run.library = library  # type: ignore[attr-defined]
    return run
