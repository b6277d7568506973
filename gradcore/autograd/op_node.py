"""Nodes of operations, and what they save: one slot for each value that a formula reads."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import repeat
from typing import Any, ClassVar, NamedTuple

from gradcore.autograd.node import FREED, Hooks, Node
from gradcore.autograd.saved import SavedTensor, check_version, current_hooks, with_edge
from gradcore.autograd.variables import INFERENCE_COUNTER, Edge, TensorMeta, Variable
from gradcore.core.typing import AnyTensor
from gradcore.ops.declare.parameters import names_of as parameter_names
from gradcore.ops.declare.table import Op

__all__ = ["OpNode", "Slot", "slots_of"]


class Slot(NamedTuple):
    """A value that the nodes of an operation save.

    Attributes
    ----------
    name : str
        What formulas call it: ``"self"``, ``"self_shape"``, ``"dim"``, ``"result"``.
    kind : {"tensor", "tensors", "indices", "shape", "setting", "output"}
        A tensor or None; a tuple of tensors; a tuple of index tensors and None; the shape of a tensor or a tuple of
        those of several; an argument of another kind; an output.
    position : int
        Of the parameter or, for an output, its number.
    """

    name: str
    kind: str
    position: int


@functools.cache
def slots_of(op: Op) -> tuple[Slot, ...]:
    """Return the slots of an operation's nodes: the values its formulas read, and its settings."""
    read = {name for formula in (op.vjps or op.differentials).values() for name in formula.names}
    slots = []
    for i, name in enumerate(op.names):
        if i in op.tensors:
            if name in read:
                slots.append(Slot(name, "tensors" if i in op.sequences else "tensor", i))
            if f"{name}_shape" in read:
                slots.append(Slot(f"{name}_shape", "shape", i))
        elif i not in op.indices:
            slots.append(Slot(name, "setting", i))
        elif name in read:
            slots.append(Slot(name, "indices", i))
    slots += [Slot(name, "output", i) for i, name in enumerate(op.outputs) if name in read]
    return tuple(slots)


#: Kinds of slots with tensors in them.
HOLDING = ("tensor", "tensors", "indices", "output")
#: Those with a tuple of them.
SEVERAL = ("tensors", "indices")
#: In the place of an edge: the tensor is an output of the node itself.
OUTPUT: Any = object()


