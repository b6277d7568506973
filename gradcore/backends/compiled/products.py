"""Matrix products by kernels of the compiled library, or by NumPy's OpenBLAS in the library's threads.

OpenBLAS's own threads are not used in addition, because threads of both libraries poll for work for a while after each
product, and would slow down each other.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import numpy as np

from gradcore.backends.compiled.calls import WORTH_A_THREAD, CompiledCalls
from gradcore.backends.numpy import threads
from gradcore.backends.numpy.matmul import MANY, blas_alone
from gradcore.backends.numpy.openblas import NUMPY

__all__ = ["CompiledProducts"]

#: Number of multiplications from which a thread pays off.
_WORTH_A_THREAD = 1 << 18
#: The functions of CBLAS by dtype: for matrices, and for a matrix and a vector.
_FUNCTIONS = {"f": "sgemm", "d": "dgemm"}
_OF_VECTORS = {"f": "sgemv", "d": "dgemv"}
#: Elements of a matrix from which threads share its product with a vector; number of rows that one call sums.
_LARGE, _BLOCK = 2 * WORTH_A_THREAD, 256


class CompiledProducts(CompiledCalls):
    """Products of matrices, and of batches of them."""

    @cached_property
    def _multiply(self) -> dict[str, Callable[..., bool]]:
        """Functions ``(threads, a, b, out)`` by dtype; empty if NumPy has another BLAS."""
        return self._bind_to_blas("gradcore_multiply", _FUNCTIONS)

    @cached_property
    def _multiply_vector(self) -> dict[str, Callable[..., None]]:
        """Functions ``(threads, block, x, v, out)`` by dtype."""
        return self._bind_to_blas("gradcore_multiply_vector", _OF_VECTORS)

    def _bind_to_blas(self, name: str, functions: dict[str, str]) -> dict[str, Any]:
        addresses = {char: NUMPY.function(of_blas) for char, of_blas in functions.items()}
        return {
            char: partial(self._function(name, char), *address)
            for char, address in addresses.items()
            if address is not None
        }

    def times_vector(self, x: Any, v: Any) -> Any:
        number, multiply = threads.available(), self._vector_product(x, v)
        if multiply is None or number < 2:
            return super().times_vector(x, v)
        out = np.empty(len(x), x.dtype)
        with NUMPY.alone():
            multiply(number, 0, x, v, out)
        return out

    def sum_of_rows(self, v: Any, x: Any) -> Any:
        """Sum rows weighted by `v` in blocks, even with one thread, so that results do not depend on the threads."""
        multiply = self._vector_product(x, v)
        if multiply is None:
            return super().sum_of_rows(v, x)
        out = np.empty((-(-len(x) // _BLOCK), x.shape[1]), x.dtype)
        with blas_alone(x.size):
            multiply(threads.available(), _BLOCK, x, v, out)
        return np.add.reduce(out, 0)

    def _vector_product(self, x: Any, v: Any) -> Any:
        large = x.size >= _LARGE and x.shape[1] > 1 and x.dtype == v.dtype
        dense = large and all(a.flags.c_contiguous and a.flags.aligned for a in (x, v))
        return self._multiply_vector.get(x.dtype.char) if dense else None

    def _product(self, a: Any, b: Any) -> Any:
        out = self.large_product(a, b) if a.ndim > 1 and a.ndim == b.ndim else None
        return super()._product(a, b) if out is None else out

    def large_product(self, a: Any, b: Any) -> Any:
        """Multiply two arrays of equal rank, or return None if they are small or not supported.

        With one thread, return None for the shapes at which OpenBLAS is faster.
        """
        products = a.size * b.shape[-1]
        if products <= MANY or a.dtype.char not in _FUNCTIONS or a.dtype != b.dtype:
            return None
        multiply, inner = self._multiply.get(a.dtype.char), a.shape[-1]
        if multiply is None or inner < 2 or inner != b.shape[-2] or a.shape[:-2] != b.shape[:-2]:
            return None
        out = np.empty((*a.shape[:-1], b.shape[-1]), a.dtype)
        number = threads.available()
        if number < 2:
            return out if multiply(1, a, b, out) else None
        with NUMPY.alone():
            return out if multiply(max(min(number, products // _WORTH_A_THREAD), 1), a, b, out) else None
