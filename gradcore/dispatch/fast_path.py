"""The fast path of calls: a specialized function that is generated for each operation.

It handles calls whose tensors are on one device and, where they are computed with together, have one dtype, while no
mode other than recording is active. For such a call the declaration alone determines which arguments are tensors,
which kernel runs and what the node saves. `source_of` writes this as a function without loops and look-ups. The
function passes all other calls to `gradcore.dispatch.general`, which handles any operation and any arguments.

The source for ``mul(self, other)`` is roughly the following, with ``a0`` for `self`. Other operations differ in what
they check and save::

    state = local.state
    if state.mode > 1 or (type(a0) is not Tensor and type(a0) not in plain):
        return general(op, (a0, a1))
    device, dtype, x0 = a0._device, a0._dtype, a0._array
    if dtype is not float32 and dtype is not float64 and (dtype not in results_of_dtypes or ...):
        return general(op, (a0, a1))
    n1 = type(a1) is not Tensor and (type(a1) is float or type(a1) is int)
    if n1:
        a1 = constant(a1, dtype, device)
    elif (type(a1) is not Tensor and type(a1) not in plain) or a1._device is not device or a1._dtype is not dtype:
        return general(op, (a0, a1))
    x1 = a1._array
    kernels = device.kernels
    if kernels is home:
        is_small = x0.size < SMALL and (n1 or x0.size * x1.size < SMALL or x0.shape == x1.shape)
        run = kernel_of_small if is_small else kernel_of_all
    else:
        run = (kernels if home else keep_kernels(op, kernels, globals()))[kernel]
    try:
        array = state.enter(run, x0, x1)
    except ValueError as error:
        raise shape_error((a0, a1)) or error from None
    except kernel_errors as error:
        raise kernel_error(op, (a0, a1), error)  # noqa: B904  (its cause is set)
    except RuntimeError as error:
        enter = state.reenter(error)
        array = enter(run, x0, x1)
    if type(array) is not type(x0):
        array = device.backend.asarray(array)
    if dtype is not float32 and dtype is not float64 and array.dtype is not results_of_dtypes[dtype].numpy:
        array = device.kernels["astype"](array, results_of_dtypes[dtype].numpy)
    out = new(Tensor)
    out._array, out._device, out._dtype = array, device, dtype
    out._autograd = out._vc = None
    e0 = a0._edge if a0._autograd is None else gradient_edge(a0)
    e1 = a1._edge if a1._autograd is None else gradient_edge(a1)
    if (e0 is None and e1 is None) or not state.mode:
        out._edge = None
        return out
    if e0 is None and a0._autograd is not None:
        refuse_inference(a0)
    if e1 is None and a1._autograd is not None:
        refuse_inference(a1)
    node = cls()
    out._edge = node, 0
    node._device, node._edges = device, (e0, e1)
    node._seq, node._hooks = tick(), None
    node.saved = (a0 if e1 is not None else None, a1 if e0 is not None else None)
    shape = x0.shape
    if n1 or shape == x1.shape:
        node.metas = None
    else:
        shape = array.shape
        node.metas = None if (...) else ((x0.shape, dtype, device), (x1.shape, dtype, device))
    node._shape, node._dtype = shape, dtype
    out._edge = node, 0
    return out
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from gradcore import functional
from gradcore.autograd import variables
from gradcore.autograd.derivatives import not_differentiable
from gradcore.autograd.modes import local
from gradcore.autograd.record import (
    is_optional,
    is_several,
    is_single,
    node_globals,
    node_lines,
    tuple_of,
    wrap_results,
)
from gradcore.autograd.variables import PLAIN_TYPES, new
from gradcore.autograd.views import gradient_edge, mark_as_view
from gradcore.backends.base import SMALL
from gradcore.backends.registry import CPU
from gradcore.core import dtypes
from gradcore.core.tracebacks import define
from gradcore.dispatch.operands import (
    BODY_ERRORS,
    KERNEL_ERRORS,
    NUMBERS,
    body_error,
    constant,
    kernel_error,
    shape_error,
)
from gradcore.dispatch.settings import SCOPE, settings_of
from gradcore.ops.declare.promotion import keeps_floats
from gradcore.ops.declare.table import Op

#: The CPU's dispatch table. Generated functions store its kernels in their globals, which saves the look-up.
HOME: Any = CPU.kernels

__all__ = ["fast_path", "globals_of", "has_fast_path", "source_of"]


def has_fast_path(op: Op) -> bool:
    """Return whether a fast path can be generated for the operation."""
    if op.kind == "composite":
        return not op.sequences
    takes_one_dtype = op.same_dtype_ok or bool(op.results_of_dtypes)
    return op.kind != "elementwise" or (takes_one_dtype and bool(_positions_of_operands(op)))


@functools.cache
def fast_path(op: Op, general: Callable[..., Any]) -> Any:
    """Compile and return the fast path of an operation, a function of positional arguments.

    The function passes calls that it cannot handle to ``general(op, args)``.
    """
    scope = globals_of(op, general)
    head = f"def call({', '.join(f'a{i}' for i in range(len(op.names)))}):"
    return define(__name__, "call", [head, *source_of(op)], scope)


def source_of(op: Op) -> list[str]:
    """Return the source lines of the operation's fast path, whose parameters are ``a0, a1, ...``."""
    call = tuple_of(f"a{i}" for i in range(len(op.names)))
    leave = f"    return general(op, {call})"
    first = op.tensors[0] if op.kind == "composite" else _positions_of_operands(op)[0]
    lines = [
        "state = local.state",
        f"if state.mode > 1 or {' or '.join(_emit_conditions(op, first))}:",
        leave,
        *_emit_conversions(op),
    ]
    if op.kind == "composite":
        result = f"body(functional, *{call})" if len(op.names) > 6 else f"body(functional, {call[1:-1]})"
        result = result if op.output_type is None else f"output_type(*{result})"
        return [
            *lines, "try:", f"    return {result}", "except body_errors as error:",
            f"    raise body_error(op, {call}, error)",
        ]  # fmt: skip
    lines += [*_emit_operands(op, first, leave), *_emit_result(op, first)]
    result = "out" if is_single(op) else "tuple(outs)" if op.output_type is None else "output_type(*outs)"
    if op.differentiable and (op.differentiable_inputs or op.refused_inputs):
        return [*lines, *_emit_recording(op, first, result), f"return {result}"]
    return [*lines, *(["out._edge = None"] if is_single(op) else []), f"return {result}"]


