"""Losses of numbers: how far predictions are from targets, and the reduction of losses."""

from __future__ import annotations

from collections.abc import Callable
from math import log, pi, prod
from typing import Any

from gradcore.core import dtypes
from gradcore.core.errors import warn
from gradcore.ops.declare.annotations import Scalar, Tensor
from gradcore.ops.declare.checks import check_castable, check_implemented, check_reduction, with_older_reductions
from gradcore.ops.declare.samples import case, floats
from gradcore.ops.declare.table import camel_case, composite, general

__all__ = ["pair", "reduce_losses", "upstream"]

# -- reduction -----------------------------------------------------------------------------------------------


def reduce_losses(F: Any, losses: Any, reduction: str) -> Any:
    """Return all losses, their sum or their mean, by `reduction`."""
    if reduction == "mean":
        return F.mean(losses)
    return F.sum(losses) if reduction == "sum" else losses


def upstream(grad: Any, x: Tensor, reduction: str) -> Any:
    """Return the gradient of each loss of `x`, up to broadcasting, given the gradient of the reduced losses.

    Only a mean reads the shape of `x`, which operands of a fused kernel do not have.
    """
    return grad / prod(x.shape) if reduction == "mean" else grad


def pair(F: Any, input: Any, target: Any) -> tuple[Any, Any]:
    """Return prediction and target in one shape and dtype, with a warning if they must be broadcast."""
    if input.shape != target.shape:
        warn(
            f"Using a target size ({target.shape}) that is different to the input size ({input.shape}). "
            "This will likely lead to incorrect results due to broadcasting. "
            "Please ensure they have the same size."
        )
        input, target = F.broadcast_tensors(input, target)
    dtype = dtypes.promote_types(input.dtype, target.dtype)
    if input.dtype is not dtype:
        input = F.to(input, dtype)
    if target.dtype is not dtype:
        target = F.to(target, dtype)
    return input, target


def weight_losses(F: Any, losses: Any, weight: Any, input: Any, reduction: str) -> Any:
    """Return the reduction of weighted losses; the mean is the weighted mean."""
    if weight.shape != input.shape:
        raise ValueError("Weights and input must have the same size.")
    losses = losses * weight
    return F.sum(losses) / F.sum(weight) if reduction == "mean" else reduce_losses(F, losses, reduction)


# -- losses of the difference --------------------------------------------------------------------------------


def _declare_difference(
    name: str,
    value: Callable[[Any, Any, float], Any],
    total: Callable[[Any, Any, float], Any],
    derivative: Callable[[Any, Any, Any, float], Any],
    width: dict[str, Any],
) -> None:
    """Declare a loss of the difference of two tensors.

    Parameters
    ----------
    value, total : callable
        ``(F, d, width)``: the losses of differences, and (by inner products) the sum of those of a vector.
    derivative : callable
        ``(F, t, d, width)``: how losses move along `t`.
    width : dict
        The name of the width in nodes.
    """

    def loss(K, self, target, width: float, reduction: str):
        d = self - target
        if reduction == "none":
            return value(K, d, width)
        summed = total(K, K.reshape(d, (-1,)), width)
        return summed / prod(d.shape) if reduction == "mean" else summed

    def backward(F, grad, self, target, width: float, reduction: str):
        return derivative(F, upstream(grad, self, reduction), self - target, width)

    loss.__doc__ = f"Compute `{name}` of tensors of one shape and dtype."
    backward.__doc__ = f"Return the gradient of `{name}_of` by the prediction, or, if they are swapped, the target."
    gradient = f"{name}_backward"
    composite(name=gradient, half_on_cuda="elementwise", function=False, method=False)(backward)
    op = general(
        lambda F, grad, self, target, width, reduction: getattr(F, gradient)(grad, self, target, width, reduction),
        target=lambda F, grad, self, target, width, reduction: getattr(F, gradient)(
            grad, target, self, width, reduction
        ),
        name=f"{name}_of",
        node=camel_case(name) + "Backward0",
        half_on_cuda="elementwise",
        function=False,
        method=False,
        saved=width,
    )(loss)
    op.jvp("self")(
        lambda F, t, self, target, width, reduction: reduce_losses(F, derivative(F, t, self - target, width), reduction)
    )
    op.jvp("target")(
        lambda F, t, self, target, width, reduction: reduce_losses(
            F, derivative(F, -t, self - target, width), reduction
        )
    )


# With ``near``, the difference clamped to the width, Huber's loss is ``near * (d - near / 2)``: half the square up to
# the width, and its tangent line beyond.


