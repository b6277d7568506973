"""Gauss-Legendre quadrature."""

from __future__ import annotations

import functools
import math


@functools.cache
def gauss_legendre(n: int) -> list[tuple[float, float]]:
    """Return the `n` nodes and weights of Gauss-Legendre quadrature on the interval from 0 to 1."""
    results = []
    for k in range(n):
        x = math.cos(math.pi * (k + 0.75) / (n + 0.5))
        for _ in range(8):
            before, p = 1.0, x
            for j in range(2, n + 1):
                before, p = p, ((2 * j - 1) * x * p - (j - 1) * before) / j
            slope = n * (x * p - before) / (x * x - 1)
            x -= p / slope
        results.append(((1 + x) / 2, 1 / ((1 - x * x) * slope * slope)))
    return results
