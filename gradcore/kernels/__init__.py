"""Differentiable operations from user-written CUDA kernels."""

from gradcore.kernels.making import from_kernel

__all__ = ["from_kernel"]
