"""The tensor: its class, methods, indexing, creation, printing, storage, layouts and copies."""

from gradcore.tensor.tensor import Tensor, is_differentiated

__all__ = ["Tensor", "is_differentiated"]
