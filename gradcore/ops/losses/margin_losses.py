"""Losses with a margin: predictions that are right by more than the margin cost nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradcore.core import dtypes
from gradcore.ops.declare.annotations import Scalar
from gradcore.ops.declare.checks import check_castable, check_implemented, check_reduction, with_older_reductions
from gradcore.ops.declare.samples import case, floats, ints
from gradcore.ops.declare.table import composite, elementwise, general
from gradcore.ops.losses.cross_entropy import check_weight, weights_of
from gradcore.ops.losses.regression import reduce_losses, upstream

# -- soft margin ---------------------------------------------------------------------------------------------


def _soft_slope(F: Any, self: Any, target: Any) -> Any:
    return -target * F.sigmoid(-target * self)


@general(
    lambda F, grad, self, target, reduction: F.soft_margin_backward(grad, self, target, reduction),
    target=lambda F, grad, self, target, reduction: F.soft_margin_backward(grad, target, self, reduction),
    node="SoftMarginLossBackward0",
    half_on_cuda="elementwise",
    function=False,
    method=False,
)
def soft_margin(K, self, target, reduction: str):
    """Compute ``log(1 + exp(-target * self))``, without overflow."""
    z = -target * self
    return reduce_losses(K, K.clamp(z, 0, None) + K.log1p(K.exp(-K.abs(z))), reduction)


@composite(half_on_cuda="elementwise", function=False, method=False)
def soft_margin_backward(F, grad, self, target, reduction: str):
    """Return the gradient of `soft_margin` by the prediction, or, if they are swapped, the target."""
    return upstream(grad, self, reduction) * _soft_slope(F, self, target)


@soft_margin.jvp("self")
def _(F, t, self, target, reduction):
    return reduce_losses(F, t * _soft_slope(F, self, target), reduction)


@soft_margin.jvp("target")
def _(F, t, self, target, reduction):
    return reduce_losses(F, t * _soft_slope(F, target, self), reduction)


@composite(
    path="nn.functional.soft_margin_loss",
    samples=lambda: [
        case(floats(3, 4), floats(3, 4)),
        case(floats(2, low=-800, high=800), floats(2), reduction="sum"),
        case(floats(), floats(), reduction="none"),
    ],
    autocast="float32",
)
@with_older_reductions
def soft_margin_loss(F, input, target, reduction: str = "mean"):
    """Compute ``log(1 + exp(-target * input))`` for targets of 1 and -1.

    Returns
    -------
    Tensor
        A scalar, or of the shape of the input with ``reduction='none'``.

    Examples
    --------
    >>> gc.nn.functional.soft_margin_loss(gc.tensor([2.0, -1.0]), gc.tensor([1.0, 1.0]))
    tensor(0.7201)
    """
    result_dtype = input.dtype
    check_castable(dtypes.promote_types(result_dtype, target.dtype), result_dtype)
    check_implemented("soft_margin", input, "bi")
    if input.shape != target.shape:
        input, target = F.broadcast_tensors(input, target)
    return F.soft_margin(input, F.to(target, result_dtype), reduction)


@composite(
    path="nn.functional.multilabel_soft_margin_loss",
    samples=lambda: [
        case(floats(3, 4), floats(3, 4, low=0.0, high=1.0)),
        case(floats(3, 4), floats(3, 4, low=0.0, high=1.0), floats(4, low=0.5), reduction="sum"),
        case(floats(4), floats(4, low=0.0, high=1.0), reduction="none"),
    ],
)
@with_older_reductions
def multilabel_soft_margin_loss(F, input, target, weight=None, reduction: str = "mean"):
    """Return the binary cross entropy of the input's sigmoid, averaged over the classes.

    Returns
    -------
    Tensor
        A scalar, or of shape ``(batch,)`` with ``reduction='none'``.

    Examples
    --------
    >>> gc.nn.functional.multilabel_soft_margin_loss(gc.tensor([[2.0, -1.0]]), gc.tensor([[1.0, 0.0]]))
    tensor(0.2201)
    """
    losses = -(target * F.logsigmoid(input) + (1 - target) * F.logsigmoid(-input))
    if weight is not None:
        losses = losses * weight
    dim = input.ndim - 1  # the classes of the input, also if the target has more dims
    return reduce_losses(F, F.sum(losses, dim) / input.size(dim), reduction)


# -- losses of one input -------------------------------------------------------------------------------------


@composite(
    path="nn.functional.hinge_embedding_loss",
    aliases=(".hinge_embedding_loss",),
    samples=lambda: [
        case(floats(3, 4), ints(3, 4, low=0, high=2)),
        case(floats(3, 4), ints(3, 4, low=-1, high=1), margin=0.5, reduction="sum"),
        case(floats(3), ints(3, low=1, high=2), reduction="none"),
    ],
    autocast="float32",
)
@with_older_reductions
def hinge_embedding_loss(F, input, target, margin: float = 1.0, reduction: str = "mean"):
    """Return the input where the target is 1, ``max(0, margin - input)`` where it is -1.

    Returns
    -------
    Tensor
        A scalar, or of the shape of the input with ``reduction='none'``.

    Examples
    --------
    >>> gc.nn.functional.hinge_embedding_loss(gc.tensor([0.2, 0.3]), gc.tensor([1, -1]))
    tensor(0.4500)
    """
    negative = F.where(target == 1, 0, F.clamp_min(margin - input, 0))
    positive = F.where(target == -1, 0, input)
    return reduce_losses(F, negative + positive, reduction)


# -- losses of two or three inputs ---------------------------------------------------------------------------


@composite(
    path="nn.functional.margin_ranking_loss",
    aliases=(".margin_ranking_loss",),
    samples=lambda: [
        case(floats(5), floats(5), floats(5, low=0.5, high=1.5)),
        case(floats(3, 4), floats(3, 4), floats(3, 4), margin=0.5, reduction="sum"),
        case(floats(3), floats(3), floats(3, low=0.5, high=1.5), reduction="none"),
    ],
    autocast="float32",
)
@with_older_reductions
def margin_ranking_loss(F, input1, input2, target, margin: float = 0, reduction: str = "mean"):
    """Compute ``max(0, margin - target * (input1 - input2))`` for targets of 1 (`input1` shall be higher) and -1.

    Returns
    -------
    Tensor
        A scalar, or of the broadcast shape with ``reduction='none'``.

    Examples
    --------
    >>> gc.nn.functional.margin_ranking_loss(gc.tensor([1.0, 2.0]), gc.tensor([2.0, 1.0]), gc.tensor([1, 1]))
    tensor(0.5000)
    """
    if not input1.ndim == input2.ndim == target.ndim:
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: "
            f"{input1.shape}, input2: {input2.shape}, target: {target.shape} "
        )
    return reduce_losses(F, F.clamp_min(-target * (input1 - input2) + float(margin), 0), reduction)


@composite(
    path="nn.functional.cosine_embedding_loss",
    aliases=(".cosine_embedding_loss",),
    samples=lambda: [
        case(floats(4, 3), floats(4, 3), ints(4, low=0, high=2)),
        case(floats(4, 3), floats(4, 3), ints(4, low=-1, high=0), margin=-0.5, reduction="sum"),
        case(floats(3), floats(3), ints(low=1, high=2), reduction="none"),
    ],
    autocast="float32",
)
@with_older_reductions
def cosine_embedding_loss(F, input1, input2, target, margin: float = 0, reduction: str = "mean"):
    """Compute ``1 - cos`` of an angle for the target 1, and ``max(0, cos - margin)`` for -1.

    Returns
    -------
    Tensor
        A scalar, or of shape ``(batch,)`` with ``reduction='none'``.

    Examples
    --------
    >>> gc.nn.functional.cosine_embedding_loss(gc.tensor([[1.0, 0.0]]), gc.tensor([[1.0, 1.0]]), gc.tensor([1]))
    tensor(0.2929)
    """
    if target.ndim > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if not input1.ndim == input2.ndim == target.ndim + 1:
        raise RuntimeError(
            f"{target.ndim}D target tensor expects {target.ndim + 1}D input tensors, but found inputs with sizes "
            f"{list(input1.shape)} and {list(input2.shape)}."
        )
    products = [F.sum(a * b, -1) for a, b in ((input1, input2), (input1, input1), (input2, input2))]
    cosine = products[0] / F.sqrt((products[1] + 1e-12) * (products[2] + 1e-12))
    positive = F.where(target == 1, 1 - cosine, 0)
    negative = F.where(target == -1, F.clamp_min(cosine - margin, 0), 0)
    return reduce_losses(F, positive + negative, reduction)


def _triplet(
    F: Any,
    anchor: Any,
    positive: Any,
    negative: Any,
    distance: Callable[[Any, Any], Any],
    margin: float,
    swap: bool,
    reduction: str,
) -> Any:
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
            f"anchor {anchor.ndim}D, positive {positive.ndim}D, and negative {negative.ndim}D inputs"
        )
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = F.minimum(far, distance(positive, negative))
    return reduce_losses(F, F.clamp_min(margin + near - far, 0), reduction)


@composite(
    path="nn.functional.triplet_margin_loss",
    aliases=(".triplet_margin_loss",),
    samples=lambda: [
        case(floats(4, 3), floats(4, 3), floats(4, 3)),
        case(floats(4, 3), floats(4, 3), floats(4, 3), margin=2.0, p=1.5, swap=True, reduction="sum"),
        case(floats(3), floats(3), floats(3), reduction="none"),
    ],
    autocast="float32",
)
@with_older_reductions
def triplet_margin_loss(
    F,
    anchor,
    positive,
    negative,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
):
    """Compute ``max(0, margin + d(anchor, positive) - d(anchor, negative))`` with the p-norm as distance.

    With `swap`, the distance between `positive` and `negative` counts instead where it is the smaller one.

    Returns
    -------
    Tensor
        A scalar, or of shape ``(batch,)`` with ``reduction='none'``.

    Examples
    --------
    >>> gc.nn.functional.triplet_margin_loss(
    ...     gc.tensor([[0.0, 0.0]]), gc.tensor([[1.0, 0.0]]), gc.tensor([[0.0, 1.5]])
    ... )
    tensor(0.5000)
    """
    return _triplet(
        F, anchor, positive, negative, lambda a, b: F.pairwise_distance(a, b, p, eps), margin, swap, reduction
    )


@composite(
    path="nn.functional.triplet_margin_with_distance_loss",
    samples=lambda: [
        case(floats(4, 3), floats(4, 3), floats(4, 3)),
        case(
            floats(4, 3),
            floats(4, 3),
            floats(4, 3),
            distance_function=lambda a, b: (a - b).square().sum(-1),
            swap=True,
            reduction="sum",
        ),
    ],
)
def triplet_margin_with_distance_loss(
    F,
    anchor,
    positive,
    negative,
    *,
    distance_function: Callable[[Any, Any], Any] | None = None,
    margin: Scalar = 1.0,
    swap: bool = False,
    reduction: str = "mean",
):
    """Compute `triplet_margin_loss` with a given distance function (by default `pairwise_distance`).

    Returns
    -------
    Tensor
        A scalar, or of shape ``(batch,)`` with ``reduction='none'``.

    Examples
    --------
    >>> anchor, positive, negative = gc.tensor([[1.0, 0.0]]), gc.tensor([[1.0, 0.0]]), gc.tensor([[0.0, 1.0]])
    >>> gc.nn.functional.triplet_margin_with_distance_loss(
    ...     anchor, positive, negative, distance_function=lambda x,
    ...     y: 1 - gc.nn.functional.cosine_similarity(x, y)
    ... )
    tensor(0.)
    """
    distance = F.pairwise_distance if distance_function is None else distance_function
    if not callable(distance):
        raise TypeError(f"argument 'distance_function' must be callable, not {type(distance).__name__}")
    return _triplet(F, anchor, positive, negative, distance, margin, swap, check_reduction(reduction))


# -- losses of classes ---------------------------------------------------------------------------------------


def _check_classes(input: Any) -> None:
    if input.ndim > 2 or (input.ndim and not input.shape[-1]):
        raise RuntimeError(
            f"Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(input.shape)}"
        )


@elementwise(
    lambda F, t, self: F.where(self >= 0, t, 0),
    connected=("self",),
    promotion="default -bool -complex",
    function=False,
    method=False,
    inplace=False,
)
def hinge(K, self):
    """Compute ``maximum(self, 0)``; the derivative at 0 is 1."""
    return K.clamp_min(self, 0)


@composite(
    path="nn.functional.multi_margin_loss",
    samples=lambda: [
        case(floats(4, 3), ints(4, high=3)),
        case(floats(4, 3), ints(4, high=3), p=2, margin=0.5, weight=None, reduction="sum"),
        case(floats(4, 3), ints(4, high=3), 2, 0.5, floats(3, low=0.5), reduction="none"),
        case(floats(3), ints(high=3)),
    ],
    autocast="float32",
)
@with_older_reductions
def multi_margin_loss(F, input, target, p: int = 1, margin: Scalar = 1.0, weight=None, reduction: str = "mean"):
    """Return margin violations ``max(0, margin - difference) ** p`` of other classes, averaged over the classes.

    Parameters
    ----------
    input : Tensor
        Scores, ``(batch, classes)`` or ``(classes,)``.
    target : Tensor
        Classes.
    p : int
        1 or 2.
    margin : float
    weight : Tensor, optional
        One number for each class.
    reduction : str
        ``'mean'``, ``'sum'`` or ``'none'``.

    Returns
    -------
    Tensor
        A scalar, or of shape ``(batch,)`` with ``reduction='none'``.

    Examples
    --------
    >>> gc.nn.functional.multi_margin_loss(gc.tensor([[0.1, 0.2, 0.7]]), gc.tensor([2]))
    tensor(0.3000)
    """
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    _check_classes(input)
    classes = input.shape[-1] if input.ndim else 1
    if weight is not None and weight.ndim != 1:
        raise ValueError("weight must be one-dimensional")
    if weight is not None and weight.shape[0] != classes:
        raise RuntimeError(f"inconsistent weight size, expected {classes} but got {list(weight.shape)}")
    check_weight(input, weight)
    batch = input.shape[0] if input.ndim == 2 else 1
    if target.ndim > 1 or target.numel() != batch:
        raise RuntimeError(
            "multi_margin_loss: target tensor should be 1-D with size equal to the number of input samples (batch "
            f"size). Expected target size [{batch}], but got {list(target.shape)}. Input has shape {list(input.shape)}."
        )
    if target.dtype.name != "int64":
        raise RuntimeError(f"expected scalar type Long but found {target.dtype.scalar_name}")
    flat = F.reshape(target, (batch,))
    if target.is_cpu and F.holds_anywhere((target < 0) | (target >= classes)):
        raise RuntimeError("target out of range")
    scores = F.reshape(input, (batch, classes))
    weights = weights_of(F, flat, weight, scores, -100)
    excess = F.relu(margin - F.unsqueeze(F.class_pick(scores, flat, -100), 1) + scores)
    is_other_class = 1 - F.class_spread(F.ones_like(weights), flat, classes, -100)
    losses = F.sum((excess if p == 1 else F.square(excess)) * is_other_class, 1) * weights / classes
    return reduce_losses(F, losses if target.ndim else F.reshape(losses, ()), reduction)


@composite(
    path="nn.functional.multilabel_margin_loss",
    samples=lambda: [
        case(floats(3, 4), ints(3, 4, low=-1, high=4)),
        case(floats(3, 4), ints(3, 4, low=0, high=4), reduction="sum"),
        case(floats(4), ints(4, low=-1, high=4), reduction="none"),
    ],
    autocast="float32",
)
@with_older_reductions
def multilabel_margin_loss(F, input, target, reduction: str = "mean"):
    """Return the margin violations of target classes by all other classes, averaged over the classes.

    Parameters
    ----------
    input : Tensor
        Scores, ``(batch, classes)`` or ``(classes,)``.
    target : Tensor
        Of the input's shape: the target classes of each example, up to the first -1.
    reduction : str
        ``'mean'``, ``'sum'`` or ``'none'``.

    Returns
    -------
    Tensor
        A scalar, or of shape ``(batch,)`` with ``reduction='none'``.

    Examples
    --------
    >>> gc.nn.functional.multilabel_margin_loss(gc.tensor([[0.1, 0.2, 0.4, 0.8]]), gc.tensor([[3, 0, -1, 1]]))
    tensor(0.8500)
    """
    _check_classes(input)
    if target.shape != input.shape:
        raise RuntimeError(f"inconsistent target size: {list(target.shape)} for input of size: {list(input.shape)}")
    classes = input.shape[-1] if input.ndim else 1
    if target.is_cpu and F.holds_anywhere((target < -1) | (target >= classes)):
        raise RuntimeError("argument #2 'target' is out of range")
    if not input.ndim:
        input, target = F.reshape(input, (1,)), F.reshape(target, (1,))
    valid = F.cumsum((target < 0).to(target.dtype), -1) == 0
    valid_target = F.where(valid, target, 0)
    ones = valid.to(input.dtype)
    is_target = F.clamp(F.scatter_add(F.zeros_like(input), -1, valid_target, ones), 0, 1)
    excess = F.relu(1 - F.unsqueeze(F.gather(input, -1, valid_target), -1) + F.unsqueeze(input, -2))
    counted = F.unsqueeze(ones, -1) * F.unsqueeze(1 - is_target.detach(), -2)
    return reduce_losses(F, F.sum(excess * counted, (-2, -1)) / classes, reduction)
