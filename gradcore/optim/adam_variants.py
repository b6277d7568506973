"""Adamax, NAdam and RAdam, variants of Adam."""

from __future__ import annotations

from typing import Any

from gradcore.optim.elementwise import ElementwiseOptimizer, effective_grad
from gradcore.optim.flat_state import round_to_state_dtype
from gradcore.optim.optimizer import ParamsT
from gradcore.optim.options import OPTIONS, Option, checked, non_negative, with_options
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
    """Update `p` by Adam with an exponentially weighted infinity norm of the gradients, `largest`, as second moment."""
    g = effective_grad(p, g, weight_decay, maximize)
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
    decay_factor: float | None,
    correction: float,
    grad_step: float,
    mean_step: float,
    maximize: bool,
) -> None:
    """Update `p` by Adam with Nesterov momentum. `correction` is the bias correction of the second moment."""
    g = effective_grad(p, g, weight_decay, maximize)
    if decay_factor is not None:
        p *= decay_factor
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
    decay_factor: float | None,
    step_size: float,
    adaptive: Any,
    maximize: bool,
) -> None:
    """Update `p` by Adam where `adaptive` (a bool, or 0 or 1 on a device), else along the first moment alone."""
    g = effective_grad(p, g, weight_decay, maximize)
    if decay_factor is not None:
        p *= decay_factor
    m += (g - m) * (1 - beta1)
    v *= beta2
    v += g * g * (1 - beta2)
    direction = m
    if adaptive is not False:
        adapted = m / (F.sqrt(v) + eps)
        direction = adapted if adaptive is True else F.where(adaptive, adapted, m)
    p -= direction * step_size


def _decay(group: dict[str, Any]) -> dict[str, Any]:
    """Return the hyperparameters of weight decay, either an L2 penalty or decoupled."""
    if group["decoupled_weight_decay"]:
        return {"weight_decay": 0, "decay_factor": 1 - group["lr"] * group["weight_decay"]}
    return {"weight_decay": group["weight_decay"], "decay_factor": None}


@with_options(betas=OPTIONS["betas"]._replace(description="Decay rates of the first moment and of the infinity norm."))
class Adamax(ElementwiseOptimizer):
    """Adamax: `Adam` with the infinity norm of the gradients as second moment."""

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
        super().__init__(params, checked(locals()))

    def tensor_state(self, group: dict[str, Any]) -> dict[str, Any]:
        return {"exp_avg": 0.0, "exp_inf": 0.0}

    def hyperparameters(self, F: Any, group: dict[str, Any], scalars: dict[str, Any]) -> dict[str, Any]:
        options, (beta1, beta2) = super().hyperparameters(F, group, scalars), group["betas"]
        step_size = group["lr"] / (1 - beta1 ** scalars["step"])
        return {**options, "beta1": beta1, "beta2": beta2, "step_size": step_size}


@with_options(
    "lr betas eps weight_decay momentum_decay decoupled_weight_decay maximize",
    momentum_decay=Option("Momentum decay coefficient.", non_negative("momentum_decay value")),
)
class NAdam(ElementwiseOptimizer):
    """NAdam: `Adam` with Nesterov momentum."""

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
        super().__init__(params, checked(locals()))

    def tensor_state(self, group: dict[str, Any]) -> dict[str, Any]:
        return {"exp_avg": 0.0, "exp_avg_sq": 0.0}

    def scalar_state(self, group: dict[str, Any]) -> dict[str, Any]:
        return {"step": 0.0, "mu_product": 1.0}

    def hyperparameters(self, F: Any, group: dict[str, Any], scalars: dict[str, Any]) -> dict[str, Any]:
        options = super().hyperparameters(F, group, scalars)
        (beta1, beta2), lr, step = group["betas"], group["lr"], scalars["step"]
        mu, mu_next = (beta1 * (1 - 0.5 * 0.96 ** (n * group["momentum_decay"])) for n in (step, step + 1))
        product = scalars["mu_product"] = round_to_state_dtype(scalars["mu_product"] * round_to_state_dtype(mu))
        return {
            **options, **_decay(group), "beta1": beta1, "beta2": beta2, "correction": 1 - beta2**step,
            "grad_step": lr * (1 - mu) / (1 - product), "mean_step": lr * mu_next / (1 - product * mu_next),
        }  # fmt: skip


@with_options("lr betas eps weight_decay maximize foreach capturable")
class RAdam(ElementwiseOptimizer):
    """RAdam: `Adam` whose step sizes are adaptive once the variance of the second moment is tractable."""

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
        super().__init__(params, checked(locals()))

    def tensor_state(self, group: dict[str, Any]) -> dict[str, Any]:
        return {"exp_avg": 0.0, "exp_avg_sq": 0.0}

    def hyperparameters(self, F: Any, group: dict[str, Any], scalars: dict[str, Any]) -> dict[str, Any]:
        options = super().hyperparameters(F, group, scalars)
        (beta1, beta2), step = group["betas"], scalars["step"]
        step_size, correction = group["lr"] / (1 - beta1**step), 1 - beta2**step
        longest = 2 / (1 - beta2) - 1
        length = longest - 2 * step * beta2**step / correction
        adaptive = length > 5
        # Smaller values have no real root; their result is not used.
        longest, length = max(longest, 5.0), F.maximum(length, 5.0)
        rectification = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
        step_size = F.where(adaptive, step_size * (rectification * correction) ** 0.5, step_size)
        return {
            **options, **_decay(group), "beta1": beta1, "beta2": beta2, "step_size": step_size, "adaptive": adaptive,
        }  # fmt: skip
