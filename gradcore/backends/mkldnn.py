"""PyTorch's ``backends.mkldnn``: oneDNN."""

from __future__ import annotations

__all__ = ["is_available"]


def is_available() -> bool:
    """Whether oneDNN is used: no, gradcore does not use it."""
    return False
