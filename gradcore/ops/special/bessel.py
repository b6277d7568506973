"""Bessel and Airy functions; PyTorch differentiates only `i0`, `i0e`, `i1` and `i1e`."""

from __future__ import annotations

from math import factorial, pi, sqrt

from gradcore.ops.declare.table import elementwise

#: Terms of a power series for arguments up to 1, with a few derivatives.
_TERMS = 12

_REAL = "float -complex"


def _divide_by_argument(F, result, self, sign=1, scaled=False):
    """Compute ``result / self`` of a function of order 1, by its power series near zero.

    `sign` is -1 for the Bessel function, and 1 for the modified one, which may be `scaled`.
    """
    small = F.abs(self) < 1
    quarter = F.where(small, self * self * (sign / 4), 0)
    series = 0
    for k in reversed(range(_TERMS)):
        series = series * quarter + 0.5 / (factorial(k) * factorial(k + 1))
    if scaled:
        series = series * F.exp(-F.abs(self))
    return F.where(small, series, result / F.where(small, 1, self))


#: Terms of the asymptotic series, which is used for arguments above this number and the square of the order.
_LARGE_TERMS, _LARGE = 14, 50


def large_slope(F, order, x, sign, plain, factor=1):
    """Return the derivative of a scaled modified Bessel function times `factor`; `plain` where `x` is not large.

    For large `x`, `plain` cancels, because it is a difference of functions of neighbouring orders, which are nearly
    equal. `sign` is -1 for functions of the first kind and 1 for those of the second.
    """
    use = x > _LARGE + order * order
    at = F.where(use, x, 100 * _LARGE)
    term, total = 1, 0.5
    for k in range(1, _LARGE_TERMS):
        term = term * (4 * order * order - (2 * k - 1) ** 2) * (sign / (8 * k)) / at
        total = total + term * (k + 0.5)
    scale = sqrt(pi / 2) if sign > 0 else sqrt(1 / (2 * pi))
    return F.where(use, factor * (-scale * total / (at * F.sqrt(at))), plain)


@elementwise(lambda F, t, self: t * F.i1(self), promotion=_REAL, aliases=("special.i0",), slow=True)
def i0(self):
    """Return the modified Bessel function of the first kind and order 0.

    Examples
    --------
    >>> gc.i0(gc.tensor([0.0, 1.0, 2.0]))
    tensor([1.0000, 1.2661, 2.2796])
    """


@elementwise(
    lambda F, t, self, result: t * large_slope(F, 0, F.abs(self), -1, F.i1e(self) - F.sgn(self) * result, F.sgn(self)),
    promotion=_REAL,
    path="special.i0e",
    node="SpecialI0EBackward0",
    slow=True,
)
def i0e(self):
    """Compute ``exp(-abs(self)) * i0(self)``.

    Examples
    --------
    >>> gc.special.i0e(gc.tensor([0.0, 1.0, 100.0]))
    tensor([1.0000, 0.4658, 0.0399])
    """


@elementwise(
    lambda F, t, self, result: t * (F.i0(self) - _divide_by_argument(F, result, self)),
    promotion=_REAL,
    path="special.i1",
    node="SpecialI1Backward0",
    slow=True,
)
def i1(self):
    """Return the modified Bessel function of the first kind and order 1.

    Examples
    --------
    >>> gc.special.i1(gc.tensor([0.0, 1.0, 2.0]))
    tensor([0.0000, 0.5652, 1.5906])
    """


def _i1e_slope(F, x, result):
    plain = F.i0e(x) - F.sgn(x) * result - _divide_by_argument(F, result, x, scaled=True)
    return large_slope(F, 1, F.abs(x), -1, plain)


@elementwise(
    lambda F, t, self, result: t * _i1e_slope(F, self, result),
    promotion=_REAL,
    path="special.i1e",
    node="SpecialI1EBackward0",
    slow=True,
)
def i1e(self):
    """Compute ``exp(-abs(self)) * i1(self)``.

    Examples
    --------
    >>> gc.special.i1e(gc.tensor([0.0, 1.0, 100.0]))
    tensor([0.0000, 0.2079, 0.0397])
    """


@elementwise(
    lambda F, t, self: t * F.airy_slope(self),
    promotion=_REAL,
    path="special.airy_ai",
)
def airy_ai(self):
    """Return the Airy function Ai.

    Examples
    --------
    >>> gc.special.airy_ai(gc.tensor([-2.0, 0.0, 1.0]))
    tensor([0.2274, 0.3550, 0.1353])
    """


@elementwise(
    lambda F, t, self: t * (self * F.airy_ai(self)),
    promotion=_REAL,
    function=False,
    method=False,
    inplace=False,
)
def airy_slope(self):
    """Return the derivative of `airy_ai`."""


@elementwise(
    lambda F, t, self: -t * F.bessel_j1(self),
    promotion=_REAL,
    path="special.bessel_j0",
    slow=True,
)
def bessel_j0(self):
    """Return the Bessel function of the first kind and order 0.

    Examples
    --------
    >>> gc.special.bessel_j0(gc.tensor([0.0, 1.0, 2.0]))
    tensor([1.0000, 0.7652, 0.2239])
    """


@elementwise(
    lambda F, t, self, result: t * (F.bessel_j0(self) - _divide_by_argument(F, result, self, -1)),
    promotion=_REAL,
    path="special.bessel_j1",
    slow=True,
)
def bessel_j1(self):
    """Return the Bessel function of the first kind and order 1.

    Examples
    --------
    >>> gc.special.bessel_j1(gc.tensor([0.0, 1.0, 2.0]))
    tensor([0.0000, 0.4401, 0.5767])
    """


