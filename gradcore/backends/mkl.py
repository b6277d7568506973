"""PyTorch's ``backends.mkl``: Intel's MKL."""

from __future__ import annotations

__all__ = ["is_available"]


def is_available() -> bool:
    """Whether Intel's MKL is used: no, NumPy may be linked to it, but gradcore does not call it."""
    return False
