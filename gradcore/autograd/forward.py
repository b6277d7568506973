"""Forward-mode differentiation: tangents of the results of operations on dual tensors.

A dual tensor carries one tangent per level. An operation on duals of a level computes its result from the primals,
which may carry tangents of outer levels. It computes the tangent of the result by calling the operation's formula on
tensors. So levels can be nested, and tangents can be differentiated in reverse mode.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from numbers import Number
from typing import Any

from gradcore import functional
from gradcore.autograd.derivatives import not_differentiable
from gradcore.autograd.engine import run_backward
from gradcore.autograd.input_buffer import cast_halves
from gradcore.autograd.modes import DUAL, GRAD, local
from gradcore.autograd.saved import SavedTensor
from gradcore.autograd.variables import Variable, alias, repeats
from gradcore.autograd.views import (
    Tangents,
    all_tangents,
    attach,
    gradient_edge,
    mark_as_view,
    requires_grad,
    tangent_of,
    tangents_of,
)
from gradcore.backends.vmap.array import levels_of
from gradcore.backends.vmap.devices import batched_device
from gradcore.core.interrupts import run_despite_interrupts
from gradcore.core.typing import AnyTensor
from gradcore.ops.declare.table import Formula, Op

__all__ = [
    "ForwardLevel",
    "all_tangents",
    "apply_dual",
    "attach",
    "check_tangent",
    "copy_if_shared",
    "innermost",
    "innermost_of",
    "match_layout",
    "primal",
    "refuse_dual",
    "tangent_of",
    "tangents_of",
    "write_tangents",
]


class ForwardLevel:
    """A forward-mode pass, the context in which its tangents exist. They are removed when it closes."""

    reverse = False

    def __init__(self) -> None:
        self.duals: weakref.WeakSet[Tangents] = weakref.WeakSet()
        #: Tangents of bases that were moved to a larger memory. Tangents of their views may still be in the old memory.
        self.moved: weakref.WeakSet[Tangents] = weakref.WeakSet()

    def __enter__(self) -> ForwardLevel:
        state = local.state
        levels = (*state.levels, self)
        state.levels, state.mode = levels, state.mode | DUAL  # without a call, for the reason in `grad_mode`
        return self

    def __exit__(self, *exc: object) -> None:
        try:
            self.close()
        except BaseException:
            run_despite_interrupts(self.close)
            raise

    def close(self) -> None:
        """Remove the tangents of this level from all tensors, and the level from the open levels."""
        state = local.state
        levels = state.levels
        levels = levels[:-1] if levels and levels[-1] is self else tuple(level for level in levels if level is not self)
        state.levels, state.mode = levels, state.mode if levels else state.mode & ~DUAL
        for tangents in list(self.duals):
            tangents.pop(self, None)
        self.duals.clear()
        self.moved.clear()


def check_tangent(t: AnyTensor, tangent: AnyTensor) -> None:
    """Raise unless `tangent` has the shape of `t`."""
    if tangent._array.shape != t._array.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not "
            f"supported. Tensor is of size {list(t._array.shape)} while the given forward gradient is of size "
            f"{list(tangent._array.shape)}."
        )


def refuse_dual(t: AnyTensor, message: str, error: type[RuntimeError] = RuntimeError) -> None:
    """Raise if `t` has a tangent, which the caller's operation would lose."""
    if any(tangent_of(t, level) is not None for level in local.state.levels):
        raise error(message)


def primal(t: AnyTensor, level: ForwardLevel) -> Any:
    """Return `t` without its tangent at `level`: same memory, same history, same tangents at other levels."""
    if tangent_of(t, level) is None:
        return t
    out = alias(t, gradient_edge(t))
    for outer_level, tangent in (all_tangents(t) or {}).items():
        if outer_level is not level:
            attach(out, outer_level, tangent)
    return out


def _flat(op: Op, args: tuple[Any, ...]) -> list[Any]:
    out: list[Any] = []
    for p in op.tensors:
        value = args[p]
        out.extend(value) if p in op.sequences and not isinstance(value, Variable) else out.append(value)
    return out


def innermost(op: Op, args: tuple[Any, ...]) -> ForwardLevel | None:
    """Return the innermost open level at which an argument has a tangent."""
    return innermost_of(_flat(op, args))


def innermost_of(values: Iterable[Any]) -> ForwardLevel | None:
    """Return the innermost open level at which one of `values` is a tensor with a tangent."""
    duals = [t for t in values if isinstance(t, Variable) and t._autograd is not None]
    for level in reversed(local.state.levels):
        if any(tangent_of(t, level) is not None for t in duals):
            return level  # type: ignore[no-any-return]
    return None


