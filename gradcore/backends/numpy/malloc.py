"""Control over the memory of arrays on the CPU: where it begins, and how much of it is kept when it is freed.

By default, the C library returns the memory of a large array to the operating system as soon as it is freed. The next
array gets fresh pages, which the system has to fill with zeros first. A training step frees and allocates the same
memory again and again, and took 2 to 5 times as long because of this. The GNU C library has options to keep freed
memory. They apply to all arrays of the process and need no memory pool in addition to the C library's own.

The C library's memory begins at any multiple of 16 bytes, so most vector registers are read from two lines of the
cache. The arrays that operations return therefore have memory of the compiled library, which begins at a line
(`NEP 49`_).

.. _NEP 49: https://numpy.org/neps/nep-0049-data-allocation-strategies.html
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from gradcore.core import config

__all__ = ["LARGE", "begin", "connect", "empty_cache", "memory_stats", "use_aligned_memory"]

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


# -- aligned memory ---------------------------------------------------------------------------------------------------

_umath: Any = np._core._multiarray_umath  # type: ignore[attr-defined]
#: The number of `PyDataMem_SetHandler` in the table of functions of NumPy's C API.
_SET_HANDLER = 304

#: Sets the handler of the current context to the compiled library's; None without a library.
_set_handler: Callable[[], object] | None = None


def connect(library: ctypes.CDLL) -> None:
    """Allocate arrays from the memory of the compiled library where `use_aligned_memory` is called."""
    global _set_handler
    handler, name = library.gradcore_memory, library.gradcore_name_of_memory
    handler.restype = name.restype = ctypes.c_void_p
    python = ctypes.pythonapi
    make = ctypes.PYFUNCTYPE(ctypes.py_object, *[ctypes.c_void_p] * 3)(("PyCapsule_New", python))
    address_in = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", python))
    table = ctypes.cast(address_in(_umath._ARRAY_API, None) or 0, ctypes.POINTER(ctypes.c_void_p))
    set_handler = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(table[_SET_HANDLER] or 0)
    _set_handler = functools.partial(set_handler, make(handler(), name(), None))


def use_aligned_memory() -> None:
    """Allocate the arrays of this context from the library's memory, unless the program has set another handler."""
    if _set_handler is not None and _umath.get_handler_name() == "default_allocator":
        _set_handler()


# -- kept memory ------------------------------------------------------------------------------------------------------


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
