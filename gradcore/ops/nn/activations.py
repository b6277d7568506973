"""Activation functions.

PyTorch has them in ``nn.functional``, many with an argument ``inplace``, and some at the top level too. Both call the
operations declared here.
"""

from __future__ import annotations

import math

from gradcore.ops.declare.annotations import Scalar
from gradcore.ops.declare.checks import check_implemented
from gradcore.ops.declare.parameters import Parameter
from gradcore.ops.declare.promotion import same_dtypes
from gradcore.ops.declare.samples import case, floats
from gradcore.ops.declare.shapes import wrap_dim
from gradcore.ops.declare.table import Op, composite, elementwise, general

_REAL = "default -bool -integer -complex"
_HALF_ROOT = math.sqrt(0.5)
_DENSITY = 1 / math.sqrt(2 * math.pi)
_GELU_SCALE, _GELU_CUBE = math.sqrt(2 / math.pi), 0.044715
_SELU = {"alpha": 1.6732632423543772848170429916717, "scale": 1.0507009873554804934193349852946}


def _functional(op: Op, name: str = "", doc: str = "", *, writes: bool = False, **fixed) -> None:
    """Declare the function in ``nn.functional`` for an operation, with an argument `inplace`.

    `fixed` gives the values of the operation's last settings, which the function does not have; `doc` describes a
    function with another name; `writes` says whether PyTorch has the function ``name_`` too.
    """
    plain, writing = op.name, op.name + "_"
    values = tuple(fixed.values())

    def call(F, *args):
        return getattr(F, writing if args[-1] else plain)(*args[:-1], *values)

    free = [p for p in op.parameters if p.name not in fixed]
    call.__signature__ = [Parameter("F"), *free, Parameter("inplace", False, "bool")]  # type: ignore[attr-defined]
    call.__doc__ = doc or op.doc
    name = name or op.name
    required = [0.5 for p in free[1:] if p.default is p.empty]
    composite(
        name=f"functional_{name}",
        path=f"nn.functional.{name}",
        inplace="function" if writes else False,
        samples=lambda: [case(floats(3, 4), *required), case(floats(0, 2), *required)],
    )(call)


# -- piecewise linear functions ------------------------------------------------------------------------------


@elementwise(lambda F, t, result: F.where(result <= 0, 0, t), connected=("self",), promotion="default -bool -complex")
def relu(self):
    """Compute ``maximum(self, 0)``; the derivative at 0 is 0.

    Examples
    --------
    >>> gc.relu(gc.tensor([-1.0, 0.0, 2.0]))
    tensor([0., 0., 2.])
    """


@elementwise(
    lambda F, t, self, negative_slope: F.where(self > 0, t, t * negative_slope),
    connected=("self",),
    promotion=_REAL,
    function=False,
    method=False,
)
def leaky_relu(K, self, negative_slope: Scalar = 0.01):
    """Compute `self` where it is positive, and ``negative_slope * self`` elsewhere.

    Examples
    --------
    >>> gc.nn.functional.leaky_relu(gc.tensor([-1.0, 0.0, 2.0]), 0.1)
    tensor([-0.1000,  0.0000,  2.0000])
    """
    below = self * negative_slope
    return K.maximum(self, below) if 0 <= negative_slope <= 1 else K.where(self > 0, self, below)


@elementwise(
    self=lambda F, t, self, weight: F.where(self > 0, t, weight * t),
    weight=lambda F, t, self: F.where(self > 0, 0, t * self),
    connected=("self", "weight"),
    promotion=_REAL,
    node="PreluKernelBackward0",
    function=False,
    method=False,
    inplace=False,
    accepts_scalars=(),
    mixed=same_dtypes("prelu: Type promoting not supported. Got {self} and {weight}"),
)
def prelu_kernel(K, self, weight):
    """Compute `self` where it is positive, and ``weight * self`` elsewhere."""
    return K.where(self > 0, self, weight * self)


