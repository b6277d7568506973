"""Shapes without data: the ``meta`` device, on which every kernel runs and nothing is computed."""

from gradcore.backends.tracing.array import Traced
from gradcore.backends.tracing.backend import TracingBackend

__all__ = ["Traced", "TracingBackend"]
