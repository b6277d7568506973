"""Threads for large work on the CPU. NumPy releases the interpreter's lock, so tiles can run side by side."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator

from gradcore.backends.numpy.openblas import NUMPY
from gradcore.backends.numpy.thread_pool import Pool, works_in_parts

__all__ = ["get_num_threads", "set_num_threads", "share", "spread"]


def _cores() -> int:
    """Return the number of threads that the environment sets, or the number of cores that this process may use."""
    wanted = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    if wanted.isdigit() and int(wanted):
        return int(wanted)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_pool = Pool(_cores() - 1)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.forget)


def get_num_threads() -> int:
    """Return the number of threads that compute large elementwise operations on the CPU.

    Returns
    -------
    int
        At import, what the environment variable ``OMP_NUM_THREADS`` says, or else the number of cores.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.get_num_threads() >= 1
    True
    """
    return _pool.size + 1


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
    if isinstance(num_threads, bool) or not hasattr(num_threads, "__index__"):
        raise TypeError(f"set_num_threads expects an int, but got {type(num_threads).__name__}")
    num_threads = num_threads.__index__()
    if num_threads < 1:
        raise RuntimeError("set_num_threads expects a positive integer")
    _pool.resize(num_threads - 1)
    NUMPY.allow(num_threads)


def share(work: Callable[[Iterator[int]], None], count: int, most: int | None = None) -> None:
    """Call ``work(numbers)`` in several threads, and wait for all: each takes the next of `count` numbers when it can.

    So a thread that comes late, or is slow, does less. There are at most `most` threads, if it is given. What a thread
    shares in turn it does alone. Once one has failed, or was interrupted, no other begins a further number.
    """
    numbers = iter(range(count))  # whose next number only one thread can get
    others = min(_pool.size, count - 1, count if most is None else most - 1)
    if others < 1 or works_in_parts():
        work(numbers)
        return

    def some() -> None:
        try:
            work(numbers)
        except BaseException:
            deque(numbers, 0)
            raise

    _pool.run(some, others)


def hush_before(hush: Callable[[], object]) -> None:
    """Register a function to call before the threads get work: it stops other libraries' threads from spinning."""
    _pool.hush = hush


def hush() -> None:
    """Make threads of other libraries that spin for work leave the cores to the threads that get some now."""
    _pool.hush()


def available() -> int:
    """Return the number of threads for new work: 1 in a thread that already works on a part of other work."""
    return 1 if works_in_parts() else _pool.size + 1


def even_parts(size: int, most: int, number: int) -> int:
    """Return the number of parts, a multiple of `number`, into which work of that size is cut: `most` elements each."""
    return -(-size // (most * number)) * number


def spread(work: Callable[[int, int], None], count: int, most: int | None = None) -> None:
    """Call ``work(start, stop)`` for consecutive parts of ``range(count)``, one a thread, and wait for all.

    There are at most `most` parts, if it is given.
    """
    parts = min(_pool.size + 1, count, count if most is None else most)
    if parts < 2 or works_in_parts():
        work(0, count)
        return
    bounds = [count * i // parts for i in range(parts + 1)]

    def some(numbers: Iterator[int]) -> None:
        for i in numbers:
            work(bounds[i], bounds[i + 1])

    share(some, parts)
