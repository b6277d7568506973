"""B-splines: the weights of the taps around a point, and the matrix that maps samples to coefficients."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import comb, factorial
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcore.core.typing import NUMPY

if TYPE_CHECKING:
    from gradcore.core.arrays import Array, Namespace

__all__ = ["all_taps", "filter_matrix"]

Tap = tuple[Any, Any]


@lru_cache
def _pieces(order: int, derivative: int) -> list[list[float]]:
    """Return the coefficients of each tap's weight, as a polynomial of a point's position between two taps."""
    results = []
    for k in range(order + 1):
        start = order - k  # the piece of the B-spline on [start, start + 1]
        polynomial = np.polynomial.Polynomial([0.0])
        for j in range(start + 1):
            shifted = np.polynomial.Polynomial([float(start - j), 1.0])
            polynomial = polynomial + (-1) ** j * comb(order + 1, j) * shifted**order
        polynomial = polynomial / factorial(order)
        results.append((polynomial.deriv(derivative) if derivative else polynomial).coef.tolist())
    return results


def _evaluate_polynomial(coefficients: Sequence[float], x: Any) -> Any:
    total = coefficients[-1] + 0 * x
    for c in coefficients[-2::-1]:
        total = total * x + c
    return total


def _outside(xp: Namespace, i: Any, n: int, mode: str) -> Array:
    """Return the index of the element to read for each integer position `i`, which may be outside of the array."""
    if mode == "nearest":
        return xp.clip(i, 0, n - 1)
    if mode == "grid-wrap":
        return i % n
    if n == 1:
        return i * 0
    period, last = (2 * n, 1) if mode == "reflect" else (2 * n - 2, 0)
    i = i % period
    return xp.where(i < n, i, period - last - i)


@lru_cache(64)
def filter_matrix(n: int, order: int, mode: str) -> np.ndarray:
    """Return the matrix that maps samples to spline coefficients."""
    taps = [_evaluate_polynomial(c, 0.5 if order % 2 == 0 else 0.0) for c in _pieces(order, 0)]
    samples = np.zeros((n, n))
    for k, weight in enumerate(taps):
        np.add.at(samples, (np.arange(n), _outside(NUMPY, np.arange(n) + k - order // 2, n, mode)), weight)
    return np.linalg.inv(samples) if n > 1 else np.ones((1, 1))


def _map_inside(xp: Namespace, x: Array, n: int, mode: str) -> tuple[Array, Array | None]:
    """Map coordinates into the grid, and return the derivative of that map (None: 1 everywhere)."""
    if mode in ("grid-constant", "nearest"):
        return x, None
    inside = (x >= 0) & (x <= n - 1)
    if mode == "constant":
        return xp.where(inside, x, 0), inside
    if n == 1:
        return x * 0, inside
    if mode == "wrap":
        return xp.where(inside, x, x % (n - 1)), None
    if mode == "grid-wrap":
        return x % n, None
    period, last = (2 * n, 1) if mode == "reflect" else (2 * n - 2, 0)
    folded = x % period
    is_reflected = folded > n - 1 if mode == "mirror" else folded >= n
    return xp.where(is_reflected, period - last - folded, folded), xp.where(is_reflected, -1.0, 1.0)


def _taps(xp: Namespace, x: Array, n: int, order: int, mode: str, derivative: int) -> Iterator[Tap]:
    """Return the index and the weight of each tap along one dim."""
    x, slope = _map_inside(xp, x, n, mode)
    first = xp.floor(x if order % 2 else x + 0.5)
    position = x - first if order % 2 else x - first + 0.5
    first = first.astype("int64") - order // 2
    edges = {"constant": "mirror", "wrap": "mirror"}.get(mode, mode)
    for k, coefficients in enumerate(_pieces(order, derivative)):
        weight, index = _evaluate_polynomial(coefficients, position), first + k
        if mode == "grid-constant":
            weight = weight * ((index >= 0) & (index < n))
            index = xp.clip(index, 0, n - 1)
        else:
            index = _outside(xp, index, n, edges)
        if slope is not None and (derivative % 2 or mode == "constant"):
            weight = weight * slope
        yield index, weight


def all_taps(
    xp: Namespace, coordinates: Array, sizes: Sequence[int], order: int, mode: str, derivatives: Sequence[int]
) -> Iterator[Tap]:
    """Return the index into the flattened grid, and the weight, of each tap over all dims."""
    taps_by_dim = [list(_taps(xp, coordinates[d], n, order, mode, derivatives[d])) for d, n in enumerate(sizes)]
    for taps in itertools.product(*taps_by_dim):
        index, weight = taps[0]
        for n, (i, w) in zip(sizes[1:], taps[1:], strict=True):
            index, weight = index * n + i, weight * w
        yield index, weight
