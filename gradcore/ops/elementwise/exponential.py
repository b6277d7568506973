"""Exponentials, logarithms, powers and roots."""

from __future__ import annotations

import math

from gradcore.core import dtypes
from gradcore.ops.declare.annotations import Number
from gradcore.ops.declare.promotion import is_number
from gradcore.ops.declare.samples import Case, case, complexes, floats, ints
from gradcore.ops.declare.table import composite, elementwise, general, times

# -- exponentials and logarithms -----------------------------------------------------------------------------


@elementwise(times("result"), promotion="float", autocast="float32:cuda", slow=True)
def exp(self):
    """Return the exponential of every element.

    Examples
    --------
    >>> gc.exp(gc.tensor([0.0, 1.0]))
    tensor([1.0000, 2.7183])
    """


@elementwise(lambda F, t, result: t * result * math.log(2), promotion="float", aliases=("special.exp2",), slow=True)
def exp2(self):
    """Compute two to the power of every element.

    Examples
    --------
    >>> gc.exp2(gc.tensor([0.0, 1.0, 3.0]))
    tensor([1., 2., 8.])
    """


@elementwise(
    lambda F, t, result: t * (result + 1),
    promotion="float",
    aliases=("special.expm1",),
    autocast="float32:cuda",
    slow=True,
)
def expm1(self):
    """Compute ``exp(self) - 1``, accurate near zero.

    Examples
    --------
    >>> gc.expm1(gc.tensor([0.0, 1e-6]))
    tensor([0.0000e+00, 1.0000e-06])
    """


@elementwise(lambda F, t, self: t / self, promotion="float", domain=(0.1, 3), autocast="float32:cuda", slow=True)
def log(self):
    """Return the natural logarithm.

    Examples
    --------
    >>> gc.log(gc.tensor([1.0, 10.0]))
    tensor([0.0000, 2.3026])
    """


@elementwise(
    lambda F, t, self: t / (self * math.log(2)), promotion="float", domain=(0.1, 3), autocast="float32:cuda", slow=True
)
def log2(self):
    """Return the logarithm to base 2.

    Examples
    --------
    >>> gc.log2(gc.tensor([1.0, 8.0]))
    tensor([0., 3.])
    """


@elementwise(
    lambda F, t, self: t / (self * math.log(10)), promotion="float", domain=(0.1, 3), autocast="float32:cuda", slow=True
)
def log10(self):
    """Return the logarithm to base 10.

    Examples
    --------
    >>> gc.log10(gc.tensor([0.5, 2.0]))
    tensor([-0.3010,  0.3010])
    """


@elementwise(
    lambda F, t, self: t / (self + 1),
    promotion="float",
    domain=(-0.9, 3),
    aliases=("special.log1p",),
    autocast="float32:cuda",
    slow=True,
)
def log1p(self):
    """Compute ``log(1 + self)``, accurate near zero.

    Examples
    --------
    >>> gc.log1p(gc.tensor([0.0, 1e-6]))
    tensor([0.0000e+00, 1.0000e-06])
    """


@elementwise(
    self=lambda F, t, self, other: t * F.sigmoid(self - other),
    other=lambda F, t, self, other: t * F.sigmoid(other - self),
    promotion="default -bool -integer",
    accepts_scalars=("self", "other"),
)
def logaddexp(self, other):
    """Compute ``log(exp(self) + exp(other))``, without overflow.

    Examples
    --------
    >>> gc.logaddexp(gc.tensor([0.0, 100.0]), gc.tensor([0.0, 100.0]))
    tensor([  0.6931, 100.6931])
    """


@elementwise(
    self=lambda F, t, self, other: t * F.sigmoid((self - other) * math.log(2)),
    other=lambda F, t, self, other: t * F.sigmoid((other - self) * math.log(2)),
    promotion="default -bool -integer -complex",
    accepts_scalars=("self", "other"),
)
def logaddexp2(self, other):
    """Compute ``log2(2**self + 2**other)``, without overflow.

    Examples
    --------
    >>> gc.logaddexp2(gc.tensor([0.0, 100.0]), gc.tensor([0.0, 100.0]))
    tensor([  1., 101.])
    """


@elementwise(
    lambda F, t, result: t * ((1 - result) * result),
    promotion="float",
    aliases=("special.expit", "nn.functional.sigmoid"),
)
def sigmoid(self):
    """Compute ``1 / (1 + exp(-self))``.

    Examples
    --------
    >>> gc.sigmoid(gc.tensor([-1.0, 0.0, 2.0]))
    tensor([0.2689, 0.5000, 0.8808])
    """


@elementwise(promotion="float -complex", domain=(0.1, 0.9), aliases=("special.logit",), inplace="function")
def logit(K, self, eps: float | None = None):
    """Compute ``log(self / (1 - self))``, with `self` clamped to ``[eps, 1 - eps]`` if `eps` is given.

    Examples
    --------
    >>> gc.logit(gc.tensor([0.25, 0.5, 0.75]))
    tensor([-1.0986,  0.0000,  1.0986])
    """
    if eps is not None:
        self = K.minimum(K.maximum(self, eps), 1 - eps)
    return K.log(self / (1 - self))


@logit.derivative("self")
def _(F, t, self, eps):
    low, high, outside = (0.0, 1.0, math.nan) if eps is None else (eps, 1 - eps, 0.0)
    return F.where((self < low) | (self > high), outside, t / (self * (1 - self)))


# -- powers and roots ----------------------------------------------------------------------------------------


def _powers() -> list[Case]:
    base = floats(3, 4, low=0.2)
    numbers = [case(base, n) for n in (0, 1, 2, 3, 5, 0.5, -1, -2.5)]
    tensors = [case(base, floats(4)), case(2.0, floats(3)), case(floats(3), ints(3)), case(base, floats())]
    return [
        *numbers,
        *tensors,
        case(complexes(3), complexes(3)),
        case(complexes(2), 3),
        case(complexes(2), 2.5),
    ]


