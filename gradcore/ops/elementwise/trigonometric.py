"""Trigonometric and hyperbolic functions, and their inverses."""

from __future__ import annotations

import math

from gradcore.ops.declare.table import elementwise

# -- angles --------------------------------------------------------------------------------------------------


@elementwise(lambda F, t, self: t * F.cos(self), promotion="float", slow=True)
def sin(self):
    """Return the sine of every element.

    Examples
    --------
    >>> gc.sin(gc.tensor([0.0, 1.5708]))
    tensor([0., 1.])
    """


@elementwise(lambda F, t, self: -t * F.sin(self), promotion="float", slow=True)
def cos(self):
    """Return the cosine of every element.

    Examples
    --------
    >>> gc.cos(gc.tensor([0.0, 3.1416]))
    tensor([ 1., -1.])
    """


@elementwise(
    lambda F, t, result: t * (1 + result * result),
    promotion="float",
    domain=(-1.3, 1.3),
    autocast="float32:cuda",
    slow=True,
)
def tan(self):
    """Return the tangent of every element.

    Examples
    --------
    >>> gc.tan(gc.tensor([0.0, 0.7854]))
    tensor([0.0000, 1.0000])
    """


@elementwise(
    lambda F, t, self: t * F.rsqrt(1 - self * self),
    promotion="float",
    domain=(-0.9, 0.9),
    aliases=("arcsin",),
    autocast="float32:cuda",
    slow=True,
)
def asin(self):
    """Return the inverse sine, between -pi/2 and pi/2.

    Examples
    --------
    >>> gc.asin(gc.tensor([0.0, 1.0]))
    tensor([0.0000, 1.5708])
    """


@elementwise(
    lambda F, t, self: -t * F.rsqrt(1 - self * self),
    promotion="float",
    domain=(-0.9, 0.9),
    aliases=("arccos",),
    autocast="float32:cuda",
    slow=True,
)
def acos(self):
    """Return the inverse cosine, between 0 and pi.

    Examples
    --------
    >>> gc.acos(gc.tensor([1.0, 0.0]))
    tensor([0.0000, 1.5708])
    """


@elementwise(lambda F, t, self: t / (self * self + 1), promotion="float", aliases=("arctan",), slow=True)
def atan(self):
    """Return the inverse tangent, between -pi/2 and pi/2.

    Examples
    --------
    >>> gc.atan(gc.tensor([0.0, 1.0]))
    tensor([0.0000, 0.7854])
    """


def _square_of_radius(self, other):
    """Return the sum of the squares, but 1 at the origin, where the derivatives of the angle count as zero."""
    square = self * self + other * other
    return square + (square == 0)


@elementwise(
    self=lambda F, t, self, other: t * other / _square_of_radius(self, other),
    other=lambda F, t, self, other: -t * self / _square_of_radius(self, other),
    promotion="float -complex",
    domain=(0.2, 2),
    aliases=("arctan2",),
    accepts_scalars=("self", "other"),
    autocast="widest:cuda",
)
def atan2(self, other):
    """Return the angle of the points ``(x=other, y=self)``, between -pi and pi.

    Examples
    --------
    >>> gc.atan2(gc.tensor([1.0, -1.0]), gc.tensor([1.0, -1.0]))
    tensor([ 0.7854, -2.3562])
    """


@elementwise(promotion="float", aliases=("special.sinc",))
def sinc(K, self):
    """Compute ``sin(pi * self) / (pi * self)``, and 1 at zero.

    Examples
    --------
    >>> gc.sinc(gc.tensor([0.0, 0.5, 1.5]))
    tensor([ 1.0000,  0.6366, -0.2122])
    """
    x = math.pi * self
    return K.where(self == 0, 1, K.sin(x) / x)


@sinc.derivative("self")
def _(F, t, self):
    near = abs(self) < 1e-3  # the first terms of the series: no difference of nearly equal numbers
    x = math.pi * self
    far = F.where(near, 1, self)
    y = math.pi * far
    return t * F.where(near, (math.pi / 3) * x * (x * x / 10 - 1), (F.cos(y) * y - F.sin(y)) / (y * far))


