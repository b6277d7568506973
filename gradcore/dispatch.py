"""From declarations to functions on tensors: what happens when an operation is called."""

from __future__ import annotations

import numbers
import types
from collections.abc import Callable, Sequence
from typing import Any

from gradcore import dtypes
from gradcore.autograd import anomaly_mode, forward, views
from gradcore.autograd import saved as saved_tensors
from gradcore.autograd.formulas import TENSORS, node_class, plan_of
from gradcore.autograd.graph import (
    Meta,
    Variable,
    VersionCounter,
    alias,
    bump,
    gradient_edge,
    new,
    requires_grad,
    tensor_type,
    tick,
    version_counter,
    wrap,
)
from gradcore.autograd.modes import ANOMALY, DUAL, GRAD, INFERENCE, PACK, State, local
from gradcore.backends.registry import CPU
from gradcore.ops.promotion import RULES, keeps_floats
from gradcore.ops.table import Op

__all__ = ["apply", "apply_inplace", "binary", "make_function", "make_inplace", "named", "unary", "write"]

Number = numbers.Number
_NUMBERS = (bool, int, float, complex)


# -- arguments ------------------------------------------------------------------------------------------------------


def type_error(op: Op, position: int, value: Any) -> TypeError:
    """PyTorch's words for an argument that should be a tensor."""
    name = op.names[position]
    name = "input" if name == "self" else name
    return TypeError(
        f"{op.path.rpartition('.')[2]}(): argument '{name}' (position {position + 1}) must be Tensor, "
        f"not {type(value).__name__}"
    )


def common_device(tensors: Sequence[Any]) -> Any:
    """The device on which an operation of these tensors runs; 0-dim CPU tensors go anywhere."""
    found = None
    for t in tensors:
        if found is None or t._device is found:
            found = t._device
        elif found is CPU and all(s._device is not CPU or not s._array.ndim for s in tensors):
            found = t._device
        elif not (t._device is CPU and not t._array.ndim):
            first = next(str(s._device) for s in tensors if s._device is not t._device)
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two devices, "
                f"{first} and {t._device}! Move one of them with .to(device)."
            )
    return found


def on_device(t: Any, device: Any) -> Any:
    """The array of a tensor on `device`, which differs only for 0-dim CPU tensors."""
    if t._device is device:
        return t._array
    return device.backend.scalar(t._array[()], t._array.dtype)


_constants: dict[Any, Any] = {}


def constant(value: Any, dtype: dtypes.dtype, device: Any) -> Any:
    """A Python number as a 0-dim tensor; the frequent ones are kept."""
    key = (value, dtype, device._name)
    t = _constants.get(key)
    if t is None:
        t = new(tensor_type.cls)
        t._array = device.backend.scalar(value, dtype.numpy)
        t._device, t._dtype = device, dtype
        t._edge = t._meta = t._vc = None
        t._constant = True
        if value and value == value:  # -0.0 equals 0.0, and nan nothing: not as keys
            if len(_constants) > 1000:
                _constants.clear()
            _constants[key] = t
    return t


# -- the general path -----------------------------------------------------------------------------------------------


def apply(op: Op, args: tuple[Any, ...]) -> Any:
    """Call an operation on tensors: compute, and record where something requires grad."""
    state = local.state
    if state.mode > GRAD:
        return _special(op, args, state)
    if op.kind == "elementwise":
        return _elementwise(op, args, state)
    if op.simple:
        return _simple(op, args, state)
    if op.pair:
        return _pair(op, args, state)
    return _call(op, args, state)


def _simple(op: Op, args: tuple[Any, ...], state: State) -> Any:
    """A call of an operation of one tensor with one result: `_call` without its loops."""
    t = args[0]
    if not isinstance(t, Variable):
        raise type_error(op, 0, t)
    dtype, device = t._dtype, t._device
    if op.view:
        return views.view_of(t, device.kernels[op.kernel](t._array, *args[1:]), op, args[1:], op.node_name, state)
    if dtype.is_reduced and op.upcast and device.backend.upcasts:
        return _call(op, args, state)
    a = t._array
    array = state.run(device.kernels[op.kernel], a, *args[1:])
    out = new(tensor_type.cls)
    if array.__class__ is not a.__class__:
        array = device.backend.asarray(array)
    out._array, out._device, out._edge, out._meta, out._vc = array, device, None, None, None
    if array.dtype is not a.dtype:
        dtype = dtypes.from_numpy(array.dtype)
    out._dtype = dtype
    edge = t._edge if t._meta is None else gradient_edge(t)
    if edge is not None and state.mode and op.differentiable and dtype.category > 1:
        name = op.node_name
        if name.__class__ is not str:
            name = name(*args)
        node = new(node_class(op, name))
        plan = plan_of(op, _ONE)
        node._device, node._edges, node._hooks, node._seq = device, (edge,), None, tick()
        node.saved = (t if not plan.drop else a.shape if plan.shapes else None, *args[1:])
        node.results = (_saved_result(out, state),) if plan.results[0] else None
        if dtype is not t._dtype or dtype.category != 2 or op.broadcasts:
            node.metas = ((a.shape, t._dtype.numpy),)
        else:
            node.metas = None
        out._edge = (node, 0)
    return out


