"""The ``meta`` device: arrays with shapes and dtypes but no data, on which every kernel runs and computes nothing."""

from gradcore.backends.meta.array import MetaArray
from gradcore.backends.meta.backend import MetaBackend

__all__ = ["MetaArray", "MetaBackend"]
