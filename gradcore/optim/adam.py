"""Adam and AdamW."""

from __future__ import annotations

from typing import Any

from gradcore.optim.checks import check_betas, check_lr, check_not_negative
from gradcore.optim.elementwise import ElementwiseOptimizer
from gradcore.optim.optimizer import ParamsT
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
    shrink: float | None,
    maximize: bool,
) -> None:
    """A step along the mean gradient `m` over the root of the mean squared gradient `v` (or of its maximum).

    The corrections of both means are in `step_size` and `eps`; `shrink` is what decoupled weight decay leaves.
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
    for x in largest:
        x[...] = v = F.maximum(x, v)
    p -= m / (F.sqrt(v) + eps) * step_size


class Adam(ElementwiseOptimizer):
    """Steps of about `lr` for each element, whatever the size of its gradients.

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
    amsgrad : bool
        Divide by the largest mean of squares so far.
    foreach : bool, optional
        Accepted and kept as PyTorch's; the step is the same.
    fused : bool, optional
        Let a `GradScaler` leave it to the step to divide gradients, and on CUDA to the device to leave out a step.
    capturable : bool
        Count the steps on the CUDA device, so that `cuda.graph` can capture them.
    maximize : bool
        Step up the gradient.
    differentiable : bool
        Record the step, so that gradients flow through it.
    decoupled_weight_decay : bool
        Shrink the parameter instead of adding to its gradient, as `AdamW`.

    Raises
    ------
    ValueError
        If an option is out of its range.

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
        for name, option in (("lr", lr), ("betas[0]", betas[0]), ("betas[1]", betas[1])):
            if isinstance(option, Tensor) and foreach and not capturable:
                raise ValueError(f"{name} as a Tensor is not supported for capturable=False and foreach=True")
        check_lr(lr)
        check_not_negative("epsilon value", eps)
        check_betas(betas)
        check_not_negative("weight_decay value", weight_decay)
        if isinstance(betas[0], float) != isinstance(betas[1], float):
            raise ValueError("betas must be either both floats or both Tensors")
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
            "maximize": maximize, "foreach": foreach, "capturable": capturable, "differentiable": differentiable,
            "fused": fused, "decoupled_weight_decay": decoupled_weight_decay,
        }  # fmt: skip
        super().__init__(params, defaults)

    def arrays(self, group: dict[str, Any]) -> dict[str, float]:
        names = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")
        return dict.fromkeys(names if group["amsgrad"] else names[:2], 0.0)

    def settings(self, F: Any, group: dict[str, Any], numbers: dict[str, Any]) -> dict[str, Any]:
        numbers["step"] += 1
        (beta1, beta2), lr, decay = group["betas"], group["lr"], group["weight_decay"]
        decoupled = group["decoupled_weight_decay"]
        correction = (1 - beta2 ** numbers["step"]) ** 0.5
        return {
            "beta1": beta1, "beta2": beta2, "step_size": lr * correction / (1 - beta1 ** numbers["step"]),
            "eps": group["eps"] * correction, "weight_decay": 0 if decoupled else decay,
            "shrink": 1 - lr * decay if decoupled and decay != 0 else None, "maximize": group["maximize"],
        }  # fmt: skip


class AdamW(Adam):
    """`Adam` with weight decay that shrinks the parameters, apart from their gradients.

    Parameters
    ----------
    params : iterable
        Tensors, pairs of a name and a tensor, or dicts that are groups.
    lr, betas, eps, amsgrad, maximize, foreach, capturable, differentiable, fused
        As for `Adam`.
    weight_decay : float
        Every step multiplies the parameters by ``1 - lr * weight_decay``.

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
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize, capturable=capturable,
            differentiable=differentiable, fused=fused, decoupled_weight_decay=True,
        )  # fmt: skip

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True