_ONE = (True,)


def _pair(op: Op, args: tuple[Any, ...], state: State) -> Any:
    """A call of an operation of two tensors of one real dtype with one result: `_call` without its loops."""
    t, other = args[0], args[1]
    if not isinstance(t, Variable) or not isinstance(other, Variable):
        return _call(op, args, state)
    dtype, device = t._dtype, t._device
    if other._dtype is not dtype or other._device is not device or dtype.category != 2 or dtype.is_reduced:
        return _call(op, args, state)
    a, b = t._array, other._array
    array = state.run(device.kernels[op.kernel], a, b, *args[2:])
    if array.__class__ is not a.__class__:
        array = device.backend.asarray(array)
    if array.dtype is not a.dtype:
        dtype = dtypes.from_numpy(array.dtype)
    out = new(tensor_type.cls)
    out._array, out._device, out._dtype, out._edge, out._meta, out._vc = array, device, dtype, None, None, None
    edge = t._edge if t._meta is None else gradient_edge(t)
    other_edge = other._edge if other._meta is None else gradient_edge(other)
    if (edge is None and other_edge is None) or not state.mode or not op.differentiable or dtype.category < 2:
        return out
    name = op.node_name
    if name.__class__ is not str:
        name = name(*args)
    node = new(node_class(op, name))
    plan = plan_of(op, (edge is not None, other_edge is not None))
    drop, shapes = plan.drop, plan.shapes
    node._device, node._edges, node._hooks, node._seq = device, (edge, other_edge), None, tick()
    node.saved = (
        t if 0 not in drop else a.shape if 0 in shapes else None,
        other if 1 not in drop else b.shape if 1 in shapes else None,
        *args[2:],
    )
    node.results = (_saved_result(out, state),) if plan.results[0] else None
    node.metas = None
    if op.broadcasts or dtype is not t._dtype:
        node.metas = ((a.shape, t._dtype.numpy), (b.shape, t._dtype.numpy))
    out._edge = (node, 0)
    return out


def _special(op: Op, args: tuple[Any, ...], state: State) -> Any:
    if state.mode & DUAL:
        level = forward.innermost(op, args)
        if level is not None:
            return forward.apply_dual(op, args, level, apply)
    run = _elementwise if op.kind == "elementwise" else _call
    return run(op, args, state)


def _call(op: Op, args: tuple[Any, ...], state: State) -> Any:
    raw = list(args)
    tensors: list[Any] = []
    edges: list[Any] = []
    device = None
    same_device, reduced, needed = True, False, False
    for p in op.tensors:
        value = args[p]
        if value is None and op.parameters[p].default is None:
            edges.append(None)
            tensors.append(None)
            continue
        if p == 0 and op.sequence:
            if isinstance(value, Variable):
                raise TypeError(
                    f"{op.path}(): argument '{op.names[0]}' (position 1) must be tuple of Tensors, not Tensor"
                )
            group = raw[0] = list(value)
        else:
            group = (value,)
        for i, t in enumerate(group):
            if not isinstance(t, Variable):
                raise type_error(op, p, t)
            if device is None:
                device = t._device
            elif t._device is not device:
                same_device = False
            edge = t._edge if t._meta is None else gradient_edge(t)
            if edge is not None:
                needed = True
            if t._dtype.is_reduced:
                reduced = True
            edges.append(edge)
            tensors.append(t)
            if p == 0 and op.sequence:
                raw[0][i] = t._array
            else:
                raw[p] = t._array
    if device is None:
        if op.sequence and not args[0]:
            raise RuntimeError(f"{op.path}(): expected a non-empty list of Tensors")
        device = CPU
    if not same_device:
        device = common_device([t for t in tensors if t is not None])
        raw = _moved(op, args, raw, device)
    for p in op.indices:
        raw[p] = tuple(index_array(t, device) for t in args[p])
    if reduced and op.upcast and device.backend.upcasts:
        results = _upcast_call(op, raw, device, state)
    else:
        results = state.run(device.kernels[op.kernel], *raw)
    return finish(op, args, tensors, edges, device, results, needed and bool(state.mode & GRAD), state)


def index_array(index: Any, device: Any) -> Any:
    """The array of an index tensor on `device`; indices come from anywhere."""
    if not isinstance(index, Variable):
        return index
    return index._array if index._device is device else TENSORS.to(index, device)._array


