"""Nodes and edges: what operations record, and what backward runs."""

from __future__ import annotations

import weakref
from typing import Any, ClassVar

from gradcore.autograd.messages import FREED, INFERENCE_SAVED, modified_in_place, operation_of, refusal
from gradcore.autograd.modes import FUNCTIONS, GRAD, PLAINLY, local
from gradcore.autograd.variables import (
    OWN,
    Clock,
    Edge,
    Inference,
    Meta,
    Subclasses,
    Variable,
    alias,
    new,
    tick,
    version_counter,
    wrap,
)
from gradcore.ops.table import OPS

__all__ = [
    "FREED",
    "AccumulateGrad",
    "Chosen",
    "Hooks",
    "Node",
    "OpNode",
    "Packed",
    "chain_of",
    "edge_of_result",
    "gradient_edge",
    "modified_in_place",
    "move_retained",
    "operation_of",
    "refusal",
    "regenerate",
    "replay",
    "replay_raw",
    "requires_grad",
    "steps",
    "with_edge",
]


# -- edges ------------------------------------------------------------------------------------------------------


def requires_grad(t: Any) -> bool:
    """Whether operations on `t` are recorded."""
    if t._edge is not None:
        return True
    meta = t._meta
    if meta is None:
        return False
    if meta.requires_grad:
        return True
    # A view whose base has been written in place since gets its history from the base when it is asked for.
    return meta.base is not None and t._vc.version != meta.edge_version and requires_grad(meta.base)


def gradient_edge(t: Any) -> Edge | None:
    """Where the gradient of `t` goes: its node, a leaf's AccumulateGrad, or None."""
    meta = t._meta
    if meta is None:
        return t._edge  # type: ignore[no-any-return]
    edge: Edge | None = t._edge
    if edge is None and meta.requires_grad:  # a leaf
        accumulator = meta.accumulator
        if accumulator is not None:
            accumulator = accumulator()
        if accumulator is None:
            accumulator = new(AccumulateGrad)
            accumulator.variable, accumulator._device, accumulator._edges = t, t._device, ()
            accumulator._hooks, accumulator._seq = None if meta.grad_dtype is OWN else Hooks(), tick()
            meta.accumulator = weakref.ref(accumulator)
        return accumulator, 0
    if meta.base is not None and t._vc.version != meta.edge_version:
        regenerate(t)
        return t._edge  # type: ignore[no-any-return]
    if meta.inference:  # a node that saves it must look at it: see `OpNode.check`
        Clock.last_write = max(Clock.last_write, tick() + 64)
    return edge


def regenerate(view: Any) -> None:
    """Give a view the history that its base has now: the base, or another view of it, was written in place.

    Raises
    ------
    RuntimeError
        If the view was made in a way that such a write makes ambiguous, and operations are recorded.
    """
    meta = view._meta
    inherits = not meta.requires_grad and requires_grad(meta.base)
    if inherits and meta.creation:
        if local.state.mode & GRAD:
            raise refusal(view, "its base or another view of its base has been")
        return
    meta.edge_version = view._vc.version
    if inherits:
        before, view._edge = view._edge, replay(meta.base, chain_of(view))._edge
        move_retained(view, before, view._edge)


def move_retained(t: Any, before: Edge | None, after: Edge | None) -> None:
    """A tensor that retains its gradient retains that of its newest value."""
    if t._meta is not None and t._meta.retains_grad and before is not None and before[0]._hooks is not None:
        reference = before[0]._hooks.retain.pop(before[1], None)
        if reference is not None and after is not None:
            after[0]._own_hooks().retain[after[1]] = reference


def steps(chain: tuple[Any, ...]) -> list[Any]:
    """The view operations, with their settings, that lead from a base to a view: ``((((), first), second) ...)``."""
    found = []
    while chain:
        chain, step = chain
        found.append(step)
    return found[::-1]


def chain_of(view: Any) -> tuple[Any, ...]:
    """The view operations that lead from the base of `view`, as it is now, to `view`."""
    meta = view._meta
    base = meta.base
    if base._meta is None or base._meta.reshaped == meta.reshaped:
        return meta.chain  # type: ignore[no-any-return]
    # The base itself has another shape than when the view was made: what remains is the place in memory.
    geometry = view._device.backend.geometry_of
    (strides, start), (own, first) = geometry(view._array), geometry(base._array)
    return (), (OPS["strided_view"], (tuple(view._array.shape), strides, start - first, own))


