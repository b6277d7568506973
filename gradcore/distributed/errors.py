"""Errors of communication."""

from __future__ import annotations

__all__ = ["DistBackendError", "DistError", "DistNetworkError"]


class DistError(RuntimeError):
    """Base of the errors of communication between processes."""


class DistBackendError(DistError):
    """A collective failed, differed between ranks, or was not finished in time."""


class DistNetworkError(DistError):
    """Processes did not find each other."""


for _error in (DistError, DistBackendError, DistNetworkError):
    _error.__module__ = __name__.rpartition(".")[0]