def _moved(op: Op, args: tuple[Any, ...], raw: list[Any], device: Any) -> list[Any]:
    for p in op.tensors:
        if p == 0 and op.sequence:
            raw[0] = [on_device(t, device) for t in args[0]]
        elif args[p] is not None:
            raw[p] = on_device(args[p], device)
    return raw


def _upcast_call(op: Op, raw: list[Any], device: Any, state: State) -> Any:
    """Compute float16 and bfloat16 in float32 and round once."""
    low = None
    for p in op.tensors:
        group = raw[p] if p == 0 and op.sequence else [raw[p]]
        for i, a in enumerate(group):
            dtype = dtypes.FROM_NUMPY.get(getattr(a, "dtype", None))
            if dtype is not None and dtype.is_reduced:
                low = a.dtype if low is None or low == a.dtype else dtypes.float32.numpy
                group[i] = a.astype("float32")
        raw[p] = group if p == 0 and op.sequence else group[0]
    results = state.run(device.kernels[op.kernel], *raw)
    position = op.position.get("dtype")
    if position is not None and raw[position] is not None:
        return results

    def down(array: Any) -> Any:
        return array.astype(low) if getattr(array, "dtype", None) == "float32" else array

    return type(results)(map(down, results)) if isinstance(results, (tuple, list)) else down(results)


def finish(
    op: Op,
    args: tuple[Any, ...],
    tensors: Sequence[Any],
    edges: list[Any],
    device: Any,
    results: Any,
    record: bool,
    state: State,
) -> Any:
    """Wrap raw results as tensors and record the node."""
    single = len(op.outputs) == 1 and not op.variadic
    outs = [wrap(results, device)] if single else [wrap(r, device) for r in results]
    if record and op.differentiable:
        chosen = range(len(outs)) if op.variadic else op.differentiable
        if any(outs[i]._dtype.category > 1 for i in chosen):
            node = make_node(op, args, tensors, edges, device, outs, state)
            for i in chosen:
                if outs[i]._dtype.category > 1:
                    outs[i]._edge = (node, i)
    if op.view:
        for i, out in enumerate(outs):
            views.link(out, args[0], op, args[1:], i if op.variadic else None, state)
    if single:
        return outs[0]
    if op.output_type is None:
        return tuple(outs)
    return OUTPUT_TYPES[op.output_type](*outs)


#: Named tuples of operations with several results, by name; filled by `gradcore.return_types`.
OUTPUT_TYPES: dict[str, Callable[..., Any]] = {}


def make_node(
    op: Op, args: tuple[Any, ...], tensors: Sequence[Any], edges: list[Any], device: Any, outs: list[Any], state: State
) -> Any:
    """Record a call: a node with the edges of its inputs and what its formulas read."""
    name = op.node_name
    if not isinstance(name, str):
        name = name(*args)
    node = new(node_class(op, name))
    node._device, node._edges, node._hooks, node._seq = device, tuple(edges), None, tick()
    if op.sequence:
        n = len(edges) - len(op.tensors) + 1
        pattern = (any(e is not None for e in edges[:n]), *(e is not None for e in edges[n:]))
    else:
        pattern = tuple(e is not None for e in edges)
    plan = plan_of(op, pattern)
    saved: list[Any] = list(args)
    for p in op.tensors:
        if saved[p] is None:
            continue
        if p == 0 and op.sequence:
            saved[0] = tuple(args[0])
        if p in plan.drop:
            if p not in plan.shapes:
                saved[p] = None
            elif p == 0 and op.sequence:
                saved[0] = tuple(t._array.shape for t in args[0])
            else:
                saved[p] = saved[p]._array.shape
        elif saved[p].__class__ in _NUMBERS:
            saved[p] = constant(saved[p], outs[0]._dtype, device)
    first = outs[0]
    node.saved = saved
    node.results = None
    if any(plan.results):
        node.results = [
            _saved_result(out, state) if keep else None for out, keep in zip(outs, plan.results, strict=True)
        ]
    dtype = first._dtype
    node.metas = None
    if dtype.category != 2 or dtype.is_reduced or op.broadcasts or any(
        t is not None and t._dtype is not dtype for t in tensors
    ):
        node.metas = _metas(op, tensors, first)
    if len(outs) > 1 or op.variadic:
        node._n_outputs = len(outs)
        node.output_metas = [(out._array.shape, out._array.dtype) for out in outs]
    if state.mode & PACK and node.holds_tensors:
        saved_tensors.pack(node)
    if state.mode & ANOMALY:
        anomaly_mode.note(node)
    return node


def _metas(op: Op, tensors: Sequence[Any], out: Any) -> Any:
    shape, dtype = out._array.shape, out._dtype
    plain = dtype.category == 2 and not dtype.is_reduced
    metas = []
    for t in tensors:
        if t is None:
            metas.append(None)
            continue
        if t._dtype is not dtype or (op.broadcasts and t._array.shape != shape):
            plain = False
        metas.append((getattr(t._array, "shape", ()), t._dtype.numpy))
    return None if plain else tuple(metas)


