"""Splines on regular grids: coefficients of samples, values and derivatives between the grid's points.

A spline of an order is ``sum(c[k] * B(x - k))`` with the B-spline of that order. `spline_coefficients` has the c of
samples, `spline_sample` evaluates, and `spline_spread` is the adjoint of that. Both differentiate the B-splines as
often as is asked for along each dim; so they are each other's derivatives by coordinates, in every order.
"""

from __future__ import annotations

import itertools
from functools import lru_cache
from math import comb, factorial, prod

import numpy as np

from gradcore.ops.samples import case, complexes, floats
from gradcore.ops.table import general, linear

_PRIVATE = {"function": False, "method": False}

Counts = tuple[int, ...]


@lru_cache
def _pieces(order: int, derivative: int) -> list[list[float]]:
    """For each tap, from the first on, the coefficients of its weight: a polynomial of where between taps x lies."""
    found = []
    for k in range(order + 1):
        start = order - k  # the piece of the B-spline on [start, start + 1]
        polynomial = np.polynomial.Polynomial([0.0])
        for j in range(start + 1):
            shifted = np.polynomial.Polynomial([float(start - j), 1.0])
            polynomial = polynomial + (-1) ** j * comb(order + 1, j) * shifted**order
        polynomial = polynomial / factorial(order)
        found.append((polynomial.deriv(derivative) if derivative else polynomial).coef.tolist())
    return found


def _evaluated(coefficients, x):
    total = coefficients[-1] + 0 * x
    for c in coefficients[-2::-1]:
        total = total * x + c
    return total


# -- coefficients ------------------------------------------------------------------------------------------------------


