"""Strides and offsets of views, as arithmetic on shapes and strides.

Shapes are tuples of ints; strides, also tuples, are in bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

from gradcore.core.size import contiguous_strides

__all__ = [
    "index_strides",
    "infer_shape",
    "is_contiguous",
    "keep_order_strides",
    "reshape_strides",
]

Ints = tuple[int, ...]


def is_contiguous(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> bool:
    """Return whether the elements lie in C order without gaps. Strides of dims of size 1 do not matter."""
    if 0 in shape:
        return True
    for n, step in zip(reversed(shape), reversed(strides), strict=True):
        if n != 1 and step != itemsize:
            return False
        itemsize *= n
    return True


def keep_order_strides(shape: Ints, itemsize: int, operands: Iterable[tuple[Ints, Ints]]) -> Ints:
    """Return the strides of a new array whose dims have the order of those of the operands (NumPy's order "K").

    `operands` are the (shape, strides) of what was broadcast to `shape`. Where they disagree, C order wins.
    """
    steps = [_broadcast_strides(shape, *operand) for operand in operands]
    order: list[int] = []  # dims from the fastest to the slowest
    for dim in reversed(range(len(shape))):
        position = len(order)
        for i in reversed(range(position)):
            pairs = [(abs(s[dim]), abs(s[order[i]])) for s in steps if s[dim] and s[order[i]]]
            if not pairs:
                continue
            if any(own_step >= other for own_step, other in pairs):
                break
            position = i
        order.insert(position, dim)
    strides, step = [0] * len(shape), itemsize
    for dim in order:
        strides[dim] = step
        step *= max(shape[dim], 1)
    return tuple(strides)


def _broadcast_strides(shape: Ints, own: Ints, strides: Ints) -> Ints:
    return (0,) * (len(shape) - len(own)) + tuple(0 if n == 1 else s for n, s in zip(own, strides, strict=True))


def infer_shape(size: int, shape: Sequence[int]) -> Ints:
    """Return `shape` with -1 replaced by the size that is left for it.

    Raises
    ------
    ValueError
        If no array of that shape has so many elements.
    """
    product = prod(n for n in shape if n >= 0)
    if sum(n < 0 for n in shape) == 1 and product and size % product == 0:
        return tuple(size // product if n < 0 else n for n in shape)
    if min(shape, default=0) < 0 or product != size:
        raise ValueError(f"cannot reshape array of size {size} into shape {tuple(shape)}")
    return tuple(shape)


def reshape_strides(shape: Ints, strides: Ints, itemsize: int, new: Ints) -> Ints | None:
    """Return the strides of a view in another shape, or None if the elements have to be copied."""
    if 0 in shape or is_contiguous(shape, strides, itemsize):
        return contiguous_strides(new, itemsize)
    # Each entry is ``[elements, step]``, for neighbouring dims that form one evenly spaced sequence of elements.
    runs: list[list[int]] = []
    for n, step in zip(shape, strides, strict=True):
        if n == 1:
            continue
        if runs and runs[-1][1] == n * step:
            runs[-1] = [runs[-1][0] * n, step]
        else:
            runs.append([n, step])
    result: list[int] = []
    remaining, step = runs.pop() if runs else (1, itemsize)
    for n in reversed(new):
        if n > 1 and remaining == 1:
            remaining, step = runs.pop()
        if remaining % n:
            return None
        result.append(step)
        remaining //= n
        step *= n
    return tuple(reversed(result))


def index_strides(shape: Ints, strides: Ints, index: Sequence[Any]) -> tuple[Ints, Ints, int]:
    """Return shape, strides and offset of the view that ints and slices, one for each dim, and None select.

    Raises
    ------
    IndexError
        If an int is out of range.
    """
    sizes, steps, offset, dim = [], [], 0, 0
    for entry in index:
        if entry is None:
            sizes.append(1)
            steps.append(0)
            continue
        n, step = shape[dim], strides[dim]
        if isinstance(entry, slice):
            numbers = range(n)[entry]
            sizes.append(len(numbers))
            steps.append(step * numbers.step)
            offset += numbers.start * step if len(numbers) else 0
        elif -n <= entry < n:
            offset += entry % n * step
        else:
            raise IndexError(f"index {entry} is out of bounds for axis {dim} with size {n}")
        dim += 1
    return tuple(sizes), tuple(steps), offset
