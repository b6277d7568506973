"""What the gradients that arrive at a node are like: found when it is asked for, so that recording need not keep it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradcore import dtypes, functional
from gradcore.autograd.messages import FREED
from gradcore.autograd.modes import local
from gradcore.autograd.node import Node
from gradcore.autograd.op_node import OpNode
from gradcore.autograd.variables import TensorMeta, Variable

__all__ = ["InputMetadata", "metadata_of"]


class InputMetadata:
    """What a gradient that arrives at a node is like.

    Attributes
    ----------
    shape : list of int
    dtype : dtype
    device : device
    """

    __slots__ = ("device", "dtype", "shape")

    is_nested_tensor = False
    is_cpp_nested_tensor = False

    def __init__(self, kind: TensorMeta) -> None:
        self.shape, self.dtype, self.device = list(kind.shape), kind.dtype, kind.device.real

    def __repr__(self) -> str:
        return f"InputMetadata(shape={self.shape}, dtype={self.dtype}, device={self.device})"


def metadata_of(node: Node) -> tuple[InputMetadata, ...]:
    """What the gradient of each output of a node is like.

    A node of an operation with one result does not keep its shape. Where nobody has noted it, the operation runs again
    on the device ``meta``, with what the node knows of its arguments.

    Raises
    ------
    RuntimeError
        If what the shapes follow from has been freed.
    """
    found: dict[Node, Sequence[TensorMeta]] = {}
    stack = [node]
    while stack:
        current = stack[-1]
        kinds = _known(current)
        if kinds is None:
            sources = [edge[0] for edge in _unknown_inputs(current) if edge is not None and edge[0] not in found]
            if sources:
                stack += sources
                continue
            kinds = _inferred(current, found)
        found[stack.pop()] = kinds
    return tuple(InputMetadata(kind) for kind in found[node])


def _known(node: Any) -> Sequence[TensorMeta] | None:
    """What a node's outputs are like, where it has been kept."""
    if node.is_accumulator:
        return (TensorMeta.of(node.variable),)
    noted = getattr(node, "_kinds", None)
    if noted is not None:
        return noted  # type: ignore[no-any-return]
    if isinstance(node, OpNode):
        several = getattr(node, "output_metas", None)
        if several is not None:
            return [TensorMeta(shape, dtypes.from_numpy(dtype), node._device) for shape, dtype in several]
        if node.results and type(node.results[0]) is tuple:
            array = node.results[0][0]
            if hasattr(array, "shape"):  # else packed by a hook
                dtype = array._dtype if isinstance(array, Variable) else dtypes.from_numpy(array.dtype)
                return (TensorMeta(tuple(array.shape), dtype, node._device),)
        return None
    results = getattr(node, "_outputs", None)  # of a Function
    if results is not None:
        return [_kind_of_result(node, meta) for meta in results]
    return None


def _kind_of_result(node: Any, meta: Any) -> TensorMeta:
    return TensorMeta((), dtypes.float32, node._device) if meta is None else TensorMeta(*meta)


def _unknown_inputs(node: Any) -> list[Any]:
    """The edges of the inputs of which a node itself does not know shape and dtype."""
    if not isinstance(node, OpNode):
        return [node._edges[0]]
    if node.metas is not None:
        return []
    values = _tensors_of(node)
    return [edge for edge, value in zip(node._edges, values, strict=True) if not isinstance(value, Variable)]


def _tensors_of(node: Any) -> list[Any]:
    """For each edge of an operation's node what it has saved of the tensor: this, its shape or nothing."""
    if node.saved is None:
        return [None] * len(node._edges)
    found: list[Any] = []
    for position in node.op.tensors:
        value = node.saved[position] if position < len(node.saved) else None
        if position in node.op.sequences:
            found += [None] * (len(node._edges) - len(node.op.tensors) + 1) if value is None else value
        else:
            found.append(value)
    return found


def _inferred(node: Any, found: dict[Node, Sequence[TensorMeta]]) -> Sequence[TensorMeta]:
    """What the outputs of a node are like, which follows from its inputs."""
    behind = [None if edge is None or edge[0] not in found else found[edge[0]][edge[1]] for edge in node._edges]
    if not isinstance(node, OpNode):
        return (behind[0],)  # type: ignore[return-value]
    if node.metas is not None:
        kinds = [None if m is None else TensorMeta(m[0], dtypes.from_numpy(m[1]), node._device) for m in node.metas]
    else:
        pairs = zip(behind, _tensors_of(node), strict=True)
        kinds = [TensorMeta.of(value) if isinstance(value, Variable) else kind for kind, value in pairs]
        dtype = next((kind.dtype for kind in kinds if kind is not None), None)
        for i, value in enumerate(_tensors_of(node)):
            if kinds[i] is None and (type(value) is tuple or node._edges[i] is None):
                # All have the dtype of the result. What no formula reads, not even its shape, adds nothing to that of
                # the result: then a number will do.
                kinds[i] = TensorMeta(value or (), dtype, node._device)
        if node.op.kind == "elementwise":  # the inputs with gradients are like the result
            known = next(kind for kind, edge in zip(kinds, node._edges, strict=True) if edge is not None)
            kinds = [known if kind is None else kind for kind in kinds]
            if known is not None and (node.saved is None or len(kinds) > 1):
                return (known,)
    if node.saved is None:
        raise RuntimeError(FREED)
    out = _on_meta(node, kinds)
    return (TensorMeta(out._array.shape, out._dtype, node._device),)


def _on_meta(node: Any, kinds: Sequence[TensorMeta | None]) -> Any:
    """The result of a node's operation for tensors without data, but for those that its shape depends on."""
    state = local.state
    before, state.mode = state.mode, 0
    try:
        device = node._device if node.op.data_dependent else "meta"
        tensors = [
            None if kind is None else functional.zeros(kind.shape, dtype=kind.dtype, device=device) for kind in kinds
        ]
        args = list(node.saved)
        if node.op.sequences:
            count = len(tensors) - len(node.op.tensors) + 1
            args[0], tensors = tensors[:count], [None, *tensors[count:]]
        for position, t in zip(node.op.tensors, tensors, strict=True):
            read = node.op.data_dependent and position < len(args) and isinstance(args[position], Variable)
            if position < len(args) and not read and position not in node.op.sequences:
                args[position] = t
        pairs = list(zip(node.op.parameters, args, strict=False))
        by_name = {p.name: value for p, value in pairs if p.kind is p.KEYWORD_ONLY}
        return node.op.call(*args[: len(pairs) - len(by_name)], **by_name)
    finally:
        state.mode = before
