"""Losses of probabilities: binary cross entropy and divergences."""

from __future__ import annotations

from functools import reduce as reduce_
from typing import Any

from gradcore.core import dtypes
from gradcore.core.errors import warn
from gradcore.ops.declare.annotations import Tensor
from gradcore.ops.declare.checks import check_castable, check_implemented, check_reduction, with_older_reductions
from gradcore.ops.declare.geometry import broadcast_shape
from gradcore.ops.declare.samples import case, floats
from gradcore.ops.declare.table import composite, general
from gradcore.ops.losses.regression import reduce_losses, upstream


def _apply_weight(t: Any, weight: Any) -> Any:
    return t if weight is None else t * weight


def _distribute(grad, self, weight, reduction):
    return _apply_weight(upstream(grad, self, reduction), weight)


def _check_weight(weight: Tensor | None, shape: tuple[int, ...]) -> None:
    """Raise PyTorch's error if `weight` is a tensor that would broadcast losses of shape `shape` to a larger shape."""
    broadcast = shape if weight is None else broadcast_shape([shape, weight.shape])
    if broadcast != shape:
        raise RuntimeError(f"output with shape {list(shape)} doesn't match the broadcast shape {list(broadcast)}")


@general(
    lambda F, grad, self, target, weight, reduction: F.bce_backward(grad, self, target, weight, reduction),
    target=lambda F, grad, self, weight, reduction: (
        _distribute(grad, self, weight, reduction) * (F.log1p(-self) - F.log(self))
    ),
    node="BinaryCrossEntropyBackward0",
    half_on_cuda="elementwise",
    function=False,
    method=False,
)
def bce(K, self, target, weight=None, reduction: str = "mean"):
    """Compute `binary_cross_entropy` of tensors of one shape and dtype."""
    log_complement = K.clamp(K.log1p(-self), -100, None)
    losses = target * (log_complement - K.clamp(K.log(self), -100, None)) - log_complement
    return reduce_losses(K, _apply_weight(losses, weight), reduction)


@composite(half_on_cuda="elementwise", function=False, method=False)
def bce_backward(F, grad, self, target, weight, reduction: str):
    """Return the gradient of `bce` by the probabilities."""
    grad = _distribute(grad, self, weight, reduction)
    return grad * F.div(self - target, F.clamp((1 - self) * self, 1e-12, None))


@bce.jvp("self")
def _(F, t, self, target, weight, reduction):
    return reduce_losses(
        F, _apply_weight(t * F.div(self - target, F.clamp((1 - self) * self, 1e-12, None)), weight), reduction
    )


@bce.jvp("target")
def _(F, t, self, weight, reduction):
    return reduce_losses(F, _apply_weight(t * (F.log1p(-self) - F.log(self)), weight), reduction)


def _shares(*shape: int) -> Any:
    """Describe probabilities away from 0 and 1."""
    return floats(*shape, low=0.1, high=0.9)


@composite(
    path="nn.functional.binary_cross_entropy",
    samples=lambda: [
        case(_shares(3, 4), _shares(3, 4)),
        case(_shares(3, 4), _shares(3, 4), floats(4, low=0.5), reduction="sum"),
        case(_shares(2), _shares(2), reduction="none"),
    ],
    autocast="float32:cpu refused:cuda",
)
@with_older_reductions
def binary_cross_entropy(F, input, target, weight=None, reduction: str = "mean"):
    """Return the cross entropy of probabilities with targets between 0 and 1; logarithms are at least -100.

    `binary_cross_entropy_with_logits` takes scores instead, and is more accurate.

    Returns
    -------
    Tensor
        A scalar, or of the shape of the input with ``reduction='none'``.

    Examples
    --------
    >>> gc.nn.functional.binary_cross_entropy(gc.tensor([0.9, 0.2]), gc.tensor([1.0, 0.0]))
    tensor(0.1643)
    """
    if target.shape != input.shape:
        raise ValueError(
            f"Using a target size ({target.shape}) that is different to the input size ({input.shape}) is deprecated. "
            "Please ensure they have the same size."
        )
    if target.dtype is not input.dtype:
        raise RuntimeError(f"Found dtype {target.dtype.scalar_name} but expected {input.dtype.scalar_name}")
    check_implemented("binary_cross_entropy", input, "bic")
    for name, t in (("input", input), ("target", target)):
        if t.is_cpu and F.holds_anywhere(~((t >= 0) & (t <= 1))):
            raise RuntimeError(f"all elements of {name} should be between 0 and 1")
    _check_weight(weight, input.shape)
    if weight is not None:
        check_castable(dtypes.promote_types(input.dtype, weight.dtype), input.dtype)
        weight = F.to(weight, input.dtype)
        if F.is_differentiated(weight):
            return reduce_losses(F, F.bce(input, target, None, "none") * weight, reduction)
    return F.bce(input, target, weight, reduction)