@composite(
    aliases=("nn.functional.prelu",),
    samples=lambda: [case(floats(2, 3, 4), floats(3)), case(floats(5), floats(1)), case(floats(), floats())],
    autocast="lower",
)
def prelu(F, self, weight):
    """Compute `self` where it is positive, and ``weight * self`` elsewhere.

    There is one weight, or one for each channel (dim 1).

    Examples
    --------
    >>> gc.prelu(gc.tensor([-1.0, 0.0, 2.0]), gc.tensor([0.25]))
    tensor([-0.2500,  0.0000,  2.0000])
    """
    if weight.ndim > 1:
        raise RuntimeError(f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.ndim}")
    if weight.numel() != 1:
        if not self.ndim:
            raise RuntimeError("prelu: Not allow zero-dim input tensor.")
        channels = self.shape[1] if self.ndim > 1 else 1
        if channels != weight.numel():
            raise RuntimeError(
                f"prelu: Mismatch of parameter numbers and input channel size. Found parameter numbers = "
                f"{weight.numel()} and channel size = {channels}."
            )
        weight = F.reshape(weight, (-1,) + (1,) * (self.ndim - 2))
    elif weight.ndim:
        weight = F.reshape(weight, (1,) * self.ndim)
    return F.prelu_kernel(self, weight)


@elementwise(
    lambda F, t, self, noise: F.where(self > 0, t, t * noise),
    connected=("self",),
    promotion=_REAL,
    constant={"noise": "drawn, with bounds that are numbers"},
    function=False,
    method=False,
)
def rrelu_with_noise(K, self, noise):
    """Compute `self` where it is positive, and ``noise * self`` elsewhere."""
    return K.where(self > 0, self, self * noise)


@composite(
    path="nn.functional.rrelu",
    aliases=(".rrelu",),
    inplace="function",
    random=True,
    samples=lambda: [case(floats(3, 4)), case(floats(3, 4), 0.1, 0.2, True)],
)
def rrelu(F, self, lower: Scalar = 1 / 8, upper: Scalar = 1 / 3, training: bool = False, inplace: bool = False):
    """Compute `leaky_relu` with random slopes from ``[lower, upper)`` in training, else with their mean.

    Examples
    --------
    >>> gc.nn.functional.rrelu(gc.tensor([-1.0, 2.0]), lower=0.1, upper=0.3)
    tensor([-0.2000,  2.0000])
    """
    if lower > upper:
        raise RuntimeError("Lower bound should be less than or equal to the upper bound")
    check_implemented("rrelu_with_noise_out_cpu", self, "bic")
    noise = F.drawn_like("uniform", self, lower, upper) if training else (lower + upper) / 2
    return F.rrelu_with_noise_(self, noise) if inplace else F.rrelu_with_noise(self, noise)


@elementwise(
    lambda F, t, self, min_val, max_val: F.where((self <= min_val) | (self >= max_val), 0, t),
    connected=("self",),
    promotion="default -bool -complex",
    function=False,
    method=False,
)
def hardtanh(K, self, min_val: Scalar = -1.0, max_val: Scalar = 1.0):
    """Clamp between `min_val` and `max_val`; the derivative at the bounds is 0.

    Examples
    --------
    >>> gc.nn.functional.hardtanh(gc.tensor([-3.0, 0.5, 2.0]))
    tensor([-1.0000,  0.5000,  1.0000])
    """
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return K.clamp(self, min_val, max_val)


@elementwise(
    lambda F, t, self: F.where((self > -3) & (self < 3), t / 6, 0),
    connected=("self",),
    promotion=_REAL,
    function=False,
    method=False,
)
def hardsigmoid(K, self):
    """Compute ``self / 6 + 1/2`` within 0 and 1.

    Examples
    --------
    >>> gc.nn.functional.hardsigmoid(gc.tensor([-4.0, 0.0, 1.5]))
    tensor([0.0000, 0.5000, 0.7500])
    """
    return K.clamp(self + 3, 0, 6) / 6


@elementwise(
    lambda F, t, self: F.where(self <= -3, 0, t * F.where(self < 3, self / 3 + 0.5, 1)),
    promotion=_REAL,
    function=False,
    method=False,
)
def hardswish(K, self):
    """Compute ``self * hardsigmoid(self)``.

    Examples
    --------
    >>> gc.nn.functional.hardswish(gc.tensor([-4.0, 0.0, 1.5]))
    tensor([-0.0000, 0.0000, 1.1250])
    """
    return self * K.clamp(self + 3, 0, 6) / 6


@elementwise(
    lambda F, t, self, threshold: F.where(self <= threshold, 0, t),
    connected=("self",),
    promotion="default -bool -complex",
    method=False,
    inplace="function",
    samples=lambda: [case(floats(3, 4), 0.1, 20.0), case(floats(), -0.5, 0)],
    saved={"value": None},
)
def threshold(K, self, threshold: Scalar, value: Scalar):
    """Keep the elements that are greater than `threshold`, and replace the others by `value`.

    Examples
    --------
    >>> gc.threshold(gc.tensor([-1.0, 0.5, 2.0]), 1.0, 0.0)
    tensor([0., 0., 2.])
    """
    return K.where(self <= threshold, value, self)


