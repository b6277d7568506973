"""Headers of NumPy arrays: shape, strides, dtype and flags, which belong to whoever has the array object."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["own_header"]


def own_header(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return an array on the same memory with a header (shape, strides, flags) of its own.

    No array stands between this one and the memory, so that neither writes to either's header, nor ``base``, nor
    `numpy.ndarray.resize` lead from one to the other, and the memory of this one ends where its elements end.
    """
    try:
        return np.asarray(array.data)
    except ValueError:  # a dtype that buffers do not know
        return np.asarray(array.view(f"u{array.itemsize}").data).view(array.dtype)
