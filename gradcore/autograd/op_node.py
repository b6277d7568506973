"""Nodes of operations, and what they save: inputs and results, with the history that these had."""

from __future__ import annotations

from typing import Any, ClassVar

from gradcore.autograd.edges import gradient_edge, requires_grad
from gradcore.autograd.messages import FREED, INFERENCE_SAVED, modified_in_place, operation_of
from gradcore.autograd.modes import GRAD, local
from gradcore.autograd.node import Node
from gradcore.autograd.variables import Edge, Inference, Meta, Variable, alias, version_counter, wrap

__all__ = ["OpNode", "Packed", "edge_of_result", "with_edge"]


class OpNode(Node):
    """A node of an operation of the table. There is one subclass per operation and node name."""

    __slots__ = ("_rebased", "metas", "results", "saved")

    op: ClassVar[Any]
    _fresh = True
    saves: ClassVar[frozenset[str]] = frozenset()
    #: Of views of a part: which part, a function of the shape and the settings.
    view_key: ClassVar[Any] = None
    #: The numbers of the edges that `shown` shows, in its order; all if None.
    seen: ClassVar[tuple[int, ...] | None] = None

    #: The arguments, with None in the place of tensors that no formula reads and shapes where only those are read.
    saved: Any
    #: Saved outputs: (array, version counter, version, tangents) by output number.
    results: Any
    #: Per edge the input's (shape, dtype), where inputs differ from the result; None where all are alike.
    metas: Any

    @property
    def _seen_outputs(self) -> tuple[int, ...]:
        several = len(self.op.outputs) > 1 and not self.op.variadic
        return self.op.seen_outputs if several else tuple(range(self._n_outputs))

    def shown(self, values: Any) -> Any:
        return values if self.seen is None else tuple(values[i] for i in self._numbers(self.seen))

    def spread(self, values: Any) -> Any:
        if self.seen is None:
            return values
        found = [None] * len(self._edges)
        for i, value in zip(self._numbers(self.seen), values, strict=True):
            found[i] = value
        return tuple(found)

    def _numbers(self, seen: tuple[int, ...]) -> list[int]:
        """The edges that are seen, where a sequence of tensors in front has several."""
        extra = len(self._edges) - len(self.op.tensors)
        return [*range(extra), *(i + extra for i in seen)] if extra else list(seen)

    def release(self) -> None:
        if self.holds_tensors and not (self.may_hold_none and self.saved is not None and not self._holds_any()):
            kept = None
            if self.keeps_settings and self.saved is not None:
                kept = [_outline(value) if i in self.op.tensor_like else value for i, value in enumerate(self.saved)]
            self.saved, self.results = None, kept

    def _holds_any(self) -> bool:
        """Whether a tensor is kept: some formulas read none, so it depends on which inputs require grad."""
        values = [self.saved[i] for i in self.holders if i < len(self.saved)]
        flat = [t for value in values for t in (value if type(value) is tuple else (value,))]
        return any(isinstance(t, (Variable, Packed)) for t in flat) or any(self.results or ())

    #: Whether settings are among what formulas read, or shapes are shown: they stay when the tensors are freed.
    keeps_settings: ClassVar[bool] = False
    holds_tensors: ClassVar[bool] = True
    #: Whether a formula reads no tensor, so that there may be none although `holds_tensors`.
    may_hold_none: ClassVar[bool] = False
    #: The positions of arguments that may hold tensors: not those in whose place this kind of node has a number.
    holders: ClassVar[tuple[int, ...]] = ()
    #: Whether what is saved is `Packed`; see `gradcore.autograd.saved.pack`.
    packed: ClassVar[bool] = False

    def check(self) -> None:
        """Raise if a saved value has been freed, or overwritten since it was saved."""
        saved = self.saved
        if saved is None:
            raise RuntimeError(FREED)
        for position in self.op.tensor_like:
            if position < len(saved):
                value = saved[position]
                if value is None:
                    continue
                for t in value if type(value) is tuple else (value,):
                    vc = getattr(t, "_vc", None)
                    if vc is Inference.counter and not local.state.transforms:
                        raise RuntimeError(INFERENCE_SAVED)
                    if vc is not None and vc.written > self._seq:
                        raise modified_in_place(t, gradient_edge(t), vc.at(self._seq))
        if self.results is not None:
            for number, entry in enumerate(self.results):
                if entry is not None and entry[1] is not None and entry[1].version != entry[2]:
                    known = self.op.variadic or number in self.op.differentiable
                    raise modified_in_place(self.unpack_result(number), (self, number) if known else None, entry[2])

    # -- saved values as tensors -------------------------------------------------------------------------------

    def unpack_input(self, position: int) -> Any:
        """The input at that position as a tensor with the history it had when it was saved."""
        value = self.saved[position]
        if position in self.op.indices:
            return tuple(with_edge(t, None) for t in value)
        if type(value) is tuple:  # a sequence of tensors
            return [with_edge(t, edge) for t, edge in zip(value, self._edges, strict=False)]
        shift = len(self._edges) - len(self.op.tensors)  # further edges of a leading sequence of tensors
        return with_edge(value, self._edges[self.op.edge_index[position] + shift])

    def unpack_result(self, number: int) -> Any:
        """The output of that number as a tensor, with this node as its history if it has derivatives."""
        array, vc, _, tangents = self.results[number]
        known = self.op.variadic or number in self.op.differentiable
        edge = edge_of_result(self, number) if known else None
        if isinstance(array, Variable):  # see `gradcore.autograd.saved.unpacked`
            return array
        if array.__class__ is Packed:
            t = alias(array.unpack(), edge)
        else:
            t = wrap(array, self._device, None, edge)
            t._vc = vc
        return t if tangents is None else _with_tangents(t, tangents)


