"""Normalization of channels, over the images of a batch or in groups within each image.

The formulas work on rows, one for each image and channel. They sum over the rows, compute a scale, a slope and a shift
for each row from the sums, and apply them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from gradcore.backends.vmap.messages import BATCH_NORM
from gradcore.core.typing import AnyTensor
from gradcore.ops.declare.checks import check_implemented
from gradcore.ops.declare.samples import case, floats
from gradcore.ops.declare.table import composite, general
from gradcore.ops.nn.normalization import Needs, check_parameters, input_tangents, plus, with_zeros


@general(
    outputs=("result", "mean", "var"),
    wide=("mean", "var"),
    node="NativeGroupNormBackward0",
    function=False,
    method=False,
    materialize=False,
    saved={"input": "self", "group": "groups"},
    half_on_cuda="normalization",
)
def native_group_norm(self, weight=None, bias=None, groups: int = 1, eps: float = 1e-5):
    """Normalize each group of channels of each image.

    Means and variances, ``(batch, groups)``, are returned too.
    """


def _split_shape(self: Any, groups: int) -> tuple[int, int, int, int]:
    """Return the shape as ``(batch, groups, channels of a group, points)``."""
    return self.shape[0], groups, self.shape[1] // groups, prod(self.shape[2:])


@native_group_norm.vjp("self", "weight", "bias")
def _(F, grads, self, weight, mean, var, groups, eps, needs):
    return F.group_norm_backward(*with_zeros(F, grads, self), self, weight, mean, var, eps, needs, groups)


@composite(function=False, method=False)
def group_norm_backward(F, grad, grad_mean, grad_var, self, weight, mean, var, eps: float, needs: Needs, groups: int):
    """Return the gradients of `native_group_norm`."""
    shape = _split_shape(self, groups)
    batch, _, channels, points = shape
    of_group = (batch, groups, 1, 1)
    grad, x, mean = F.reshape(grad, shape), F.reshape(self, shape), F.reshape(mean, of_group)
    c = x - mean
    r = F.rsqrt(F.reshape(var, of_group) + eps)
    total, product = F.sum(grad, -1, True), F.sum(grad * c, -1, True)
    to_self = to_weight = to_bias = None
    if needs[1]:
        to_weight = F.reshape(F.sum(product * r, 0), (groups * channels,))
    if needs[2]:
        to_bias = F.reshape(F.sum(total, 0), (groups * channels,))
    if needs[0]:
        scale = r
        if weight is not None:
            weight = F.reshape(weight, (groups, channels, 1))
            total, product, scale = total * weight, product * weight, r * weight
        of_mean = plus(F, F.sum(total, 2, True) * -r, grad_mean)
        of_var = plus(F, F.sum(product, 2, True) * r * r * (r / -2), grad_var)
        count = max(channels * points, 1)
        to_self = F.reshape(grad * scale + (c * (of_var * (2 / count)) + of_mean / count), self.shape)
    return to_self, to_weight, to_bias


@native_group_norm.jvp("self")
def _(F, t, self, weight, mean, var, groups, eps):
    shape = _split_shape(self, groups)
    of_group = (*shape[:2], 1, 1)
    t, t_mean, t_var = input_tangents(
        F,
        F.reshape(t, shape),
        F.reshape(self, shape),
        F.reshape(mean, of_group),
        F.reshape(var, of_group),
        (2, 3),
        eps,
    )
    if weight is not None:
        t = t * F.reshape(weight, (groups, shape[2], 1))
    return F.reshape(t, self.shape), F.reshape(t_mean, shape[:2]), F.reshape(t_var, shape[:2])


@native_group_norm.jvp("weight")
def _(F, t, self, mean, var, groups, eps):
    shape = _split_shape(self, groups)
    of_group = (*shape[:2], 1, 1)
    c = F.reshape(self, shape) - F.reshape(mean, of_group)
    t = c * F.rsqrt(F.reshape(var, of_group) + eps) * F.reshape(t, (groups, shape[2], 1))
    return F.reshape(t, self.shape), None, None


@native_group_norm.jvp("bias")
def _(F, t, self_shape):
    return _reshape_for_channels(F, t, len(self_shape)), None, None


def _reshape_for_channels(F: Any, t: AnyTensor, ndim: int) -> AnyTensor:
    """Return a number for each channel in a shape that broadcasts with images."""
    return F.reshape(t, (-1, *(1,) * (ndim - 2)))


@composite(
    path="nn.functional.group_norm",
    aliases=(".group_norm",),
    samples=lambda: [
        case(floats(2, 4, 3), 2, floats(4), floats(4)),
        case(floats(3, 6), 2, floats(6)),
        case(floats(2, 4, 2, 3), 4, None, floats(4), eps=0.1),
        case(floats(2, 4, 2), 1),
    ],
    autocast="float32:cuda",
)
def group_norm(F, input, num_groups: int, weight=None, bias=None, eps: float = 1e-5):
    """Normalize each group of channels of each image; then multiply by `weight` and add `bias`, one for each channel.

    Parameters
    ----------
    input : Tensor
        Input of shape ``(batch, channels, *)``.
    num_groups : int
        Divides the number of channels.
    weight, bias : Tensor, optional
    eps : float
        Added to the variance.

    Returns
    -------
    Tensor
        Result of the same shape as the input.

    Examples
    --------
    >>> gc.nn.functional.group_norm(gc.tensor([[1.0, 3.0, 10.0, 30.0]]), num_groups=2)
    tensor([[-1.0000,  1.0000, -1.0000,  1.0000]])
    """
    sizes = list(input.shape)
    if input.ndim < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {input.ndim}")
    if num_groups <= 0:
        raise RuntimeError(f"Expected num groups to be greater than 0, got {num_groups}")
    if sizes[1] % num_groups:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of shape "
            f"{sizes} and num_groups={num_groups}"
        )
    for name, tensor in (("weight", weight), ("bias", bias)):
        if tensor is not None and tuple(tensor.shape) != (sizes[1],):
            raise RuntimeError(
                f"Expected {name} to be a vector of size equal to the number of channels in input, but got {name} of "
                f"shape {list(tensor.shape)} and input of shape {sizes}"
            )
    _check_count([sizes[0] * sizes[1] // num_groups, num_groups, *sizes[2:]])
    check_implemented("GroupNormKernelImpl", input, "bic")
    check_parameters(input, weight, bias)
    return F.native_group_norm(input, weight, bias, num_groups, eps)[0]


@general(
    outputs=("result", "mean", "var"),
    wide=("mean", "var"),
    seen_outputs=(0,),
    node="NativeBatchNormBackward0",
    joint=("self", "weight"),
    function=False,
    method=False,
    materialize=False,
    saved={"input": "self"},
    half_on_cuda="normalization forward",
)
def native_batch_norm(self, weight=None, bias=None, eps: float = 1e-5):
    """Normalize each channel over all images.

    The means and variances of the channels are returned too.
    """


@native_batch_norm.vjp("self", "weight", "bias")
def _(F, grads, self, weight, mean, var, eps, needs):
    return F.batch_norm_backward(*with_zeros(F, grads, self), self, weight, mean, var, eps, needs)


@composite(function=False, method=False)
def batch_norm_backward(F, grad, grad_mean, grad_var, self, weight, mean, var, eps: float, needs: Needs):
    """Return the gradients of `native_batch_norm`."""
    batch, channels, points = self.shape[0], self.shape[1], prod(self.shape[2:])
    shape, column = (batch, channels, points), (channels, 1)
    grad = F.reshape(grad, shape)
    c = F.reshape(self, shape) - F.reshape(mean, column)
    r = F.rsqrt(var + eps)
    total, product = F.sum(grad, (0, 2)), F.sum(grad * c, (0, 2))
    to_self = None
    if needs[0]:
        scale = r if weight is None else r * weight
        of_mean = plus(F, -total * scale, grad_mean)
        of_var = plus(F, product * r * scale * (r / -2), grad_var)
        count = max(batch * points, 1)
        slope, shift = F.reshape(of_var * (2 / count), column), F.reshape(of_mean / count, column)
        to_self = F.reshape(grad * F.reshape(scale, column) + (c * slope + shift), self.shape)
    return to_self, product * r if needs[1] else None, total if needs[2] else None


@native_batch_norm.jvp("self")
def _(F, t, self, weight, mean, var, eps):
    dims = (0, *range(2, self.ndim))
    t, t_mean, t_var = input_tangents(
        F, t, self, _reshape_for_channels(F, mean, self.ndim), _reshape_for_channels(F, var, self.ndim), dims, eps
    )
    if weight is not None:
        t = t * _reshape_for_channels(F, weight, self.ndim)
    return t, F.reshape(t_mean, mean.shape), F.reshape(t_var, mean.shape)


@native_batch_norm.jvp("weight")
def _(F, t, self, mean, var, eps):
    c = self - _reshape_for_channels(F, mean, self.ndim)
    return c * _reshape_for_channels(F, F.rsqrt(var + eps) * t, self.ndim), None, None


@native_batch_norm.jvp("bias")
def _(F, t, self_shape):
    return _reshape_for_channels(F, t, len(self_shape)), None, None


@general(
    lambda F, grad, weight, var, eps: grad * _scale(F, weight, var, eps, grad.ndim),
    weight=lambda F, grad, self, mean, var, eps: (
        F.sum(grad * (self - _reshape_for_channels(F, mean, grad.ndim)), (0, *range(2, grad.ndim))) * F.rsqrt(var + eps)
    ),
    bias=lambda F, grad: F.sum(grad, (0, *range(2, grad.ndim))),
    node="NativeBatchNormBackward0",
    joint=("self", "weight"),
    function=False,
    method=False,
)
def batch_norm_given(self, mean, var, weight=None, bias=None, eps: float = 1e-5):
    """Normalize each channel with a given mean and variance."""


def _scale(F: Any, weight: Any, var: Any, eps: float, ndim: int) -> Any:
    scale = F.rsqrt(var + eps)
    return _reshape_for_channels(F, scale if weight is None else scale * weight, ndim)


@batch_norm_given.jvp("self")
def _(F, t, weight, var, eps):
    return t * _scale(F, weight, var, eps, t.ndim)


@batch_norm_given.jvp("weight")
def _(F, t, self, mean, var, eps):
    c = self - _reshape_for_channels(F, mean, self.ndim)
    return c * _reshape_for_channels(F, F.rsqrt(var + eps) * t, self.ndim)


@batch_norm_given.jvp("bias")
def _(F, t, self_shape):
    return _reshape_for_channels(F, t, len(self_shape))


def _check_count(sizes: Sequence[int]) -> None:
    if prod((sizes[0], *sizes[2:])) == 1:
        shape = f"torch.Size({list(sizes)})"
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {shape}")


def _update(F: Any, running: AnyTensor | None, value: AnyTensor, momentum: float, factor: float = 1.0) -> None:
    """Update a running statistic in place with a new value times `factor`."""
    if running is not None:
        if not F.has_batches_of(running, value):
            raise RuntimeError(BATCH_NORM)
        value, share = value.detach(), momentum * factor
        if value.dtype is not running.dtype:  # `running` may have a lower precision
            value, share = (value * share).to(running.dtype), 1
        running.mul_(1 - momentum).add_(value, alpha=share)


def _scale_and_shift(
    F: Any, x: AnyTensor, weight: AnyTensor | None, bias: AnyTensor | None, like: AnyTensor
) -> AnyTensor:
    """Multiply the channels of `x` by `weight` and add `bias`, if these are given; return the dtype of `like`."""
    x = x if weight is None else x * _reshape_for_channels(F, weight, x.ndim)
    x = x if bias is None else x + _reshape_for_channels(F, bias, x.ndim)
    return x if x.dtype is like.dtype else F.to(x, like.dtype)


def _batch_norm(
    F: Any,
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any,
    bias: Any,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    channels = input.shape[1] if input.ndim > 1 else 0
    if not training:
        for name, tensor in (("running_mean", running_mean), ("running_var", running_var)):
            if tensor is None:
                raise RuntimeError(f"{name} must be defined in evaluation mode")
    tensors = {"running_mean": running_mean, "running_var": running_var, "weight": weight, "bias": bias}
    for name, tensor in tensors.items():
        if tensor is not None and tensor.shape != (channels,):
            if prod(tensor.shape) != channels:
                raise RuntimeError(f"{name} should contain {channels} elements not {prod(tensor.shape)}")
            tensors[name] = F.reshape(tensor, (channels,))
    if (running_mean is None) is not (running_var is None):
        raise ValueError("running_mean and running_var must either both be None or neither be None")
    check_implemented("batch_norm", input, "bci")
    check_parameters(input, *tensors.values())
    running_mean, running_var, weight, bias = tensors.values()
    if not prod(input.shape):  # weight and bias get gradients of zeros
        return _scale_and_shift(F, F.clone(input), weight, bias, input)
    if not training:
        if F.is_differentiated(running_mean) or F.is_differentiated(running_var):
            mean, var = (_reshape_for_channels(F, t, input.ndim) for t in (running_mean, running_var))
            return _scale_and_shift(F, (input - mean) * F.rsqrt(var + eps), weight, bias, input)
        return F.batch_norm_given(input, running_mean, running_var, weight, bias, eps)
    dtype = input.dtype
    out, mean, var = F.native_batch_norm(input, weight, bias, eps)
    count = prod(input.shape) // max(channels, 1)
    unbiased = count / (count - 1) if running_var is not None else 1.0
    shares = momentum, momentum * unbiased
    if not F.move_statistics_((running_mean, running_var), (mean, var), 1 - momentum, shares):
        _update(F, running_mean, mean, momentum)
        _update(F, running_var, var, momentum, unbiased)
    return F.to(out, dtype)


@composite(
    path="nn.functional.batch_norm",
    samples=lambda: [
        case(floats(3, 2, 4), None, None, floats(2), floats(2), training=True),
        case(floats(4, 3), None, None, training=True, eps=0.1),
        case(floats(2, 3, 2, 2), None, None, floats(3), training=True),
        case(floats(3, 2, 4), floats(2), floats(2, low=0.5), floats(2), floats(2)),
        case(floats(4, 3), floats(3), floats(3, low=0.5), eps=0.1),
    ],
)
def batch_norm(
    F,
    input,
    running_mean,
    running_var,
    weight=None,
    bias=None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
):
    """Normalize each channel over all images; then multiply by `weight` and add `bias`.

    Parameters
    ----------
    input : Tensor
        Input of shape ``(batch, channels, *)``.
    running_mean, running_var : Tensor or None
        Statistics that are used unless `training`, and updated in place if `training`.
    weight, bias : Tensor, optional
        One number for each channel.
    training : bool
        Whether to use the input's own statistics.
    momentum : float
        The share of the new statistics in an update. The running variance is corrected for the sample's size.
    eps : float
        Added to the variance.

    Returns
    -------
    Tensor
        Result of the same shape as the input.

    Examples
    --------
    >>> x = gc.tensor([[0.0], [1.0], [2.0]])
    >>> gc.nn.functional.batch_norm(x, None, None, training=True).flatten()
    tensor([-1.2247,  0.0000,  1.2247])
    >>> gc.nn.functional.batch_norm(x, running_mean=gc.tensor([1.0]), running_var=gc.tensor([4.0])).flatten()
    tensor([-0.5000,  0.0000,  0.5000])
    """
    if training:
        _check_count(input.shape)
        if eps <= 0.0:
            raise ValueError(f"batch_norm eps must be positive during training, but got {eps}")
    elif eps < 0.0:
        raise ValueError(f"batch_norm eps must be non-negative, but got {eps}")
    return _batch_norm(F, input, running_mean, running_var, weight, bias, training, momentum, eps)


@composite(
    path="nn.functional.instance_norm",
    samples=lambda: [
        case(floats(2, 3, 4), None, None, floats(3), floats(3)),
        case(floats(2, 3, 2, 2), eps=0.1),
        case(floats(2, 3, 4), floats(3), floats(3, low=0.5), floats(3), use_input_stats=False),
    ],
)
def instance_norm(
    F,
    input,
    running_mean=None,
    running_var=None,
    weight=None,
    bias=None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
):
    """Normalize each channel of each image; then multiply by `weight` and add `bias`.

    Parameters
    ----------
    input : Tensor
        Input of shape ``(batch, channels, *)``.
    running_mean, running_var : Tensor, optional
        Statistics that are used unless `use_input_stats`, and updated in place (with the mean over the images) if so.
    weight, bias : Tensor, optional
        One number for each channel.
    use_input_stats : bool
        Whether to use the input's own statistics.
    momentum : float
        The share of the new statistics in an update. The running variance is corrected for the sample's size.
    eps : float
        Added to the variance.

    Returns
    -------
    Tensor
        Result of the same shape as the input.

    Examples
    --------
    >>> gc.nn.functional.instance_norm(gc.tensor([[[0.0, 1.0, 2.0], [0.0, 10.0, 20.0]]]))
    tensor([[[-1.2247,  0.0000,  1.2247],
             [-1.2247,  0.0000,  1.2247]]])
    """
    if use_input_stats and prod(input.shape[2:]) == 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {input.shape}")
    if not use_input_stats and (running_mean is None or running_var is None):
        raise RuntimeError("Expected running_mean and running_var to be defined when use_input_stats is false")
    if (running_mean is None) is not (running_var is None):
        raise ValueError("running_mean and running_var must either both be None or neither be None")
    check_implemented("batch_norm", input, "bci")
    check_parameters(input, running_mean, running_var, weight, bias)
    batch, channels = input.shape[:2]
    for name, tensor in (
        ("running_mean", running_mean), ("running_var", running_var), ("weight", weight), ("bias", bias)
    ):  # fmt: skip
        if tensor is not None and tensor.shape != (channels,):
            number = prod(tensor.shape) if tensor.ndim == 1 else list(tensor.shape)
            raise RuntimeError(f"{name} should contain {channels} elements not {number}")
    if not prod(input.shape):
        return _scale_and_shift(F, F.clone(input), weight, bias, input)
    apart = F.reshape(input, (1, batch * channels, *input.shape[2:]))

    def repeat_for_batch(t: Any) -> Any:
        return None if t is None else F.repeat(t, (batch,))

    if not use_input_stats:
        mean, var, weight, bias = map(repeat_for_batch, (running_mean, running_var, weight, bias))
        out = _batch_norm(F, apart, mean, var, weight, bias, False, momentum, eps)
        return F.reshape(out, input.shape)
    out, mean, var = F.native_batch_norm(apart, repeat_for_batch(weight), repeat_for_batch(bias), eps)
    count = prod(input.shape[2:])
    _update(F, running_mean, F.mean(F.reshape(mean.detach(), (batch, channels)), 0), momentum)
    if running_var is not None:
        var = F.mean(F.reshape(var.detach(), (batch, channels)), 0) * (count / (count - 1))
        _update(F, running_var, var, momentum)
    return F.reshape(out, input.shape)
