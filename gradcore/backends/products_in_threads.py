"""Threads that multiply matrices side by side, in each of which BLAS works alone.

Otherwise all of them would wait for the threads that BLAS has of its own: heads of attention took ten times as long.
"""

from __future__ import annotations

import ctypes
import functools
import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from gradcore.backends import threads

__all__ = ["spread_products"]


@functools.cache
def _blas() -> tuple[Any, Any] | None:
    """The functions that read and set how many threads NumPy's OpenBLAS uses, or None where it has another library."""
    from glob import glob

    for path in glob(os.path.join(os.path.dirname(np.__file__) + ".libs", "libscipy_openblas*")):
        library = ctypes.CDLL(path)
        try:
            return library.scipy_openblas_get_num_threads64_, library.scipy_openblas_set_num_threads64_
        except AttributeError:
            pass
    return None


class _Alone:
    """A context in which BLAS uses one thread; several threads may be in it at a time."""

    def __init__(self) -> None:
        self.lock, self.users, self.before = threading.Lock(), 0, 1

    def __enter__(self) -> None:
        blas = _blas()
        with self.lock:
            if not self.users and blas is not None:
                self.before = blas[0]()
                blas[1](1)
            self.users += 1

    def __exit__(self, *_: object) -> None:
        blas = _blas()
        with self.lock:
            self.users -= 1
            if not self.users and blas is not None:
                blas[1](self.before)


_alone = _Alone()


def spread_products(work: Callable[[int, int], None], count: int) -> None:
    """As `threads.spread`, for work that multiplies matrices."""
    if count < 2 or threads.get_num_threads() < 2:
        work(0, count)
        return
    with _alone:
        threads.spread(work, count, count)
