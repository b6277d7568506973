"""Functions that choose the cores on which threads run.

Linux wakes a thread on the core of the thread that wakes it if no other core is awake. In a virtual machine, idle
cores sleep, so the two threads take turns on one core for several milliseconds. Forbidding the woken thread to run on
its caller's core avoids that.
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


#: Function that returns the core on which the current thread runs, or -1 where threads are not placed.
current_core = _reader()


def keep_away(thread: int, core: int) -> None:
    """Forbid a thread to run on `core`; it may use all other cores of the current thread.

    If there is no other core, do nothing.

    Parameters
    ----------
    thread : int
        Number of the thread in the operating system.
    core : int
        Number of the core, usually the one on which the current thread runs.
    """
    cores = os.sched_getaffinity(0) - {core}
    if cores:
        with suppress(OSError):  # the thread has ended, or some cores have gone
            os.sched_setaffinity(thread, cores)
