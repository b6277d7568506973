"""From raw results to tensors, and to the node that remembers the call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradcore.autograd import anomaly_mode, batch_dims, views
from gradcore.autograd import saved as saved_tensors
from gradcore.autograd.derivatives import node_class, saving_of
from gradcore.autograd.edges import gradient_edge, requires_grad
from gradcore.autograd.messages import not_differentiable
from gradcore.autograd.modes import ANOMALY, PACK, State
from gradcore.autograd.variables import Inference, Variable, VersionCounter, new, tensor_type, tick, wrap
from gradcore.dispatch.operands import NUMBERS, constant, on_device
from gradcore.ops.table import Op

__all__ = ["check_differentiable", "finish", "make_node", "saved_result"]


def finish(
    op: Op,
    args: tuple[Any, ...],
    tensors: Sequence[Any],
    edges: list[Any],
    device: Any,
    results: Any,
    record: bool,
    state: State,
) -> Any:
    """Wrap raw results as tensors and record the node."""
    single = len(op.outputs) == 1 and not op.variadic
    results = (results,) if single else results
    outs = [wrap(in_order(r, device) if op.contiguous else r, device) for r in results]
    if op.view:
        for i, out in enumerate(outs):
            views.link(out, args[0], op, args[1:], i if op.variadic else None, state)
    if record and op.differentiable:
        chosen = range(len(outs)) if op.variadic else op.differentiable
        if any(outs[i]._dtype.category > 1 for i in chosen):
            check_differentiable(op, edges)
        if op.differentiated and any(outs[i]._dtype.category > 1 for i in chosen):
            node = make_node(op, args, tensors, edges, device, outs, state)
            for i in chosen:
                if outs[i]._dtype.category > 1:
                    outs[i]._edge = (node, i)
    if single:
        return outs[0]
    if op.output_type is None:
        return tuple(outs)
    return op.output_type(*outs)


def in_order(array: Any, device: Any) -> Any:
    """The array, or a copy in C order if it lies otherwise; numbers of the array library are left alone."""
    flags = getattr(array, "flags", None)
    return array if flags is None or flags.c_contiguous else device.kernels["contiguous"](array)


def check_differentiable(op: Op, edges: Sequence[Any]) -> None:
    """Raise if a tensor requires grad by which the operation has no derivative."""
    if op.refused:
        more = len(edges) - len(op.tensors)  # of a sequence
        for i, edge in enumerate(edges):
            position = op.tensors[max(i - more, 0) if op.sequences else i]
            if edge is not None and position in op.refused:
                raise not_differentiable(op, position)


def make_node(
    op: Op, args: tuple[Any, ...], tensors: Sequence[Any], edges: list[Any], device: Any, outs: list[Any], state: State
) -> Any:
    """Record a call: a node with the edges of its inputs and what its formulas read."""
    name = op.node
    if op.copy_node is not None and not outs[0]._is_view():
        name = op.copy_node
    elif not isinstance(name, str):
        name = name(*args)
    if device.levels:
        args, edges = _lifted(op, args, tensors, edges, device)
    node: Any = new(node_class(op, name))
    node._device, node._edges, node._hooks, node._seq = device, tuple(edges), None, tick()
    if op.sequences:
        n = len(edges) - len(op.tensors) + 1
        pattern = (any(e is not None for e in edges[:n]), *(e is not None for e in edges[n:]))
    else:
        pattern = tuple(e is not None for e in edges)
    saving = saving_of(op, pattern)
    saved: list[Any] = list(args)
    for p in op.tensors:
        if saved[p] is None:
            continue
        if p in op.sequences:
            saved[0] = tuple(args[0])
        if p in saving.drop:
            if p not in saving.shapes:
                saved[p] = None
            elif p in op.sequences:
                saved[0] = tuple(t._array.shape for t in args[0])
            else:
                saved[p] = saved[p]._array.shape
        elif saved[p].__class__ in NUMBERS:
            saved[p] = constant(saved[p], outs[0]._dtype, device)
        elif Inference.used:
            saved_tensors.refuse_inference(*(saved[0] if p in op.sequences else (saved[p],)))
        if isinstance(saved[p], Variable) and saved[p]._device.real is not device.real:
            saved[p] = _placed(saved[p], edges[op.edge_index[p]], device)
    first = outs[0]
    node.saved = saved
    node.results = None
    if any(saving.results):
        node.results = [
            saved_result(out, state) if keep else None for out, keep in zip(outs, saving.results, strict=True)
        ]
    dtype = first._dtype
    node.metas = None
    if (
        dtype.category != 2
        or dtype.is_reduced
        or op.broadcasts
        or any(t is not None and t._dtype is not dtype for t in tensors)
    ):
        node.metas = _metas(op, tensors, first)
    if len(outs) > 1 or op.variadic:
        node._n_outputs = len(outs)
        node.output_metas = [(out._array.shape, out._array.dtype) for out in outs]
    if state.mode & PACK and node.holds_tensors:
        saved_tensors.pack(node)
    if state.mode & ANOMALY:
        anomaly_mode.note(node, tensors, outs)
    return node


def _placed(t: Any, edge: Any, device: Any) -> Any:
    """A number on the CPU among tensors of another device, as it was computed with: formulas read it there."""
    placed = new(tensor_type.cls)
    placed._array, placed._device, placed._dtype = on_device(t, device), device.real, t._dtype
    placed._edge, placed._meta, placed._vc = edge, None, t._vc
    return placed


def _lifted(op: Op, args: tuple[Any, ...], tensors: Sequence[Any], edges: list[Any], device: Any) -> tuple[Any, Any]:
    """Arguments and edges with tensors that all samples of a batch share lifted into it: gradients are summed there."""

    def lifted(t: Any) -> Any:
        apart = isinstance(t, Variable) and t._device is not device and requires_grad(t)
        return batch_dims.broadcast_to_batch(t, device) if apart else t

    if all(t is None or t._device is device for t in tensors):
        return args, edges
    found = list(args)
    for p in op.tensors:
        found[p] = [lifted(t) for t in args[0]] if p in op.sequences else lifted(args[p])
    pairs = zip(tensors, edges, strict=True)
    return tuple(found), [edge if edge is None else gradient_edge(lifted(t)) for t, edge in pairs]


def _metas(op: Op, tensors: Sequence[Any], out: Any) -> Any:
    shape, dtype = out._array.shape, out._dtype
    plain = dtype.category == 2 and not dtype.is_reduced
    metas: list[Any] = []
    for t in tensors:
        if t is None:
            metas.append(None)
            continue
        if t._dtype is not dtype or (op.broadcasts and t._array.shape != shape):
            plain = False
        metas.append((getattr(t._array, "shape", ()), t._dtype.numpy))
    return None if plain else tuple(metas)


def saved_result(out: Any, state: State) -> Any:
    vc = out._vc
    if vc is None:
        vc = out._vc = VersionCounter()
    tangents = None if out._meta is None else out._meta.tangents
    return out._array, vc, vc.version, tangents
