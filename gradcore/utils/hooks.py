"""Handles of hooks, under PyTorch's module name."""

from gradcore.autograd.graph import RemovableHandle
from gradcore.torch_names import paths

__all__ = ["RemovableHandle"]

paths.show_public(__name__)
