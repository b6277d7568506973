"""Edges and views: where gradients go, and how the history of a base and of its views stays true."""

from __future__ import annotations

import functools
import weakref
from typing import TYPE_CHECKING, Any

from gradcore import functional
from gradcore.autograd import variables
from gradcore.autograd.modes import DUAL, GRAD, INFERENCE, TORCH_FUNCTION_MODE, TORCH_FUNCTION_OFF, State, local
from gradcore.autograd.node import AccumulateGrad, Hooks, Node, operation_of
from gradcore.autograd.variables import (
    PLAIN_TYPES,
    AutogradMeta,
    Edge,
    VersionCounter,
    alias,
    as_class,
    repeats,
    sum_to_shape,
    tick,
)
from gradcore.backends.vmap.array import levels_of
from gradcore.backends.vmap.devices import batched_device
from gradcore.core.typing import AnyTensor
from gradcore.ops.declare.table import OPS

if TYPE_CHECKING:
    from gradcore.autograd.forward import ForwardLevel

__all__ = [
    "CopySlices",
    "Tangents",
    "ViewOutput",
    "all_tangents",
    "attach",
    "chain_of",
    "check_recordable",
    "check_writable",
    "gradient_edge",
    "identity_view",
    "keep_shape",
    "mark_as_view",
    "move_retained",
    "rebase_history",
    "refresh_view_history",
    "replay",
    "replay_raw",
    "requires_grad",
    "steps",
    "tangent_of",
    "tangents_of",
]


# -- edges -------------------------------------------------------------------------------------------------------------


def requires_grad(t: AnyTensor) -> bool:
    """Return whether operations on `t` are recorded."""
    if t._edge is not None:
        return True
    meta = t._autograd
    if meta is None:
        return False
    if meta.requires_grad:
        return True
    # A view whose base has been written in place since gets its history from the base when it is asked for.
    return meta.base is not None and t._vc.version != meta.edge_version and requires_grad(meta.base)


def gradient_edge(t: AnyTensor) -> Edge | None:
    """Return the edge for the gradient of `t`: its node, a leaf's AccumulateGrad, or None."""
    meta = t._autograd
    if meta is None:
        return t._edge  # type: ignore[no-any-return]
    edge: Edge | None = t._edge
    if edge is None and meta.requires_grad:  # a leaf
        accumulator = meta.accumulator
        if accumulator is not None:
            accumulator = accumulator()
        if accumulator is None:
            accumulator = AccumulateGrad()  # `Node.make` written out: every use of a parameter comes here
            accumulator._device, accumulator._edges, accumulator._seq, accumulator._hooks = t._device, (), tick(), None
            accumulator.variable = t
            if meta.observed:
                accumulator._hooks = Hooks()
            meta.accumulator = weakref.ref(accumulator)
        return accumulator, 0
    if meta.base is not None and t._vc.version != meta.edge_version:
        refresh_view_history(t)
        return t._edge  # type: ignore[no-any-return]
    if meta.inference:  # a node that saves it must look at it: see `OpNode.check`
        variables.last_write = max(variables.last_write, tick() + 64)
    return edge


def refresh_view_history(view: AnyTensor) -> None:
    """Give a view the history that its base has now: the base, or another view of it, was written in place.

    Raises
    ------
    RuntimeError
        If the view was made in a way that such a write makes ambiguous, and operations are recorded.
    """
    meta = view._autograd
    inherits = not meta.requires_grad and requires_grad(meta.base)
    if inherits and meta.creation:
        if local.state.mode & GRAD:
            raise refusal(view, "its base or another view of its base has been")
        return
    meta.edge_version = view._vc.version
    before = view._edge
    if inherits:
        view._edge = replay(meta.base, chain_of(view))._edge
    elif before is not None:  # the base has been detached: what is recorded of the view leads nowhere
        chain = chain_of(view)
        edge = view._edge = replay(alias(meta.base, before), chain)._edge
        for _ in steps(chain)[1:]:
            edge = edge[0]._edges[0]
        edge[0]._edges = (None,)
    move_retained(view, before, view._edge)


