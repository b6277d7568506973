"""Threads for large work on the CPU: NumPy computes without the interpreter's lock, so tiles can run side by side."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["get_num_threads", "set_num_threads"]


def _cores() -> int:
    """The number of threads that the environment asks for, or of the cores that this process may use."""
    wanted = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    if wanted.isdigit() and int(wanted):
        return int(wanted)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Pool:
    """The threads beside the calling one; started when there is first something for them to do."""

    def __init__(self) -> None:
        self.size = _cores()
        self.executor: Any = None
        self.lock = threading.Lock()

    def submit(self, *call: Any) -> Any:
        with self.lock:
            if self.executor is None:
                from concurrent.futures import ThreadPoolExecutor

                self.executor = ThreadPoolExecutor(self.size - 1, "gradcore", _prepare_thread)
            return self.executor.submit(*call)

    def resize(self, size: int) -> None:
        with self.lock:
            old, self.executor, self.size = self.executor, None, size
        if old is not None:
            old.shutdown(wait=False)

    def forget(self) -> None:
        """The child of a fork has none of its parent's threads, and perhaps a lock that one of them held."""
        self.executor, self.lock = None, threading.Lock()


_pool = _Pool()
_here = threading.local()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.forget)


def _prepare_thread() -> None:
    _here.works = True
    np.seterr(all="ignore")


def get_num_threads() -> int:
    """The number of threads that compute large elementwise operations on the CPU.

    Returns
    -------
    int
        At import, what the environment variable ``OMP_NUM_THREADS`` says, or else the number of cores.
    """
    return _pool.size


def set_num_threads(num_threads: int) -> None:
    """Choose how many threads compute large operations on the CPU.

    It is the number for elementwise operations and, where NumPy comes with OpenBLAS, for products of matrices. Results
    are the same for every number, except that those of BLAS may differ in the last places.

    Parameters
    ----------
    num_threads : int
        At least 1.

    Examples
    --------
    >>> import gradcore
    >>> before = gradcore.get_num_threads()
    >>> gradcore.set_num_threads(1)
    >>> gradcore.get_num_threads()
    1
    >>> gradcore.set_num_threads(before)
    """
    if num_threads.__class__ is not int:
        raise TypeError(f"set_num_threads expects an int, but got {type(num_threads).__name__}")
    if num_threads < 1:
        raise RuntimeError("set_num_threads expects a positive integer")
    if num_threads != _pool.size:
        _pool.resize(num_threads)
    from glob import glob

    for path in glob(os.path.join(os.path.dirname(np.__file__) + ".libs", "libscipy_openblas*")):
        set_threads = getattr(ctypes.CDLL(path), "scipy_openblas_set_num_threads64_", None)
        if set_threads is not None:
            set_threads(num_threads)


def spread(work: Callable[[int, int], None], count: int, most: int | None = None) -> None:
    """Call ``work(start, stop)`` for consecutive parts of ``range(count)``, one a thread, and wait for all.

    There are at most `most` parts, if it is given. What a part spreads in turn stays in its thread.
    """
    parts = min(_pool.size, count, count if most is None else most)
    if parts < 2 or getattr(_here, "works", False):
        work(0, count)
        return
    bounds = [count * i // parts for i in range(parts + 1)]
    try:
        others = [_pool.submit(work, bounds[i], bounds[i + 1]) for i in range(1, parts)]
    except RuntimeError:  # the interpreter is about to end
        work(0, count)
        return
    try:
        work(0, bounds[1])
    finally:  # nobody may see the result while another thread writes into it
        errors = [other.exception() for other in others]
    for error in errors:
        if error is not None:
            raise error
