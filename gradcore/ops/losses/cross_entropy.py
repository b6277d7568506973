"""Losses of classes: cross entropy and negative log-likelihood."""

from __future__ import annotations

from math import prod
from typing import Any

from gradcore.core import dtypes
from gradcore.ops.declare.checks import check_implemented, with_older_reductions
from gradcore.ops.declare.samples import case, floats, ints
from gradcore.ops.declare.table import bilinear, composite, constant, general, linear
from gradcore.ops.losses.regression import reduce_losses

# -- scores, weights and sums by class -----------------------------------------------------------------------


@bilinear(
    self=lambda F, grad, self_shape, target, ignore_index: F.class_spread(
        grad, target, self_shape[min(len(self_shape), 2) - 1], ignore_index
    ),
    node="GatherBackward0",
    function=False,
    method=False,
)
def class_pick(self, target, ignore_index: int):
    """Return the score of each target's class, and 0 for ignored targets."""


@bilinear(
    self=lambda F, grad, target, ignore_index: F.class_pick(grad, target, ignore_index),
    node="ScatterBackward0",
    function=False,
    method=False,
)
def class_spread(self, target, classes: int, ignore_index: int):
    """Return zeros with the numbers of `self` at the classes of their targets; ignored targets add nothing."""


@linear(
    weight=lambda F, grad, self, weight_shape, ignore_index: F.class_totals(grad, self, weight_shape[0], ignore_index),
    node="GatherBackward0",
    function=False,
    method=False,
)
def class_weights(self, weight, ignore_index: int):
    """Return the weight of each target's class, and 0 for ignored targets."""


@linear(
    self=lambda F, grad, target, ignore_index: F.class_weights(target, grad, ignore_index),
    node="ScatterAddBackward0",
    function=False,
    method=False,
)
def class_totals(self, target, classes: int, ignore_index: int):
    """Return, for each class, the sum of the numbers whose target is that class."""


@constant(constant="only the dtype of `like` is read", function=False, method=False)
def class_ones(self, like, ignore_index: int):
    """Return 0 for ignored targets and 1 for others: the weights of targets if classes have none."""


def weights_of(F: Any, target: Any, weight: Any, like: Any, ignore_index: int) -> Any:
    """Return the weight of each target. Without `weight`, it is 0 for ignored targets and 1 for others."""
    if weight is None:
        return F.class_ones(target, like, ignore_index)
    return F.class_weights(target, weight, ignore_index)


def _reduce_by_weights(F: Any, losses: Any, target: Any, weight: Any, reduction: str, ignore_index: int) -> Any:
    """Return the reduced losses and the sum of the weights, for weights that have derivatives."""
    weights = F.class_weights(target, weight, ignore_index)
    losses, total_weight = losses * weights, F.sum(weights)
    return F.div(F.sum(losses), total_weight) if reduction == "mean" else reduce_losses(
        F, losses, reduction
    ), total_weight


def _distribute_gradient(
    F: Any, grad: Any, target: Any, weight: Any, total_weight: Any, reduction: str, ignore_index: int
) -> Any:
    """Return the gradient of each unweighted loss, given the gradient of the reduced losses."""
    if reduction == "mean":
        grad = F.div(grad, total_weight)
    weights = weights_of(F, target, weight, grad, ignore_index)
    # Ignored targets are set to zero explicitly, because 0 times an infinite gradient is not 0.
    return F.where(target == ignore_index, 0, weights * grad)


# -- negative log-likelihood ---------------------------------------------------------------------------------


def _node(self_shape: tuple[int, ...]) -> str:
    return "NllLossBackward0" if len(self_shape) <= 2 else "NllLoss2DBackward0"


@general(
    lambda F, grad, self_shape, target, weight, total_weight, reduction, ignore_index: F.nll_backward(
        grad, self_shape, target, weight, total_weight, reduction, ignore_index
    ),
    outputs=("result", "total_weight"),
    wide=("total_weight",),
    connected=("self",),
    differentiable=(0,),
    node=_node,
    function=False,
    method=False,
    saved={"self_sym_sizes": None},
    half_on_cuda="cross_entropy",
)
def nll(self, target, weight=None, reduction: str = "mean", ignore_index: int = -100):
    """Return the negative scores of the targets' classes, and the sum of their weights."""


@composite(function=False, method=False)
def nll_backward(F, grad, sizes, target, weight, total_weight, reduction: str, ignore_index: int):
    """Return the gradient of `nll` by scores of the shape `sizes`."""
    grad = _distribute_gradient(F, grad, target, weight, total_weight, reduction, ignore_index)
    return F.class_spread(-grad, target, sizes[min(len(sizes), 2) - 1], ignore_index)


