"""Stable sorting of rows by the bytes of their elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gradcore.backends.compiled.calls import CompiledCalls, Work
from gradcore.backends.kernel_methods import kernel_for
from gradcore.backends.numpy.sorting import LARGE
from gradcore.backends.portable.sorting import comparable

if TYPE_CHECKING:
    from gradcore.core.arrays import Array

__all__ = ["CompiledSorting"]

#: Elements, and the length of rows, from which the kernel is faster.
_LARGE, _LENGTH = 1 << 12, 256
#: Types as which elements are sorted, by kind and size of NumPy's dtype.
_SORTED_AS = {
    "f2": "f", "f4": "f", "f8": "d", "b1": "i", "i1": "i", "u1": "i", "i2": "i", "u2": "i", "i4": "i", "u4": "l",
    "i8": "l",
}  # fmt: skip


def _sorts(backend: Any, x: Array, dim: int, descending: bool = False) -> bool:
    by_numpy = x.dtype == np.int64 and x.size >= LARGE  # together with their indices, which takes half the time
    return bool(
        x.size >= _LARGE and _LENGTH <= x.shape[dim] < 1 << 31 and x.dtype.str[1:] in _SORTED_AS and not by_numpy
    )


class CompiledSorting(CompiledCalls):
    """Sorting along a dim."""

    @kernel_for(_sorts)
    def argsort_along(self, x: Array, dim: int, descending: bool = False) -> Array:
        return self._sort_rows(x, dim, descending)[1]

    @kernel_for(_sorts)
    def sort_along(self, x: Array, dim: int, descending: bool = False) -> tuple[Array, Array]:
        values, index = self._sort_rows(x, dim, descending)
        return values.astype(x.dtype, copy=False), index

    def _sort_rows(self, x: Array, dim: int, descending: bool) -> tuple[Array, Array]:
        char, moved = _SORTED_AS[x.dtype.str[1:]], comparable(x).swapaxes(dim, -1)
        rows = np.ascontiguousarray(moved, char)
        out, index, failed = np.empty(rows.shape, char), np.empty(rows.shape, np.int64), np.zeros(1, np.int64)
        width = rows.shape[-1]
        work = Work(rows.size // width, rows.size // width, width, number=descending)
        self.run_kernel("sort_rows", char, work, rows.size, rows, out, index, failed)
        if failed[0]:
            raise MemoryError(f"to sort {rows.size} elements")
        results = (np.ascontiguousarray(a.swapaxes(dim, -1)) for a in (out, index))
        return next(results), next(results)
