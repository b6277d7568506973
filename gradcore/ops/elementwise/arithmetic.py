"""Arithmetic: sums, products, quotients, remainders and their combinations."""

from __future__ import annotations

from gradcore.ops.declare.annotations import Number
from gradcore.ops.declare.promotion import same_dtypes
from gradcore.ops.declare.samples import case, complexes, floats
from gradcore.ops.declare.table import composite, elementwise, same, times


def _scale(t, alpha):
    return t if alpha == 1 else t * alpha


def _name_by_number(name, position):
    """Return a node's name as PyTorch counts overloads: 0 for a number at that position, 1 for a tensor."""
    return lambda *args: f"{name}Backward{0 if getattr(args[position], '_constant', False) else 1}"


# -- sums ----------------------------------------------------------------------------------------------------


@elementwise(
    self=same,
    other=lambda F, t, alpha: t if alpha == 1 else t * alpha,
    kernel="add_scaled",
    promotion="add",
    accepts_scalars=("self", "other"),
    commutative=True,
    numbers_first=True,
)
def add(K, self, other, *, alpha: Number = 1):
    """Compute ``self + alpha * other``.

    Examples
    --------
    >>> gc.add(gc.tensor([1.0, 2.0]), gc.tensor([[10.0], [20.0]]))
    tensor([[11., 12.],
            [21., 22.]])
    >>> gc.add(gc.tensor([1, 2]), 3, alpha=10)
    tensor([31, 32])
    """
    return K.add(self, _scale(other, alpha))


@elementwise(
    self=same,
    other=lambda F, t, alpha: -_scale(t, alpha),
    kernel="sub_scaled",
    promotion="subtract",
    aliases=("subtract",),
    accepts_scalars=("self", "other"),
    numbers_first=True,
)
def sub(K, self, other, *, alpha: Number = 1):
    """Compute ``self - alpha * other``.

    Examples
    --------
    >>> gc.sub(gc.tensor([5.0, 7.0]), gc.tensor([1.0, 2.0]), alpha=2)
    tensor([3., 3.])
    """
    return K.sub(self, _scale(other, alpha))


@elementwise(
    self=lambda F, t, alpha: -_scale(t, alpha),
    other=same,
    node=lambda other: f"RsubBackward{1 if getattr(other, '_constant', False) else 0}",
    promotion="subtract",
    edges={"RsubBackward1": ("self",)},
)
def rsub(K, self, other, *, alpha: Number = 1):
    """Compute ``other - alpha * self``.

    Examples
    --------
    >>> gc.rsub(gc.tensor([1.0, 2.0]), 10)
    tensor([9., 8.])
    """
    return K.sub(other, _scale(self, alpha))


@elementwise(lambda F, t: -t, promotion="negate", aliases=("negative",))
def neg(self):
    """Compute ``-self``.

    Examples
    --------
    >>> gc.neg(gc.tensor([1.0, -2.0]))
    tensor([-1.,  2.])
    """


@composite(samples=lambda: [case(floats(3, 4)), case(complexes(2))])
def positive(F, self):
    """Return the tensor itself; bools are refused, as for negation.

    Examples
    --------
    >>> gc.positive(gc.tensor([1.0, -2.0]))
    tensor([ 1., -2.])
    """
    if self.dtype.category == 0:
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return self


# -- products ------------------------------------------------------------------------------------------------


@elementwise(
    lambda F, t, factor: F.scale(t, factor),
    node="MulBackward0",
    promotion="settings",
    function=False,
    method=False,
    inplace=False,
)
def scale(K, self, factor: Number):
    """Compute ``factor * self`` for a number `factor`.

    Nothing is saved, so backward can run again.
    """
    return K.mul(self, factor)


@elementwise(
    self=times("other"),
    other=times("self"),
    aliases=("multiply",),
    accepts_scalars=("self", "other"),
    commutative=True,
)
def mul(self, other):
    """Compute ``self * other``.

    Examples
    --------
    >>> gc.mul(gc.tensor([1.0, 2.0, 3.0]), 10)
    tensor([10., 20., 30.])
    >>> gc.mul(gc.tensor([[1], [2]]), gc.tensor([3, 4]))
    tensor([[3, 4],
            [6, 8]])
    """


