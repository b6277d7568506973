"""The memory of raw arrays, on the CPU or a device: its owner, its bounds, and whether two arrays overlap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradcore.core.typing import AnyArray

__all__ = ["address_of", "bounds", "empty_strided", "owner_of", "share_memory", "span_of"]


def address_of(array: Any) -> int:
    """Return the address of the first element of an array."""
    return int(array.__array_interface__["data"][0] if isinstance(array, np.ndarray) else array.data.ptr)


def owner_of(array: Any) -> Any:
    """Return the object that owns the memory of an array."""
    if not isinstance(array, np.ndarray):
        return array.data.mem
    while getattr(array, "base", None) is not None:
        array = array.base
    return array


def share_memory(a: Any, b: Any) -> bool:
    """Return whether the address ranges of two arrays, from the first to the last element, overlap."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return type(a) is type(b) and bool(np.may_share_memory(a, b))
    (start, stop), (other_start, other_stop) = bounds(a), bounds(b)
    return start < other_stop and other_start < stop and bool(a.size and b.size)


def bounds(array: Any) -> tuple[int, int]:
    """Return the address of the first byte of an array, and of the byte after the last."""
    start, (low, high) = address_of(array), span_of(array.shape, array.strides, array.dtype.itemsize)
    return start + low, start + high


def span_of(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> tuple[int, int]:
    """Return the distances in bytes from the first element to the lowest byte, and to the byte after the highest."""
    if 0 in shape:
        return 0, 0
    steps = [(n - 1) * stride for n, stride in zip(shape, strides, strict=True)]
    return sum(min(step, 0) for step in steps), sum(max(step, 0) for step in steps) + itemsize


def empty_strided(shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any]) -> AnyArray:
    """Return an uninitialized array with strides in bytes, none of them negative."""
    _, size = span_of(shape, strides, dtype.itemsize)
    return np.ndarray(shape, dtype, np.empty(size, np.uint8), 0, strides)
