"""Nodes of operations, with one slot for each saved value that a derivative formula reads."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import repeat
from typing import Any, ClassVar

from gradcore.autograd.node import Hooks, Node, freed_error
from gradcore.autograd.saved import SavedTensor, check_version, current_hooks, with_edge
from gradcore.autograd.variables import INFERENCE_COUNTER, Edge, TensorMeta, Variable
from gradcore.core.typing import AnyTensor, NamedTuple
from gradcore.ops.declare.parameters import names_of as parameter_names
from gradcore.ops.declare.table import Op

__all__ = ["OpNode", "Slot", "slots_of"]


class Slot(NamedTuple):
    """Description of a value that the nodes of an operation save.

    Attributes
    ----------
    name : str
        Its name in formulas, such as ``"self"``, ``"self_shape"``, ``"dim"`` or ``"result"``.
    kind : {"tensor", "tensors", "indices", "shape", "setting", "output"}
        In this order: a tensor or None; a tuple of tensors; a tuple of index tensors and None; the shape of a tensor
        or a tuple of shapes; an argument that is no tensor; an output.
    position : int
        The position of the parameter, or the number of the output.
    """

    name: str
    kind: str
    position: int


@functools.cache
def slots_of(op: Op) -> tuple[Slot, ...]:
    """Return the slots of an operation's nodes: the values its formulas read, and its settings."""
    names_read = {name for formula in (op.vjps or op.differentials).values() for name in formula.names}
    slots = []
    for i, name in enumerate(op.names):
        if i in op.tensors:
            if name in names_read:
                slots.append(Slot(name, "tensors" if i in op.sequences else "tensor", i))
            if f"{name}_shape" in names_read:
                slots.append(Slot(f"{name}_shape", "shape", i))
        elif i not in op.indices:
            slots.append(Slot(name, "setting", i))
        elif name in names_read:
            slots.append(Slot(name, "indices", i))
    slots += [Slot(name, "output", i) for i, name in enumerate(op.outputs) if name in names_read]
    return tuple(slots)


#: Kinds of slots with tensors in them.
HOLDING = ("tensor", "tensors", "indices", "output")
#: Kinds of slots with a tuple of tensors.
SEVERAL = ("tensors", "indices")
#: Stands for the edge of a saved tensor that is an output of the node itself.
OUTPUT: Any = object()