@elementwise(
    self=same,
    tensor1=lambda F, t, tensor2, value: _scale(t * tensor2, value),
    tensor2=lambda F, t, tensor1, value: _scale(t * tensor1, value),
    accepts_scalars=(),
    autocast="widest:cuda",
    numbers_first=True,
)
def addcmul(K, self, tensor1, tensor2, *, value: Number = 1):
    """Compute ``self + value * tensor1 * tensor2``.

    Examples
    --------
    >>> gc.addcmul(gc.tensor([1.0, 1.0]), gc.tensor([2.0, 3.0]), gc.tensor([4.0, 5.0]), value=0.1)
    tensor([1.8000, 2.5000])
    """
    return self + _scale(tensor1 * tensor2, value)


@elementwise(
    self=same,
    tensor1=lambda F, t, tensor2, value: t * (value / tensor2),
    tensor2=lambda F, t, tensor1, tensor2, value: -t * (value * tensor1 / (tensor2 * tensor2)),
    promotion="default -bool -integer",
    accepts_scalars=(),
    autocast="widest:cuda",
    numbers_first=True,
)
def addcdiv(K, self, tensor1, tensor2, *, value: Number = 1):
    """Compute ``self + value * tensor1 / tensor2``.

    Examples
    --------
    >>> gc.addcdiv(gc.tensor([1.0, 1.0]), gc.tensor([2.0, 3.0]), gc.tensor([4.0, 5.0]), value=0.1)
    tensor([1.0500, 1.0600])
    """
    return self + _scale(tensor1 / tensor2, value)


_refuse_other_ends = same_dtypes("expected dtype {self.cpp} for `end` but got dtype {end.cpp}")
_refuse_other_weights = same_dtypes("expected dtype {self.cpp} for `weight` but got dtype {weight.cpp}")


def _mixed_ends(op, args):
    """Raise if the ends, or a weight with dims, have different dtypes; a 0-dim weight counts as a number."""
    _refuse_other_ends(op, args)
    if getattr(args[2], "ndim", 0):
        _refuse_other_weights(op, args)


@elementwise(
    self=lambda F, t, weight: t * (1 - weight),
    end=times("weight"),
    weight=lambda F, t, self, end: t * (end - self),
    node=_name_by_number("Lerp", 2),
    promotion="default -bool -integer",
    accepts_scalars=("weight",),
    mixed=_mixed_ends,
    edges={"LerpBackward0": ("self", "end")},
)
def lerp(self, end, weight):
    """Interpolate linearly, ``self + weight * (end - self)``; the result is exactly `end` where the weight is 1.

    Examples
    --------
    >>> gc.lerp(gc.tensor([0.0, 10.0]), gc.tensor([10.0, 20.0]), 0.25)
    tensor([ 2.5000, 12.5000])
    """


# -- quotients -----------------------------------------------------------------------------------------------


def _quotient(F, t, other, rounding_mode):
    return t / other if rounding_mode is None else F.zeros_like(t)


def _quotient_by_other(F, t, self, other, rounding_mode):
    return -t * ((self / other) / other) if rounding_mode is None else F.zeros_like(t)


