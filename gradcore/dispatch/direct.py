"""The plain call of an operation, as a function written for that operation alone.

Most calls are plain: tensors on one device, of one dtype where they are computed with together, and nothing on but
recording. What such a call does is known as soon as the operation is declared: which arguments are tensors, which
kernel runs, what the node keeps. `lines_of` writes it down as a function without loops and look-ups. Whatever is not
plain it hands to the general call in `gradcore.dispatch.calls`, which does the same for any operation and arguments.

The lines for ``mul(self, other)`` are these, with ``a0`` for `self`; others differ in what they check and keep::

    state = local.state
    if state.mode > 1 or type(a0) not in plain:
        return general(op, (a0, a1))
    device, dtype, x0 = a0._device, a0._dtype, a0._array
    if dtype is not float32 and dtype is not float64:
        return general(op, (a0, a1))
    n1 = type(a1) is float or type(a1) is int
    if n1:
        a1 = constant(a1, dtype, device)
    elif type(a1) not in plain or a1._device is not device or a1._dtype is not dtype:
        return general(op, (a0, a1))
    x1 = a1._array
    try:
        array = state.run(device.kernels[kernel], x0, x1)
    except ValueError as error:
        raise shape_error((a0, a1)) or error from None
    if type(array) is not type(x0):
        array = device.backend.asarray(array)
    out = new(Tensor)
    out._array, out._device, out._dtype = array, device, dtype
    out._meta = out._vc = None
    e0 = a0._edge if a0._meta is None else gradient_edge(a0)
    e1 = a1._edge if a1._meta is None else gradient_edge(a1)
    if (e0 is None and e1 is None) or not state.mode:
        out._edge = None
        return out
    node = new(cls)
    out._edge = node, 0
    node._device, node._edges = device, (e0, e1)
    node._seq, node._hooks = tick(), None
    node.saved = (a0 if e1 is not None else None, a1 if e0 is not None else None)
    node.results = None
    node.metas = None if n1 or x0.shape == x1.shape or (...) else ((x0.shape, dtype.numpy), (x1.shape, dtype.numpy))
    return out
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from gradcore import dtypes
from gradcore.autograd.formulas import TENSORS, node_class
from gradcore.autograd.graph import VersionCounter, gradient_edge, new, tensor_type, tick
from gradcore.autograd.modes import local
from gradcore.autograd.variables import Subclasses
from gradcore.autograd.views import link
from gradcore.dispatch.operands import NUMBERS, constant, shape_error
from gradcore.dispatch.recording import OUTPUT_TYPES, saved_result
from gradcore.ops.promotion import keeps_floats
from gradcore.ops.table import Op

__all__ = ["has_plain_call", "lines_of", "scope_of"]


def has_plain_call(op: Op) -> bool:
    """Whether calls of an operation may be plain: a fixed number of tensors, and one result."""
    if op.kind == "composite":
        return not op.sequence
    if op.kind == "elementwise" and not (op.plain and _together(op)):
        return False
    return not (op.sequence or op.indices or op.variadic or len(op.outputs) > 1)


def lines_of(op: Op) -> list[str]:
    """The lines of the operation's function, whose parameters are ``a0, a1, ...``."""
    call = _tuple(f"a{i}" for i in range(len(op.names)))
    leave = f"    return general(op, {call})"
    first = op.tensors[0] if op.kind == "composite" else _together(op)[0]
    tests = [_foreign(op, first), *(f"type(a{p}) is complex" for p in _settings(op) if op.kind == "elementwise")]
    if op.kind == "composite":
        tests = [_foreign(op, p, f" and type(a{p}) not in numbers" if p in op.numbers else "") for p in op.tensors]
    lines = ["state = local.state", f"if state.mode > 1 or {' or '.join(tests)}:", leave]
    if op.kind == "composite":
        result = f"body(TENSORS, *{call})" if len(op.names) > 6 else f"body(TENSORS, {call[1:-1]})"
        return [*lines, f"return {result}" if op.output_type is None else f"return output_type(*{result})"]
    lines += [*_operands(op, first, leave), *_result(op, first)]
    if not (op.differentiable and (op.vjps or op.differentials)):
        return [*lines, "out._edge = None", "return out"]
    return [*lines, *_recording(op, first), "return out"]


