"""Reentrant locks that interrupts and forks leave free."""

from __future__ import annotations

import os
import sys
import threading

__all__ = ["new_lock", "process_lock"]

#: Whether an interrupt may arrive between the call of a method ``__enter__`` in C and the body of ``with``.
_HAS_GAP = sys.version_info[:2] >= (3, 14)


def new_lock() -> threading.RLock:  # a function, before Python 3.13
    """Return a reentrant lock that is free after ``with lock:``, wherever an interrupt (Ctrl-C) ends the statement.

    In Python 3.14, a lock of `threading` may stay locked. After a method ``__enter__`` in Python there is no such gap.

    Examples
    --------
    >>> lock = new_lock()
    >>> with lock, lock:
    ...     pass
    """
    lock = threading.RLock()
    if not _HAS_GAP:
        return lock

    def enter() -> bool:
        before = lock._recursion_count()  # type: ignore[attr-defined]
        try:
            return lock.acquire()
        except BaseException:
            while lock._recursion_count() > before:  # type: ignore[attr-defined]
                lock.release()
            raise

    names = ("__exit__", "_at_fork_reinit", "_recursion_count", "acquire", "release")
    methods = {name: getattr(lock, name) for name in names}
    return type("Lock", (), {**methods, "__enter__": staticmethod(enter)})()  # type: ignore[no-any-return]


def process_lock() -> threading.RLock:
    """Return a lock that lives as long as the process, and is free in a forked child, which has no other threads."""
    lock = new_lock()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lock._at_fork_reinit)  # type: ignore[attr-defined]
    return lock