def replay(base: Any, chain: tuple[Any, ...]) -> Any:
    """Apply the recorded view operations to another tensor (recorded in turn)."""
    state = local.state
    before, state.mode = state.mode, (state.mode | GRAD | (PLAINLY if Subclasses.used else 0)) & ~FUNCTIONS
    try:
        for op, args in steps(chain):
            base = op.call(base, *args) if not isinstance(args, Chosen) else op.call(base, *args.args)[args.index]
    finally:
        state.mode = before
    return base


class Chosen:
    """The settings of a view operation with several results, and which result it was."""

    __slots__ = ("args", "index")

    def __init__(self, args: tuple[Any, ...], index: int) -> None:
        self.args, self.index = args, index


def replay_raw(array: Any, chain: tuple[Any, ...], kernels: Any) -> Any:
    """The same on raw arrays."""
    for op, args in steps(chain):
        if isinstance(args, Chosen):
            array = kernels[op.kernel](array, *args.args)[args.index]
        else:
            array = kernels[op.kernel](array, *args)
    return array


# -- nodes ------------------------------------------------------------------------------------------------------


class Hooks:
    """The hooks of one node, by kind, in the order of registration."""

    __slots__ = ("post", "pre", "retain", "tensor")

    def __init__(self) -> None:
        self.tensor: dict[int, dict[int, Any]] = {}
        self.pre: dict[int, Any] = {}
        self.post: dict[int, Any] = {}
        #: Weak references to the tensors that retain their gradient, by output number.
        self.retain: dict[int, Any] = {}


class Node:
    """A recorded operation: what backward runs.

    Nodes have their PyTorch names (``AddBackward0``) and, as attributes, the values that they saved
    (``_saved_self``). They refer to their inputs' nodes and never to their own outputs, so that memory goes when
    the last name goes.
    """

    __slots__ = ("__weakref__", "_device", "_edges", "_hooks", "_kinds", "_metadata", "_seq")

    _n_outputs: int = 1
    #: Whether gradients that are neither the upstream gradient nor a view are new arrays that nobody else holds.
    _fresh: ClassVar[bool] = False
    is_leaf_sink: ClassVar[bool] = False
    #: Whether tensors with this history are leaves: made by the user, or inputs of a transformation.
    of_leaf: ClassVar[bool] = False
    #: A node that backward of this one runs, see `CopySlices`.
    _inner: Any = None
    #: The devices of the gradients for the edges, where they may be others than the node's.
    _input_devices: Any = None

    _device: Any
    _edges: tuple[Edge | None, ...]
    _hooks: Hooks | None
    _seq: int
    #: What the outputs are like, where that was noted; see `gradcore.autograd.metadata`.
    _kinds: Any

    def name(self) -> str:
        """The node's name, for example ``'AddBackward0'``."""
        return type(self).__name__

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """For each input, the node that its gradient goes to and the number of that node's output."""
        return tuple((None, 0) if edge is None else edge for edge in self.shown(self._edges))

    def shown(self, values: Any) -> Any:
        """Of values for all edges, those for inputs that can have gradients: an index is none of them."""
        return values

    def spread(self, values: Any) -> Any:
        """The inverse of `shown`, with None for the others."""
        return values

    @property
    def requires_grad(self) -> bool:
        """True: what is recorded requires grad."""
        return True

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dictionary for the user's own notes."""
        try:
            return self._metadata
        except AttributeError:
            self._metadata: dict[Any, Any] = {}
            return self._metadata

    @property
    def _input_metadata(self) -> tuple[Any, ...]:
        """For each output, the shape, dtype and device that its gradient must have."""
        from gradcore.autograd.metadata import metadata_of

        return metadata_of(self)

    def _register_hook_dict(self, hooks: dict[int, Any]) -> None:
        self._own_hooks().tensor.setdefault(0, {}).update(hooks)

    def _sequence_nr(self) -> int:
        return self._seq

    def _own_hooks(self) -> Hooks:
        if self._hooks is None:
            self._hooks = Hooks()
        return self._hooks

    @property
    def _seen_outputs(self) -> tuple[int, ...]:
        """The numbers of the outputs that have gradients."""
        return tuple(range(self._n_outputs))

    def register_hook(self, fn: Any) -> Any:
        """Call ``fn(grad_inputs, grad_outputs)`` after each backward of this node.

        `fn` may return gradients that replace `grad_inputs`. Returns a handle with ``remove()``.
        """
        from gradcore.autograd.hooks import RemovableHandle

        return RemovableHandle(self._own_hooks().post, fn)

    def register_prehook(self, fn: Any) -> Any:
        """Call ``fn(grad_outputs)`` before each backward of this node; it may return replacements."""
        from gradcore.autograd.hooks import RemovableHandle

        return RemovableHandle(self._own_hooks().pre, fn)

    def backward(self, grads: Any, raw: bool) -> Any:
        """Gradients for the edges, given those of the outputs (one, or a list for several outputs)."""
        raise NotImplementedError

    def release(self) -> None:
        """Let go of saved values; a second backward is then an error."""

    def __call__(self, *grads: Any) -> Any:
        """Run this node's backward on tensors."""
        seen = self._seen_outputs
        if len(grads) != len(seen):
            raise TypeError(f"expected {len(seen)} arguments, got {len(grads)} instead")
        for i, grad in enumerate(grads):
            if grad is not None and not isinstance(grad, Variable):
                raise TypeError(f"argument {i} is not a Variable")
        given = dict(zip(seen, grads, strict=True))
        carried = [given.get(i) for i in range(self._n_outputs)]
        results = self.shown(self.backward(carried[0] if self._n_outputs == 1 else carried, False))
        return results[0] if len(results) == 1 else tuple(results)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(f"cannot pickle '{type(self).__name__}' object")


