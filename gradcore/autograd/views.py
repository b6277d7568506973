"""Gradient edges of tensors, and views: the histories of a base and its views stay consistent after in-place writes."""

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
    # The base has been written in place since: `gradient_edge` will give the view its history from the base.
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
            # This is `Node.make`, inlined because every use of a parameter runs this code.
            accumulator = AccumulateGrad()
            accumulator._device, accumulator._edges, accumulator._seq, accumulator._hooks = t._device, (), tick(), None
            accumulator.variable = t
            if meta.observed:
                accumulator._hooks = Hooks()
            meta.accumulator = weakref.ref(accumulator)
        return accumulator, 0
    if meta.base is not None and t._vc.version != meta.edge_version:
        refresh_view_history(t)
        return t._edge  # type: ignore[no-any-return]
    if meta.inference:
        # Nodes that save the tensor then check it, see `OpNode.check`.
        variables.last_write = max(variables.last_write, tick() + 64)
    return edge


def refresh_view_history(view: AnyTensor) -> None:
    """Update the history of a view after an in-place write to its base or to another view of the base.

    Raises
    ------
    RuntimeError
        If grad mode is on and the view was created in a way that makes such a write ambiguous, see `AutogradMeta`.
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
    elif before is not None:  # the base has been detached, so no gradient may flow to it
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
    """Return the list of ``(operation, settings)`` in a nested chain of views ``((((), first), second) ...)``."""
    view_steps = []
    while chain:
        chain, step = chain
        view_steps.append(step)
    return view_steps[::-1]


def chain_of(view: AnyTensor) -> tuple[Any, ...]:
    """Return the chain of view operations that leads from the base of `view`, in its present shape, to `view`."""
    meta = view._autograd
    base = meta.base
    if base._autograd is None or base._autograd.reshaped == meta.reshaped:
        return meta.chain  # type: ignore[no-any-return]
    # The shape of the base has changed since the view was created, so the view is expressed by strides and offset.
    geometry = view._device.backend.geometry_of
    shape = tuple(view._array.shape)
    (strides, start), (base_strides, base_start) = geometry(view._array), geometry(base._array)
    before: tuple[Any, ...] = ()
    after: tuple[Any, ...] = ()
    if base._dtype.is_complex and not view._dtype.is_complex:
        before = ((OPS["view_as_real"], ()),)
        base_strides, base_start = (*(2 * s for s in base_strides), 1), 2 * base_start
    elif view._dtype.is_complex and not base._dtype.is_complex:
        after = ((OPS["view_as_complex"], ()),)
        shape, strides, start = (*shape, 2), (*(2 * s for s in strides), 1), 2 * start
    chain: tuple[Any, ...] = ()
    for step in (*before, (OPS["strided_view"], (shape, strides, start - base_start, base_strides)), *after):
        chain = chain, step
    return chain


def replay(base: Any, chain: tuple[Any, ...]) -> Any:
    """Apply the view operations in `chain` to the tensor `base`, with recording on, and return the result."""
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
    """The settings of a view operation with several results, and the index of the result that the view is."""

    __slots__ = ("args", "index")

    def __init__(self, args: tuple[Any, ...], index: int) -> None:
        self.args, self.index = args, index


def replay_raw(array: Any, chain: tuple[Any, ...], kernels: Any) -> Any:
    """Apply the view operations in `chain` to a raw array and return the result."""
    for op, args in steps(chain):
        if isinstance(args, ViewOutput):
            array = kernels[op.kernel](array, *args.args)[args.index]
        else:
            array = kernels[op.kernel](array, *args)
    return array


# -- views -------------------------------------------------------------------------------------------------------------


#: Why a view must not be written to in place, by `AutogradMeta.creation`.
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
    """Return the error for an in-place write to a view that does not allow it; `what` names the modified tensor."""
    creation, edge = view._autograd.creation, view._edge
    mode = creation if creation in ("no_grad", "inference") else "no_grad"
    normal = "with grad mode enabled" if mode == "no_grad" else "in normal mode"
    origin = "" if edge is None else f"Output {edge[1]} of {operation_of(edge[0])} is a view"
    if creation == mode or not origin:
        origin = f"{origin} of a view which was created in" if origin else "A view was created in"
        header = f"{origin} {mode} mode and {what} modified inplace {normal}."
    else:
        header = f"{origin} and {what} modified inplace."
    reason = _REASONS.get(creation) or (
        "Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving "
        f"both the view and the inplace either both inside the {mode if mode == 'no_grad' else 'inference_mode'} block "
        "(if you don't want the inplace to be tracked) or both outside (if you want the inplace to be tracked)."
    )
    return RuntimeError(f"{header} {reason}")


def mark_as_view(out: Any, source: Any, op: Any, settings: tuple[Any, ...], index: int | None, state: State) -> None:
    """Make `out`, a result of the view operation `op`, a view of `source` that shares its version counter."""
    a, b = out._array, source._array
    if getattr(a, "base", None) is not b and a is not b and not out._device.backend.shares_memory(a, b):
        return  # no view: a reshape that had to copy
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
    """Return a view of `t` with the same class and elements, and with the history `edge`."""
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
    """Raise if a recorded in-place write to `t` would make gradients wrong."""
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
    """Raise if `t` is a view of a kind whose history cannot be changed by an in-place write."""
    if t._autograd is not None and t._autograd.creation:
        raise refusal(t)


def rebase_history(t: AnyTensor, edge: Any, position: int = 0) -> None:
    """Give `t`, which was just written in place, the history `edge`. If it is a view, update its base's history too.

    `position` is the index, among the edges of the new node, of the edge to the previous value of `t`.
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
        edge[0].rebase_output(edge[1], t._edge)


