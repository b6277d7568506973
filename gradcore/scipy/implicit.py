"""Solutions of equations that are differentiable with respect to the equations' parameters.

The derivatives follow from the implicit function theorem.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradcore import functional as F
from gradcore.autograd.function import Function
from gradcore.core.typing import AnyTensor
from gradcore.func import jacfwd, jvp, vjp
from gradcore.scipy.closures import capture
from gradcore.tensor import Tensor

__all__ = ["root_at", "solution"]


def _jacobian(residual: Callable[..., Any], x: AnyTensor, parameters: list[Tensor]) -> AnyTensor:
    return jacfwd(lambda x: residual(parameters, x))(x)


class _Solution(Function):
    """The known root of a residual, as a differentiable function of the residual's parameters."""

    generate_vmap_rule = True

    @staticmethod
    def forward(residual: Any, value: Any, linear: object, *parameters: Any) -> Any:
        return F.clone(value)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.residual, _, ctx.linear, *parameters = inputs
        ctx.save_for_backward(output, *parameters)
        ctx.save_for_forward(output, *parameters)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x, *parameters = ctx.saved_tensors
        if ctx.linear is None:
            by_residual = F.linalg_solve(_jacobian(ctx.residual, x, parameters).mH, grad)
        else:
            by_residual = ctx.linear(parameters, x, grad)
        _, pull = vjp(lambda *values: ctx.residual(values, x), *parameters)
        return None, None, None, *pull(-by_residual)

    @staticmethod
    def jvp(ctx: Any, _residual: Any, _value: Any, _linear: object, *tangents: Any) -> Any:
        x, *parameters = ctx.saved_tensors
        known_tangents = [(i, t) for i, t in enumerate(tangents) if t is not None]

        def at(*values: Any) -> Any:
            changed = dict(zip((i for i, _ in known_tangents), values, strict=True))
            return ctx.residual([changed.get(i, p) for i, p in enumerate(parameters)], x)

        _, change = jvp(at, tuple(parameters[i] for i, _ in known_tangents), tuple(t for _, t in known_tangents))
        if ctx.linear is not None:
            return -ctx.linear(parameters, x, change)
        return -F.linalg_solve(_jacobian(ctx.residual, x, parameters), change)


def solution(
    function: Callable[..., Any], value: AnyTensor, residual: Any = None, example: AnyTensor | None = None
) -> AnyTensor:
    """Return `value`, a root of `residual`, as a differentiable function of the tensors that the residual reads.

    Derivatives of every order in both modes solve linear systems with the Jacobian of the residual. They do not depend
    on how `value` was computed.

    Parameters
    ----------
    function : callable
        Takes the vector of unknowns. It is run once to find the tensors that it reads.
    value : Tensor
        The root, without a history.
    residual : callable, optional
        ``residual(f, x)`` for a function `f` like `function` and a vector `x`; it returns as many numbers as `x` has.
        By default it returns ``f(x)``.
    example : Tensor, optional
        The vector at which the function is run once; `value` by default.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import gradcore
    >>> from gradcore.scipy.implicit import solution
    >>> a = gradcore.tensor([4.0], requires_grad=True)
    >>> root = solution(lambda x: x * x - a, gradcore.tensor([2.0]))
    >>> gradcore.autograd.grad(root, a)[0]
    tensor([0.2500])
    """
    call, parameters = capture(function, value if example is None else example)
    if not parameters:
        return value
    equations = residual or (lambda function, x: function(x))
    return root_at(lambda values, x: equations(lambda x: call(values, x), x), value, *parameters)


def root_at(
    residual: Callable[..., Any], value: AnyTensor, *parameters: Any, linear: Callable[..., AnyTensor] | None = None
) -> AnyTensor:
    """Return `value`, a root of ``residual(parameters, x)``, as a differentiable function of the parameters.

    By default the Jacobian of the residual is computed and factorized. If it is symmetric, ``linear(parameters, x, y)``
    may solve systems with it instead.

    Examples
    --------
    >>> import gradcore
    >>> from gradcore.scipy.implicit import root_at
    >>> a = gradcore.tensor([4.0], requires_grad=True)
    >>> gradcore.autograd.grad(root_at(lambda p, x: x * x - p[0], gradcore.tensor([2.0]), a), a)[0]
    tensor([0.2500])
    """
    return _Solution.apply(residual, value, linear, *parameters)