class OpNode(Node):
    """A node of an operation of the table. There is one subclass per operation and node name."""

    __slots__ = ("_rebased", "metas", "outline", "saved")

    op: ClassVar[Any]
    _fresh = True
    #: Of views of a part: the key of that part, a function of the shape and the settings.
    view_key: ClassVar[Any] = None
    #: The numbers of the edges that `shown` shows, in its order; all if None.
    seen: ClassVar[tuple[int, ...] | None] = None
    #: What is saved, and the numbers of the slots by name.
    slots: ClassVar[tuple[Slot, ...]] = ()
    number_of: ClassVar[dict[str, int]] = {}
    #: The numbers of the slots with a tensor, and with several.
    single: ClassVar[tuple[int, ...]] = ()
    several: ClassVar[tuple[int, ...]] = ()
    #: The numbers of the slots with tensors in them, but for those in which this kind of node has a scalar.
    holders: ClassVar[tuple[int, ...]] = ()

    #: A value for each slot, None for a tensor that no formula will read; None once they have been freed.
    saved: Any
    #: What remains of them then: settings and shapes, of tensors these.
    outline: Any
    #: Per edge the input's `TensorMeta`, where inputs differ from the result; None where all are alike.
    metas: Any
    #: Of nodes with several outputs, the `TensorMeta` of each.
    _outputs: Sequence[Any]

    @property
    def _seen_outputs(self) -> tuple[int, ...]:
        several = len(self.op.outputs) > 1 and not self.op.variadic
        return self.op.seen_outputs if several else tuple(range(self._n_outputs))

    def _edge_of_output(self, number: int) -> Edge | None:
        known = self.op.variadic or number in self.op.differentiable
        return super()._edge_of_output(number) if known else None

    @property
    def _output_metas(self) -> Sequence[Any]:
        node: Any = self
        number = 0
        while isinstance(node, OpNode) and not hasattr(node, "_shape") and not hasattr(node, "_outputs"):
            # Functions of the elements of one tensor note nothing: their output is like their input.
            node, number = next(edge for edge in node._edges if edge is not None)
        if node is not self:
            return (node._output_metas[number],)
        return getattr(self, "_outputs", None) or (TensorMeta(self._shape, self._dtype, self._device),)

    def shown(self, values: Any) -> Any:
        return values if self.seen is None else tuple(values[i] for i in self._numbers(self.seen))

    def spread(self, values: Any) -> Any:
        if self.seen is None:
            return values
        result = [None] * len(self._edges)
        for i, value in zip(self._numbers(self.seen), values, strict=True):
            result[i] = value
        return tuple(result)

    def _numbers(self, seen: tuple[int, ...]) -> list[int]:
        """Return the edges that are seen, where a sequence of tensors in front has several."""
        extra = len(self._edges) - len(self.op.tensors)
        return [*range(extra), *(i + extra for i in seen)] if extra else list(seen)

    # -- freeing ----------------------------------------------------------------------------------------------------

    #: Whether settings are among what formulas read, or shapes are shown: they stay when the tensors are freed.
    keeps_settings: ClassVar[bool] = False
    holds_tensors: ClassVar[bool] = True
    #: Whether a formula reads no tensor, so that there may be none although `holds_tensors`.
    may_hold_none: ClassVar[bool] = False

    def release(self) -> None:
        if self.holds_tensors and not (self.may_hold_none and self.saved is not None and not self._holds_any()):
            if self.keeps_settings and self.saved is not None:
                self.outline = tuple(map(_outline, self.slots, self.saved))
            self.saved = None

    def _holds_any(self) -> bool:
        """Return whether a tensor is kept: some formulas read none, so it depends on which inputs require grad."""
        values = [self.saved[i] for i in self.holders]
        return any(value is not None for value in values)

    def is_freed(self) -> bool:
        return self.saved is None

    def check(self) -> None:
        """Raise if a saved value has been freed, or overwritten since it was saved."""
        saved = self.saved
        if saved is None:
            raise RuntimeError(FREED)
        seq = self._seq
        for i in self.single:
            t = saved[i]
            if t is not None:
                vc = t._vc
                if vc is not None and (vc.written > seq or vc is INFERENCE_COUNTER):
                    self._check(t)
        for i in self.several:
            for t in saved[i] or ():
                if t is not None:
                    self._check(t)

    def _check(self, t: AnyTensor) -> None:
        if isinstance(t, SavedTensor):
            t.check(self)
        else:
            check_version(t, self._seq)

    # -- saved values as tensors -------------------------------------------------------------------------------------

    def unpack(self, number: int) -> Any:
        """Return the value of a slot; tensors with the history that they had when they were saved."""
        value, slot = self.saved[number], self.slots[number]
        if isinstance(value, SavedTensor):
            return value.open(self)
        if slot.kind in ("shape", "setting"):
            return value
        if slot.kind == "tensors":
            return value and list(map(self._open, value, self._edges_of(slot)))
        if slot.kind == "indices":
            return value and tuple(map(self._open, value, self._edges_of(slot)))
        return self._open(value, *self._edges_of(slot))

    def _open(self, t: AnyTensor, edge: Edge | None) -> Any:
        return t.open(self) if isinstance(t, SavedTensor) else t if edge is OUTPUT else with_edge(t, edge)

    def _edges_of(self, slot: Slot) -> Iterable[Any]:
        """Return the edges of the tensors in a slot: None for indices, `OUTPUT` for an output."""
        if slot.kind == "tensors":
            return self._edges
        if slot.kind == "indices":
            return repeat(None)
        if slot.kind == "output":
            return (OUTPUT,)
        shift = len(self._edges) - len(self.op.tensors)  # further edges of a leading sequence of tensors
        return (self._edges[self.op.edge_index[slot.position] + shift],)

    def pack(self) -> None:
        """Give the tensors that the node, which has just been made, keeps to the hooks that are open."""
        hooks = current_hooks()
        if hooks is None or not self.holds_tensors:
            return

        def pack_tensor(t: AnyTensor, edge: Edge | None) -> Any:
            if t is None or getattr(t, "_constant", False):
                return t
            saved = t if isinstance(t, SavedTensor) else SavedTensor.of_input(t, edge)
            saved.pack(hooks, self)
            return saved

        self.saved = self._map_tensors(pack_tensor)
        self.expect_hooks()

    def call_unpack_hooks(self) -> OpNode:
        """Return a copy of this node whose saved tensors are unpacked: each unpack hook is called once."""
        other = self.make(self._device, self._edges)
        other._seq, other.metas = self._seq, self.metas
        if self.op.variadic or len(self.op.outputs) > 1:
            other._n_outputs, other._outputs = self._n_outputs, self._outputs  # type: ignore[misc]
        other.saved = self._map_tensors(lambda t, edge: t.open(self) if isinstance(t, SavedTensor) else t)
        return other

    def _map_tensors(self, function: Callable[[Any, Any], Any]) -> tuple[Any, ...]:
        """Return the saved values with ``function(value, edge)`` in the place of each that may be a tensor."""
        values = list(self.saved)
        for i, slot in enumerate(self.slots):
            if values[i] is not None and slot.kind in HOLDING:
                several = slot.kind in SEVERAL
                found = tuple(map(function, values[i] if several else (values[i],), self._edges_of(slot)))
                values[i] = found if several else found[0]
        return tuple(values)

    def handle(self, number: int) -> Any:
        """Return the `SavedTensor` of a slot, or a tuple of them, which from now on is what the slot holds."""
        slot = self.slots[number]
        if self.saved is None and slot.kind in SEVERAL:
            raise RuntimeError(FREED)
        value = None if self.saved is None else self.saved[number]

        def handle(t: AnyTensor, edge: Edge | None) -> SavedTensor:
            saved: SavedTensor = t if isinstance(t, SavedTensor) else SavedTensor.of_input(t, edge, self._seq)
            return saved.shown_by(self)

        values = (value or ()) if slot.kind in SEVERAL else (value,)
        handles = tuple(map(handle, values, self._edges_of(slot)))
        result = handles if slot.kind in SEVERAL else handles[0]
        if value is not None:
            self.saved = (*self.saved[:number], result, *self.saved[number + 1 :])
            self.expect_hooks()
        return result

    def expect_hooks(self) -> None:
        """Make backward look for hooks of saved tensors."""
        if self._hooks is None:
            self._hooks = Hooks()
        self._hooks.saved = True

    def move_output(self, t: AnyTensor) -> None:
        """Keep the first output in the memory of `t`, to which it has just been copied."""
        number = self.number_of.get(self.op.outputs[0])
        kept = None if number is None or self.saved is None else self.saved[number]
        if kept is not None:
            kept.move(t)


