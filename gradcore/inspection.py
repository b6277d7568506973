"""Reading graphs: nodes and edges, what they were recorded of, and the memory that they keep. Nothing here recurses.

This is the interface that `gradcore.viz` is made of: it knows nodes by it alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple

from gradcore.autograd.edges import gradient_edge
from gradcore.autograd.graph import GradientEdge
from gradcore.autograd.messages import FREED
from gradcore.autograd.node import Node
from gradcore.autograd.op_node import OpNode, Packed
from gradcore.autograd.saved import Kept
from gradcore.autograd.variables import tick
from gradcore.ops.table import Op
from gradcore.tensor import Tensor
from gradcore.typing import Device
from gradcore.utils._pytree import tree_leaves
from gradcore.utils.recomputation import Frame

__all__ = [
    "Saved",
    "device_of",
    "edges_of",
    "freed",
    "gradient_edge",
    "next_sequence_nr",
    "operation_of",
    "reachable",
    "result_shapes",
    "roots",
    "saved_values",
    "storage",
]


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
        for source, _ in edges_of(stack.pop()):
            if source not in seen:
                seen.add(source)
                stack.append(source)
    return sorted(seen, key=attrgetter("_seq"), reverse=True)


def edges_of(node: Node) -> Iterator[tuple[Node, int]]:
    """The nodes that a node sends gradients to, each with the number of its output."""
    return (edge for edge in node._edges if edge is not None)


def next_sequence_nr() -> int:
    """A number that is larger than those of all nodes so far, and smaller than those of later ones."""
    return tick()


def device_of(node: Node) -> Device:
    """The device of a node's results."""
    return node._device  # type: ignore[no-any-return]


def operation_of(node: Node) -> Op | None:
    """The operation of the table that recorded a node; None of custom functions, leaves and writes through views."""
    return node.op if isinstance(node, OpNode) else None


# -- shapes ---------------------------------------------------------------------------------------------------------


def result_shapes(nodes: list[Any]) -> dict[Any, tuple[Any, str]]:
    """The shapes and dtypes of the nodes' results, as far as they are known; nodes come before their inputs."""
    found: dict[Any, tuple[Any, str]] = {}
    for node in nodes:
        notes = (getattr(node, "_metadata", None) or {}).get("results", {})
        if 0 in notes:
            found[node] = notes[0]
        elif isinstance(node, OpNode) and node.results and type(node.results) is list and node.results[0]:
            array = node.results[0][0]
            found[node] = getattr(array, "shape", ()), str(getattr(array, "dtype", "")).removeprefix("torch.")
        elif getattr(node, "_outputs", None) and node._outputs[0] is not None:
            found[node] = node._outputs[0][0], str(node._outputs[0][1]).removeprefix("torch.")
        if isinstance(node, OpNode):
            for edge, shape in zip(node._edges, _input_shapes(node), strict=False):
                if edge is not None and shape is not None and edge[0]._n_outputs == 1:
                    found.setdefault(edge[0], shape)
    return found


def _input_shapes(node: Any) -> list[tuple[Any, str] | None]:
    """For each edge, the shape and dtype of the input, where the node still knows it."""
    if node.metas is not None:
        return [None if m is None or m[0] is None else (m[0], str(m[1])) for m in node.metas]
    if node.saved is None or node.op.sequences:
        return []
    inputs: list[tuple[Any, str] | None] = []
    for position in node.op.tensors:
        value = node.saved[position] if position < len(node.saved) else None
        if isinstance(value, Tensor):
            inputs.append((tuple(value.shape), str(value.dtype).removeprefix("torch.")))
        else:
            inputs.append(None)
    return inputs


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
