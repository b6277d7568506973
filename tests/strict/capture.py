"""Capture of work for a graph, on the host: what is queued meanwhile is kept, and done when the graph is replayed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

#: While work is captured, what a replay of the graph does.
_captured: list[Callable[[], Any]] | None = None


class CaptureError(RuntimeError):
    """As CUDA's, where something is captured that cannot be."""


def is_on() -> bool:
    """Whether work is captured."""
    return _captured is not None


def refuse(why: str) -> NoReturn:
    """Say that this cannot be captured."""
    raise CaptureError(f"cudaErrorStreamCaptureUnsupported: {why}")


def begin() -> None:
    """From now on, keep what is queued."""
    global _captured
    _captured = []


def end() -> Callable[[], None]:
    """End the capture, and return a function that replays the queued work."""
    global _captured
    work, _captured = _captured or [], None

    def replay() -> None:
        with np.errstate(all="ignore"):
            for each in work:
                each()

    return replay


def queued(work: Callable[[], Any]) -> None:
    """Do what changes memory; or later, if work is captured."""
    if _captured is None:
        work()
    else:
        _captured.append(work)