def _map(op: Op, args: tuple[Any, ...], f: Callable[[Any], Any]) -> list[Any]:
    """Return `args` with `f` applied to every tensor."""
    out = list(args)
    for p in op.tensors:
        value = args[p]
        if p in op.sequences:
            out[0] = [f(t) for t in value]
        elif isinstance(value, Variable):
            out[p] = f(value)
    return out


def apply_dual(op: Op, args: tuple[Any, ...], level: ForwardLevel, apply: Callable[..., Any]) -> Any:
    """Call an operation on duals of `level`, and return its results with their tangents at this level."""
    primals = tuple(_map(op, args, lambda t: primal(t, level)))
    out = apply(op, primals)
    outs = list(out) if isinstance(out, (tuple, list)) else [out]
    if op.view and primals[0] is not args[0]:
        for i, view in enumerate(outs):
            _view_of_dual(view, op, args, i if op.variadic else None)
    chosen = range(len(outs)) if op.variadic else op.differentiable
    if not op.differentiable or not any(outs[i]._dtype.is_differentiable for i in chosen):
        return out
    tangents = _tangents(op, args, primals, outs, level, apply)
    sources = [tangent_of(t, level) for t in _flat(op, args) if isinstance(t, Variable)]
    for i, tangent in zip(chosen, tangents, strict=True):
        if tangent is not None:
            attach(outs[i], level, copy_if_shared(_fit_tangent(tangent, outs[i]), outs[i], sources))
    _keep_duals(op, args, primals, outs)
    return out


def _view_of_dual(view: AnyTensor, op: Op, args: tuple[Any, ...], index: int | None) -> None:
    """Make `view`, a view of the primal, a view of the dual, so that writes to it update the history of the dual."""
    if not view._is_view():
        return
    tangents = view._autograd.tangents
    mark_as_view(view, args[0], op, args[1:], index, local.state)
    view._autograd.tangents = tangents


def copy_if_shared(tangent: AnyTensor, out: Any, others: Iterable[Any]) -> Any:
    """Return `tangent`, copied if it is one of `others` or a view, so that writes to `out` may modify it in place.

    The tangent of a view is returned unchanged, because it must stay a view of the base's tangent.
    """
    if out._autograd is not None and out._autograd.base is not None:
        return tangent
    if any(tangent is t for t in others) or (tangent._autograd is not None and tangent._autograd.base is not None):
        return copy_with_layout(tangent, out._array)
    return match_layout(tangent, out)


def match_layout(tangent: AnyTensor, out: Any) -> Any:
    """Return `tangent` in the memory order of `out`, copied if needed, so that view operations apply to both alike."""
    a, b = tangent._array, out._array
    if a.strides == b.strides or (a.flags.c_contiguous and b.flags.c_contiguous):
        return tangent
    return copy_with_layout(tangent, b)


def copy_with_layout(t: AnyTensor, array: Any) -> Any:
    """Return a copy of `t` in the memory order of `array`, which has the same shape."""
    order = sorted(range(array.ndim), key=lambda d: -abs(array.strides[d]))
    if order == list(range(array.ndim)):
        return functional.clone(t, memory_format="contiguous")
    inverse_order = sorted(range(array.ndim), key=order.__getitem__)
    return functional.permute(functional.clone(functional.permute(t, order), memory_format="contiguous"), inverse_order)


def _keep_duals(op: Op, args: tuple[Any, ...], primals: tuple[Any, ...], outs: list[Any]) -> None:
    """Replace the primals saved on the node of the call by the duals, so that backward computes tangents, too."""
    edge = next((out._edge for out in outs if out._edge is not None), None)
    node = None if edge is None else edge[0]
    if getattr(node, "op", None) is not op or node.saved is None:  # type: ignore[union-attr]
        return
    saved = list(node.saved)  # type: ignore[union-attr]
    for i, slot in enumerate(node.slots):  # type: ignore[union-attr]
        p, value = slot.position, saved[i]
        if value is None:
            continue
        if slot.kind == "tensors":
            saved[i] = tuple(map(_dual_for, value, primals[p], args[p]))
        elif slot.kind == "tensor" and isinstance(args[p], Variable):
            saved[i] = _dual_for(value, primals[p], args[p])
        elif slot.kind == "output" and outs[p]._autograd is not None:
            value.keep_dual(outs[p])
    node.saved = tuple(saved)  # type: ignore[union-attr]