def _saved_result(out: Any, state: State) -> Any:
    vc = out._vc
    if vc is None:
        vc = out._vc = VersionCounter()
    tangents = None if out._meta is None else out._meta.tangents
    return out._array, vc, vc.version, tangents


# -- elementwise operations -------------------------------------------------------------------------------------------


def _plain(op: Op, args: tuple[Any, ...], state: State) -> Any:
    """`_elementwise` where there is nothing to convert: tensors of one real dtype, on one device. Else None."""
    first = None
    needed = False
    raw, operands, edges = list(args), list(args), []
    for p, value in enumerate(args):
        if p not in op.edge_of:
            if value.__class__ is complex:
                return None
            continue
        edge = None
        if isinstance(value, Variable):
            if p in op.unpromoted:
                if value._dtype is not dtypes.bool_:
                    return None
            elif first is None:
                first, dtype, device = value, value._dtype, value._device
                if dtype.category != 2 or dtype.is_reduced:
                    return None
            elif value._dtype is not dtype or value._device is not device:
                return None
            raw[p] = value._array
            edge = value._edge if value._meta is None else gradient_edge(value)
            needed = needed or edge is not None
        elif value is None:
            if op.parameters[p].default is not None:
                return None
        elif (value.__class__ is not float and value.__class__ is not int) or p not in op.numbers:
            return None
        edges.append(edge)
    if first is None:
        return None
    for p in op.tensors:
        value = args[p]
        if value.__class__ is float or value.__class__ is int:
            operands[p] = constant(value, dtype, device)
            raw[p] = operands[p]._array
        elif p in op.unpromoted and value._device is not device:
            return None
    try:
        array = state.run(device.kernels[op.kernel], *raw)
    except ValueError as error:
        raise _shape_error([t for t in operands if isinstance(t, Variable)]) or error from None
    if array.__class__ is not first._array.__class__:
        array = device.backend.asarray(array)
    out = new(tensor_type.cls)
    if array.dtype is not first._array.dtype:
        dtype = dtypes.from_numpy(array.dtype)
    out._array, out._device, out._dtype, out._edge, out._meta, out._vc = array, device, dtype, None, None, None
    if not (needed and state.mode and dtype.category == 2 and (op.differentials or op.vjps)):
        return out
    name = op.node_name
    node = new(node_class(op, name if name.__class__ is str else name(*operands)))
    node._device, node._edges, node._hooks, node._seq = device, tuple(edges), None, tick()
    plan = plan_of(op, tuple([edge is not None for edge in edges]))
    node.results = (_saved_result(out, state),) if plan.results[0] else None
    shape, shapes = array.shape, [getattr(raw[p], "shape", ()) for p in op.tensors]
    node.metas = None
    if shapes.count(shape) != len(shapes):
        node.metas = tuple([(each, dtype.numpy) for each in shapes])
    for p in plan.drop:
        if operands[p] is not None:
            operands[p] = raw[p].shape if p in plan.shapes else None
    node.saved = operands
    out._edge = (node, 0)
    return out


def _elementwise(op: Op, args: tuple[Any, ...], state: State) -> Any:
    """The general elementwise path: numbers, promotion, devices, broadcasting."""
    if op.plain and state.mode <= GRAD:
        found = _plain(op, args, state)
        if found is not None:
            return found
    tensors: list[Any] = []
    numbers_: list[Any] = []
    for p in op.tensors:
        value = args[p]
        if isinstance(value, Variable):
            tensors.append(value)
        elif isinstance(value, Number) and p in op.numbers:
            numbers_.append(value)
        elif value is not None or op.parameters[p].default is not None:
            raise type_error(op, p, value)
    if not tensors:
        raise type_error(op, op.tensors[0], args[op.tensors[0]])
    device = common_device(tensors)
    compute, result_type = RULES[op.promotion](op, tensors, numbers_, args)
    upcast = compute.is_reduced and op.upcast and device.backend.upcasts
    kernel_type = dtypes.float32 if upcast else compute
    target = kernel_type.numpy
    raw = list(args)
    operands: list[Any] = []
    edges: list[Any] = []
    needed = False
    for p in op.tensors:
        t = args[p]
        if t is None:
            operands.append(None)
            edges.append(None)
            continue
        if isinstance(t, Variable):
            array = on_device(t, device)
            if p not in op.unpromoted and getattr(array, "dtype", target) != target:
                array = device.backend.astype(array, target)
            edge = t._edge if t._meta is None else gradient_edge(t)
            needed = needed or edge is not None
        else:
            t = constant(t, compute, device)
            array, edge = device.backend.scalar(args[p], target), None
        raw[p] = array
        operands.append(t)
        edges.append(edge)
    try:
        result = state.run(device.kernels[op.kernel], *raw)
    except ValueError as error:
        raise _shape_error(tensors) or error from None
    if result_type is not None and result.dtype != result_type.numpy:
        result = device.backend.astype(device.backend.asarray(result), result_type.numpy)
    out = wrap(result, device, result_type)
    if needed and state.mode & GRAD and op.differentials | op.vjps and out._dtype.category > 1:
        full = list(args)
        for p, t in zip(op.tensors, operands, strict=True):
            full[p] = _as_computed(t, compute) if isinstance(t, Variable) and p not in op.unpromoted else t
        node = make_node(op, tuple(full), operands, edges, device, [out], state)
        out._edge = (node, 0)
    return out


