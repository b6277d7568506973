"""PyTorch's name for where the handles of hooks are found."""

from gradcore.autograd.graph import RemovableHandle

__all__ = ["RemovableHandle"]
