"""Products of matrices by NumPy's OpenBLAS, in the threads of the compiled library.

OpenBLAS's own threads would be in their way: those of both look for work for a while after the last one.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import numpy as np

from gradcore.backends.numpy import threads
from gradcore.backends.numpy.backend import NumpyBackend
from gradcore.backends.numpy.matmul import MANY
from gradcore.backends.numpy.openblas import NUMPY

__all__ = ["CompiledProducts"]

#: Multiplications that are worth a thread.
_WORTH_A_THREAD = 1 << 18
#: The functions of CBLAS by dtype.
_FUNCTIONS = {"f": "sgemm", "d": "dgemm"}


class CompiledProducts(NumpyBackend):
    """Products of matrices, and of batches of them, where there are several threads."""

    library: ctypes.CDLL

    @cached_property
    def _multiply(self) -> dict[str, Callable[..., bool]]:
        """Functions ``(threads, a, b, out)`` by dtype; none where NumPy has another BLAS."""
        found: dict[str, Callable[..., bool]] = {}
        for char, name in _FUNCTIONS.items():
            gemm = NUMPY.function(name)
            if gemm is not None:
                kinds: list[Any] = [ctypes.c_void_p, ctypes.c_bool, ctypes.c_int64, *[ctypes.py_object] * 3]
                function = ctypes.CFUNCTYPE(ctypes.c_bool, *kinds)((f"gradcore_multiply_{char}", self.library))
                found[char] = partial(function, *gemm)
        return found

    def _product(self, a: Any, b: Any) -> Any:
        out = self.product_in_threads(a, b) if a.ndim > 1 and a.ndim == b.ndim else None
        return super()._product(a, b) if out is None else out

    def product_in_threads(self, a: Any, b: Any) -> Any:
        """The product of arrays with as many dims; None if it is small, or not for the library."""
        products = a.size * b.shape[-1]
        if products <= MANY or a.dtype.char not in _FUNCTIONS or a.dtype != b.dtype or threads.available() < 2:
            return None
        multiply, inner = self._multiply.get(a.dtype.char), a.shape[-1]
        if multiply is None or inner < 2 or inner != b.shape[-2] or a.shape[:-2] != b.shape[:-2]:
            return None
        out = np.empty((*a.shape[:-1], b.shape[-1]), a.dtype)
        number = min(threads.available(), products // _WORTH_A_THREAD)
        with NUMPY.alone():
            return out if multiply(max(number, 1), a, b, out) else None
