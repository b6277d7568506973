"""Tables for kernels of filters and cosine transforms, which are computed on the host."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache

import numpy as np

__all__ = ["fast_size", "half_weighted", "outside", "period", "rate_taps", "runs", "twiddles"]


@lru_cache(1024)
def outside(n: int, start: int, stop: int, mode: str) -> np.ndarray:
    """Return the index of the element to read for each position in ``range(start, stop)``, in or outside of an array.

    `n` is the size of the array along the dim, and `mode` says how the array is extended beyond its ends.
    """
    i = np.arange(start, stop)
    if mode == "nearest":
        return np.clip(i, 0, n - 1)
    if mode == "wrap":
        return i % n
    if n == 1:
        return np.zeros_like(i)
    period, last = (2 * n - 2, 0) if mode == "mirror" else (2 * n, 1)
    i = i % period
    return np.where(i < n, i, period - last - i)


def runs(index: np.ndarray) -> Iterator[tuple[int, int, int]]:
    """Yield slices ``(start, stop, step)`` of an index array within which it rises, falls or is constant."""
    i = 0
    while i < len(index):
        j = i + 1
        step = int(index[j] - index[i]) if j < len(index) else 1
        while j < len(index) and index[j] - index[j - 1] == step and abs(step) <= 1:
            j += 1
        yield i, j, step if j > i + 1 else 1
        i = j


@lru_cache(1024)
def fast_size(n: int) -> int:
    """Return the smallest size from `n` on that is a product of 2, 3 and 5, for which Fourier transforms are fast."""
    while True:
        rest = n
        for factor in (2, 3, 5):
            while rest % factor == 0:
                rest //= factor
        if rest == 1:
            return n
        n += 1


def rate_taps(n: int, taps: int, up: int, down: int, count: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield, for each step of a filter between two sampling rates, the element and the tap to multiply for each result.

    Each item has three arrays over the results: an element's index, a tap's index, and whether both exist.
    """
    positions = np.arange(count) * down
    for k in range(-(-taps // up)):
        element = positions // up - k
        tap = positions - element * up
        exists = (element >= 0) & (element < n) & (tap < taps)
        yield np.where(exists, element, 0), np.where(exists, tap, 0), exists


#: Shift of samples and of frequencies, by type of transform.
_SHIFTS = {("cos", 1): (0, 0), ("cos", 2): (0.5, 0), ("cos", 3): (0, 0.5), ("cos", 4): (0.5, 0.5),
           ("sin", 1): (1, 1), ("sin", 2): (0.5, 1), ("sin", 3): (1, 0.5), ("sin", 4): (0.5, 0.5)}  # fmt: skip


def half_weighted(kind: str, type: int, n: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the indices of samples and of frequencies that an orthogonal transform scales by ``sqrt(1/2)``."""
    samples, frequencies = _SHIFTS[kind, type]
    halved: dict[tuple[str, float], tuple[int, ...]] = {
        ("cos", 0): (0, n - 1) if type == 1 else (0,),
        ("sin", 1): () if type == 1 else (n - 1,),
    }
    return halved.get((kind, samples), ()), halved.get((kind, frequencies), ())


def period(kind: str, type: int, n: int) -> int:
    """Return half of the period of the periodic extension of `n` samples."""
    return n + {("cos", 1): -1, ("sin", 1): 1}.get((kind, type), 0)


def twiddles(kind: str, type: int, n: int) -> tuple[int, np.ndarray, np.ndarray]:
    """Return half of the period, and the factors before and after the Fourier transform, of an orthogonal transform."""
    half, positions = period(kind, type, n), np.arange(n)
    a, b = _SHIFTS[kind, type]
    before, after = np.ones(n), np.full(n, math.sqrt(2 / half))
    for weights, ends in zip((before, after), half_weighted(kind, type, n), strict=True):
        weights[list(ends)] *= math.sqrt(0.5)
    factors_before = before * np.exp(-1j * np.pi / half * positions * b)
    factors_after = after * np.exp(-1j * np.pi / half * (positions + b) * a)
    return half, factors_before, factors_after
