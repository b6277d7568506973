"""Rounding, signs and parts of numbers: functions that are constant or linear between jumps."""

from __future__ import annotations

from gradcore.ops.declare.table import elementwise, same


@elementwise(lambda F, t: F.zeros_like(t), promotion="default -bool -complex")
def floor(self):
    """Return the largest integer that is not greater than the element.

    Examples
    --------
    >>> gc.floor(gc.tensor([-1.5, 1.5]))
    tensor([-2.,  1.])
    """


@elementwise(lambda F, t: F.zeros_like(t), promotion="default -bool -complex")
def ceil(self):
    """Return the smallest integer that is not less than the element.

    Examples
    --------
    >>> gc.ceil(gc.tensor([-1.5, 1.5]))
    tensor([-1.,  2.])
    """


@elementwise(lambda F, t: F.zeros_like(t), promotion="default -bool -complex", aliases=("fix",))
def trunc(self):
    """Return the integer part.

    Examples
    --------
    >>> gc.trunc(gc.tensor([-1.5, 1.5]))
    tensor([-1.,  1.])
    """


@elementwise(same, promotion="default -bool -integer -complex")
def frac(K, self):
    """Return the fractional part, with the sign of the number: ``self - trunc(self)``.

    Examples
    --------
    >>> gc.frac(gc.tensor([-1.5, 1.25]))
    tensor([-0.5000,  0.2500])
    """
    return self - K.trunc(self)


@elementwise(
    lambda F, t: F.zeros_like(t),
    node=lambda decimals: f"RoundBackward{1 if decimals else 0}",
    promotion="default -bool -complex",
    aliases=("special.round",),
    inplace="function",
    saved={"decimals": None},
)
def round(self, *, decimals: int = 0):
    """Round to the nearest integer, ties to even, or to `decimals` digits behind the point.

    Examples
    --------
    >>> gc.round(gc.tensor([0.5, 1.5, 2.6]))
    tensor([0., 2., 3.])
    >>> gc.round(gc.tensor([3.14159]), decimals=2)
    tensor([3.1400])
    """


@elementwise(lambda F, t: F.zeros_like(t), promotion="default -complex")
def sign(self):
    """Return -1, 0 or 1: the sign of real numbers, and 0 for NaN.

    Examples
    --------
    >>> gc.sign(gc.tensor([-2.0, 0.0, 3.0]))
    tensor([-1.,  0.,  1.])
    """


@elementwise(promotion="default", node="SgnBackward0")
def sgn(K, self):
    """Compute ``self / abs(self)``, and 0 at 0: the sign of real numbers, the direction of complex ones.

    Examples
    --------
    >>> gc.sgn(gc.tensor([3 + 4j, 0j]))
    tensor([0.6000+0.8000j, 0.0000+0.0000j])
    """
    if not K.is_complex(self):
        return K.sign(self)
    size = K.abs(self)
    return K.where(size == 0, 0, self / size)


def _turn(F, t, self, result):
    """Return the part of `t` orthogonal to the direction of `self`, divided by ``abs(self)``.

    The map is a scaled projection, so it is its own adjoint.
    """
    if not F.is_complex(self):
        return F.zeros_like(t)
    size = F.abs(self)
    return F.where(size == 0, 0, (t - result * F.real(F.conj(result) * t)) / size)


sgn.vjp("self")(_turn)
sgn.jvp("self")(_turn)


@elementwise(promotion="compare -complex")
def signbit(self):
    """Return whether the sign bit is set: negative numbers and negative zero.

    Examples
    --------
    >>> gc.signbit(gc.tensor([-1.0, -0.0, 0.0]))
    tensor([ True,  True, False])
    """


@elementwise(promotion="real -bool", aliases=("absolute",))
def abs(self):
    """Return the magnitude of every element.

    Examples
    --------
    >>> gc.abs(gc.tensor([-1.5, 2.0]))
    tensor([1.5000, 2.0000])
    >>> gc.abs(gc.tensor([3 + 4j]))
    tensor([5.])
    """


@abs.vjp("self")
def _(F, grad, self):
    return grad * F.sgn(self)


@abs.jvp("self")
def _(F, t, self):
    return F.real(F.conj(t) * F.sgn(self))


@elementwise(
    self=lambda F, t, self, result: t * (result / F.where(self == 0, 1, self)),
    other=lambda F, t: F.zeros_like(t),
    node=lambda other: f"CopysignBackward{1 if getattr(other, '_constant', False) else 0}",
    promotion="float -complex",
    accepts_scalars=("self", "other"),
)
def copysign(self, other):
    """Return the magnitude of `self` with the sign of `other`.

    Examples
    --------
    >>> gc.copysign(gc.tensor([1.0, 2.0]), gc.tensor([-1.0, 1.0]))
    tensor([-1.,  2.])
    """


@elementwise(
    self=lambda F, t, self, other: F.where(self != other, t, 0),
    other=lambda F, t: F.zeros_like(t),
    promotion="default -bool -integer -complex",
    computes_half_in_float=False,
    accepts_scalars=("self", "other"),
)
def nextafter(self, other):
    """Return the next representable number after `self` in the direction of `other`.

    Examples
    --------
    >>> gc.nextafter(gc.tensor([1.0]), gc.tensor([2.0])) > 1
    tensor([True])
    """


@elementwise(
    self=lambda F, t: F.zeros_like(t),
    values=lambda F, t, self: F.where(self == 0, t, 0),
    promotion="same_dtype -complex",
    accepts_scalars=(),
)
def heaviside(self, values):
    """Return 0 for negative elements, 1 for positive ones, and `values` at zero.

    Examples
    --------
    >>> gc.heaviside(gc.tensor([-1.0, 0.0, 2.0]), gc.tensor([0.5]))
    tensor([0.0000, 0.5000, 1.0000])
    """
