"""Control over how much freed memory the CPU's allocator keeps for new arrays.

By default, the C library returns the memory of a large array to the operating system as soon as it is freed. The next
array gets fresh pages, which the system has to fill with zeros first. A training step frees and allocates the same
memory again and again, and took 2 to 5 times as long because of this. The GNU C library has options to keep freed
memory. They apply to all arrays of the process and need no memory pool in addition to the C library's own.
"""

from __future__ import annotations

import ctypes
import functools
import os
from typing import Any

from gradcore.core import config

__all__ = ["LARGE", "begin", "empty_cache", "memory_stats"]

#: Elements from which the first array sets the allocator's options, so that a mere import of gradcore changes nothing.
LARGE = 1 << 15

#: Whether the allocator's options are to be set, but no large array has been created yet.
waiting = config.KEEP_MEMORY

#: Options of mallopt.
_TRIM_THRESHOLD, _MMAP_MAX = -1, -4

#: Largest threshold that mallopt accepts: free bytes at the end of the heap above which they return to the system.
_MOST_KEPT = 2**31 - 1


class _Statistics(ctypes.Structure):
    """Struct that the C function mallinfo2 returns."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"
    ))  # fmt: skip


@functools.cache
def _c_library() -> Any:
    """Return the GNU C library, or None where the process has another one."""
    try:
        if not (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc"):
            return None
        library = ctypes.CDLL(None)
        library.mallinfo2.restype = _Statistics
    except (AttributeError, OSError, ValueError):  # Windows, macOS, musl, or older than glibc 2.33
        return None
    return library


def keep_freed() -> bool:
    """Make the process keep freed memory for new arrays, and return whether it does."""
    library = _c_library()
    if library is None:
        return False
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return bool(
        library.mallopt(_MMAP_MAX, 0)  # no array gets a memory mapping of its own, which would be freed with it
        and library.mallopt(_TRIM_THRESHOLD, min(total // 4, _MOST_KEPT))
    )


def begin() -> None:
    """Keep freed memory for new arrays from now on."""
    global waiting
    waiting = False
    keep_freed()


def empty_cache() -> None:
    """Return free memory that the process keeps for new arrays on the CPU to the operating system.

    If the process keeps none (see `memory_stats`), do nothing. For GPUs, use `gradcore.cuda.empty_cache`.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.empty_cache()
    """
    library = _c_library()
    if library is not None:
        library.malloc_trim(0)


def memory_stats() -> dict[str, int]:
    """Return the number of bytes on the C library's heaps that are in use, and that are free for new arrays.

    This counts everything in the process, not only tensors. Freed memory is kept for new arrays on the CPU, with
    the GNU C library, from the first large tensor on, unless the environment variable ``GRADCORE_KEEP_MEMORY=0`` was
    set at import. Pages that `empty_cache` gave back count as free until they are used again.

    Returns
    -------
    dict
        ``{"used": int, "free": int}``; empty where the C library does not tell.

    Examples
    --------
    >>> import gradcore
    >>> before = gradcore.memory_stats()
    >>> x = gradcore.zeros(1_000_000)
    >>> after = gradcore.memory_stats()
    >>> not after or after["used"] - before["used"] >= 4_000_000
    True
    """
    library = _c_library()
    if library is None:
        return {}
    statistics = library.mallinfo2()
    return {"used": statistics.uordblks + statistics.hblkhd, "free": statistics.fordblks}
