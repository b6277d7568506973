"""Stable sorting of rows by the bytes of their elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gradcore.backends.compiled.calls import CompiledCalls, Work, as_dense
from gradcore.backends.kernel_methods import kernel_for
from gradcore.backends.numpy.sorting import LARGE, sort_integers
from gradcore.backends.portable.sorting import comparable

if TYPE_CHECKING:
    from gradcore.core.arrays import Array

__all__ = ["CompiledSorting"]

#: Elements, and the length of rows, from which the kernel is faster.
_LARGE, _LENGTH = 1 << 12, 256
#: Length of rows of int64 from which NumPy's sort of elements together with their indices is faster. It is 1.2 to 2.7
#: times as fast for a row of 2**18 random elements with AVX-512 (0.6 to 1.5 times with AVX2, the least where only 64
#: values occur), and 1.9 to 4.3 times for 2**21 (1.0 to 2.5 times).
_LONG = 1 << 18
#: Types as which elements are sorted, by kind and size of NumPy's dtype.
_SORTED_AS = {
    "f2": "f", "f4": "f", "f8": "d", "b1": "i", "i1": "i", "u1": "i", "i2": "i", "u2": "i", "i4": "i", "u4": "l",
    "i8": "l",
}  # fmt: skip


def _sorts(backend: Any, x: Array, dim: int, descending: bool = False) -> bool:
    return bool(x.size >= _LARGE and _LENGTH <= x.shape[dim] < 1 << 31 and x.dtype.str[1:] in _SORTED_AS)


def _sort_long_rows(x: Array, dim: int, descending: bool, with_values: bool) -> tuple[Array | None, Array | None]:
    """Sort long rows of int64 by `sort_integers`. Return None for the indices of others, or if the range is too large.

    NumPy's general sort, which takes a larger range, is slower than the compiled kernel where elements repeat.
    """
    if x.dtype != np.int64 or x.shape[dim] < _LONG:
        return None, None
    return sort_integers(x, dim, descending, with_values)


class CompiledSorting(CompiledCalls):
    """Sorting along a dim."""

    @kernel_for(_sorts)
    def argsort_along(self, x: Array, dim: int, descending: bool = False) -> Array:
        order, _ = _sort_long_rows(x, dim, descending, False)
        return self._sort_rows(x, dim, descending)[1] if order is None else order

    @kernel_for(_sorts)
    def sort_along(self, x: Array, dim: int, descending: bool = False) -> tuple[Array, Array]:
        order, values = _sort_long_rows(x, dim, descending, x.size >= LARGE)
        if order is not None:
            return self.take_along(x, order, dim) if values is None else values, order
        values, order = self._sort_rows(x, dim, descending)
        return values.astype(x.dtype, copy=False), order

    def _sort_rows(self, x: Array, dim: int, descending: bool) -> tuple[Array, Array]:
        char, moved = _SORTED_AS[x.dtype.str[1:]], comparable(x).swapaxes(dim, -1)
        rows = as_dense(moved, char)
        out, index = np.empty(rows.shape, char), np.empty(rows.shape, np.int64)
        width = rows.shape[-1]
        work = Work(rows.size // width, rows.size // width, width, number=descending)
        self.run_kernel("sort_rows", char, work, rows.size, rows, out, index)
        results = (np.ascontiguousarray(a.swapaxes(dim, -1)) for a in (out, index))
        return next(results), next(results)
