"""Differentiable operations from user-written CUDA kernels."""

from gradcore.kernels.making import from_kernel
from gradcore.torch_names import paths

__all__ = ["from_kernel"]

paths.show_public(__name__)
