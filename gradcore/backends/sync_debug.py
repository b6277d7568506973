"""Count synchronizations with a device and copies to and from it, and report them on request.

Work on CUDA is queued, and it is fast as long as the host never waits. Functions that make the host wait (that read a
number, index with a mask, or copy to the host) call `note`.
"""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Literal, get_args

from gradcore.core.errors import caller_depth
from gradcore.core.tracebacks import user_frame

__all__ = ["COUNTS", "Mode", "mode", "note", "set_mode"]

Mode = Literal["default", "warn", "error"]

#: Number of synchronizations and copies, by ``"wait"``, ``"to host"`` and ``"to device"``.
COUNTS: Counter[str] = Counter()

_WORDS = {
    "wait": "the host waits for the device",
    "to host": "data is copied to the host",
    "to device": "data is copied to the device",
}
_mode: Mode = "default"


def mode() -> Mode:
    """Return the current reaction to a synchronization or a copy."""
    return _mode


def set_mode(new: Mode | int) -> None:
    """Choose what happens at a synchronization or a copy.

    Raises
    ------
    RuntimeError
        If `new` is no mode.
    """
    global _mode
    names = get_args(Mode)
    if isinstance(new, int) and not isinstance(new, bool) and 0 <= new < len(names):
        new = names[new]
    if new not in names:
        raise RuntimeError("invalid value of debug_mode, expected one of `default`, `warn`, `error`")
    _mode = new  # type: ignore[assignment]


def note(kind: str) -> None:
    """Count a synchronization or a copy, and warn or raise, with the user's line, if the mode says so."""
    COUNTS[kind] += 1
    if _mode == "default":
        return
    frame = user_frame()
    location = f"{frame.f_code.co_filename}:{frame.f_lineno}"
    text = f"called a synchronizing CUDA operation: {_WORDS[kind]} ({location}, in {frame.f_code.co_name})"
    if _mode == "error":
        raise RuntimeError(text)
    warnings.warn(text, UserWarning, stacklevel=caller_depth())
