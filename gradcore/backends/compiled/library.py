"""The compiled library: its location, its name, and functions that load it.

The package contains a library for each instruction set (`gradcore.backends.compiled.variants`). A library that was
built on this machine for its CPU is in a folder of the user, and is preferred.

The file name of a library built on this machine contains three digests:

- of the environment that built it. Libraries of other environments, which may have another version of gradcore, are
  neither loaded nor deleted.
- of gradcore's version, the sources, the compiler's options and the CPU. It changes with an update or another machine.
- of the library itself, so that a damaged one is not loaded.

The digests are not secret, so they give no protection from other users. Libraries that another user could have written
are not loaded either, see `distrust`.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import stat
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from gradcore.backends.compiled.cache import COMMAND, cache_folder
from gradcore.backends.compiled.variants import FOLDER, Variant, choose_variant
from gradcore.core import config

__all__ = [
    "FLAGS",
    "HERE",
    "NATIVE",
    "compute_digest",
    "distrust",
    "find",
    "find_packaged",
    "libraries",
    "load",
    "load_packaged",
    "name_of",
    "open_library",
    "variant_name",
]

HERE = Path(__file__).parent

#: Options that keep IEEE arithmetic in the order of the source. Only sums declare that their order may change.
FLAGS = (
    "-std=c++17", "-O3", "-fPIC", "-pthread", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math",
    "-fopenmp-simd",
)  # fmt: skip
#: Compiler options for the CPU of this machine.
NATIVE = ("-mcpu=native" if platform.machine() in ("arm64", "aarch64") else "-march=native",)

#: One function of each source.
FUNCTIONS = (
    "gradcore_correlate_f", "gradcore_run_rows", "gradcore_place_threads", "gradcore_multiply_f", "gradcore_lstm_f",
    "gradcore_ctc_f", "softmax_f", "gradcore_step", "converted_ef", "take_slices_1", "row_sums_f", "sort_rows_f",
    "gradcore_run_halves", "inverses_f",
)  # fmt: skip


# -- where it is --------------------------------------------------------------------------------------------------


def _processor() -> str:
    """Return the CPU's instruction sets, as far as known. Code for this CPU may not run on another."""
    umath: Any = sys.modules.get("numpy._core._multiarray_umath")
    features = getattr(umath, "__cpu_features__", {})
    results = [platform.machine(), *sorted(name for name, is_present in features.items() if is_present)]
    try:
        with open("/proc/cpuinfo") as file:
            lines = file.read(8192).splitlines()[:40]
            results += [line for line in lines if line.startswith(("model name", "flags"))][:2]
    except OSError:
        pass
    return "\n".join(results)


@functools.cache
def _environment() -> str:
    """Return a digest of the folders of Python's packages and of this package."""
    return _digest(f"{sys.prefix}\n{HERE}".encode())


@functools.cache
def compute_digest(variant: Variant | None = None) -> str:
    """Return a digest of the version, the sources and the options, for a variant or for this machine's CPU."""
    digest = hashlib.sha256(repr((FLAGS, variant or (NATIVE, _processor()))).encode())
    package = HERE.parents[1] / "__init__.py"  # with the version
    generator = HERE.parent / "codegen"
    for path in sorted([*HERE.glob("*.py"), *generator.glob("*.py"), *HERE.glob("*.cpp"), *HERE.glob("*.h"), package]):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def name_of(content: bytes) -> str:
    """Return the file name of a library with this content that this environment builds now."""
    return f"compiled-{_environment()}-{compute_digest()}-{_digest(content)}.so"


def variant_name(variant: Variant) -> str:
    """Return the file name of the package's library for an instruction set."""
    return f"{variant.name}-{compute_digest(variant)}.so"


def libraries(of_all: bool = False) -> list[Path]:
    """Return the libraries that this environment (or, with `of_all`, any) has built, for any version and CPU."""
    folder = cache_folder()
    if folder is None:
        return []
    return sorted(Path(folder).glob("compiled-*.so" if of_all else f"compiled-{_environment()}-*.so"))