def _as_computed(t: Any, compute: dtypes.dtype) -> Any:
    """The operand in the dtype that the operation computed in, for the derivative's formula."""
    if t._dtype is compute or getattr(t, "_constant", False):
        return t
    return TENSORS.to(t, compute)


def _shape_error(tensors: Sequence[Any]) -> Exception | None:
    shapes = [t._array.shape for t in tensors]
    for a, b in zip(shapes, shapes[1:], strict=False):
        for back in range(1, min(len(a), len(b)) + 1):
            if a[-back] != b[-back] and 1 not in (a[-back], b[-back]):
                return RuntimeError(
                    f"The size of tensor a ({a[-back]}) must match the size of tensor b ({b[-back]}) at non-singleton "
                    f"dimension {max(len(a), len(b)) - back}"
                )
    return None


def unary(op: Op) -> Callable[[Any], Any]:
    """The function of an elementwise operation of one tensor: the plain case first, everything else generally."""
    name = op.name
    saves_self, saves_result = _reads(op, op.names[0]), _reads(op, "result")
    cls = None
    exact = keeps_floats(op.promotion) and bool(op.vjps or op.differentials)
    key = op.kernel

    def call(self: Any) -> Any:
        nonlocal cls
        state = local.state
        if not isinstance(self, Variable) or state.mode > GRAD or not exact:
            return apply(op, (self,))
        dtype = self._dtype
        if dtype.category != 2 or dtype.is_reduced:
            return _elementwise(op, (self,), state)
        device = self._device
        a = self._array
        array = state.run(device.kernels[key], a)
        if array.__class__ is not a.__class__:
            array = device.backend.asarray(array)
        out = new(tensor_type.cls)
        out._array, out._device, out._dtype, out._meta, out._vc = array, device, dtype, None, None
        edge = self._edge if self._meta is None else gradient_edge(self)
        if edge is None or not state.mode:
            out._edge = None
            return out
        if cls is None:
            cls = node_class(op, op.node_name)
        node = new(cls)
        node._device, node._edges, node._hooks, node.metas, node._seq = device, (edge,), None, None, tick()
        node.saved = (self,) if saves_self else _NOTHING
        if saves_result:
            vc = out._vc = VersionCounter()
            node.results = ((array, vc, 0, None),)
        else:
            node.results = None
        out._edge = (node, 0)
        return out

    return call


_NOTHING = (None, None)


def _reads(op: Op, name: str, of: str | None = None) -> bool:
    table = op.vjps or op.differentials
    return any(name in f.names for key, f in table.items() if of is None or of in (key if isinstance(key, tuple) else (key,)))