def move_retained(t: AnyTensor, before: Edge | None, after: Edge | None) -> None:
    """Move the retained gradient of `t` from its edge `before` to `after`, the edge of its new value."""
    if t._autograd is not None and t._autograd.retains_grad and before is not None and before[0]._hooks is not None:
        reference = before[0]._hooks.retain.pop(before[1], None)
        if reference is not None and after is not None:
            after[0]._own_hooks().retain[after[1]] = reference


def steps(chain: tuple[Any, ...]) -> list[Any]:
    """Return the list of view operations, with settings, of a nested chain ``((((), first), second) ...)``."""
    found = []
    while chain:
        chain, step = chain
        found.append(step)
    return found[::-1]


def chain_of(view: AnyTensor) -> tuple[Any, ...]:
    """Return the view operations that lead from the base of `view`, as it is now, to `view`."""
    meta = view._autograd
    base = meta.base
    if base._autograd is None or base._autograd.reshaped == meta.reshaped:
        return meta.chain  # type: ignore[no-any-return]
    # The base itself has another shape than when the view was made: what remains is the place in memory.
    geometry = view._device.backend.geometry_of
    shape = tuple(view._array.shape)
    (strides, start), (own, first) = geometry(view._array), geometry(base._array)
    before: tuple[Any, ...] = ()
    after: tuple[Any, ...] = ()
    if base._dtype.is_complex and not view._dtype.is_complex:
        before = ((OPS["view_as_real"], ()),)
        own, first = (*(2 * s for s in own), 1), 2 * first
    elif view._dtype.is_complex and not base._dtype.is_complex:
        after = ((OPS["view_as_complex"], ()),)
        shape, strides, start = (*shape, 2), (*(2 * s for s in strides), 1), 2 * start
    chain: tuple[Any, ...] = ()
    for step in (*before, (OPS["strided_view"], (shape, strides, start - first, own)), *after):
        chain = chain, step
    return chain


def replay(base: Any, chain: tuple[Any, ...]) -> Any:
    """Apply the recorded view operations to another tensor (recorded in turn)."""
    state = local.state
    before = state.mode
    mode = before | GRAD | (TORCH_FUNCTION_OFF if variables.subclasses_used else 0)
    state.mode = mode & ~TORCH_FUNCTION_MODE
    try:
        for op, args in steps(chain):
            base = op.call(base, *args) if not isinstance(args, ViewOutput) else op.call(base, *args.args)[args.index]
    finally:
        state.mode = before
    return base


class ViewOutput:
    """The settings of a view operation with several results, and which result it was."""

    __slots__ = ("args", "index")

    def __init__(self, args: tuple[Any, ...], index: int) -> None:
        self.args, self.index = args, index


def replay_raw(array: Any, chain: tuple[Any, ...], kernels: Any) -> Any:
    """Return the same on raw arrays."""
    for op, args in steps(chain):
        if isinstance(args, ViewOutput):
            array = kernels[op.kernel](array, *args.args)[args.index]
        else:
            array = kernels[op.kernel](array, *args)
    return array


# -- views -------------------------------------------------------------------------------------------------------------


#: Why a view must not be written to in place, by the way in which it was made.
_REASONS = {
    "multi": (
        "This view is the output of a function that returns multiple views. Such functions do not allow the output "
        "views to be modified inplace. You should replace the inplace operation by an out-of-place one."
    ),
    "custom": (
        "This view was created inside a custom Function (or because an input was returned as-is) and the autograd "
        "logic to handle view+inplace would override the custom backward associated with the custom Function, leading "
        "to incorrect gradients. This behavior is forbidden. You can fix this by cloning the output of the custom "
        "Function."
    ),
}


