"""Errors of communication between processes."""

from __future__ import annotations

__all__ = ["DistBackendError", "DistError", "DistNetworkError"]


class DistError(RuntimeError):
    """Base class of the errors of communication between processes."""


class DistBackendError(DistError):
    """Raised when a collective fails, differs between ranks, or is not finished in time."""


class DistNetworkError(DistError):
    """Raised when processes do not find each other."""


for _error in (DistError, DistBackendError, DistNetworkError):
    _error.__module__ = __name__.rpartition(".")[0]
