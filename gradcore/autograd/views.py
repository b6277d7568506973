"""Views and in-place writes: how the history of a base and of its views stays true."""

from __future__ import annotations

from typing import Any

from gradcore import dtypes
from gradcore.autograd.formulas import TENSORS, node_class
from gradcore.autograd.modes import GRAD, State
from gradcore.autograd.nodes import (
    Chosen,
    Node,
    gradient_edge,
    operation_of,
    regenerate,
    replay,
    replay_raw,
    requires_grad,
)
from gradcore.autograd.variables import Clock, Meta, VersionCounter, alias, new, tensor_type, tick

__all__ = ["CopySlices", "check_writable", "link", "rebase", "same_as", "view_of"]


def view_of(t: Any, array: Any, op: Any, settings: tuple[Any, ...], name: Any, state: State) -> Any:
    """The result of a view operation of one tensor, linked to its base and recorded.

    `array` is what the operation's kernel gave. Where it had to copy, nothing is linked, and the node has the name
    `op.copies` in the place of `name`.
    """
    source, device = t._array, t._device
    out = new(tensor_type.cls)
    out._array, out._device, out._meta, out._vc = array, device, None, None
    dtype = out._dtype = t._dtype if array.dtype is source.dtype else dtypes.from_numpy(array.dtype)
    edge = t._edge if t._meta is None else gradient_edge(t)
    link(out, t, op, settings, None, state)
    if edge is None or not state.mode or dtype.category < 2 or not op.vjps:
        out._edge = None
        return out
    if out._meta is None and op.copies is not None:
        name = op.copies
    node = new(node_class(op, name if name.__class__ is str else name(t, *settings)))
    node._device, node._edges, node._hooks, node._seq = device, (edge,), None, tick()
    node.saved, node.results, node.metas = (source.shape, *settings), None, None
    out._edge = (node, 0)
    return out


def link(out: Any, source: Any, op: Any, settings: tuple[Any, ...], index: int | None, state: State) -> None:
    """Note that `out`, a result of a view operation, shares the memory of `source`."""
    a, b = out._array, source._array
    if getattr(a, "base", None) is not b and a is not b and not _same_memory(a, b):
        return  # a reshape that had to copy
    vc = source._vc
    if vc is None:
        vc = source._vc = VersionCounter()
    out._vc = vc
    parent = source._meta
    meta = out._meta = Meta()
    step = (op, settings if index is None else Chosen(settings, index))
    meta.edge_version = vc.version
    if parent is None:
        meta.base, meta.chain = source, (step,)
    else:
        if parent.base is not None:
            meta.base, meta.chain, meta.creation = parent.base, (*parent.chain, step), parent.creation
        else:
            meta.base, meta.chain = source, (step,)
        if parent.inference:
            meta.inference = True
    if index is not None:
        meta.creation = "multi"
    elif not state.mode & GRAD and requires_grad(meta.base):
        meta.creation = meta.creation or "no_grad"


def _same_memory(a: Any, b: Any) -> bool:
    """Whether `a` is a view into the memory of `b`: both are views of one array."""
    return _owner(a) is _owner(b)


def _owner(array: Any) -> Any:
    base = getattr(array, "base", None)
    while base is not None:
        array, base = base, getattr(base, "base", None)
    return array


def same_as(t: Any, edge: Any) -> Any:
    """A view of all of `t` with a history of its own."""
    out = alias(t, edge)
    parent = t._meta
    meta = out._meta = Meta()
    meta.base, meta.edge_version = t, out._vc.version
    if parent is not None:
        meta.inference = parent.inference
        if parent.base is not None:
            meta.base, meta.chain, meta.creation = parent.base, parent.chain, parent.creation
    return out


_REFUSALS = {
    "multi": (
        "Output {} of {} is a view and is being modified inplace. This view is the output of a function that returns "
        "multiple views. Such functions do not allow the output views to be modified inplace. You should replace the "
        "inplace operation by an out-of-place one."
    ),
    "no_grad": (
        "A view was created in no_grad mode and is being modified inplace with grad mode enabled. Given that this use "
        "case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both the view and the "
        "inplace either both inside the no_grad block (if you don't want the inplace to be tracked) or both outside "
        "(if you want the inplace to be tracked)."
    ),
    "custom": (
        "Output {} of {} is a view and is being modified inplace. This view was created inside a custom Function (or "
        "because an input was returned as-is) and the autograd logic to handle view+inplace would override the custom "
        "backward associated with the custom Function, leading to incorrect gradients. This behavior is forbidden. You "
        "can fix this by cloning the output of the custom Function."
    ),
}