def _huber(F: Any, d: Any, width: float) -> Any:
    near = F.clamp(d, -width, width)
    return near * (d - near * 0.5)


def _huber_total(F: Any, d: Any, width: float) -> Any:
    near = F.clamp(d, -width, width)
    return F.dot(near, d) - F.dot(near, near) * 0.5


_declare_difference(
    "mse_loss",
    lambda F, d, width: F.square(d),
    lambda F, d, width: F.dot(d, d),
    lambda F, t, d, width: 2 * t * d,
    {"width": None},
)
_declare_difference(
    "huber_loss",
    _huber,
    _huber_total,
    lambda F, t, d, width: t * F.clamp(d, -width, width),
    {"delta": "width"},
)
_declare_difference(
    "smooth_l1_loss",
    lambda F, d, width: _huber(F, d, width) / width,
    lambda F, d, width: _huber_total(F, d, width) / width,
    lambda F, t, d, width: t / width * F.clamp(d, -width, width),
    {"beta": "width"},
)

# -- the functions -------------------------------------------------------------------------------------------


def _pairs(**more: Any) -> Any:
    """Return samples for a loss of two tensors of one shape."""
    return lambda: [
        case(floats(3, 4), floats(3, 4), **more),
        case(floats(3, 4), floats(3, 4), reduction="sum", **more),
        case(floats(2, 3, 2), floats(2, 3, 2), reduction="none", **more),
        case(floats(), floats(), **more),
        case(floats(0, 2), floats(0, 2), reduction="sum", **more),
    ]


@composite(path="nn.functional.mse_loss", samples=_pairs(), autocast="float32")
@with_older_reductions
def mse_loss(
    F,
    input,
    target,
    reduction: str = "mean",
    weight=None,
):
    """Compute ``(input - target) ** 2``, with an optional `weight` for each element.

    Returns
    -------
    Tensor
        A scalar, or of the broadcast shape with ``reduction='none'``.

    Examples
    --------
    >>> gc.nn.functional.mse_loss(gc.tensor([1.0, 2.0]), gc.tensor([1.0, 4.0]))
    tensor(2.)
    """
    original = input
    input, target = pair(F, input, target)
    if weight is not None:
        return weight_losses(F, F.square(input - target), weight, original, reduction)
    check_implemented("mse_cpu", input, "bic")
    return F.mse_loss_of(input, target, 1.0, reduction)


@composite(path="nn.functional.l1_loss", samples=_pairs(), autocast="float32")
@with_older_reductions
def l1_loss(
    F,
    input,
    target,
    reduction: str = "mean",
    weight=None,
):
    """Compute ``abs(input - target)``, with an optional `weight` for each element.

    Returns
    -------
    Tensor
        A scalar, or of the broadcast shape with ``reduction='none'``.

    Examples
    --------
    >>> gc.nn.functional.l1_loss(gc.tensor([1.0, 2.0]), gc.tensor([1.0, 4.0]))
    tensor(1.)
    """
    original = input
    input, target = pair(F, input, target)
    if weight is not None:
        return weight_losses(F, F.abs(input - target), weight, original, reduction)
    return reduce_losses(F, F.abs(input - target), reduction)


@composite(path="nn.functional.smooth_l1_loss", samples=_pairs(beta=0.7), autocast="float32")
@with_older_reductions
def smooth_l1_loss(
    F,
    input,
    target,
    reduction: str = "mean",
    beta: float = 1.0,
):
    """Return a smoothed absolute difference: ``d ** 2 / (2 * beta)`` up to `beta`, ``abs(d) - beta / 2`` beyond.

    Returns
    -------
    Tensor
        A scalar, or of the broadcast shape with ``reduction='none'``.

    Examples
    --------
    >>> gc.nn.functional.smooth_l1_loss(gc.tensor([1.0, 2.0]), gc.tensor([1.5, 4.0]), reduction="none")
    tensor([0.1250, 1.5000])
    """
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    input, target = pair(F, input, target)
    if beta == 0:
        return reduce_losses(F, F.abs(input - target), reduction)
    check_implemented("smooth_l1_cpu", input, "bic")
    return F.smooth_l1_loss_of(input, target, beta, reduction)


