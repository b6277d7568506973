"""LU factors and inverses of batches of small matrices, for which a call of LAPACK costs more than the arithmetic."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from gradcore.backends.compiled.calls import CompiledCalls, Work
from gradcore.backends.kernel_methods import kernel_for
from gradcore.core.typing import AnyArray

__all__ = ["CompiledMatrices"]

#: Largest number of rows of a matrix, and least number of matrices of a batch, for the kernels.
_ROWS, _FEW = 32, 4


def _are_small(backend: Any, a: AnyArray) -> bool:
    *batch, m, n = a.shape
    return m == n and 0 < n <= _ROWS and a.dtype.char in "fd" and a.flags.aligned and prod(batch) >= _FEW


class CompiledMatrices(CompiledCalls):
    """LU factors of float32 and float64. LAPACK handles singular matrices and numbers that are not finite."""

    @kernel_for(_are_small)
    def factor_lu(self, a: AnyArray) -> tuple[AnyArray, AnyArray, AnyArray]:
        lu, pivots = np.empty_like(a, order="C").swapaxes(-1, -2), np.empty(a.shape[:-1], np.int32)
        info = self._run_on_each("lu_factors", a, lu.swapaxes(-1, -2), pivots)
        return super().factor_lu(a) if info.any() else (lu, pivots, info)

    @kernel_for(_are_small)
    def invert(self, a: AnyArray) -> tuple[AnyArray, AnyArray]:
        inverse = np.empty_like(a, order="C")
        info = self._run_on_each("inverses", a, inverse)
        return super().invert(a) if info.any() else (inverse, info)

    def _run_on_each(self, name: str, a: AnyArray, *arrays: AnyArray) -> AnyArray:
        """Run a kernel on each matrix, and return its status for each."""
        info, n = np.empty(a.shape[:-2], np.int32), a.shape[-1]
        work = Work(info.size, n, n)
        self.run_kernel(name, a.dtype.char, work, a.size * n, np.ascontiguousarray(a), *arrays, info)
        return info