def globals_of(op: Op, general: Any) -> dict[str, Any]:
    """Return the globals for the source that `source_of` returns.

    `general` is called as ``general(op, args)`` for the calls that the fast path cannot handle.
    """
    return {
        **(node_globals(op) if op.differentiable_inputs and op.differentiable else {}),
        "op": op, "general": general, "local": local, "plain": PLAIN_TYPES, "Tensor": variables.tensor_class,
        "not_differentiable": not_differentiable,
        "SMALL": SMALL, "home": None, "keep_kernels": keep_kernels,
        "bool_": dtypes.bool_, "constant": constant, "float32": dtypes.float32,
        "float64": dtypes.float64, "from_numpy": dtypes.from_numpy, "gradient_edge": gradient_edge,
        "mark_as_view": mark_as_view,
        "kernel_error": kernel_error,
        "kernel_errors": KERNEL_ERRORS,
        "new": new, "shape_error": shape_error, "wrap_results": wrap_results,
        "kernel": op.kernel, "plain_kernel": op.name, "defaults": tuple(p.default for p in op.parameters[2:]),
        "output_type": op.output_type, "results_of_dtypes": op.results_of_dtypes,
        "functional": functional, "numbers": frozenset(NUMBERS),
        "body": op.body, "body_error": body_error, "body_errors": BODY_ERRORS, **SCOPE,
        **{f"take{i}": setting.take for i, setting in settings_of(op).items()},
    }  # fmt: skip


