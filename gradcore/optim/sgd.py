"""The optimiser SGD (stochastic gradient descent)."""

from __future__ import annotations

from typing import Any

from gradcore.optim.elementwise import ElementwiseOptimizer, effective_grad
from gradcore.optim.flat_state import value_of
from gradcore.optim.optimizer import ParamsT
from gradcore.optim.options import Option, checked, with_options
from gradcore.tensor import Tensor

__all__ = ["SGD"]


def sgd(
    F: Any,
    p: Any,
    g: Any,
    *buffer: Any,
    lr: float,
    momentum: float,
    grad_factor: float | None,
    weight_decay: float,
    nesterov: bool,
    maximize: bool,
) -> None:
    """Update `p` along the gradient. With a momentum `buffer`, the gradient is added to it times `grad_factor`."""
    g = effective_grad(p, g, weight_decay, maximize)
    if buffer:
        (b,) = buffer
        b *= momentum
        b += g if grad_factor is None else g * grad_factor
        g = g + b * momentum if nesterov else b
    p -= g * lr


@with_options(dampening=Option("Dampening of the gradients that are added to the momentum buffer."))
class SGD(ElementwiseOptimizer):
    """Stochastic gradient descent, optionally with momentum.

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
        options = checked(locals())
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, options)

    def tensor_state(self, group: dict[str, Any]) -> dict[str, Any]:
        return {"momentum_buffer": 0.0} if group["momentum"] != 0 else {}

    def scalar_state(self, group: dict[str, Any]) -> dict[str, Any]:
        return {"_started": 0.0}

    def hyperparameters(self, F: Any, group: dict[str, Any], scalars: dict[str, Any]) -> dict[str, Any]:
        # The first gradient is not dampened.
        grad_factor = 1 - group["dampening"] * scalars["_started"] if group["dampening"] != 0 else None
        scalars["_started"] += 1 - scalars["_started"]
        names = ("lr", "momentum", "weight_decay", "nesterov", "maximize")
        return {**{name: group[name] for name in names}, "grad_factor": grad_factor}

    def _step_sparse(self, group: dict[str, Any], p: Any, grad: Any, state: dict[str, Any]) -> None:
        grad = -grad if group["maximize"] else grad
        if group["weight_decay"] != 0:
            grad = grad.add(p, alpha=group["weight_decay"])  # raises, because the sum is dense
        if group["momentum"] != 0:
            buffer = state.get("momentum_buffer")
            if buffer is None:
                buffer = state["momentum_buffer"] = grad.clone()
            else:
                buffer.mul_(group["momentum"]).add_(grad, alpha=1 - group["dampening"])
            grad = grad.add(buffer, alpha=group["momentum"]) if group["nesterov"] else buffer
        p.add_(grad, alpha=-value_of(group["lr"]))
