"""Edges: where the gradients of tensors go. Views get theirs anew once their base has been written in place."""

from __future__ import annotations

import weakref
from typing import Any

from gradcore.autograd.messages import refusal
from gradcore.autograd.modes import FUNCTIONS, GRAD, PLAINLY, local
from gradcore.autograd.node import AccumulateGrad, Hooks
from gradcore.autograd.variables import OWN, Clock, Edge, Subclasses, alias, tick
from gradcore.ops.table import OPS

__all__ = [
    "Chosen",
    "chain_of",
    "gradient_edge",
    "move_retained",
    "regenerate",
    "replay",
    "replay_raw",
    "requires_grad",
    "steps",
]


def requires_grad(t: Any) -> bool:
    """Whether operations on `t` are recorded."""
    if t._edge is not None:
        return True
    meta = t._meta
    if meta is None:
        return False
    if meta.requires_grad:
        return True
    # A view whose base has been written in place since gets its history from the base when it is asked for.
    return meta.base is not None and t._vc.version != meta.edge_version and requires_grad(meta.base)


def gradient_edge(t: Any) -> Edge | None:
    """Where the gradient of `t` goes: its node, a leaf's AccumulateGrad, or None."""
    meta = t._meta
    if meta is None:
        return t._edge  # type: ignore[no-any-return]
    edge: Edge | None = t._edge
    if edge is None and meta.requires_grad:  # a leaf
        accumulator = meta.accumulator
        if accumulator is not None:
            accumulator = accumulator()
        if accumulator is None:
            accumulator = AccumulateGrad.make(t._device, ())
            accumulator.variable = t
            if meta.hooks or meta.post_accumulate_hooks or meta.grad_dtype is not OWN:
                accumulator._hooks = Hooks()
            meta.accumulator = weakref.ref(accumulator)
        return accumulator, 0
    if meta.base is not None and t._vc.version != meta.edge_version:
        regenerate(t)
        return t._edge  # type: ignore[no-any-return]
    if meta.inference:  # a node that saves it must look at it: see `OpNode.check`
        Clock.last_write = max(Clock.last_write, tick() + 64)
    return edge


def regenerate(view: Any) -> None:
    """Give a view the history that its base has now: the base, or another view of it, was written in place.

    Raises
    ------
    RuntimeError
        If the view was made in a way that such a write makes ambiguous, and operations are recorded.
    """
    meta = view._meta
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


def move_retained(t: Any, before: Edge | None, after: Edge | None) -> None:
    """A tensor that retains its gradient retains that of its newest value."""
    if t._meta is not None and t._meta.retains_grad and before is not None and before[0]._hooks is not None:
        reference = before[0]._hooks.retain.pop(before[1], None)
        if reference is not None and after is not None:
            after[0]._own_hooks().retain[after[1]] = reference


def steps(chain: tuple[Any, ...]) -> list[Any]:
    """The view operations, with their settings, that lead from a base to a view: ``((((), first), second) ...)``."""
    found = []
    while chain:
        chain, step = chain
        found.append(step)
    return found[::-1]


def chain_of(view: Any) -> tuple[Any, ...]:
    """The view operations that lead from the base of `view`, as it is now, to `view`."""
    meta = view._meta
    base = meta.base
    if base._meta is None or base._meta.reshaped == meta.reshaped:
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
    before, state.mode = state.mode, (state.mode | GRAD | (PLAINLY if Subclasses.used else 0)) & ~FUNCTIONS
    try:
        for op, args in steps(chain):
            base = op.call(base, *args) if not isinstance(args, Chosen) else op.call(base, *args.args)[args.index]
    finally:
        state.mode = before
    return base


class Chosen:
    """The settings of a view operation with several results, and which result it was."""

    __slots__ = ("args", "index")

    def __init__(self, args: tuple[Any, ...], index: int) -> None:
        self.args, self.index = args, index


def replay_raw(array: Any, chain: tuple[Any, ...], kernels: Any) -> Any:
    """The same on raw arrays."""
    for op, args in steps(chain):
        if isinstance(args, Chosen):
            array = kernels[op.kernel](array, *args.args)[args.index]
        else:
            array = kernels[op.kernel](array, *args)
    return array