def _positions_of_operands(op: Op) -> list[int]:
    """Return the positions of the tensors that take part in type promotion; the fast path needs one in the first."""
    return [p for p in op.tensors if p not in op.keeps_dtype]


def _condition_of_foreign(op: Op, p: int, further: str = "") -> str:
    """Return source of the condition that argument `p` is not a plain tensor, followed by the conditions `further`."""
    condition = f"(type(a{p}) is not Tensor and type(a{p}) not in plain{further})"
    return f"(a{p} is not None and {condition})" if is_optional(op, p) else condition


def _emit_conditions(op: Op, first: int) -> list[str]:
    """Return source of the conditions on argument types under which the general path must handle a call."""
    if op.kind == "composite":
        return [
            _condition_of_foreign(op, p, f" and type(a{p}) not in numbers" if p in op.accepts_scalars else "")
            for p in op.tensors
        ]
    if is_several(op, first):
        return [
            "(type(a0) is not list and type(a0) is not tuple)",
            "not a0",
            "(type(a0[0]) is not Tensor and type(a0[0]) not in plain)",
        ]
    settings = [i for i in range(len(op.names)) if i not in op.edge_index and op.kind == "elementwise"]
    numbers = {i for i, setting in settings_of(op).items() if any(kind.words == "Number" for kind in setting.kinds)}
    return [
        _condition_of_foreign(op, first),
        *(f"type(a{i}) is complex{f' or a{i} is True' if i in numbers else ''}" for i in settings),
    ]


def _emit_conversions(op: Op) -> Iterator[str]:
    """Yield source that converts each setting to the exact Python type of its parameter, unless it has that type."""
    for i, setting in settings_of(op).items():
        yield from (f"if not ({setting.exact(f'a{i}')}):", f"    a{i} = take{i}(a{i})")


# -- operands ---------------------------------------------------------------------------------------------------------


def _emit_operands(op: Op, first: int, leave: str) -> Iterator[str]:
    """Yield source that converts numbers to tensors and assigns the arrays of all tensors to ``x0, x1, ...``."""
    model = "a0[0]" if is_several(op, first) else f"a{first}"
    yield f"device, dtype = {model}._device, {model}._dtype"
    if op.kind == "elementwise":
        yield from (f"if {_emit_general_dtypes(op, first)}:", leave)
    elif op.computes_half_in_float:
        yield from ("if dtype.is_reduced:", leave)
    for p in (first, *(p for p in op.tensors if p != first)):
        condition = f" or a{p}._device is not device"
        if op.kind == "elementwise":
            condition += f" or a{p}._dtype is not {'bool_' if p in op.keeps_dtype else 'dtype'}"
        elif op.mixed is not None and p not in op.keeps_dtype:
            condition += f" or a{p}._dtype is not dtype"
        elif op.computes_half_in_float:
            condition += f" or a{p}._dtype.is_reduced"
        if is_several(op, p):
            test = f"(type(t) is not Tensor and type(t) not in plain){condition.replace('a0.', 't.')}"
            yield from ("for t in a0:", f"    if {test}:", f"    {leave}")
            yield "x0 = [t._array for t in a0]"
            continue
        test = "if"
        if p != first and op.kind == "elementwise" and p in op.accepts_scalars:
            yield f"n{p} = type(a{p}) is not Tensor and (type(a{p}) is float or type(a{p}) is int)"
            yield from (f"if n{p}:", f"    a{p} = constant(a{p}, dtype, device)")
            test = "elif"
        if p != first:
            yield from (f"{test} {_condition_of_foreign(op, p, condition)}:", leave)
        yield f"x{p} = None if a{p} is None else a{p}._array" if is_optional(op, p) else f"x{p} = a{p}._array"
    for p in op.indices:
        yield f"for t in a{p}:"
        yield from ("    if t is not None and (type(t) not in plain or t._device is not device):", f"    {leave}")
        yield f"x{p} = tuple([None if t is None else t._array for t in a{p}])"