def outside(xp, i, n, mode):
    """The element that stands at each integer position, which may lie outside."""
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
def _filter_matrix(n: int, order: int, mode: str) -> np.ndarray:
    """The matrix that takes samples to coefficients."""
    taps = [_evaluated(c, 0.5 if order % 2 == 0 else 0.0) for c in _pieces(order, 0)]
    samples = np.zeros((n, n))
    for k, weight in enumerate(taps):
        np.add.at(samples, (np.arange(n), outside(np, np.arange(n) + k - order // 2, n, mode)), weight)
    return np.linalg.inv(samples) if n > 1 else np.ones((1, 1))


def _with_ends(F, x, dim, factor):
    """`x` with its first and last elements along `dim` times a number."""
    n = x.shape[dim]
    first, last = F.narrow(x, dim, 0, 1) * factor, F.narrow(x, dim, n - 1, 1) * factor
    return F.cat([first, F.narrow(x, dim, 1, n - 2), last], dim)


def _coefficients_adjoint(F, grad, dim, order, mode):
    """Symmetric, but for the elements that are mirrored without being repeated, which stand for half of their kind."""
    if mode != "mirror" or grad.shape[dim] < 2:
        return F.spline_coefficients(grad, dim, order, mode)
    return _with_ends(F, F.spline_coefficients(_with_ends(F, grad, dim, 2.0), dim, order, mode), dim, 0.5)


@linear(
    _coefficients_adjoint,
    **_PRIVATE,
    samples=lambda: [
        case(floats(2, 5), 1, 3, "mirror"),
        case(floats(6, 2), 0, 5, "reflect"),
        case(complexes(7), 0, 2, "grid-wrap"),
        case(floats(2, 2), 1, 4, "mirror"),
        case(floats(1, 3), 0, 3, "mirror"),
    ],
)
def spline_coefficients(K, self, dim: int, order: int, mode: str):
    """The coefficients along `dim` of the spline through samples, which go on beyond the edges as `mode` says."""
    matrix = K.constant(_filter_matrix(self.shape[dim], order, mode).astype(self.dtype))
    return K.xp.moveaxis(K.matmul(K.xp.moveaxis(self, dim, -1), matrix.T), -1, dim)


# -- values ------------------------------------------------------------------------------------------------------------


def _mapped(xp, x, n, mode):
    """Coordinates inside of the grid, and by how much they move with those that are given; None: by as much."""
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
    back = folded > n - 1 if mode == "mirror" else folded >= n
    return xp.where(back, period - last - folded, folded), xp.where(back, -1.0, 1.0)


def _taps(xp, x, n, order, mode, derivative):
    """Index and weight of each tap along one dim."""
    x, slope = _mapped(xp, x, n, mode)
    first = xp.floor(x if order % 2 else x + 0.5)
    between = x - first if order % 2 else x - first + 0.5
    first = first.astype("int64") - order // 2
    edges = {"constant": "mirror", "wrap": "mirror"}.get(mode, mode)
    for k, coefficients in enumerate(_pieces(order, derivative)):
        weight, index = _evaluated(coefficients, between), first + k
        if mode == "grid-constant":
            weight = weight * ((index >= 0) & (index < n))
            index = xp.clip(index, 0, n - 1)
        else:
            index = outside(xp, index, n, edges)
        if slope is not None and (derivative % 2 or mode == "constant"):
            weight = weight * slope
        yield index, weight


def _all_taps(xp, coordinates, sizes, order, mode, derivatives):
    """Index into the grid as one row, and weight, of each tap."""
    along = [list(_taps(xp, coordinates[d], n, order, mode, derivatives[d])) for d, n in enumerate(sizes)]
    for taps in itertools.product(*along):
        index, weight = taps[0]
        for n, (i, w) in zip(sizes[1:], taps[1:], strict=True):
            index, weight = index * n + i, weight * w
        yield index, weight


def _raised(derivatives, d):
    return (*derivatives[:d], derivatives[d] + 1, *derivatives[d + 1 :])


def _slope(F, values, coordinates, order, mode, derivatives, against):
    """The derivative by coordinates of ``sum(real(conj(against) * spline))``."""
    lead = tuple(range(against.ndim - coordinates.ndim + 1))
    parts = []
    for d in range(coordinates.shape[0]):
        moved = F.spline_sample(values, coordinates, order, mode, _raised(derivatives, d))
        part = F.real(F.conj(moved) * against)
        parts.append(F.sum(part, lead) if lead else part)
    return F.stack(parts, 0)


@general(
    lambda F, grad, self_shape, coordinates, order, mode, derivatives: F.spline_spread(
        grad, coordinates, self_shape[len(self_shape) - coordinates.shape[0] :], order, mode, derivatives
    ),
    coordinates=lambda F, grad, self, coordinates, order, mode, derivatives: _slope(
        F, self, coordinates, order, mode, derivatives, grad
    ),
    **_PRIVATE,
    samples=lambda: [
        case(floats(5, 6), floats(2, 3, low=-3.0, high=8.0), 3, "mirror", (0, 0)),
        case(floats(2, 7), floats(1, 4, low=-3.0, high=9.0), 4, "reflect", (1,)),
        case(complexes(6), floats(1, 2, 2, low=-3.0, high=8.0), 3, "grid-wrap", (0,)),
        case(floats(4, 4), floats(2, 3, low=0.1, high=2.9), 2, "constant", (0, 1)),
        case(floats(5), floats(1, 5, low=-2.0, high=7.0), 5, "nearest", (0,)),
        case(floats(6), floats(1, 5, low=-3.0, high=8.0), 3, "grid-constant", (0,)),
        case(floats(6), floats(1, 5, low=-3.0, high=8.0), 3, "wrap", (1,)),
    ],
)
def spline_sample(K, self, coordinates, order: int, mode: str, derivatives: Counts):
    """The spline of coefficients in the last dims at ``coordinates[d]``, differentiated along each dim d."""
    sizes = self.shape[self.ndim - coordinates.shape[0] :]
    flat = self.reshape(*self.shape[: self.ndim - len(sizes)], prod(sizes))
    total = K.xp.zeros((*flat.shape[:-1], *coordinates.shape[1:]), flat.dtype)
    if max(derivatives) > order:
        return total
    for index, weight in _all_taps(K.xp, coordinates, sizes, order, mode, derivatives):
        total = total + flat[..., index] * weight
    return total


@spline_sample.jvp("self")
def _(F, t, coordinates, order, mode, derivatives):
    return F.spline_sample(t, coordinates, order, mode, derivatives)


@spline_sample.jvp("coordinates")
def _(F, t, self, coordinates, order, mode, derivatives):
    total = 0
    for d in range(coordinates.shape[0]):
        total = total + F.select(t, 0, d) * F.spline_sample(self, coordinates, order, mode, _raised(derivatives, d))
    return total


@general(
    lambda F, grad, coordinates, order, mode, derivatives: F.spline_sample(grad, coordinates, order, mode, derivatives),
    coordinates=lambda F, grad, self, coordinates, order, mode, derivatives: _slope(
        F, grad, coordinates, order, mode, derivatives, self
    ),
    **_PRIVATE,
    samples=lambda: [
        case(floats(3), floats(2, 3, low=-3.0, high=8.0), (5, 4), 3, "mirror", (0, 0)),
        case(floats(2, 4), floats(1, 4, low=-3.0, high=9.0), (7,), 4, "reflect", (1,)),
    ],
)
def spline_spread(K, self, coordinates, sizes: Counts, order: int, mode: str, derivatives: Counts):
    """Adjoint of `spline_sample`; `sizes` are those of the grid."""
    lead = self.shape[: self.ndim - coordinates.ndim + 1]
    out = K.xp.zeros((*lead, prod(sizes)), self.dtype)
    if max(derivatives) > order:
        return out.reshape(*lead, *sizes)
    for index, weight in _all_taps(K.xp, coordinates, sizes, order, mode, derivatives):
        values = (self * weight).reshape(*lead, -1)
        places = K.xp.broadcast_to(index.reshape((1,) * len(lead) + (-1,)), values.shape)
        out = K.scatter_add(out, out.ndim - 1, places, values)
    return out.reshape(*lead, *sizes)


@spline_spread.jvp("self")
def _(F, t, coordinates, sizes, order, mode, derivatives):
    return F.spline_spread(t, coordinates, sizes, order, mode, derivatives)


@spline_spread.jvp("coordinates")
def _(F, t, self, coordinates, sizes, order, mode, derivatives):
    total = 0
    for d in range(coordinates.shape[0]):
        moved = self * F.select(t, 0, d)
        total = total + F.spline_spread(moved, coordinates, sizes, order, mode, _raised(derivatives, d))
    return total
