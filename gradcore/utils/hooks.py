"""PyTorch's name for where the handles of hooks are found."""

from gradcore.autograd.node import RemovableHandle

__all__ = ["RemovableHandle"]
