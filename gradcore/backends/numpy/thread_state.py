"""State of single threads: the cores on which they may run, and whether their CPU replaces subnormal numbers by zeros.

Linux wakes a thread on the core of the thread that wakes it if no other core is awake. In a virtual machine, idle
cores sleep, so the two threads take turns on one core for several milliseconds. Forbidding the woken thread to run on
its caller's core avoids that.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import numpy as np

from gradcore.core import config

__all__ = ["connect", "current_core", "has_subnormals", "is_flushing", "keep_away", "keep_subnormals", "set_flushing"]

# -- cores ---------------------------------------------------------------------------------------------------------


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


# -- subnormal numbers ---------------------------------------------------------------------------------------------


def is_flushing() -> bool:
    """Return whether the CPU replaces subnormal numbers by zeros in this thread; False if that is unknown."""
    return _flush.read()


def set_flushing(on: bool) -> bool:
    """Set whether the CPU replaces subnormal numbers by zeros in this thread. Return whether it could be set."""
    return _flush.write(on)


@contextmanager
def keep_subnormals() -> Iterator[None]:
    """Keep subnormal numbers in this thread within the context."""
    flushes = is_flushing()
    set_flushing(False)
    try:
        yield
    finally:
        set_flushing(flushes)


def has_subnormals(value: object) -> bool:
    """Return whether a number or an element of an array counts as zero in threads that flush subnormal numbers.

    A Python number counts as float32. Halves are computed in float32, where they are not subnormal.
    """
    if not isinstance(value, (float, complex, np.ndarray, np.generic)):
        return False
    array = np.asarray(value) if isinstance(value, (np.ndarray, np.generic)) else np.asarray(value, np.complex64)
    if array.dtype.char not in "fdFD":
        return False
    sizes = np.abs([array.real, array.imag])
    return bool(((sizes != 0) & (sizes < np.finfo(array.dtype).smallest_normal)).any())


def connect(library: ctypes.CDLL) -> None:
    """Use the functions of the compiled library, which read and set the CPU's register."""
    read, write = library.gradcore_flushes_subnormals, library.gradcore_flush_subnormals
    read.argtypes, read.restype = [], ctypes.c_bool
    write.argtypes, write.restype = [ctypes.c_bool], ctypes.c_bool
    _flush.read, _flush.write = read, write


class _FlushFunctions:
    """Functions of the compiled library for the flag of the current thread, or substitutes while there is none.

    Attributes
    ----------
    read : callable
        Returns whether this thread flushes subnormal numbers.
    write : callable
        Sets whether this thread flushes them, and returns whether that is possible.
    """

    read: Callable[[], bool]
    write: Callable[[bool], bool]

    def __init__(self) -> None:
        self.read = lambda: False
        self.write = lambda on: False


_flush = _FlushFunctions()