def _power_rule(F, t, self, exponent):
    if exponent == 0:
        return F.zeros_like(t)
    if exponent == 2 and hasattr(F, "xp"):  # on arrays; on tensors the power keeps its history
        return t * (2 * self)
    return t * (exponent * F.pow(self, exponent - 1))


@composite(inplace=True, samples=_powers, autocast="float32:cuda")
def pow(F, self, exponent):
    """Compute ``self ** exponent``; one of the two may be a number.

    Examples
    --------
    >>> gc.pow(gc.tensor([1.0, 2.0, 3.0]), 2)
    tensor([1., 4., 9.])
    >>> gc.pow(2, gc.tensor([1.0, 2.0, 3.0]))
    tensor([2., 4., 8.])
    """
    return F.pow_number(self, exponent) if is_number(exponent) else F.pow_tensor(self, exponent)


@elementwise(
    lambda F, t, self, exponent: _power_rule(F, t, self, exponent),
    node="PowBackward0",
    promotion="power",
    domain=(0.1, 2),
    function=False,
    method=False,
    kernel="pow",
)
def pow_number(self, exponent: Number = 2):
    """Compute ``self ** exponent`` for a number."""


@elementwise(
    self=lambda F, t, self, exponent: F.where(exponent == 0, 0, t * (exponent * F.pow(self, exponent - 1))),
    exponent=lambda F, t, self, exponent, result: (
        t * (result * F.log(F.where(_zero_to_positive(F, self, exponent), 1, self)))
    ),
    node=lambda self: f"PowBackward{2 if getattr(self, '_constant', False) else 1}",
    domain=(0.1, 2),
    function=False,
    method=False,
    kernel="pow",
    accepts_scalars=("self", "exponent"),
    edges={"PowBackward2": ("exponent",)},
)
def pow_tensor(self, exponent):
    """Compute ``self ** exponent`` for a tensor `exponent`."""


def _zero_to_positive(F, self, exponent):
    """Return a mask of the elements where the base is 0 and the exponent is not negative.

    The derivative with respect to the exponent is zero there, although log(0) is infinite.
    """
    if F.is_complex(exponent):
        return F.logical_and(self == 0, (F.imag(exponent) == 0) & (F.real(exponent) >= 0))
    return F.logical_and(self == 0, exponent >= 0)


@composite(function=False, method=False, autocast="float32:cuda")
def rpow(F, self, other):
    """Compute ``other ** self``."""
    return F.pow_tensor(other, self)


@composite(inplace=True, samples=lambda: [case(floats(3, low=0.2), 1.5), case(2, floats(3))])
def float_power(F, self, exponent):
    """Compute ``self ** exponent`` in double precision.

    Examples
    --------
    >>> gc.float_power(gc.tensor([1, 2, 3]), 2)
    tensor([1., 4., 9.], dtype=torch.float64)
    """
    is_complex = any(isinstance(x, complex) if is_number(x) else x.is_complex() for x in (self, exponent))
    dtype = dtypes.complex128 if is_complex else dtypes.float64
    return F.pow(*(x if is_number(x) else F.to(x, dtype) for x in (self, exponent)))


@elementwise(
    lambda F, t, self: _power_rule(F, t, self, 2), promotion="numeric", node="PowBackward0", saved={"exponent": 2}
)
def square(self):
    """Return the square of every element.

    Examples
    --------
    >>> gc.square(gc.tensor([1.0, -3.0]))
    tensor([1., 9.])
    """


@elementwise(
    lambda F, t, result: t / (3 * result * result),
    promotion="float -complex",
    domain=(0.1, 3),
    function=False,
    method=False,
)
def cbrt(self):
    """Return the cube root of every element."""


@elementwise(lambda F, t, result: t / (2 * result), promotion="float", domain=(0.1, 3))
def sqrt(self):
    """Return the square root of every element.

    Examples
    --------
    >>> gc.sqrt(gc.tensor([4.0, 9.0]))
    tensor([2., 3.])
    """


@elementwise(
    lambda F, t, result: t * (-0.5 * F.pow(result, 3)), promotion="float", domain=(0.1, 3), autocast="float32:cuda"
)
def rsqrt(K, self):
    """Compute ``1 / sqrt(self)``.

    Examples
    --------
    >>> gc.rsqrt(gc.tensor([4.0, 16.0]))
    tensor([0.5000, 0.2500])
    """
    return K.reciprocal(K.sqrt(self))


@elementwise(
    self=lambda F, t, other: t * F.exp2(other),
    other=lambda F, t, result: t * (result * math.log(2)),
    promotion="float",
    accepts_scalars=("self", "other"),
    inplace="function",
)
def ldexp(self, other):
    """Compute ``self * 2**other``.

    Examples
    --------
    >>> gc.ldexp(gc.tensor([1.0, 3.0]), gc.tensor([3, 1]))
    tensor([8., 6.])
    """


@general(
    lambda F, grad, exponent: F.ldexp(grad, -exponent),
    samples=lambda: [case(floats(3, 4)), case(floats()), case(floats(0, 2))],
    differentiable=(0,),
    fields="mantissa exponent",
)
def frexp(self):
    """Return the mantissa (between 1/2 and 1 in magnitude) and the int32 exponent of ``mantissa * 2**exponent``.

    Examples
    --------
    >>> gc.frexp(gc.tensor([8.0, 3.0]))
    torch.return_types.frexp(
    mantissa=tensor([0.5000, 0.7500]),
    exponent=tensor([4, 2], dtype=torch.int32))
    """
