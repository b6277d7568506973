"""Recursive (IIR) filters, and filters that change the sampling rate."""

from __future__ import annotations

from typing import Any

from gradcore.backends.portable.filter_tables import rate_taps
from gradcore.ops.declare.checks import check_implemented
from gradcore.ops.declare.promotion import common_dtype
from gradcore.ops.declare.samples import case, complexes, floats
from gradcore.ops.declare.table import general
from gradcore.ops.signal.windowed import pad_with_zeros

_PRIVATE = {"function": False, "method": False}


def _reversed_filter(F, x, b, a, dim):
    """Return the adjoint of a recursive filter."""
    return F.flip(F.recursive_filter(F.flip(x, (dim,)), F.conj(b), F.conj(a), dim), (dim,))


def _one(F, a):
    return F.narrow(a, 0, 0, 1) * 0 + 1


def _lagged_products(F, x, y, dim, count):
    """Compute ``sum(conj(x[n - k]) * y[n])`` along `dim` and all others, for `count` lags `k`."""
    x = F.reshape(F.movedim(x, dim, -1), (-1, x.shape[dim]))
    y = F.reshape(F.movedim(y, dim, -1), (-1, y.shape[dim]))
    x = pad_with_zeros(F, F.conj(x), (1,), (count - 1,), (0,))
    return F.flip(F.sum(F.correlate_valid(x, y, (1,), "direct"), 0), (0,))


def _numerator_gradient(F, grad, self, b, a, dim):
    filtered = _reversed_filter(F, grad, _one(F, a), a, dim)
    return _lagged_products(F, self, filtered, dim, b.shape[0])


def _denominator_gradient(F, grad, result, a, dim):
    filtered = _reversed_filter(F, grad, _one(F, a), a, dim)
    return -_lagged_products(F, result, filtered, dim, a.shape[0])


@general(
    lambda F, grad, b, a, dim: _reversed_filter(F, grad, b, a, dim),
    b=_numerator_gradient,
    a=_denominator_gradient,
    mixed=common_dtype,
    **_PRIVATE,
    samples=lambda: [
        case(floats(2, 6), floats(3), floats(3, low=0.5, high=1.5), 1),
        case(floats(5, 2), floats(1), floats(2, low=0.5, high=1.5), 0),
        case(complexes(6), complexes(2), complexes(2, low=1.0, high=1.5), 0),
        case(floats(4), floats(6), floats(2, low=0.5, high=1.5), 0),
    ],
)
def recursive_filter(K, self, b, a, dim: int):
    """Apply a recursive filter with numerator `b` and denominator `a` along `dim`, from rest.

    ``a[0] * y[n] = sum(b[k] * x[n - k]) - sum(a[k] * y[n - k] for k > 0)``
    """
    check_implemented("lfilter", self, "bi")
    x = K.xp.moveaxis(self, dim, 0)
    y: list[Any] = []
    for n in range(len(x)):
        total = x[n] * b[0]
        for k in range(1, min(n + 1, len(b))):
            total = total + x[n - k] * b[k]
        for k in range(1, min(n + 1, len(a))):
            total = total - y[n - k] * a[k]
        y.append(K.div(total, a[0]))
    return K.xp.moveaxis(K.xp.stack(y), 0, dim) if y else self


@recursive_filter.jvp("self")
def _(F, t, b, a, dim):
    return F.recursive_filter(t, b, a, dim)


@recursive_filter.jvp("b")
def _(F, t, self, a, dim):
    return F.recursive_filter(self, t, a, dim)


@recursive_filter.jvp("a")
def _(F, t, result, a, dim):
    return -F.recursive_filter(result, t, a, dim)


# -- from one rate to another -----------------------------------------------------------------------------------------


def _rate_adjoint(F, grad, self_shape, h, up, down, dim):
    """Return the adjoint of `rate_filter`: the reversed filter, with `up` and `down` exchanged."""
    h = pad_with_zeros(F, h, (0,), (0,), (-(h.shape[0] - 1) % up,))
    start, n = (h.shape[0] - 1) // up, self_shape[dim]
    result = F.rate_filter(grad, F.flip(F.conj(h), (0,)), down, up, dim)
    result = (
        F.narrow(result, dim, start, min(n, max(result.shape[dim] - start, 0)))
        if result.shape[dim] > start
        else (F.narrow(result, dim, 0, 0))
    )
    return pad_with_zeros(F, result, (dim,), (0,), (n - result.shape[dim],))


def _insert_zeros(F, x, factor):
    """Return rows with ``factor - 1`` zeros after each element."""
    return F.reshape(pad_with_zeros(F, F.unsqueeze(x, -1), (2,), (0,), (factor - 1,)), (x.shape[0], -1))


def _taps_gradient(F, grad, self, h, up, down, dim):
    x = _insert_zeros(F, F.reshape(F.movedim(F.conj(self), dim, -1), (-1, self.shape[dim])), up)
    y = _insert_zeros(F, F.reshape(F.movedim(grad, dim, -1), (-1, grad.shape[dim])), down)
    count = h.shape[0]
    x = pad_with_zeros(F, x, (1,), (count - 1,), (max(y.shape[1] - x.shape[1], 0),))
    x = F.narrow(x, 1, 0, y.shape[1] + count - 1) if x.shape[1] > y.shape[1] + count - 1 else x
    y = pad_with_zeros(F, y, (1,), (0,), (x.shape[1] - count + 1 - y.shape[1],))
    return F.flip(F.sum(F.correlate_valid(x, y, (1,), "direct"), 0), (0,))


@general(
    _rate_adjoint,
    h=_taps_gradient,
    mixed=common_dtype,
    **_PRIVATE,
    samples=lambda: [
        case(floats(2, 5), floats(4), 3, 2, 1),
        case(floats(7, 2), floats(3), 1, 3, 0),
        case(complexes(4), complexes(5), 2, 1, 0),
        case(floats(9), floats(2), 2, 5, 0),
    ],
)
def rate_filter(K, self, h, up: int, down: int, dim: int):
    """Insert ``up - 1`` zeros after each element, filter with `h`, and keep every element number `down`."""
    x = K.xp.moveaxis(self, dim, -1)
    n, taps = x.shape[-1], h.shape[0]
    count = -(-((n - 1) * up + taps) // down)
    total = 0
    for element, tap, used in rate_taps(n, taps, up, down, count):
        weight = h[K.constant(tap)] * K.constant(used.astype(self.dtype))
        total = total + x[..., K.constant(element)] * weight
    return K.xp.moveaxis(total, -1, dim)


@rate_filter.jvp("self")
def _(F, t, h, up, down, dim):
    return F.rate_filter(t, h, up, down, dim)


@rate_filter.jvp("h")
def _(F, t, self, up, down, dim):
    return F.rate_filter(self, t, up, down, dim)