def _outline(slot: Slot, value: Any) -> Any:
    """Return the part of a saved value that is kept after release: a tensor's shape."""
    if slot.kind in ("shape", "setting"):
        return value
    return value._array.shape if isinstance(value, Variable) else None


# -- attributes ``_saved_<name>``, with PyTorch's names and values -----------------------------------------------------

#: Settings that PyTorch's nodes do not have, whatever the operation.
_UNSHOWN = {"caller", "driver", "dtype", "memory_format", "non_blocking", "of_other", "of_self", "out"}

#: What PyTorch's nodes keep in the place of names.
_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


def show_saved(cls: type[OpNode], names: Iterable[str]) -> None:
    """Give a class of nodes attributes for what its formulas read, `names`, and for the settings of its operation.

    A tensor ``_saved_<name>`` has a `SavedTensor` beside it, ``_raw_saved_<name>``, for hooks. (These are properties,
    since a `__getattr__` would make every other attribute three times as slow.)
    """
    for name, value in _names(cls, names).items():
        setattr(cls, f"_saved_{name}", _attribute(value))
        number = cls.number_of.get(value) if isinstance(value, str) else None
        if number is not None and cls.slots[number].kind in HOLDING:
            setattr(cls, f"_raw_saved_{name}", property(partial(OpNode.handle, number=number)))


def _names(cls: type[OpNode], names: Iterable[str]) -> dict[str, Any]:
    """Return a node class's public attributes: declared names, functions of them, and constants (see `Op.saved`)."""
    op = cls.op
    settings = {name for i, name in enumerate(op.names) if i not in op.tensor_like}
    shown: dict[str, Any] = {n.replace("_shape", "_sym_sizes"): n for n in sorted({*names, *settings} - _UNSHOWN)}
    for name, value in (op.saved(cls.__name__) if callable(op.saved) else op.saved).items():
        if value is None:
            del shown[name]
        else:
            shown[name] = shown.pop(value) if isinstance(value, str) else value
    return shown


def _attribute(value: Any) -> Any:
    """Return the attribute of a class of nodes that reads a declared name, computes with such, or is a constant."""
    if isinstance(value, str):
        return property(partial(_value, name=value))
    if not callable(value):
        return value
    read = parameter_names(value)
    return property(lambda node: value(*[_value(node, name, as_given=True) for name in read]))


def _value(node: OpNode, name: str, as_given: bool = False) -> Any:
    """Return what a node has saved under `name`; settings as PyTorch's nodes show them, or as passed (`as_given`)."""
    if name.endswith("_shape"):
        return _shape(node, name.removesuffix("_shape"))
    number = node.number_of[name]
    slot = node.slots[number]
    if slot.kind == "setting":
        value = _remaining(node)[number]
        return value if as_given else _as_setting(value, node.op.parameters[slot.position])
    node.check()
    value = node.unpack(number)
    return value.clone() if getattr(value, "_constant", False) else value


def _remaining(node: OpNode) -> Any:
    """Return the values of the slots, settings and shapes also of a node that has been freed."""
    if node.saved is not None:
        return node.saved
    outline = getattr(node, "outline", None)
    if outline is None:
        raise RuntimeError(FREED)
    return outline


def _as_setting(value: Any, parameter: Any) -> Any:
    """Return a setting as PyTorch's nodes keep it: where there can be several dims, a tuple."""
    if parameter.name == "reduction":
        return _REDUCTIONS.get(value, value)
    several = parameter.annotation == "Dims" or parameter.name in ("dims", "shifts")
    return (value,) if several and type(value) is int else value


def _shape(node: OpNode, name: str) -> Any:
    """Return the shape of an input, as far as the node knows it."""
    values = _remaining(node)
    for key in (f"{name}_shape", name):
        value = values[node.number_of[key]] if key in node.number_of else None
        if isinstance(value, SavedTensor):
            value = value.open(node)
        if value is not None:
            return value._array.shape if isinstance(value, Variable) else value
    return None