def _emit_general_dtypes(op: Op, first: int) -> str:
    """Return source of the condition under which the general path must handle an elementwise call because of its dtype.

    It handles dtypes in which the operation does not compute, numbers that convert the tensors, and settings that
    might not fit the dtype.
    """
    if not op.results_of_dtypes:
        return _IS_OTHER
    conditions = ["dtype not in results_of_dtypes"]
    numbers = [p for p in op.tensors if p != first and p in op.accepts_scalars]
    conditions += [f"type(a{p}) is float or (type(a{p}) is int and dtype is bool_)" for p in numbers]
    for i in op.numeric_settings:
        is_none = f"a{i} is None or " if op.parameters[i].default is None else ""
        conditions.append(f"not ({is_none}(type(a{i}) is int and 0 <= a{i} < 128))")
    condition = " or ".join(conditions)
    return f"{_IS_OTHER} and ({condition})" if op.same_dtype_ok else condition


#: Source of the condition that tensors have none of the dtypes for which fast paths are short.
_IS_OTHER = "dtype is not float32 and dtype is not float64"


# -- the result -------------------------------------------------------------------------------------------------------


def _emit_result(op: Op, first: int) -> Iterator[str]:
    """Yield source that calls the kernel and wraps its results as tensors."""
    raw = [f"x{i}" if i in op.edge_index or i in op.indices else f"a{i}" for i in range(len(op.names))]
    array = "array" if is_single(op) else "results"
    line, kernel, name = f"{array} = state.enter(run, {', '.join(raw)})", "kernel_of_all", "kernel"
    if _has_plain_kernel(op):
        yield f"is_plain = {f'{raw[2]} == defaults[0]' if len(raw) == 3 else f'{tuple_of(raw[2:])} == defaults'}"
        line = f"array = state.enter(run, x0, x1) if is_plain else {line[8:]}"
        kernel, name = f"plain_of_all if is_plain else {kernel}", "plain_kernel if is_plain else kernel"
    if op.kind == "elementwise" and raw[0] == "x0":
        small_kernel = kernel.replace("of_all", "of_small")
        small_kernel = f"({small_kernel})" if " " in small_kernel else small_kernel
        kernel = f"{small_kernel} if {_emit_smallness(op)} else {kernel}"
    yield from ("kernels = device.kernels", "if kernels is home:", f"    run = {kernel}", "else:")
    yield f"    run = (kernels if home else keep_kernels(op, kernels, globals()))[{name}]"
    if op.view:
        yield line.replace("state.enter(run, ", "run(")
    else:
        tensors = tuple_of(f"a{p}" for p in op.tensors)
        yield from ("try:", f"    {line}")
        if op.kind == "elementwise" and len(op.tensors) > 1:
            yield from ("except ValueError as error:", f"    raise shape_error({tensors}) or error from None")
        yield from ("except kernel_errors as error:", f"    raise kernel_error(op, {tensors}, error)")
        yield from ("except RuntimeError as error:", "    enter = state.reenter(error)")
        yield f"    {line.replace('state.enter', 'enter')}"
    settings = tuple_of(raw[1:])
    if not is_single(op):
        yield f"outs = wrap_results(results, device, {op.contiguous})"
        if op.view:
            yield from ("for i, out in enumerate(outs):", f"    mark_as_view(out, a0, op, {settings}, i, state)")
        return
    model = "x0[0]" if is_several(op, first) else f"x{first}"
    yield from (f"if type(array) is not type({model}):", "    array = device.backend.asarray(array)")
    if op.contiguous:
        yield from ("if not array.flags.c_contiguous:", '    array = device.kernels["contiguous"](array)')
    if op.results_of_dtypes:
        yield f"if {_IS_OTHER} and array.dtype is not results_of_dtypes[dtype].numpy:"
        yield '    array = device.kernels["astype"](array, results_of_dtypes[dtype].numpy)'
    if not _keeps_dtype(op):
        yield from (f"if array.dtype is not {model}.dtype:", "    dtype = from_numpy(array.dtype)")
    yield "out = new(Tensor)"
    yield from ("out._array, out._device = array, device", "out._dtype = dtype", "out._autograd = out._vc = None")
    if op.view:
        yield f"mark_as_view(out, a0, op, {settings}, None, state)"


