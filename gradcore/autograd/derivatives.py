"""Node classes and backward functions compiled from the declared derivative formulas of operations."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from gradcore.autograd import variables
from gradcore.autograd.input_buffer import TENSOR_GRADS
from gradcore.autograd.modes import GRAD, local
from gradcore.autograd.node import AccumulateGrad, Node
from gradcore.autograd.op_node import HOLDING, SEVERAL, OpNode, show_saved, slots_of
from gradcore.autograd.variables import AutogradMeta, Edge, TensorMeta, Variable, alias
from gradcore.autograd.views import all_tangents, gradient_edge
from gradcore.core import dtypes
from gradcore.core.tracebacks import generated_file
from gradcore.core.typing import AnyTensor
from gradcore.ops.declare.table import Formula, Op

__all__ = [
    "LEAF",
    "PLANS",
    "UNCHANGED",
    "are_real",
    "node_class",
    "not_differentiable",
]


# -- what a formula reads -----------------------------------------------------------------------------------------


def _expression(op: Op, name: str, values: str) -> str:
    """Return the source expression for a saved value of `node`; `values` as for `_call`."""
    if name == "needs":
        return "tuple([edge is not None for edge in node._edges])"
    slots = slots_of(op)
    number = next(i for i, slot in enumerate(slots) if slot.name == name)
    saved, kind, position = f"node.saved[{number}]", slots[number].kind, slots[number].position
    if kind == "indices":
        return f"tuple([getattr(t, '_array', t) for t in {saved}])"
    if kind in ("shape", "setting"):
        return saved
    if values == "tensors":
        if kind == "tensor" and not op.sequences:
            return f"with_history(node, {number}, {op.edge_index[position]})"
        return f"node.unpack({number})"
    if kind == "tensors":
        return f"[t._array for t in {saved}]"
    if kind == "tensor" and op.parameters[position].default is None:
        return f"(None if {saved} is None else {saved}._array)"
    return f"{saved}._array[()]" if values == "numbers" else f"{saved}._array"


def _with_history(node: Any, number: int, edge_number: int) -> Any:
    """Return the saved tensor in slot `number` with the history that it had when it was saved."""
    t, edge = node.saved[number], node._edges[edge_number]
    if t is not None and t._edge is edge and (edge is not None or t._autograd is None):
        return t
    return node.unpack(number)


def _lambda(head: str, text: str, scope: dict[str, Any], name: str = "<lambda>") -> Any:
    """Return the function ``lambda head: text`` with the globals `scope`. Each text is compiled once."""
    text = f"lambda {head}: {text}"
    if text not in _compiled:
        _compiled[text] = compile(text, generated_file(__name__, text), "eval")
    function = eval(_compiled[text], {"with_history": _with_history, **scope})
    function.__code__ = function.__code__.replace(co_name=name)
    return function


_compiled: dict[str, Any] = {}


def _reader(op: Op, formula: Formula, values: str) -> Callable[[OpNode], list[Any]]:
    """Compile ``node -> [value, ...]``, which returns the saved values that a formula reads."""
    values_read = ", ".join(_expression(op, name, values) for name in formula.names)
    return _lambda("node", f"[{values_read}]", {})  # type: ignore[no-any-return]


#: The entry in a plan for an edge whose gradient is the upstream gradient itself.
UNCHANGED: Any = object()


def _call(op: Op, formula: Formula, values: str, number: int) -> Any:
    """Compile ``(F, grad, node) -> gradient`` for edge `number`, with the reads of saved values inlined.

    `values` is the type of gradients and saved values: ``"arrays"``, ``"numbers"`` (0-dim arrays as NumPy scalars,
    which compute five times as fast) or ``"tensors"``. Products are inlined, unless operands were broadcast: for them,
    the backend may have a kernel. A large product that is summed to the shape of the input is not computed in full.
    """
    if formula.is_identity:
        return UNCHANGED
    arguments = ["F", "grad", *(_expression(op, name, values) for name in formula.names)]
    text = " * ".join(arguments[1:]) if formula.is_product else f"function({', '.join(arguments)})"
    if values == "arrays" and op.kind == "elementwise":
        if formula.is_product and len(arguments) == 3 and len(op.tensors) > 1:
            text = f"(F.mul({', '.join(arguments[1:])}) if node.metas else {text})"
        text += " if grad.size < F.LARGE else "
        if formula.is_product:
            shape = f"node.metas[{number}][0]"
            text += (
                f"F.product_to_size({', '.join(arguments[1:])}, {shape}) if node.metas and {shape} != grad.shape else "
            )
        text += f"F.evaluate_tiled(function, {', '.join(arguments[1:])})"
    name = formula.function.__name__ if formula.is_product else "<lambda>"
    call = _lambda("F, grad, node", text, {"function": formula.function}, name)
    connects = values == "tensors" and (op.joint or op.names[op.tensors[number]] in op.connected)
    return _connecting(call, op, number) if connects else call


def _connecting(call: Any, op: Op, number: int) -> Any:
    """Wrap `call` as ``(F, grad, node) -> gradient`` that connects its result, a tensor, to inputs."""
    connect = connect_gradient if op.names[op.tensors[number]] in op.connected else join

    def connecting(F: Any, grad: Any, node: Any) -> Any:
        gradient = call(F, grad, node)
        if node.metas is not None and gradient is not None:
            gradient = TENSOR_GRADS.validate_grad(gradient, node.metas[number])
        return connect(gradient, node, number)

    return connecting


# -- node classes ---------------------------------------------------------------------------------------------------

_classes: dict[tuple[str, str], type[OpNode]] = {}


def node_class(op: Op, name: str) -> type[OpNode]:
    """Return the node class called `name` of an operation, and create it on first use."""
    cls = _classes.get((op.name, name))
    if cls is None:
        cls = _classes[op.name, name] = _make_class(op, name)
    return cls


def _make_class(op: Op, name: str) -> type[OpNode]:
    table = op.vjps or op.differentials
    rows: list[tuple[tuple[str, ...], Formula, Any]] = []
    for key, formula in table.items():
        readers = _reader(op, formula, "arrays"), _reader(op, formula, "tensors")
        rows.append(((key,) if isinstance(key, str) else key, formula, readers))
    names = {n for _, formula, _ in rows for n in formula.names}
    removed = {op.names[p] for p in op.tensors}.difference(op.edges[name]) if name in op.edges else set()
    slots = slots_of(op)
    holders = tuple(i for i, slot in enumerate(slots) if slot.kind in HOLDING and slot.name not in removed)
    held_names = {slots[i].name for i in holders}
    reads_tensors = [not held_names.isdisjoint(f.names) for keys, f, _ in rows if removed.isdisjoint(keys)]
    simple = len(op.outputs) == 1 and not op.variadic and not op.sequences and all(len(keys) == 1 for keys, *_ in rows)
    body = {
        "__slots__": () if len(op.outputs) == 1 and not op.variadic else ("_n_outputs", "_outputs"),
        "op": op,
        "backward": backward,
        "rows": tuple(rows),
        "spans": tuple(tuple(op.edge_index[op.position[key]] for key in keys) for keys, *_ in rows),
        "reads_result": {
            op.edge_index[op.position[key]] for keys, f, _ in rows if op.outputs[0] in f.names for key in keys
        },
        "slots": slots,
        "array_slots": tuple(i for i, slot in enumerate(slots) if slot.kind not in ("shape", "setting")),
        "single": tuple(i for i, slot in enumerate(slots) if slot.kind in ("tensor", "output")),
        "several": tuple(i for i, slot in enumerate(slots) if slot.kind in SEVERAL),
        "number_of": {slot.name: i for i, slot in enumerate(slots)},
        "holds_tensors": any(reads_tensors),
        "may_hold_none": not all(reads_tensors),
        "holders": holders,
        "keeps_settings": any(slot.kind in ("setting", "indices") and slot.name in names for slot in slots),
        "view_key": None if op.view_key is None else staticmethod(op.view_key),
        "seen": _seen_edges(op, name, {key for keys, *_ in rows for key in keys}),
        "__module__": "builtins",
        "__doc__": f"Backward of `{op.path}`.",
    }
    cls: type[OpNode] = type(name, (OpNode,), body)
    show_saved(cls, names - {"needs"})
    cls.keeps_settings = cls.keeps_settings or any("_sym_" in name for name in vars(cls))
    if simple:
        _plan(cls, op, {keys[0]: formula for keys, formula, _ in rows})
    return cls


def _plan(cls: Any, op: Op, formulas: dict[str, Formula]) -> None:
    """Add the plans of a node class to `PLANS`. The gradients for its edges must be independent of each other."""

    def calls(values: str) -> tuple[Any, ...]:
        names = [op.names[i] for i in op.tensors]
        return tuple([_call(op, formulas[n], values, i) if n in formulas else None for i, n in enumerate(names)])

    elementwise = op.kind == "elementwise"
    keeps_settings = cls.keeps_settings or cls.may_hold_none if cls.holds_tensors else None
    arrays = calls("arrays"), calls("numbers") if elementwise else None, cls.view_key, keeps_settings
    PLANS["arrays"][cls] = arrays
    PLANS["tensors"][cls] = calls("tensors"), None, None, keeps_settings
    if not elementwise:
        PLANS["fused"][cls] = arrays


#: The plan of AccumulateGrad nodes.
LEAF: Any = object()

#: Plans by node class, with which the engine runs nodes without a call of `Node.backward`. They exist for classes whose
#: gradients are independent of each other. "arrays" has the plans for raw arrays, "fused" those for raw arrays on a
#: backend with fused elementwise gradients. A plan is a tuple:
#:
#: - the functions ``(F, grad, node) -> gradient``, one per edge;
#: - the same functions for gradients that are NumPy scalars, or None;
#: - the function that returns the key of a view, or None;
#: - whether `release` must keep settings; None if there is nothing to release.
PLANS: dict[str, dict[type, Any]] = {values: {AccumulateGrad: LEAF} for values in ("arrays", "fused", "tensors")}


def are_real(metas: Any, grad: Any) -> bool:
    """Return whether `grad` and all inputs are float32 or float64, so that only shapes may need a conversion."""
    for meta in metas:
        if meta is not None and meta[1] is not _FLOAT32 and meta[1] is not _FLOAT64:
            return False
    if isinstance(grad, Variable):
        return grad._dtype is _FLOAT32 or grad._dtype is _FLOAT64
    return grad.dtype is _ARRAY32 or grad.dtype is _ARRAY64


_FLOAT32, _FLOAT64 = dtypes.float32, dtypes.float64
_ARRAY32, _ARRAY64 = _FLOAT32.numpy, _FLOAT64.numpy


def _seen_edges(op: Op, name: str, keys: set[str]) -> tuple[int, ...] | None:
    """Return the numbers of the edges of differentiable inputs (no indices or masks); None if these are all edges."""
    all_edges = tuple(range(len(op.tensors)))
    if name in op.edges:
        edges = tuple(op.edge_index[op.position[each]] for each in op.edges[name])
    else:
        edges = tuple(i for i, p in enumerate(op.tensors) if op.names[p] in keys or p in op.sequences)
    return None if edges == all_edges else edges


# -- gradients ----------------------------------------------------------------------------------------------------


def backward(node: Any, grads: Any, arithmetic: Any, needed: Sequence[bool] | None = None) -> list[Any]:
    """Return the gradients for all edges of an `OpNode`, whose method `backward` this is.

    Parameters
    ----------
    node : OpNode
    grads : array or tensor, or a list of them for several outputs
        Upstream gradients; None where there is none.
    arithmetic : RawGrads or TensorGrads
    needed : sequence of bool, optional
        Which edges' gradients are needed; all that lead somewhere if None.
    """
    op, edges, F = node.op, node._edges, arithmetic.F
    if node.saved is None or variables.last_write > node._seq:
        node.check()
    original = node
    if node._hooks is not None and node._hooks.saved:
        node = node.call_unpack_hooks()
    pieces: list[Any] = [None] * len(edges)
    if op.variadic or len(op.outputs) > 1:
        grads = _materialize(node, grads, arithmetic)
        if grads is None:
            return pieces
    elif grads is None:
        return pieces
    needed = [edge is not None and (needed is None or needed[i]) for i, edge in enumerate(edges)]
    if not arithmetic.recorded and F.has_fused_gradients and op.kind == "elementwise":
        fused = _fused_gradients(node, grads, arithmetic, needed)
        if fused is not None:
            return fused
    widen = arithmetic.widening(node, grads)
    if widen is not None:
        grads = widen(grads)
    extra = len(edges) - len(op.tensors) if op.sequences else 0
    for (keys, formula, readers), span in zip(node.rows, node.spans, strict=True):
        if op.sequences:
            span = range(extra + 1) if keys[0] == op.names[0] else [number + extra for number in span]
        if True not in [needed[i] for i in span]:
            continue
        values = readers[arithmetic.recorded](node)
        if "needs" in formula.names:
            values[formula.names.index("needs")] = tuple(needed)
        if widen is not None:
            values = widen(values)
        results = arithmetic.evaluate(op, formula.function, grads, values)
        if len(keys) == 1 and not (op.sequences and keys[0] == op.names[0]):
            results = (results,)
        for i, gradient in zip(span, results, strict=True):
            if needed[i] and gradient is not None:
                pieces[i] = gradient
    if node.metas is not None:
        for i, gradient in enumerate(pieces):
            if gradient is not None:
                pieces[i] = arithmetic.validate_grad(gradient, node.metas[i])
    if arithmetic.recorded:
        for name in op.connected:
            number = op.edge_index[op.position[name]]
            pieces[number] = connect_gradient(pieces[number], original, number)
        if op.joint:
            pieces = [join(gradient, node) for gradient in pieces]
    return pieces


def _fused_gradients(node: Any, grad: Any, arithmetic: Any, needed: Sequence[bool]) -> list[Any] | None:
    """Return the gradients of an elementwise operation computed by one kernel, or None if they cannot be fused."""
    op = node.op
    rows = [(op.edge_index[op.position[keys[0]]], *rest) for keys, *rest in type(node).rows]
    rows = [row for row in rows if needed[row[0]]]
    values = {name: v for _, f, readers in rows for name, v in zip(f.names, readers[0](node), strict=True)}
    metas: Any = node.metas or [TensorMeta(grad.shape, dtypes.from_numpy(grad.dtype), node._device)] * len(needed)
    stored = [metas[i][1].numpy if metas[i][0] == grad.shape else None for i, *_ in rows]
    formulas = [formula for _, formula, _ in rows]
    gradients = local.state.run(arithmetic.F.fused_gradients, op.name, formulas, grad, values, not op.vjps, stored)
    if gradients is None:
        return None
    pieces: list[Any] = [None] * len(needed)
    for (i, *_), gradient in zip(rows, gradients, strict=True):
        pieces[i] = arithmetic.validate_grad(gradient, metas[i])
    return pieces


def _materialize(node: Any, grads: list[Any], arithmetic: Any) -> Any:
    """Return the gradients of the differentiable outputs, or None if all are missing.

    A missing gradient is replaced by zeros if `op.materialize` is True.
    """
    op = node.op
    if node._n_outputs == 1:
        grads = [grads]
    chosen = range(len(grads)) if op.variadic else op.differentiable
    chosen_grads, missing = [], 0  # in one loop, as calls of list comprehensions take longer than their work
    for i in chosen:
        grad = grads[i]
        chosen_grads.append(grad)
        if grad is None:
            missing += 1
    if missing == len(chosen):
        return None
    if missing and op.materialize:
        for k, i in enumerate(chosen):
            if chosen_grads[k] is None:
                chosen_grads[k] = arithmetic.zeros(node._outputs[i])
    return chosen_grads if op.variadic or len(op.differentiable) > 1 else chosen_grads[0]


# -- gradients that do not vary with an input -------------------------------------------------------------------------
#
# The slope of `relu` is constant between its corners. So nothing in the formula of its gradient leads back to the
# input, and differentiating once more would find that the input was not used. PyTorch gives zeros there, and so
# programs such as gradient penalties and Laplacians count on them.


class ConnectedGradient(Node):
    """Node that passes its gradient on to the first edge, and zeros to the second."""

    __slots__ = ("_input_devices",)

    def backward(self, grads: AnyTensor, arithmetic: Any, needed: Sequence[bool] | None = None) -> list[AnyTensor]:
        if grads is None:
            return [None, None]
        meta = TensorMeta.of(arithmetic.as_tensor(grads))
        # On the device of the input, because samples of `vmap` whose gradients differ may share the input.
        return [grads, arithmetic.zeros(meta._replace(device=self._input_devices[1]))]


class ConnectedSlope(ConnectedGradient):
    """Node that passes its gradient on to the first edge, connected to the input, and zeros to the second.

    The gradient with respect to the upstream gradient is a product with the same slope. In PyTorch it depends on the
    input.
    """

    __slots__ = ()

    def backward(self, grads: AnyTensor, arithmetic: Any, needed: Sequence[bool] | None = None) -> list[AnyTensor]:
        passed, zeros = super().backward(grads, arithmetic)
        if grads is not None and arithmetic.recorded:
            passed = _connect(grads, type(self), self._edges[1:])
        return [passed, zeros]


class JointGradient(Node):
    """Node that passes its gradient on to the first edge, and None to the others."""

    __slots__ = ("_input_devices",)

    def backward(self, grads: AnyTensor, arithmetic: Any, needed: Sequence[bool] | None = None) -> list[AnyTensor]:
        return [grads, *[None] * (len(self._edges) - 1)]


@functools.cache
def _class_of(name: str, base: type[Node]) -> type[Node]:
    """Return the subclass of `base` for the backward of nodes called `name`, such as ``LeakyReluBackwardBackward0``."""
    stem, _, number = name.rpartition("Backward")
    body = {"__slots__": (), "__module__": "builtins", "__doc__": base.__doc__}
    return type(f"{stem}BackwardBackward{number}", (base,), body)


def connect_gradient(grad: AnyTensor, node: OpNode, number: int) -> AnyTensor:
    """Return the gradient that `node` has computed for edge `number`, connected in the graph to that edge's input.

    If the formula reads the node's result, the gradient is connected to the result instead.
    """
    edge = node._edges[number]
    if grad is None or edge is None:
        return grad
    to = node._edge_of_output(0) if number in node.reads_result else edge
    is_slope = node.op.kind == "elementwise" and len(node.op.tensors) == 1
    cls = _class_of(type(node).__name__, ConnectedSlope if is_slope else ConnectedGradient)
    return _connect(grad, cls, (to,))


def join(grad: AnyTensor, node: OpNode, number: int = 0) -> AnyTensor:
    """Return the gradient `grad` computed by `node`, connected to the inputs in `Op.joint` if it is a constant."""
    if grad is None or gradient_edge(grad) is not None:
        return grad
    op = node.op
    numbers = [op.edge_index[op.position[name]] for name in op.joint]
    edges = tuple([node._edges[i] for i in numbers if node._edges[i] is not None])
    return _connect(grad, _class_of(type(node).__name__, JointGradient), edges) if edges else grad


def _connect(grad: AnyTensor, cls: type[Node], edges: tuple[Edge | None, ...]) -> AnyTensor:
    """Return an alias of `grad` whose node, of class `cls`, has the edge of `grad` and `edges`."""
    if not local.state.mode & GRAD:
        return grad
    node = cls.make(grad._device, (gradient_edge(grad), *edges), grad)
    node._input_devices = (grad._device, *[edge and edge[0]._device for edge in edges])
    out = alias(grad, (node, 0))
    tangents = all_tangents(grad)
    if tangents is not None:
        out._autograd = AutogradMeta()
        out._autograd.tangents = tangents
    return out


def not_differentiable(op: Any, position: int) -> RuntimeError:
    """Return the error for an argument of `op` that requires grad or has a tangent, but is not differentiable."""
    return RuntimeError(
        f"The function '{op.name}' is not differentiable with respect to argument '{op.names[position]}'. This input "
        "cannot have requires_grad True."
    )