def scope_of(op: Op, general: Any) -> dict[str, Any]:
    """What the lines of `lines_of` refer to; `general` makes the calls that are not plain."""
    scope = {"op": op, "general": general, "local": local, "plain": Subclasses.plain, "TENSORS": TENSORS}
    if op.kind == "composite":
        output_type = None if op.output_type is None else OUTPUT_TYPES[op.output_type]
        return {**scope, "body": op.body, "numbers": frozenset(NUMBERS), "output_type": output_type}
    name: Any = op.node_name
    scope |= {
        "Tensor": tensor_type.cls, "VersionCounter": VersionCounter, "bool_": dtypes.bool_, "constant": constant,
        "float32": dtypes.float32, "float64": dtypes.float64, "from_numpy": dtypes.from_numpy, "new": new, "tick": tick,
        "gradient_edge": gradient_edge, "link": link, "saved_result": saved_result, "shape_error": shape_error,
        "kernel": op.kernel, "plain_kernel": op.name, "defaults": tuple(p.default for p in op.parameters[2:]),
    }  # fmt: skip
    if op.vjps or op.differentials:
        scope |= {"node_name": name, "classes": _Classes(op)}
        if isinstance(name, str):
            scope["cls"] = node_class(op, name)
        if op.copies is not None:
            scope["copying_cls"] = node_class(op, op.copies)
    return scope


class _Classes(dict[str, Any]):
    """The classes of an operation's nodes by name, where the name depends on the call."""

    def __init__(self, op: Op) -> None:
        super().__init__()
        self.op = op

    def __missing__(self, name: str) -> Any:
        cls = self[name] = node_class(self.op, name)
        return cls


def _tuple(parts: Any) -> str:
    return f"({''.join(f'{part}, ' for part in parts)})"


def _settings(op: Op) -> list[int]:
    return [i for i in range(len(op.names)) if i not in op.edge_of]


def _together(op: Op) -> list[int]:
    """Positions of the tensors that are computed with together; the first of them is one in a plain call."""
    return [p for p in op.tensors if p not in op.unpromoted]


def _optional(op: Op, p: int) -> bool:
    return op.parameters[p].default is None


def _foreign(op: Op, p: int, further: str = "") -> str:
    """The condition under which what stands in the place of a tensor is not plain."""
    test = f"(type(a{p}) not in plain{further})" if further else f"type(a{p}) not in plain"
    return f"(a{p} is not None and {test})" if _optional(op, p) else test


# -- operands ---------------------------------------------------------------------------------------------------------


def _operands(op: Op, first: int, leave: str) -> Iterator[str]:
    """Tensors into arrays ``x0, x1, ...``, numbers into tensors first."""
    yield f"device, dtype, x{first} = a{first}._device, a{first}._dtype, a{first}._array"
    if op.kind == "elementwise":
        yield from ("if dtype is not float32 and dtype is not float64:", leave)
    elif op.upcast:
        yield from ("if dtype.is_reduced:", leave)
    for p in op.tensors:
        if p == first:
            continue
        unlike = f" or a{p}._device is not device"
        if op.kind == "elementwise":
            unlike += f" or a{p}._dtype is not {'bool_' if p in op.unpromoted else 'dtype'}"
        elif op.upcast:
            unlike += f" or a{p}._dtype.is_reduced"
        test = "if"
        if op.kind == "elementwise" and p in op.numbers:
            yield f"n{p} = type(a{p}) is float or type(a{p}) is int"
            yield from (f"if n{p}:", f"    a{p} = constant(a{p}, dtype, device)")
            test = "elif"
        yield from (f"{test} {_foreign(op, p, unlike)}:", leave)
        yield f"x{p} = None if a{p} is None else a{p}._array" if _optional(op, p) else f"x{p} = a{p}._array"


# -- the result -------------------------------------------------------------------------------------------------------


def _result(op: Op, first: int) -> Iterator[str]:
    """The kernel's call, and the tensor of what it gives."""
    raw = [f"x{i}" if i in op.edge_of else f"a{i}" for i in range(len(op.names))]
    run = "{kernels}[kernel]({raw})" if op.view else "state.run(device.kernels[kernel], {raw})"
    line = "array = " + run.format(kernels="device.kernels", raw=", ".join(raw))
    if op.kind == "elementwise" and op.tensors == (0, 1) and op.kernel != op.name and len(raw) > 2:
        settings = _tuple(raw[2:])
        line = f"array = state.run(device.kernels[plain_kernel], x0, x1) if {settings} == defaults else {line[8:]}"
        if len(raw) == 3:
            line = line.replace(f"{settings} == defaults", f"{raw[2]} == defaults[0]")
    if op.kind == "elementwise" and len(op.tensors) > 1:
        yield from ("try:", f"    {line}", "except ValueError as error:")
        yield f"    raise shape_error({_tuple(f'a{p}' for p in op.tensors)}) or error from None"
    else:
        yield line
    yield from (f"if type(array) is not type(x{first}):", "    array = device.backend.asarray(array)")
    if not _keeps_dtype(op):
        yield from (f"if array.dtype is not x{first}.dtype:", "    dtype = from_numpy(array.dtype)")
    yield "out = new(Tensor)"
    yield from ("out._array, out._device = array, device", "out._dtype = dtype", "out._meta = out._vc = None")
    if op.view:
        yield f"link(out, a0, op, {_tuple(raw[1:])}, None, state)"


