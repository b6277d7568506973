"""Hooks: the handles by which they are removed, and the rules by which they are called."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

from gradcore.autograd.modes import local
from gradcore.autograd.variables import Variable, type_name

__all__ = ["RemovableHandle", "call_posthooks", "call_prehooks", "call_tensor_hooks", "of_transformation"]

_ids = itertools.count()


class RemovableHandle:
    """Returned when a hook is registered; ``remove()`` takes the hook away, also when used as a context manager.

    Parameters
    ----------
    table : dict
        The hooks, in order of registration; the handle adds `fn` to it.
    fn : callable, optional
        The hook. Without it, ``table[handle.id]`` is where the caller puts it.
    """

    def __init__(self, table: dict[int, Any], fn: Any = None) -> None:
        self._table: dict[int, Any] | None = table
        self.id = next(_ids)
        if fn is not None:
            table[self.id] = fn

    def remove(self) -> None:
        """Remove the hook; removing it twice does nothing."""
        if self._table is not None:
            self._table.pop(self.id, None)
            self._table = None

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


Table = dict[int, Any]


def of_transformation(hook: Callable[..., Any], node: Any) -> Callable[..., Any]:
    """`hook` for the backward of the transformation of `func` that a tensor belongs to, and for no outer one.

    The tensor belongs to the innermost transformation whose inputs its history reaches. Outer ones differentiate the
    gradient that the hook has seen, and so go through the same nodes.
    """
    running = [level for level in local.state.transforms if level.reverse]
    reached = -1
    stack, seen = [node], {node}
    while stack and reached + 1 < len(running):
        node = stack.pop()
        if node.is_graph_input and not node.is_accumulator and node.level in running:
            reached = max(reached, running.index(node.level))
        found = {edge[0] for edge in node._edges if edge is not None} - seen
        seen |= found
        stack += found
    if reached < 0:
        return hook
    owner = running[reached]

    @functools.wraps(hook)
    def own(grad: Any) -> Any:
        level = next((level for level in reversed(local.state.transforms) if level.reverse), None)
        return hook(grad) if level is owner else None

    return own


def call_tensor_hooks(table: Table, grad: Any) -> Any:
    """The gradient (or None) after the hooks of a tensor, each of which may replace it."""
    for hook in list(table.values()):
        result = hook(grad)
        if result is not None:
            grad = _checked(grad, result, hook)
    return grad


def call_prehooks(table: Table, grads: tuple[Any, ...]) -> tuple[Any, ...]:
    """The gradients on their way into a node after its prehooks."""
    for hook in list(table.values()):
        result = hook(grads)
        if result is not None:
            grads = _all_checked(grads, result, hook)
    return grads


def call_posthooks(table: Table, inputs: tuple[Any, ...], outputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The gradients `inputs` that a node has found, after its hooks."""
    for hook in list(table.values()):
        result = hook(inputs, outputs)
        if result is not None:
            inputs = _all_checked(inputs, result, hook)
    return inputs


def _all_checked(before: tuple[Any, ...], result: Any, hook: Any) -> tuple[Any, ...]:
    if not isinstance(result, tuple):
        raise TypeError(f"expected tuple, but hook returned '{type(result).__name__}'")
    after = result
    if len(after) != len(before):
        raise RuntimeError(
            f"hook '{_name(hook)}' has returned an incorrect number of values (got {len(after)}, but expected "
            f"{len(before)})"
        )
    return tuple(_checked(a, b, hook) for a, b in zip(before, after, strict=True))


def _checked(before: Any, after: Any, hook: Any) -> Any:
    """What a hook has returned in the place of a gradient.

    Raises
    ------
    TypeError
        If it is neither a tensor nor None.
    RuntimeError
        If it has another shape, dtype or device, or stands where there was no gradient.
    """
    if after is None:
        return None
    if not isinstance(after, Variable):
        raise TypeError(f"expected Variable, but hook returned '{type(after).__name__}'")
    if before is None:
        raise RuntimeError("can't replace a None gradient with a non-None value")
    if after._dtype is not before._dtype:
        raise RuntimeError(
            f"hook '{_name(hook)}' has changed the type of value (was {type_name(before)} got {type_name(after)})"
        )
    if after._device is not before._device:
        raise RuntimeError(
            f"hook '{_name(hook)}' has changed the device of value (was {before._device} got {after._device})"
        )
    if after._array.shape != before._array.shape:
        raise RuntimeError(f"hook '{_name(hook)}' has changed the size of value")
    return after


def _name(hook: Any) -> str:
    return getattr(hook, "__name__", type(hook).__name__)
