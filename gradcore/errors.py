"""Warnings and exceptions that are gradcore's own; everything else raises Python's built-in types."""

from __future__ import annotations

__all__ = ["DeviceFallbackWarning", "LinAlgError", "OutOfMemoryError", "Unavailable"]


class DeviceFallbackWarning(UserWarning):
    """A CUDA device was asked for, cannot be used on this machine, and the CPU is used in its place."""


class LinAlgError(RuntimeError):
    """A matrix cannot be factored, inverted or solved with: it is singular, not positive definite, not finite."""


class OutOfMemoryError(RuntimeError):
    """A device had no memory left for an allocation."""


class Unavailable(Exception):
    """A backend cannot be used here; the text says why and what to do."""