def refusal(view: AnyTensor, what: str = "is being") -> RuntimeError:
    """Return the error for an in-place write to a view that does not allow it; `what` says what was being modified."""
    creation, edge = view._autograd.creation, view._edge
    mode = creation if creation in ("no_grad", "inference") else "no_grad"
    normal = "with grad mode enabled" if mode == "no_grad" else "in normal mode"
    made = "" if edge is None else f"Output {edge[1]} of {operation_of(edge[0])} is a view"
    if creation == mode or not made:
        made = f"{made} of a view which was created in" if made else "A view was created in"
        header = f"{made} {mode} mode and {what} modified inplace {normal}."
    else:
        header = f"{made} and {what} modified inplace."
    reason = _REASONS.get(creation) or (
        "Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving "
        f"both the view and the inplace either both inside the {mode if mode == 'no_grad' else 'inference_mode'} block "
        "(if you don't want the inplace to be tracked) or both outside (if you want the inplace to be tracked)."
    )
    return RuntimeError(f"{header} {reason}")


def mark_as_view(out: Any, source: Any, op: Any, settings: tuple[Any, ...], index: int | None, state: State) -> None:
    """Note that `out`, a result of a view operation, shares the memory of `source`."""
    a, b = out._array, source._array
    if getattr(a, "base", None) is not b and a is not b and not out._device.backend.shares_memory(a, b):
        return  # a reshape that had to copy
    vc = source._vc
    if vc is None:
        vc = source._vc = VersionCounter()
    out._vc = vc
    parent = source._autograd
    meta = out._autograd = AutogradMeta()
    step = (op, settings if index is None else ViewOutput(settings, index))
    meta.edge_version = vc.version
    if parent is None:
        meta.base, meta.chain = source, ((), step)
    else:
        if parent.base is not None:
            meta.base, meta.chain, meta.creation = parent.base, (parent.chain, step), parent.creation
        else:
            meta.base, meta.chain = source, ((), step)
        if parent.reshaped:
            meta.reshaped = parent.reshaped
        if parent.inference:
            meta.inference = True
    if not state.mode & GRAD:
        meta.creation = "inference" if state.mode & INFERENCE else "no_grad"
    elif index is not None:
        meta.creation = "multi"


def identity_view(t: AnyTensor, edge: Any) -> Any:
    """Return a view of all of `t`, of its class, with a history of its own."""
    out = alias(t, edge)
    if type(t) not in PLAIN_TYPES:
        out = as_class(out, type(t))
    parent = t._autograd
    meta = out._autograd = AutogradMeta()
    meta.base, meta.edge_version = t, out._vc.version
    if parent is not None:
        meta.inference = parent.inference
        if parent.base is not None:
            meta.base, meta.chain, meta.creation = parent.base, parent.chain, parent.creation
        meta.reshaped = parent.reshaped
    return out


def _is_leaf(t: AnyTensor) -> bool:
    return t._edge is None or t._edge[0].is_graph_input


def check_writable(t: AnyTensor) -> None:
    """Raise where a recorded in-place write to `t` would make gradients wrong."""
    meta = t._autograd
    base = meta.base
    if base is None:
        if meta.requires_grad and _is_leaf(t):
            raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
        return
    if meta.creation and (requires_grad(base) or requires_grad(t)):
        raise refusal(t)
    if _is_leaf(base) and ((base._autograd is not None and base._autograd.requires_grad) or requires_grad(t)):
        raise RuntimeError("a view of a leaf Variable that requires grad is being used in an in-place operation.")


def check_recordable(t: AnyTensor) -> None:
    """Raise where a view must not get the history of something that is written into it."""
    if t._autograd is not None and t._autograd.creation:
        raise refusal(t)


def rebase_history(t: AnyTensor, edge: Any, position: int = 0) -> None:
    """Give `t`, which was just written in place, the history `edge`; through a view, the base's history changes too.

    `position` says which of the node's edges leads to what `t` was before.
    """
    meta = t._autograd
    for level in local.state.transforms:
        if level.reverse:
            level.note_write(t)
    if meta is None or meta.base is None:
        before, t._edge = t._edge, edge
        move_retained(t, before, edge)
        return
    base = meta.base
    before = base._edge
    base._edge = CopySlices.record(base, chain_of(t), edge, position), 0
    if base._autograd is not None:
        base._autograd.requires_grad = False
    move_retained(base, before, base._edge)
    refresh_view_history(t)
    if t._edge is not None:
        edge[0]._rebased = weakref.ref(t._edge[0]), t._edge[1]


