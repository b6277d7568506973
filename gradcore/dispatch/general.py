"""The general path of calls: it takes any arguments, computes, and records a node if a tensor requires grad."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradcore import functional
from gradcore.autograd import anomaly_mode, forward
from gradcore.autograd.modes import ANOMALY, DUAL, GRAD, TORCH_FUNCTION_OFF, State, local
from gradcore.autograd.record import check_differentiable, make_outputs, record
from gradcore.autograd.variables import PLAIN_TYPES, Variable, on_device, wrap
from gradcore.autograd.views import gradient_edge
from gradcore.backends.registry import CPU
from gradcore.core import dtypes
from gradcore.core.typing import AnyTensor
from gradcore.dispatch.interception import intercept
from gradcore.dispatch.operands import (
    BODY_ERRORS,
    KERNEL_ERRORS,
    Number,
    body_error,
    common_device,
    constant,
    index_array,
    join_batches,
    kernel_error,
    no_tensors,
    shape_error,
)
from gradcore.dispatch.settings import convert_arguments
from gradcore.dispatch.torch_function import not_a_tensor, overriding_arguments, route_call, takes_over
from gradcore.ops.declare.checks import check_fits
from gradcore.ops.declare.promotion import RULES
from gradcore.ops.declare.table import Op

__all__ = ["apply", "call_composite", "elementwise"]

PLAIN = PLAIN_TYPES


def apply(op: Op, args: tuple[Any, ...]) -> Any:
    """Compute an operation and record a node for the backward pass if a tensor requires grad."""
    state = local.state
    if state.mode > GRAD:
        return intercept(op, args, _apply_general, state)
    args = convert_arguments(op, args)
    if op.kind == "elementwise":
        return elementwise(op, args, state)
    return _call(op, args, state)


def _apply_general(op: Op, args: tuple[Any, ...], state: State) -> Any:
    """Compute a call in any mode: with tangents of forward-mode AD, with anomaly detection, or neither."""
    args = convert_arguments(op, args)
    if state.mode & DUAL:
        level = forward.innermost(op, args)
        if level is not None:
            return forward.apply_dual(op, args, level, apply)
    if state.mode == GRAD | ANOMALY:
        out = anomaly_mode.call_and_note(op, args, state)
        if out is not None:
            return out
    run = elementwise if op.kind == "elementwise" else _call
    return run(op, args, state)


def _call(op: Op, args: tuple[Any, ...], state: State) -> Any:
    raw = list(args)
    tensors: list[Any] = []
    edges: list[Any] = []
    device = None
    same_device, reduced, needs_node = True, False, False
    group: Sequence[Any]
    for p in op.tensors:
        value = args[p]
        if value is None and op.parameters[p].default is None:
            edges.append(None)
            tensors.append(None)
            continue
        if p in op.sequences:
            if isinstance(value, Variable):
                raise TypeError(
                    f"{op.path}(): argument '{op.names[0]}' (position 1) must be tuple of Tensors, not Tensor"
                )
            if takes_over(value.__class__) and overriding_arguments(args):
                return route_call(op, args)
            group = raw[0] = list(value)
        else:
            group = (value,)
        for i, t in enumerate(group):
            if t.__class__ not in PLAIN and not _is_taken_as_plain(t, state):
                return not_a_tensor(op, p, t, args)
            if device is None:
                device = t._device
            elif t._device is not device:
                same_device = False
            edge = t._edge if t._autograd is None else gradient_edge(t)
            if edge is not None:
                needs_node = True
            if t._dtype.is_reduced:
                reduced = True
            edges.append(edge)
            tensors.append(t)
            if p in op.sequences:
                raw[0][i] = t._array
            else:
                raw[p] = t._array
    if op.factors and device is not None and tensors[0]._dtype.category == dtypes.INTEGER:
        for p in op.factors:
            raw[p] = check_fits(raw[p], tensors[0]._dtype) if isinstance(raw[p], int) else raw[p]
    if device is None:
        if op.sequences and not args[0]:
            raise no_tensors(op)
        device = CPU
    if op.mixed is not None:
        converted = _convert_to_one_dtype(op, args)
        if converted is not None:
            return apply(op, converted)
    if not same_device:
        device = common_device([t for t in tensors if t is not None])
        if any(t is not None and t._device.real is not device.real for t in tensors):
            return apply(op, _move_scalars_to(op, args, device.real))
    for p in op.indices:
        device = join_batches(args[p], device)
        raw[p] = tuple(index_array(t, device) for t in args[p])
    backend = device.backend
    try:
        if (
            reduced
            and op.computes_half_in_float
            and backend.upcasts
            and not backend.computes_half_in_float(op.name, [raw[p] for p in op.tensors])
        ):
            results = _upcast_call(op, raw, device, state)
        else:
            results = state.run(device.kernels[op.kernel], *raw)
    except KERNEL_ERRORS as error:
        raise kernel_error(op, tensors, error)  # noqa: B904  (its cause is set)
    return make_outputs(op, args, tensors, edges, device, results, needs_node and bool(state.mode & GRAD), state)


def _is_taken_as_plain(value: Any, state: State) -> bool:
    """Return whether `value` is a tensor of a subclass while ``__torch_function__`` is disabled, so counts as plain."""
    return bool(state.mode & TORCH_FUNCTION_OFF) and isinstance(value, Variable)


def _convert_to_one_dtype(op: Op, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Return the arguments with their tensors converted to a common dtype, or None if none needs conversion.

    The operation's rule for mixed dtypes chooses the common dtype.
    """
    converted = [p for p in op.tensors if p not in op.keeps_dtype and args[p] is not None]
    if len({args[p]._dtype for p in converted}) < 2:
        return None
    dtype = op.mixed(op, args)  # type: ignore[misc]
    if dtype is None:
        return None
    return tuple(functional.to(a, dtype) if p in converted else a for p, a in enumerate(args))


