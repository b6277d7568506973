"""How arrays that are broadcast together lie in memory: over which dims a kernel has to run, and with which steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Layout", "layout_of"]


class Layout(NamedTuple):
    """What a kernel is told about its operands.

    Attributes
    ----------
    shape : tuple of int
        The common shape.
    order : tuple of int or None
        The dims of the results from the slowest to the fastest; None: as they are numbered.
    extents : tuple of int
        The sizes of the dims that the kernel runs over, after neighbours have been joined; empty if one index serves
        for all arrays.
    steps : tuple of tuple of int
        For each array, how many elements each of these dims advances.
    """

    shape: tuple[int, ...]
    order: tuple[int, ...] | None
    extents: tuple[int, ...]
    steps: tuple[tuple[int, ...], ...]


def layout_of(arrays: Sequence[Any]) -> Layout:
    """The layout of arrays that are broadcast together.

    Raises
    ------
    ValueError
        If their shapes do not fit.

    Examples
    --------
    >>> import numpy as np
    >>> layout_of([np.zeros((2, 3, 4)), np.zeros(4)])
    Layout(shape=(2, 3, 4), order=None, extents=(6, 4), steps=((4, 1), (0, 1)))
    """
    first = arrays[0]
    shape = first.shape
    if all(a.shape == shape and a.flags.c_contiguous for a in arrays):
        return Layout(shape, None, (), ())
    shape = np.broadcast_shapes(*(a.shape for a in arrays))
    steps = [_steps(a, shape) for a in arrays]
    order = _order(shape, steps, [a.shape == shape for a in arrays])
    kept = [d for d in order if shape[d] != 1]
    extents, columns = _joined([shape[d] for d in kept], [[step[d] for d in kept] for step in steps])
    numbered = None if order == tuple(range(len(shape))) else order
    if len(extents) <= 1 and all(row in ([1], []) for row in columns):
        return Layout(shape, numbered, (), ())
    return Layout(shape, numbered, tuple(extents) or (1,), tuple(tuple(row) or (0,) for row in columns))


def _steps(array: Any, shape: tuple[int, ...]) -> list[int]:
    """Elements that each dim of the common shape advances; 0 where the array is repeated."""
    size = array.dtype.itemsize
    own = [0 if n == 1 else step // size for n, step in zip(array.shape, array.strides, strict=True)]
    return [0] * (len(shape) - len(own)) + own


def _order(shape: tuple[int, ...], steps: list[list[int]], whole: list[bool]) -> tuple[int, ...]:
    """The dims from the slowest to the fastest, as they lie in the first array that has all elements."""
    for step, is_whole in zip(steps, whole, strict=True):
        if is_whole and all(s > 0 for s, n in zip(step, shape, strict=True) if n > 1):
            return tuple(sorted(range(len(shape)), key=lambda d: -step[d] if shape[d] > 1 else -step[d] or -(2**62)))
    return tuple(range(len(shape)))


def _joined(extents: list[int], rows: list[list[int]]) -> tuple[list[int], list[list[int]]]:
    """Neighbouring dims made one where every array advances through them evenly."""
    sizes: list[int] = []
    steps: list[list[int]] = [[] for _ in rows]
    for d, size in enumerate(extents):
        if sizes and all(new[-1] == row[d] * size for new, row in zip(steps, rows, strict=True)):
            sizes[-1] *= size
            for new, row in zip(steps, rows, strict=True):
                new[-1] = row[d]
        else:
            sizes.append(size)
            for new, row in zip(steps, rows, strict=True):
                new.append(row[d])
    return sizes, steps