@nll.jvp("self")
def _(F, t, target, weight, total_weight, reduction, ignore_index):
    t = -F.class_pick(t, target, ignore_index) * weights_of(F, target, weight, t, ignore_index)
    return F.div(F.sum(t), total_weight) if reduction == "mean" else reduce_losses(F, t, reduction)


# With a row's maximum m taken as a constant (the loss does not depend on it), the powers exp(x - m) and their sum s,
# the loss is log(s) - (x[target] - m). Powers and sum are outputs with derivatives, so that formulas may read them.


@general(
    lambda F, grads, target, weight, total_weight, powers, total, reduction, ignore_index: F.softmax_nll_backward(
        *grads, target, weight, total_weight, powers, total, reduction, ignore_index
    ),
    outputs=("result", "total_weight", "powers", "total"),
    wide=("total_weight", "total"),
    seen_outputs=(0,),
    differentiable=(0, 2, 3),
    node=_node,
    function=False,
    method=False,
    materialize=False,
    saved={"powers": None, "total": None},
    half_on_cuda="cross_entropy",
)
def softmax_nll(self, target, weight=None, reduction: str = "mean", ignore_index: int = -100):
    """Return the negative log-probabilities of the targets by softmax, and intermediate results for backward."""


@composite(function=False, method=False)
def softmax_nll_backward(
    F,
    grad,
    grad_powers,
    grad_total,
    target,
    weight,
    total_weight,
    powers,
    total,
    reduction: str,
    ignore_index: int,
):
    """Return the gradient of `softmax_nll`.

    It is the scaled softmax, less the scale at the classes of the targets.
    """
    scale = grad_powers
    if grad_total is not None:
        scale = grad_total if scale is None else scale + grad_total
    if grad is None:
        return powers * scale
    grad = _distribute_gradient(F, grad, target, weight, total_weight, reduction, ignore_index)
    share = F.div(F.reshape(grad, total.shape), total)
    scale = share if scale is None else scale + share
    return powers * scale - F.class_spread(grad, target, powers.shape[min(powers.ndim, 2) - 1], ignore_index)


@softmax_nll.jvp("self")
def _(F, t, target, weight, total_weight, powers, total, reduction, ignore_index):
    t_powers, dim = powers * t, min(powers.ndim, 2) - 1
    t_total = F.sum(t_powers, dim, True)
    losses = F.reshape(F.div(t_total, total), target.shape) - F.class_pick(t, target, ignore_index)
    losses = F.where(target == ignore_index, 0, losses * weights_of(F, target, weight, t, ignore_index))
    result = F.div(F.sum(losses), total_weight) if reduction == "mean" else reduce_losses(F, losses, reduction)
    return result, t_powers, t_total


# -- the functions -------------------------------------------------------------------------------------------


def _checked_target(F: Any, input: Any, target: Any, weight: Any) -> Any:
    """Return the target in the shape of the input without its class dim, or raise PyTorch's error."""
    if target.dtype.name not in ("int64", "uint8"):
        raise RuntimeError(f"expected target dtype to be Long or Byte, but got {target.dtype.scalar_name}")
    if target.dtype is dtypes.uint8:  # kernels read indices of 64 bits, and `ignore_index` may be negative
        target = F.to(target, dtypes.int64)
    sizes, target_sizes = tuple(input.shape), tuple(target.shape)
    if not sizes:
        raise ValueError("Expected 1 or more dimensions (got 0)")
    if len(sizes) == 1:
        if prod(target_sizes) != 1:
            raise ValueError(f"For 1D input, 1D target must have size 1, but got target size: {prod(target_sizes)}")
        target = F.reshape(target, ())
    else:
        _check_sizes(sizes, target_sizes)
    classes = sizes[min(len(sizes), 2) - 1]
    if weight is not None and tuple(weight.shape) != (classes,):
        raise RuntimeError(
            f"weight tensor should be defined either for all {classes} classes or no classes but got weight tensor of "
            f"shape: {list(weight.shape)}"
        )
    return target


def _check_sizes(sizes: tuple[int, ...], actual: tuple[int, ...]) -> None:
    expected = (sizes[0], *sizes[2:])
    if actual == expected:
        return
    if actual[:1] != expected[:1]:
        raise ValueError(
            f"Expected input batch_size ({sizes[0]}) to match target batch_size ({actual[0] if actual else 1})."
        )
    if len(sizes) == 2:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    raise RuntimeError(f"Expected target size {list(expected)}, got {list(actual)}")


def check_weight(input: Any, weight: Any) -> None:
    if weight is not None and weight.dtype is not input.dtype:
        raise RuntimeError(f"expected scalar type {input.dtype.scalar_name} but found {weight.dtype.scalar_name}")


