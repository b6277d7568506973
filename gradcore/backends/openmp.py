"""PyTorch's ``backends.openmp``: OpenMP."""

from __future__ import annotations

__all__ = ["is_available"]


def is_available() -> bool:
    """Whether OpenMP is used: no, gradcore's threads are Python's."""
    return False
