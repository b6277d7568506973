"""Trigonometric and hyperbolic functions, and their inverses."""

from __future__ import annotations

import math

from gradcore.ops.table import elementwise

# -- angles --------------------------------------------------------------------------------------------------


@elementwise(lambda F, t, self: t * F.cos(self), promotion="float")
def sin(self):
    """Sine of every element."""


@elementwise(lambda F, t, self: -t * F.sin(self), promotion="float")
def cos(self):
    """Cosine of every element."""


@elementwise(lambda F, t, result: t * (1 + result * result), promotion="float", domain=(-1.3, 1.3))
def tan(self):
    """Tangent of every element."""


@elementwise(
    lambda F, t, self: t * F.rsqrt(1 - self * self),
    promotion="float",
    domain=(-0.9, 0.9),
    aliases=("arcsin",),
)
def asin(self):
    """Inverse sine, between -pi/2 and pi/2."""


@elementwise(
    lambda F, t, self: -t * F.rsqrt(1 - self * self),
    promotion="float",
    domain=(-0.9, 0.9),
    aliases=("arccos",),
)
def acos(self):
    """Inverse cosine, between 0 and pi."""


@elementwise(lambda F, t, self: t / (self * self + 1), promotion="float", aliases=("arctan",))
def atan(self):
    """Inverse tangent, between -pi/2 and pi/2."""


def _square_of_radius(self, other):
    """The sum of the squares; 1 at the origin, where the angle is taken for constant."""
    square = self * self + other * other
    return square + (square == 0)


@elementwise(
    self=lambda F, t, self, other: t * other / _square_of_radius(self, other),
    other=lambda F, t, self, other: -t * self / _square_of_radius(self, other),
    promotion="float -complex",
    domain=(0.2, 2),
    aliases=("arctan2",),
    numbers=(),
)
def atan2(self, other):
    """The angle of the points ``(x=other, y=self)``, between -pi and pi."""


@elementwise(promotion="float", aliases=("special.sinc",))
def sinc(F, self):
    """``sin(pi * self) / (pi * self)``, and 1 at zero."""
    x = math.pi * self
    return F.where(self == 0, 1, F.sin(x) / x)


@sinc.derivative("self")
def _(F, t, self):
    near = abs(self) < 1e-3  # the first terms of the series: no difference of nearly equal numbers
    x = math.pi * self
    far = F.where(near, 1, self)
    y = math.pi * far
    return t * F.where(near, (math.pi / 3) * x * (x * x / 10 - 1), (F.cos(y) * y - F.sin(y)) / (y * far))


@elementwise(lambda F, t: t * (math.pi / 180), promotion="float -complex", node="Deg2RadBackward0")
def deg2rad(self):
    """Degrees to radians."""


@elementwise(lambda F, t: t * (180 / math.pi), promotion="float -complex", node="Rad2DegBackward0")
def rad2deg(self):
    """Radians to degrees."""


@elementwise(
    self=lambda F, t, self, result: t * (self / F.where(result == 0, 1, result)),
    other=lambda F, t, other, result: t * (other / F.where(result == 0, 1, result)),
    promotion="default -bool -integer -complex",
    domain=(0.2, 2),
    numbers=(),
)
def hypot(self, other):
    """``sqrt(self**2 + other**2)``, without overflow."""


# -- hyperbolic functions ------------------------------------------------------------------------------------


@elementwise(lambda F, t, self: t * F.cosh(self), promotion="float")
def sinh(self):
    """Hyperbolic sine of every element."""


@elementwise(lambda F, t, self: t * F.sinh(self), promotion="float")
def cosh(self):
    """Hyperbolic cosine of every element."""


@elementwise(lambda F, t, result: F.tanh_backward(t, result), promotion="float", aliases=("nn.functional.tanh",))
def tanh(self):
    """Hyperbolic tangent of every element."""


@elementwise(
    grad_output=lambda F, t, output: F.tanh_backward(t, output),
    output=lambda F, t, grad_output, output: t * (grad_output * output * -2),
    node="TanhBackwardBackward0",
    function=False,
    method=False,
)
def tanh_backward(F, grad_output, output):
    """The gradient of `tanh`, given its result: one node of the graph where backward is recorded."""
    return grad_output * (1 - output * output)


@elementwise(lambda F, t, self: t * F.rsqrt(self * self + 1), promotion="float", aliases=("arcsinh",))
def asinh(self):
    """Inverse hyperbolic sine."""


@elementwise(promotion="float", domain=(1.2, 3), aliases=("arccosh",))
def acosh(self):
    """Inverse hyperbolic cosine."""


@acosh.derivative("self")
def _(F, t, self):
    if F.is_complex(self):  # the branch cut is that of the two roots
        return t * (F.rsqrt(self + 1) * F.rsqrt(self - 1))
    return t * F.rsqrt(self * self - 1)


@elementwise(lambda F, t, self: t / (1 - self * self), promotion="float", domain=(-0.9, 0.9), aliases=("arctanh",))
def atanh(self):
    """Inverse hyperbolic tangent."""