def keep_shape(t: AnyTensor) -> None:
    """Insert a node that reshapes gradients of `t` to its present shape.

    The tensor is about to get another shape without a record.
    """
    before = t._edge
    node = _fitting_class(type(before[0]).__name__).make(t._device, (before,), t)
    t._edge = node, 0
    move_retained(t, before, t._edge)


class FittingNode(Node):
    """Sums a gradient to the shape that the result of the next node had when it was recorded."""

    __slots__ = ()

    def backward(self, grads: Any, arithmetic: Any, needed: Any = None) -> Any:
        return [arithmetic.from_tensor(sum_to_shape(arithmetic.as_tensor(grads), self._shape, self))]


@functools.cache
def _fitting_class(name: str) -> type[FittingNode]:
    """Return the class of these nodes behind a node of that name, which is what users see."""
    return type(name, (FittingNode,), {"__slots__": (), "__module__": "builtins", "__doc__": FittingNode.__doc__})


class CopySlices(Node):
    """The base's history after a write through a view: the written part goes through the write's own node."""

    __slots__ = ("_inner", "chain", "dual", "order", "position")

    #: The views that lead from the base to the written part.
    chain: tuple[Any, ...]
    #: The base's dims in the order of its memory; None where that is their own order, none where it repeats memory.
    order: tuple[int, ...] | None
    #: Which of the edges is the written tensor's.
    position: int
    #: Whether a tangent's formula may have read what was written: then the write's node runs by itself as well, later.
    dual: bool

    def name(self) -> str:
        """Return ``'torch::autograd::CopySlices'``."""
        return "torch::autograd::CopySlices"

    @classmethod
    def record(cls, base: Any, chain: tuple[Any, ...], edge: Any, position: int) -> CopySlices:
        """Return the node for a base whose part at the end of `chain` was written by the node of `edge`."""
        node = cls.make(base._device, _replace(edge[0]._edges, position, gradient_edge(base)), base)
        node._inner, node.chain, node.position = edge[0], chain, position
        node.order, node.dual = _memory_order(base._array), bool(local.state.mode & DUAL)
        return node

    def release(self) -> None:
        if not self.dual:
            self._inner.release()

    def backward(self, grads: Any, arithmetic: Any, needed: Any = None) -> Any:
        if grads is None:
            return [None] * len(self._edges)
        own = self.position
        if self.order == ():
            raise RuntimeError(
                "unsupported operation: more than one element of the written-to tensor refers to a single memory "
                "location. Please clone() the tensor before performing the operation."
            )
        if not arithmetic.recorded:
            device, result = self._device, self._copy_gradient(grads, self._device)
            part = replay_raw(result, self.chain, device.kernels)
            pieces = self._through(part.copy(), arithmetic)
            written = 0 if pieces[own] is None else pieces[own]
            more = tuple(set(levels_of(written)).difference(levels_of(part)))
            if more:  # samples that shared memory get memory of their own
                device = batched_device(more, device)
                apart = device.backend.xp.zeros(result.shape, result.dtype) + result
                result = self._copy_gradient(apart, device)
                part = replay_raw(result, self.chain, device.kernels)
            device.kernels["copy_into"](part, written)
        else:
            result = self._copy_in_order(grads, _contiguous_clone, functional.permute)
            part = replay(result, self.chain)
            pieces = self._through(functional.clone(part), arithmetic)
            filled = repeats(part._array)  # nothing else can be written there
            written = functional.zeros_like(part) if pieces[own] is None or filled else pieces[own]
            more = tuple({*part._device.levels, *written._device.levels}.difference(levels_of(part._array)))
            if more:  # samples that shared memory get memory of their own
                apart = functional.repeat_per_sample(result, batched_device(more, result._device))
                result = self._copy_in_order(apart, _contiguous_clone, functional.permute)
                part = replay(result, self.chain)
            functional.zero_(part) if filled else functional.copy_(part, written)
        return _replace(pieces, own, result)

    def _copy_gradient(self, grads: Any, device: Any) -> Any:
        """Return a copy of the gradient, a raw array, that lies in memory as the base does."""
        array = device.backend.xp.array
        return self._copy_in_order(grads, lambda x: array(x, order="C"), lambda x, dims: x.transpose(dims))

    def _copy_in_order(self, grads: Any, copy: Any, permute: Any) -> Any:
        """Return a copy of the gradient in the base's memory order, so that the same view operation applies to both."""
        if self.order is None:
            return copy(grads)
        back = sorted(range(len(self.order)), key=self.order.__getitem__)
        return permute(copy(permute(grads, self.order)), back)

    def _through(self, grad: Any, arithmetic: Any) -> Any:
        """Run the backward of the write's own node on the gradient of the slice."""
        edges = self._inner._edges
        return self._inner.backward(grad, arithmetic, _replace([e is not None for e in edges], self.position, True))


