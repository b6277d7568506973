"""Rprop and averaged stochastic gradient descent (ASGD)."""

from __future__ import annotations

from typing import Any

from gradcore.optim.elementwise import ElementwiseOptimizer, effective_grad
from gradcore.optim.flat_state import value_of
from gradcore.optim.optimizer import ParamsT
from gradcore.optim.options import OPTIONS, Option, checked, with_options
from gradcore.tensor import Tensor

__all__ = ["ASGD", "Rprop"]


def rprop(
    F: Any,
    p: Any,
    g: Any,
    before: Any,
    size: Any,
    *,
    decrease: float,
    increase: float,
    smallest: float,
    largest: float,
    maximize: bool,
) -> None:
    """Update `p` by a step along the gradient's sign.

    The step grows while the sign stays, and shrinks when it changes.
    """
    if maximize:
        g = -g
    agreement = F.sign(g * (before + 0))  # a copy: a recorded product would need `before` as it is now
    is_reversed = agreement < 0
    factor = F.where(is_reversed, decrease, F.where(agreement > 0, increase, F.ones_like(g)))
    size[...] = step_sizes = F.clamp(size * factor, smallest, largest)
    g = F.where(is_reversed, g * 0, g)
    p -= F.sign(g) * step_sizes
    before[...] = g


def asgd(
    F: Any,
    p: Any,
    g: Any,
    average: Any,
    *,
    eta: float,
    decay_factor: float,
    mu: float | None,
    weight_decay: float,
    maximize: bool,
) -> None:
    """Update `p` by a step against the gradient, and the average of `p` over the steps. `mu` None means 1."""
    g = effective_grad(p, g, weight_decay, maximize)
    p *= decay_factor
    p -= g * eta
    if mu is None:
        average[...] = p
    else:
        average += (p - average) * mu


def _check_etas(etas: tuple[float, float]) -> None:
    if not 0.0 < etas[0] < 1.0 < etas[1]:
        raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")


@with_options(
    "lr etas step_sizes foreach maximize differentiable",
    lr=OPTIONS["lr"]._replace(description="Initial step size."),
    etas=Option("Factors that decrease and increase the step sizes.", _check_etas),
    step_sizes=Option("Smallest and largest step size."),
)
class Rprop(ElementwiseOptimizer):
    """Rprop: steps along the signs of gradients with an adaptive step size for each element, for full batches."""

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
        super().__init__(params, checked(locals()))

    def tensor_state(self, group: dict[str, Any]) -> dict[str, Any]:
        return {"prev": 0.0, "step_size": group["lr"]}

    def hyperparameters(self, F: Any, group: dict[str, Any], scalars: dict[str, Any]) -> dict[str, Any]:
        options = super().hyperparameters(F, group, scalars)
        (decrease, increase), (smallest, largest) = group["etas"], group["step_sizes"]
        return {**options, "decrease": decrease, "increase": increase, "smallest": smallest, "largest": largest}


@with_options(
    lambd=Option("Decay coefficient of the parameters."),
    alpha=Option("Exponent of the learning-rate decay."),
    t0=Option("Step at which averaging starts."),
)
class ASGD(ElementwiseOptimizer):
    """Averaged stochastic gradient descent. The state ``ax`` is the average of a parameter over the steps."""

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
        super().__init__(params, checked(locals()))

    def tensor_state(self, group: dict[str, Any]) -> dict[str, Any]:
        return {"ax": 0.0}

    def scalar_state(self, group: dict[str, Any]) -> dict[str, Any]:
        return {"step": 0.0, "eta": group["lr"], "mu": 1.0}

    def hyperparameters(self, F: Any, group: dict[str, Any], scalars: dict[str, Any]) -> dict[str, Any]:
        options = super().hyperparameters(F, group, scalars)
        eta, mu, decay, lr = scalars["eta"], scalars["mu"], group["lambd"], value_of(group["lr"])
        scalars["eta"] = lr / (1 + decay * lr * scalars["step"]) ** group["alpha"]
        scalars["mu"] = 1 / F.maximum(scalars["step"] - group["t0"], 1.0)
        return {
            **options, "eta": eta, "decay_factor": 1 - decay * eta,
            "mu": None if isinstance(mu, float) and mu == 1 else mu,
        }  # fmt: skip
