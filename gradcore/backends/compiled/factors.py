"""LU and Cholesky factors, and solutions from them, of matrices of middle size, without LAPACK's copies."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcore.backends.compiled.calls import CompiledCalls, as_dense
from gradcore.backends.kernel_methods import kernel_for
from gradcore.backends.numpy import threads
from gradcore.core.typing import AnyArray

__all__ = ["CompiledFactors"]

#: Least and largest number of rows of a matrix for factorizations; the largest one for systems, and for those with one
#: right-hand side and LU factors, of which LAPACK reads each column once.
_LEAST, _MOST, _MOST_SOLVED, _MOST_SOLVED_ALONE = 33, 512, 384, 128


def _is_supported(a: AnyArray) -> bool:
    return a.dtype.char in "fd" and a.flags.aligned and a.size > 0


def _is_factored(backend: Any, a: AnyArray) -> bool:
    return a.shape[-2] == a.shape[-1] and _LEAST <= a.shape[-1] <= _MOST and _is_supported(a)


def _is_system(a: AnyArray, b: AnyArray) -> bool:
    return a.shape[-1] <= _MOST_SOLVED and a.dtype == b.dtype and _is_supported(a) and _is_supported(b)


def _is_solved(backend: Any, lu: AnyArray, pivots: AnyArray, b: AnyArray, adjoint: bool = False) -> bool:
    return _is_system(lu, b) and (b.shape[-1] > 1 or lu.shape[-1] <= _MOST_SOLVED_ALONE)


def _broadcast_batches(*arrays: AnyArray) -> list[AnyArray]:
    """Expand arrays of matrices to their common batch shape."""
    if all(a.ndim == 2 for a in arrays):
        return list(arrays)
    shape = np.broadcast_shapes(*(a.shape[:-2] for a in arrays))
    return [np.broadcast_to(a, (*shape, *a.shape[-2:])) for a in arrays]


def _has_real_gaps(
    backend: Any, x: AnyArray, values: AnyArray, scale: AnyArray, of_values: AnyArray | None = None, skews: bool = False
) -> bool:
    vectors = (values,) if of_values is None else (values, of_values)
    return (
        _is_supported(x)
        and x.shape == scale.shape == (*values.shape, values.shape[-1])
        and all(a.flags.c_contiguous and a.flags.aligned for a in (x, scale))
        and all(a.shape == values.shape for a in vectors)
        and all(a.dtype == x.dtype for a in (scale, *vectors))
    )


class CompiledFactors(CompiledCalls):
    """Factorizations and solvers of float32 and float64. LAPACK handles matrices without factors, and large ones."""

    @kernel_for(_is_factored)
    def factor_lu(self, a: AnyArray) -> tuple[AnyArray, AnyArray, AnyArray]:
        lu, pivots = np.empty(a.shape, a.dtype), np.empty(a.shape[:-1], np.int32)
        info = np.empty(a.shape[:-2], np.int32)
        self._function("gradcore_factor_lu", a.dtype.char)(threads.available(), a, lu, pivots, info)
        return super().factor_lu(a) if info.any() else (lu.swapaxes(-1, -2), pivots, info)

    @kernel_for(_is_factored)
    def factor_cholesky(self, a: AnyArray) -> tuple[AnyArray, AnyArray]:
        factor, info = np.empty(a.shape, a.dtype), np.empty(a.shape[:-2], np.int32)
        self._function("gradcore_factor_cholesky", a.dtype.char)(threads.available(), a, factor, info)
        return super().factor_cholesky(a) if info.any() else (factor, info)

    @kernel_for(lambda self, a, b, upper, unitriangular=False: _is_system(a, b))
    def solve_triangle(self, a: AnyArray, b: AnyArray, upper: bool, unitriangular: bool = False) -> AnyArray:
        a, b = _broadcast_batches(a, b)
        is_transposed = b.strides[-2] == b.itemsize < b.strides[-1]
        out = (
            np.empty(b.swapaxes(-1, -2).shape, b.dtype).swapaxes(-1, -2)
            if is_transposed
            else np.empty(b.shape, b.dtype)
        )
        self._function("gradcore_solve_triangle", a.dtype.char)(threads.available(), upper, unitriangular, a, b, out)
        return out

    @kernel_for(_is_solved)
    def solve_lu(self, lu: AnyArray, pivots: AnyArray, b: AnyArray, adjoint: bool = False) -> AnyArray:
        lu, rows, b = _broadcast_batches(lu, pivots[..., None], b)
        pivots, out = np.ascontiguousarray(rows, np.int32), np.empty(b.shape, b.dtype)
        solve = self._function("gradcore_solve_lu", lu.dtype.char)
        if not solve(threads.available(), adjoint, lu, pivots, b, out):
            return super().solve_lu(lu, pivots, b, adjoint)
        return out

    @kernel_for(_has_real_gaps)
    def divide_by_gaps(
        self,
        x: AnyArray,
        values: AnyArray,
        scale: AnyArray,
        of_values: AnyArray | None = None,
        skews: bool = False,
    ) -> AnyArray:
        out = np.empty(x.shape, x.dtype)
        # Gradients of sums are views that repeat one number.
        values, given = map(as_dense, (values, values[:0] if of_values is None else of_values))
        self._function("gradcore_divide_by_gaps", x.dtype.char)(skews, x, values, scale, given, out)
        return out