@elementwise(
    lambda F, t, self: -t * F.bessel_y1(self),
    promotion=_REAL,
    path="special.bessel_y0",
    domain=(0.2, 5),
    slow=True,
)
def bessel_y0(self):
    """Return the Bessel function of the second kind and order 0.

    Examples
    --------
    >>> gc.special.bessel_y0(gc.tensor([0.0, 1.0, 2.0]))
    tensor([  -inf, 0.0883, 0.5104])
    """


@elementwise(
    lambda F, t, self, result: t * (F.bessel_y0(self) - result / self),
    promotion=_REAL,
    path="special.bessel_y1",
    domain=(0.2, 5),
    slow=True,
)
def bessel_y1(self):
    """Return the Bessel function of the second kind and order 1.

    Examples
    --------
    >>> gc.special.bessel_y1(gc.tensor([0.0, 1.0, 2.0]))
    tensor([   -inf, -0.7812, -0.1070])
    """


@elementwise(
    lambda F, t, self: t * F.i1(self),
    promotion=_REAL,
    path="special.modified_bessel_i0",
    kernel="i0",
)
def modified_bessel_i0(self):
    """Return the modified Bessel function of the first kind and order 0: `i0`.

    Examples
    --------
    >>> gc.special.modified_bessel_i0(gc.tensor([0.0, 1.0, 2.0]))
    tensor([1.0000, 1.2661, 2.2796])
    """


@elementwise(
    lambda F, t, self, result: t * (F.i0(self) - _divide_by_argument(F, result, self)),
    promotion=_REAL,
    path="special.modified_bessel_i1",
    kernel="i1",
)
def modified_bessel_i1(self):
    """Return the modified Bessel function of the first kind and order 1: `i1`.

    Examples
    --------
    >>> gc.special.modified_bessel_i1(gc.tensor([0.0, 1.0, 2.0]))
    tensor([0.0000, 0.5652, 1.5906])
    """


@elementwise(
    lambda F, t, self: -t * F.modified_bessel_k1(self),
    promotion=_REAL,
    path="special.modified_bessel_k0",
    domain=(0.2, 5),
)
def modified_bessel_k0(self):
    """Return the modified Bessel function of the second kind and order 0.

    Examples
    --------
    >>> gc.special.modified_bessel_k0(gc.tensor([0.5, 1.0, 2.0]))
    tensor([0.9244, 0.4210, 0.1139])
    """


@elementwise(
    lambda F, t, self, result: -t * (F.modified_bessel_k0(self) + result / self),
    promotion=_REAL,
    path="special.modified_bessel_k1",
    domain=(0.2, 5),
)
def modified_bessel_k1(self):
    """Return the modified Bessel function of the second kind and order 1.

    Examples
    --------
    >>> gc.special.modified_bessel_k1(gc.tensor([0.5, 1.0, 2.0]))
    tensor([1.6564, 0.6019, 0.1399])
    """


@elementwise(
    lambda F, t, self, result: t * large_slope(F, 0, self, 1, result - F.scaled_modified_bessel_k1(self)),
    promotion=_REAL,
    path="special.scaled_modified_bessel_k0",
    domain=(0.2, 5),
)
def scaled_modified_bessel_k0(self):
    """Compute ``exp(self) * modified_bessel_k0(self)``.

    Examples
    --------
    >>> gc.special.scaled_modified_bessel_k0(gc.tensor([0.5, 1.0, 200.0]))
    tensor([1.5241, 1.1445, 0.0886])
    """


@elementwise(
    lambda F, t, self, result: (
        t * large_slope(F, 1, self, 1, result - F.scaled_modified_bessel_k0(self) - result / self)
    ),
    promotion=_REAL,
    path="special.scaled_modified_bessel_k1",
    domain=(0.2, 5),
)
def scaled_modified_bessel_k1(self):
    """Compute ``exp(self) * modified_bessel_k1(self)``.

    Examples
    --------
    >>> gc.special.scaled_modified_bessel_k1(gc.tensor([0.5, 1.0, 200.0]))
    tensor([2.7310, 1.6362, 0.0888])
    """


def _spherical_j1(F, self):
    """Return the spherical Bessel function of order 1, ``(j0(self) - cos(self)) / self``.

    Near zero it is computed by a series.
    """
    small = F.abs(self) < 1
    square = F.where(small, self * self, 0)
    series = 0
    for k in reversed(range(_TERMS)):
        series = series * -square + (2 * k + 2) / factorial(2 * k + 3)
    is_infinite = F.isinf(self)
    x = F.where(small | is_infinite, 1, self)
    return F.where(small, self * series, F.where(is_infinite, 0, (F.sin(x) / x - F.cos(x)) / x))


@elementwise(
    lambda F, t, self: -t * _spherical_j1(F, self),
    promotion=_REAL,
    path="special.spherical_bessel_j0",
)
def spherical_bessel_j0(K, self):
    """Return the spherical Bessel function of the first kind and order 0, ``sin(self) / self``.

    Examples
    --------
    >>> gc.special.spherical_bessel_j0(gc.tensor([0.0, 1.0, 2.0]))
    tensor([1.0000, 0.8415, 0.4546])
    """
    zero, is_infinite = self == 0, K.isinf(self)
    x = K.where(zero | is_infinite, 1, self)
    return K.where(zero, 1, K.where(is_infinite, 0, K.sin(x) / x))
