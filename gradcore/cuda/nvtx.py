"""Named ranges and marks for NVIDIA's profilers, shown on a time line next to the device's work."""

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
    """Begin a range, nested in the open ranges of this thread, and return its depth.

    Parameters
    ----------
    msg : str
        The name of the range.

    Returns
    -------
    int
        The number of ranges in which it is nested.

    Raises
    ------
    RuntimeError
        If CUDA cannot be used, with the reason.

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     depth = gc.cuda.nvtx.range_push("step")
    ...     depth = gc.cuda.nvtx.range_pop()
    """
    _nvtx().RangePush(msg)
    before: int = getattr(_depth, "value", 0)
    _depth.value = before + 1
    return before


def range_pop() -> int:
    """End the innermost open range of this thread, and return its depth.

    Returns
    -------
    int
        The number of ranges in which it was nested.

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     depth = gc.cuda.nvtx.range_push("step")
    ...     depth = gc.cuda.nvtx.range_pop()
    """
    _nvtx().RangePop()
    _depth.value = max(getattr(_depth, "value", 0) - 1, 0)
    return int(_depth.value)


def range_start(msg: str) -> int:
    """Begin a range that may end in another thread, and return its handle.

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     step = gc.cuda.nvtx.range_start("step")
    ...     gc.cuda.nvtx.range_end(step)
    """
    return int(_nvtx().RangeStart(msg, None))


def range_end(range_id: int) -> None:
    """End the range with this handle, which `range_start` returned.

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     step = gc.cuda.nvtx.range_start("step")
    ...     gc.cuda.nvtx.range_end(step)
    """
    _nvtx().RangeEnd(range_id)


def mark(msg: str) -> None:
    """Mark the present moment on the time line.

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     gc.cuda.nvtx.mark("epoch")
    """
    _nvtx().Mark(msg)


@contextlib.contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """Context manager and decorator that marks its block as a range.

    Parameters
    ----------
    msg : str
        The name of the range, into which further arguments are inserted as by ``str.format``.

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
