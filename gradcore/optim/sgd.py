"""Stochastic gradient descent."""

from __future__ import annotations

from typing import Any

from gradcore.optim.checks import check_lr, check_not_negative
from gradcore.optim.elementwise import ElementwiseOptimizer
from gradcore.optim.optimizer import ParamsT
from gradcore.tensor import Tensor

__all__ = ["SGD"]


def sgd(
    F: Any,
    p: Any,
    g: Any,
    *buffer: Any,
    lr: float,
    momentum: float,
    new: float | None,
    weight_decay: float,
    nesterov: bool,
    maximize: bool,
) -> None:
    """A step down the gradient, or with momentum along a buffer, which a gradient enters with the factor `new`."""
    if maximize:
        g = -g
    if weight_decay != 0:
        g = g + p * weight_decay
    if buffer:
        (b,) = buffer
        b *= momentum
        b += g if new is None else g * new
        g = g + b * momentum if nesterov else b
    p -= g * lr


class SGD(ElementwiseOptimizer):
    """Stochastic gradient descent, with momentum if wanted.

    Parameters
    ----------
    params : iterable
        Tensors, pairs of a name and a tensor, or dicts that are groups.
    lr : float or Tensor
        The learning rate.
    momentum : float
        How much of the last steps' direction is kept.
    dampening : float
        How much less of a gradient enters the momentum.
    weight_decay : float
        Adds so much of the parameter to its gradient.
    nesterov : bool
        Look ahead along the momentum.
    maximize : bool
        Step up the gradient.
    foreach : bool, optional
        Accepted and kept as PyTorch's; the step is the same.
    fused : bool, optional
        Let a `GradScaler` leave it to the step to divide gradients, and on CUDA to the device to leave out a step.
    differentiable : bool
        Record the step, so that gradients flow through it.

    Raises
    ------
    ValueError
        If an option is out of its range.

    Examples
    --------
    >>> import gradcore
    >>> x = gradcore.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = gradcore.optim.SGD([x], lr=0.1, momentum=0.9)
    >>> for _ in range(2):
    ...     optimizer.zero_grad()
    ...     (x * x).sum().backward()
    ...     optimizer.step()
    >>> x
    tensor([0.4600, 0.9200], requires_grad=True)
    """

    formula = staticmethod(sgd)

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float | Tensor = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_lr(lr)
        check_not_negative("momentum value", momentum)
        check_not_negative("weight_decay value", weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay, "nesterov": nesterov,
            "maximize": maximize, "foreach": foreach, "differentiable": differentiable, "fused": fused,
        }  # fmt: skip
        super().__init__(params, defaults)

    def arrays(self, group: dict[str, Any]) -> dict[str, float]:
        return {"momentum_buffer": 0.0} if group["momentum"] != 0 else {}

    def numbers(self, group: dict[str, Any]) -> dict[str, float]:
        return {"_started": 0.0}

    def settings(self, F: Any, group: dict[str, Any], numbers: dict[str, Any]) -> dict[str, Any]:
        # The first gradient is not dampened.
        new = 1 - group["dampening"] * numbers["_started"] if group["dampening"] != 0 else None
        numbers["_started"] += 1 - numbers["_started"]
        names = ("lr", "momentum", "weight_decay", "nesterov", "maximize")
        return {**{name: group[name] for name in names}, "new": new}
