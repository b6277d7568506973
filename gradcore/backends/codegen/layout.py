"""Layouts of arrays that are broadcast together: the dims and strides that a kernel iterates over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from gradcore.core.arrays import Array

__all__ = ["Layout", "layout_of"]


class Layout(NamedTuple):
    """The iteration space of a kernel.

    Attributes
    ----------
    shape : tuple of int
        The common shape.
    order : tuple of int or None
        The dims of the outputs from the slowest to the fastest; None: in their own order.
    extents : tuple of int
        The sizes of the dims that the kernel iterates over, after neighbours have been coalesced; empty if one index
        serves for all arrays.
    strides : tuple of tuple of int
        For each array, its strides along these dims, in elements.
    """

    shape: tuple[int, ...]
    order: tuple[int, ...] | None
    extents: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]


def layout_of(arrays: Sequence[Array]) -> Layout:
    """Return the layout of arrays that are broadcast together.

    Raises
    ------
    ValueError
        If their shapes do not fit.

    Examples
    --------
    >>> import numpy as np
    >>> layout_of([np.zeros((2, 3, 4)), np.zeros(4)])
    Layout(shape=(2, 3, 4), order=None, extents=(6, 4), strides=((4, 1), (0, 1)))
    """
    first = arrays[0]
    shape = first.shape
    if all(a.shape == shape and a.flags.c_contiguous for a in arrays):
        return Layout(shape, None, (), ())
    shape = np.broadcast_shapes(*(a.shape for a in arrays))
    strides = [_broadcast_strides(a, shape) for a in arrays]
    order = _memory_order(shape, strides, [a.shape == shape for a in arrays])
    kept_dims = [d for d in order if shape[d] != 1]
    extents, columns = _coalesce([shape[d] for d in kept_dims], [[row[d] for d in kept_dims] for row in strides])
    permuted = None if order == tuple(range(len(shape))) else order
    if len(extents) <= 1 and all(row in ([1], []) for row in columns):
        return Layout(shape, permuted, (), ())
    return Layout(shape, permuted, tuple(extents) or (1,), tuple(tuple(row) or (0,) for row in columns))


def _broadcast_strides(array: Array, shape: tuple[int, ...]) -> list[int]:
    """Return strides, in elements, along the dims of the common shape: 0 where the array is repeated."""
    size = array.dtype.itemsize
    strides = [0 if n == 1 else stride // size for n, stride in zip(array.shape, array.strides, strict=True)]
    return [0] * (len(shape) - len(strides)) + strides


def _memory_order(shape: tuple[int, ...], strides: list[list[int]], whole: list[bool]) -> tuple[int, ...]:
    """Return the dims from slowest to fastest, in the order of the first array that is not broadcast."""
    for row, is_whole in zip(strides, whole, strict=True):
        if is_whole and all(s > 0 for s, n in zip(row, shape, strict=True) if n > 1):
            return tuple(sorted(range(len(shape)), key=lambda d: -row[d] if shape[d] > 1 else -row[d] or -(2**62)))
    return tuple(range(len(shape)))


def _coalesce(extents: list[int], rows: list[list[int]]) -> tuple[list[int], list[list[int]]]:
    """Merge neighbouring dims over which every array has one stride, and return the new sizes and strides."""
    sizes: list[int] = []
    strides: list[list[int]] = [[] for _ in rows]
    for d, size in enumerate(extents):
        if sizes and all(new[-1] == row[d] * size for new, row in zip(strides, rows, strict=True)):
            sizes[-1] *= size
            for new, row in zip(strides, rows, strict=True):
                new[-1] = row[d]
        else:
            sizes.append(size)
            for new, row in zip(strides, rows, strict=True):
                new.append(row[d])
    return sizes, strides
