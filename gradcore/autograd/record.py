"""Recording of calls: create the node of a call, with its saved values.

The declaration of an operation determines what its nodes save. `node_lines` generates the Python source that creates a
node. The fast path (`gradcore.dispatch.fast_path`) inlines these lines. All other callers use them as a function
(`recorder`), which accepts any arguments.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

from gradcore.autograd import anomaly_mode, batch_dims, variables
from gradcore.autograd.derivatives import node_class, not_differentiable
from gradcore.autograd.modes import ANOMALY, SAVED_HOOKS, State
from gradcore.autograd.op_node import slots_of
from gradcore.autograd.saved import NewSavedTensor, SavedTensor, refuse_inference
from gradcore.autograd.variables import Variable, VersionCounter, new, on_device, tick, wrap
from gradcore.autograd.views import gradient_edge, mark_as_view, requires_grad
from gradcore.backends.numpy import malloc
from gradcore.core import dtypes
from gradcore.core.tracebacks import define
from gradcore.core.typing import AnyTensor
from gradcore.ops.declare.parameters import names_of
from gradcore.ops.declare.promotion import keeps_floats
from gradcore.ops.declare.table import Op

__all__ = [
    "check_differentiable",
    "is_optional",
    "is_several",
    "is_single",
    "make_outputs",
    "node_globals",
    "node_lines",
    "readers_of",
    "record",
    "recorder",
    "tuple_of",
    "view_of",
    "wrap_results",
]


# -- calls that are recorded ------------------------------------------------------------------------------------------


def make_outputs(
    op: Op,
    args: tuple[Any, ...],
    tensors: Sequence[Any],
    edges: list[Any],
    device: Any,
    results: Any,
    recorded: bool,
    state: State,
) -> Any:
    """Wrap the arrays returned by a kernel as tensors and, if `recorded`, give them their history."""
    single = len(op.outputs) == 1 and not op.variadic
    results = (results,) if single else results
    outs = wrap_results(results, device, op.contiguous)
    if op.view:
        for i, out in enumerate(outs):
            mark_as_view(out, args[0], op, args[1:], i if op.variadic else None, state)
    if recorded and op.differentiable:
        chosen = [
            i for i in (range(len(outs)) if op.variadic else op.differentiable) if outs[i]._dtype.is_differentiable
        ]
        if chosen:
            check_differentiable(op, edges)
            if op.differentiable_inputs:
                node = record(op, args, tensors, edges, device, outs, state)
                for i in chosen:
                    outs[i]._edge = (node, i)
    if single:
        return outs[0]
    return tuple(outs) if op.output_type is None else op.output_type(*outs)


def wrap_results(arrays: Iterable[Any], device: Any, contiguous: bool) -> list[Any]:
    """Return new tensors of the arrays or scalars that a kernel returned, copied into C order if `contiguous`."""
    array_type, outs = device.backend.array_type, []
    for array in arrays:
        if array.__class__ is not array_type or variables.inference_used:
            flags = getattr(array, "flags", None)
            is_ordered = not contiguous or flags is None or flags.c_contiguous
            outs.append(wrap(array if is_ordered else device.kernels["contiguous"](array), device))
            continue
        if contiguous and not array.flags.c_contiguous:
            array = device.kernels["contiguous"](array)
        # This is `wrap`, inlined because many operations have two or three results.
        if malloc.waiting and array.size >= malloc.LARGE and device.type == "cpu":
            malloc.begin()
        out = new(variables.tensor_class)
        out._array, out._device, out._dtype = array, device, dtypes.from_numpy(array.dtype)
        out._edge = out._autograd = out._vc = None
        outs.append(out)
    return outs


def check_differentiable(op: Op, edges: Sequence[Any]) -> None:
    """Raise if a tensor requires grad for which the operation has no derivative."""
    if op.refused_inputs:
        extra_edges = len(edges) - len(op.tensors)  # of a sequence
        for i, edge in enumerate(edges):
            position = op.tensors[max(i - extra_edges, 0) if op.sequences else i]
            if edge is not None and position in op.refused_inputs:
                raise not_differentiable(op, position)


def record(
    op: Op, args: tuple[Any, ...], tensors: Sequence[Any], edges: list[Any], device: Any, outs: list[Any], state: State
) -> Any:
    """Create the node of a call: the general path, for several devices, batches, saved-tensor hooks or anomaly mode.

    Parameters
    ----------
    op : Op
    args : tuple
        The arguments as formulas read them: in the dtype of the computation, scalars as tensors.
    tensors, edges : sequence
        For each edge the argument (a tensor or None), and the edge of its gradient.
    device : device
        The device of the computation.
    outs : list of Tensor
    """
    if device.levels:
        args, edges = _broadcast(op, args, tensors, edges, device)
    shift = len(edges) - len(op.tensors)  # further edges of a leading sequence of tensors
    for p in op.tensors:
        t = args[p]
        if p not in op.sequences and t is not None and t._device.real is not device.real:
            edge = edges[op.edge_index[p] + shift]
            args = (*args[:p], _move_scalar(t, edge, device), *args[p + 1 :])
    single = len(op.outputs) == 1 and not op.variadic
    node = recorder(op)(device, outs[0] if single else outs, tuple(edges), tensors, *args)
    if state.mode & SAVED_HOOKS:
        node.pack()
    if state.mode & ANOMALY:
        anomaly_mode.note(node, tensors, outs)
    return node


def _move_scalar(t: AnyTensor, edge: Any, device: Any) -> Any:
    """Return a 0-dim CPU tensor moved to `device`, the device of the other tensors, for use in formulas."""
    moved = new(variables.tensor_class)
    moved._array, moved._device, moved._dtype = on_device(t, device), device.real, t._dtype
    moved._edge, moved._autograd, moved._vc = edge, None, t._vc
    return moved


def _broadcast(op: Op, args: tuple[Any, ...], tensors: Sequence[Any], edges: list[Any], device: Any) -> tuple[Any, Any]:
    """Return arguments and edges in which inputs shared by all samples of a batch are broadcast to it."""

    def broadcast(t: AnyTensor) -> Any:
        on_other_device = isinstance(t, Variable) and t._device is not device and requires_grad(t)
        return batch_dims.broadcast_to_batch(t, device) if on_other_device else t

    if all(t is None or t._device is device for t in tensors):
        return args, edges
    arguments = list(args)
    for p in op.tensors:
        arguments[p] = [broadcast(t) for t in args[0]] if p in op.sequences else broadcast(args[p])
    pairs = zip(tensors, edges, strict=True)
    return tuple(arguments), [edge if edge is None else gradient_edge(broadcast(t)) for t, edge in pairs]


def view_of(t: AnyTensor, array: Any, op: Op, settings: tuple[Any, ...], state: State) -> Any:
    """Return `array`, which the kernel of the view operation `op` returned, as a recorded view of the tensor `t`."""
    device = t._device
    out = new(variables.tensor_class)
    out._array, out._device, out._dtype = array, device, t._dtype
    out._edge = out._autograd = out._vc = None
    edge = t._edge if t._autograd is None else gradient_edge(t)
    mark_as_view(out, t, op, settings, None, state)
    if edge is not None and state.mode:
        out._edge = recorder(op)(device, out, (edge,), None, t, *settings), 0
    return out


# -- the recorder of an operation -------------------------------------------------------------------------------------


@functools.cache
def recorder(op: Op) -> Callable[..., Any]:
    """Compile ``(device, out, edges, tensors, *args) -> node`` for one operation.

    `out` is the result or a list of results. `tensors` are the tensor arguments, whose shapes and dtypes the gradients
    must have. `args` are the values that formulas read.
    """
    lines = list(node_lines(op, exact=True))
    names = set(re.findall(r"\b[a-z]+\d*\b", "".join(lines)))
    start = [f"n = len(edges) - {len(op.tensors) - 1}"] if op.sequences else []
    for i, p in enumerate(op.tensors):
        index = ":n" if is_several(op, p) else f"n + {i - 1}" if op.sequences else str(i)
        if f"e{p}" in names:
            start.append(f"e{p} = edges[{index}]")
        if f"t{p}" in names:
            start.append(f"t{p} = tensors[{index}]")
        if f"x{p}" in names and is_several(op, p):
            start.append(f"x{p} = [t._array for t in a{p}]")
        elif f"x{p}" in names:
            start.append(f"x{p} = {f'None if a{p} is None else ' if is_optional(op, p) else ''}a{p}._array")
    if names & {"array", "dtype"}:
        first = "out" if is_single(op) else "outs[0]"
        start.append(f"array, dtype = {first}._array, {first}._dtype")
    out = "out" if is_single(op) else "outs"
    parameters = ", ".join(["device", out, "edges", "tensors", *(f"a{i}" for i in range(len(op.names)))])
    name = f"record_{op.name}"
    text = [f"def {name}({parameters}):", *start, *lines, "return node"]
    return define(__name__, name, text, node_globals(op))


def node_globals(op: Op) -> dict[str, Any]:
    """Return the globals of the lines of `node_lines`."""
    name: Any = op.node
    scope: dict[str, Any] = {
        "variables": variables, "NewSavedTensor": NewSavedTensor, "SavedTensor": SavedTensor,
        "VersionCounter": VersionCounter, "node_name": name, "refuse_inference": refuse_inference, "tick": tick,
    }  # fmt: skip
    if op.differentiable_inputs:
        scope["classes"] = _Classes(op)
        if isinstance(name, str):
            scope["cls"] = node_class(op, name)
        if op.copy_node is not None:
            scope["copying_cls"] = node_class(op, op.copy_node)
    return scope


class _Classes(dict[str, Any]):
    """The node classes of an operation by name, for operations whose node name depends on the call."""

    def __init__(self, op: Op) -> None:
        super().__init__()
        self.op = op

    def __missing__(self, name: str) -> Any:
        cls = self[name] = node_class(self.op, name)
        return cls


def node_lines(op: Op, exact: bool = False) -> Iterator[str]:
    """Yield source lines that create the node of a call and assign it to ``node``.

    The lines read these variables: the arguments ``a0, a1, ...``, the edges of their gradients ``e0, ...``, their
    arrays ``x0, ...`` (lists for a sequence of tensors), the `device`, and the result ``out`` with its `array` and
    `dtype`, or several results ``outs``.

    Parameters
    ----------
    op : Op
    exact : bool
        Whether the lines must be valid for all arguments. If False, they may assume the conditions of the fast path:
        the arguments of an elementwise operation have one dtype, ``n1`` says whether the second is a number, and
        results are new.
    """
    for p in op.tensors:  # tensors saved for the gradients of other inputs must not be inference tensors
        readers = set(readers_of(op, op.names[p]))
        if is_several(op, p):
            if exact and readers:
                yield from ("if variables.inference_used:", f"    refuse_inference(*a{p})")
        elif readers - {p} and p not in op.keeps_dtype:
            test = f"a{p} is not None and " if is_optional(op, p) else ""
            yield from (f"if e{p} is None and {test}a{p}._autograd is not None:", f"    refuse_inference(a{p})")
    cls = "cls"
    if not isinstance(op.node, str):
        cls = f"classes[node_name({', '.join(_read_by_name(op))})]"
    if op.copy_node is not None:
        is_view = "out._autograd is not None" + (" and out._autograd.base is not None" if exact else "")
        cls = f"({cls} if {is_view} else copying_cls)"
    yield f"node = {cls}()"
    edges = "edges" if exact else tuple_of("*e0" if is_several(op, p) else f"e{p}" for p in op.tensors)
    yield from (f"node._device, node._edges = device, {edges}", "node._seq, node._hooks = tick(), None")
    yield from _saved_outputs(op, exact)
    yield f"node.saved = {_emit_saved(op)}"
    yield from _metas(op, exact)


def _read_by_name(op: Op) -> list[str]:
    """Return source for the keyword arguments of `op.node`: arguments of the call, and shapes of its tensors."""
    names = names_of(op.node)  # type: ignore[arg-type]
    if names == ("args",):  # The function takes all arguments as ``*args``.
        return [f"a{i}" for i in range(len(op.names))]
    shapes = {f"{op.names[p]}_shape": f"x{p}.shape" for p in op.tensors}
    return [shapes.get(name) or f"a{op.position[name]}" for name in names]


def tuple_of(parts: Iterable[str]) -> str:
    """Return the source of a tuple of the expressions `parts`."""
    inside = ", ".join(parts)
    return f"({inside},)" if inside else "()"


def is_single(op: Op) -> bool:
    """Return whether `op` has exactly one result."""
    return len(op.outputs) == 1 and not op.variadic


def is_optional(op: Op, p: int) -> bool:
    """Return whether the tensor parameter at position `p` is optional."""
    return op.parameters[p].default is None


def is_several(op: Op, p: int) -> bool:
    """Return whether the parameter at position `p` is a sequence of tensors."""
    return p in op.sequences


def readers_of(op: Op, name: str) -> list[int]:
    """Return the positions of the tensors whose derivative formula reads `name`."""
    formulas = (op.vjps or op.differentials).items()
    keys = [((key,) if isinstance(key, str) else key) for key, formula in formulas if name in formula.names]
    return sorted({op.position[each] for key in keys for each in key})


def need_condition(op: Op, readers: Collection[int]) -> str:
    """Return source of the condition that a tensor at one of the positions `readers` requires grad.

    It is ``True`` if these are all tensors that can require grad, because a node is only created if one of them does.
    """
    if set(op.tensors) - op.keeps_dtype <= set(readers):
        return "True"
    return " or ".join("any(e0)" if is_several(op, p) else f"e{p} is not None" for p in readers) or "False"


def _choose(*choices: tuple[str, str]) -> str:
    """Return source that selects the first value whose condition holds, else None."""
    text = "None"
    for value, condition in reversed(choices):
        text = value if condition == "True" else text if condition == "False" else f"{value} if {condition} else {text}"
    return text


def _emit_saved(op: Op) -> str:
    """Return source of the tuple of saved values, one per slot, with None for values that no formula will read."""
    values = []
    for slot in slots_of(op):
        p = slot.position
        if slot.kind == "setting":
            values.append(f"a{p}")
            continue
        if slot.kind == "output":
            values.append(f"s{p}")
            continue
        condition = need_condition(op, readers_of(op, slot.name))
        if slot.kind == "shape":
            value = "tuple([x.shape for x in x0])" if is_several(op, p) else f"x{p}.shape"
            if is_optional(op, p) and condition != "False":
                condition = f"x{p} is not None and ({condition})"
        else:
            value = f"tuple(a{p})" if slot.kind == "tensors" else f"a{p}"
        values.append(_choose((value, condition)))
    return tuple_of(values)


def _saved_outputs(op: Op, exact: bool) -> Iterator[str]:
    """Yield source lines that assign the saved outputs to ``s0, ...``."""
    for slot in slots_of(op):
        if slot.kind != "output":
            continue
        i, condition = slot.position, need_condition(op, readers_of(op, slot.name))
        if exact or op.view or not is_single(op):
            out = "out" if is_single(op) else f"outs[{i}]"
            yield f"s{i} = {_choose((f'SavedTensor.save_output({out}, {i})', condition))}"
            continue
        # The output is new, so its version is 0 and it has no tangents, which are the defaults.
        new = ("s0 = NewSavedTensor()", "s0._array = array", "s0._vc = out._vc = VersionCounter()")
        if condition == "True":
            yield from new
        else:
            yield from ("s0 = None", f"if {condition}:", *(f"    {line}" for line in new))


def _metas(op: Op, exact: bool) -> Iterator[str]:
    """Yield source that stores the metadata of the outputs, and of inputs whose gradients may need a conversion."""
    if is_single(op):
        note = "node._shape, node._dtype = shape, dtype"
    else:
        note = "node._outputs = [(out._array.shape, out._dtype, device) for out in outs]"
        yield "node._n_outputs = len(outs)"
        yield "dtype = outs[0]._dtype"
    if not exact and op.kind == "elementwise" and keeps_floats(op.promotion) and len(op.tensors) == 1:
        yield "node.metas = None"  # not noted: the output is like the input, see `OpNode._output_metas`
        return
    if (op.view and not op.variadic) or (not exact and op.kind == "elementwise" and len(op.tensors) == 1):
        yield from (note.replace("= shape", "= array.shape"), "node.metas = None")
        return
    edges, tests, metas = [p for p in op.tensors if p not in op.keeps_dtype], [], []
    prefix = "t" if exact else "a"
    for p in op.tensors:
        x, t = ("t._array", "t") if is_several(op, p) else (f"x{p}", f"{prefix}{p}")
        if exact:
            x = f"{t}._array"
        meta = f"({x}.shape, {t}._dtype, device)"
        comparisons = [] if not exact and op.kind == "elementwise" else [f"{t}._dtype is dtype"]
        if op.broadcasts:
            comparisons.append(f"{x}.shape == shape" if is_single(op) or exact else "False")
        test = " and ".join(comparisons)
        if is_several(op, p):
            metas.append(f"*[{meta} for t in {prefix}0]")
            tests.append(f"all([{test} for t in {prefix}0])")
            continue
        metas.append(f"None if {t} is None else {meta}" if is_optional(op, p) else meta)
        if exact:
            tests.append(f"({t} is None or ({test}))" if is_optional(op, p) else test)
        elif p in edges:
            tests.append(test if len(edges) == 1 else f"(e{p} is None or ({test}))")
    test = " and ".join(tests)
    if exact:
        test = f"dtype.is_floating_point and not dtype.is_reduced and {test}"
    elif op.kind != "elementwise":
        test = f"dtype.is_floating_point and {test}"
    general = f"node.metas = None if {test} else {tuple_of(metas)}"
    if not exact and op.kind == "elementwise" and op.tensors == (0, 1) == tuple(edges) and not is_optional(op, 1):
        keeps = keeps_floats(op.promotion)
        number = 1 in op.accepts_scalars
        rest = ["shape = x0.shape", "if shape == x1.shape:" if not number or keeps else "if n1 or shape == x1.shape:"]
        rest += ["    node.metas = None", "else:", "    shape = array.shape", f"    {general}", note]
        if number and keeps:
            yield from ("if n1:", "    node.metas = None", "else:", *(f"    {line}" for line in rest))
        else:
            yield from rest
        return
    if is_single(op) or exact:
        yield "shape = array.shape"
    yield from (general, note)
