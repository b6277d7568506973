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
import os
import platform
import stat
import sys
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcore.backends.compiled.cache import COMMAND, cache_folder
from gradcore.backends.compiled.variants import FOLDER, Variant, choose_variant
from gradcore.core import config

try:  # Python's own implementation: `hashlib` also loads OpenSSL's, which takes several milliseconds.
    from _sha2 import sha256  # type: ignore[import-not-found]
except ImportError:  # before Python 3.12, and without CPython's modules
    try:
        from _sha256 import sha256  # type: ignore[import-not-found]
    except ImportError:
        from hashlib import sha256

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "FLAGS",
    "HERE",
    "NATIVE",
    "PHILOX",
    "builtin",
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

#: The folder of the sources.
HERE = os.path.dirname(os.path.abspath(__file__))

#: The header of the random number generator, which has the same code on all devices.
PHILOX = os.path.join(os.path.dirname(HERE), "cupy", "sources", "philox.cuh")

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
    "gradcore_run_halves", "inverses_f", "gradcore_flush_subnormals", "real_lines_f", "narrow_sums_f",
    "max_pool_f", "draw_uniform_f", "attention_f", "gradcore_factor_lu_f", "gradcore_memory",
)  # fmt: skip


#: Functions of CPython's stable ABI that the library calls, in the order of `Interpreter` in `calls.h`.
_API = (
    "PyLong_AsLongLong", "PyFloat_AsDouble", "PyLong_FromLongLong", "PyBool_FromLong", "Py_IncRef", "PyErr_Occurred",
    "PyErr_BadArgument", "PyErr_NoMemory", "PyEval_SaveThread", "PyEval_RestoreThread",
)  # fmt: skip
#: The flag of functions that take the array and the number of their arguments.
_FASTCALL = 0x80
_new_builtin = ctypes.PYFUNCTYPE(ctypes.py_object, *[ctypes.c_void_p] * 3)(("PyCFunction_NewEx", ctypes.pythonapi))
_definitions: list[Any] = []


# -- where it is --------------------------------------------------------------------------------------------------


def _processor() -> str:
    """Return the CPU's instruction sets, as far as known. Code for this CPU may not run on another."""
    umath = sys.modules.get("numpy._core._multiarray_umath")
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
    digest = sha256(repr((FLAGS, variant or (NATIVE, _processor()))).encode())
    backends = os.path.dirname(HERE)
    paths = [os.path.join(HERE, name) for name in os.listdir(HERE) if name.endswith((".py", ".cpp", ".h"))]
    generator = os.path.join(backends, "codegen")
    paths += [os.path.join(generator, name) for name in os.listdir(generator) if name.endswith(".py")]
    paths += [PHILOX, os.path.join(os.path.dirname(backends), "__init__.py")]  # with the version
    for path in sorted(paths):
        digest.update(_read(path))
    return digest.hexdigest()[:16]


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()[:16]


def name_of(content: bytes) -> str:
    """Return the file name of a library with this content that this environment builds now."""
    return f"compiled-{_environment()}-{compute_digest()}-{_digest(content)}.so"


def variant_name(variant: Variant) -> str:
    """Return the file name of the package's library for an instruction set."""
    return f"{variant.name}-{compute_digest(variant)}.so"


def libraries(of_all: bool = False) -> list[Path]:
    """Return the libraries that this environment (or, with `of_all`, any) has built, for any version and CPU."""
    from pathlib import Path

    return [Path(path) for path in _list_libraries(of_all)]


def _list_libraries(of_all: bool = False) -> list[str]:
    folder = cache_folder()
    if folder is None or not os.path.isdir(folder):
        return []
    prefix = "compiled-" if of_all else f"compiled-{_environment()}-"
    names = [name for name in os.listdir(folder) if name.startswith(prefix) and name.endswith(".so")]
    return [os.path.join(folder, name) for name in sorted(names)]


def _find() -> str | None:
    paths = _list_libraries()
    return next((path for path in paths if os.path.basename(path).split("-")[2] == compute_digest()), None)


