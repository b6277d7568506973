"""The memory of large arrays on the CPU: how much of it the allocator keeps for reuse once it is freed.

The C library gives large arrays back to the operating system as soon as they are freed, and the next ones are made of
fresh pages, which have to be filled with zeros before anything is written into them. A training step frees and
asks for the same memory again and again, and took 2 to 5 times as long because of it. The GNU C library can be told to
keep what was freed, which costs nothing, holds for every array of the process whoever made it, and needs no pool beside
the one that the C library is.
"""

from __future__ import annotations

import ctypes
import functools
import os
from typing import Any

from gradcore.core import config

__all__ = ["LARGE", "begin", "empty_cache", "memory_stats"]

#: Elements of the first array for which the process is told: a program that only imports gradcore stays as it was.
LARGE = 1 << 15

#: Whether no large array has been seen yet, and freed memory is to be kept from then on.
waiting = config.KEEP_MEMORY

#: The options of mallopt.
_TRIM_THRESHOLD, _MMAP_MAX = -1, -4

#: Free memory at the end of the heap above which all of it goes back (the largest number that mallopt takes).
_MOST_KEPT = 2**31 - 1


class _Statistics(ctypes.Structure):
    """The result of mallinfo2."""

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
        library.mallopt(_MMAP_MAX, 0)  # no array in a mapping of its own, which would go when the array goes
        and library.mallopt(_TRIM_THRESHOLD, min(total // 4, _MOST_KEPT))
    )


def begin() -> None:
    """Keep freed memory for new arrays from now on."""
    global waiting
    waiting = False
    keep_freed()


def empty_cache() -> None:
    """Return memory that is kept for new arrays on the CPU to the operating system.

    Where the process keeps nothing (see `memory_stats`) this does nothing. For a GPU there is
    `gradcore.cuda.empty_cache`.

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
    found = library.mallinfo2()
    return {"used": found.uordblks + found.hblkhd, "free": found.fordblks}
