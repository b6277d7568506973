"""Adafactor and Muon, optimisers whose update of an element depends on the whole matrix."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from gradcore.autograd.grad_mode import no_grad
from gradcore.core.dtypes import finfo
from gradcore.optim.flat_state import value_of
from gradcore.optim.optimizer import Optimizer, ParamsT, evaluate
from gradcore.optim.options import OPTIONS, Option, checked, non_negative, valid_lr, with_options
from gradcore.tensor import Tensor
from gradcore.tensor.creation import tensor, zeros_like

__all__ = ["Adafactor", "Muon"]


_non_negative = partial(non_negative, message="{what} should be >= 0 but is: {value}")
_LR = OPTIONS["lr"]._replace(check=valid_lr(_non_negative("Learning rate")))
_DECAY = "Coefficient of decoupled weight decay."


class _MatrixOptimizer(Optimizer):
    """Base class of optimisers that update parameters one by one."""

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters from their gradients.

        Parameters
        ----------
        closure : callable, optional
            Reevaluates the loss and its gradients, and returns the loss.

        Returns
        -------
        object
            The result of `closure`.
        """
        loss = None if closure is None else evaluate(closure)
        with no_grad():
            for group in self.param_groups:
                lr = value_of(group["lr"])
                for p in group["params"]:
                    if p.grad is not None:
                        if p.is_complex():
                            raise RuntimeError(f"{type(self).__name__} does not support complex parameters")
                        if not p.grad._strided:
                            raise RuntimeError(f"{type(self).__name__} does not support sparse gradients")
                        self._update(p, p.grad, self.state[p], group, lr)
        return loss

    def _update(self, p: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any], lr: float) -> None:
        """Write the parameter by one operation, and replace its state after that: a step that fails changes neither."""
        raise NotImplementedError


# -- Adafactor --------------------------------------------------------------------------------------------------------


def _check_decay(beta2_decay: float) -> None:
    if not beta2_decay <= 0.0:
        raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")


def _check_eps(eps: tuple[float | None, float]) -> None:
    if eps[0] is not None:
        _non_negative("epsilon1")(eps[0])
    _non_negative("epsilon2")(eps[1])


def _check_threshold(d: float) -> None:
    if not d >= 1.0:
        raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")


@with_options(
    lr=_LR._replace(description="Largest step, relative to the root mean square of the parameter."),
    weight_decay=Option(_DECAY, _non_negative("weight_decay")),
    beta2_decay=Option(
        "Exponent of the decay of the second moment: new squares weigh ``step**beta2_decay``.", _check_decay
    ),
    eps=Option("Least root of second moments (None: that of the dtype), and least size of a parameter.", _check_eps),
    d=Option("Clipping threshold: the largest root mean square of an update.", _check_threshold),
)
class Adafactor(_MatrixOptimizer):
    """Adafactor: second moments in factored form, stored only for the rows and columns of a matrix.

    Examples
    --------
    >>> import gradcore
    >>> weight = gradcore.ones(30, 20, requires_grad=True)
    >>> optimizer = gradcore.optim.Adafactor([weight])
    >>> weight.square().sum().backward()
    >>> optimizer.step()
    >>> sum(t.numel() for t in optimizer.state[weight].values())
    51
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, checked(locals()))

    def _state_shapes(self, group: dict[str, Any], p: Tensor) -> dict[str, tuple[int, ...]]:
        shape = tuple(p.shape)
        if p.ndim < 2:
            return {"variance": shape}
        return {"row_var": (*shape[:-1], 1), "col_var": (*shape[:-2], 1, shape[-1])}

    def _update(self, p: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any], lr: float) -> None:
        if not state:
            state.update({"step": tensor(0.0), **_initial_second_moments(grad)})
        step, (least, least_size) = float(state["step"]) + 1, group["eps"]
        least = finfo(p.dtype).eps if least is None else least
        size = _rms(p).clamp(min=least_size)
        squares, following = _second_moments(state, grad, step ** group["beta2_decay"], least)
        following["step"] = state["step"] + 1
        update = squares.clamp_(min=least * least).rsqrt_().mul_(-grad if group["maximize"] else grad)
        clipped = (_rms(update) / group["d"]).clamp(min=1.0)
        update.mul_(size * min(lr, step**-0.5) / clipped)
        if group["weight_decay"] != 0:
            p.copy_((p * (1 - lr * group["weight_decay"])).sub_(update))
        else:
            p.sub_(update)
        state.update(following)


def _initial_second_moments(grad: Tensor) -> dict[str, Tensor]:
    """Return second moments of zero: for the rows and columns of a matrix, or for the elements of a vector."""
    if grad.ndim < 2:
        return {"variance": zeros_like(grad)}
    return {"row_var": zeros_like(grad[..., :1]), "col_var": zeros_like(grad[..., :1, :])}


def _second_moments(state: dict[str, Any], grad: Tensor, new: float, least: float) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the second moment of each element, and the moments of the next state."""
    squares = grad * grad
    if grad.ndim < 2:
        variance = state["variance"].lerp(squares, new)
        return variance.clone(), {"variance": variance}
    rows = state["row_var"].lerp(squares.mean(-1, keepdim=True), new)
    columns = state["col_var"].lerp(squares.mean(-2, keepdim=True), new)
    of_elements = (rows @ columns).div_(rows.mean(-2, keepdim=True).clamp_(min=least))
    return of_elements, {"row_var": rows, "col_var": columns}