Node.__module__ = "builtins"  # nodes print as PyTorch's: <AddBackward0 object at 0x...>


class AccumulateGrad(Node):
    """The end of an edge at a leaf: adds the gradient to ``variable.grad``."""

    __slots__ = ("variable",)

    is_leaf_sink = of_leaf = True
    variable: Any

    def name(self) -> str:
        """``'torch::autograd::AccumulateGrad'``."""
        return "torch::autograd::AccumulateGrad"

    def backward(self, grads: Any, raw: bool) -> Any:
        from gradcore.autograd.leaves import accumulate

        plain = grads is not None and not (local.state.mode & GRAD and requires_grad(grads))
        accumulate(self, grads._array if plain else grads, plain)
        return ()


AccumulateGrad.__module__ = "builtins"


class OpNode(Node):
    """A node of an operation of the table. There is one subclass per operation and node name."""

    __slots__ = ("_rebased", "metas", "results", "saved")

    op: ClassVar[Any]
    _fresh = True
    saves: ClassVar[frozenset[str]] = frozenset()
    #: Of views of a part: which part, a function of the shape and the settings.
    place: ClassVar[Any] = None
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
        return tuple(self.op.differentiable) if several else tuple(range(self._n_outputs))

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
        if self.holds_tensors:
            kept = None
            if self.keeps_settings and self.saved is not None:
                kept = [_outline(value) if i in self.op.held else value for i, value in enumerate(self.saved)]
            self.saved, self.results = None, kept

    #: Whether settings are among what formulas read, or shapes are shown: they stay when the tensors are freed.
    keeps_settings: ClassVar[bool] = False
    holds_tensors: ClassVar[bool] = True
    #: Whether what is saved is `Packed`; see `gradcore.autograd.saved.pack`.
    packed: ClassVar[bool] = False

    def check(self) -> None:
        """Raise if a saved value has been freed, or overwritten since it was saved."""
        saved = self.saved
        if saved is None:
            raise RuntimeError(FREED)
        for position in self.op.held:
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
        return with_edge(value, self._edges[self.op.edge_of[position] + shift])

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
        if tangents is not None:
            t._meta = Meta()
            t._meta.tangents = tangents
        return t

    def backward(self, grads: Any, raw: bool) -> Any:
        from gradcore.autograd.formulas import all_gradients

        return all_gradients(self, grads, self._device.backend if raw else None)


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
    elif t._edge == edge or (edge[0].is_leaf_sink and edge[0].variable is t and t._meta.requires_grad):  # type: ignore[attr-defined]
        return t
    elif t._edge is not None and t._edge[0]._edges == (edge,) and operation_of(t._edge[0]) == "ToCopy":
        return t  # a copy in the dtype of the computation: its own history goes on at that edge
    other = alias(t, edge)
    if t._meta is not None and t._meta.tangents is not None:
        other._meta = Meta()
        other._meta.tangents = t._meta.tangents
    return other


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
        if self.tangents:
            t = alias(t, gradient_edge(t))
            t._meta = Meta()
            t._meta.tangents = self.tangents
        return t
