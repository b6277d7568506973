"""Page-locked memory of the host: NumPy arrays from which CUDA copies while the host goes on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["empty_pinned", "is_pinned"]


def empty_pinned(shape: Sequence[int], dtype: Any) -> Any:
    """Return an uninitialised NumPy array in page-locked memory."""
    import cupyx

    return cupyx.empty_pinned(shape, dtype)


def is_pinned(array: Any) -> bool:
    """Return whether a NumPy array is a view of page-locked memory that CuPy has allocated."""
    while array is not None:
        if type(array).__name__ == "PinnedMemoryPointer":
            return True
        array = array.obj if isinstance(array, memoryview) else getattr(array, "base", None)
    return False
