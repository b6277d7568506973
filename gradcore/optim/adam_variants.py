"""Adamax, NAdam and RAdam: other ways to use the means of Adam."""

from __future__ import annotations

from typing import Any

from gradcore.optim.checks import check_betas, check_lr, check_not_negative
from gradcore.optim.elementwise import ElementwiseOptimizer
from gradcore.optim.flat_state import rounded
from gradcore.optim.optimizer import ParamsT
from gradcore.tensor import Tensor

__all__ = ["Adamax", "NAdam", "RAdam"]


def adamax(
    F: Any,
    p: Any,
    g: Any,
    m: Any,
    largest: Any,
    *,
    beta1: float,
    beta2: float,
    step_size: float,
    eps: float,
    weight_decay: float,
    maximize: bool,
) -> None:
    """A step along the mean gradient over the largest one that is not forgotten yet."""
    if maximize:
        g = -g
    if weight_decay != 0:
        g = g + p * weight_decay
    m += (g - m) * (1 - beta1)
    largest[...] = newest = F.maximum(largest * beta2, F.abs(g) + eps)
    p -= m / newest * step_size


def nadam(
    F: Any,
    p: Any,
    g: Any,
    m: Any,
    v: Any,
    *,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    shrink: float | None,
    correction: float,
    grad_step: float,
    mean_step: float,
    maximize: bool,
) -> None:
    """Adam's step with a share of the gradient itself; `correction` is that of the mean square."""
    if maximize:
        g = -g
    if weight_decay != 0:
        g = g + p * weight_decay
    if shrink is not None:
        p *= shrink
    m += (g - m) * (1 - beta1)
    v *= beta2
    v += g * g * (1 - beta2)
    p -= (g * grad_step + m * mean_step) / (F.sqrt(v / correction) + eps)


def radam(
    F: Any,
    p: Any,
    g: Any,
    m: Any,
    v: Any,
    *,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    shrink: float | None,
    step_size: float,
    adaptive: Any,
    maximize: bool,
) -> None:
    """Adam's step, or one along the mean gradient alone as long as the mean square is too uncertain.

    `adaptive` is a bool, or numbers on a device that are 0 or 1.
    """
    if maximize:
        g = -g
    if weight_decay != 0:
        g = g + p * weight_decay
    if shrink is not None:
        p *= shrink
    m += (g - m) * (1 - beta1)
    v *= beta2
    v += g * g * (1 - beta2)
    direction = m
    if adaptive is not False:
        adapted = m / (F.sqrt(v) + eps)
        direction = adapted if adaptive is True else F.where(adaptive, adapted, m)
    p -= direction * step_size


def _check(lr: Any, betas: tuple[float, float], eps: float, weight_decay: float) -> None:
    check_lr(lr)
    check_not_negative("epsilon value", eps)
    check_betas(betas)
    check_not_negative("weight_decay value", weight_decay)


def _decay(group: dict[str, Any]) -> dict[str, Any]:
    """The settings of weight decay, which is added to the gradient or shrinks the parameter."""
    if group["decoupled_weight_decay"]:
        return {"weight_decay": 0, "shrink": 1 - group["lr"] * group["weight_decay"]}
    return {"weight_decay": group["weight_decay"], "shrink": None}


class Adamax(ElementwiseOptimizer):
    """`Adam` with the maximum of gradients in the place of their mean square.

    Parameters
    ----------
    params : iterable
        Tensors, pairs of a name and a tensor, or dicts that are groups.
    lr : float or Tensor
        The learning rate.
    betas : tuple of float
        How slowly the mean of the gradients changes, and how slowly their maximum falls.
    eps : float
        Added to the size of gradients.
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
    >>> optimizer = gc.optim.Adamax([p])
    >>> p.square().sum().backward()
    >>> optimizer.step()
    >>> bool((p.abs() < gc.tensor([1.0, 2.0])).all())
    True
    """

    formula = staticmethod(adamax)

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        _check(lr, betas, eps, weight_decay)
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def arrays(self, group: dict[str, Any]) -> dict[str, float]:
        return {"exp_avg": 0.0, "exp_inf": 0.0}

    def settings(self, F: Any, group: dict[str, Any], numbers: dict[str, Any]) -> dict[str, Any]:
        numbers["step"] += 1
        beta1, beta2 = group["betas"]
        return {
            "beta1": beta1, "beta2": beta2, "step_size": group["lr"] / (1 - beta1 ** numbers["step"]),
            **{name: group[name] for name in ("eps", "weight_decay", "maximize")},
        }  # fmt: skip