def _keeps_dtype(op: Op) -> bool:
    return op.kind == "elementwise" and keeps_floats(op.promotion)


# -- the node ---------------------------------------------------------------------------------------------------------


def _recording(op: Op, first: int) -> Iterator[str]:
    """The node, where a tensor requires grad."""
    for p in op.tensors:
        if p in op.unpromoted:  # conditions: bools
            yield f"e{p} = None"
            continue
        edge = f"a{p}._edge if a{p}._meta is None else gradient_edge(a{p})"
        yield f"e{p} = {f'None if a{p} is None else ' if _optional(op, p) else ''}{edge}"
    nothing = " and ".join(f"e{p} is None" for p in op.tensors)
    nothing = f"({nothing}) or not state.mode" + ("" if _keeps_dtype(op) else " or dtype.category < 2")
    yield from (f"if {nothing}:", "    out._edge = None", "    return out")
    cls = "cls"
    if not isinstance(op.node_name, str):
        cls = f"classes[node_name({', '.join(f'a{i}' for i in range(len(op.names)))})]"
    if op.copies is not None:
        cls += " if out._meta is not None else copying_cls"
    yield from (f"node = new({cls})", "out._edge = node, 0")
    yield f"node._device, node._edges = device, {_tuple(f'e{p}' for p in op.tensors)}"
    yield "node._seq, node._hooks = tick(), None"
    yield f"node.saved = {_saved(op)}"
    yield from _saved_result(op)
    yield f"node.metas = {_metas(op, first)}"


def _readers(op: Op, name: str) -> list[int]:
    """Positions of the tensors whose formula reads `name`."""
    formulas = (op.vjps or op.differentials).items()
    keys = [((key,) if isinstance(key, str) else key) for key, formula in formulas if name in formula.names]
    return sorted({op.position[each] for key in keys for each in key})


def _needed(op: Op, readers: Collection[int]) -> str:
    """The condition that one of the tensors at these positions requires grad, where any does."""
    if set(op.tensors) - op.unpromoted <= set(readers):
        return "True"
    return " or ".join(f"e{p} is not None" for p in readers) or "False"


def _chosen(*choices: tuple[str, str]) -> str:
    """The first value whose condition holds, else None."""
    text = "None"
    for value, condition in reversed(choices):
        text = value if condition == "True" else text if condition == "False" else f"{value} if {condition} else {text}"
    return text


def _saved(op: Op) -> str:
    """The arguments, with None in the place of tensors that no formula reads and shapes where only those are read."""
    parts = []
    for i, name in enumerate(op.names):
        if i not in op.edge_of:
            parts.append(f"a{i}")
            continue
        shape = (f"x{i}.shape", _needed(op, _readers(op, f"{name}_shape")))
        if _optional(op, i):
            shape = (shape[0], f"x{i} is not None and ({shape[1]})")
        parts.append(_chosen((f"a{i}", _needed(op, _readers(op, name))), shape))
    return _tuple(parts)


def _saved_result(op: Op) -> Iterator[str]:
    condition = _needed(op, _readers(op, op.outputs[0]))
    if op.view:
        yield f"node.results = {_chosen(('(saved_result(out, state),)', condition))}"
        return
    if condition != "False":
        yield f"vc = {_chosen(('VersionCounter()', condition))}"
        yield from ("out._vc = vc", "node.results = None if vc is None else ((array, vc, 0, None),)")
    else:
        yield "node.results = None"


def _metas(op: Op, first: int) -> str:
    """Shapes and dtypes of the inputs, where the gradients that formulas give may have others."""
    if op.view or (op.kind == "elementwise" and len(op.tensors) == 1):
        return "None"
    edges, alike = _together(op), []
    for p in edges:
        same = [] if op.kind == "elementwise" else [f"a{p}._dtype is dtype"]
        if op.broadcasts:
            same.append(f"x{p}.shape == array.shape")
        test = " and ".join(same)
        alike.append(test if len(edges) == 1 else f"(e{p} is None or ({test}))")
    test = " and ".join(alike)
    if op.kind != "elementwise":
        test = f"dtype.category == 2 and {test}"
    elif len(op.tensors) == 2 == len(edges) and not any(_optional(op, p) for p in edges):
        quick = [f"n{p}" for p in edges[1:] if p in op.numbers] + [f"x{edges[0]}.shape == x{edges[1]}.shape"]
        test = f"{' or '.join(quick)} or ({test})"
    metas = []
    for p in op.tensors:
        meta = f"(x{p}.shape, a{p}._dtype.numpy)"
        metas.append(f"None if a{p} is None else {meta}" if _optional(op, p) else meta)
    return f"None if {test} else {_tuple(metas)}"