def find() -> Path | None:
    """Return the library built on this machine for this version and CPU, or None."""
    from pathlib import Path

    path = _find()
    return None if path is None else Path(path)


def _find_packaged() -> str | None:
    variant = choose_variant() if os.path.isdir(FOLDER) else None  # not in an archive, where sources have no digest
    path = None if variant is None else os.path.join(FOLDER, variant_name(variant))
    return path if path is not None and os.path.exists(path) else None


def find_packaged() -> Path | None:
    """Return the package's library for this CPU, or None."""
    from pathlib import Path

    path = _find_packaged()
    return None if path is None else Path(path)


# -- using it -----------------------------------------------------------------------------------------------------


def load() -> ctypes.CDLL | None:
    """Load the library built on this machine, or return None. Warn if the one there does not fit version or CPU."""
    path = _find()
    if path is None:
        if _list_libraries():
            _warn(f"are built for another version of gradcore, or another CPU. To build them anew: {COMMAND}")
        return None
    try:
        problem = distrust(os.path.dirname(path)) or distrust(path)
        if problem is None and _digest(_read(path)) == path.removesuffix(".so").rpartition("-")[2]:
            return _complete(path)
    except OSError as error:
        problem = str(error)
    _warn(f"cannot be loaded: {problem or 'the file is damaged'}. To build them anew: {COMMAND}")
    return None


def load_packaged() -> ctypes.CDLL | None:
    """Load the package's library for this CPU, or return None. Warn if it cannot be loaded."""
    path = _find_packaged()
    try:
        return None if path is None else _complete(path)
    except OSError as error:
        _warn(f"of the package cannot be loaded: {error}. To install them anew: pip install --force-reinstall")
        return None


def _complete(path: str) -> ctypes.CDLL:
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


def distrust(path: Path | str) -> str | None:
    """Return the reason why another user might have made or changed a library or its folder, or None."""
    status = os.stat(path)
    if status.st_uid not in (os.getuid(), 0):
        return f"{path} belongs to another user"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"others may write to {path} (chmod go-w)"
    return None


def _warn(problem: str) -> None:
    message = f"Compiled kernels {problem}. NumPy's are used; GRADCORE_COMPILED=0 silences this."
    warnings.warn(message, RuntimeWarning, stacklevel=2)


def open_library(path: Path | str) -> ctypes.CDLL:
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


class _Definition(ctypes.Structure):
    """CPython's structure PyMethodDef, which is in its stable ABI."""

    _fields_ = (("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int),
                ("doc", ctypes.c_char_p))  # fmt: skip


@functools.cache
def builtin(library: ctypes.CDLL, name: str) -> Any:
    """Return a function that the library exports by ``BUILTIN`` in `calls.h`, as a built-in function of Python.

    A call takes a twentieth of the time of a call by ctypes. Only the number of arguments is checked.
    """
    address = ctypes.c_void_p.in_dll(library, name).value
    definition = _Definition(name.encode(), address, _FASTCALL, None)
    _definitions.append(definition)  # The built-in function refers to it.
    return _new_builtin(ctypes.addressof(definition), None, None)


def _reads_arrays(library: ctypes.CDLL) -> bool:
    """Return whether the library reads this interpreter's array objects correctly, given their header's size."""
    describe = library.gradcore_describe
    describe.argtypes, describe.restype = [ctypes.c_int64, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p], None
    functions = [ctypes.cast(ctypes.pythonapi[name], ctypes.c_void_p).value for name in _API]
    interpreter = (ctypes.c_void_p * (len(_API) + 1))(*functions, id(None))
    fields = (ctypes.c_int64 * 6)()
    numbers = np.arange(24.0).reshape(4, 6)
    for array in (numbers, numbers.T, numbers[1:3], np.frombuffer(bytes(81), "f8", 10, 1)):
        describe(object.__basicsize__, interpreter, array, fields)
        flags = array.flags
        expected = array.ctypes.data, array.ndim, flags.c_contiguous, flags.aligned, array.shape[0], array.strides[0]
        if list(fields) != list(expected):
            return False
    return True
