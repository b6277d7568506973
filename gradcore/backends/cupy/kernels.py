"""CUDA sources of the package: compiled by CuPy when first used, and launched."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from gradcore.backends.kernel_rules import OPERATIONS
from gradcore.core import config
from gradcore.core.typing import Array

__all__ = [
    "COMPLEX_NAMES",
    "C_NAMES",
    "INCLUDE",
    "NULL",
    "CudaKernels",
    "by_value",
    "compile_options",
    "dense",
    "elements",
    "int64s",
    "rows_of",
    "summed",
    "type_name",
]

#: The folder of CUDA sources.
INCLUDE = Path(__file__).with_name("sources")

#: A pointer to nothing, as a kernel's argument.
NULL = np.uint64(0)

#: The numbers that kernels of rows, windows and segments are compiled for, by the name of their dtype.
C_NAMES = {"float16": "float16", "bfloat16": "bfloat16", "float32": "float", "float64": "double"}

#: The complex ones, of CuPy's class.
COMPLEX_NAMES = {"complex64": "complex<float>", "complex128": "complex<double>"}

#: Threads of a block where each has elements of its own; blocks at most, each thread going on with what is left.
_THREADS, _MOST_BLOCKS = 256, 1 << 16

#: Rows of up to this length belong to a warp each; longer ones to a block.
_SHORT = 256


@functools.cache
def compile_options() -> tuple[str, ...]:
    """Options of every compilation.

    Without contraction of products and sums, kernels round as separate operations do. CuPy keeps compiled kernels on
    disk and tells them apart by source and options only: so the options name the state of the included files.
    """
    import hashlib

    text = b"".join(path.read_bytes() for path in sorted(INCLUDE.glob("*.cu*")))
    digest = hashlib.sha256(text).hexdigest()[:16]
    return ("-std=c++17", "-fmad=false", f"-I{INCLUDE}", f"-DGRADCORE_SOURCES=0x{digest}")


class CudaKernels:
    """Compilation and launching."""

    xp: Any
    #: Whether the kernels of the package take the place of those that all backends share.
    own_kernels = True

    def computes_half_in_float(self, name: str, arrays: list[Any], backward: bool = False) -> bool:
        """Whether an operation, or its vjp, computes these float16 or bfloat16 arrays in float32 inside its kernels."""
        family, _, forward_only = OPERATIONS[name].half_on_cuda.partition(" ")
        if not family or (backward and forward_only):
            return False
        return self.takes(family, *[a for a in arrays if a is not None])

    def uses(self, family: str) -> bool:
        """Return whether the kernels of the package for something are used; see ``GRADCORE_CUDA_KERNELS``."""
        return self.own_kernels and family not in config.CUDA_KERNELS_LEFT_OUT

    def takes(self, family: str, *arrays: Any) -> bool:
        """Whether own kernels take these arrays: of one real floating-point dtype, and not empty; None is left out."""
        first = arrays[0]
        kind = first.dtype
        if not first.size or type_name(kind) is None or not self.uses(family):
            return False
        for a in arrays:  # noqa: SIM110  (a generator takes longer than what it is for)
            if a is not None and a.dtype != kind:
                return False
        return True

    @functools.cached_property
    def _modules(self) -> dict[Any, Any]:
        return {}

    @functools.cached_property
    def _capabilities(self) -> dict[int, int]:
        return {}

    def compute_capability(self) -> int:
        """Return the compute capability of the current device, 90 for 9.0."""
        device = self.xp.cuda.runtime.getDevice()
        found = self._capabilities.get(device)
        if found is None:
            found = self._capabilities[device] = int(self.xp.cuda.Device(device).compute_capability)
        return found

    @functools.cached_property
    def user_modules(self) -> dict[Any, Any]:
        """Compiled kernels of users, by source and options."""
        return {}

    def cuda_kernel(self, file: str, name: str, **defines: str | None) -> Callable[..., Any]:
        """Return the kernel `name` of a source file, compiled with these macros."""
        key = file, name, *defines.items()
        kernel = self._modules.get(key)
        if kernel is None:
            module = self._modules.get((file, *defines.items()))
            if module is None:
                options = compile_options() + tuple(f"-DGRADCORE_{k.upper()}={v}" for k, v in defines.items())
                module = self.xp.RawModule(code=(INCLUDE / f"{file}.cu").read_text(), options=options)
                self._modules[file, *defines.items()] = module
            kernel = self._modules[key] = module.get_function(name)
        return kernel  # type: ignore[no-any-return]

    def compile_kernel(self, source: str, name: str) -> Callable[..., Any]:
        """Return the kernel of that name of a generated source."""
        module = self.xp.RawModule(code=source, options=compile_options())
        return module.get_function(name)  # type: ignore[no-any-return]


@functools.cache
def type_name(dtype: np.dtype[Any]) -> str | None:
    """Return the name of a dtype in CUDA sources; None for one that the kernels of real numbers do not take.

    NumPy writes the name of a dtype anew each time, which takes as long as a launch.
    """
    return C_NAMES.get(dtype.name)


@functools.lru_cache(4096)
def int64s(*numbers: int) -> tuple[np.int64, ...]:
    """Sizes as arguments of a kernel."""
    return tuple(map(np.int64, numbers))


def by_value(structure: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A structure of one element as a kernel's argument: bytes, as CuPy would ask NumPy to describe its fields."""
    return structure.view(f"V{structure.itemsize}")


def dense(xp: Any, array: Any) -> Any:
    """Return the array, or a copy, in row-major order; a null pointer for None."""
    return NULL if array is None else xp.ascontiguousarray(array)


def summed(x: Any) -> Any:
    """Return the dtype in which products of these numbers are summed: float32 for float16 and bfloat16."""
    return np.float32 if x.dtype.itemsize == 2 else x.dtype


def elements(size: int) -> tuple[tuple[int], tuple[int]]:
    """Grid and block for a kernel with a thread for each element."""
    return (min(-(-size // _THREADS), _MOST_BLOCKS),), (_THREADS,)


def rows_of(x: Array, rows: int, width: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Grid and block for a kernel of rows of numbers like those of `x`: a warp for a short row, a block for a long one.

    A thread of a block has 16 bytes, and more where a block of 512 threads is not enough.
    """
    if width <= _SHORT:
        return (-(-rows // 8),), (32, 8)
    return (rows,), (min(512, 32 * -(-width * x.dtype.itemsize // 512)),)
