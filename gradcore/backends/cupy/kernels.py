"""The CUDA sources of this package: CuPy compiles them on first use."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcore.backends.kernel_rules import OPERATIONS
from gradcore.core import config
from gradcore.core.typing import AnyArray

if TYPE_CHECKING:
    from gradcore.core.arrays import Array

__all__ = [
    "COMPLEX_NAMES",
    "C_NAMES",
    "INCLUDE",
    "NULL",
    "CudaKernels",
    "accumulation_dtype",
    "bernoulli_threshold",
    "compile_options",
    "dense",
    "dtype_name",
    "elements",
    "pass_by_value",
    "random_position",
    "random_stream",
    "rows_of",
    "type_name",
    "words_of",
]

#: The folder of CUDA sources.
INCLUDE = Path(__file__).with_name("sources")

#: Null pointer as an argument of a kernel.
NULL = np.uint64(0)

#: C++ types for which kernels of rows, windows and segments are compiled, by the name of the dtype.
C_NAMES = {"float16": "float16", "bfloat16": "bfloat16", "float32": "float", "float64": "double"}

#: The complex ones, of CuPy's class.
COMPLEX_NAMES = {"complex64": "complex<float>", "complex128": "complex<double>"}

#: The first compute capability with tensor cores for bfloat16 and TensorFloat32.
_AMPERE = 80

#: Threads of a block in elementwise kernels, and largest number of blocks. Threads loop over the remaining elements.
_THREADS, _MOST_BLOCKS = 256, 1 << 16

#: Length up to which each row is handled by a warp. Longer rows are handled by a block each.
_SHORT = 256


@functools.cache
def compile_options() -> tuple[str, ...]:
    """Return the compiler options of every kernel.

    They disable contraction of products and sums, so that fused kernels round as separate operations do. CuPy's cache
    on disk identifies kernels by source and options only, so the options contain a hash of the included files.
    """
    import hashlib

    text = b"".join(path.read_bytes() for path in sorted(INCLUDE.glob("*.cu*")))
    digest = hashlib.sha256(text).hexdigest()[:16]
    return ("-std=c++17", "-fmad=false", f"-I{INCLUDE}", f"-DGRADCORE_SOURCES=0x{digest}")


class CudaKernels:
    """Compilation and launching of CUDA kernels."""

    xp: Any
    #: Whether the kernels of this package replace those that all backends share.
    own_kernels = True

    def computes_half_in_float(self, name: str, arrays: list[Any], backward: bool = False) -> bool:
        """Return whether a kernel computes an operation, or its vjp, in float32 for float16 or bfloat16 arrays.

        Arrays of whole numbers, such as target classes, do not count.
        """
        family, _, forward_only = OPERATIONS[name].half_on_cuda.partition(" ")
        if not family or (backward and forward_only):
            return False
        return self.takes(family, *[a for a in arrays if a is not None and a.dtype.kind not in "iu"])

    def uses(self, family: str) -> bool:
        """Return whether this kernel family of the package is enabled; see ``GRADCORE_CUDA_KERNELS``."""
        return self.own_kernels and family not in config.CUDA_KERNELS_LEFT_OUT

    def takes(self, family: str, *arrays: Any) -> bool:
        """Return whether the kernels of a family apply to these arrays.

        The family must be enabled, and the arrays nonempty, of one real floating-point dtype. None is ignored.
        """
        first = arrays[0]
        kind = first.dtype
        if not first.size or type_name(kind) is None or not self.uses(family):
            return False
        for a in arrays:  # noqa: SIM110  (a generator takes longer than what it is for)
            if a is not None and a.dtype != kind:
                return False
        return True

    def allocate(self, shape: int | Sequence[int], dtype: object) -> AnyArray:
        """Return an array in row-major order whose elements have any values."""
        return self.xp.empty(shape, dtype)

    def as_argument(self, number: np.generic) -> object:
        """Return a NumPy scalar as an argument of kernels that is passed many times."""
        return number

    @functools.cached_property
    def int64s(self) -> Callable[..., tuple[object, ...]]:
        """Function that returns whole numbers as int64 arguments of a kernel, and remembers those of recent calls."""

        @functools.lru_cache(4096)
        def int64s(*numbers: int) -> tuple[object, ...]:
            return tuple([self.as_argument(np.int64(number)) for number in numbers])

        return int64s

    @functools.cached_property
    def _modules(self) -> dict[Any, Any]:
        return {}

    @functools.cached_property
    def _capabilities(self) -> dict[int, int]:
        return {}

    def compute_capability(self) -> int:
        """Return the compute capability of the current device as a number, such as 90 for 9.0."""
        device = self.xp.cuda.runtime.getDevice()
        result = self._capabilities.get(device)
        if result is None:
            result = self._capabilities[device] = int(self.xp.cuda.Device(device).compute_capability)
        return result

    def has_tensor_cores(self, x: Array) -> bool:
        """Return whether the current device's tensor cores multiply the dtype of `x` with the precision in effect."""
        if x.dtype.itemsize > 2 and (x.dtype.itemsize > 4 or config.get_float32_matmul_precision() == "highest"):
            return False
        return self.compute_capability() >= _AMPERE

    @functools.cached_property
    def user_modules(self) -> dict[Any, Any]:
        """Compiled kernels of users, by source and options."""
        return {}

    def cuda_kernel(self, file: str, name: str, **defines: str | None) -> Callable[..., Any]:
        """Return the kernel `name` of a source file, compiled with `defines` as macros."""
        key = file, name, *defines.items()
        kernel = self._modules.get(key)
        if kernel is None:
            module = self._modules.get((file, *defines.items()))
            if module is None:
                options = compile_options() + tuple(f"-DGRADCORE_{k.upper()}={v}" for k, v in defines.items())
                module = self.xp.RawModule(code=(INCLUDE / f"{file}.cu").read_text(), options=options)
                self._modules[file, *defines.items()] = module
            kernel = self._modules[key] = module.get_function(name)
        return kernel

    def compile_kernel(self, source: str, name: str) -> Callable[..., Any]:
        """Compile a generated source, and return its kernel `name`."""
        module = self.xp.RawModule(code=source, options=compile_options())
        return module.get_function(name)