@elementwise(
    lambda F, t, self, lambd: F.where((self >= -lambd) & (self <= lambd), 0, t),
    connected=("self",),
    promotion=_REAL,
    inplace=False,
    aliases=("nn.functional.hardshrink",),
)
def hardshrink(K, self, lambd: Scalar = 0.5):
    """Keep the elements whose magnitude is greater than `lambd`, and replace the others by 0.

    Examples
    --------
    >>> gc.hardshrink(gc.tensor([-1.0, 0.25, 2.0]))
    tensor([-1.,  0.,  2.])
    """
    return K.where((self >= -lambd) & (self <= lambd), 0, self)


@elementwise(
    lambda F, t, self, lambd: F.where((self >= -lambd) & (self <= lambd), 0, t),
    connected=("self",),
    promotion=_REAL,
    path="nn.functional.softshrink",
)
def softshrink(K, self, lambd: Scalar = 0.5):
    """Move every element towards 0 by `lambd`, but not beyond 0.

    Examples
    --------
    >>> gc.nn.functional.softshrink(gc.tensor([-1.0, 0.25, 2.0]))
    tensor([-0.5000,  0.0000,  1.5000])
    """
    if lambd < 0:
        raise RuntimeError(f"lambda must be greater or equal to 0, but found to be {lambd:g}.")
    return self - K.clamp(self, -lambd, lambd)


# -- exponential functions -----------------------------------------------------------------------------------


def _times(x, factor):
    return x if factor == 1 else x * factor


def _negative(F, x):
    """Return `x` where it is negative, and 0 elsewhere; the derivative at 0 is 0."""
    return F.where(x < 0, x, 0)


@elementwise(promotion=_REAL, function=False, method=False)
def elu(K, self, alpha: Scalar = 1.0, scale: Scalar = 1.0, input_scale: Scalar = 1.0):
    """Compute ``scale * self`` where positive, ``scale * alpha * (exp(input_scale * self) - 1)`` elsewhere.

    Examples
    --------
    >>> gc.nn.functional.elu(gc.tensor([-1.0, 0.0, 2.0]))
    tensor([-0.6321,  0.0000,  2.0000])
    """
    below = K.expm1(_times(K.clamp_max(self, 0), input_scale))
    return _times(K.relu(self), scale) + _times(below, alpha * scale)


@elu.derivative("self")
def _(F, t, self, alpha, scale, input_scale):
    slope = _times(F.exp(_times(_negative(F, self), input_scale)), alpha * scale * input_scale)
    if alpha * input_scale != 1:  # the slopes of the two sides differ at 0
        slope = F.where(self <= 0, slope, scale)
    return t * slope


@elementwise(
    lambda F, t, self, alpha: t * F.exp(_negative(F, self) / alpha), promotion=_REAL, method=False, inplace="function"
)
def celu(K, self, alpha: Scalar = 1.0):
    """Compute `self` where it is positive, and ``alpha * (exp(self / alpha) - 1)`` elsewhere.

    Examples
    --------
    >>> gc.celu(gc.tensor([-1.0, 0.0, 2.0]))
    tensor([-0.6321,  0.0000,  2.0000])
    """
    if alpha == 0:
        raise ZeroDivisionError("ZeroDivisionError: alpha cannot be 0 for CELU")
    return K.relu(self) + K.expm1(K.clamp_max(self, 0) / alpha) * alpha


@composite(method=False, inplace="function", samples=lambda: [case(floats(3, 4)), case(floats())])
def selu(F, self):
    """Compute `elu` with a scale that preserves mean 0 and variance 1.

    Examples
    --------
    >>> gc.selu(gc.tensor([-1.0, 0.0, 2.0]))
    tensor([-1.1113,  0.0000,  2.1014])
    """
    return F.elu(self, _SELU["alpha"], _SELU["scale"], 1)


def _is_soft(beta, threshold):
    """Return whether both pieces of `softplus` agree to the last digits where they meet."""
    return beta == 1 and threshold >= 20


@elementwise(
    promotion=_REAL,
    path="nn.functional.softplus",
    samples=lambda: [
        case(floats(3, 4)),
        case(floats(3, 4), 2),
        case(floats(5, low=-2, high=4), 1.5, 3),
        case(floats(0, 2)),
    ],
    autocast="float32:cuda",
)
def softplus(K, self, beta: Scalar = 1, threshold: Scalar = 20):
    """Compute ``log(1 + exp(beta * self)) / beta``, and `self` where ``beta * self`` exceeds `threshold`.

    Examples
    --------
    >>> gc.nn.functional.softplus(gc.tensor([-1.0, 0.0, 2.0]))
    tensor([0.3133, 0.6931, 2.1269])
    """
    x = _times(self, beta)
    soft = K.log1p(K.exp(K.clamp_max(x, threshold)))
    return K.maximum(soft, self) if _is_soft(beta, threshold) else K.where(x > threshold, self, soft / beta)