def _comparison(op: Op, foreign: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """`binary` for comparisons, which record nothing."""
    key = op.kernel
    takes_numbers = 1 in op.numbers

    def call(self: Any, other: Any) -> Any:
        state = local.state
        if state.mode > GRAD or not isinstance(self, Variable):
            return foreign(op, (self, other))
        dtype, device = self._dtype, self._device
        if isinstance(other, Variable):
            b, like = other._array, other._dtype is dtype and other._device is device
        else:
            b, like = other, takes_numbers and (other.__class__ is float or other.__class__ is int)
        if not like or dtype.category != 2 or dtype.is_reduced:
            return foreign(op, (self, other))
        try:
            array = state.run(device.kernels[key], self._array, b)
        except ValueError as error:
            raise _shape_error((self, other)) or error from None
        if array.__class__ is not self._array.__class__:
            array = device.backend.asarray(array)
        out = new(tensor_type.cls)
        out._array, out._device, out._dtype, out._edge, out._meta, out._vc = array, device, dtypes.bool_, None, None, None
        return out

    return call


def binary(op: Op, foreign: Callable[..., Any] = apply) -> Callable[[Any, Any], Any]:
    """The function of an elementwise operation of two tensors (or a tensor and a number).

    `foreign` is called as `apply` with a second argument that is neither.
    """
    if op.promotion.startswith("compare"):
        return _comparison(op, foreign)
    first, second = op.names[:2]
    settings = tuple(p.default for p in op.parameters[2:])
    # What is kept, by whether the first and the second input require grad.
    kept = tuple(
        tuple(
            tuple((a and _reads(op, name, first)) or (b and _reads(op, name, second)) for name in (first, second, "result"))
            for b in (False, True)
        )
        for a in (False, True)
    )
    cls = None
    # The kernel of the plain call, without settings if it has a name of its own.
    key, extra = (op.name, ()) if settings and op.kernel != op.name else (op.kernel, settings)
    exact = keeps_floats(op.promotion) and bool(op.vjps or op.differentials)
    takes_numbers = 1 in op.numbers
    classes: dict[bool, Any] = {}

    def named_class(self: Any, other: Any) -> Any:
        """The class of the node, remembered where its name does not depend on the arguments (but whether one is a number)."""
        nonlocal cls
        if isinstance(op.node_name, str):
            cls = node_class(op, op.node_name)
            return cls
        number = getattr(other, "_constant", False)
        if number not in classes:
            classes[number] = node_class(op, op.node_name(self, other, *settings))
        return classes[number]

    def call(self: Any, other: Any) -> Any:
        state = local.state
        if state.mode > GRAD or not exact or not isinstance(self, Variable):
            return foreign(op, (self, other, *settings))
        dtype = self._dtype
        device = self._device
        if not isinstance(other, Variable):
            if not takes_numbers or (other.__class__ is not float and other.__class__ is not int):
                return foreign(op, (self, other, *settings))
            if dtype.category != 2 or dtype.is_reduced:
                return apply(op, (self, other, *settings))
            other = constant(other, dtype, device)
        elif other._dtype is not dtype or other._device is not device or dtype.category != 2 or dtype.is_reduced:
            return apply(op, (self, other, *settings))
        a, b = self._array, other._array
        try:
            array = state.run(device.kernels[key], a, b, *extra)
        except ValueError as error:
            raise _shape_error((self, other)) or error from None
        if array.__class__ is not a.__class__:
            array = device.backend.asarray(array)
        out = new(tensor_type.cls)
        out._array, out._device, out._dtype, out._meta, out._vc = array, device, dtype, None, None
        edge = self._edge if self._meta is None else gradient_edge(self)
        other_edge = other._edge if other._meta is None else gradient_edge(other)
        if (edge is None and other_edge is None) or not state.mode:
            out._edge = None
            return out
        node = new(cls or named_class(self, other))
        node._device, node._edges, node._hooks, node._seq = device, (edge, other_edge), None, tick()
        keeps_self, keeps_other, keeps_result = kept[edge is not None][other_edge is not None]
        node.saved = (self if keeps_self else None, other if keeps_other else None, *settings)
        if keeps_result:
            vc = out._vc = VersionCounter()
            node.results = ((array, vc, 0, None),)
        else:
            node.results = None
        if a.shape == b.shape or (other_edge is None and a.shape == array.shape):
            node.metas = None
        else:
            np_dtype = dtype.numpy
            node.metas = ((a.shape, np_dtype), (b.shape, np_dtype))
        out._edge = (node, 0)
        return out

    return call


# -- in place and out= ------------------------------------------------------------------------------------------------


def check_inplace(self: Any, state: State) -> None:
    """Refuse in-place writes that would make gradients wrong."""
    meta = self._meta
    if meta is None:
        return
    if meta.inference and not state.mode & INFERENCE:
        raise RuntimeError(
            "Inplace update to inference tensor outside InferenceMode is not allowed. You can make a clone to get a "
            "normal tensor before doing inplace update."
        )
    if state.mode & GRAD:
        views.check_writable(self)


def write(self: Any, result: Any, state: State | None = None) -> Any:
    """Make `self` hold the values and the history of `result`: the second half of every in-place operation."""
    state = state or local.state
    if not dtypes.can_cast(result._dtype, self._dtype):
        raise RuntimeError(
            f"result type {result._dtype.scalar_name} can't be cast to the desired output type {self._dtype.scalar_name}"
        )
    if result._array.shape != self._array.shape:
        raise RuntimeError(
            f"output with shape {list(self._array.shape)} doesn't match the broadcast shape {list(result._array.shape)}"
        )
    check_own_memory(self)
    recorded = result._edge is not None and self._dtype.category > 1
    if recorded:
        views.check_recordable(self)
    elif state.mode & GRAD and requires_grad(self):
        return TENSORS.copy_(self, result)
    self._device.kernels["copy_into"](self._array, result._array)
    edge = result._edge if recorded else None
    bump(self)
    if edge is not None:
        node = edge[0]
        if getattr(node, "results", None) is not None and node.results[0] is not None and result._dtype is self._dtype:
            vc = version_counter(self)
            if not node.packed:
                node.results = ((self._array, vc, vc.version, node.results[0][3]), *node.results[1:])
        if result._dtype is not self._dtype:
            edge = TENSORS.to(result, self._dtype)._edge
        views.rebase(self, edge)
    if state.mode & DUAL:
        forward.write_tangents(self, result)
    return self


def check_own_memory(t: Any) -> None:
    if 0 in getattr(t._array, "strides", ()) and t._array.size and any(
        n > 1 and s == 0 for n, s in zip(t._array.shape, t._array.strides, strict=True)
    ):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
            "Please clone() the tensor before performing the operation."
        )


