"""Full backward hooks: a module's inputs and outputs pass through nodes that see all their gradients together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradcore.autograd.function import Function
from gradcore.tensor import Tensor

__all__ = ["watch_backward"]


class _Watched(Function):
    """The identity, whose backward shows the gradients to a function that may replace them."""

    @staticmethod
    def forward(ctx: Any, seen: Callable[[tuple[Any, ...]], Any], *tensors: Tensor) -> Any:
        ctx.seen = seen
        ctx.set_materialize_grads(False)
        return tuple(t.view_as(t) for t in tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        replaced = ctx.seen(grads)
        return (None, *(grads if replaced is None else replaced))


def _through(values: tuple[Any, ...], seen: Callable[[tuple[Any, ...]], Any]) -> tuple[Any, ...]:
    """`values` with those that require grad passed through one watched node."""
    places = [i for i, v in enumerate(values) if isinstance(v, Tensor) and v.requires_grad]
    if not places:
        return values

    def spread(grads: tuple[Any, ...]) -> Any:
        full: list[Any] = [None] * len(values)
        for i, grad in zip(places, grads, strict=True):
            full[i] = grad
        result = seen(tuple(full))
        return None if result is None else tuple(result[i] for i in places)

    watched = _Watched.apply(spread, *(values[i] for i in places))
    out = list(values)
    for i, t in zip(places, watched if isinstance(watched, tuple) else (watched,), strict=True):
        out[i] = t
    return tuple(out)


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def watch_backward(module: Any, args: tuple[Any, ...], forward: Callable[[tuple[Any, ...]], Any]) -> Any:
    """Run a module's forward such that its full backward hooks are called.

    The hooks see ``grad_output`` when the outputs' gradients are known and ``grad_input`` when the inputs' are.
    """
    arrived: dict[str, tuple[Any, ...]] = {}

    def at_outputs(grads: tuple[Any, ...]) -> Any:
        for hook in list(module._backward_pre_hooks.values()):
            result = hook(module, grads)
            grads = grads if result is None else _as_tuple(result)
        arrived["output"] = grads
        if not any_input:
            at_inputs((None,) * len(args))
        return grads

    def at_inputs(grads: tuple[Any, ...]) -> Any:
        for hook in list(module._backward_hooks.values()):
            result = hook(module, grads, arrived.get("output", ()))
            grads = grads if result is None else _as_tuple(result)
        return grads

    any_input = any(isinstance(a, Tensor) and a.requires_grad for a in args)
    result = forward(_through(args, at_inputs))
    watched = _through(_as_tuple(result), at_outputs)
    return watched if isinstance(result, tuple) else watched[0]
