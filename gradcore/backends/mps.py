"""PyTorch's ``backends.mps``: Apple's GPUs, which gradcore has no backend for."""

from __future__ import annotations

__all__ = ["is_available", "is_built"]


def is_available() -> bool:
    """Whether tensors can lie on an Apple GPU: never."""
    return False


def is_built() -> bool:
    """Whether there is a backend for Apple's GPUs: no."""
    return False