def apply_inplace(op: Op, args: tuple[Any, ...]) -> Any:
    """Call an operation and put its result in the first argument."""
    self = args[0]
    if not isinstance(self, Variable):
        raise type_error(op, 0, self)
    state = local.state
    check_inplace(self, state)
    if state.mode & GRAD and _reads_input(op) and any(isinstance(a, Variable) and requires_grad(a) for a in args):
        args = (_original(self), *args[1:])
    return write(self, call_composite(op, args) if op.kind == "composite" else apply(op, args), state)


def _reads_input(op: Op) -> bool:
    """Whether a formula reads the input that an in-place call overwrites."""
    return op.kind == "composite" or any(op.names[0] in f.names for f in (op.vjps or op.differentials).values())


def _original(self: Any) -> Any:
    """A copy of a tensor that is about to be overwritten, in the same place of the graph."""
    out = alias(self, gradient_edge(self))
    out._array, out._vc = self._device.kernels["clone"](self._array), None
    if self._meta is not None and self._meta.tangents:
        out._meta = Meta()
        out._meta.tangents = self._meta.tangents
    return out


def out_of(op: Op, args: tuple[Any, ...], out: Any) -> Any:
    """Call an operation and put its results in the tensors given as ``out=``."""
    results = call_composite(op, args) if op.kind == "composite" else apply(op, args)
    several = isinstance(results, tuple)
    for target, result in zip(out if several else (out,), results if several else (results,), strict=True):
        if not isinstance(target, Variable):
            raise TypeError(f"{op.path}(): argument 'out' must be Tensor, not {type(target).__name__}")
        if result._edge is not None or (requires_grad(target) and local.state.mode & GRAD):
            raise RuntimeError(
                f"{op.path}(): functions with out=... arguments don't support automatic differentiation, but one of "
                "the arguments requires grad."
            )
        if op.sequence and any(t is target for t in args[0]):
            raise RuntimeError("unsupported operation: the input tensors cannot refer to any of the output memory locations")
        if (several or not (op.upcast or op.sequence)) and target._dtype is not result._dtype:
            raise RuntimeError(
                f"Expected out tensor to have dtype {result._dtype.name}, but got {target._dtype.name} instead"
            )
        if target._array.shape != result._array.shape:
            if target._array.size:
                raise RuntimeError(
                    f"{op.path}(): the out tensor has shape {list(target._array.shape)}, the result "
                    f"{list(result._array.shape)}"
                )
            target._array = result._array.astype(target._dtype.numpy)
            bump(target)
            continue
        write(target, result)
    return out


# -- functions with the declared signatures ---------------------------------------------------------------------------

_templates: dict[Any, Callable[..., Any]] = {}
#: NumPy's names for parameters, which PyTorch takes, too.
NUMPY_NAMES = {"axis": "dim", "keepdims": "keepdim"}


class _Required:
    """In the place of a default: the parameter must be given, under one of its names."""

    def __repr__(self) -> str:
        return "<required>"


REQUIRED = _Required()


def _template(n: int, out: bool, required: tuple[int, ...] | None) -> Callable[..., Any]:
    """A maker of functions of `n` parameters that hand them on as one tuple.

    Unless `required` is None, they know NumPy's names of their parameters; those at these positions must be given.
    """
    key = n, out, required
    if key not in _templates:
        names = ", ".join(f"a{i}" for i in range(n))
        aliased = "" if required is None else ", **aliases"
        lines = ["def make(run, run_out, op):", f"    def call({names}{', out' if out else ''}{aliased}):"]
        if required is not None:
            lines += [f"        if {' or '.join(['aliases', *(f'a{i} is REQUIRED' for i in required)])}:"]
            lines += [f"            {names}, = renamed(op, ({names},), aliases)"]
        if out:
            lines += ["        if out is not None:", f"            return run_out(op, ({names},), out)"]
        lines += [f"        return run(op, ({names},))", "    return call"]
        scope: dict[str, Any] = {"REQUIRED": REQUIRED, "renamed": _renamed}
        exec("\n".join(lines), scope)
        _templates[key] = scope["make"]
    return _templates[key]


def _renamed(op: Op, args: tuple[Any, ...], aliases: dict[str, Any]) -> list[Any]:
    """The arguments with those put in their places that were given by NumPy's names."""
    full, name = list(args), op.path.rpartition(".")[2]
    for alias, value in aliases.items():
        position = op.position.get(NUMPY_NAMES.get(alias, ""))
        if position is None:
            raise TypeError(f"{name}() got an unexpected keyword argument '{alias}'")
        full[position] = value
    for parameter, value in zip(op.parameters, full, strict=True):
        if value is REQUIRED:
            raise TypeError(f"{name}() missing required argument: '{parameter.name}'")
    return full


