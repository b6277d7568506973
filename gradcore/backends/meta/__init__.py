"""Shapes without data: the ``meta`` device, on which every kernel runs and nothing is computed."""

from gradcore.backends.meta.array import MetaArray
from gradcore.backends.meta.backend import MetaBackend

__all__ = ["MetaArray", "MetaBackend"]
