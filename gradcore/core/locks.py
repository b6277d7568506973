"""Process-wide locks that are reset in a forked child, where the threads that held them no longer exist."""

from __future__ import annotations

import os
import threading

__all__ = ["process_lock"]


def process_lock() -> threading.RLock:  # a function, before Python 3.13
    """Return a reentrant lock that lives as long as the process."""
    lock = threading.RLock()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lock._at_fork_reinit)  # type: ignore[attr-defined]
    return lock