def _nll_samples(**more: Any) -> Any:
    return lambda: [
        case(floats(4, 3), ints(4, high=3), **more),
        case(floats(4, 3), ints(4, high=3), floats(3, low=0.5), **more),
        case(floats(4, 3), ints(4, high=3), floats(3, low=0.5), ignore_index=1, reduction="sum", **more),
        case(floats(2, 3, 4), ints(2, 4, high=3), ignore_index=0, **more),
        case(floats(2, 3, 2, 2), ints(2, 2, 2, high=3), floats(3, low=0.5), reduction="none", **more),
        case(floats(3), ints(high=3), **more),
        case(floats(0, 3), ints(0, high=3), reduction="sum", **more),
    ]


@composite(path="nn.functional.nll_loss", samples=_nll_samples(), autocast="float32")
@with_older_reductions(first_before="ignore_index")
def nll_loss(
    F,
    input,
    target,
    weight=None,
    ignore_index: int = -100,
    reduction: str = "mean",
):
    """Return the negative log-likelihood of target classes.

    Parameters
    ----------
    input : Tensor
        Logarithms of probabilities, ``(batch, classes, *)`` or ``(classes,)``.
    target : Tensor
        Classes, ``(batch, *)`` or of no dim: int64 or uint8.
    weight : Tensor, optional
        One number for each class. The mean of the losses is weighted by these numbers.
    ignore_index : int
        Targets of this value do not count.
    reduction : str
        ``'mean'``, ``'sum'`` or ``'none'``.

    Examples
    --------
    >>> import gradcore
    >>> import gradcore.nn.functional as F
    >>> F.nll_loss(gradcore.tensor([[-0.5, -1.0], [-2.0, -0.25]]), gradcore.tensor([0, 1]))
    tensor(0.3750)
    """
    target = _checked_target(F, input, target, weight)
    check_weight(input, weight)
    check_implemented("nll_loss_out_frame", input, "bi")
    return _nll(F, input, target, weight, reduction, ignore_index)[0]


def _nll(F: Any, input: Any, target: Any, weight: Any, reduction: str, ignore_index: int) -> tuple[Any, Any]:
    """Return the loss and the sum of the weights."""
    if weight is None or not F.is_differentiated(weight):
        return F.nll(input, target, weight, reduction, ignore_index)  # type: ignore[no-any-return]
    losses = F.nll(input, target, None, "none", ignore_index)[0]
    return _reduce_by_weights(F, losses, target, weight, reduction, ignore_index)  # type: ignore[no-any-return]


def _probability_samples():
    return [
        *_nll_samples()(),
        *_nll_samples(label_smoothing=0.2)(),
        case(floats(4, 3), floats(4, 3, low=0.0, high=1.0)),
        case(floats(2, 3, 2), floats(2, 3, 2, low=0.0, high=1.0), floats(3, low=0.5), label_smoothing=0.1),
        case(floats(3), floats(3, low=0.0, high=1.0), reduction="none"),
    ]


@composite(path="nn.functional.cross_entropy", samples=_probability_samples, autocast="float32")
@with_older_reductions(first_before="ignore_index")
def cross_entropy(
    F,
    input,
    target,
    weight=None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
):
    """Return the cross entropy of the input's softmax with target classes or probabilities.

    Parameters
    ----------
    input : Tensor
        Scores, ``(batch, classes, *)`` or ``(classes,)``.
    target : Tensor
        Classes (int64 or uint8), ``(batch, *)`` or of no dim; or probabilities in the input's shape.
    weight : Tensor, optional
        One number for each class. The mean over target classes is weighted by these numbers.
    ignore_index : int
        Target classes of this value do not count.
    reduction : str
        ``'mean'``, ``'sum'`` or ``'none'``.
    label_smoothing : float
        The share of the target's probability that is distributed among all classes.

    Examples
    --------
    >>> import gradcore
    >>> import gradcore.nn.functional as F
    >>> scores = gradcore.tensor([[2.0, 0.0], [0.0, 0.0]], requires_grad=True)
    >>> loss = F.cross_entropy(scores, gradcore.tensor([0, 1]))
    >>> loss
    tensor(0.4100, grad_fn=<NllLossBackward0>)
    >>> loss.backward()
    >>> scores.grad
    tensor([[-0.0596,  0.0596],
            [ 0.2500, -0.2500]])
    """
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing:g}")
    check_implemented("log_softmax_lastdim_kernel_impl", input, "bic")
    if input.shape == target.shape and input.ndim:
        return _probabilities_loss(F, input, target, weight, reduction, ignore_index, label_smoothing)
    target = _checked_target(F, input, target, weight)
    check_weight(input, weight)
    if not label_smoothing and weight is not None and F.is_differentiated(weight):
        losses = F.softmax_nll(input, target, None, "none", ignore_index)[0]
        return _reduce_by_weights(F, losses, target, weight, reduction, ignore_index)[0]
    if not label_smoothing:
        return F.softmax_nll(input, target, weight, reduction, ignore_index)[0]
    return _smooth_labels(F, input, target, weight, reduction, ignore_index, label_smoothing)


