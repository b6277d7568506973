"""PyTorch's name for where the handles of hooks are found."""

from gradcore.autograd.hooks import RemovableHandle

__all__ = ["RemovableHandle"]