@elementwise(lambda F, t: t * (math.pi / 180), promotion="float -complex", node="Deg2RadBackward0")
def deg2rad(self):
    """Convert degrees to radians.

    Examples
    --------
    >>> gc.deg2rad(gc.tensor([90.0, 180.0]))
    tensor([1.5708, 3.1416])
    """


@elementwise(lambda F, t: t * (180 / math.pi), promotion="float -complex", node="Rad2DegBackward0")
def rad2deg(self):
    """Convert radians to degrees.

    Examples
    --------
    >>> gc.rad2deg(gc.tensor([3.1416, 0.5]))
    tensor([180.0004,  28.6479])
    """


@elementwise(
    self=lambda F, t, self, result: t * (self / F.where(result == 0, 1, result)),
    other=lambda F, t, other, result: t * (other / F.where(result == 0, 1, result)),
    promotion="default -bool -integer -complex",
    domain=(0.2, 2),
    accepts_scalars=("self", "other"),
)
def hypot(self, other):
    """Compute ``sqrt(self**2 + other**2)``, without overflow.

    Examples
    --------
    >>> gc.hypot(gc.tensor([3.0, 5.0]), gc.tensor([4.0, 12.0]))
    tensor([ 5., 13.])
    """


# -- hyperbolic functions ------------------------------------------------------------------------------------


@elementwise(lambda F, t, self: t * F.cosh(self), promotion="float", autocast="float32:cuda", slow=True)
def sinh(self):
    """Return the hyperbolic sine of every element.

    Examples
    --------
    >>> gc.sinh(gc.tensor([0.0, 1.0]))
    tensor([0.0000, 1.1752])
    """


@elementwise(lambda F, t, self: t * F.sinh(self), promotion="float", autocast="float32:cuda", slow=True)
def cosh(self):
    """Return the hyperbolic cosine of every element.

    Examples
    --------
    >>> gc.cosh(gc.tensor([0.0, 1.0]))
    tensor([1.0000, 1.5431])
    """


@elementwise(
    lambda F, t, result: F.tanh_backward(t, result), promotion="float", aliases=("nn.functional.tanh",), slow=True
)
def tanh(self):
    """Return the hyperbolic tangent of every element.

    Examples
    --------
    >>> gc.tanh(gc.tensor([0.0, 1.0]))
    tensor([0.0000, 0.7616])
    """


@elementwise(
    grad_output=lambda F, t, output: F.tanh_backward(t, output),
    output=lambda F, t, grad_output, output: t * (grad_output * output * -2),
    node="TanhBackwardBackward0",
    function=False,
    method=False,
)
def tanh_backward(K, grad_output, output):
    """Return the gradient of `tanh`, given its result: one node of the graph where backward is recorded."""
    return grad_output * (1 - output * output)


@elementwise(lambda F, t, self: t * F.rsqrt(self * self + 1), promotion="float", aliases=("arcsinh",), slow=True)
def asinh(self):
    """Return the inverse hyperbolic sine.

    Examples
    --------
    >>> gc.asinh(gc.tensor([0.0, 1.0]))
    tensor([0.0000, 0.8814])
    """


@elementwise(promotion="float", domain=(1.2, 3), aliases=("arccosh",), slow=True)
def acosh(self):
    """Return the inverse hyperbolic cosine.

    Examples
    --------
    >>> gc.acosh(gc.tensor([1.0, 2.0]))
    tensor([0.0000, 1.3170])
    """


@acosh.derivative("self")
def _(F, t, self):
    if F.is_complex(self):  # the branch cut is that of the two roots
        return t * (F.rsqrt(self + 1) * F.rsqrt(self - 1))
    return t * F.rsqrt(self * self - 1)


@elementwise(
    lambda F, t, self: t / (1 - self * self), promotion="float", domain=(-0.9, 0.9), aliases=("arctanh",), slow=True
)
def atanh(self):
    """Return the inverse hyperbolic tangent.

    Examples
    --------
    >>> gc.atanh(gc.tensor([0.0, 0.5]))
    tensor([0.0000, 0.5493])
    """