def keep_shape(t: AnyTensor) -> None:
    """Insert a node into the history of `t` that sums incoming gradients to the present shape of `t`.

    To be called before the shape of `t` is changed without recording.
    """
    before = t._edge
    node = _fitting_class(type(before[0]).__name__).make(t._device, (before,), t)
    t._edge = node, 0
    move_retained(t, before, t._edge)


class FittingNode(Node):
    """Node that sums a gradient to the shape that the output of the next node had when it was recorded."""

    __slots__ = ()

    def backward(self, grads: Any, arithmetic: Any, needed: Any = None) -> Any:
        return [arithmetic.from_tensor(sum_to_shape(arithmetic.as_tensor(grads), self._shape, self))]


@functools.cache
def _fitting_class(name: str) -> type[FittingNode]:
    """Return a subclass of `FittingNode` called `name`, so that users see the name of the node behind it."""
    return type(name, (FittingNode,), {"__slots__": (), "__module__": "builtins", "__doc__": FittingNode.__doc__})


class CopySlices(Node):
    """The node of a base after an in-place write to a view of it.

    Its backward zeroes the written part of the base's gradient, and runs the node of the write on that part.
    """

    __slots__ = ("_inner", "chain", "dual", "order", "position")

    #: The chain of view operations that leads from the base to the written part.
    chain: tuple[Any, ...]
    #: The dims of the base by decreasing stride; None if it is C-contiguous, ``()`` if its elements share memory.
    order: tuple[int, ...] | None
    #: The index of the edge to the previous value of the base.
    position: int
    #: Whether forward mode was on. Then tangents may depend on the write, so its node may also run by itself, later.
    dual: bool

    def name(self) -> str:
        """Return ``'torch::autograd::CopySlices'``."""
        return "torch::autograd::CopySlices"

    @classmethod
    def record(cls, base: Any, chain: tuple[Any, ...], edge: Any, position: int) -> CopySlices:
        """Return the node for `base`, whose view at the end of `chain` was written to by the node of `edge`."""
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
        position = self.position
        if self.order == ():
            raise RuntimeError(
                "unsupported operation: more than one element of the written-to tensor refers to a single memory "
                "location. Please clone() the tensor before performing the operation."
            )
        if not arithmetic.recorded:
            device, result = self._device, self._copy_gradient(grads, self._device)
            part = replay_raw(result, self.chain, device.kernels)
            pieces = self._through(part.copy(), arithmetic)
            part_gradient = 0 if pieces[position] is None else pieces[position]
            new_levels = tuple(set(levels_of(part_gradient)).difference(levels_of(part)))
            if new_levels:  # samples that shared memory get memory of their own
                device = batched_device(new_levels, device)
                separate = device.backend.xp.zeros(result.shape, result.dtype) + result
                result = self._copy_gradient(separate, device)
                part = replay_raw(result, self.chain, device.kernels)
            device.kernels["copy_into"](part, part_gradient)
        else:
            result = self._copy_in_order(grads, _contiguous_clone, functional.permute)
            part = replay(result, self.chain)
            pieces = self._through(functional.clone(part), arithmetic)
            filled = repeats(part._array)  # one value for all elements, so the written part depends on nothing else
            part_gradient = functional.zeros_like(part) if pieces[position] is None or filled else pieces[position]
            new_levels = tuple({*part._device.levels, *part_gradient._device.levels}.difference(levels_of(part._array)))
            if new_levels:  # samples that shared memory get memory of their own
                separate = functional.repeat_per_sample(result, batched_device(new_levels, result._device))
                result = self._copy_in_order(separate, _contiguous_clone, functional.permute)
                part = replay(result, self.chain)
            functional.zero_(part) if filled else functional.copy_(part, part_gradient)
        return _replace(pieces, position, result)

    def _copy_gradient(self, grads: Any, device: Any) -> Any:
        """Return a copy of a raw gradient, on `device`, in the memory order of the base."""
        array = device.backend.xp.array
        return self._copy_in_order(grads, lambda x: array(x, order="C"), lambda x, dims: x.transpose(dims))

    def _copy_in_order(self, grads: Any, copy: Any, permute: Any) -> Any:
        """Return a copy of the gradient in the base's memory order, so that the same view operations apply to both."""
        if self.order is None:
            return copy(grads)
        inverse_order = sorted(range(len(self.order)), key=self.order.__getitem__)
        return permute(copy(permute(grads, self.order)), inverse_order)

    def _through(self, grad: Any, arithmetic: Any) -> Any:
        """Return the gradients that the node of the write computes from the gradient of the written part."""
        edges = self._inner._edges
        return self._inner.backward(grad, arithmetic, _replace([e is not None for e in edges], self.position, True))