def _dual_for(saved: Any, primal: AnyTensor, dual: AnyTensor) -> Any:
    """Return the value that a node saves for the argument `dual`, in place of `saved`, the one for `primal`.

    An operation may have converted its argument to the dtype of the computation, or broadcast it to a batch. Gradients
    then arrive in that dtype and in that batch, so the dual must be converted in the same way.
    """
    if primal is dual or saved is None:
        return saved
    if isinstance(saved, SavedTensor):
        tensor = saved.tensor
        dtype, device = (saved.dtype, dual._device) if tensor is None else (tensor._dtype, tensor._device)
        saved.keep_dual(functional.to(dual, device, dtype))
        return saved
    return dual if saved is primal else functional.to(dual, saved._device, saved._dtype)


def _fit_tangent(tangent: AnyTensor, out: Any) -> Any:
    """Return a tangent with the shape, the dtype and the device of `out`."""
    if tangent._array.shape != out._array.shape:
        tangent = functional.expand(tangent, out._array.shape)
    if tangent._dtype is not out._dtype:
        if tangent._dtype.is_complex and not out._dtype.is_complex:
            tangent = functional.real(tangent)
        tangent = functional.to(tangent, out._dtype)
    return tangent if tangent._device is out._device else functional.to(tangent, out._device)


def _tangents(
    op: Op,
    args: tuple[Any, ...],
    primals: tuple[Any, ...],
    outs: list[Any],
    level: ForwardLevel,
    apply: Callable[..., Any],
) -> list[Any]:
    def tangent(t: AnyTensor) -> Any:
        return tangent_of(t, level) if isinstance(t, Variable) else None

    for p in op.refused_inputs:
        if not _none(args[p], level):
            raise not_differentiable(op, p)
    if op.jvps or op.differentials:
        total = None
        for name, formula in (op.jvps or op.differentials).items():
            t = tangent(args[op.position[name]])
            if t is None:
                continue
            if op.differentials:
                t = _promote_tangent(t, outs[0])
            values = _values(op, formula, primals, outs)
            if op.wide:
                t, values = cast_halves(t), cast_halves(values)
            part = formula.function(functional, t, *values)
            total = part if total is None else _plus(total, part)
        if total is None:
            return [None] * (len(outs) if op.variadic else len(op.differentiable))
        return list(total) if isinstance(total, (tuple, list)) else [total]
    if op.kind == "linear":
        moved = _map(op, args, lambda t: _or_zeros(tangent(t), t))
        for p in op.tensors:
            if op.names[p] not in op.vjps:  # an index or a mask
                moved[p] = primals[p]
        result = apply(op, tuple(moved))
        return list(result) if isinstance(result, (tuple, list)) else [result]
    if op.kind == "bilinear":
        total = None
        for p in op.tensors:
            if op.names[p] not in op.vjps:
                continue
            t = tangent(args[p])
            if t is not None:
                varied = list(primals)
                varied[p] = t
                for q in op.tensors:  # a further additive input (a bias) takes part through its own tangent
                    if op.names[q] not in op.vjps and varied[q] is not None and op.parameters[q].default is None:
                        varied[q] = None
                part = apply(op, tuple(varied))
                total = part if total is None else total + part
        return [total]
    return _transpose_vjps(op, args, primals, outs, level)


def _plus(a: Any, b: Any) -> Any:
    if isinstance(a, (tuple, list)):
        return [y if x is None else x if y is None else x + y for x, y in zip(a, b, strict=True)]
    return a + b


def _promote_tangent(t: AnyTensor, out: Any) -> Any:
    dtype = out._dtype
    return functional.to(t, dtype) if dtype.category > t._dtype.category or dtype is not t._dtype else t


def _or_zeros(tangent: AnyTensor, t: AnyTensor) -> Any:
    return functional.zeros_like(t) if tangent is None else tangent


def _values(op: Op, formula: Formula, primals: tuple[Any, ...], outs: list[Any]) -> list[Any]:
    """Return the values of the parameters of a formula, taken from the arguments and results of the call."""
    values = []
    for name in formula.names:
        if name in op.outputs:
            values.append(outs[op.outputs.index(name)])
        elif name in op.position:
            value = primals[op.position[name]]
            if isinstance(value, Number) and op.position[name] in op.tensors:
                value = functional.full((), value, dtype=outs[0]._dtype, device=outs[0]._device)
            values.append(value)
        elif name == "needs":
            values.append(tuple(isinstance(t, Variable) for t in _flat(op, primals)))
        else:
            source = primals[op.position[name.removesuffix("_shape")]]
            is_sequence = isinstance(source, (list, tuple))
            values.append(tuple(t.shape for t in source) if is_sequence else source.shape)
    return values