@softplus.derivative("self")
def _(F, t, self, beta, threshold):
    if _is_soft(beta, threshold):
        return t * F.sigmoid(self)
    x = _times(self, beta)
    return F.where(x > threshold, t, t * F.sigmoid(x))


@elementwise(
    lambda F, t, self: t * F.sigmoid(-self),
    promotion=_REAL,
    path="nn.functional.logsigmoid",
    node="LogSigmoidBackward0",
)
def logsigmoid(K, self):
    """Compute ``log(sigmoid(self))``, without overflow.

    Examples
    --------
    >>> gc.nn.functional.logsigmoid(gc.tensor([-1.0, 0.0, 2.0]))
    tensor([-1.3133, -0.6931, -0.1269])
    """
    return K.clamp_max(self, 0) - K.log1p(K.exp(-abs(self)))


@elementwise(promotion="default -bool -integer", function=False, method=False)
def silu(K, self):
    """Compute ``self * sigmoid(self)``.

    Examples
    --------
    >>> gc.nn.functional.silu(gc.tensor([-1.0, 0.0, 2.0]))
    tensor([-0.2689,  0.0000,  1.7616])
    """
    return self / (1 + K.exp(-self))


@silu.derivative("self")
def _(F, t, self):
    gate = F.sigmoid(self)
    return t * (gate * (1 + self * (1 - gate)))


@elementwise(promotion=_REAL, function=False, method=False)
def mish(K, self):
    """Compute ``self * tanh(softplus(self))``.

    Examples
    --------
    >>> gc.nn.functional.mish(gc.tensor([-1.0, 0.0, 2.0]))
    tensor([-0.3034,  0.0000,  1.9440])
    """
    return self * K.tanh(K.softplus(self))


@mish.derivative("self")
def _(F, t, self):
    gate = F.tanh(F.softplus(self))
    return t * (gate + self * F.sigmoid(self) * (1 - gate * gate))


@elementwise(
    promotion=_REAL,
    path="nn.functional.gelu",
    samples=lambda: [
        case(floats(3, 4)),
        case(floats(3, 4), approximate="tanh"),
        case(floats()),
        case(floats(0, 2)),
    ],
)
def gelu(K, self, *, approximate: str = "none"):
    """Multiply by the standard normal distribution function; ``approximate="tanh"`` approximates it.

    Examples
    --------
    >>> gc.nn.functional.gelu(gc.tensor([-1.0, 0.0, 2.0]))
    tensor([-0.1587,  0.0000,  1.9545])
    """
    if approximate == "tanh":
        # Equal to ``0.5 * self * (1 + tanh(y))``, where the sum loses digits if its second number is close to -1.
        return self / (1 + K.exp(-2 * _gelu_inner(self)))
    if approximate != "none":
        raise RuntimeError("approximate argument must be either none or tanh.")
    return 0.5 * self * (1 + K.erf(self * _HALF_ROOT))


@elementwise(
    lambda F, t, self: t * (F.exp(-0.5 * self * self) * (_DENSITY * (2 - self * self))),
    promotion=_REAL,
    function=False,
    method=False,
    inplace=False,
)
def gelu_slope(K, self):
    """Return the derivative of `gelu`."""
    return 0.5 * (1 + K.erf(self * _HALF_ROOT)) + self * (K.exp(-0.5 * self * self) * _DENSITY)


def _tanh_gelu_curvature(F, x):
    """Return the second derivative of ``gelu(x, approximate="tanh")``, which is x times the sigmoid of 2 * y."""
    x = F.clamp(x, -30, 30)  # Beyond, it is zero in every dtype, and powers of x overflow.
    y, rise = _gelu_inner(x), 2 * _GELU_SCALE * (1 + 3 * _GELU_CUBE * x * x)
    slope = F.sigmoid(2 * y) * F.sigmoid(-2 * y)  # of the sigmoid; small factors first, against overflow
    climb = slope * rise
    return 2 * climb + x * (slope * ((12 * _GELU_SCALE * _GELU_CUBE) * x) - climb * rise * F.tanh(y))


