"""Splines on regular grids: coefficients of samples, values and derivatives between the grid's points.

A spline of an order is ``sum(c[k] * B(x - k))`` with the B-spline of that order. `spline_coefficients` computes the
coefficients c from samples, `spline_sample` evaluates the spline, and `spline_spread` is the adjoint of the
evaluation. Both can differentiate the B-splines along each dim, so their derivatives with respect to coordinates, of
any order, use the same two operations.
"""

from __future__ import annotations

from math import prod

from gradcore.backends.portable.splines import all_taps, filter_matrix
from gradcore.ops.declare.checks import check_implemented
from gradcore.ops.declare.samples import case, complexes, floats
from gradcore.ops.declare.table import general, linear

_PRIVATE = {"function": False, "method": False}

Counts = tuple[int, ...]


# -- coefficients ------------------------------------------------------------------------------------------------------


def _with_ends(F, x, dim, factor):
    """Return `x` with its first and last elements along `dim` multiplied by `factor`."""
    n = x.shape[dim]
    first, last = F.narrow(x, dim, 0, 1) * factor, F.narrow(x, dim, n - 1, 1) * factor
    return F.cat([first, F.narrow(x, dim, 1, n - 2), last], dim)


def _coefficients_adjoint(F, grad, dim, order, mode):
    """Return the adjoint of `spline_coefficients`.

    The map is symmetric, except that ``mirror`` does not repeat the elements at the edges, which have half the weight.
    """
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
    """Return the coefficients along `dim` of the spline through samples.

    `mode` says how the samples continue beyond the edges.
    """
    check_implemented("spline_filter1d", self, "bi")
    matrix = K.constant(filter_matrix(self.shape[dim], order, mode).astype(self.dtype))
    return K.xp.moveaxis(K.matmul(K.xp.moveaxis(self, dim, -1), matrix.T), -1, dim)


# -- values ------------------------------------------------------------------------------------------------------------


def _raise_order(derivatives, d):
    return (*derivatives[:d], derivatives[d] + 1, *derivatives[d + 1 :])


def _slope(F, values, coordinates, order, mode, derivatives, against):
    """Return the derivative by the coordinates of ``sum(real(conj(against) * spline))``."""
    lead = tuple(range(against.ndim - coordinates.ndim + 1))
    parts = []
    for d in range(coordinates.shape[0]):
        moved = F.spline_sample(values, coordinates, order, mode, _raise_order(derivatives, d))
        product = F.real(F.conj(moved) * against)
        parts.append(F.sum(product, lead) if lead else product)
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
    """Evaluate a spline, given by coefficients in the last dims, at ``coordinates[d]``.

    It is differentiated ``derivatives[d]`` times along dim d.
    """
    sizes = self.shape[self.ndim - coordinates.shape[0] :]
    flat = self.reshape(*self.shape[: self.ndim - len(sizes)], prod(sizes))
    total = K.xp.zeros((*flat.shape[:-1], *coordinates.shape[1:]), flat.dtype)
    if max(derivatives) > order:
        return total
    for index, weight in all_taps(K.xp, coordinates, sizes, order, mode, derivatives):
        total = total + flat[..., index] * weight
    return total


@spline_sample.jvp("self")
def _(F, t, coordinates, order, mode, derivatives):
    return F.spline_sample(t, coordinates, order, mode, derivatives)


@spline_sample.jvp("coordinates")
def _(F, t, self, coordinates, order, mode, derivatives):
    total = 0
    for d in range(coordinates.shape[0]):
        total = total + F.select(t, 0, d) * F.spline_sample(
            self, coordinates, order, mode, _raise_order(derivatives, d)
        )
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
    """Return the adjoint of `spline_sample`; `sizes` are those of the grid."""
    lead = self.shape[: self.ndim - coordinates.ndim + 1]
    out = K.xp.zeros((*lead, prod(sizes)), self.dtype)
    if max(derivatives) > order:
        return out.reshape(*lead, *sizes)
    for index, weight in all_taps(K.xp, coordinates, sizes, order, mode, derivatives):
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
        total = total + F.spline_spread(moved, coordinates, sizes, order, mode, _raise_order(derivatives, d))
    return total