def _logit_loss(K: Any, self: Any, target: Any, pos_weight: Any) -> Any:
    """Compute ``softplus(self) - target * self``; weighted, ``(1 - target) * self + w * softplus(-self)``."""
    tail = K.log1p(K.exp(-K.abs(self)))
    if pos_weight is None:
        return (1 - target) * self + K.clamp(-self, 0, None) + tail
    return (1 - target) * self + (1 + (pos_weight - 1) * target) * (tail + K.clamp(-self, 0, None))


def _logit_slope(F: Any, self: Any, target: Any, pos_weight: Any) -> Any:
    if pos_weight is None:
        return F.sigmoid(self) - target
    return (1 - target) - (1 + (pos_weight - 1) * target) * F.sigmoid(-self)


def _target_slope(F: Any, self: Any, pos_weight: Any) -> Any:
    if pos_weight is None:
        return -self
    return (pos_weight - 1) * (F.log1p(F.exp(-F.abs(self))) + F.clamp(-self, 0, None)) - self


@general(
    lambda F, grad, self, target, weight, pos_weight, reduction: F.bce_with_logits_backward(
        grad, self, target, weight, pos_weight, reduction
    ),
    target=lambda F, grad, self, weight, pos_weight, reduction: (
        _distribute(grad, self, weight, reduction) * _target_slope(F, self, pos_weight)
    ),
    node="BinaryCrossEntropyWithLogitsBackward0",
    half_on_cuda="elementwise",
    function=False,
    method=False,
)
def bce_with_logits(K, self, target, weight=None, pos_weight=None, reduction: str = "mean"):
    """Compute `binary_cross_entropy_with_logits` of tensors of one shape."""
    return reduce_losses(K, _apply_weight(_logit_loss(K, self, target, pos_weight), weight), reduction)


@composite(half_on_cuda="elementwise", function=False, method=False)
def bce_with_logits_backward(F, grad, self, target, weight, pos_weight, reduction: str):
    """Return the gradient of `bce_with_logits` by the scores."""
    grad = _distribute(grad, self, weight, reduction)
    return grad * _logit_slope(F, self, target, pos_weight)


@bce_with_logits.jvp("self")
def _(F, t, self, target, weight, pos_weight, reduction):
    return reduce_losses(F, _apply_weight(t * _logit_slope(F, self, target, pos_weight), weight), reduction)


@bce_with_logits.jvp("target")
def _(F, t, self, weight, pos_weight, reduction):
    return reduce_losses(F, _apply_weight(t * _target_slope(F, self, pos_weight), weight), reduction)


