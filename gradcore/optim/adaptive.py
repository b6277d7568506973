"""Adagrad, RMSprop and Adadelta, whose step sizes adapt to the squares of past gradients."""

from __future__ import annotations

from typing import Any

from gradcore.optim.elementwise import ElementwiseOptimizer, effective_grad
from gradcore.optim.flat_state import value_of
from gradcore.optim.optimizer import ParamsT
from gradcore.optim.options import Option, checked, non_negative, with_options
from gradcore.tensor import Tensor

__all__ = ["Adadelta", "Adagrad", "RMSprop"]


def adagrad(
    F: Any, p: Any, g: Any, total: Any, *, step_size: float, eps: float, weight_decay: float, maximize: bool
) -> None:
    """Update `p` along the gradient divided by the root of the sum of all squared gradients."""
    g = effective_grad(p, g, weight_decay, maximize)
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
    """Update `p` along the gradient divided by its root mean square.

    `rest` contains the momentum buffer and the first moment, if there are any.
    """
    g = effective_grad(p, g, weight_decay, maximize)
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
    """Update `p` along the gradient scaled to the root mean square of past updates."""
    g = effective_grad(p, g, weight_decay, maximize)
    square *= rho
    square += g * g * (1 - rho)
    delta = F.sqrt(delta_square + eps) / F.sqrt(square + eps) * g
    delta_square *= rho
    delta_square += delta * delta * (1 - rho)
    p -= delta * lr


@with_options(
    "lr lr_decay eps weight_decay initial_accumulator_value",
    lr_decay=Option("Learning-rate decay coefficient.", non_negative("lr_decay value")),
    initial_accumulator_value=Option(
        "Initial sum of squared gradients.", non_negative("initial_accumulator_value value")
    ),
)
class Adagrad(ElementwiseOptimizer):
    """Adagrad: gradients divided by the root of the sum of all squared gradients."""

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
        super().__init__(params, checked(locals()))
        for group in self.param_groups:  # unlike other optimisers, Adagrad has a state before the first step
            self._plan(group, group["params"])

    def tensor_state(self, group: dict[str, Any]) -> dict[str, Any]:
        return {"sum": self.defaults["initial_accumulator_value"]}

    def hyperparameters(self, F: Any, group: dict[str, Any], scalars: dict[str, Any]) -> dict[str, Any]:
        options = super().hyperparameters(F, group, scalars)
        return {**options, "step_size": group["lr"] / (1 + (scalars["step"] - 1) * group["lr_decay"])}

    def _step_sparse(self, group: dict[str, Any], p: Any, grad: Any, state: dict[str, Any]) -> None:
        if group["weight_decay"] != 0:
            raise RuntimeError("weight_decay option is not compatible with sparse gradients")
        grad = (-grad if group["maximize"] else grad).coalesce()
        step_size = value_of(group["lr"]) / (1 + state["step"].item() * group["lr_decay"])
        state["sum"].add_(grad.square())
        total = state["sum"].sparse_mask(grad).values()
        p.add_(grad.like(grad.values() / (total.sqrt() + group["eps"])), alpha=-step_size)
        state["step"] += 1


@with_options(
    "lr momentum alpha eps centered weight_decay",
    alpha=Option("Decay rate of the second moment estimate.", non_negative("alpha value")),
    centered=Option("Divide by the standard deviation of the gradients instead of their root mean square."),
)
class RMSprop(ElementwiseOptimizer):
    """RMSprop: gradients divided by the root of a running mean of their squares."""

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
        super().__init__(params, checked(locals()))

    def tensor_state(self, group: dict[str, Any]) -> dict[str, Any]:
        used = {"square_avg": True, "momentum_buffer": group["momentum"] > 0, "grad_avg": group["centered"]}
        return {name: 0.0 for name, use in used.items() if use}


def _check_rho(rho: float) -> None:
    if not 0.0 <= rho <= 1.0:
        raise ValueError(f"Invalid rho value: {rho}")


@with_options(
    "lr rho eps weight_decay maximize capturable foreach",
    rho=Option("Decay rate of the running averages of squared gradients and squared updates.", _check_rho),
)
class Adadelta(ElementwiseOptimizer):
    """Adadelta: step sizes adapted to running averages of squared gradients and squared updates."""

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
        super().__init__(params, checked(locals()))

    def tensor_state(self, group: dict[str, Any]) -> dict[str, Any]:
        return {"square_avg": 0.0, "acc_delta": 0.0}
