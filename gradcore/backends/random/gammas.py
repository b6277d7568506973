"""Gamma random numbers as logarithms: for small shapes the numbers themselves would underflow to zero.

As in `sampling`, all operations are exact or rounded once, so the numbers are equal on every device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import exact
from .exact import Array
from .philox import normal
from .sampling import draw_by_rejection


def log_gamma(xp: Any, draw: Callable[[int], Array], shape: Array) -> Array:
    """Return the logarithms of gamma random numbers of scale 1.

    Shapes from 1 on take two words an attempt of the rejection method of G. Marsaglia and W. W. Tsang ("A simple
    method for generating gamma variables", ACM Transactions on Mathematical Software 26, 2000, 363-372); at least 19
    attempts in 20 succeed. Of smaller shapes, the number is that of ``shape + 1`` times ``u**(1 / shape)``, where u is
    uniform.

    Parameters
    ----------
    xp : module
        The array library.
    draw : callable
        ``draw(n)`` returns n new words. How often it is called depends on the numbers, not on the device.
    shape : array
        One-dimensional, positive. Infinite ones (and NaN) are their own logarithms: no attempt would be accepted.

    Returns
    -------
    array of float64
        The logarithms.
    """
    shape = shape.astype(np.float64)
    is_small, finite = shape < 1, xp.isfinite(shape)
    result = draw_by_rejection(xp, draw, _attempt, xp.where(is_small, shape + 1, xp.where(finite, shape, 1.0)))
    index = xp.flatnonzero(is_small)
    if len(index):
        result[index] += exact.log(_uniform(draw(len(index)))) / shape[index]
    return xp.where(finite, result, shape)


def _uniform(words: Array) -> Array:
    """Return numbers strictly between 0 and 1."""
    return exact.midpoints((words >> 1).view(np.int64), -63)


def _attempt(xp: Any, words: Array, shape: Array) -> tuple[Array, Array]:
    """Return logarithms of candidates, and whether each is accepted."""
    d = shape - 1 / 3
    z = normal(xp, words[::2].copy(), np.float64)
    root = 1 + z / xp.sqrt(9 * d)
    positive = root > 0
    root = xp.where(positive, root, 1)
    log_v = 3 * exact.log(root)
    bound = 0.5 * z * z + d - d * (root * root * root) + d * log_v
    accepted = positive & (exact.log(_uniform(words[1::2])) < bound)
    return exact.log(d) + log_v, accepted