@composite(
    path="nn.functional.binary_cross_entropy_with_logits",
    samples=lambda: [
        case(floats(3, 4), _shares(3, 4)),
        case(floats(3, 4), _shares(3, 4), floats(4, low=0.5), reduction="sum"),
        case(floats(2, low=-800, high=800), _shares(2)),
        case(floats(3, 4), _shares(3, 4), None, None, None, "none", floats(4, low=0.5)),
        case(floats(3, 4), _shares(3, 4), floats(4, low=0.5), None, None, "mean", floats(4, low=0.5)),
    ],
    autocast="float32",
)
@with_older_reductions
def binary_cross_entropy_with_logits(
    F,
    input,
    target,
    weight=None,
    reduction: str = "mean",
    pos_weight=None,
):
    """Return the cross entropy of the input's sigmoid with targets between 0 and 1, without overflow.

    Parameters
    ----------
    input, target : Tensor
        Scores and probabilities of one shape.
    weight : Tensor, optional
        A factor of each loss.
    reduction : str
        ``'mean'``, ``'sum'`` or ``'none'``.
    pos_weight : Tensor, optional
        A factor of the positive targets' part of each loss.

    Returns
    -------
    Tensor
        A scalar, or of the shape of the input with ``reduction='none'``.

    Examples
    --------
    >>> gc.nn.functional.binary_cross_entropy_with_logits(gc.tensor([2.0, -1.0]), gc.tensor([1.0, 0.0]))
    tensor(0.2201)
    """
    if target.shape != input.shape:
        raise ValueError(f"Target size ({target.shape}) must be the same as input size ({input.shape})")
    check_implemented("log_sigmoid_cpu", input, "bic")
    check_implemented("log_sigmoid_cpu", target, "c")
    for factor in (weight, pos_weight):
        _check_weight(factor, input.shape)
    tensors = [t for t in (input, target, weight, pos_weight) if t is not None]
    common = reduce_(dtypes.promote_types, (t.dtype for t in tensors))
    check_castable(common, target.dtype)
    result_dtype = target.dtype
    if any(t.dtype is not common for t in tensors):
        operands = (input, target, weight, pos_weight)
        input, target, weight, pos_weight = (None if t is None else F.to(t, common) for t in operands)
    if pos_weight is not None and F.is_differentiated(pos_weight):
        losses = (1 - target) * input - (1 + (pos_weight - 1) * target) * F.logsigmoid(input)
    elif result_dtype is not common or (weight is not None and F.is_differentiated(weight)):
        losses = F.bce_with_logits(input, target, None, pos_weight, "none")
    else:
        return F.bce_with_logits(input, target, weight, pos_weight, reduction)
    return reduce_losses(F, F.to(_apply_weight(losses, weight), result_dtype), reduction)  # of the dtype of the targets


# -- distributions -------------------------------------------------------------------------------------------


@composite(
    path="nn.functional.kl_div",
    samples=lambda: [
        case(floats(3, 4), _shares(3, 4), reduction="batchmean"),
        case(floats(3, 4), floats(3, 4), reduction="sum", log_target=True),
        case(floats(3, 4), _shares(4), reduction="none"),
    ],
    autocast="float32",
)
def kl_div(
    F,
    input,
    target,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
):
    """Return the Kullback-Leibler divergence of a target distribution from a predicted one.

    Parameters
    ----------
    input : Tensor
        Logarithms of the predicted probabilities.
    target : Tensor
        Probabilities, or (with `log_target`) their logarithms.
    reduction : str
        ``'batchmean'`` (the sum divided by the size of the first dim, which is the divergence's mean over the batch),
        ``'mean'`` (over all elements), ``'sum'`` or ``'none'``.
    log_target : bool

    Returns
    -------
    Tensor
        A scalar, or of the broadcast shape with ``reduction='none'``.

    Examples
    --------
    >>> gc.nn.functional.kl_div(gc.tensor([0.5, 0.5]).log(), gc.tensor([0.25, 0.75]), reduction="sum")
    tensor(0.1308)
    """
    for t in (input, target):
        if not t.dtype.is_floating_point:
            raise RuntimeError(f"kl_div: {'Complex' if t.is_complex() else 'Integral'} inputs not supported.")
    old = size_average is not None or reduce is not None
    reduction = check_reduction(reduction, size_average, reduce, also=("batchmean",))
    if reduction == "mean" and not old:
        warn(
            "reduction: 'mean' divides by the number of elements; the mean of the divergence over a batch is "
            "reduction='batchmean'."
        )
    losses = F.exp(target) * (target - input) if log_target else F.xlogy(target, target) - target * input
    if reduction == "batchmean":
        total = F.sum(losses)
        return total / input.shape[0] if input.ndim else total
    return reduce_losses(F, losses, reduction)