def _move_scalars_to(op: Op, args: tuple[Any, ...], device: Any) -> tuple[Any, ...]:
    """Return the arguments with 0-dim CPU tensors moved to `device`.

    Kernels and formulas of gradients need all arrays on one device.
    """

    def move_to_device(t: Any) -> Any:
        return t if t is None or t._device.real is device else functional.to(t, device)

    result = list(args)
    for p in op.tensors:
        result[p] = [move_to_device(t) for t in args[p]] if p in op.sequences else move_to_device(args[p])
    return tuple(result)


def _upcast_call(op: Op, raw: list[Any], device: Any, state: State) -> Any:
    """Call a kernel with float16 and bfloat16 arrays converted to float32, and round its results once.

    A backend may have a kernel that does both; then the arrays are passed as they are.
    """
    half_dtype, half_kernel = None, device.backend.half_kernel(op.kernel)
    for p in op.tensors:
        group = raw[p] if p in op.sequences else [raw[p]]
        for i, a in enumerate(group):
            kind: Any = getattr(a, "dtype", None)
            dtype = dtypes.FROM_NUMPY.get(kind)
            if dtype is not None and dtype.is_reduced:
                half_dtype = a.dtype if half_dtype is None or half_dtype == a.dtype else dtypes.float32.numpy
                if half_kernel is None:
                    group[i] = state.run(device.kernels["astype"], a, dtypes.float32.numpy)
        raw[p] = group if p in op.sequences else group[0]
    results = state.run(device.kernels[half_kernel or op.kernel], *raw)
    position = op.position.get("dtype")
    if position is not None and raw[position] is not None:
        return results

    def down(array: Any, output: str = "") -> Any:
        narrow = getattr(array, "dtype", None) == "float32" and output not in op.wide
        return state.run(device.kernels["astype"], array, half_dtype) if narrow else array

    if not isinstance(results, (tuple, list)):
        return down(results)
    names = ("",) * len(results) if op.variadic else op.outputs
    return type(results)(map(down, results, names))


