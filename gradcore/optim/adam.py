"""The optimisers Adam and AdamW."""

from __future__ import annotations

from typing import Any

from gradcore.optim.elementwise import ElementwiseOptimizer, effective_grad
from gradcore.optim.optimizer import ParamsT
from gradcore.optim.options import Option, arguments, checked, with_options
from gradcore.tensor import Tensor

__all__ = ["Adam", "AdamW"]


def adam(
    F: Any,
    p: Any,
    g: Any,
    m: Any,
    v: Any,
    *largest: Any,
    beta1: float,
    beta2: float,
    step_size: float,
    eps: float,
    weight_decay: float,
    decay_factor: float | None,
    maximize: bool,
) -> None:
    """Update `p` by Adam, with moments `m` and `v` and, for AMSGrad, the `largest` second moment so far.

    `step_size` and `eps` contain the bias corrections. `decay_factor` is the factor of decoupled weight decay.
    """
    g = effective_grad(p, g, weight_decay, maximize)
    if decay_factor is not None:
        p *= decay_factor
    m += (g - m) * (1 - beta1)
    v *= beta2
    v += g * g * (1 - beta2)
    for x in largest:
        before = x.clone() if isinstance(x, Tensor) else x  # the derivative of a recorded step reads this value
        x[...] = v = F.maximum(before, v)
    p -= m / (F.sqrt(v) + eps) * step_size


@with_options(
    "lr betas eps weight_decay amsgrad maximize foreach capturable differentiable fused",
    amsgrad=Option("Divide by the largest second moment so far (AMSGrad)."),
)
class Adam(ElementwiseOptimizer):
    """Adam: steps along the first moment of the gradients divided by the root of the second moment.

    Examples
    --------
    >>> import gradcore
    >>> x = gradcore.tensor([1.0, -20.0], requires_grad=True)
    >>> optimizer = gradcore.optim.Adam([x], lr=0.1)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x
    tensor([  0.9000, -19.9000], requires_grad=True)
    """

    formula = staticmethod(adam)

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        options = checked(locals())
        for name, option in (("lr", lr), ("betas[0]", betas[0]), ("betas[1]", betas[1])):
            if isinstance(option, Tensor) and foreach and not capturable:
                raise ValueError(f"{name} as a Tensor is not supported for capturable=False and foreach=True")
        if isinstance(betas[0], float) != isinstance(betas[1], float):
            raise ValueError("betas must be either both floats or both Tensors")
        super().__init__(params, options)

    def _step_sparse(self, group: dict[str, Any], p: Any, grad: Any, state: dict[str, Any]) -> None:
        raise RuntimeError("Adam does not support sparse gradients, please consider SparseAdam instead")

    def tensor_state(self, group: dict[str, Any]) -> dict[str, Any]:
        names = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")
        return dict.fromkeys(names if group["amsgrad"] else names[:2], 0.0)

    def hyperparameters(self, F: Any, group: dict[str, Any], scalars: dict[str, Any]) -> dict[str, Any]:
        scalars["step"] += 1
        (beta1, beta2), lr, decay = group["betas"], group["lr"], group["weight_decay"]
        decoupled = group["decoupled_weight_decay"]
        correction = (1 - beta2 ** scalars["step"]) ** 0.5
        return {
            "beta1": beta1, "beta2": beta2, "step_size": lr * correction / (1 - beta1 ** scalars["step"]),
            "eps": group["eps"] * correction, "weight_decay": 0 if decoupled else decay,
            "decay_factor": 1 - lr * decay if decoupled and decay != 0 else None, "maximize": group["maximize"],
        }  # fmt: skip


@with_options()
class AdamW(Adam):
    """`Adam` with decoupled weight decay: each step multiplies the parameters by ``1 - lr * weight_decay``.

    Examples
    --------
    >>> import gradcore
    >>> x = gradcore.tensor([1.0, 0.0], requires_grad=True)
    >>> optimizer = gradcore.optim.AdamW([x], lr=0.1, weight_decay=0.5)
    >>> x.sum().backward()
    >>> optimizer.step()
    >>> x
    tensor([ 0.8500, -0.1000], requires_grad=True)
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(**arguments(locals()), decoupled_weight_decay=True)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True
