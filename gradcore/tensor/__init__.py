"""The tensor and what belongs to it: methods, indexing, creation, printing, storage, layouts, copies and pickles."""

from gradcore.tensor.tensor import Tensor, is_differentiated

__all__ = ["Tensor", "is_differentiated"]
