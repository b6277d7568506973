"""Detection of synchronization, where the host waits for the device."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator

from gradcore.backends import sync_debug
from gradcore.backends.sync_debug import Mode

__all__ = ["get_sync_debug_mode", "set_sync_debug_mode", "sync_debug_mode", "transfers"]


def set_sync_debug_mode(debug_mode: Mode | int) -> None:
    """Set what happens when the host waits for a CUDA device, or data is copied between them.

    Parameters
    ----------
    debug_mode : {'default', 'warn', 'error'} or {0, 1, 2}
        Nothing, a warning, or a `RuntimeError`, both with the line of the caller.

    Raises
    ------
    RuntimeError
        If `debug_mode` is none of these.

    Examples
    --------
    >>> import gradcore
    >>> gradcore.cuda.set_sync_debug_mode("warn")
    >>> gradcore.cuda.get_sync_debug_mode()
    1
    >>> gradcore.cuda.set_sync_debug_mode("default")
    """
    sync_debug.set_mode(debug_mode)


def get_sync_debug_mode() -> int:
    """Return the mode as a number: 0 (nothing), 1 (warnings) or 2 (errors).

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.cuda.get_sync_debug_mode()
    0
    """
    return ("default", "warn", "error").index(sync_debug.mode())


@contextlib.contextmanager
def sync_debug_mode(debug_mode: Mode | int) -> Iterator[None]:
    """Context manager that sets the mode inside the block; see `set_sync_debug_mode`.

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     with gc.cuda.sync_debug_mode("warn"):
    ...         y = gc.ones(2, device="cuda") * 2
    """
    mode = sync_debug.mode()
    sync_debug.set_mode(debug_mode)
    try:
        yield
    finally:
        sync_debug.set_mode(mode)


@contextlib.contextmanager
def transfers() -> Iterator[Counter[str]]:
    """Count how often, inside this context manager, the host waits for a device or data is copied.

    Yields
    ------
    Counter
        Counts by the names ``"wait"``, ``"to host"`` and ``"to device"``, once the context has ended.

    Examples
    --------
    >>> import gradcore
    >>> with gradcore.cuda.transfers() as counts:
    ...     y = gradcore.ones(3) * 2
    >>> counts.total()
    0
    """
    counts_before = Counter(sync_debug.COUNTS)
    counts: Counter[str] = Counter()
    try:
        yield counts
    finally:
        counts.update(sync_debug.COUNTS - counts_before)