def _probabilities_loss(
    F: Any, input: Any, target: Any, weight: Any, reduction: str, ignore_index: int, label_smoothing: float
) -> Any:
    if not target.dtype.is_floating_point:
        raise RuntimeError(
            f"Expected floating point type for target with class probabilities, got {target.dtype.scalar_name}"
        )
    if ignore_index >= 0:
        raise RuntimeError("ignore_index is not supported for floating point target")
    dim = min(input.ndim, 2) - 1
    classes = input.shape[dim]
    if label_smoothing:
        target = target * (1 - label_smoothing) + label_smoothing / max(classes, 1)
    terms = F.log_softmax(input, dim) * target
    if weight is not None:
        terms = terms * F.reshape(weight, (classes, *(1,) * (input.ndim - 1 - dim)))
    if reduction == "none":
        return -F.sum(terms, dim)
    if reduction == "sum":
        return -F.sum(terms)
    rows = prod(input.shape) // max(classes, 1)
    return -F.sum(terms) / (rows or float("nan"))


def _smooth_labels(
    F: Any, input: Any, target: Any, weight: Any, reduction: str, ignore_index: int, label_smoothing: float
) -> Any:
    """Return the losses with label smoothing: a mixture of the target's loss and the mean over all classes."""
    dim = min(input.ndim, 2) - 1
    classes = input.shape[dim]
    scores = F.log_softmax(input, dim)
    loss, total_weight = _nll(F, scores, target, weight, reduction, ignore_index)
    if weight is not None:
        scores = scores * F.reshape(weight, (classes, *(1,) * (input.ndim - 1 - dim)))
    sums = F.where(target == ignore_index, 0, -F.sum(scores, dim))
    if reduction == "mean":
        sums = F.to(F.div(F.sum(sums), total_weight), scores.dtype)  # The total of halves is in float32.
    elif reduction == "sum":
        sums = F.sum(sums)
    return (1 - label_smoothing) * loss + label_smoothing / max(classes, 1) * sums


@composite(
    path="nn.functional.linear_cross_entropy",
    samples=lambda: [
        case(floats(4, 5), floats(3, 5), ints(4, high=3), linear_bias=None),
        case(floats(4, 5), floats(3, 2, 5), ints(4, 2, high=3), reduction="sum"),
        case(floats(5), floats(3, 5), ints(high=3), label_smoothing=0.1),
    ],
)
def linear_cross_entropy(
    F,
    input,
    linear_weight,
    target,
    *,
    linear_bias=None,
    weight=None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: Any = None,
):
    """Compute `cross_entropy` of the scores ``input @ linear_weight.T + linear_bias``.

    Parameters
    ----------
    input : Tensor
        ``(batch, width)`` or ``(width,)``.
    linear_weight, linear_bias : Tensor
        ``(classes, *, width)`` and ``(classes, *)``.
    target, weight, reduction, ignore_index, label_smoothing
        See `cross_entropy`.
    options
        Accepted for compatibility.

    Examples
    --------
    >>> features, weight = gc.tensor([[1.0, 0.0], [0.0, 1.0]]), gc.eye(2)
    >>> gc.nn.functional.linear_cross_entropy(features, weight, gc.tensor([0, 1]))
    tensor(0.3133)
    """
    if input.ndim not in (1, 2):
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.ndim}")
    if linear_weight.ndim < 2:
        raise RuntimeError(f"expected linear_weight with dimensionality at least 2, got {linear_weight.ndim}")
    width, outputs = input.shape[-1], tuple(linear_weight.shape[:-1])
    if linear_weight.shape[-1] != width:
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), got "
            f"{width} and {linear_weight.shape[-1]}, respectively"
        )
    if linear_bias is not None and tuple(linear_bias.shape) != outputs:
        raise RuntimeError(f"expected linear_bias shape {outputs}, got {tuple(linear_bias.shape)}")
    if len(outputs) > 1 and input.ndim == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(linear_weight.shape)} requires batched input, "
            f"(N, {width}), got unbatched input with shape {tuple(input.shape)}"
        )
    shape = (*input.shape[:-1], *outputs)
    if tuple(target.shape) == shape and ignore_index is not None:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    bias = None if linear_bias is None else F.reshape(linear_bias, (-1,))
    scores = F.reshape(F.linear(input, F.reshape(linear_weight, (-1, width)), bias), shape)
    ignore_index = -100 if ignore_index is None else ignore_index
    return F.cross_entropy(scores, target, weight, None, ignore_index, None, reduction, label_smoothing)