def _memory_order(array: Any) -> tuple[int, ...] | None:
    """Return the dims by decreasing stride, None for a C-contiguous array, or ``()`` if elements share memory."""
    if array.flags.c_contiguous:
        return None
    return () if repeats(array) else tuple(sorted(range(array.ndim), key=lambda d: -array.strides[d]))


def _contiguous_clone(t: AnyTensor) -> Any:
    return functional.clone(t, memory_format="contiguous")


def _replace(values: Any, position: int, value: Any) -> tuple[Any, ...]:
    return (*values[:position], value, *values[position + 1 :])


# -- tangents in forward mode: those of a view are computed from those of its base on first use ------------------------


class Tangents(dict["ForwardLevel", Any]):
    """The tangents of one tensor by level, shared with the saved tensors of nodes. None hides that of a view's base."""

    __slots__ = ("__weakref__",)
    __hash__ = object.__hash__  # type: ignore[assignment]
    __eq__ = object.__eq__


def attach(t: AnyTensor, level: ForwardLevel, tangent: AnyTensor) -> Any:
    """Set the tangent of `t` at `level`, and return `t`."""
    tangents = tangents_of(t)
    tangents[level] = tangent
    level.duals.add(tangents)
    return t


def tangents_of(t: AnyTensor) -> Tangents:
    """Return the dict of the tangents of `t` by level, and create it on first use."""
    if t._autograd is None:
        t._autograd = AutogradMeta()
    tangents: Tangents | None = t._autograd.tangents
    if tangents is None:
        tangents = t._autograd.tangents = Tangents()
    return tangents


def tangent_of(t: AnyTensor, level: ForwardLevel) -> Any:
    """Return the tangent of `t` at `level`, or None. The tangent of a view is a view of its base's tangent."""
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
    """Return the tangents of `t` at all open levels, or None. Those of a view are computed if they are missing."""
    meta = t._autograd
    if meta is not None and meta.base is not None:
        for level in local.state.levels:
            tangent_of(t, level)
    return None if meta is None else meta.tangents


def _is_left_behind(meta: AutogradMeta, level: ForwardLevel) -> bool:
    """Return whether a view's tangent is outdated, because the tangent of its base has moved to other memory."""
    base, tangent = meta.base, meta.tangents[level]
    if base is None or tangent is None or base._autograd is None or base._autograd.tangents not in level.moved:
        return False
    return _owner(tangent) is not _owner(base._autograd.tangents[level])


def _owner(t: AnyTensor) -> AnyTensor:
    """Return the base of a view, or the tensor itself."""
    base = None if t._autograd is None else t._autograd.base
    return t if base is None else base


CopySlices.__module__ = "builtins"