def _rms(t: Tensor) -> Tensor:
    return t.norm(2) / math.sqrt(t.numel() or 1)


# -- Muon -------------------------------------------------------------------------------------------------------------


def _check_adjustment(adjust_lr_fn: str | None) -> None:
    if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
        raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")


@with_options(
    params=Option("Matrices, pairs of a name and a matrix, or dicts that define groups."),
    lr=_LR,
    weight_decay=Option(_DECAY, _non_negative("weight decay")),
    momentum=OPTIONS["momentum"]._replace(check=_non_negative("momentum")),
    ns_coefficients=Option("Coefficients of the Newton-Schulz polynomial."),
    eps=Option("Least norm of an update, for numerical stability."),
    ns_steps=Option("Number of Newton-Schulz iterations."),
    adjust_lr_fn=Option(
        'How the learning rate depends on the shape of a matrix: "original" or "match_rms_adamw".', _check_adjustment
    ),
)
class Muon(_MatrixOptimizer):
    """Muon: momentum that is orthogonalized by Newton-Schulz iterations, for matrices.

    Examples
    --------
    >>> import gradcore
    >>> weight = gradcore.zeros(4, 4, requires_grad=True)
    >>> optimizer = gradcore.optim.Muon([weight], lr=1.0)
    >>> (weight * gradcore.rand(4, 4)).sum().backward()
    >>> optimizer.step()
    >>> bool(gradcore.linalg.svdvals(weight).max() < 1.3)
    True
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, ...] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        super().__init__(params, checked(locals()))
        for group in self.param_groups:
            for p in group["params"]:
                if p.ndim != 2:
                    raise ValueError(
                        f"Muon only supports 2D parameters whereas we found a parameter with size: {p.size()}"
                    )

    def _state_shapes(self, group: dict[str, Any], p: Tensor) -> dict[str, tuple[int, ...]]:
        return {"momentum_buffer": tuple(p.shape)}

    def _update(self, p: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any], lr: float) -> None:
        if not state:
            state["momentum_buffer"] = zeros_like(grad)
        momentum = group["momentum"]
        mean = state["momentum_buffer"].lerp(grad, 1 - momentum)
        direction = grad.lerp(mean, momentum) if group["nesterov"] else mean
        update = _orthogonalize(direction, group["ns_coefficients"], group["ns_steps"], group["eps"])
        factor = lr * _lr_factor(group["adjust_lr_fn"], *p.shape)
        p.copy_((p * (1 - lr * group["weight_decay"])).sub_(update.to(p.dtype) * factor))
        state["momentum_buffer"] = mean


def _orthogonalize(matrix: Tensor, coefficients: tuple[float, ...], steps: int, eps: float) -> Tensor:
    """Return a matrix with the singular vectors of `matrix` and singular values near 1.

    It uses Newton-Schulz iterations in bfloat16.
    """
    if steps >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if len(coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    a, b, c = coefficients
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.bfloat16().T if tall else matrix.bfloat16()
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        products = x @ x.T
        x = x.addmm(products.addmm(products, products, beta=b, alpha=c), x, beta=a)
    result: Tensor = x.T if tall else x
    return result


def _lr_factor(adjust: str | None, rows: int, columns: int) -> float:
    """Return the factor of the learning rate for a matrix with this shape."""
    return 0.2 * math.sqrt(max(rows, columns)) if adjust == "match_rms_adamw" else math.sqrt(max(1, rows / columns))
