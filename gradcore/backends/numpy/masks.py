"""Kernels of triangles, nonzero elements and conversions to bool, for which NumPy handles elements one at a time."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcore.backends.kernel_methods import kernel_for
from gradcore.backends.portable.elementwise import Elementwise
from gradcore.core import dtypes

if TYPE_CHECKING:
    from gradcore.core.arrays import Array

__all__ = ["NumpyMasks"]

#: Elements from which the kernels below are faster than NumPy's functions, and from which triangles are computed a few
#: rows at a time.
_LARGE, _ROWS = 1 << 12, 32


def _is_large(backend: Any, x: Array) -> bool:
    return bool(x.ndim and x.size >= _LARGE and x.dtype.kind in "biufc")


def _is_matrix(backend: Any, x: Array, diagonal: int = 0) -> bool:
    return x.ndim > 1


def _is_mask_of_many(backend: Any, x: Array, dtype: Any) -> bool:
    if dtype != np.bool_ or x.size < _LARGE:
        return False
    return x.dtype.char in "fd" or _is_half(x.dtype)


def _is_half(dtype: Any) -> bool:
    entry = dtypes.FROM_NUMPY.get(dtype)
    return entry is not None and entry.is_reduced


class NumpyMasks(Elementwise):
    """Kernels of masks and triangles."""

    @kernel_for(_is_mask_of_many)
    def astype(self, x: Array, dtype: Any) -> Array:
        if not _is_half(x.dtype):
            return np.not_equal(x, x.dtype.type(0))
        return (x.view(np.uint16) & np.uint16(0x7FFF)).astype(np.bool_)  # all but the sign

    @kernel_for(_is_large)
    def nonzero_rows(self, x: Array) -> Array:
        positions = np.flatnonzero(x if x.dtype.kind == "b" else x != x.dtype.type(0))
        if x.ndim == 1:
            return positions[:, None]
        rows = np.empty((positions.size, x.ndim), np.int64)
        for dim in range(x.ndim - 1, 0, -1):
            before = positions // x.shape[dim]
            np.subtract(positions, before * x.shape[dim], rows[:, dim])
            positions = before
        rows[:, 0] = positions
        return rows

    @kernel_for(_is_matrix)
    def tril(self, x: Array, diagonal: int = 0) -> Array:
        return _triangle(x, diagonal, lower=True)

    @kernel_for(_is_matrix)
    def triu(self, x: Array, diagonal: int = 0) -> Array:
        return _triangle(x, diagonal, lower=False)


def _triangle(x: Array, diagonal: int, lower: bool) -> Array:
    """Return matrices with the elements of `x` on one side of a diagonal, and zeros on the other side.

    For small matrices, one mask selects the elements. In large ones, rows that the diagonal does not cross are copied
    or cleared. In a block of the others, only the few columns around the diagonal need a mask.
    """
    height, width = x.shape[-2:]
    if x.size < _LARGE:
        out = np.zeros(x.shape, x.dtype)
        np.copyto(out, x, where=_mask(height, width, max(-height - 1, min(diagonal + lower - 1, width)), lower))
        return out
    out = np.empty(x.shape, x.dtype)
    split = diagonal + lower  # of row 0, the first column beyond the left side
    begin = min(max(1 - split, 0), height)
    end = min(max(width - split, begin), height)
    above, below = slice(begin), slice(end, height)
    copied_rows, cleared_rows = (below, above) if lower else (above, below)
    out[..., copied_rows, :] = x[..., copied_rows, :]
    out[..., cleared_rows, :] = 0
    for start in range(begin, end, _ROWS):
        stop = min(start + _ROWS, end)
        first, last = start + split, stop - 1 + split
        left, between, right = slice(first), slice(first, last), slice(last, width)
        copied, cleared = (left, right) if lower else (right, left)
        out[..., start:stop, copied] = x[..., start:stop, copied]
        out[..., start:stop, cleared] = 0
        is_copied = _mask(stop - start, last - first, -1, lower)
        part = out[..., start:stop, between]
        part[...] = 0
        np.copyto(part, x[..., start:stop, between], where=is_copied)
    return out


@functools.lru_cache(128)
def _mask(height: int, width: int, diagonal: int, lower: bool) -> Array:
    """Return the mask of the elements on one side of a diagonal, for a matrix of fewer than `_LARGE` elements.

    NumPy needs several microseconds to create it.
    """
    is_left = np.tri(height, width, diagonal, np.bool_)
    mask = is_left if lower else ~is_left
    mask.flags.writeable = False
    return mask
