"""Adafactor and Muon: optimisers whose step for an element depends on the whole matrix that it is in."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from gradcore.autograd.grad_mode import enable_grad, no_grad
from gradcore.creation import tensor, zeros_like
from gradcore.dtypes import finfo
from gradcore.optim.flat_state import value_of
from gradcore.optim.optimizer import Optimizer, ParamsT
from gradcore.tensor import Tensor

__all__ = ["Adafactor", "Muon"]


def _check(lr: Any, weight_decay: float, decay_name: str) -> None:
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")
    _check_from_zero("Learning rate", lr)
    _check_from_zero(decay_name, weight_decay)


def _check_from_zero(what: str, value: Any) -> None:
    if not value >= 0.0:
        raise ValueError(f"{what} should be >= 0 but is: {value}")


class _MatrixOptimizer(Optimizer):
    """The base of optimisers that go through their parameters one by one."""

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters by their gradients.

        Parameters
        ----------
        closure : callable, optional
            Computes the loss again, with its gradients, and returns it.

        Returns
        -------
        object
            What `closure` returned.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        with no_grad():
            for group in self.param_groups:
                lr = value_of(group["lr"])
                for p in group["params"]:
                    if p.grad is not None:
                        if p.is_complex():
                            raise RuntimeError(f"{type(self).__name__} does not support complex parameters")
                        self._update(p, p.grad, self.state[p], group, lr)
        return loss

    def _update(self, p: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any], lr: float) -> None:
        raise NotImplementedError


# -- Adafactor --------------------------------------------------------------------------------------------------------


class Adafactor(_MatrixOptimizer):
    """Steps divided by the root of mean squares, of which a matrix keeps those of its rows and columns only.

    Parameters
    ----------
    params : iterable
        Tensors, pairs of a name and a tensor, or dicts that are groups.
    lr : float or Tensor
        The largest step, relative to the size of the parameter.
    beta2_decay : float
        The power of the number of steps that tells how much of the mean squares is new.
    eps : tuple of float or None
        The least root of mean squares (None: the precision of the dtype), and the least size of a parameter.
    d : float
        The largest root mean square of a step, before it is scaled.
    weight_decay : float
        Shrinks the parameter by so much of it, times the learning rate.
    foreach : bool, optional
        Accepted and kept as PyTorch's; the step is the same.
    maximize : bool
        Step up the gradient.

    Raises
    ------
    ValueError
        If an option is out of its range.

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
        _check(lr, weight_decay, "weight_decay")
        if not beta2_decay <= 0.0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        if eps[0] is not None:
            _check_from_zero("epsilon1", eps[0])
        _check_from_zero("epsilon2", eps[1])
        if not d >= 1.0:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")
        defaults = {
            "lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _update(self, p: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any], lr: float) -> None:
        if not state:
            state["step"] = tensor(0.0)
            state.update(_no_squares(grad))
        state["step"] += 1
        step, (least, least_size) = float(state["step"]), group["eps"]
        least = finfo(p.dtype).eps if least is None else least
        size = _root_mean_square(p).clamp(min=least_size)
        if group["weight_decay"] != 0:
            p.mul_(1 - lr * group["weight_decay"])
        squares = _mean_squares(state, grad, step ** group["beta2_decay"], least)
        update = squares.clamp_(min=least * least).rsqrt_().mul_(-grad if group["maximize"] else grad)
        clipped = (_root_mean_square(update) / group["d"]).clamp(min=1.0)
        p.sub_(update.mul_(size * min(lr, step**-0.5) / clipped))


def _no_squares(grad: Tensor) -> dict[str, Tensor]:
    """The mean squares before the first step: of rows and columns, or of the elements of a vector."""
    if grad.ndim < 2:
        return {"variance": zeros_like(grad)}
    return {"row_var": zeros_like(grad[..., :1]), "col_var": zeros_like(grad[..., :1, :])}


def _mean_squares(state: dict[str, Any], grad: Tensor, new: float, least: float) -> Tensor:
    """The mean square of each element, after the state has taken in a share of the gradient's squares."""
    squares = grad * grad
    if grad.ndim < 2:
        return state["variance"].lerp_(squares, new).clone()  # type: ignore[no-any-return]
    rows = state["row_var"].lerp_(squares.mean(-1, keepdim=True), new)
    columns = state["col_var"].lerp_(squares.mean(-2, keepdim=True), new)
    return (rows @ columns).div_(rows.mean(-2, keepdim=True).clamp_(min=least))  # type: ignore[no-any-return]


def _root_mean_square(t: Tensor) -> Tensor:
    return t.norm(2) / math.sqrt(t.numel() or 1)


# -- Muon -------------------------------------------------------------------------------------------------------------


class Muon(_MatrixOptimizer):
    """Steps along the mean gradient of a matrix with all singular values made about equal.

    Parameters
    ----------
    params : iterable
        Matrices, pairs of a name and a matrix, or dicts that are groups. Other parameters need another optimiser.
    lr : float or Tensor
        The learning rate.
    weight_decay : float
        Shrinks the parameter by so much of it, times the learning rate.
    momentum : float
        How slowly the mean of the gradients changes.
    nesterov : bool
        Whether the gradient itself has a share in the step.
    ns_coefficients : tuple of float
        Of the polynomial that is applied to the singular values.
    eps : float
        The least norm of a gradient.
    ns_steps : int
        How often the polynomial is applied.
    adjust_lr_fn : {"original", "match_rms_adamw"}, optional
        How the learning rate depends on the shape of a matrix.

    Raises
    ------
    ValueError
        If an option is out of its range, or a parameter is no matrix.

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
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        _check(lr, weight_decay, "weight decay")
        _check_from_zero("momentum", momentum)
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        defaults = {
            "lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov,
            "ns_coefficients": ns_coefficients, "eps": eps, "ns_steps": ns_steps, "adjust_lr_fn": adjust_lr_fn,
        }  # fmt: skip
        super().__init__(params, defaults)
        for group in self.param_groups:
            for p in group["params"]:
                if p.ndim != 2:
                    raise ValueError(
                        f"Muon only supports 2D parameters whereas we found a parameter with size: {p.size()}"
                    )

    def _update(self, p: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any], lr: float) -> None:
        if not state:
            state["momentum_buffer"] = zeros_like(grad)
        momentum = group["momentum"]
        mean = state["momentum_buffer"].lerp_(grad, 1 - momentum)
        wanted = grad.lerp(mean, momentum) if group["nesterov"] else mean
        update = _levelled(wanted, group["ns_coefficients"], group["ns_steps"], group["eps"])
        p.mul_(1 - lr * group["weight_decay"])
        p.sub_(update.to(p.dtype) * (lr * _factor(group["adjust_lr_fn"], *p.shape)))


def _levelled(matrix: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float) -> Tensor:
    """A matrix with the same singular vectors, and values near one, by Newton and Schulz's iteration in bfloat16."""
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
    found: Tensor = x.T if tall else x
    return found


def _factor(adjust: str | None, rows: int, columns: int) -> float:
    """What the learning rate is multiplied by, for a matrix of that shape."""
    return 0.2 * math.sqrt(max(rows, columns)) if adjust == "match_rms_adamw" else math.sqrt(max(1, rows / columns))
