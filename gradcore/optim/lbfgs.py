"""The limited-memory BFGS optimiser, for smooth losses of whole data sets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradcore import functional
from gradcore.autograd.grad_mode import enable_grad, no_grad
from gradcore.core.typing import AnyTensor
from gradcore.optim.flat_state import value_of
from gradcore.optim.line_search import Point, strong_wolfe
from gradcore.optim.optimizer import Optimizer, ParamsT
from gradcore.optim.options import OPTIONS, Option, checked, with_options
from gradcore.tensor import Tensor
from gradcore.torch_names import paths

__all__ = ["LBFGS"]


def _check_history_size(size: int) -> None:
    if size < 1:
        raise ValueError(f"Invalid history_size: {size}")


@with_options(
    lr=OPTIONS["lr"]._replace(description="Length of a step; with a line search, the first length that it tries."),
    max_iter=Option("Largest number of iterations in a step."),
    max_eval=Option("Largest number of evaluations of the closure in a step; None for ``max_iter * 5 // 4``."),
    tolerance_grad=Option("Stop when no gradient is larger than this."),
    tolerance_change=Option("Stop when neither the parameters nor the loss change by more than this."),
    history_size=Option("Number of steps from which the inverse Hessian is estimated.", _check_history_size),
    line_search_fn=Option('Line search for the length of each step: "strong_wolfe" or None.'),
)
class LBFGS(Optimizer):
    """L-BFGS: a quasi-Newton method, which estimates the inverse Hessian from the last steps.

    Each optimiser step takes up to `max_iter` iterations, each of which evaluates the closure. Only one parameter group
    is supported.

    Examples
    --------
    >>> import gradcore
    >>> x = gradcore.tensor([-1.0, 2.0], requires_grad=True)
    >>> optimizer = gradcore.optim.LBFGS([x], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2
    ...     loss.backward()
    ...     return loss
    >>> for _ in range(4):
    ...     loss = optimizer.step(closure)
    >>> gradcore.allclose(x, gradcore.ones(2), atol=1e-3)
    True
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        options = checked(locals())
        if max_eval is None:
            options["max_eval"] = options["max_iter"] * 5 // 4
        super().__init__(params, options)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")

    @property
    def _params(self) -> list[Any]:
        return self.param_groups[0]["params"]  # type: ignore[no-any-return]

    # -- all parameters as one vector ---------------------------------------------------------------------------

    def _gradient(self) -> Any:
        """Return the gradients of all parameters as one vector. Complex gradients become pairs of real numbers."""
        return functional.cat([_flat(_dense_grad(p)) for p in self._params])

    def _move(self, step: float, direction: Any) -> None:
        start = 0
        for p in self._params:
            target = functional.view_as_real(p) if p.is_complex() else p
            target += direction[start : start + target.numel()].reshape(target.shape) * step
            start += target.numel()

    # -- steps ----------------------------------------------------------------------------------------------------

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take up to `max_iter` iterations.

        Parameters
        ----------
        closure : callable
            Reevaluates the loss and its gradients, and returns the loss.

        Returns
        -------
        object
            The first result of `closure`.
        """
        if closure is None:
            raise TypeError("LBFGS.step() missing 1 required positional argument: 'closure'")
        with no_grad():
            return self._step(enable_grad()(closure))

    def _step(self, closure: Callable[[], Any]) -> Any:
        group = self.param_groups[0]
        state = self.state[self._params[0]]
        first_loss = closure()
        loss, gradient, evaluations = float(first_loss), self._gradient(), 1
        state["func_evals"] = state.get("func_evals", 0) + 1
        state.setdefault("n_iter", 0)
        if _largest(gradient) <= group["tolerance_grad"]:
            return first_loss
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            direction = self._direction(state, gradient)
            state["d"], state["prev_flat_grad"], state["prev_loss"] = direction, gradient, loss
            step = value_of(group["lr"])
            if state["n_iter"] == 1:
                total = value_of(gradient.abs().sum())
                step *= 1.0 / total if total > 1 else 1.0
            state["t"] = step
            slope = _dot(gradient, direction)
            if slope > -group["tolerance_change"]:
                break
            last = iteration == group["max_iter"]
            point = Point(0.0, loss, gradient, slope)
            next_point, count = self._advance(closure, point, step, direction, group["max_eval"] - evaluations, last)
            before, loss, gradient, state["t"] = loss, next_point.loss, next_point.gradient, next_point.step
            evaluations += count
            state["func_evals"] += count
            if (
                last
                or evaluations >= group["max_eval"]
                or _largest(gradient) <= group["tolerance_grad"]
                or _largest(direction) * abs(next_point.step) <= group["tolerance_change"]
                or abs(loss - before) < group["tolerance_change"]
            ):
                break
        return first_loss

    def _direction(self, state: dict[str, Any], gradient: Any) -> Any:
        """Return the descent direction: minus the estimated inverse Hessian times the gradient."""
        if state["n_iter"] == 1:
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1.0)
            return -gradient
        changes, steps, inverses = state["old_dirs"], state["old_stps"], state["ro"]
        change, displacement = gradient - state["prev_flat_grad"], state["d"] * state["t"]
        curvature = _dot(change, displacement)
        if curvature > 1e-10:
            if len(changes) == self.param_groups[0]["history_size"]:
                for history in (changes, steps, inverses):
                    del history[0]
            changes.append(change)
            steps.append(displacement)
            inverses.append(1.0 / curvature)
            state["H_diag"] = curvature / _dot(change, change)
        q = -gradient
        shares = []
        for y, s, inverse in zip(reversed(changes), reversed(steps), reversed(inverses), strict=True):
            shares.append(_dot(s, q) * inverse)
            q -= y * shares[-1]
        q *= state["H_diag"]
        for y, s, inverse, share in zip(changes, steps, inverses, reversed(shares), strict=True):
            q += s * (share - _dot(y, q) * inverse)
        return q

    def _advance(
        self, closure: Callable[[], Any], here: Point, step: float, direction: Any, most: int, last: bool
    ) -> tuple[Point, int]:
        """Take a step along `direction`. Return the point that it reaches and the number of evaluations."""
        search = self.param_groups[0]["line_search_fn"]
        if search is None:
            self._move(step, direction)
            if last:  # the loss at the last point is not needed
                return Point(step, here.loss, here.gradient, here.slope), 0
            loss = float(closure())
            return Point(step, loss, self._gradient(), 0.0), 1
        if search != "strong_wolfe":
            raise RuntimeError("only 'strong_wolfe' is supported")
        start = [p.clone() for p in self._params]

        def evaluate(step: float) -> Point:
            self._move(step, direction)
            loss, gradient = float(closure()), self._gradient()
            for p, before in zip(self._params, start, strict=True):
                p.copy_(before)
            return Point(step, loss, gradient, _dot(gradient, direction))

        next_point, count = strong_wolfe(evaluate, here, step, _largest(direction), most)
        self._move(next_point.step, direction)
        return next_point, count


def _dense_grad(p: Tensor) -> Any:
    if p.grad is None:
        return functional.zeros_like(p)
    return p.grad if p.grad._strided else p.grad.to_dense()


def _flat(t: AnyTensor) -> Any:
    return (functional.view_as_real(t) if t.is_complex() else t).reshape(-1)


def _dot(a: Any, b: Any) -> float:
    return a.dot(b).item()  # type: ignore[no-any-return]


def _largest(t: AnyTensor) -> float:
    return t.abs().max().item()  # type: ignore[no-any-return]


__getattr__ = paths.further(__name__)
