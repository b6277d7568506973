"""Threads that multiply matrices side by side, in each of which BLAS works alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext

from gradcore.backends.numpy import threads
from gradcore.backends.numpy.openblas import NUMPY

__all__ = ["blas_alone", "share_products", "spread_products"]

#: Elements of a matrix above which OpenBLAS uses threads for its products with vectors.
_THREADED = 9216
_AS_IT_IS = nullcontext()


def blas_alone(size: int, most: int = _THREADED) -> AbstractContextManager[None]:
    """A context for work of that size, in which BLAS uses one thread if for more than `most` it would use several.

    What it computes there is too short for threads, and these are in the way of gradcore's for long afterwards.
    """
    return NUMPY.alone() if size >= most and threads.get_num_threads() > 1 else _AS_IT_IS


def share_products(work: Callable[[Iterator[int]], None], count: int) -> None:
    """As `threads.share`, for work that multiplies matrices."""
    if threads.get_num_threads() < 2:
        work(iter(range(count)))
        return
    with NUMPY.alone():
        threads.share(work, count)


def spread_products(work: Callable[[int, int], None], count: int) -> None:
    """As `threads.spread`, for work that multiplies matrices."""
    if threads.get_num_threads() < 2:
        work(0, count)
        return
    with NUMPY.alone():
        threads.spread(work, count)
