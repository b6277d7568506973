"""Threads that multiply matrices side by side, in each of which BLAS works alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gradcore.backends.numpy import threads
from gradcore.backends.numpy.openblas import NUMPY

__all__ = ["share_products", "spread_products"]


def share_products(work: Callable[[Iterator[int]], None], count: int) -> None:
    """As `threads.share`, for work that multiplies matrices."""
    if threads.get_num_threads() < 2:
        work(iter(range(count)))
        return
    with NUMPY:
        threads.share(work, count)


def spread_products(work: Callable[[int, int], None], count: int) -> None:
    """As `threads.spread`, for work that multiplies matrices."""
    if threads.get_num_threads() < 2:
        work(0, count)
        return
    with NUMPY:
        threads.spread(work, count)