class OpNode(Node):
    """Base class of the nodes of declared operations. There is one subclass per operation and node name."""

    __slots__ = ("metas", "outline", "saved")

    op: ClassVar[Any]
    _fresh = True
    #: For operations that return a view of a part: the function of shape and settings that returns the key of the part.
    view_key: ClassVar[Any] = None
    #: The numbers of the edges that `visible` returns, in its order; None stands for all.
    seen: ClassVar[tuple[int, ...] | None] = None
    #: For each formula, the numbers of the edges whose gradients it computes, unless the first parameter is a sequence.
    spans: ClassVar[tuple[tuple[int, ...], ...]] = ()
    #: The numbers of the edges whose formulas read the operation's first result.
    reads_result: ClassVar[set[int]] = set()
    #: The slots, and their numbers by name.
    slots: ClassVar[tuple[Slot, ...]] = ()
    number_of: ClassVar[dict[str, int]] = {}
    #: The numbers of the slots without a setting or a shape, which remain after `release`; of tensors, shapes remain.
    array_slots: ClassVar[tuple[int, ...]] = ()
    #: The numbers of the slots with one tensor, and of those with several.
    single: ClassVar[tuple[int, ...]] = ()
    several: ClassVar[tuple[int, ...]] = ()
    #: The numbers of the slots with tensors, except those that contain a scalar in this class of nodes.
    holders: ClassVar[tuple[int, ...]] = ()

    #: The values of the slots, with None for tensors that no formula will read. None after `release`.
    saved: Any
    #: The settings, and the shapes of the saved tensors, which remain after `release`.
    outline: Any
    #: The `TensorMeta` of the input of each edge; None if all inputs have the shape and dtype of the result.
    metas: Any
    #: For nodes with several outputs, the `TensorMeta` of each.
    _outputs: Sequence[Any]

    @property
    def _seen_outputs(self) -> tuple[int, ...]:
        has_fixed_outputs = len(self.op.outputs) > 1 and not self.op.variadic
        return self.op.seen_outputs if has_fixed_outputs else tuple(range(self._n_outputs))

    def _edge_of_output(self, number: int) -> Edge | None:
        is_differentiable = self.op.variadic or number in self.op.differentiable
        return super()._edge_of_output(number) if is_differentiable else None

    @property
    def _output_metas(self) -> Sequence[Any]:
        node: Any = self
        number = 0
        while isinstance(node, OpNode) and not hasattr(node, "_shape") and not hasattr(node, "_outputs"):
            # Elementwise functions of one tensor store no metadata, because their output is like their input.
            node, number = next(edge for edge in node._edges if edge is not None)
        if node is not self:
            return (node._output_metas[number],)
        return getattr(self, "_outputs", None) or (TensorMeta(self._shape, self._dtype, self._device),)

    def visible(self, values: Any) -> Any:
        return values if self.seen is None else tuple(values[i] for i in self._numbers(self.seen))

    def from_visible(self, values: Any) -> Any:
        if self.seen is None:
            return values
        result = [None] * len(self._edges)
        for i, value in zip(self._numbers(self.seen), values, strict=True):
            result[i] = value
        return tuple(result)

    def _numbers(self, seen: tuple[int, ...]) -> list[int]:
        """Return the edge numbers for `seen`, where the parameter at the front may be a sequence with several edges."""
        extra = len(self._edges) - len(self.op.tensors)
        return [*range(extra), *(i + extra for i in seen)] if extra else list(seen)

    # -- freeing ----------------------------------------------------------------------------------------------------

    #: Whether formulas read settings, or attributes show shapes. Both must remain available after `release`.
    keeps_settings: ClassVar[bool] = False
    holds_tensors: ClassVar[bool] = True
    #: Whether some formula reads no tensor, so that a node may have saved none although `holds_tensors` is True.
    may_hold_none: ClassVar[bool] = False

    def release(self) -> None:
        if self.holds_tensors and not (self.may_hold_none and self.saved is not None and not self._holds_any()):
            if self.keeps_settings and self.saved is not None:
                outline = list(self.saved)
                for i in self.array_slots:
                    value = outline[i]
                    outline[i] = value._array.shape if isinstance(value, Variable) else None
                self.outline = tuple(outline)
            self.saved = None

    def _holds_any(self) -> bool:
        """Return whether any tensor is saved, which depends on the inputs that require grad."""
        return any(self.saved[i] is not None for i in self.holders)

    def is_freed(self) -> bool:
        return self.saved is None

    def check(self) -> None:
        """Raise if a saved value has been freed, or overwritten since it was saved."""
        saved = self.saved
        if saved is None:
            raise freed_error()
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
        """Return the value of slot `number`. A tensor has the history that it had when it was saved."""
        value, slot = self.saved[number], self.slots[number]
        if isinstance(value, SavedTensor):
            return value.restore_tensor(self)
        if slot.kind in ("shape", "setting"):
            return value
        if slot.kind == "tensors":
            return value and list(map(self._open, value, self._edges_of(slot)))
        if slot.kind == "indices":
            return value and tuple(map(self._open, value, self._edges_of(slot)))
        return self._open(value, *self._edges_of(slot))

    def _open(self, t: AnyTensor, edge: Edge | None) -> Any:
        return t.restore_tensor(self) if isinstance(t, SavedTensor) else t if edge is OUTPUT else with_edge(t, edge)

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
        """Pack the saved tensors of a new node with the active saved-tensor hooks."""
        hooks = current_hooks()
        if hooks is None or not self.holds_tensors:
            return

        def pack_tensor(t: AnyTensor, edge: Edge | None) -> Any:
            if t is None or getattr(t, "_constant", False):
                return t
            saved = t if isinstance(t, SavedTensor) else SavedTensor.save_input(t, edge)
            saved.pack(hooks, self)
            return saved

        self.saved = self._map_tensors(pack_tensor)
        self.expect_hooks()

    def call_unpack_hooks(self) -> OpNode:
        """Return a copy of this node with unpacked saved tensors, so that each unpack hook is called only once."""
        copy = self.make(self._device, self._edges)
        copy._seq, copy.metas = self._seq, self.metas
        if self.op.variadic or len(self.op.outputs) > 1:
            copy._n_outputs, copy._outputs = self._n_outputs, self._outputs  # type: ignore[misc]
        copy.saved = self._map_tensors(
            lambda t, edge: t.restore_tensor(self, True) if isinstance(t, SavedTensor) else t
        )
        return copy

    def _map_tensors(self, function: Callable[[Any, Any], Any]) -> tuple[Any, ...]:
        """Return the saved values, with ``function(value, edge)`` in place of every tensor."""
        values = list(self.saved)
        for i, slot in enumerate(self.slots):
            if values[i] is not None and slot.kind in HOLDING:
                is_tuple = slot.kind in SEVERAL
                mapped = tuple(map(function, values[i] if is_tuple else (values[i],), self._edges_of(slot)))
                values[i] = mapped if is_tuple else mapped[0]
        return tuple(values)

    def handle(self, number: int) -> Any:
        """Return the `SavedTensor` (or a tuple of them) for slot `number`, and store it in the slot."""
        slot = self.slots[number]
        if self.saved is None and slot.kind in SEVERAL:
            raise freed_error()
        value = None if self.saved is None else self.saved[number]

        def handle(t: AnyTensor, edge: Edge | None) -> SavedTensor:
            saved: SavedTensor = t if isinstance(t, SavedTensor) else SavedTensor.save_input(t, edge, self._seq)
            return saved.shown_by(self)

        values = (value or ()) if slot.kind in SEVERAL else (value,)
        handles = tuple(map(handle, values, self._edges_of(slot)))
        result = handles if slot.kind in SEVERAL else handles[0]
        if value is not None:
            self.saved = (*self.saved[:number], result, *self.saved[number + 1 :])
            self.expect_hooks()
        return result

    def expect_hooks(self) -> None:
        """Make backward check the saved tensors for hooks."""
        if self._hooks is None:
            self._hooks = Hooks()
        self._hooks.saved = True

    def move_output(self, t: AnyTensor) -> None:
        """Store the memory of `t` for the first output, which has just been copied to it."""
        number = self.number_of.get(self.op.outputs[0])
        saved = None if number is None or self.saved is None else self.saved[number]
        if saved is not None:
            saved.move(t)