@composite(path="nn.functional.huber_loss", samples=_pairs(delta=1.3), autocast="float32")
def huber_loss(F, input, target, reduction: str = "mean", delta: float = 1.0, weight=None):
    """Compute ``d ** 2 / 2`` of the difference up to `delta`, ``delta * (abs(d) - delta / 2)`` beyond.

    Returns
    -------
    Tensor
        A scalar, or of the broadcast shape with ``reduction='none'``.

    Examples
    --------
    >>> gc.nn.functional.huber_loss(gc.tensor([1.0, 2.0]), gc.tensor([1.5, 4.0]), reduction="none", delta=0.5)
    tensor([0.1250, 0.8750])
    """
    reduction = check_reduction(reduction)
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    original = input
    input, target = pair(F, input, target)
    check_implemented("huber_cpu", input, "bic")
    check_castable(input.dtype, original.dtype)
    if weight is None:
        return F.to(F.huber_loss_of(input, target, delta, reduction), original.dtype)
    if weight.shape != original.shape:
        raise ValueError("Weights and input must have the same size.")
    return reduce_losses(F, F.to(F.huber_loss_of(input, target, delta, "none"), original.dtype) * weight, reduction)


@composite(
    path="nn.functional.poisson_nll_loss",
    samples=lambda: [
        case(floats(3, 4), floats(3, 4, low=0.2, high=5.0)),
        case(floats(3, 4), floats(3, 4, low=1.2, high=5.0), full=True, reduction="sum"),
        case(floats(3, low=0.2), floats(3, low=0.1, high=0.8), log_input=False, full=True, reduction="none"),
    ],
    aliases=(".poisson_nll_loss",),
    autocast="float32",
)
@with_older_reductions(first_before="eps")
def poisson_nll_loss(
    F,
    input,
    target,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    reduction: str = "mean",
):
    """Return the negative log-likelihood of counts, up to a constant.

    Parameters
    ----------
    input : Tensor
        The expected count, or (with `log_input`) its logarithm.
    target : Tensor
        The counts.
    log_input : bool
    full : bool
        Whether to add Stirling's approximation of ``log(target!)`` where the target is above 1.
    eps : float
        Keeps the logarithm of an expected count of zero finite.

    Returns
    -------
    Tensor
        A scalar, or of the broadcast shape with ``reduction='none'``.

    Examples
    --------
    >>> gc.nn.functional.poisson_nll_loss(gc.tensor([0.0, 1.0]), gc.tensor([1.0, 2.0]))
    tensor(0.8591)
    """
    losses = F.exp(input) - target * input if log_input else input - target * F.log(input + eps)
    if full:
        stirling = target * F.log(target) - target + 0.5 * F.log(2 * pi * target)
        losses = losses + F.to(F.where(target > 1, stirling, F.zeros_like(stirling)), losses.dtype)
    return reduce_losses(F, losses, reduction)


@composite(
    path="nn.functional.gaussian_nll_loss",
    samples=lambda: [
        case(floats(3, 4), floats(3, 4), floats(3, 4, low=0.3)),
        case(floats(3, 4), floats(3, 4), floats(3, low=0.3), full=True, reduction="sum"),
        case(floats(3, 4), floats(3, 4), floats(3, 1, low=0.3), reduction="none"),
    ],
)
def gaussian_nll_loss(F, input, target, var, full: bool = False, eps: Scalar = 1e-6, reduction: str = "mean"):
    """Return the negative log-likelihood of targets that are normally distributed around the input.

    Parameters
    ----------
    input, target : Tensor
        Expected values and observed ones.
    var : Tensor or float
        Variances: one for each element, or one for all along the last dim, or along dims of size 1.
    full : bool
        Whether to add the constant ``log(2 * pi) / 2``.
    eps : float
        The least variance; gradients pass as if smaller ones had been kept.

    Returns
    -------
    Tensor
        A scalar, or of the shape of the input with ``reduction='none'``.

    Examples
    --------
    >>> gc.nn.functional.gaussian_nll_loss(gc.tensor([0.0, 1.0]), gc.tensor([1.0, 1.0]), gc.tensor([1.0, 4.0]))
    tensor(0.5966)
    """
    var = _variance(F, input, var)
    reduction = check_reduction(reduction)
    var = F.clone(var)
    var.detach().clamp_(min=eps)
    losses = 0.5 * (F.log(var) + F.square(input - target) / var)
    return reduce_losses(F, losses + 0.5 * log(2 * pi) if full else losses, reduction)


def _variance(F: Any, input: Any, var: Any) -> Any:
    """Return the variances in a shape that broadcasts with the input's."""
    if isinstance(var, float):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        return F.ones_like(input) * var
    if F.holds_anywhere(var < 0):
        raise ValueError("var has negative entry/entries")
    if var.shape == input.shape:
        return var
    if input.shape[:-1] == var.shape:
        return F.unsqueeze(var, -1)
    if input.ndim == var.ndim:
        different = [b for a, b in zip(input.shape, var.shape, strict=True) if a != b]
        if different == [1]:
            return var
    raise ValueError("var is of incorrect size")