def _outline(value: Any) -> Any:
    """What stays of a saved argument when tensors are freed: of a tensor, its shape."""
    if isinstance(value, Variable):
        return value._array.shape
    return value if type(value) is tuple and all(type(n) is int for n in value) else None


def edge_of_result(node: Node, number: int) -> Edge:
    """The history of a saved output of `node`: the node itself or, where it wrote in place to a view, the view's."""
    rebased = getattr(node, "_rebased", None)
    outer = None if rebased is None else rebased[0]()
    return (node, number) if outer is None else (outer, rebased[1])  # type: ignore[index]


def with_edge(t: Any, edge: Edge | None) -> Any:
    """A saved tensor with the history that it had when it was saved."""
    if t is None:
        return None
    if t.__class__ is Packed:
        t = t.unpack()
    elif not isinstance(t, Variable):
        return t
    if edge is None:
        if not requires_grad(t):
            return t
    elif t._edge == edge or (edge[0].is_accumulator and edge[0].variable is t and t._meta.requires_grad):  # type: ignore[attr-defined]
        return t
    elif t._edge is not None and t._edge[0]._edges == (edge,) and operation_of(t._edge[0]) == "ToCopy":
        return t  # a copy in the dtype of the computation: its own history goes on at that edge
    other = alias(t, edge)
    tangents = None if t._meta is None else t._meta.tangents
    return other if tangents is None else _with_tangents(other, tangents)


def _with_tangents(t: Any, tangents: Any) -> Any:
    """A tensor that has just been made, given the tangents of another one."""
    t._meta = Meta()
    t._meta.tangents = tangents
    return t


class Packed:
    """A saved tensor in the hands of a pair of saved-tensor hooks.

    Parameters
    ----------
    t : Tensor
        What is saved, with its history.
    hooks : tuple
        The functions ``pack(tensor)``, which returns anything, and ``unpack``, which makes a tensor of that.
    own : bool
        Whether `t` is an output of the node that saves it; then its history is not kept, which is that node.
    """

    __slots__ = ("dtype", "packed", "tangents", "unpack_hook")

    #: As if nobody could write to it in place: the hooks answer for what they return.
    _vc = None

    def __init__(self, t: Any, hooks: tuple[Any, Any], own: bool = False) -> None:
        pack, self.unpack_hook = hooks
        version = version_counter(t).version
        state = local.state
        before, state.mode = state.mode, state.mode & ~GRAD
        try:
            packed = pack(t)
        finally:
            state.mode = before
        if t._vc.version != version:
            raise RuntimeError(
                "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook "
                "cannot be modified by in-place operations as this can lead to unexpected side-effects."
            )
        self.packed = alias(t, None) if own and packed is t else packed
        #: Forward mode: tangents by level, which hooks do not see.
        self.tangents: Any = None if t._meta is None else t._meta.tangents
        self.dtype = t._dtype

    def unpack(self) -> Any:
        """The tensor that the hook makes of what it packed."""
        t = self.unpack_hook(self.packed)
        if not isinstance(t, Variable):
            raise TypeError(
                f"Output of saved tensor unpack_hook expected to be a Tensor but got result of type {type(t).__name__}"
            )
        return _with_tangents(alias(t, gradient_edge(t)), self.tangents) if self.tangents else t