@elementwise(
    lambda F, t, self: t * _tanh_gelu_curvature(F, self),
    promotion=_REAL,
    function=False,
    method=False,
    inplace=False,
)
def tanh_gelu_slope(K, self):
    """Return the derivative of ``gelu(self, approximate="tanh")``."""
    # One minus the sigmoid of 2 * y, or one plus the hyperbolic tangent of y, loses digits on one side of zero. Beyond
    # the bounds, the slope is one or zero in every dtype, and the exponential and powers of x could overflow.
    x = K.maximum(K.minimum(self, 9.5), -30)
    square = x * x
    power = K.exp(x * (1 + _GELU_CUBE * square) * (2 * _GELU_SCALE))
    rest = 1 / (1 + power)
    return power * rest * (1 + x * rest * (2 * _GELU_SCALE + (6 * _GELU_SCALE * _GELU_CUBE) * square))


def _gelu_inner(x):
    """Return y in ``gelu(x, approximate="tanh") = 0.5 * x * (1 + tanh(y))``."""
    return _GELU_SCALE * x * (1 + _GELU_CUBE * x * x)


@gelu.derivative("self")
def _(F, t, self, approximate):
    if approximate == "none":
        return t * F.gelu_slope(self)
    return t * F.tanh_gelu_slope(self)


# -- compositions of other activations -----------------------------------------------------------------------


@composite(path="nn.functional.softsign", samples=lambda: [case(floats(3, 4)), case(floats())])
def softsign(F, self):
    """Compute ``self / (1 + abs(self))``.

    Examples
    --------
    >>> gc.nn.functional.softsign(gc.tensor([-1.0, 0.0, 3.0]))
    tensor([-0.5000,  0.0000,  0.7500])
    """
    return self / (abs(self) + 1)


@composite(path="nn.functional.tanhshrink", samples=lambda: [case(floats(3, 4)), case(floats())])
def tanhshrink(F, self):
    """Compute ``self - tanh(self)``.

    Examples
    --------
    >>> gc.nn.functional.tanhshrink(gc.tensor([-1.0, 0.0, 2.0]))
    tensor([-0.2384,  0.0000,  1.0360])
    """
    return self - F.tanh(self)


@general(
    path="nn.functional.glu",
    samples=lambda: [case(floats(3, 4)), case(floats(4, 2, 3), 0), case(floats(2, 0, 4), 1)],
)
def glu(K, self, dim: int = -1):
    """Multiply the first half along `dim` by the sigmoid of the second half.

    Returns
    -------
    Tensor
        Half as large along `dim`.

    Examples
    --------
    >>> gc.nn.functional.glu(gc.tensor([1.0, 2.0, 0.0, 0.0]))
    tensor([0.5000, 1.0000])
    """
    check_implemented("glu_cpu", self, "c")
    first, gate = _halves(self, dim)
    return first * K.sigmoid(gate)


@glu.vjp("self")
def _(F, grad, self, dim):
    return F.glu_backward(grad, self, dim)


@composite(function=False, method=False)
def glu_backward(F, grad, self, dim: int):
    """Return the gradient of `glu`."""
    first, second = _halves(self, dim)
    gate = F.sigmoid(second)
    return F.cat([grad * gate, grad * first * (gate * (1 - gate))], dim)


@glu.jvp("self")
def _(F, t, self, dim):
    first, second = _halves(self, dim)
    t_first, t_second = _halves(t, dim)
    gate = F.sigmoid(second)
    return t_first * gate + first * (gate * (1 - gate)) * t_second


def _halves(x, dim):
    if not x.ndim:
        raise RuntimeError("glu does not support 0-dimensional tensors")
    dim = wrap_dim(dim, x.ndim)
    size = x.shape[dim]
    if size % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {dim} is size {size}")
    lead = (slice(None),) * dim
    return x[(*lead, slice(size // 2))], x[(*lead, slice(size // 2, None))]


# -- the functions of nn.functional --------------------------------------------------------------------------

_functional(relu, writes=True)
_functional(hardtanh, writes=True)
_functional(
    hardtanh,
    "relu6",
    "Compute ``minimum(maximum(self, 0), 6)``; the derivative at 0 and 6 is 0.",
    min_val=0.0,
    max_val=6.0,
)
_functional(leaky_relu, writes=True)
_functional(elu, writes=True, scale=1.0, input_scale=1.0)
_functional(selu, writes=True)
_functional(celu, writes=True)
_functional(threshold, writes=True)
for _op in (silu, mish, hardsigmoid, hardswish):
    _functional(_op)
