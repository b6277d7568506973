"""Bessel and Airy functions; PyTorch differentiates only `i0`, `i0e`, `i1` and `i1e`."""

from __future__ import annotations

from math import factorial

from gradcore.ops.table import elementwise

#: Terms of a power series for arguments up to 1, with a few derivatives.
_TERMS = 12

_REAL = "float -complex"


def _by_argument(F, result, self):
    """``result / self``, and its limit 1/2 at zero."""
    zero = self == 0
    return F.where(zero, 0.5, result / F.where(zero, 1, self))


@elementwise(lambda F, t, self: t * F.i1(self), promotion=_REAL, aliases=("special.i0",))
def i0(self):
    """The modified Bessel function of the first kind and order 0."""


@elementwise(
    lambda F, t, self, result: t * (F.i1e(self) - F.sgn(self) * result),
    promotion=_REAL,
    path="special.i0e",
    node="SpecialI0EBackward0",
)
def i0e(self):
    """``exp(-abs(self)) * i0(self)``."""


@elementwise(
    lambda F, t, self, result: t * (F.i0(self) - _by_argument(F, result, self)),
    promotion=_REAL,
    path="special.i1",
    node="SpecialI1Backward0",
)
def i1(self):
    """The modified Bessel function of the first kind and order 1."""


@elementwise(
    lambda F, t, self, result: t * (F.i0e(self) - F.sgn(self) * result - _by_argument(F, result, self)),
    promotion=_REAL,
    path="special.i1e",
    node="SpecialI1EBackward0",
)
def i1e(self):
    """``exp(-abs(self)) * i1(self)``."""


@elementwise(
    lambda F, t, self: t * F.airy_slope(self),
    promotion=_REAL,
    path="special.airy_ai",
)
def airy_ai(self):
    """The Airy function Ai."""


@elementwise(
    lambda F, t, self: t * (self * F.airy_ai(self)),
    promotion=_REAL,
    function=False,
    method=False,
    inplace=False,
)
def airy_slope(self):
    """The derivative of `airy_ai`."""


@elementwise(
    lambda F, t, self: -t * F.bessel_j1(self),
    promotion=_REAL,
    path="special.bessel_j0",
)
def bessel_j0(self):
    """The Bessel function of the first kind and order 0."""


@elementwise(
    lambda F, t, self, result: t * (F.bessel_j0(self) - _by_argument(F, result, self)),
    promotion=_REAL,
    path="special.bessel_j1",
)
def bessel_j1(self):
    """The Bessel function of the first kind and order 1."""


@elementwise(
    lambda F, t, self: -t * F.bessel_y1(self),
    promotion=_REAL,
    path="special.bessel_y0",
    domain=(0.2, 5),
)
def bessel_y0(self):
    """The Bessel function of the second kind and order 0."""


@elementwise(
    lambda F, t, self, result: t * (F.bessel_y0(self) - result / self),
    promotion=_REAL,
    path="special.bessel_y1",
    domain=(0.2, 5),
)
def bessel_y1(self):
    """The Bessel function of the second kind and order 1."""


@elementwise(
    lambda F, t, self: t * F.i1(self),
    promotion=_REAL,
    path="special.modified_bessel_i0",
    kernel="i0",
)
def modified_bessel_i0(self):
    """The modified Bessel function of the first kind and order 0: `i0`."""


@elementwise(
    lambda F, t, self, result: t * (F.i0(self) - _by_argument(F, result, self)),
    promotion=_REAL,
    path="special.modified_bessel_i1",
    kernel="i1",
)
def modified_bessel_i1(self):
    """The modified Bessel function of the first kind and order 1: `i1`."""


@elementwise(
    lambda F, t, self: -t * F.modified_bessel_k1(self),
    promotion=_REAL,
    path="special.modified_bessel_k0",
    domain=(0.2, 5),
)
def modified_bessel_k0(self):
    """The modified Bessel function of the second kind and order 0."""


@elementwise(
    lambda F, t, self, result: -t * (F.modified_bessel_k0(self) + result / self),
    promotion=_REAL,
    path="special.modified_bessel_k1",
    domain=(0.2, 5),
)
def modified_bessel_k1(self):
    """The modified Bessel function of the second kind and order 1."""


@elementwise(
    lambda F, t, self, result: t * (result - F.scaled_modified_bessel_k1(self)),
    promotion=_REAL,
    path="special.scaled_modified_bessel_k0",
    domain=(0.2, 5),
)
def scaled_modified_bessel_k0(self):
    """``exp(self) * modified_bessel_k0(self)``."""


@elementwise(
    lambda F, t, self, result: t * (result - F.scaled_modified_bessel_k0(self) - result / self),
    promotion=_REAL,
    path="special.scaled_modified_bessel_k1",
    domain=(0.2, 5),
)
def scaled_modified_bessel_k1(self):
    """``exp(self) * modified_bessel_k1(self)``."""


def _spherical_j1(F, self):
    """The spherical Bessel function of order 1, ``(j0(self) - cos(self)) / self``; a series where that cancels."""
    small = F.abs(self) < 1
    square = F.where(small, self * self, 0)
    series = 0
    for k in reversed(range(_TERMS)):
        series = series * -square + (2 * k + 2) / factorial(2 * k + 3)
    x = F.where(small, 1, self)
    return F.where(small, self * series, (F.sin(x) / x - F.cos(x)) / x)


@elementwise(
    lambda F, t, self: -t * _spherical_j1(F, self),
    promotion=_REAL,
    path="special.spherical_bessel_j0",
)
def spherical_bessel_j0(F, self):
    """The spherical Bessel function of the first kind and order 0, ``sin(self) / self``."""
    zero = self == 0
    return F.where(zero, 1, F.sin(self) / F.where(zero, 1, self))
