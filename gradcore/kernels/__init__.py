"""CUDA kernels of one's own as differentiable operations."""

from gradcore.kernels.making import from_kernel

__all__ = ["from_kernel"]
