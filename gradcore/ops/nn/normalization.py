"""Normalization over the last dims, and functions shared by all kinds of normalization.

The mean and the variance are further outputs with derivatives. So formulas may read them, and are correct for
derivatives of any order. With ``c = x - mean`` and ``r = 1 / sqrt(var + eps)`` the normalized values are ``c * r``.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from gradcore.core import dtypes
from gradcore.core.typing import AnyTensor
from gradcore.ops.declare.annotations import Scalar
from gradcore.ops.declare.checks import check_implemented
from gradcore.ops.declare.samples import case, floats
from gradcore.ops.declare.table import composite, general

Needs = tuple[bool, ...]


def with_zeros(F: Any, grads: Any, self: Any) -> Any:
    """Return the gradients of result, mean and variance, with zeros for that of the result if it is None."""
    return (F.zeros_like(self), *grads[1:]) if grads[0] is None else grads


def plus(F: Any, x: Any, grad: Any) -> Any:
    """Return `x` plus the gradient of a statistic, or `x` if there is none."""
    return x if grad is None else x + F.reshape(grad, x.shape)


def check_parameters(input: Any, *parameters: Any) -> None:
    """Raise if a weight, bias or statistic has another dtype than the input.

    All of them may be float32 if the input has half precision.

    Raises
    ------
    RuntimeError
        If the dtypes do not fit.
    """
    parameter_dtypes = [t.dtype for t in parameters if t is not None]
    expected = input.dtype
    if parameter_dtypes.count(expected) == len(parameter_dtypes):
        return
    if expected.is_reduced and parameter_dtypes[0] is not expected:
        expected = dtypes.float32
        if any(dtype is not expected for dtype in parameter_dtypes):
            raise RuntimeError("mixed dtype (CPU): expect parameter to have scalar type of Float")
        return
    unexpected = next(dtype for dtype in parameter_dtypes if dtype is not expected)
    raise RuntimeError(f"expected scalar type {expected.scalar_name} but found {unexpected.scalar_name}")


# -- statistics over the last dims, a weight for each of their elements ---------------------------------------


@general(
    outputs=("result", "mean", "var"),
    wide=("mean", "var"),
    seen_outputs=(0,),
    node="NativeLayerNormBackward0",
    joint=("self", "weight", "bias"),
    function=False,
    method=False,
    materialize=False,
    autocast="float32:cuda",
    saved={"input": "self", "result1": "mean"},
    half_on_cuda="normalization",
)
def native_layer_norm(self, weight=None, bias=None, ndims: int = 1, eps: float = 1e-5):
    """Normalize over the last `ndims` dims.

    The means and variances are returned too.
    """


@native_layer_norm.vjp("self", "weight", "bias")
def _(F, grads, self, weight, mean, var, ndims, eps, needs):
    return F.layer_norm_backward(*with_zeros(F, grads, self), self, weight, mean, var, eps, needs, ndims)


@composite(function=False, method=False)
def layer_norm_backward(F, grad, grad_mean, grad_var, self, weight, mean, var, eps: float, needs: Needs, ndims: int):
    """Return the gradients of `native_layer_norm`."""
    lead, last = self.shape[: self.ndim - ndims], self.shape[self.ndim - ndims :]
    rows, width = prod(lead), prod(last)
    grad, column = F.reshape(grad, (rows, width)), (rows, 1)
    c = F.reshape(self, (rows, width)) - F.reshape(mean, column)
    r = F.rsqrt(F.reshape(var, (rows,)) + eps)
    product = grad * c
    to_self = to_weight = to_bias = None
    if needs[1]:
        to_weight = F.reshape(F.matmul(r, product), last)
    if needs[2]:
        to_bias = F.reshape(F.sum(grad, 0), last)
    if needs[0]:
        count = max(width, 1)
        if weight is None:
            totals, products = F.sum(grad, 1), F.sum(product, 1)
        else:
            weight = F.reshape(weight, (width,))
            totals, products = F.matmul(grad, weight), F.matmul(product, weight)
            grad = grad * weight
        of_mean = plus(F, totals * -r, grad_mean)
        of_var = plus(F, products * r * r * (r / -2), grad_var)
        slope, shift = F.reshape(of_var * (2 / count), column), F.reshape(of_mean / count, column)
        to_self = grad * F.reshape(r, column) + (c * slope + shift)
        to_self = F.reshape(to_self, self.shape)
    return to_self, to_weight, to_bias


def input_tangents(
    F: Any, t: AnyTensor, self: AnyTensor, mean: AnyTensor, var: AnyTensor, dims: Any, eps: float
) -> tuple[AnyTensor, AnyTensor, AnyTensor]:
    """Return the tangents of normalized values, mean and variance, from the tangent of the input."""
    c = self - mean
    t_mean = F.mean(t, dims, True)
    t_var = 2 * F.mean(c * t, dims, True)
    r = F.rsqrt(var + eps)
    return (t - t_mean) * r - c * (t_var * r * r * (r / 2)), t_mean, t_var


@native_layer_norm.jvp("self")
def _(F, t, self, weight, mean, var, ndims, eps):
    t, t_mean, t_var = input_tangents(F, t, self, mean, var, tuple(range(-ndims, 0)), eps)
    return t if weight is None else t * weight, t_mean, t_var


@native_layer_norm.jvp("weight")
def _(F, t, self, mean, var, eps):
    return (self - mean) * F.rsqrt(var + eps) * t, None, None


@native_layer_norm.jvp("bias")
def _(F, t):
    return t, None, None


def _checked_shape(input: Any, normalized_shape: Any, comma: str = ", ") -> tuple[int, ...]:
    if normalized_shape.__class__ is tuple:
        shape = normalized_shape
    else:
        shape = tuple(normalized_shape) if isinstance(normalized_shape, Sequence) else (int(normalized_shape),)
    if not shape:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got "
            "normalized_shape = []"
        )
    if tuple(input.shape)[-len(shape) :] != shape:
        sizes = ", ".join(map(str, shape))
        raise RuntimeError(
            f"Given normalized_shape=[{sizes}], expected input with shape [*{comma}{sizes}], but got input of "
            f"size{list(input.shape)}"
        )
    return shape


def _check_like(name: str, tensor: Any, shape: tuple[int, ...]) -> None:
    if tensor is not None and tuple(tensor.shape) != shape:
        raise RuntimeError(
            f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape {list(tensor.shape)} "
            f"and normalized_shape = {list(shape)}"
        )


@composite(
    path="nn.functional.layer_norm",
    aliases=(".layer_norm",),
    samples=lambda: [
        case(floats(3, 4, 5), (5,), floats(5), floats(5)),
        case(floats(2, 3, 4), (3, 4), floats(3, 4), None, eps=0.1),
        case(floats(2, 5), [5]),
        case(floats(6), (6,), None, floats(6)),
        case(floats(0, 5), (5,), floats(5), floats(5)),
    ],
    autocast="float32:cuda",
)
def layer_norm(F, input, normalized_shape: Sequence[int], weight=None, bias=None, eps: float = 1e-5):
    """Normalize over the last dims, whose sizes are `normalized_shape`; then multiply by `weight` and add `bias`.

    Parameters
    ----------
    input : Tensor
    normalized_shape : int or sequence of int
    weight, bias : Tensor, optional
        Tensors of the shape `normalized_shape`.
    eps : float
        Added to the variance.

    Returns
    -------
    Tensor
        Result of the same shape as the input.

    Examples
    --------
    >>> gc.nn.functional.layer_norm(gc.tensor([[0.0, 1.0, 2.0]]), (3,))
    tensor([[-1.2247,  0.0000,  1.2247]])
    """
    shape = _checked_shape(input, normalized_shape)
    _check_like("weight", weight, shape)
    _check_like("bias", bias, shape)
    check_implemented("LayerNormKernelImpl", input, "bic")
    check_parameters(input, weight, bias)
    return F.native_layer_norm(input, weight, bias, len(shape), eps)[0]


# -- root mean squares over the last dims ---------------------------------------------------------------------


@general(
    outputs=("result", "scale"),
    wide=("scale",),
    seen_outputs=(0,),
    node="FusedRmsNormBackward0",
    function=False,
    method=False,
    materialize=False,
    half_on_cuda="normalization",
)
def fused_rms_norm(self, weight=None, ndims: int = 1, eps: float = 1e-5):
    """Divide by the root mean square of the last `ndims` dims.

    The reciprocal root mean squares are returned too.
    """


@fused_rms_norm.vjp("self", "weight")
def _(F, grads, self, weight, scale, ndims, needs):
    grad = F.zeros_like(self) if grads[0] is None else grads[0]
    return F.rms_norm_backward(grad, grads[1], self, weight, scale, ndims, needs)


@composite(function=False, method=False)
def rms_norm_backward(F, grad, grad_scale, self, weight, scale, ndims: int, needs: Needs):
    """Return the gradients of `fused_rms_norm`."""
    lead, last = self.shape[: self.ndim - ndims], self.shape[self.ndim - ndims :]
    rows, width = prod(lead), prod(last)
    grad, x, r = F.reshape(grad, (rows, width)), F.reshape(self, (rows, width)), F.reshape(scale, (rows, 1))
    to_weight = F.reshape(F.sum(grad * x * r, 0), last) if needs[1] else None
    if not needs[0]:
        return None, to_weight
    g = grad if weight is None else grad * F.reshape(weight, (width,))
    of_scale = plus(F, F.sum(g * x, 1, True), grad_scale)
    return F.reshape(g * r + x * (of_scale * r * r * r / -max(width, 1)), self.shape), to_weight


@fused_rms_norm.jvp("self")
def _(F, t, self, weight, scale, ndims):
    t_scale = F.mean(self * t, tuple(range(-ndims, 0)), True) * scale * scale * -scale
    t = t * scale + self * t_scale
    return t if weight is None else t * weight, t_scale


@fused_rms_norm.jvp("weight")
def _(F, t, self, scale):
    return self * scale * t, None


@composite(
    path="nn.functional.rms_norm",
    aliases=(".rms_norm",),
    samples=lambda: [
        case(floats(3, 4, 5), (5,), floats(5)),
        case(floats(2, 3, 4), (3, 4), eps=0.1),
        case(floats(5), (5,), floats(5)),
        case(floats(0, 5), (5,)),
    ],
    autocast="float32:cuda",
)
def rms_norm(F, input, normalized_shape: Sequence[int], weight=None, eps: float | None = None):
    """Divide by the root mean square of the last dims, whose sizes are `normalized_shape`; then multiply by `weight`.

    `eps`, added to the mean square, is by default the machine epsilon of the dtype, or of float32 for halves.

    Returns
    -------
    Tensor
        Result of the same shape as the input.

    Examples
    --------
    >>> gc.nn.functional.rms_norm(gc.tensor([[3.0, 4.0]]), (2,))
    tensor([[0.8485, 1.1314]])
    """
    shape = _checked_shape(input, normalized_shape)
    _check_like("weight", weight, shape)
    check_implemented("rms_norm", input, "bi")
    if eps is None:
        eps = dtypes.finfo(dtypes.promote_types(input.dtype, dtypes.float32)).eps
    if input.dtype.is_floating_point and (weight is None or weight.dtype is input.dtype):
        return F.fused_rms_norm(input, weight, len(shape), eps)[0]
    if input.dtype.is_floating_point and weight.dtype.is_floating_point:
        dtype = dtypes.promote_types(dtypes.promote_types(input.dtype, weight.dtype), dtypes.float32)
        return F.to(F.fused_rms_norm(F.to(input, dtype), F.to(weight, dtype), len(shape), eps)[0], input.dtype)
    mean = F.mean(F.square(input), tuple(range(-len(shape), 0)), True)
    out = input * F.rsqrt(mean + eps)
    return out if weight is None else F.to(out * weight, input.dtype)


@composite(
    path="nn.functional.local_response_norm",
    samples=lambda: [
        case(floats(2, 5, 3), 3),
        case(floats(1, 4, 2, 3), 2, alpha=0.5, beta=0.6, k=2.0),
        case(floats(0, 4, 2), 2),
    ],
)
def local_response_norm(F, input, size: int, alpha: Scalar = 1e-4, beta: Scalar = 0.75, k: Scalar = 1.0):
    """Divide by ``(k + alpha * m) ** beta``, with `m` the mean square of `size` neighbouring channels.

    Returns
    -------
    Tensor
        Result of the same shape as the input.

    Examples
    --------
    >>> gc.nn.functional.local_response_norm(gc.ones(1, 3, 1), size=3, alpha=3.0).flatten()
    tensor([0.4387, 0.3536, 0.4387])
    """
    if input.ndim < 3:
        raise ValueError(f"Expected 3D or higher dimensionality input (got {input.ndim} dimensions)")
    if not prod(input.shape):
        return input
    check_implemented("avg_pool2d", input, "c")
    flat = F.reshape(F.square(input), (input.shape[0], 1, input.shape[1], -1))
    padded = F.constant_pad_nd(flat, (0, 0, size // 2, (size - 1) // 2))
    mean = F.reshape(F.avg_pool2d(padded, (size, 1), 1), input.shape)
    return input / F.pow(mean * alpha + k, beta)