def _emit_smallness(op: Op) -> str:
    """Return source of the condition that an elementwise call is left to the kernel for small arrays.

    If two small arrays are broadcast, the result may be large, or consist of many short rows, for which the backend may
    have a kernel.
    """
    if op.tensors != (0, 1) or is_optional(op, 1) or op.keeps_dtype:
        return "x0.size < SMALL"
    is_number = "n1 or " if 1 in op.accepts_scalars else ""
    return f"x0.size < SMALL and ({is_number}x0.size * x1.size < SMALL or x0.shape == x1.shape)"


def keep_kernels(op: Op, kernels: Any, scope: dict[str, Any]) -> Any:
    """Return the dispatch table `kernels` unchanged.

    If it is the CPU's table, also store the operation's kernels in `scope`, the globals of its generated function, so
    that later calls need no look-up.
    """
    if kernels is HOME:
        small = HOME.small if op.kind == "elementwise" else HOME
        scope.update(kernel_of_all=HOME[op.kernel], kernel_of_small=small[op.kernel])
        if _has_plain_kernel(op):
            scope.update(plain_of_all=HOME[op.name], plain_of_small=small[op.name])
        scope["home"] = HOME
    return kernels


def _has_plain_kernel(op: Op) -> bool:
    """Return whether calls with default settings have a simpler kernel, which is named like the operation."""
    return op.kind == "elementwise" and op.tensors == (0, 1) and op.kernel != op.name and len(op.names) > 2


def _keeps_dtype(op: Op) -> bool:
    return op.kind == "elementwise" and keeps_floats(op.promotion)


# -- the node ---------------------------------------------------------------------------------------------------------


def _emit_recording(op: Op, first: int, result: str) -> Iterator[str]:
    """Yield source that records a node if a tensor requires grad."""
    for p in op.tensors:
        if p in op.keeps_dtype:  # conditions, as of `where`, are bool tensors, which have no gradient
            yield f"e{p} = None"
            continue
        edge = f"a{p}._edge if a{p}._autograd is None else gradient_edge(a{p})"
        if is_several(op, p):
            yield f"e0 = [{edge.replace('a0', 't')} for t in a0]"
        else:
            yield f"e{p} = {f'None if a{p} is None else ' if is_optional(op, p) else ''}{edge}"
    is_unrecorded = " and ".join("not any(e0)" if is_several(op, p) else f"e{p} is None" for p in op.tensors)
    is_unrecorded = f"({is_unrecorded}) or not state.mode"
    if is_single(op):
        is_unrecorded += "" if _keeps_dtype(op) else " or not dtype.is_differentiable"
        yield from (f"if {is_unrecorded}:", "    out._edge = None", "    return out")
    else:
        differentiable_outputs = "outs" if op.variadic else tuple_of(f"outs[{i}]" for i in op.differentiable)
        yield from (
            f"if {is_unrecorded} or all([not out._dtype.is_differentiable for out in {differentiable_outputs}]):",
            f"    return {result}",
        )
    for p in sorted(op.refused_inputs):
        edge = "any(e0)" if is_several(op, p) else f"e{p} is not None"
        yield from (f"if {edge}:", f"    raise not_differentiable(op, {p})")
    if not op.differentiable_inputs:
        yield from ["out._edge = None"] if is_single(op) else []
        return
    yield from node_lines(op)
    if is_single(op):
        yield "out._edge = node, 0"
    else:
        pairs = "enumerate(outs)" if op.variadic else tuple_of(f"({i}, outs[{i}])" for i in op.differentiable)
        yield from (f"for i, out in {pairs}:", "    if out._dtype.is_differentiable:", "        out._edge = node, i")
