"""Named ranges and marks for NVIDIA's profilers, which show them on a time line beside what the device does."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from gradcore.backends import registry

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]

_depth = threading.local()


def _nvtx() -> Any:
    reason = registry.unavailable("cuda")
    if reason is not None:
        raise RuntimeError(f"NVTX functions not installed. Are you sure you have a CUDA build? {reason}")
    return registry.find("cuda").xp.cuda.nvtx


def range_push(msg: str) -> int:
    """Begin a range inside of those that are open in this thread.

    Parameters
    ----------
    msg : str
        Its name.

    Returns
    -------
    int
        How many ranges it is inside of.

    Raises
    ------
    RuntimeError
        If CUDA cannot be used, with the reason.
    """
    _nvtx().RangePush(msg)
    before: int = getattr(_depth, "value", 0)
    _depth.value = before + 1
    return before


def range_pop() -> int:
    """End the innermost open range of this thread.

    Returns
    -------
    int
        How many ranges it was inside of.
    """
    _nvtx().RangePop()
    _depth.value = max(getattr(_depth, "value", 0) - 1, 0)
    return int(_depth.value)


def range_start(msg: str) -> int:
    """Begin a range that may end in another thread, and return its handle."""
    return int(_nvtx().RangeStart(msg, None))


def range_end(range_id: int) -> None:
    """End the range with a handle of `range_start`."""
    _nvtx().RangeEnd(range_id)


def mark(msg: str) -> None:
    """Mark this moment."""
    _nvtx().Mark(msg)


@contextlib.contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """Context, or decorator, that is a range.

    Parameters
    ----------
    msg : str
        Its name, in which further arguments are put as by ``str.format``.

    Examples
    --------
    >>> import gradcore
    >>> if gradcore.cuda.is_available():
    ...     with gradcore.cuda.nvtx.range("epoch {}", 3):
    ...         x = gradcore.ones(3, device="cuda") * 2
    """
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
