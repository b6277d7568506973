"""Backward hooks of modules.

The inputs and outputs of a call pass through nodes that see all their gradients at once.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gradcore.autograd.function import Function
from gradcore.autograd.grad_mode import is_grad_enabled
from gradcore.tensor import Tensor

__all__ = ["BackwardHooks", "watch_node"]

Grads = tuple[Any, ...]


class BackwardHookFunction(Function):
    """Identity function whose backward passes the gradients to a callable, which may replace them."""

    @staticmethod
    def forward(ctx: Any, seen: Callable[[Grads], Any], materialize: bool, *tensors: Tensor) -> Any:
        ctx.seen = seen
        ctx.set_materialize_grads(materialize)
        out = tuple(t.view_as(t) for t in tensors)
        ctx.mark_non_differentiable(*(o for o, t in zip(out, tensors, strict=True) if not t.requires_grad))
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return (None, None, *ctx.seen(grads))


def _pass_through_node(values: Any, seen: Callable[[Grads], Grads], materialize: bool) -> tuple[Any, bool]:
    """Pass the tensors in `values` through one node. Return the new values, and whether any of them requires grad.

    There is no node if none requires grad. ``seen(grads)`` is called with one gradient for each value. Missing
    gradients are zeros if `materialize`, else None.
    """
    positions = [i for i, v in enumerate(values) if isinstance(v, Tensor)]
    if not (is_grad_enabled() and any(values[i].requires_grad for i in positions)):
        return values, False

    def spread(grads: Grads) -> Grads:
        full: list[Any] = [None] * len(values)
        for i, grad in zip(positions, grads, strict=True):
            full[i] = grad
        result = seen(tuple(full))
        return tuple(result[i] for i in positions)

    out = list(values)
    passed = BackwardHookFunction.apply(spread, materialize, *(values[i] for i in positions))
    for i, t in zip(positions, passed, strict=True):
        out[i] = t
    return tuple(out) if type(values) is tuple else type(values)(*out), True


def _as_tuple(value: Any) -> Grads:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _same_number(kind: str, name: str, grads: Grads, before: Grads) -> Grads:
    if len(grads) != len(before):
        raise RuntimeError(
            f"Backward {kind} returned an invalid number of {name}, got {len(grads)}, but expected {len(before)}"
        )
    return grads


class BackwardHooks:
    """Full backward hooks of one call of a module.

    Parameters
    ----------
    module : Module
    hooks : sequence of callable
        ``hook(module, grad_input, grad_output)``, called when the gradients of the inputs are known.
    pre_hooks : sequence of callable
        ``hook(module, grad_output)``, called when the gradients of the outputs are known.
    """

    def __init__(self, module: Any, hooks: Sequence[Callable[..., Any]], pre_hooks: Sequence[Callable[..., Any]]):
        self.module, self.hooks, self.pre_hooks = module, hooks, pre_hooks
        self.grad_output: Grads | None = None
        self.any_input = False
        self.n_inputs = 0

    def inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the arguments for forward, passed through a node if hooks need their gradients."""
        self.n_inputs = len(args)
        args, self.any_input = _pass_through_node(args, self.run_at_inputs, True)
        return args

    def outputs(self, result: Any) -> Any:
        """Return the result for the caller of the module, passed through a node if hooks need its gradients."""
        if not isinstance(result, (Tensor, tuple)):
            warnings.warn(
                "For backward hooks to be called, module output should be a Tensor or a tuple of Tensors but received "
                f"{type(result)}",
                stacklevel=4,
            )
        several = isinstance(result, tuple)
        watched, _ = _pass_through_node(result if several else (result,), self.run_at_outputs, False)
        return watched if several else watched[0]

    def run_at_outputs(self, grads: Grads) -> Grads:
        for hook in self.pre_hooks:
            replacement = hook(self.module, grads)
            if replacement is not None:
                grads = _same_number("pre hook", "grad_output", _as_tuple(replacement), grads)
        if self.any_input:
            self.grad_output = grads
        else:
            self.run_without_inputs(grads)
        return grads

    def run_at_inputs(self, grads: Grads) -> Grads:
        if self.grad_output is None:  # the gradients reached the inputs without passing through the outputs
            return grads
        for hook in self.hooks:
            replacement = hook(self.module, grads, self.grad_output)
            if replacement is not None:
                grads = _same_number("hook", "grad_input", _as_tuple(replacement), grads)
        self.grad_output = None
        return grads

    def run_without_inputs(self, grads: Grads) -> None:
        warnings.warn(
            "Full backward hook is firing when gradients are computed with respect to module outputs since no inputs "
            "require gradients.",
            stacklevel=2,
        )
        for hook in self.hooks:
            replacement = hook(self.module, (None,) * self.n_inputs, grads)
            if replacement is not None and not (isinstance(replacement, tuple) and all(g is None for g in replacement)):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always return None or None for "
                    "all gradients."
                )


# -- the older kind -----------------------------------------------------------------------------------------------


def watch_node(module: Any, hooks: Sequence[Callable[..., Any]], args: tuple[Any, ...], result: Any) -> None:
    """Call ``hook(module, grad_input, grad_output)`` after the backward of the node that produced `result`."""
    first = result
    while not isinstance(first, Tensor):
        first = next(v for v in first.values() if isinstance(v, Tensor)) if isinstance(first, Mapping) else first[0]
    node = first.grad_fn
    if node is None:
        return
    owner = weakref.ref(module)
    for hook in hooks:
        node.register_hook(lambda grad_in, grad_out, hook=hook: hook(owner(), grad_in, grad_out))
    problem = _missed_gradients_warning(node, args, (result,) if isinstance(result, Tensor) else result)
    if problem is not None:
        warnings.warn(problem, FutureWarning, stacklevel=5)


def _missed_gradients_warning(node: Any, args: tuple[Any, ...], results: Any) -> str | None:
    """Return PyTorch's warning if hooks of one node miss some of a module's gradients, else None."""
    advice = " Please use register_full_backward_hook to get the documented behavior."
    for values, verb, missing in ((results, "return", "grad_output"), (args, "take as input", "grad_input")):
        if not (isinstance(values, tuple) and all(isinstance(v, Tensor) for v in values)):
            return (
                f"Using non-full backward hooks on a Module that does not {verb} a single Tensor or a tuple of Tensors "
                "is deprecated and will be removed in future versions. This hook will be missing some of the "
                f"{missing}.{advice}"
            )
    removal = "is deprecated and will be removed in future versions. This hook will be missing some"
    if len({r.grad_fn for r in results if r.grad_fn is not None}) > 1:
        return (
            "Using a non-full backward hook when outputs are generated by different autograd Nodes "
            f"{removal} grad_output.{advice}"
        )
    if {a.grad_fn for a in args if a.grad_fn is not None} != {following for following, _ in node.next_functions}:
        return (
            "Using a non-full backward hook when the forward contains multiple autograd Nodes "
            f"{removal} grad_input.{advice}"
        )
    return None
