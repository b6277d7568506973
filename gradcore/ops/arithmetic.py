"""Arithmetic: sums, products, quotients and powers."""

from __future__ import annotations

from gradcore.ops.table import elementwise

Number = complex


def _scaled(t, alpha):
    return t if alpha == 1 else t * alpha


@elementwise(self=lambda F, t: t, other=lambda F, t, alpha: _scaled(t, alpha), kernel="add_scaled")
def add(F, self, other, *, alpha: Number = 1):
    """``self + alpha * other``."""
    return F.add(self, _scaled(other, alpha))


@elementwise(self=lambda F, t: t, other=lambda F, t, alpha: -_scaled(t, alpha), kernel="sub_scaled", aliases=("subtract",))
def sub(F, self, other, *, alpha: Number = 1):
    """``self - alpha * other``."""
    return F.sub(self, _scaled(other, alpha))


@elementwise(self=lambda F, t, other: t * other, other=lambda F, t, self: t * self, aliases=("multiply",))
def mul(self, other):
    """``self * other``."""


@elementwise(lambda F, t: -t, aliases=("negative",))
def neg(self):
    """``-self``."""


@elementwise(lambda F, t, result: t * (1 - result * result))
def tanh(self):
    """Hyperbolic tangent of every element."""


@elementwise(lambda F, t, result: t * result, promotion="float")
def exp(self):
    """Exponential of every element."""
