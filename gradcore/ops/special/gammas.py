"""Derivatives of gamma-distributed numbers by the shape of their distribution.

A number x with the distribution function P(a, x) depends on a such that P is constant: ``dx/da = -P_a / P_x``. With
``c = log(x) - digamma(a)`` the quotient is an integral over r from 0 to infinity, in the direction of the sign of c,

    dx/da / x = integral of exp(a * r - x * expm1(r)) * (c + r)

whose integrand has one sign. Where x is below 1 the power series of P has no cancellation, and is used instead.
"""

from __future__ import annotations

from gradcore.ops.declare.table import general

#: The integrand is neglected where it is below ``exp(-LIMIT)``.
_LIMIT = 40.0
#: The number of terms of the series.
_TERMS = 20
#: Gauss's quadrature of 32 points on [0, 1]: half of the points, which lie symmetrically, and their weights.
_POINTS = (
    0.001368069075259215, 0.007194244227365809, 0.017618872206246805, 0.03254696203113017, 0.051839422116973954,
    0.07531619313371501, 0.10275810201602881, 0.13390894062985514, 0.16847786653489238, 0.20614212137961885,
    0.24655004553388532, 0.28932436193468236, 0.33406569885893617, 0.38035631887393145, 0.42776401920860174,
    0.4758461671561308,
)  # fmt: skip
_WEIGHTS = (
    0.003509305004735253, 0.008137197365452872, 0.012696032654631012, 0.017136931456510882, 0.021417949011113418,
    0.025499029631188046, 0.029342046739267783, 0.03291111138818084, 0.03617289705442417, 0.039096947893535114,
    0.041655962113473353, 0.04382604650220189, 0.04558693934788189, 0.046922199540402255, 0.047819360039637354,
    0.04827004425736383,
)  # fmt: skip


def _series(F, a, log_x):
    """Return the derivative for x up to 1."""
    x = F.exp(log_x)
    term = 1 / a
    digamma = F.digamma(a + 1)
    total = term * (digamma - log_x)
    for n in range(1, _TERMS):
        term = term * x / (a + n)
        digamma = digamma + 1 / (a + n)
        total = total + term * (digamma - log_x)
    return total


def _integral(F, a, log_x):
    """Return the derivative for x from 1 on."""
    x = F.exp(log_x)
    c = log_x - F.digamma(a)
    end = F.where(c < 0, -_left_end(F, a, x), _right_end(F, a, x))
    total = 0
    for point, weight in zip(_POINTS, _WEIGHTS, strict=True):
        for share in (point, 1 - point):
            r = end * share
            total = total + F.exp(a * r - x * F.expm1(r)) * (c + r) * weight
    return end * total


def _left_end(F, a, x):
    """Return the left end of the integrand's support, from ``expm1(-s) + s >= s**2 / (2 + s)``."""
    half = a - x - _LIMIT / 2
    return (F.sqrt(half * half + 2 * _LIMIT * a) - half) / a


def _right_end(F, a, x):
    """Return the right end of the integrand's support: first from ``expm1(s) - s >= s**2 / 2``, then closer."""
    far = (a - x + F.sqrt((a - x) * (a - x) + 2 * _LIMIT * x)) / x
    return F.minimum(far, F.log1p((_LIMIT + a * far) / x))


def log_gamma_slope(F, a, log_x):
    """Return the derivative of ``log(x)`` by `a` for a gamma-distributed number `x` of shape `a`."""
    return F.where(log_x < 0, _series(F, a, F.clamp(log_x, None, 0)), _integral(F, a, F.clamp(log_x, 0, None)))


@general(node="StandardGammaBackward0", constant={"drawn": "moves with the shapes alone"}, function=False, method=False)
def log_gamma_drawn(K, self, drawn):
    """Return `drawn`, the logarithms of gamma numbers, as a function of the shapes `self`."""
    return drawn


log_gamma_drawn.vjp("self")(lambda F, grad, self, drawn: grad * log_gamma_slope(F, self, drawn))
log_gamma_drawn.jvp("self")(lambda F, t, self, drawn: t * log_gamma_slope(F, self, drawn))
