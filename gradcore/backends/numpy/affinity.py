"""The cores on which threads run.

Linux wakes a thread on the core of its waker if no other is awake. In a virtual machine idle cores sleep, so that two
threads took turns on one core for several milliseconds. Threads that are kept away from their caller's core do not.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from contextlib import suppress

from gradcore.core import config

__all__ = ["current_core", "keep_away"]


def _unknown() -> int:
    return -1


def _reader() -> Callable[[], int]:
    if config.PLACE_THREADS and hasattr(os, "sched_setaffinity"):
        with suppress(OSError, AttributeError):
            return ctypes.CDLL(None).sched_getcpu
    return _unknown


#: The core on which the current thread runs; -1 where threads are not placed.
current_core = _reader()


def keep_away(thread: int, core: int) -> None:
    """Forbid a thread to run on a core. It may use all others that the current thread may use.

    Nothing happens where there are none.

    Parameters
    ----------
    thread : int
        The thread's number in the operating system.
    core : int
        Where the current thread is.
    """
    cores = os.sched_getaffinity(0) - {core}
    if cores:
        with suppress(OSError):  # the thread has ended, or some cores have gone
            os.sched_setaffinity(thread, cores)