def elementwise(op: Op, args: tuple[Any, ...], state: State) -> Any:
    """Call an elementwise operation whose arguments may be numbers or differ in dtype, device and shape."""
    tensors: list[Any] = []
    numbers_: list[Any] = []
    for p in op.tensors:
        value = args[p]
        if value.__class__ in PLAIN or _is_taken_as_plain(value, state):
            tensors.append(value)
        elif isinstance(value, Number) and p in op.accepts_scalars:
            numbers_.append(value)
        elif value is not None or op.parameters[p].default is not None:
            return not_a_tensor(op, p, value, args)
    if not tensors:
        return not_a_tensor(op, op.tensors[0], args[op.tensors[0]], args)
    device = common_device(tensors)
    if op.mixed is not None:
        op.mixed(op, args)
    compute, result_type = RULES[op.promotion](op, tensors, numbers_, args)
    upcast = compute.is_reduced and op.computes_half_in_float and device.backend.upcasts
    kernel_type = dtypes.float32 if upcast else compute
    target = kernel_type.numpy
    raw = list(args)
    if compute.category == dtypes.INTEGER:
        for p in op.numeric_settings:
            raw[p] = check_fits(raw[p], compute) if isinstance(raw[p], int) else raw[p]
    operands: list[Any] = []
    edges: list[Any] = []
    needs_node = converts = False
    for p in op.tensors:
        t = args[p]
        if t is None:
            operands.append(None)
            edges.append(None)
            continue
        if isinstance(t, Variable):
            array = on_device(t, device)
            if p not in op.keeps_dtype and getattr(array, "dtype", target) != target:
                converts = True
            edge = t._edge if t._autograd is None else gradient_edge(t)
            needs_node = needs_node or edge is not None
        else:
            t = constant(t, compute, device)
            array, edge = state.run(device.backend.scalar, args[p], target), None
        raw[p] = array
        operands.append(t)
        edges.append(edge)
    try:
        result = _convert_and_compute(op, raw, target, result_type, device, state) if converts else None
        if result is None:
            result = state.run(device.kernels[op.kernel], *raw)
    except ValueError as error:
        raise shape_error(tensors) or error from None
    except KERNEL_ERRORS as error:
        raise kernel_error(op, tensors, error)  # noqa: B904  (its cause is set)
    if result_type is not None and result.dtype != result_type.numpy:
        result = state.run(device.kernels["astype"], device.kernels["asarray"](result), result_type.numpy)
    out = wrap(result, device, result_type)
    if needs_node and state.mode & GRAD and op.differentiable and out._dtype.is_differentiable:
        check_differentiable(op, edges)
    if needs_node and state.mode & GRAD and op.differentiable_inputs and out._dtype.is_differentiable:
        full = list(args)
        for p, t in zip(op.tensors, operands, strict=True):
            full[p] = _convert_for_formula(t, compute) if isinstance(t, Variable) and p not in op.keeps_dtype else t
        node = record(op, tuple(full), operands, edges, device, [out], state)
        out._edge = (node, 0)
    return out


def _convert_and_compute(op: Op, raw: list[Any], target: Any, result_type: Any, device: Any, state: State) -> Any:
    """Compute an operation whose operands have different dtypes, or prepare its operands.

    Returns
    -------
    array or None
        The result if the backend converts inside its kernel. Otherwise None, after the arrays in the list `raw` have
        been replaced by converted ones.
    """
    backend = device.backend
    if backend.converts_operands:
        compute = [target if p in op.tensors and p not in op.keeps_dtype else None for p in range(len(raw))]
        result_dtype = None if result_type is None else result_type.numpy
        result = state.run(device.kernels["fused_forward"], op.kernel, raw, compute, result_dtype)
        if result is not None:
            return result
    for p in op.tensors:
        if p not in op.keeps_dtype and getattr(raw[p], "dtype", target) != target:
            raw[p] = state.run(device.kernels["astype"], raw[p], target)
    return None


def _convert_for_formula(t: AnyTensor, compute: dtypes.dtype) -> Any:
    """Return an operand in the dtype that the operation was computed in, which the gradient formula expects."""
    if t._dtype is compute or getattr(t, "_constant", False):
        return t
    return functional.to(t, compute)


def call_composite(op: Op, args: tuple[Any, ...]) -> Any:
    """Call a composite operation: run its body, unless a mode or an argument overrides the call."""
    state = local.state
    if state.mode > GRAD:
        return intercept(op, args, _composite, state)
    for p in op.tensors:
        value = args[p]
        if value.__class__ in PLAIN or value is None:
            continue
        if p in op.sequences and isinstance(value, (list, tuple)) and PLAIN.issuperset(map(type, value)):
            continue
        if overriding_arguments(args):
            return route_call(op, args)
    return _composite(op, args, state)


def _composite(op: Op, args: tuple[Any, ...], state: State) -> Any:
    """Run the body of a composite operation; its errors name the user's function."""
    args = convert_arguments(op, args)
    try:
        results = op.body(functional, *args)  # type: ignore[misc]
    except BODY_ERRORS as error:
        raise body_error(op, args, error)  # noqa: B904  (its context is set)
    return results if op.output_type is None else op.output_type(*results)
