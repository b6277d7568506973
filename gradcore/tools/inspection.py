"""Traversal of graphs: nodes, edges, operations and the memory that nodes keep. Nothing here recurses.

`gradcore.viz` reads nodes only through this interface.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Any, NamedTuple

from gradcore.autograd.graph import GradientEdge
from gradcore.autograd.node import Node
from gradcore.autograd.op_node import OpNode
from gradcore.autograd.saved import SavedTensor
from gradcore.autograd.variables import tick
from gradcore.autograd.views import gradient_edge
from gradcore.core.typing import AnyArray, AnyTensor, Device
from gradcore.ops.declare.table import Op
from gradcore.tensor import Tensor
from gradcore.utils._pytree import tree_leaves
from gradcore.utils.recomputation import Frame

__all__ = [
    "Saved",
    "device_of",
    "edges_of",
    "gradient_edge",
    "is_freed",
    "next_sequence_nr",
    "operation_of",
    "reachable",
    "result_shapes",
    "roots",
    "saved_values",
    "storage",
]


def roots(tensors: Any) -> list[Any]:
    """Return the nodes of the tensors or gradient edges in a nested container.

    Raises
    ------
    RuntimeError
        If none of them requires grad.
    """
    nodes: list[Any] = []
    for value in [tensors] if isinstance(tensors, GradientEdge) else tree_leaves(tensors):
        edge = value[:2] if isinstance(value, GradientEdge) else None
        if isinstance(value, Tensor):
            edge = gradient_edge(value)
        if edge is not None:
            nodes.append(edge[0])
    if not nodes:
        raise RuntimeError("there is no graph: none of the tensors requires grad")
    return list(dict.fromkeys(nodes))


def reachable(nodes: Iterable[Any]) -> list[Any]:
    """Return `nodes` and all nodes below them, each once; a node comes before those of its inputs."""
    seen = set(nodes)
    stack = list(seen)
    while stack:
        for source, _ in edges_of(stack.pop()):
            if source not in seen:
                seen.add(source)
                stack.append(source)
    return sorted(seen, key=attrgetter("_seq"), reverse=True)


def edges_of(node: Node) -> Iterator[tuple[Node, int]]:
    """Return an iterator over the edges ``(node, input_nr)`` along which a node sends gradients."""
    return (edge for edge in node._edges if edge is not None)


def next_sequence_nr() -> int:
    """Return a sequence number that is larger than those of all present nodes and smaller than later ones."""
    return tick()


def device_of(node: Node) -> Device:
    """Return the device of a node's results."""
    return node._device  # type: ignore[no-any-return]


def operation_of(node: Node) -> Op | None:
    """Return the operation that recorded a node.

    It is None for custom functions, leaves, and writes through views.
    """
    return node.op if isinstance(node, OpNode) else None


# -- shapes ---------------------------------------------------------------------------------------------------------


def result_shapes(nodes: list[Any]) -> dict[Any, tuple[Any, str]]:
    """Return the shape and dtype of each node's result, or of its first result if it has several."""
    metas = {node: node._output_metas[0] for node in nodes}
    return {
        node: (tuple(meta[0]), str(meta[1]).removeprefix("torch.")) for node, meta in metas.items() if meta is not None
    }


# -- saved values ---------------------------------------------------------------------------------------------------


class Saved(NamedTuple):
    """A tensor that a node saves for backward."""

    name: str
    array: Any
    dtype: str
    device: Any
    #: The leaf whose own memory this is, if it is one.
    leaf: Any


def _is_leaf(t: AnyTensor) -> bool:
    return t._edge is None and t._autograd is not None and bool(t._autograd.requires_grad)


def _inspect_tensor(name: str, t: AnyTensor, node: Any) -> Iterator[Saved]:
    """Yield the saved tensors in `t`, including tensors inside values that a hook has packed."""
    if isinstance(t, SavedTensor) and t.unpack_hook is not None:
        # Hooks may replace a tensor by another object: count the tensors inside that object.
        for inner in tree_leaves(t.packed):
            yield from _inspect_tensor(name, inner, node)
        frame = getattr(t.unpack_hook, "__self__", None)
        if isinstance(frame, Frame):
            for argument in frame.inputs._saved or ():
                yield from _inspect_tensor("argument of a checkpoint", argument, frame.inputs)
    elif isinstance(t, SavedTensor) and t.output_nr is not None:
        yield Saved(name, t._array, str(t._array.dtype), t.device or node._device, None)
    elif isinstance(t, SavedTensor):
        yield from _inspect_tensor(name, t.tensor, node)
    elif isinstance(t, Tensor) and not getattr(t, "_constant", False):
        yield Saved(name, t._array, str(t._dtype).removeprefix("torch."), t._device, t if _is_leaf(t) else None)


def _inspect_operation(node: Any) -> Iterator[Saved]:
    for slot, value in zip(node.slots, node.saved or (), strict=False):
        if slot.kind in ("tensor", "tensors", "output"):
            for t in value or () if slot.kind == "tensors" else (value,):
                yield from _inspect_tensor(slot.name, t, node)


def _inspect_function(node: Any) -> Iterator[Saved]:
    for number, saved in enumerate(node._saved or ()):
        yield from _inspect_tensor(f"saved_tensors[{number}]", saved, node)
    for name, value in list(vars(node).items()):
        if not name.startswith("_") and name not in ("to_save", "saved_for_forward", "dirty_tensors"):
            yield from _inspect_tensor(f"ctx.{name}", value, node)


def saved_values(node: Any) -> list[Saved]:
    """Return the tensors that a node saves for backward, without those of the nodes below it."""
    if node._inner is not None:  # The node is a write through a view.
        return saved_values(node._inner)
    if isinstance(node, OpNode):
        return list(_inspect_operation(node)) if node.holds_tensors else []
    return list(_inspect_function(node)) if hasattr(node, "_saved") else []


def is_freed(node: Any) -> bool:
    """Return whether backward has freed what a node had saved."""
    return bool(node.is_freed())


def storage(array: AnyArray) -> tuple[int, int]:
    """Return a key of the memory that an array keeps alive, which views share, and its number of bytes."""
    base = getattr(array, "base", None)
    while base is not None and hasattr(base, "nbytes") and hasattr(base, "shape"):
        array, base = base, getattr(base, "base", None)
    return id(array), int(array.nbytes)
