"""Sums, products, extrema and norms of large arrays at the speed of memory."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from gradcore.backends.compiled.calls import WORTH_A_THREAD, CompiledCalls, Work
from gradcore.backends.compiled.conversions import character
from gradcore.backends.compiled.elementwise import CompiledElementwise
from gradcore.backends.kernel_rules import Reduction
from gradcore.backends.numpy import threads
from gradcore.backends.numpy.reductions import MAXIMA, MINIMA, SQUARES, SUMS
from gradcore.backends.numpy.row_blocks import exponentials, ones
from gradcore.backends.portable.reductions import Dims
from gradcore.core.typing import AnyArray

__all__ = ["CompiledReductions"]

#: Elements of a block of rows of a matrix that are reduced at a time.
_BLOCK = 1 << 17
#: Elements from which kernels are faster for sums of rows of fewer than `_LONG` elements, which BLAS adds faster. Tests
#: that set it to 1 switch off the least sizes that reductions declare, too.
_LARGE_ROWS, _LONG = 1 << 21, 512
#: The same for sums over columns; number of rows that BLAS adds at a time; least length of rows for dot products.
_LARGE_COLUMNS, _IN_TURN, _WIDE = 1 << 16, 1 << 13, 256
#: The least width of rows for which kernels use the SIMD lanes well, along rows or over columns.
_WIDTH = 32


class CompiledReductions(CompiledCalls, CompiledElementwise):
    """Reductions of contiguous arrays over adjacent dims. The methods of `NumpyReductions` handle all other cases."""

    def reduce_run(self, kind: Reduction, x: AnyArray, start: int, stop: int) -> AnyArray:
        out = self.reduced_by_kernel(kind, x, start, stop)
        return super().reduce_run(kind, x, start, stop) if out is None else out

    def squared_distances_over(self, x: AnyArray, mean: AnyArray, dims: Any) -> AnyArray:
        out = self._squared_distances_of_rows(x, mean, dims)
        if out is not None:
            return out
        if x.size < SUMS.least <= _LARGE_ROWS or x.dtype.char not in "fd":
            return super().squared_distances_over(x, mean, dims)
        return self.squares_over(self.sub(x, mean), dims, True)

    def _squared_distances_of_rows(self, x: AnyArray, mean: AnyArray, dims: Dims) -> AnyArray | None:
        """Compute `squared_distances_over` by one kernel, or return None where no kernel does, or one thread would."""
        char, ndim, is_plain = x.dtype.char, x.ndim, x.__class__ is mean.__class__ is np.ndarray
        if char not in "fd" or not x.size or not is_plain or mean.dtype is not x.dtype:
            return None
        if dims is None or ndim == 1:
            if x.size >= 2 * WORTH_A_THREAD:
                return None
        elif len(dims) != 1 or dims[0] != ndim - 1:
            return None
        totals, height = np.empty((2, *mean.shape), x.dtype), mean.size
        work = height, height, x.size // height, 0, 0, 0, x.size, WORTH_A_THREAD, threads.available()
        return totals[1] if self._function("plane_moments", char)(*work, x, mean, totals[0], totals[1]) else None

    def exp_less(self, x: AnyArray, top: AnyArray) -> AnyArray:
        if not _are_shared(x):
            return super().exp_less(x, top)
        difference = np.asarray(self.sub(x, top))
        return exponentials(difference, difference, self.pooled)

    def reduced_by_kernel(self, kind: Reduction, x: AnyArray, start: int, stop: int) -> AnyArray:
        """Compute `reduce_run` by a kernel (halves in float32), or return None if there is no faster one."""
        char, shape = x.dtype.char, x.shape
        char = _SAME.get(char, char)
        halves = x.itemsize == 2 and character(x.dtype)
        outer, inner = prod(shape[:start]), prod(shape[stop:])
        n = prod(shape[start:stop])
        if not x.flags.aligned or not (halves or char in "fd" or (kind is SUMS and char in "tBbhil")):
            return None
        if halves:
            char = halves
            if not kind.least_of_halves or x.size < kind.least_of_halves <= _LARGE_ROWS:
                return None
        rest = shape[:start] + shape[stop:]
        if inner > 1:
            if kind is SUMS and outer == 1 and char in "fd" and x.size >= _LARGE_COLUMNS and n < _IN_TURN:
                return self.sum_of_rows(ones(n, x.dtype), x.reshape(n, inner)).reshape(rest)
            if inner < _WIDTH or kind is not (SUMS if halves else SQUARES):
                return None
            if not halves and x.size < kind.least <= _LARGE_ROWS:
                return None
            return self._reduce_columns(kind.rows.replace("row", "column"), char, x, outer, n, inner).reshape(rest)
        are_short_rows = kind is SUMS and outer > 1 and n < _LONG and char in "fd"
        if are_short_rows and x.size < _LARGE_ROWS:
            return self.times_vector(x.reshape(outer, n), ones(n, x.dtype)).reshape(rest)
        if char in "fd" and not are_short_rows and x.size < kind.least <= _LARGE_ROWS:
            return None
        return None if n < _WIDTH else self._reduce_rows(kind, char, x, n, rest)

    def _reduce_rows(self, kind: Reduction, char: str, x: AnyArray, width: int, shape: tuple[int, ...]) -> AnyArray:
        """Reduce rows of a contiguous array to a result of the given shape, or return None for other arrays."""
        out = np.empty(shape, _result(x.dtype))
        run = self._function(kind.rows, char)
        return out if run(width, WORTH_A_THREAD, threads.available(), x, out) else None

    def _reduce_directly(self, kind: Reduction, x: AnyArray, dims: Dims, keepdim: bool) -> AnyArray:
        """Reduce an array over all dims or over the last one, in one call, or return None for others."""
        char, shape = x.dtype.char, x.shape
        char = _SAME.get(char, char)
        if x.__class__ is not np.ndarray or char not in ("fdtBbhil" if kind is SUMS else "fd"):
            return None
        if dims is None:
            width, kept = x.size, (1,) * x.ndim if keepdim else ()
        else:
            last = x.ndim - 1
            if len(dims) != 1 or (dims[0] != last and dims[0] != -1) or last < 0:
                return None
            width, kept = shape[-1], (*shape[:-1], 1) if keepdim else shape[:-1]
            if width < _WIDTH:
                return None
        return self._reduce_rows(kind, char, x, width, kept)

    def sum(self, x: AnyArray, dim: Dims = None, keepdim: bool = False, dtype: object = None) -> AnyArray:
        out = self._reduce_directly(SUMS, x, None, False) if dim is None and dtype is None and not keepdim else None
        return super().sum(x, dim, keepdim, dtype) if out is None else out

    def sum_over(self, x: AnyArray, dims: Dims = None, keepdim: bool = False, dtype: object = None) -> AnyArray:
        out = self._reduce_directly(SUMS, x, dims, keepdim) if dtype is None else None
        return super().sum_over(x, dims, keepdim, dtype) if out is None else out

    def max_over(self, x: AnyArray, dims: Dims = None, keepdim: bool = False) -> AnyArray:
        out = self._reduce_directly(MAXIMA, x, dims, keepdim)
        return super().max_over(x, dims, keepdim) if out is None else out

    def min_over(self, x: AnyArray, dims: Dims = None, keepdim: bool = False) -> AnyArray:
        out = self._reduce_directly(MINIMA, x, dims, keepdim)
        return super().min_over(x, dims, keepdim) if out is None else out

    def row_dots(self, x: AnyArray, y: AnyArray) -> AnyArray:
        if x.shape[1] < _WIDE or x.size < _LARGE_COLUMNS:
            return super().row_dots(x, y)
        height, width = x.shape
        out = np.empty(height)
        self.run_kernel("row_dots", x.dtype.char, Work(height, height, width, 0, width), x.size, x, y, out)
        return out.astype(x.dtype)

    def column_dots(self, x: AnyArray, y: AnyArray) -> AnyArray:
        if x.dtype.char != "f" or x.size < _LARGE_COLUMNS:
            return super().column_dots(x, y)
        return self._reduce_columns("column_dots", "f", x, 1, *x.shape, y)[0]

    def _reduce_columns(
        self, kernel: str, char: str, x: AnyArray, outer: int, n: int, inner: int, *others: AnyArray
    ) -> AnyArray:
        rows = max(_BLOCK // inner, 4)
        blocks = -(-n // rows)
        out = np.empty((outer, blocks, inner))
        work = Work(outer * blocks, n, inner, rows, blocks)
        self.run_kernel(kernel, char, work, x.size, x, *others, out)
        return np.add.reduce(out, 1).astype(_result(x.dtype), copy=False)


#: Kernels name bools "t"; some platforms have two names for integers of one size.
_SAME = {"?": "t", "q": "l" if np.dtype("l").itemsize == 8 else "q"}


def _are_shared(x: AnyArray) -> bool:
    """Return whether threads share passes over an array of this size."""
    return bool(x.size >= 2 * WORTH_A_THREAD and threads.available() > 1)


def _result(dtype: Any) -> AnyArray:
    """Return the result's dtype: int64 for integers, float32 for halves."""
    if dtype.kind in "biu":
        return np.dtype("int64")
    return np.dtype("float32") if dtype.itemsize == 2 else dtype
