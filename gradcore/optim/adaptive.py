"""Adagrad, RMSprop and Adadelta: step sizes from the squares of past gradients."""

from __future__ import annotations

from typing import Any

from gradcore.optim.checks import check_lr, check_not_negative
from gradcore.optim.elementwise import ElementwiseOptimizer
from gradcore.optim.optimizer import ParamsT
from gradcore.tensor import Tensor

__all__ = ["Adadelta", "Adagrad", "RMSprop"]


def adagrad(
    F: Any, p: Any, g: Any, total: Any, *, step_size: float, eps: float, weight_decay: float, maximize: bool
) -> None:
    """A step along the gradient over the root of the sum of all squares."""
    if maximize:
        g = -g
    if weight_decay != 0:
        g = g + p * weight_decay
    total += g * g
    p -= g / (F.sqrt(total) + eps) * step_size


def rmsprop(
    F: Any,
    p: Any,
    g: Any,
    square: Any,
    *rest: Any,
    lr: float,
    alpha: float,
    eps: float,
    weight_decay: float,
    momentum: float,
    centered: bool,
    maximize: bool,
) -> None:
    """A step along the gradient over the root of the mean square; `rest` is the momentum, and the mean gradient."""
    if maximize:
        g = -g
    if weight_decay != 0:
        g = g + p * weight_decay
    square *= alpha
    square += g * g * (1 - alpha)
    variance = square
    if centered:
        mean = rest[-1]
        mean += (g - mean) * (1 - alpha)
        variance = square - mean * mean
    direction = g / (F.sqrt(variance) + eps)
    if momentum > 0:
        b = rest[0]
        b *= momentum
        b += direction
        direction = b
    p -= direction * lr


def adadelta(
    F: Any,
    p: Any,
    g: Any,
    square: Any,
    delta_square: Any,
    *,
    lr: float,
    rho: float,
    eps: float,
    weight_decay: float,
    maximize: bool,
) -> None:
    """A step along the gradient in units of the mean past step."""
    if maximize:
        g = -g
    if weight_decay != 0:
        g = g + p * weight_decay
    square *= rho
    square += g * g * (1 - rho)
    delta = F.sqrt(delta_square + eps) / F.sqrt(square + eps) * g
    delta_square *= rho
    delta_square += delta * delta * (1 - rho)
    p -= delta * lr


class Adagrad(ElementwiseOptimizer):
    """Steps that get smaller with the sum of all squared gradients.

    Parameters
    ----------
    params : iterable
        Tensors, pairs of a name and a tensor, or dicts that are groups.
    lr : float or Tensor
        The learning rate.
    lr_decay : float
        How fast the learning rate falls with the number of steps.
    weight_decay : float
        Adds so much of the parameter to its gradient.
    initial_accumulator_value : float
        Where the sum of squares starts.
    eps : float
        Added to the denominator.
    foreach : bool, optional
        Accepted and kept as PyTorch's; the step is the same.
    fused : bool, optional
        Let a `GradScaler` leave it to the step to divide gradients, and on CUDA to the device to leave out a step.
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
    >>> optimizer = gc.optim.Adagrad([p])
    >>> p.square().sum().backward()
    >>> optimizer.step()
    >>> bool((p.abs() < gc.tensor([1.0, 2.0])).all())
    True
    """

    formula = staticmethod(adagrad)

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_lr(lr)
        check_not_negative("lr_decay value", lr_decay)
        check_not_negative("weight_decay value", weight_decay)
        check_not_negative("initial_accumulator_value value", initial_accumulator_value)
        check_not_negative("epsilon value", eps)
        defaults = {
            "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "fused": fused,
        }  # fmt: skip
        super().__init__(params, defaults)
        for group in self.param_groups:  # here, unlike elsewhere, states are there before the first step
            self._plan(group, group["params"])

    def arrays(self, group: dict[str, Any]) -> dict[str, float]:
        return {"sum": self.defaults["initial_accumulator_value"]}

    def settings(self, F: Any, group: dict[str, Any], numbers: dict[str, Any]) -> dict[str, Any]:
        numbers["step"] += 1
        step_size = group["lr"] / (1 + (numbers["step"] - 1) * group["lr_decay"])
        return {"step_size": step_size, **{name: group[name] for name in ("eps", "weight_decay", "maximize")}}


class RMSprop(ElementwiseOptimizer):
    """Steps along the gradient over the root of its mean square.

    Parameters
    ----------
    params : iterable
        Tensors, pairs of a name and a tensor, or dicts that are groups.
    lr : float or Tensor
        The learning rate.
    alpha : float
        How slowly the mean square changes.
    eps : float
        Added to the denominator.
    weight_decay : float
        Adds so much of the parameter to its gradient.
    momentum : float
        How much of the last steps' direction is kept.
    centered : bool
        Divide by the standard deviation instead of the root of the mean square.
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
    >>> optimizer = gc.optim.RMSprop([p])
    >>> p.square().sum().backward()
    >>> optimizer.step()
    >>> bool((p.abs() < gc.tensor([1.0, 2.0])).all())
    True
    """

    formula = staticmethod(rmsprop)

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        check_not_negative("epsilon value", eps)
        check_not_negative("momentum value", momentum)
        check_not_negative("weight_decay value", weight_decay)
        check_not_negative("alpha value", alpha)
        defaults = {
            "lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered,
            "weight_decay": weight_decay, "capturable": capturable, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def arrays(self, group: dict[str, Any]) -> dict[str, float]:
        used = {"square_avg": True, "momentum_buffer": group["momentum"] > 0, "grad_avg": group["centered"]}
        return {name: 0.0 for name, use in used.items() if use}

    def settings(self, F: Any, group: dict[str, Any], numbers: dict[str, Any]) -> dict[str, Any]:
        numbers["step"] += 1
        names = ("lr", "alpha", "eps", "weight_decay", "momentum", "centered", "maximize")
        return {name: group[name] for name in names}


class Adadelta(ElementwiseOptimizer):
    """Steps whose size follows from that of past steps and gradients.

    Parameters
    ----------
    params : iterable
        Tensors, pairs of a name and a tensor, or dicts that are groups.
    lr : float or Tensor
        A factor for every step.
    rho : float
        How slowly the mean squares change.
    eps : float
        Added to the mean squares.
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
    >>> optimizer = gc.optim.Adadelta([p])
    >>> p.square().sum().backward()
    >>> optimizer.step()
    >>> bool((p.abs() < gc.tensor([1.0, 2.0])).all())
    True
    """

    formula = staticmethod(adadelta)

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        check_not_negative("epsilon value", eps)
        check_not_negative("weight_decay value", weight_decay)
        defaults = {
            "lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
            "capturable": capturable, "foreach": foreach, "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def arrays(self, group: dict[str, Any]) -> dict[str, float]:
        return {"square_avg": 0.0, "acc_delta": 0.0}

    def settings(self, F: Any, group: dict[str, Any], numbers: dict[str, Any]) -> dict[str, Any]:
        numbers["step"] += 1
        return {name: group[name] for name in ("lr", "rho", "eps", "weight_decay", "maximize")}