def _memory_order(array: Any) -> tuple[int, ...] | None:
    """Return the dims from the largest step in memory to the smallest; None where that is their own order."""
    if array.flags.c_contiguous:
        return None
    return () if repeats(array) else tuple(sorted(range(array.ndim), key=lambda d: -array.strides[d]))


def _contiguous_clone(t: AnyTensor) -> Any:
    return functional.clone(t, memory_format="contiguous")


def _replace(values: Any, position: int, value: Any) -> tuple[Any, ...]:
    return (*values[:position], value, *values[position + 1 :])


# -- tangents in forward mode: a view's come from its base's when asked for --------------------------------------------


class Tangents(dict["ForwardLevel", Any]):
    """The tangents of one tensor by level, None for a view without that of its base; shared with what nodes keep."""

    __slots__ = ("__weakref__",)
    __hash__ = object.__hash__  # type: ignore[assignment]
    __eq__ = object.__eq__


def attach(t: AnyTensor, level: ForwardLevel, tangent: AnyTensor) -> Any:
    """Give `t` a tangent at `level`; returns `t`."""
    tangents = tangents_of(t)
    tangents[level] = tangent
    level.duals.add(tangents)
    return t


def tangents_of(t: AnyTensor) -> Tangents:
    """Return the tangents of `t` by level, made when first asked for."""
    if t._autograd is None:
        t._autograd = AutogradMeta()
    tangents: Tangents | None = t._autograd.tangents
    if tangents is None:
        tangents = t._autograd.tangents = Tangents()
    return tangents


def tangent_of(t: AnyTensor, level: ForwardLevel) -> Any:
    """Return the tangent of `t` at `level`, or None; a view of a dual has the view of the dual's tangent."""
    meta = t._autograd
    if meta is None:
        return None
    if meta.tangents is not None and level in meta.tangents and not (level.moved and _is_left_behind(meta, level)):
        return meta.tangents[level]
    tangent = None
    if meta.base is not None:
        tangent = tangent_of(meta.base, level)
        if tangent is not None:
            tangent = replay(tangent, chain_of(t))
            attach(t, level, tangent)
    return tangent


def all_tangents(t: AnyTensor) -> Tangents | None:
    """Return the tangents of `t` at all open levels, with those of a view that nobody has asked for yet; or None."""
    meta = t._autograd
    if meta is not None and meta.base is not None:
        for level in local.state.levels:
            tangent_of(t, level)
    return None if meta is None else meta.tangents


def _is_left_behind(meta: AutogradMeta, level: ForwardLevel) -> bool:
    """Return whether a view's tangent is in memory that the tangent of its base has left since."""
    base, tangent = meta.base, meta.tangents[level]
    if base is None or tangent is None or base._autograd is None or base._autograd.tangents not in level.moved:
        return False
    return _owner(tangent) is not _owner(base._autograd.tangents[level])


def _owner(t: AnyTensor) -> AnyTensor:
    """Return the base of a view, or the tensor itself."""
    base = None if t._autograd is None else t._autograd.base
    return t if base is None else base


CopySlices.__module__ = "builtins"