# -- attributes ``_saved_<name>``, with PyTorch's names and values -----------------------------------------------------

#: Settings that no node of PyTorch has as an attribute.
_UNSHOWN = {"caller", "driver", "dtype", "memory_format", "non_blocking", "of_other", "of_self", "out"}

#: The numbers that PyTorch's nodes store in place of names.
_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


def show_saved(cls: type[OpNode], names: Iterable[str]) -> None:
    """Add properties ``_saved_<name>`` to a node class, for the values `names` that formulas read and for settings.

    For a tensor there is also ``_raw_saved_<name>``, its `SavedTensor`, for hooks. (A `__getattr__` instead of
    properties would make every other attribute three times as slow.)
    """
    for name, value in _names(cls, names).items():
        setattr(cls, f"_saved_{name}", _attribute(value))
        number = cls.number_of.get(value) if isinstance(value, str) else None
        if number is not None and cls.slots[number].kind in HOLDING:
            setattr(cls, f"_raw_saved_{name}", property(partial(OpNode.handle, number=number)))


def _names(cls: type[OpNode], names: Iterable[str]) -> dict[str, Any]:
    """Return the ``_saved_`` attributes of a node class: declared names, functions of them, constants (`Op.saved`)."""
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
    """Return the property of a node class for `value`: a declared name, a function of declared names, or a constant."""
    if isinstance(value, str):
        return property(partial(_value, name=value))
    if not callable(value):
        return value
    names_read = parameter_names(value)
    return property(lambda node: value(*[_value(node, name, as_given=True) for name in names_read]))


def _value(node: OpNode, name: str, as_given: bool = False) -> Any:
    """Return the value saved under `name`. Settings are converted as by PyTorch's nodes, unless `as_given`."""
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
    """Return the values of the slots; for a released node only settings and shapes."""
    if node.saved is not None:
        return node.saved
    outline = getattr(node, "outline", None)
    if outline is None:
        raise freed_error()
    return outline


def _as_setting(value: Any, parameter: Any) -> Any:
    """Return a setting as PyTorch's nodes store it: a tuple if the parameter accepts several dims."""
    if parameter.name == "reduction":
        return _REDUCTIONS.get(value, value)
    takes_dims = parameter.annotation == "Dims" or parameter.name in ("dims", "shifts")
    return (value,) if takes_dims and type(value) is int else value


def _shape(node: OpNode, name: str) -> Any:
    """Return the shape of the input `name` if the node has stored it."""
    values = _remaining(node)
    for key in (f"{name}_shape", name):
        value = values[node.number_of[key]] if key in node.number_of else None
        if isinstance(value, SavedTensor):
            value = value.restore_tensor(node)
        if value is not None:
            return value._array.shape if isinstance(value, Variable) else value
    return None
