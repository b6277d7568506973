"""Threads for large work on the CPU, which run in parallel because NumPy releases the interpreter's lock."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator

from gradcore.backends.numpy.openblas import NUMPY
from gradcore.backends.numpy.thread_pool import Pool, works_in_parts
from gradcore.backends.numpy.thread_state import set_flushing

__all__ = ["get_num_threads", "set_flush_denormal", "set_num_threads", "share", "spread"]


def _cores() -> int:
    """Return the number of threads that the environment sets, or the number of cores that this process may use."""
    setting = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    if setting.isdigit() and int(setting):
        return int(setting)
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


def set_flush_denormal(mode: bool, /) -> bool:
    """Set whether the CPU replaces subnormal numbers by zeros, as operands and as results, in this thread.

    Subnormal numbers are those closer to zero than ``gc.finfo(dtype).smallest_normal``. Many CPUs compute with them
    slowly. The setting holds for all code of the thread, Python's and NumPy's included, for threads
    that work for it in gradcore, and on Linux for threads that it starts later. Threads of BLAS ignore it.

    Parameters
    ----------
    mode : bool
        Whether subnormal numbers are replaced. At first they are not.

    Returns
    -------
    bool
        Whether the CPU's setting could be changed. It needs the compiled kernels, on an x86-64 or AArch64 CPU.

    Examples
    --------
    >>> import gradcore as gc
    >>> is_supported = gc.set_flush_denormal(True)
    >>> tiny = gc.tensor(1e-30) * 1e-10  # zero, if it is supported
    >>> gc.set_flush_denormal(False) == is_supported
    True
    """
    if not isinstance(mode, bool):
        raise RuntimeError(f"flush_denormal expects a bool, but got {type(mode).__name__}")
    return set_flushing(mode)


def share(work: Callable[[Iterator[int]], None], count: int, most: int | None = None) -> None:
    """Call ``work(numbers)`` in several threads and wait for them; they share an iterator over ``range(count)``.

    A thread that starts late or is slow therefore takes fewer numbers. If a thread fails or is interrupted, the others
    take no further number. Within `work`, a nested call of `share` runs in the current thread only.

    Parameters
    ----------
    work : callable
    count : int
    most : int, optional
        Largest number of threads.
    """
    numbers = iter(range(count))  # each number is returned to one thread only
    helper_count = min(_pool.size, count - 1, count if most is None else most - 1)
    if helper_count < 1 or works_in_parts():
        work(numbers)
        return

    def run_share() -> None:
        try:
            work(numbers)
        except BaseException:
            deque(numbers, 0)
            raise

    _pool.run(run_share, helper_count)


def hush_before(hush: Callable[[], object]) -> None:
    """Register a function that stops spinning threads of other libraries, to be called before the threads get work."""
    _pool.hush = hush


def hush() -> None:
    """Stop spinning threads of other libraries, so that they leave the cores to threads that are about to get work."""
    _pool.hush()


def available() -> int:
    """Return the number of threads for new work, which is 1 in a thread that already works on a part of shared work."""
    return 1 if works_in_parts() else _pool.size + 1


def even_parts(size: int, most: int, number: int) -> int:
    """Return the least multiple of `number` that splits `size` elements into equal parts of at most `most` each."""
    return -(-size // (most * number)) * number


def spread(work: Callable[[int, int], None], count: int, most: int | None = None) -> None:
    """Call ``work(start, stop)`` for consecutive parts of ``range(count)``, one in each thread, and wait for all.

    There are at most `most` parts, unless it is None.
    """
    parts = min(_pool.size + 1, count, count if most is None else most)
    if parts < 2 or works_in_parts():
        work(0, count)
        return
    bounds = [count * i // parts for i in range(parts + 1)]

    def run_share(numbers: Iterator[int]) -> None:
        for i in numbers:
            work(bounds[i], bounds[i + 1])

    share(run_share, parts)
