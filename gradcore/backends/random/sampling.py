"""Random choices and counts: distributions that need sorting, searching or rejection.

Like the distributions of `philox`, they are functions of Philox words. All operations are exact or rounded once, so
results are equal on every device.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from . import exact
from .exact import Array
from .philox import exponential, multiply_high, uniform


def permutation(xp: Any, words: Array) -> Array:
    """Return a random order of the integers below ``len(words)``: the stable argsort of the words.

    Parameters
    ----------
    xp : module
        The array library.
    words : array
        One word for each element.

    Returns
    -------
    array of int64
        The permutation. All are equally likely but for ties, which are kept in order; among n words one
        occurs with a probability of n**2 / 2**65.
    """
    return xp.argsort(words, kind="stable")


def multinomial(xp: Any, words: Array, weights: Array, samples: int, replacement: bool) -> Array:
    """Return random categories, with probabilities proportional to the weights of a row.

    With replacement, the weights become integers, ``ceil(weight / largest * 2**s)`` s being 62 less the
    whole part of log2(categories), and sample i is the first category whose cumulative sum exceeds
    ``floor(w[i] * total / 2**64)``. (A sum of real numbers would depend on the order that a device adds in.)
    Without replacement, the categories are the first to arrive in a race of exponential times,
    ``e[j] / weight[j]``, in the order of arrival; word j makes e[j].

    Parameters
    ----------
    xp : module
        The array library.
    words : array
        For each row, one word a sample with replacement, one a category without.
    weights : array
        Shape (rows, categories): finite, not negative, and in each row at least one positive weight; without
        replacement at least `samples` positive ones.
    samples : int
        How many categories to choose in each row.
    replacement : bool
        Whether a category can be chosen again.

    Returns
    -------
    array of int64
        Shape (rows, samples).
    """
    weights = weights.astype(np.float64)
    if replacement:
        return _search(xp, words.reshape(len(weights), samples), weights)
    times = exponential(xp, words, np.float64).reshape(weights.shape)
    with np.errstate(divide="ignore"):
        times = times / weights  # never, for a weight of zero
    return xp.argsort(times, axis=1, kind="stable")[:, :samples]


def _search(xp: Any, words: Array, weights: Array) -> Array:
    rows, categories = weights.shape
    scale = 2.0 ** (63 - categories.bit_length())
    shares = xp.ceil(weights / xp.max(weights, axis=1, keepdims=True) * scale).astype(np.int64)
    # Binary search, all samples at once, in rows filled up to a power of two with sums that nothing exceeds.
    width = 1 << categories.bit_length()
    sums = xp.full((rows, width), np.iinfo(np.int64).max, np.int64)
    sums[:, :categories] = xp.cumsum(shares, axis=1)
    total = sums[:, categories - 1 : categories].astype(np.uint64)
    target = multiply_high(words, total).astype(np.int64)
    start = xp.arange(rows)[:, None] * width
    index = xp.zeros(words.shape, np.int64)
    sums = sums.reshape(-1)
    step = width // 2
    while step:
        index += step * (sums[start + index + (step - 1)] <= target)
        step //= 2
    return index


def poisson(xp: Any, draw: Callable[[int], Array], rate: Array) -> Array:
    """Return Poisson random numbers.

    Rates below 10 take one word, through the inverse of the distribution function. Others take two words an
    attempt of the transformed rejection method PTRS (W. Hoermann, "The transformed rejection method for
    generating Poisson random variables", Insurance: Mathematics and Economics 12, 1993, 39-45); nearly 9
    attempts in 10 succeed.

    Parameters
    ----------
    xp : module
        The array library.
    draw : callable
        ``draw(n)`` returns n new words. How often it is called depends on the numbers, not on the device.
    rate : array
        The means: one-dimensional, not negative; an infinite one gives infinity.

    Returns
    -------
    array of float64
        The whole numbers.
    """
    rate = rate.astype(np.float64)
    result = xp.where(rate < math.inf, 0.0, math.inf)
    large = (rate >= 10) & (rate < math.inf)
    for chosen, method in ((rate < 10, _poisson_inversion), (large, _poisson_rejection)):
        index = xp.flatnonzero(chosen)
        if len(index):
            result[index] = method(xp, draw, rate[index])
    return result


def _poisson_inversion(xp: Any, draw: Callable[[int], Array], rate: Array) -> Array:
    u = uniform(xp, draw(len(rate)), np.float64)
    probability = exact.exp(xp, -rate)
    cumulative = probability.copy()
    count = xp.zeros_like(rate)
    for k in range(1, 65):  # beyond 64 the probability is below 1e-30
        is_above = u >= cumulative
        if not is_above.any():
            break
        count += is_above
        probability *= rate / k
        cumulative += probability
    return count


def draw_by_rejection(xp: Any, draw: Callable[[int], Array], attempt: Callable[..., Any], parameter: Array) -> Array:
    """Return random numbers by attempts of two words each, repeated until they are accepted.

    Parameters
    ----------
    xp : module
        The array library.
    draw : callable
        ``draw(n)`` returns n new words.
    attempt : callable
        ``attempt(xp, words, parameter)`` returns numbers, and whether they are accepted.
    parameter : array of float64
        The parameter of the distribution of each number.

    Returns
    -------
    array of float64
    """
    result = xp.zeros_like(parameter)
    remaining = xp.arange(len(parameter))
    while len(remaining):
        value, accepted = attempt(xp, draw(2 * len(remaining)), parameter[remaining])
        result[remaining[accepted]] = value[accepted]
        remaining = remaining[~accepted]
    return result


def _poisson_rejection(xp: Any, draw: Callable[[int], Array], rate: Array) -> Array:
    return draw_by_rejection(xp, draw, _poisson_attempt, rate)


def _poisson_attempt(xp: Any, words: Array, rate: Array) -> tuple[Array, Array]:
    """Return candidates for counts, and whether each is accepted. The constants are the paper's."""
    b = 0.931 + 2.53 * xp.sqrt(rate)
    a = 0.02483 * b - 0.059
    first, second = words[::2], words[1::2]
    edge = exact.midpoints((first >> 1).view(np.int64), -64)  # 1/2 - |u|, where u is uniform in (-1/2, 1/2)
    u = (0.5 - edge) * (1.0 - 2.0 * (first & 1))
    v = exact.midpoints((second >> 1).view(np.int64), -63)
    count = xp.floor((2 * a / edge + b) * u + rate + 0.43)
    is_certain = (edge >= 0.07) & (v <= 0.9277 - 3.6224 / (b - 2))
    possible = (count >= 0) & ((edge >= 0.013) | (v <= edge))
    count = xp.maximum(count, 0)
    bound = exact.log(v) + exact.log(1.1239 + 1.1328 / (b - 3.4)) - exact.log(a / (edge * edge) + b)
    return count, is_certain | (possible & (bound <= count * exact.log(rate) - rate - _log_factorial(xp, count)))


_SMALL_FACTORIALS = [float(math.factorial(k)) for k in range(10)]


def _log_factorial(xp: Any, k: Array) -> Array:
    """Return ``log(k!)`` of whole numbers: from a table below 10, by Stirling's series from there on."""
    table = exact.log(xp.asarray(_SMALL_FACTORIALS))
    small = table[xp.minimum(k, 9).astype(np.int64)]
    k_large = xp.maximum(k, 10)
    z = 1 / (k_large * k_large)
    series = exact.polynomial(z, (1 / 12, -1 / 360, 1 / 1260, -1 / 1680)) / k_large
    large = (k_large + 0.5) * exact.log(k_large) - k_large + 0.9189385332046727 + series
    return xp.where(k < 10, small, large)