class NAdam(ElementwiseOptimizer):
    """`Adam` with Nesterov's look ahead.

    Parameters
    ----------
    params : iterable
        Tensors, pairs of a name and a tensor, or dicts that are groups.
    lr : float or Tensor
        The learning rate.
    betas : tuple of float
        How slowly the mean of the gradients and the mean of their squares change.
    eps : float
        Added to the denominator.
    weight_decay : float
        Adds so much of the parameter to its gradient.
    momentum_decay : float
        How fast the momentum approaches its final value.
    decoupled_weight_decay : bool
        Shrink the parameter instead of adding to its gradient, as `AdamW`.
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
    >>> optimizer = gc.optim.NAdam([p])
    >>> p.square().sum().backward()
    >>> optimizer.step()
    >>> bool((p.abs() < gc.tensor([1.0, 2.0])).all())
    True
    """

    formula = staticmethod(nadam)

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        _check(lr, betas, eps, weight_decay)
        check_not_negative("momentum_decay value", momentum_decay)
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize, "foreach": foreach,
            "capturable": capturable, "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def arrays(self, group: dict[str, Any]) -> dict[str, float]:
        return {"exp_avg": 0.0, "exp_avg_sq": 0.0}

    def numbers(self, group: dict[str, Any]) -> dict[str, float]:
        return {"step": 0.0, "mu_product": 1.0}

    def settings(self, F: Any, group: dict[str, Any], numbers: dict[str, Any]) -> dict[str, Any]:
        numbers["step"] += 1
        (beta1, beta2), lr, step = group["betas"], group["lr"], numbers["step"]
        mu, mu_next = (beta1 * (1 - 0.5 * 0.96 ** (n * group["momentum_decay"])) for n in (step, step + 1))
        product = numbers["mu_product"] = rounded(numbers["mu_product"] * rounded(mu))
        return {
            "beta1": beta1, "beta2": beta2, "eps": group["eps"], **_decay(group), "correction": 1 - beta2**step,
            "grad_step": lr * (1 - mu) / (1 - product), "mean_step": lr * mu_next / (1 - product * mu_next),
            "maximize": group["maximize"],
        }  # fmt: skip


class RAdam(ElementwiseOptimizer):
    """`Adam` that waits with adaptive step sizes until the mean square is known well enough.

    Parameters
    ----------
    params : iterable
        Tensors, pairs of a name and a tensor, or dicts that are groups.
    lr : float or Tensor
        The learning rate.
    betas : tuple of float
        How slowly the mean of the gradients and the mean of their squares change.
    eps : float
        Added to the denominator.
    weight_decay : float
        Adds so much of the parameter to its gradient.
    decoupled_weight_decay : bool
        Shrink the parameter instead of adding to its gradient, as `AdamW`.
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
    >>> optimizer = gc.optim.RAdam([p])
    >>> p.square().sum().backward()
    >>> optimizer.step()
    >>> bool((p.abs() < gc.tensor([1.0, 2.0])).all())
    True
    """

    formula = staticmethod(radam)

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        _check(lr, betas, eps, weight_decay)
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
            "foreach": foreach, "capturable": capturable, "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def arrays(self, group: dict[str, Any]) -> dict[str, float]:
        return {"exp_avg": 0.0, "exp_avg_sq": 0.0}

    def settings(self, F: Any, group: dict[str, Any], numbers: dict[str, Any]) -> dict[str, Any]:
        numbers["step"] += 1
        (beta1, beta2), step = group["betas"], numbers["step"]
        step_size, correction = group["lr"] / (1 - beta1**step), 1 - beta2**step
        longest = 2 / (1 - beta2) - 1
        length = longest - 2 * step * beta2**step / correction
        adaptive = length > 5
        longest, length = max(longest, 5.0), F.maximum(length, 5.0)  # what is smaller has no root, and is not used
        known = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
        step_size = F.where(adaptive, step_size * (known * correction) ** 0.5, step_size)
        return {
            "beta1": beta1, "beta2": beta2, "eps": group["eps"], **_decay(group), "step_size": step_size,
            "adaptive": adaptive, "maximize": group["maximize"],
        }  # fmt: skip