def call_composite(op: Op, args: tuple[Any, ...]) -> Any:
    """Run a composite operation's body on tensors."""
    results = op.body(TENSORS, *args)  # type: ignore[misc]
    return results if op.output_type is None else OUTPUT_TYPES[op.output_type](*results)


def make_function(op: Op, *, method: bool, run: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """A function with the operation's signature, as users call it."""
    if run is None:
        run = call_composite if op.kind == "composite" else apply
    name = op.path.rpartition(".")[2]
    if any(p.kind is p.VAR_POSITIONAL for p in op.parameters):  # a composite of any number of tensors
        return named(lambda *args, **settings: op.body(TENSORS, *args, **settings), op, name, method)  # type: ignore[misc]
    if op.parameters and op.parameters[-1].annotation == "Sizes" and method:
        return named(_variadic(op, run), op, name, method)
    with_out = not method and not op.view and not op.path.startswith("nn.")
    dim = op.position.get("dim")
    required = None if dim is None else tuple(i for i, p in enumerate(op.parameters) if i >= dim and p.default is p.empty)
    function = _template(len(op.names), with_out, required)(run, out_of, op)
    names = list(op.names)
    if not method and names and names[0] == "self":
        names[0] = "input"
    keyword_only = [p for p in op.parameters if p.kind is p.KEYWORD_ONLY]
    positional = len(names) - len(keyword_only)
    code = function.__code__
    code = code.replace(
        co_varnames=(*names, *(["out"] if with_out else []), *code.co_varnames[len(names) + with_out :]),
        co_argcount=positional,
        co_kwonlyargcount=len(keyword_only) + with_out,
    )
    defaults = tuple(
        REQUIRED if p.default is p.empty else p.default
        for i, p in enumerate(op.parameters[:positional])
        if p.default is not p.empty or i in (required or ())
    )
    function = types.FunctionType(code, function.__globals__, name, defaults, function.__closure__)
    function.__kwdefaults__ = {p.name: p.default for p in keyword_only if p.default is not p.empty}
    if with_out:
        function.__kwdefaults__["out"] = None
    return named(function, op, name, method)


def _variadic(op: Op, run: Callable[..., Any]) -> Callable[..., Any]:
    last = op.names[-1]

    def call(self: Any, *values: Any, **named: Any) -> Any:
        if named:
            if values or list(named) != [last]:
                raise TypeError(f"{op.name}() got an unexpected keyword argument {next(iter(named))!r}")
            values = (named[last],)
        if len(values) == 1 and not hasattr(values[0], "__index__"):
            values = values[0]
        elif len(values) == 1 and isinstance(values[0], Variable) and values[0]._array.ndim:
            values = tuple(values[0].tolist())
        return run(op, (self, values))

    return call


def spread(function: Callable[..., Any], op: Op) -> Callable[..., Any]:
    """A function of a sequence of tensors as one that takes the tensors as separate arguments, too."""

    def call(*tensors: Any, **settings: Any) -> Any:
        single = len(tensors) == 1 and (op.kind == "composite" or not isinstance(tensors[0], Variable))
        return function(tensors[0] if single else tensors, **settings)

    return call


def named(function: Any, op: Op, name: str, method: bool) -> Any:
    function.__name__ = name
    function.__qualname__ = f"Tensor.{name}" if method else name
    function.__doc__ = op.doc
    function.__module__ = "gradcore"
    return function


def make_inplace(op: Op) -> Callable[..., Any]:
    """The method that writes the operation's result into its first argument."""
    function = make_function(op, method=True, run=apply_inplace)
    function.__name__ = function.__name__ + "_"
    function.__qualname__ = function.__qualname__ + "_"
    return function


def plain_or(fast: Callable[..., Any], op: Op) -> Callable[..., Any]:
    """What runs a call of a binary operation with settings: the fast function where they have their defaults."""
    defaults = tuple(p.default for p in op.parameters[2:])

    def run(op: Op, args: tuple[Any, ...]) -> Any:
        return fast(args[0], args[1]) if args[2:] == defaults else apply(op, args)

    return run


def with_out(function: Callable[..., Any], op: Op) -> Callable[..., Any]:
    """A fast one- or two-argument function, with ``out=`` as an option."""
    if len(op.names) == 1:

        def call(input: Any, *, out: Any = None) -> Any:
            return function(input) if out is None else out_of(op, (input,), out)

    else:

        def call(input: Any, other: Any, *, out: Any = None) -> Any:  # type: ignore[misc]
            return function(input, other) if out is None else out_of(op, (input, other), out)

    return call