@elementwise(
    self=lambda F, t, other, rounding_mode: _quotient(F, t, other, rounding_mode),
    other=lambda F, t, self, other, rounding_mode: _quotient_by_other(F, t, self, other, rounding_mode),
    kernel="div_rounded",
    node=lambda rounding_mode: f"DivBackward{0 if rounding_mode is None else 2}",
    promotion="divide",
    aliases=("divide",),
    accepts_scalars=("self", "other"),
    saved=lambda node: {"rounding_mode": None} if node == "DivBackward0" else {},
)
def div(K, self, other, *, rounding_mode: str | None = None):
    """Compute ``self / other``; with `rounding_mode` rounded towards zero (``"trunc"``) or down (``"floor"``).

    Examples
    --------
    >>> gc.div(gc.tensor([7, -7]), 2)
    tensor([ 3.5000, -3.5000])
    >>> gc.div(gc.tensor([7, -7]), 2, rounding_mode="floor")
    tensor([ 3, -4])
    """
    if rounding_mode is None:
        return K.div(self, other)
    if rounding_mode == "floor":
        return K.floor_divide(self, other)
    if rounding_mode == "trunc":
        return K.trunc_divide(self, other)
    raise RuntimeError(f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{rounding_mode}'")


@composite(inplace=True, samples=lambda: [case(floats(3, 4), floats(4, low=1)), case(floats(2), 3)])
def true_divide(F, self, other):
    """Compute ``self / other`` in floating point.

    Examples
    --------
    >>> gc.true_divide(gc.tensor([7, -7]), 2)
    tensor([ 3.5000, -3.5000])
    """
    return F.div(self, other)


def _rounded_quotient(F, self, other, mode):
    """Return the quotient rounded by `mode`; on tensors, with its history."""
    if hasattr(F, "xp"):
        return F.floor_divide(self, other) if mode == "floor" else F.trunc_divide(self, other)
    return F.div(self, other, rounding_mode=mode)


@composite(function=False, method=False, autocast="float32:cuda")
def rdiv(F, self, other):
    """Compute ``other / self`` with the rounding of PyTorch for a number `other`."""
    return F.reciprocal(self) * other


@elementwise(
    promotion="default -bool -complex", accepts_scalars=("self", "other"), constant="rounding down makes steps"
)
def floor_divide(self, other):
    """Compute ``self / other`` rounded down; no derivative.

    Examples
    --------
    >>> gc.floor_divide(gc.tensor([7.0, -7.0]), 2)
    tensor([ 3., -4.])
    """


@elementwise(
    self=same,
    other=lambda F, t, self, other: -t * _rounded_quotient(F, self, other, "floor"),
    node=_name_by_number("Remainder", 1),
    domain=(0.6, 2),
    promotion="default -bool -complex",
    accepts_scalars=("self", "other"),
)
def remainder(self, other):
    """Compute Python's modulus, ``self - other * floor(self / other)``, which has the sign of `other`.

    Examples
    --------
    >>> gc.remainder(gc.tensor([7.0, -7.0]), 3)
    tensor([1., 2.])
    """


@elementwise(
    self=same,
    other=lambda F, t, self, other: -t * _rounded_quotient(F, self, other, "trunc"),
    node=_name_by_number("Fmod", 1),
    domain=(0.6, 2),
    promotion="default -bool -complex",
)
def fmod(self, other):
    """Compute C's modulus, ``self - other * trunc(self / other)``, which has the sign of `self`.

    Examples
    --------
    >>> gc.fmod(gc.tensor([7.0, -7.0]), 3)
    tensor([ 1., -1.])
    """


@elementwise(
    promotion="default -complex",
    function=False,
    method=False,
    accepts_scalars=("self", "other"),
    constant="rounding down makes steps",
)
def trunc_divide(self, other):
    """Compute ``self / other`` rounded towards zero; no derivative."""


@elementwise(lambda F, t, result: -t * (result * result), promotion="float", autocast="float32:cuda")
def reciprocal(self):
    """Compute ``1 / self``.

    Examples
    --------
    >>> gc.reciprocal(gc.tensor([2.0, -4.0]))
    tensor([ 0.5000, -0.2500])
    """


# -- integers ------------------------------------------------------------------------------------------------


@elementwise(promotion="default -bool -float -complex", accepts_scalars=("self", "other"), inplace="function")
def gcd(self, other):
    """Return the greatest common divisor.

    Examples
    --------
    >>> gc.gcd(gc.tensor([6, 4, 9]), gc.tensor([4, 10, 6]))
    tensor([2, 2, 3])
    """


@elementwise(promotion="default -bool -float -complex", accepts_scalars=("self", "other"), inplace="function")
def lcm(self, other):
    """Return the least common multiple.

    Examples
    --------
    >>> gc.lcm(gc.tensor([6, 4, 9]), gc.tensor([4, 10, 6]))
    tensor([12, 20, 18])
    """