@functools.cache
def type_name(dtype: np.dtype[Any]) -> str | None:
    """Return the CUDA name of a real dtype, or None for a dtype that the kernels do not take.

    Names are cached: NumPy rebuilds a dtype's name at each access, which takes as long as a launch.
    """
    return C_NAMES.get(dtype.name)


@functools.cache
def dtype_name(dtype: np.dtype[Any]) -> str:
    """Return the name of a dtype, from a cache as in `type_name`."""
    return dtype.name


def pass_by_value(structure: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a one-element structured array as a kernel argument passed by value.

    It consists of bytes, because CuPy would otherwise inspect the fields on each launch.
    """
    return structure.view(f"V{structure.itemsize}")


def dense(xp: Any, array: Any) -> Any:
    """Return `array` in row-major order, copied if needed; a null pointer for None."""
    if array is None:
        return NULL
    return array if array.flags.c_contiguous else xp.ascontiguousarray(array)


def accumulation_dtype(x: Any) -> Any:
    """Return the dtype in which products of the elements of `x` are summed: float32 for float16 and bfloat16."""
    return np.float32 if x.dtype.itemsize == 2 else x.dtype


def elements(size: int) -> tuple[tuple[int], tuple[int]]:
    """Return the grid and block for a kernel with one thread for each of `size` elements."""
    return (min(-(-size // _THREADS), _MOST_BLOCKS),), (_THREADS,)


def block_of(count: int, each: int = 4) -> tuple[int]:
    """Return the block of a kernel in which each block processes `count` elements, about `each` for each thread."""
    return (min(1024, max(32, 32 * -(-count // (32 * each)))),)


def rows_of(x: Array, rows: int, width: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the grid and block for a kernel on rows: a warp for a short row, a block for a long one.

    Each thread of a block handles 16 bytes, or more if 512 threads are not enough for the row.
    """
    if width <= _SHORT:
        return (-(-rows // 8),), (32, 8)
    return (rows,), (min(512, 32 * -(-width * x.dtype.itemsize // 512)),)


def random_position(key: Any, counter: int) -> tuple[Any, ...]:
    """Return the kernel arguments for a position in the random stream, whether or not a graph is captured."""
    if isinstance(key, int):
        return NULL, *words_of(key, 2), *words_of(counter, 4)
    return key, *words_of(0, 2), *words_of(counter, 4)


@functools.lru_cache(256)
def bernoulli_threshold(p: float, real: Any) -> np.uint64:
    """Return the integer threshold of a Bernoulli draw.

    A random integer of 31 bits (float32) or 53 bits (float64) is below it with probability `p`.
    """
    return np.uint64(np.ceil(real(p) * real(2.0 ** (53 if real is np.float64 else 31))))


def words_of(value: int, count: int) -> list[np.uint64]:
    """Split an integer into `count` 64-bit words, the lowest first."""
    return [np.uint64(value >> 64 * i & 2**64 - 1) for i in range(count)]


def random_stream(count: int, p: float, key: Any, counter: int) -> tuple[Any, ...]:
    """Return the kernel arguments for `count` draws of probability `p` from a position in the random stream."""
    return np.uint64(count), *random_position(key, counter), bernoulli_threshold(p, np.float32)
