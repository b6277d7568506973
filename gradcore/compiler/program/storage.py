"""The memory of raw arrays, on the CPU or a device: its owner, its bounds, and whether two arrays overlap."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["address_of", "bounds", "owner_of", "share_memory"]


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
    steps = [(n - 1) * stride for n, stride in zip(array.shape, array.strides, strict=True)]
    start = address_of(array)
    return start + sum(min(s, 0) for s in steps), start + sum(max(s, 0) for s in steps) + array.dtype.itemsize