def find() -> Path | None:
    """Return the library built on this machine for this version and CPU, or None."""
    return next((path for path in libraries() if path.name.split("-")[2] == compute_digest()), None)


def find_packaged() -> Path | None:
    """Return the package's library for this CPU, or None."""
    variant = choose_variant()
    path = FOLDER / variant_name(variant) if variant is not None else None
    return path if path is not None and path.exists() else None


# -- using it -----------------------------------------------------------------------------------------------------


def load() -> ctypes.CDLL | None:
    """Load the library built on this machine, or return None. Warn if the one there does not fit version or CPU."""
    path = find()
    if path is None:
        if libraries():
            _warn(f"are built for another version of gradcore, or another CPU. To build them anew: {COMMAND}")
        return None
    try:
        problem = distrust(path.parent) or distrust(path)
        if problem is None and _digest(path.read_bytes()) == path.stem.rpartition("-")[2]:
            return _complete(path)
    except OSError as error:
        problem = str(error)
    _warn(f"cannot be loaded: {problem or 'the file is damaged'}. To build them anew: {COMMAND}")
    return None


def load_packaged() -> ctypes.CDLL | None:
    """Load the package's library for this CPU, or return None. Warn if it cannot be loaded."""
    path = find_packaged()
    try:
        return None if path is None else _complete(path)
    except OSError as error:
        _warn(f"of the package cannot be loaded: {error}. To install them anew: pip install --force-reinstall")
        return None


def _complete(path: Path) -> ctypes.CDLL:
    """Load a library, and check that it has all functions.

    Raises
    ------
    OSError
        If it lacks one, or cannot be opened.
    """
    library = open_library(path)
    for name in FUNCTIONS:
        if not hasattr(library, name):
            raise OSError(f"it lacks the function {name}")
    return library


def distrust(path: Path) -> str | None:
    """Return the reason why another user might have made or changed a library or its folder, or None."""
    status = path.stat()
    if status.st_uid not in (os.getuid(), 0):
        return f"{path} belongs to another user"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"others may write to {path} (chmod go-w)"
    return None


def _warn(problem: str) -> None:
    message = f"Compiled kernels {problem}. NumPy's are used; GRADCORE_COMPILED=0 silences this."
    warnings.warn(message, RuntimeWarning, stacklevel=2)


def open_library(path: Path) -> ctypes.CDLL:
    """Load a library, and tell it the memory layout of array objects.

    Raises
    ------
    OSError
        If it is none of gradcore's, or if this interpreter's arrays are not as it expects.
    """
    library = ctypes.CDLL(str(path))
    if not hasattr(library, "gradcore_describe") or not hasattr(library, "gradcore_place_threads"):
        raise OSError("it is no library of gradcore")
    if sys.implementation.name != "cpython" or not _reads_arrays(library):
        raise OSError("this interpreter's arrays are not what it expects")
    library.gradcore_place_threads.argtypes = [ctypes.c_bool]
    library.gradcore_place_threads(config.PLACE_THREADS)
    return library


def _reads_arrays(library: ctypes.CDLL) -> bool:
    """Return whether the library reads this interpreter's array objects correctly, given their header's size."""
    describe = library.gradcore_describe
    describe.argtypes, describe.restype = [ctypes.c_int64, ctypes.py_object, ctypes.c_void_p], None
    fields = (ctypes.c_int64 * 6)()
    numbers = np.arange(24.0).reshape(4, 6)
    for array in (numbers, numbers.T, numbers[1:3], np.frombuffer(bytes(81), "f8", 10, 1)):
        describe(object.__basicsize__, array, fields)
        flags = array.flags
        expected = array.ctypes.data, array.ndim, flags.c_contiguous, flags.aligned, array.shape[0], array.strides[0]
        if list(fields) != list(expected):
            return False
    return True