def _transpose_vjps(
    op: Op, args: tuple[Any, ...], primals: tuple[Any, ...], outs: list[Any], level: ForwardLevel
) -> list[Any]:
    """Return the tangents of the outputs, computed from the formulas of reverse mode by differentiating them.

    ``J t`` is the derivative of the inner product of ``J' g`` and ``t`` with respect to ``g``.
    """
    chosen = list(range(len(outs)) if op.variadic else op.differentiable)
    state = local.state
    before, state.mode = state.mode, state.mode | GRAD
    try:
        cotangents = [functional.zeros_like(outs[i]).requires_grad_() for i in chosen]
        grads = list(cotangents) if op.variadic or len(chosen) > 1 else cotangents[0]
        total = None
        for key, formula in op.vjps.items():
            names = (key,) if isinstance(key, str) else key
            if all(_none(args[op.position[n]], level) for n in names):
                continue
            values = _values(op, formula, primals, outs)
            if "needs" in formula.names:
                flags = tuple(not _none(args[p], level) for p in op.tensors)
                values[formula.names.index("needs")] = flags
            pieces = formula.function(functional, grads, *values)
            if len(names) == 1 and not (op.sequences and names[0] == op.names[0]):
                pieces = (pieces,)
            inputs = args[0] if op.sequences and names[0] == op.names[0] else [args[op.position[n]] for n in names]
            for t, output_tangent in zip(inputs, pieces, strict=True):
                tangent = tangent_of(t, level) if isinstance(t, Variable) else None
                if tangent is None or output_tangent is None or not requires_grad(output_tangent):
                    continue
                if output_tangent.shape != tangent.shape:
                    output_tangent = functional.sum_to_size(output_tangent, tangent.shape)
                product = functional.conj(output_tangent) * tangent
                part = (functional.real(product) if product._dtype.is_complex else product).sum()
                total = part if total is None else total + part
    finally:
        state.mode = before
    if total is None:
        return [None] * len(chosen)
    captures: dict[Any, list[tuple[int, int]]] = {}
    for key_, cotangent in enumerate(cotangents):
        captures.setdefault(gradient_edge(cotangent)[0], []).append((0, key_))  # type: ignore[index]
    node, number = total._edge
    captured = run_backward(
        [(node, number, functional.ones_like(total), total._device)],
        retain_graph=True,
        create_graph=bool(before & GRAD) or bool(before & DUAL),
        captures=captures,
        accumulate=False,
    )
    return [captured.get(i) for i in range(len(chosen))]


def _none(value: Any, level: ForwardLevel) -> bool:
    group = value if isinstance(value, (list, tuple)) else (value,)
    return all(not isinstance(t, Variable) or tangent_of(t, level) is None for t in group)


def _find_missing_levels(target: Any, source: Any) -> tuple[Any, ...]:
    """Return the batch levels whose samples may differ in `source` but share one memory in `target`."""
    return tuple({*source._device.levels, *target._device.levels}.difference(levels_of(target._array)))


def write_tangents(self: Any, result: Any) -> None:
    """Copy the tangents of `result`, at all levels, to `self` after an in-place write of `result` to it."""
    for level in local.state.levels:
        tangent, current = tangent_of(result, level), tangent_of(self, level)
        base = None if self._autograd is None else self._autograd.base
        if current is None and tangent is not None and base is not None and tangent_of(base, level) is None:
            attach(base, level, match_layout(functional.zeros_like(base), base))
            current = tangent_of(self, level)
        new_levels = () if current is None or tangent is None else _find_missing_levels(current, tangent)
        if new_levels:  # samples that shared memory get memory of their own
            owner = self if base is None else base
            tangents_of(self).pop(level, None)
            shared = tangent_of(owner, level) if base is not None else current
            attach(
                owner,
                level,
                match_layout(functional.repeat_per_sample(shared, batched_device(new_levels, shared._device)), owner),
            )
            level.moved.add(tangents_of(owner))
            current = tangent_of(self, level)
        if tangent is None:
            if current is not None:
                functional.zero_(current)
        elif current is None:
            attach(self, level, copy_with_layout(_fit_tangent(tangent, self), self._array))
        elif repeats(current._array):  # Only a number can be written to repeated elements.
            functional.zero_(current)
        else:
            functional.copy_(current, tangent)
