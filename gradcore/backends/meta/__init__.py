"""Shapes without data: the ``meta`` device, on which every kernel runs and nothing is computed."""

from gradcore.backends.meta.array import Traced
from gradcore.backends.meta.backend import TracingBackend

__all__ = ["Traced", "TracingBackend"]
