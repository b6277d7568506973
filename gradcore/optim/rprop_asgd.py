"""Rprop, for gradients of whole data sets, and averaged stochastic gradient descent."""

from __future__ import annotations

from typing import Any

from gradcore.optim.checks import check_lr, check_not_negative
from gradcore.optim.elementwise import ElementwiseOptimizer
from gradcore.optim.flat_state import value_of
from gradcore.optim.optimizer import ParamsT
from gradcore.tensor import Tensor

__all__ = ["ASGD", "Rprop"]


def rprop(
    F: Any,
    p: Any,
    g: Any,
    before: Any,
    size: Any,
    *,
    shrink: float,
    grow: float,
    smallest: float,
    largest: float,
    maximize: bool,
) -> None:
    """A step by the sign of the gradient; its size grows while signs stay the same, and shrinks where they change."""
    if maximize:
        g = -g
    agreement = F.sign(g * (before + 0))  # a copy: a recorded product would need `before` as it is now
    turned = agreement < 0
    factor = F.where(turned, shrink, F.where(agreement > 0, grow, F.ones_like(g)))
    size[...] = new = F.clamp(size * factor, smallest, largest)
    g = F.where(turned, g * 0, g)
    p -= F.sign(g) * new
    before[...] = g


def asgd(
    F: Any,
    p: Any,
    g: Any,
    average: Any,
    *,
    eta: float,
    shrink: float,
    mu: float | None,
    weight_decay: float,
    maximize: bool,
) -> None:
    """A step down the gradient, and the average of the parameter over the steps; `mu` None stands for 1."""
    if maximize:
        g = -g
    if weight_decay != 0:
        g = g + p * weight_decay
    p *= shrink
    p -= g * eta
    if mu is None:
        average[...] = p
    else:
        average += (p - average) * mu


class Rprop(ElementwiseOptimizer):
    """Steps by the signs of gradients, with a size of its own for each element.

    Parameters
    ----------
    params : iterable
        Tensors, pairs of a name and a tensor, or dicts that are groups.
    lr : float or Tensor
        The size of the first step.
    etas : tuple of float
        By how much sizes shrink and grow.
    step_sizes : tuple of float
        The smallest and the largest size.
    foreach : bool, optional
        Accepted and kept as PyTorch's; the step is the same.
    capturable : bool
        Count the steps on the CUDA device, so that `cuda.graph` can capture them.
    maximize : bool
        Step up the gradient.
    differentiable : bool
        Record the step, so that gradients flow through it.

    Raises
    ------
    ValueError
        If an option is out of its range.

    Examples
    --------
    >>> import gradcore as gc
    >>> p = gc.nn.Parameter(gc.tensor([1.0, -2.0]))
    >>> optimizer = gc.optim.Rprop([p])
    >>> p.square().sum().backward()
    >>> optimizer.step()
    >>> bool((p.abs() < gc.tensor([1.0, 2.0])).all())
    True
    """

    formula = staticmethod(rprop)

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        defaults = {
            "lr": lr, "etas": etas, "step_sizes": step_sizes, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "capturable": capturable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def arrays(self, group: dict[str, Any]) -> dict[str, Any]:
        return {"prev": 0.0, "step_size": group["lr"]}

    def settings(self, F: Any, group: dict[str, Any], numbers: dict[str, Any]) -> dict[str, Any]:
        numbers["step"] += 1
        (shrink, grow), (smallest, largest) = group["etas"], group["step_sizes"]
        return {
            "shrink": shrink, "grow": grow, "smallest": smallest, "largest": largest, "maximize": group["maximize"]
        }  # fmt: skip


class ASGD(ElementwiseOptimizer):
    """Averaged stochastic gradient descent.

    Parameters
    ----------
    params : iterable
        Tensors, pairs of a name and a tensor, or dicts that are groups.
    lr : float or Tensor
        The learning rate.
    lambd : float
        How much parameters shrink.
    alpha : float
        How fast the learning rate falls.
    t0 : float
        The step at which averaging starts.
    weight_decay : float
        Adds so much of the parameter to its gradient.
    foreach : bool, optional
        Accepted and kept as PyTorch's; the step is the same.
    capturable : bool
        Count the steps on the CUDA device, so that `cuda.graph` can capture them.
    maximize : bool
        Step up the gradient.
    differentiable : bool
        Record the step, so that gradients flow through it.

    Raises
    ------
    ValueError
        If an option is out of its range.

    Examples
    --------
    >>> import gradcore as gc
    >>> p = gc.nn.Parameter(gc.tensor([1.0, -2.0]))
    >>> optimizer = gc.optim.ASGD([p])
    >>> p.square().sum().backward()
    >>> optimizer.step()
    >>> bool((p.abs() < gc.tensor([1.0, 2.0])).all())
    True
    """

    formula = staticmethod(asgd)

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_lr(lr)
        check_not_negative("weight_decay value", weight_decay)
        defaults = {
            "lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def arrays(self, group: dict[str, Any]) -> dict[str, Any]:
        return {"ax": 0.0}

    def numbers(self, group: dict[str, Any]) -> dict[str, Any]:
        return {"step": 0.0, "eta": group["lr"], "mu": 1.0}

    def settings(self, F: Any, group: dict[str, Any], numbers: dict[str, Any]) -> dict[str, Any]:
        numbers["step"] += 1
        eta, mu, decay, lr = numbers["eta"], numbers["mu"], group["lambd"], value_of(group["lr"])
        numbers["eta"] = lr / (1 + decay * lr * numbers["step"]) ** group["alpha"]
        numbers["mu"] = 1 / F.maximum(numbers["step"] - group["t0"], 1.0)
        return {
            "eta": eta, "shrink": 1 - decay * eta, "mu": None if isinstance(mu, float) and mu == 1 else mu,
            "weight_decay": group["weight_decay"], "maximize": group["maximize"],
        }  # fmt: skip
