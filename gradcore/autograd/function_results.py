"""What `Function.apply` returns: the results of a user's forward, made part of the graph."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from gradcore.autograd import forward, views
from gradcore.autograd.edges import gradient_edge, requires_grad
from gradcore.autograd.modes import DUAL, local
from gradcore.autograd.saved import Kept
from gradcore.autograd.variables import Variable, bump

__all__ = ["finish"]

NO_INPUT = (
    "ctx.mark_dirty() received a tensor that was not an input. Only input Tensors that have been mutated should be "
    "passed to ctx.mark_dirty()."
)


def finish(ctx: Any, args: tuple[Any, ...], result: Any, record: bool, separate: bool) -> Any:
    """Give the tensors of a call's `result` their history and keep what was saved.

    Parameters
    ----------
    ctx : BackwardFunction
        The call's node, with the notes of `forward`.
    args : tuple
        The arguments of the call.
    result : object
        What `forward` returned: the outputs are the elements of a tuple, or the only one.
    record : bool
        Whether the call is recorded.
    separate : bool
        Whether the notes were made by `setup_context`.
    """
    if record:
        ctx._inputs = tuple([_meta(a) for a in args])
        if _is_plain(ctx, args, result):
            ctx._outputs, ctx._device = (_meta(result),), result._device
            _give_history(ctx, result, 0)
            if result._meta is not None and result._meta.base is not None:
                result._meta.creation = "custom"
            _save(ctx, (result,))
            return result
    raw = list(result) if isinstance(result, tuple) else [result]
    inputs = {id(a) for a in args if isinstance(a, Variable)}
    dirty = _dirty(ctx, inputs, raw)
    constant = _tensor_ids(
        ctx.non_differentiable, "mark_non_differentiable only accepts variable arguments, but got {type}"
    )
    saved = {id(t) for t in ctx.to_save or () if t is not None}
    moving = [isinstance(t, Variable) and t._dtype.category > 1 and id(t) not in constant for t in raw]
    if record:
        ctx._n_outputs = len(raw)
        ctx._outputs = tuple([_meta(t) for t in raw])
        tensors = [t for t, moves in zip(raw, moving, strict=True) if moves]
        ctx._device = next(t._device for t in (*tensors, *args) if isinstance(t, Variable))
    creation = "multi" if sum(moving) > 1 else "custom"
    outputs: list[Any] = []
    for i, t in enumerate(raw):
        if not isinstance(t, Variable):
            outputs.append(t)
            continue
        is_input, is_dirty = id(t) in inputs, id(t) in dirty
        if is_dirty:
            bump(t)
        if not (record and moving[i]):
            t = _without_history(t, is_input, is_dirty)
        elif is_dirty:
            _written(ctx, args, t, i, len(raw))
        elif is_input:
            if separate and id(t) in saved:
                raise RuntimeError(
                    "An input that has been returned as-is as output is being saved for backward. This is not "
                    "supported if you override setup_context. You should return and save a view of the input instead, "
                    "e.g. with x.view_as(x) or setup ctx inside the forward function itself."
                )
            t = views.same_as(t, (ctx, i))
        else:
            _give_history(ctx, t, i)
        if not is_dirty and t._meta is not None and t._meta.base is not None:
            t._meta.creation = creation
        outputs.append(t)
    if record:
        _save(ctx, outputs)
    return tuple(outputs) if isinstance(result, tuple) else outputs[0]


def _dirty(ctx: Any, inputs: set[int], outputs: Sequence[Any]) -> set[int]:
    """The identities of the tensors that forward says it has written: inputs that it returns."""
    dirty = _tensor_ids(ctx.dirty_tensors, "mark_dirty can only accept variables, but argument {i} is of type {type}")
    if not dirty <= {id(t) for t in outputs}:
        raise RuntimeError(
            "Some elements marked as dirty during the forward method were not returned as output. The inputs that are "
            "modified inplace must all be outputs of the Function."
        )
    if dirty - inputs:
        if any(t._is_view() for t in ctx.dirty_tensors if id(t) not in inputs):
            raise RuntimeError(NO_INPUT)
        warnings.warn(NO_INPUT, stacklevel=5)
    return dirty


def _tensor_ids(values: Any, message: str) -> set[int]:
    for i, t in enumerate(values or ()):
        if not isinstance(t, Variable):
            raise RuntimeError(message.format(i=i, type=type(t).__name__))
    return {id(t) for t in values or ()}


def _meta(t: Any) -> Any:
    """What backward needs to know of an argument or a result."""
    return (t._array.shape, t._dtype, t._device) if isinstance(t, Variable) else None


def _is_plain(ctx: Any, args: tuple[Any, ...], result: Any) -> bool:
    """Whether a call has one differentiable result, which is new."""
    return (
        isinstance(result, Variable)
        and result._dtype.category > 1
        and not ctx.dirty_tensors
        and not ctx.non_differentiable
        and not any([result is a for a in args])  # noqa: C419
    )


def _give_history(ctx: Any, t: Any, i: int) -> None:
    """Make the node of the call the history of a result that is not one of its arguments."""
    t._edge = (ctx, i)
    if t._meta is not None and t._meta.base is not None:
        t._meta.edge_version = t._vc.version


def _written(ctx: Any, args: tuple[Any, ...], t: Any, i: int, n_outputs: int) -> None:
    """History of an input that forward has written in place."""
    if t._meta is not None and t._meta.base is not None:
        views.check_writable(t)
    edge = gradient_edge(t)
    if edge is not None and edge[0].of_leaf:
        raise RuntimeError("a leaf Variable that requires grad has been used in an in-place operation.")
    if t._meta is not None and t._meta.base is not None and n_outputs > 1:
        raise RuntimeError(
            "If your Function modifies inplace an input that is a view of another Tensor, your Function cannot return "
            "more than one Tensor. This is not supported by the current autograd engine. You should either make sure "
            "the input is not a view (using .clone() for example) or make your Function only return one Tensor "
            "(potentially splitting it into two Functions: one doing the inplace that returns a single Tensor and a "
            "second one that does the other operations)."
        )
    tensors = [a for a in args if isinstance(a, Variable)]
    views.rebase(t, (ctx, i), next((k for k, a in enumerate(tensors) if a is t), 0))


def _without_history(t: Any, is_input: bool, is_dirty: bool) -> Any:
    """An output that carries no derivative."""
    if not requires_grad(t):
        return views.same_as(t, None) if is_input and not is_dirty else t
    if is_input:
        return t.detach()
    return t if t._is_view() else t.detach_()


def _save(ctx: Any, outputs: Sequence[Any]) -> None:
    """Keep what `save_for_backward` was given; an output is kept without its history, which is the node itself."""
    device = ctx._device
    if any([meta is not None and meta[2] is not device for meta in ctx._inputs]):  # noqa: C419
        ctx._input_devices = [meta[2] for meta in ctx._inputs if meta is not None]
    own = {id(t) for t in outputs if isinstance(t, Variable) and t._edge is not None and t._edge[0] is ctx}
    if local.state.mode & DUAL:  # tangents that outputs get later belong to what is saved of them
        for t in outputs:
            if id(t) in own:
                forward.tangents_of(t)
    if ctx.to_save:
        for i, t in enumerate(ctx.to_save):
            if t is not None and not isinstance(t, Variable):
                raise TypeError(
                    f"save_for_backward can only save variables, but argument {i} is of type {type(t).__name__}"
                )
        ctx._saved = tuple([Kept(t, id(t) in own) for t in ctx.to_save])
