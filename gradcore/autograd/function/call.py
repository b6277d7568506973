"""Calls of custom functions: run `forward` without recording, connect its results to the graph, apply forward mode."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from gradcore import functional
from gradcore.autograd import anomaly_mode, forward, variables, views
from gradcore.autograd.modes import ANOMALY, DUAL, GRAD, SAVED_HOOKS, local
from gradcore.autograd.saved import SavedTensor, current_hooks, refuse_inference
from gradcore.autograd.variables import Variable, bump, tick, version_counter
from gradcore.autograd.views import gradient_edge, requires_grad
from gradcore.core.errors import history_lost
from gradcore.core.typing import AnyTensor

__all__ = ["bind", "call"]

NOT_IN_PLACE = (
    "An inplace custom Function is not modifying the forward mode gradients inplace. If the forward is modifying an "
    "input inplace, then the jvp function must modify the corresponding gradient inplace."
)

NO_INPUT = (
    "ctx.mark_dirty() received a tensor that was not an input. Only input Tensors that have been mutated should be "
    "passed to ctx.mark_dirty()."
)

_signature = functools.lru_cache(maxsize=256)(inspect.signature)


def bind(function: Callable[..., Any], args: Sequence[Any], named: dict[str, Any], separate: bool) -> tuple[Any, ...]:
    """Return all arguments of a call of `forward` by position, with defaults filled in and without the context."""
    bound = _signature(function).bind(*(args if separate else (None, *args)), **named)
    bound.apply_defaults()
    if bound.kwargs:
        raise TypeError(f"{function.__qualname__}: keyword-only arguments of forward are not supported by apply()")
    return bound.args if separate else bound.args[1:]


_CONTAINERS = frozenset((list, tuple, dict))


def _holds_differentiated(value: Any) -> bool:
    """Return whether a tensor in nested containers requires grad."""
    if type(value) is dict:
        value = value.values()
    elif type(value) not in _CONTAINERS:
        return isinstance(value, Variable) and requires_grad(value)
    return any(map(_holds_differentiated, value))


def call(cls: Any, args: tuple[Any, ...], separate: bool) -> tuple[Any, Any]:
    """Run a custom operation.

    Parameters
    ----------
    cls : subclass of Function
    args : tuple
        The arguments of ``apply``.
    separate : bool
        Whether `cls` has a `setup_context`.

    Returns
    -------
    tuple
        The context, which is the node if the call is recorded, and the results.
    """
    state = local.state
    if state.mode & DUAL:
        level = forward.innermost_of(args)
        if level is not None:
            return _call_dual(cls, args, separate, level)
    needs = tuple([isinstance(a, Variable) and requires_grad(a) for a in args])
    record = bool(state.mode & GRAD) and True in needs
    if state.mode & GRAD and any([type(a) in _CONTAINERS and _holds_differentiated(a) for a in args]):  # noqa: C419
        history_lost("container")
    edges = tuple([gradient_edge(a) for a in args if isinstance(a, Variable)]) if record else ()
    ctx = cls._backward_cls.make(None, edges)
    ctx.needs_input_grad = needs
    before, state.mode = state.mode, state.mode & ~(GRAD | DUAL)
    try:
        if separate:
            result = cls.forward(*args)
            cls.setup_context(ctx, args, result)
        else:
            result = cls.forward(ctx, *args)
    finally:
        state.mode = before
    ctx._seq = tick()  # younger than the in-place writes of `forward`, so that they pass the version check
    try:
        result = finish(ctx, args, result, record, separate)
    except BaseException:  # a hook on saved tensors may raise, to end a recomputation early
        ctx.forget_notes()
        raise
    if record and state.mode & ANOMALY:
        tensors = [a for a in args if isinstance(a, Variable)]
        anomaly_mode.note(ctx, tensors, result if isinstance(result, tuple) else (result,))
    return ctx, result


# -- results -----------------------------------------------------------------------------------------------------------


def finish(ctx: Any, args: tuple[Any, ...], result: Any, record: bool, separate: bool) -> Any:
    """Give the tensors in the `result` of a call their history, and store the saved tensors on the node.

    Parameters
    ----------
    ctx : BackwardFunction
        The node of the call, with the settings that `forward` made on it.
    args : tuple
        The arguments of the call.
    result : object
        What `forward` returned: the outputs are the elements of a tuple, or the only one.
    record : bool
        Whether the call is recorded.
    separate : bool
        Whether the settings were made by `setup_context`.
    """
    if record:
        ctx._inputs = tuple(  # as `_autograd`, without a call for each
            [(a._array.shape, a._dtype, a._device) if isinstance(a, Variable) else None for a in args]
        )
        if _is_plain(ctx, args, result):
            ctx._outputs, ctx._device = (_tensor_meta(result),), result._device
            _give_history(ctx, result, 0)
            if result._autograd is not None and result._autograd.base is not None:
                result._autograd.creation = "custom"
            _save(ctx, (result,))
            return result
    raw = list(result) if isinstance(result, tuple) else [result]
    inputs = {id(a) for a in args if isinstance(a, Variable)}
    dirty = _dirty(ctx, inputs, raw)
    constant = _tensor_ids(
        ctx.non_differentiable, "mark_non_differentiable only accepts variable arguments, but got {type}"
    )
    saved = {id(t) for t in ctx.to_save or () if t is not None}
    differentiable = [isinstance(t, Variable) and t._dtype.is_differentiable and id(t) not in constant for t in raw]
    if record:
        ctx._n_outputs = len(raw)
        ctx._outputs = tuple([_tensor_meta(t) for t in raw])
        tensors = [t for t, is_differentiable in zip(raw, differentiable, strict=True) if is_differentiable]
        ctx._device = next(t._device for t in (*tensors, *args) if isinstance(t, Variable))
    creation = "multi" if sum(differentiable) > 1 else "custom"
    outputs: list[Any] = []
    for i, t in enumerate(raw):
        if not isinstance(t, Variable):
            outputs.append(t)
            continue
        is_input, is_dirty = id(t) in inputs, id(t) in dirty
        if is_dirty:
            bump(t)
        if not (record and differentiable[i]):
            t = _remove_history(t, is_input, is_dirty)
        elif is_dirty:
            _record_write(ctx, args, t, i, len(raw))
        elif is_input:
            if separate and id(t) in saved:
                raise RuntimeError(
                    "An input that has been returned as-is as output is being saved for backward. This is not "
                    "supported if you override setup_context. You should return and save a view of the input instead, "
                    "e.g. with x.view_as(x) or setup ctx inside the forward function itself."
                )
            t = views.identity_view(t, (ctx, i))
        else:
            _give_history(ctx, t, i)
        if not is_dirty and t._autograd is not None and t._autograd.base is not None:
            t._autograd.creation = creation
        outputs.append(t)
    if record:
        _save(ctx, outputs)
    return tuple(outputs) if isinstance(result, tuple) else outputs[0]


def _dirty(ctx: Any, inputs: set[int], outputs: Sequence[Any]) -> set[int]:
    """Return the ids of the tensors passed to `mark_dirty`, which must be inputs that `forward` returns."""
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


def _tensor_meta(t: AnyTensor) -> Any:
    """Return the metadata of an argument or a result that backward needs."""
    return (t._array.shape, t._dtype, t._device) if isinstance(t, Variable) else None


def _is_plain(ctx: Any, args: tuple[Any, ...], result: Any) -> bool:
    """Return whether a call has exactly one result, differentiable and no input, so that the short path applies."""
    return (
        isinstance(result, Variable)
        and result._dtype.is_differentiable
        and not ctx.dirty_tensors
        and not ctx.non_differentiable
        and not any([result is a for a in args])  # noqa: C419
    )


def _give_history(ctx: Any, t: AnyTensor, i: int) -> None:
    """Make the node of the call the history of a result that is not one of its arguments."""
    t._edge = (ctx, i)
    if t._autograd is not None and t._autograd.base is not None:
        t._autograd.edge_version = t._vc.version


def _record_write(ctx: Any, args: tuple[Any, ...], t: AnyTensor, i: int, n_outputs: int) -> None:
    """Make `ctx` the history of `t`, an input that forward has modified in place."""
    if t._autograd is not None and t._autograd.base is not None:
        views.check_writable(t)
    edge = gradient_edge(t)
    if edge is not None and edge[0].is_graph_input:
        raise RuntimeError("a leaf Variable that requires grad has been used in an in-place operation.")
    if t._autograd is not None and t._autograd.base is not None and n_outputs > 1:
        raise RuntimeError(
            "If your Function modifies inplace an input that is a view of another Tensor, your Function cannot return "
            "more than one Tensor. This is not supported by the current autograd engine. You should either make sure "
            "the input is not a view (using .clone() for example) or make your Function only return one Tensor "
            "(potentially splitting it into two Functions: one doing the inplace that returns a single Tensor and a "
            "second one that does the other operations)."
        )
    tensors = [a for a in args if isinstance(a, Variable)]
    views.rebase_history(t, (ctx, i), next((k for k, a in enumerate(tensors) if a is t), 0))


def _remove_history(t: AnyTensor, is_input: bool, is_dirty: bool) -> Any:
    """Return the output `t` without history, for one that is not differentiable."""
    if not requires_grad(t):
        return views.identity_view(t, None) if is_input and not is_dirty else t
    if is_input:
        return t.detach()
    return t if t._is_view() else t.detach_()


def _save(ctx: Any, outputs: Sequence[Any]) -> None:
    """Store the tensors passed to `save_for_backward` on the node, outputs without their history (the node itself)."""
    device = ctx._device
    if any([meta is not None and meta[2] is not device for meta in ctx._inputs]):  # noqa: C419
        ctx._input_devices = [meta[2] for meta in ctx._inputs if meta is not None]
    numbers = {
        id(t): t._edge[1] for t in outputs if isinstance(t, Variable) and t._edge is not None and t._edge[0] is ctx
    }
    mode = local.state.mode
    if mode & DUAL:  # saved outputs must share the tangents that are attached to the outputs later
        for t in outputs:
            if id(t) in numbers:
                forward.tangents_of(t)
    if ctx.to_save:
        saved = []
        for i, t in enumerate(ctx.to_save):
            if t is None:
                saved.append(SavedTensor.save_input(None, None))
                continue
            if not isinstance(t, Variable):
                raise TypeError(
                    f"save_for_backward can only save variables, but argument {i} is of type {type(t).__name__}"
                )
            if variables.inference_used:
                refuse_inference(t)
            if id(t) in numbers:
                saved.append(SavedTensor.save_output(t, numbers[id(t)]))
            else:
                saved.append(SavedTensor.save_input(t, gradient_edge(t)))
        ctx._saved = tuple(saved)
        hooks = current_hooks() if mode & SAVED_HOOKS else None
        if hooks is not None:
            for each in saved:
                each.pack(hooks, ctx)


# -- forward mode ---------------------------------------------------------------------------------------------------


def _call_dual(cls: Any, args: tuple[Any, ...], separate: bool, level: forward.ForwardLevel) -> tuple[Any, Any]:
    """Call `forward` on the primals and `jvp` on the tangents of one level; return the context and the dual results."""
    primals = tuple([forward.primal(a, level) if isinstance(a, Variable) else a for a in args])
    ctx, result = call(cls, primals, separate)
    outs = list(result) if isinstance(result, tuple) else [result]
    tangents = [_tangent(a, level, ctx.materialize_grads) if isinstance(a, Variable) else None for a in args]
    #: For each primal, by its id, the dual and the tangent.
    rows = [row for row in zip(primals, args, tangents, strict=True) if isinstance(row[0], Variable)]
    duals = {id(p): (dual, tangent) for p, dual, tangent in rows}
    versions = {id(t): version_counter(t).version for t in tangents if t is not None}
    for i, tangent in enumerate(_call_jvp(ctx, cls, tangents, outs)):
        if tangent is not None:
            _check_view(outs[i], tangent, rows)
        if id(outs[i]) in duals:
            dual, before = duals[id(outs[i])]
            if tangent is not before or (tangent is not None and tangent._vc.version == versions[id(tangent)]):
                raise RuntimeError(NOT_IN_PLACE)
            position = next(k for k, row in enumerate(rows) if row[0] is outs[i])
            outs[i] = _record_dual_write(ctx, outs[i], dual, position)
        elif tangent is not None:
            tangent = forward.copy_if_shared(tangent, outs[i], tangents)
        if tangent is not None:
            forward.attach(outs[i], level, tangent)
    # The duals are saved instead of the primals, for backward in this level and for `jvp` at inner levels.
    for saved, t in zip(
        ctx._saved or (), ctx.to_save or (), strict=False
    ):  # (`_saved` is empty if the call is not recorded)
        if id(t) in duals:
            saved.keep_dual(duals[id(t)][0])
    for name in ("to_save", "saved_for_forward"):
        saved_tensors = getattr(ctx, name)
        if saved_tensors:
            setattr(ctx, name, tuple([duals.get(id(t), (t,))[0] for t in saved_tensors]))
    return ctx, tuple(outs) if isinstance(result, tuple) else outs[0]


def _tangent(t: AnyTensor, level: forward.ForwardLevel, materialize: bool) -> Any:
    """Return the tangent of an argument; if there is none, zeros if `materialize`, else None."""
    tangent = forward.tangent_of(t, level)
    if tangent is None and materialize and t._dtype.is_differentiable:
        return functional.zeros_like(forward.primal(t, level))
    return tangent


def _call_jvp(ctx: Any, cls: Any, tangents: list[Any], outs: list[Any]) -> list[Any]:
    """Call the user's `jvp`, check the tangents that it returns, and return them."""
    ctx._forward_mode = True
    try:
        tangents_out = cls.jvp(ctx, *tangents)
    finally:
        ctx._forward_mode = False
    tangents_out = list(tangents_out) if isinstance(tangents_out, tuple) else [tangents_out]
    if len(tangents_out) != len(outs):
        raise RuntimeError(
            f"Function's jvp returned an invalid number of forward gradients (expected {len(outs)} but got "
            f"{len(tangents_out)})"
        )
    constant = {id(t) for t in ctx.non_differentiable or ()}
    for i, (out, tangent) in enumerate(zip(outs, tangents_out, strict=True)):
        if tangent is None:
            if isinstance(out, Variable) and out._dtype.is_differentiable and id(out) not in constant:
                raise RuntimeError(
                    f"Function's jvp returned None at position {i}, but the corresponding forward output is a "
                    "differentiable Tensor. You should return its tangent, or mark it with mark_non_differentiable."
                )
            continue
        if not isinstance(tangent, Variable):
            raise RuntimeError(f"expected Variable or None (got {type(tangent).__name__}) for grad output {i}.")
        if not isinstance(out, Variable) or not out._dtype.is_differentiable or id(out) in constant:
            raise RuntimeError(
                f"Function's jvp returned a gradient at position {i}, but the corresponding forward output is not a "
                "differentiable Tensor. You should return None at that position instead."
            )
        forward.check_tangent(out, tangent)
    return tangents_out


def _check_view(out: Any, tangent: AnyTensor, rows: list[tuple[Any, Any, Any]]) -> None:
    """Raise if `out` is a view of a primal but `tangent` no view of its tangent; `rows`: primals, duals, tangents."""
    if not out._is_view():
        return
    if not tangent._is_view():
        raise RuntimeError(
            "A custom Function's forward is returning a view (or an input as-is) but the jvp is not returning a view."
        )
    for primal, _, input_tangent in rows:
        if input_tangent is not None and _base_of(primal) is out._base and _base_of(input_tangent) is not tangent._base:
            prefix = "same base as the given" if input_tangent._is_view() else "given"
            raise RuntimeError(
                f"A custom Function is returning a view but the jvp is not returning a view of the {prefix} grad input."
            )


def _base_of(t: AnyTensor) -> Any:
    return t._base if t._is_view() else t


def _record_dual_write(ctx: Any, primal: AnyTensor, dual: AnyTensor, position: int) -> Any:
    """Give `dual`, at edge `position`, the history of its primal, which `forward` modified in place; return `dual`."""
    if primal._edge is not None and primal._edge[0] is ctx:
        if dual._autograd is not None:
            views.check_writable(dual)
        views.rebase_history(dual, primal._edge, position)
    return dual
