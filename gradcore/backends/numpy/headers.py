"""Copies of the headers of NumPy arrays: of the shape, strides, dtype and flags that belong to an array object."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["own_header"]


def own_header(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return an array on the same memory with a header (shape, strides, flags) of its own.

    The result is not a view of `array`: its ``base`` is not `array`, and changing the shape or strides of one, or
    resizing it, does not affect the other. Its memory ends where its elements end.
    """
    try:
        return np.asarray(array.data)
    except ValueError:  # The buffer protocol does not support this dtype.
        return np.asarray(array.view(f"u{array.itemsize}").data).view(array.dtype)
