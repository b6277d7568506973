"""Calls of custom operations: forward without recording, and forward mode around it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from gradcore.autograd import anomaly_mode, forward, views
from gradcore.autograd.derivatives import TENSORS
from gradcore.autograd.edges import gradient_edge, requires_grad
from gradcore.autograd.function_results import finish
from gradcore.autograd.messages import history_lost
from gradcore.autograd.modes import ANOMALY, DUAL, GRAD, local
from gradcore.autograd.variables import Variable, new, tick, version_counter

__all__ = ["bind", "call"]

NOT_IN_PLACE = (
    "An inplace custom Function is not modifying the forward mode gradients inplace. If the forward is modifying an "
    "input inplace, then the jvp function must modify the corresponding gradient inplace."
)

_signature = functools.lru_cache(maxsize=256)(inspect.signature)


def bind(function: Callable[..., Any], args: Sequence[Any], named: dict[str, Any], separate: bool) -> tuple[Any, ...]:
    """All arguments of a `forward` by position, with its defaults; without the context, unless it takes none."""
    bound = _signature(function).bind(*(args if separate else (None, *args)), **named)
    bound.apply_defaults()
    if bound.kwargs:
        raise TypeError(f"{function.__qualname__}: keyword-only arguments of forward are not supported by apply()")
    return bound.args if separate else bound.args[1:]


_CONTAINERS = frozenset((list, tuple, dict))


def _holds_differentiated(value: Any) -> bool:
    """Whether a tensor in nested containers requires grad."""
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
    ctx = new(cls._backward_cls)
    needs = ctx.needs_input_grad = tuple([isinstance(a, Variable) and requires_grad(a) for a in args])
    record = bool(state.mode & GRAD) and True in needs
    if state.mode & GRAD and any(type(a) in _CONTAINERS and _holds_differentiated(a) for a in args):
        history_lost("container")
    ctx._edges = tuple([gradient_edge(a) for a in args if isinstance(a, Variable)]) if record else ()
    before, state.mode = state.mode, state.mode & ~(GRAD | DUAL)
    try:
        if separate:
            result = cls.forward(*args)
            cls.setup_context(ctx, args, result)
        else:
            result = cls.forward(ctx, *args)
    finally:
        state.mode = before
    ctx._hooks, ctx._seq = None, tick()
    try:
        result = finish(ctx, args, result, record, separate)
    except BaseException:  # a hook on saved tensors may raise, to end a recomputation early
        ctx.forget_notes()
        raise
    if record and state.mode & ANOMALY:
        tensors = [a for a in args if isinstance(a, Variable)]
        anomaly_mode.note(ctx, tensors, result if isinstance(result, tuple) else (result,))
    return ctx, result


# -- forward mode ---------------------------------------------------------------------------------------------------


def _call_dual(cls: Any, args: tuple[Any, ...], separate: bool, level: forward.Level) -> tuple[Any, Any]:
    """The call on duals of one level: results from the primals, tangents from `jvp`."""
    primals = tuple([forward.primal(a, level) if isinstance(a, Variable) else a for a in args])
    ctx, result = call(cls, primals, separate)
    outs = list(result) if isinstance(result, tuple) else [result]
    tangents = [_tangent(a, level, ctx.materialize_grads) if isinstance(a, Variable) else None for a in args]
    #: By the identity of a primal: the dual that it is of, and the tangent.
    rows = [row for row in zip(primals, args, tangents, strict=True) if isinstance(row[0], Variable)]
    duals = {id(p): (dual, tangent) for p, dual, tangent in rows}
    versions = {id(t): version_counter(t).version for t in tangents if t is not None}
    for i, tangent in enumerate(_pushed(ctx, cls, tangents, outs)):
        if tangent is not None:
            _check_view(outs[i], tangent, rows)
        if id(outs[i]) in duals:
            dual, before = duals[id(outs[i])]
            if tangent is not before or (tangent is not None and tangent._vc.version == versions[id(tangent)]):
                raise RuntimeError(NOT_IN_PLACE)
            position = next(k for k, row in enumerate(rows) if row[0] is outs[i])
            outs[i] = _written(ctx, outs[i], dual, position)
        elif tangent is not None:
            tangent = forward.in_own_memory(tangent, outs[i], tangents)
        if tangent is not None:
            forward.attach(outs[i], level, tangent)
    # What was saved are duals: for backward in this level, and for `jvp` at inner levels.
    for saved, t in zip(ctx._saved or (), ctx.to_save or (), strict=False):  # not saved if not recorded
        if id(t) in duals:
            saved.keep_dual(duals[id(t)][0])
    for name in ("to_save", "saved_for_forward"):
        kept = getattr(ctx, name)
        if kept:
            setattr(ctx, name, tuple([duals.get(id(t), (t,))[0] for t in kept]))
    return ctx, tuple(outs) if isinstance(result, tuple) else outs[0]


def _tangent(t: Any, level: forward.Level, materialize: bool) -> Any:
    """The tangent of an argument; zeros where there is none and they are wanted."""
    tangent = forward.tangent_of(t, level)
    if tangent is None and materialize and t._dtype.category > 1:
        return TENSORS.zeros_like(forward.primal(t, level))
    return tangent


def _pushed(ctx: Any, cls: Any, tangents: list[Any], outs: list[Any]) -> list[Any]:
    """The tangents of the results that the user's `jvp` finds, checked."""
    ctx._forward_mode = True
    try:
        found = cls.jvp(ctx, *tangents)
    finally:
        ctx._forward_mode = False
    found = list(found) if isinstance(found, tuple) else [found]
    if len(found) != len(outs):
        raise RuntimeError(
            f"Function's jvp returned an invalid number of forward gradients (expected {len(outs)} but got "
            f"{len(found)})"
        )
    constant = {id(t) for t in ctx.non_differentiable or ()}
    for i, (out, tangent) in enumerate(zip(outs, found, strict=True)):
        if tangent is None:
            if isinstance(out, Variable) and out._dtype.category > 1 and id(out) not in constant:
                raise RuntimeError(
                    f"Function's jvp returned None at position {i}, but the corresponding forward output is a "
                    "differentiable Tensor. You should return its tangent, or mark it with mark_non_differentiable."
                )
            continue
        if not isinstance(tangent, Variable):
            raise RuntimeError(f"expected Variable or None (got {type(tangent).__name__}) for grad output {i}.")
        if not isinstance(out, Variable) or out._dtype.category < 2 or id(out) in constant:
            raise RuntimeError(
                f"Function's jvp returned a gradient at position {i}, but the corresponding forward output is not a "
                "differentiable Tensor. You should return None at that position instead."
            )
        forward.check_tangent(out, tangent)
    return found


def _check_view(out: Any, tangent: Any, rows: list[tuple[Any, Any, Any]]) -> None:
    """Raise unless the tangent of a view is the same view of a tangent; `rows` has primals, duals and tangents."""
    if not out._is_view():
        return
    if not tangent._is_view():
        raise RuntimeError(
            "A custom Function's forward is returning a view (or an input as-is) but the jvp is not returning a view."
        )
    for primal, _, given in rows:
        if given is not None and _base_of(primal) is out._base and _base_of(given) is not tangent._base:
            whose = "same base as the given" if given._is_view() else "given"
            raise RuntimeError(
                f"A custom Function is returning a view but the jvp is not returning a view of the {whose} grad input."
            )


def _base_of(t: Any) -> Any:
    return t._base if t._is_view() else t


def _written(ctx: Any, primal: Any, dual: Any, position: int) -> Any:
    """The argument that forward has written in place, of which it saw the primal; it is the tensor at that position."""
    if primal._edge is not None and primal._edge[0] is ctx:
        if dual._meta is not None:
            views.check_writable(dual)
        views.rebase(dual, primal._edge, position)
    return dual
