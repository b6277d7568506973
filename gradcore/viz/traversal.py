"""Walks through graphs: their nodes, and the memory that these keep. Nothing here recurses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple

from gradcore.autograd.edges import gradient_edge
from gradcore.autograd.graph import GradientEdge
from gradcore.autograd.messages import FREED
from gradcore.autograd.op_node import OpNode, Packed
from gradcore.autograd.saved import Kept
from gradcore.tensor import Tensor
from gradcore.utils._pytree import tree_leaves
from gradcore.utils.recomputation import Frame

__all__ = ["Saved", "freed", "reachable", "roots", "saved_values", "storage"]


def roots(tensors: Any) -> list[Any]:
    """The nodes of tensors (or gradient edges) in a nested container.

    Raises
    ------
    RuntimeError
        If none of them requires grad.
    """
    found: list[Any] = []
    for value in [tensors] if isinstance(tensors, GradientEdge) else tree_leaves(tensors):
        edge = value[:2] if isinstance(value, GradientEdge) else None
        if isinstance(value, Tensor):
            edge = gradient_edge(value)
        if edge is not None:
            found.append(edge[0])
    if not found:
        raise RuntimeError("there is no graph: none of the tensors requires grad")
    return list(dict.fromkeys(found))


def reachable(nodes: Iterable[Any]) -> list[Any]:
    """The nodes and everything below them, each once; a node comes before those of its inputs."""
    seen = set(nodes)
    stack = list(seen)
    while stack:
        for edge in stack.pop()._edges:
            if edge is not None and edge[0] not in seen:
                seen.add(edge[0])
                stack.append(edge[0])
    return sorted(seen, key=attrgetter("_seq"), reverse=True)


# -- saved values ---------------------------------------------------------------------------------------------------


class Saved(NamedTuple):
    """A tensor that a node keeps for backward."""

    name: str
    array: Any
    dtype: str
    device: Any
    #: The leaf whose own memory this is, if it is one.
    leaf: Any


def _is_leaf(t: Any) -> bool:
    return t._edge is None and t._meta is not None and bool(t._meta.requires_grad)


def _of_tensor(name: str, t: Any) -> Iterator[Saved]:
    if isinstance(t, Packed):
        # A value packed by hooks: count the tensors that are found in it.
        for inner in tree_leaves(t.packed):
            yield from _of_tensor(name, inner)
        frame = getattr(t.unpack_hook, "__self__", None)
        if isinstance(frame, Frame):
            for kept in frame.inputs._saved or ():
                yield from _of_tensor("argument of a checkpoint", kept.value)
    elif isinstance(t, Tensor) and not getattr(t, "_constant", False):
        yield Saved(name, t._array, str(t._dtype).removeprefix("torch."), t._device, t if _is_leaf(t) else None)


@cache
def _tensors(op: Any) -> tuple[tuple[int, str], ...]:
    """Positions and names of an operation's arguments that are tensors."""
    return tuple((position, name) for position, name in enumerate(op.names) if position in op.tensors)


def _of_operation(node: Any) -> Iterator[Saved]:
    op, saved = node.op, node.saved
    if saved is not None:
        for position, name in _tensors(op):
            value = saved[position] if position < len(saved) else None
            if value is not None:
                for t in value if type(value) is tuple else (value,):
                    yield from _of_tensor(name, t)
        for number, entry in enumerate(node.results or ()):
            array = entry[0] if type(entry) is tuple else None
            if isinstance(array, (Packed, Tensor)):
                yield from _of_tensor(op.outputs[number] if number < len(op.outputs) else "result", array)
            elif array is not None:
                name = op.outputs[number] if number < len(op.outputs) else "result"
                yield Saved(name, array, str(array.dtype), node._device, None)


def _of_function(node: Any) -> Iterator[Saved]:
    for number, kept in enumerate(node._saved or ()):
        if isinstance(kept, Kept):
            yield from _of_tensor(f"saved_tensors[{number}]", kept.value)
    for name, value in list(vars(node).items()):
        if not name.startswith("_") and name not in ("to_save", "saved_for_forward", "dirty_tensors"):
            yield from _of_tensor(f"ctx.{name}", value)


def saved_values(node: Any) -> list[Saved]:
    """The tensors that a node keeps for backward (not those of the nodes below it)."""
    if node._inner is not None:  # a write through a view
        return saved_values(node._inner)
    if isinstance(node, OpNode):
        return list(_of_operation(node)) if node.holds_tensors else []
    return list(_of_function(node)) if hasattr(node, "_saved") else []


def freed(node: Any) -> bool:
    """Whether backward has taken what a node had saved."""
    if isinstance(node, OpNode):
        return node.saved is None
    return getattr(node, "_saved", FREED) is None


def storage(array: Any) -> tuple[int, int]:
    """The memory that an array keeps alive, which views share: a key and the number of bytes."""
    base = getattr(array, "base", None)
    while base is not None and hasattr(base, "nbytes") and hasattr(base, "shape"):
        array, base = base, getattr(base, "base", None)
    return id(array), int(array.nbytes)