def check_writable(t: Any) -> None:
    """Raise where a recorded in-place write to `t` would make gradients wrong."""
    meta = t._meta
    if meta.base is None:
        if meta.requires_grad and t._edge is None:
            raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
        return
    base = meta.base
    if base._edge is None and base._meta is not None and base._meta.requires_grad:
        if meta.creation != "no_grad":
            raise RuntimeError("a view of a leaf Variable that requires grad is being used in an in-place operation.")
    if meta.creation in _REFUSALS and requires_grad(base):
        edge = t._edge or (None, 0)
        name = "a view" if edge[0] is None else operation_of(edge[0])
        raise RuntimeError(_REFUSALS[meta.creation].format(edge[1], name))


def rebase(t: Any, edge: Any, position: int = 0) -> None:
    """Give `t`, which was just written in place, the history `edge`; through a view, the base's history changes too.

    `position` says which of the node's edges leads to what `t` was before.
    """
    meta = t._meta
    if meta is not None and meta.retains_grad and t._edge is not None:
        _move_retained(t, edge)
    if meta is None or meta.base is None:
        t._edge = edge
        return
    base = meta.base
    base._edge = CopySlices.record(base, meta.chain, edge, position), 0
    if base._meta is not None:
        base._meta.requires_grad = False
    regenerate(t)


def _move_retained(t: Any, edge: Any) -> None:
    """A tensor that retains its gradient retains that of its newest value."""
    node, number = t._edge
    if node._hooks is not None:
        reference = node._hooks.retain.pop(number, None)
        if reference is not None and edge is not None:
            edge[0]._own_hooks().retain[edge[1]] = reference


class CopySlices(Node):
    """The base's history after a write through a view: the written part goes through the write's own node."""

    __slots__ = ("chain", "fn", "position")

    @classmethod
    def record(cls, base: Any, chain: tuple[Any, ...], edge: Any, position: int) -> CopySlices:
        """Node for a base of which the part at the end of `chain` was written by the node of `edge`."""
        node = new(cls)
        node.fn, node.chain, node.position = edge[0], chain, position
        node._device, node._hooks, node._seq = base._device, None, tick()
        node._edges = _replaced(node.fn._edges, position, gradient_edge(base))
        return node

    def release(self) -> None:
        self.fn.release()

    def backward(self, grads: Any, raw: bool) -> Any:
        if grads is None:
            return [None] * len(self._edges)
        own = self.position
        if raw:
            result = grads.copy()
            part = replay_raw(result, self.chain, self._device.kernels)
            pieces = self._through(part.copy(), True)
            self._device.kernels["copy_into"](part, 0 if pieces[own] is None else pieces[own])
        else:
            result = TENSORS.clone(grads)
            part = replay(result, self.chain)
            pieces = self._through(TENSORS.clone(part), False)
            if pieces[own] is None:
                TENSORS.zero_(part)
            else:
                TENSORS.copy_(part, pieces[own])
        return _replaced(pieces, own, result)

    def _through(self, grad: Any, raw: bool) -> Any:
        """Backward of the write's own node, which was given the slice's gradient."""
        from gradcore.autograd.formulas import all_gradients
        from gradcore.autograd.nodes import OpNode

        if isinstance(self.fn, OpNode):
            if Clock.last_write > self.fn._seq or self.fn.saved is None:
                self.fn.check()
            wanted = _replaced([edge is not None for edge in self.fn._edges], self.position, True)
            return all_gradients(self.fn, grad, raw, wanted)
        return self.fn.backward(grad, raw)


def _replaced(values: Any, position: int, value: Any) -> tuple[Any, ...]:
    return (*values[:position], value, *values[position + 1 :])


CopySlices.__module__ = "builtins"

