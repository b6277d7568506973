"""Tensors that nodes keep for backward, and the hooks around them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from gradcore.autograd.edges import gradient_edge
from gradcore.autograd.messages import FREED, INFERENCE_SAVED, modified_in_place
from gradcore.autograd.modes import PACK, local
from gradcore.autograd.op_node import OpNode, Packed, edge_of_result, with_edge
from gradcore.autograd.variables import Meta, Variable, alias, new, version_counter, wrap

__all__ = [
    "Kept",
    "SavedByFunction",
    "SavedInput",
    "SavedResult",
    "SavedTensor",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "pack",
    "refuse_inference",
    "save_on_cpu",
    "saved_tensors_hooks",
    "unpacked",
]

FREED_HOOKS = "Calling register_hooks on a saved tensor after it has been freed. " + FREED.partition(". ")[2]
HOOKS_TWICE = (
    "Calling register_hooks on a saved tensor whose hooks have already been set. Hint: only one pair of hooks is "
    "allowed at a time."
)


def refuse_inference(*tensors: Any) -> None:
    """Raise if one of the tensors, which are about to be saved for backward, was made in inference mode.

    Transformations run backward before they return: there it does no harm.
    """
    if local.state.transforms:
        return
    for t in tensors:
        if isinstance(t, Variable) and t._meta is not None and t._meta.inference:
            raise RuntimeError(INFERENCE_SAVED)


def current_hooks() -> tuple[Any, Any] | None:
    """The innermost pair of saved-tensor hooks, or None."""
    state = local.state
    return state.pack_hooks[-1] if state.mode & PACK else None


# -- nodes of operations ------------------------------------------------------------------------------------------

_packed_classes: dict[type[OpNode], type[OpNode]] = {}


def _packed_class(cls: type[OpNode]) -> type[OpNode]:
    """The class of nodes of `cls` that keep `Packed` values: backward takes the general path."""
    if cls.packed:
        return cls
    known = _packed_classes.get(cls)
    if known is None:
        body = {"__slots__": (), "__module__": "builtins", "__doc__": cls.__doc__, "packed": True}
        known = _packed_classes[cls] = type(cls.__name__, (cls,), body)
    return known


def pack(node: OpNode) -> None:
    """Give what a node, which has just been made, keeps to the hooks that are open."""
    hooks = current_hooks()
    if hooks is None:
        return
    saved = list(node.saved)
    for p in node.op.tensor_like:
        value = saved[p]
        several = type(value) is tuple
        saved[p] = tuple(_packed(t, hooks) for t in value) if several else _packed(value, hooks)
    node.saved = saved
    if node.results is not None:
        node.results = [r and _packed_result(node, i, r, hooks) for i, r in enumerate(node.results)]
    node.__class__ = _packed_class(type(node))


def _packed(value: Any, hooks: tuple[Any, Any]) -> Any:
    tensor = isinstance(value, Variable) and not getattr(value, "_constant", False)
    return Packed(value, hooks) if tensor else value


def _packed_result(node: OpNode, number: int, result: tuple[Any, ...], hooks: tuple[Any, Any]) -> tuple[Any, ...]:
    array, vc, version, tangents = result
    t = wrap(array, node._device, None, (node, number))
    t._vc = vc
    return Packed(t, hooks, own=True), None, version, tangents


def unpacked(node: OpNode) -> OpNode:
    """A node like `node` that keeps tensors, after each hook has been called once."""
    other: OpNode = new(type(node))
    other._device, other._edges, other._seq, other._hooks = node._device, node._edges, node._seq, None
    other.metas = node.metas
    if node.op.variadic or len(node.op.outputs) > 1:
        other._n_outputs, other.output_metas = node._n_outputs, node.output_metas  # type: ignore[attr-defined, misc]
    other.saved = [_opened(value) for value in node.saved]
    other.results = None
    if node.results is not None:
        other.results = [r and (node.unpack_result(i), *r[1:]) for i, r in enumerate(node.results)]
    return other


def _opened(value: Any) -> Any:
    if type(value) is tuple:
        return tuple(_opened(v) for v in value)
    return value.unpack() if value.__class__ is Packed else value


class SavedTensor:
    """One tensor that a node keeps for backward, as ``node._raw_saved_<name>`` shows it: to give it hooks of its own.

    Raises
    ------
    RuntimeError
        Nodes make these objects; programs cannot.

    Examples
    --------
    >>> import gradcore as gc
    >>> y = gc.ones(2, requires_grad=True).exp()
    >>> y.grad_fn._raw_saved_result.__class__.__name__
    'SavedResult'
    """

    def __init__(self, *args: Any, **named: Any) -> None:
        raise RuntimeError("Trying to create a SavedTensor object from Python is forbidden.")

    @property
    def data(self) -> Any:
        """What is kept: the tensor or, where there are hooks, what the first has made of it; None for None."""
        value = self._value()
        return value.packed if value.__class__ is Packed else value

    @property
    def unpack_hook(self) -> Any:
        """The hook that makes a tensor of `data`; None where there is none."""
        value = self._value()
        return value.unpack_hook if value.__class__ is Packed else None

    def unpack(self) -> Any:
        """The tensor, with its history."""
        raise NotImplementedError

    def register_hooks(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        """Replace the saved tensor by what `pack_hook` makes of it, until `unpack_hook` is asked for it.

        Raises
        ------
        RuntimeError
            If the tensor has hooks already, has been freed, or is None.
        """
        for hook in (pack_hook, unpack_hook):
            if not callable(hook):
                raise TypeError(
                    "register_hooks(): incompatible function arguments: expected two functions, but got "
                    f"{type(hook).__name__}"
                )
        value = self._value()
        if value is None:
            raise RuntimeError("Calling register_hooks on a saved tensor with value None is forbidden")
        if value.__class__ is Packed:
            raise RuntimeError(HOOKS_TWICE)
        self._pack((pack_hook, unpack_hook))

    def _value(self) -> Any:
        """The tensor, the `Packed` one, or None."""
        raise NotImplementedError

    def _pack(self, hooks: tuple[Any, Any]) -> None:
        """Give the tensor to hooks."""
        raise NotImplementedError


class SavedInput(SavedTensor):
    """An argument, or one tensor of an argument that is several, that an operation's node keeps."""

    def __init__(self, node: OpNode, position: int, index: int | None = None) -> None:
        self._node, self._position, self._index = node, position, index

    def unpack(self) -> Any:
        opened = self._node.unpack_input(self._position)
        return opened if self._index is None else opened[self._index]

    def _value(self) -> Any:
        if self._node.saved is None:
            raise RuntimeError(FREED_HOOKS)
        value = self._node.saved[self._position]
        return value if self._index is None else value[self._index]

    def _pack(self, hooks: tuple[Any, Any]) -> None:
        node, packed = self._node, Packed(self.unpack(), hooks)
        saved = list(node.saved)
        if self._index is None:
            saved[self._position] = packed
        else:
            values = list(saved[self._position])
            values[self._index] = packed
            saved[self._position] = tuple(values)
        node.saved = saved
        node.__class__ = _packed_class(type(node))


class SavedResult(SavedTensor):
    """A result of an operation that its own node keeps."""

    def __init__(self, node: OpNode, number: int) -> None:
        self._node, self._number = node, number

    def unpack(self) -> Any:
        return self._node.unpack_result(self._number)

    def _value(self) -> Any:
        node = self._node
        if node.saved is None:
            raise RuntimeError(FREED_HOOKS)
        kept = node.results[self._number][0]
        return kept if kept.__class__ is Packed else self.unpack().detach()

    def _pack(self, hooks: tuple[Any, Any]) -> None:
        node = self._node
        results = list(node.results)
        results[self._number] = _packed_result(node, self._number, results[self._number], hooks)
        node.results = results
        node.__class__ = _packed_class(type(node))


# -- nodes of custom functions ------------------------------------------------------------------------------------


class Kept:
    """One tensor that a custom `Function` keeps for backward.

    Parameters
    ----------
    t : Tensor or None
        What is kept.
    own : bool
        Whether it is an output of the node that keeps it. Then only its memory is kept, and its history is put back
        when it is asked for: a node never holds its own output.
    """

    __slots__ = ("edge", "output_nr", "tangents", "value", "version")

    def __init__(self, t: Any, own: bool) -> None:
        self.value: Any = None
        if t is None:
            return
        refuse_inference(t)
        edge = gradient_edge(t)
        self.output_nr = edge[1] if own and edge is not None else None
        self.edge = None if own else edge
        self.tangents = t._meta.tangents if own and t._meta is not None else None
        self.version = version_counter(t).version
        hooks = current_hooks()
        if hooks is not None:
            self.value = Packed(t, hooks, own)
        else:
            self.value = alias(t, None) if own else t

    def keep_dual(self, dual: Any) -> None:
        """Keep a dual in the place of its primal."""
        if self.value.__class__ is Packed:
            self.value.tangents = dual._meta.tangents
        else:
            self.value = dual

    def unpack(self, node: Any) -> Any:
        """The tensor, for the node that keeps it."""
        t = self.value
        if t is None:
            return None
        if t.__class__ is Packed:
            t = t.unpack()
        elif t._vc.version != self.version:
            edge = gradient_edge(t) if self.output_nr is None else (node, self.output_nr)
            raise modified_in_place(t, edge, self.version)
        if self.output_nr is None:
            return with_edge(t, self.edge)
        t = alias(t, edge_of_result(node, self.output_nr))
        if self.tangents:
            t._meta = Meta()
            t._meta.tangents = self.tangents
        return t

    def pack(self, hooks: tuple[Any, Any]) -> None:
        """Give the tensor to hooks."""
        self.value = Packed(self.value, hooks)


class SavedByFunction(SavedTensor):
    """A tensor that the node of a custom `Function` keeps."""

    def __init__(self, node: Any, kept: Kept) -> None:
        self._node, self._kept = node, kept

    def unpack(self) -> Any:
        return self._kept.unpack(self._node)

    def _value(self) -> Any:
        return self._kept.value

    def _pack(self, hooks: tuple[Any, Any]) -> None:
        self._kept.pack(hooks)


# -- hooks for everything that is saved ---------------------------------------------------------------------------


class saved_tensors_hooks:
    """Inside, tensors that operations save for backward go through a pair of functions.

    Parameters
    ----------
    pack_hook : callable
        Called with every tensor that is saved; what it returns is kept in its place. It must not write to the tensor.
    unpack_hook : callable
        Called with that when backward needs the tensor; returns a tensor of equal content.

    Raises
    ------
    RuntimeError
        Where hooks are forbidden, see `disable_saved_tensors_hooks`.

    Examples
    --------
    >>> import gradcore
    >>> x = gradcore.tensor([1.0, 2.0], requires_grad=True)
    >>> with gradcore.autograd.graph.saved_tensors_hooks(lambda t: t.tolist(), gradcore.tensor):
    ...     y = (x * x).sum()
    >>> y.backward()
    >>> x.grad
    tensor([2., 4.])
    """

    def __init__(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self) -> None:
        for hook in (self.pack_hook, self.unpack_hook):
            if not callable(hook):
                raise TypeError(f"saved_tensors_hooks needs two functions, got {type(hook).__name__}")
        state = local.state
        if state.hooks_disabled is not None:
            raise RuntimeError(state.hooks_disabled)
        hooks = (*state.pack_hooks, (self.pack_hook, self.unpack_hook))
        state.pack_hooks, state.mode = hooks, state.mode | PACK  # without a call: see `grad_mode`

    def __exit__(self, *exc: object) -> None:
        state = local.state
        hooks = state.pack_hooks[:-1]
        state.pack_hooks, state.mode = hooks, state.mode if hooks else state.mode & ~PACK


class save_on_cpu(saved_tensors_hooks):
    """Inside, tensors that are saved for backward wait in the memory of the CPU, and are copied back when needed.

    Parameters
    ----------
    pin_memory : bool
        Whether what comes from CUDA waits in page-locked memory, from which copies back do not stop the host.
    device_type : str
        Accepted for compatibility.

    Examples
    --------
    >>> import gradcore
    >>> x = gradcore.tensor([1.0, 2.0], requires_grad=True)
    >>> with gradcore.autograd.graph.save_on_cpu():
    ...     y = (x * x).sum()
    >>> y.backward()
    >>> x.grad
    tensor([2., 4.])
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def pack(t: Any) -> tuple[Any, Any]:
            host = t.cpu()
            return t.device, host.pin_memory() if pin_memory and t.is_cuda else host

        super().__init__(pack, lambda packed: packed[1].to(packed[0], non_blocking=pin_memory))


class disable_saved_tensors_hooks(contextlib.ContextDecorator):
    """Inside, `saved_tensors_hooks` raises; as a decorator, inside the function.

    Parameters
    ----------
    error_message : str
        What the error says.
    """

    def __init__(self, error_message: str) -> None:
        self.error_message = error_message
        self._before: list[str | None] = []

    def __enter__(self) -> None:
        state = local.state
        if state.pack_hooks:
            raise RuntimeError(self.error_message)
        self._before.append(state.hooks_disabled)
        state.hooks_disabled = self.error_message

    def __exit__(self, *exc: object) -> None:
        local.state.hooks_disabled = self._before[-1]
        del self._before[-1]


class allow_mutation_on_saved_tensors(saved_tensors_hooks):
    """Inside, tensors that are saved for backward may be written to: what is kept is a copy.

    Examples
    --------
    >>> import gradcore
    >>> x = gradcore.ones(2, requires_grad=True)
    >>> with gradcore.autograd.graph.allow_mutation_on_saved_tensors():
    ...     y = x * 1
    ...     z = (y * y).sum()
    ...     y.add_(5)
    tensor([6., 6.], grad_fn=<AddBackward0>)
    >>> z.backward()
    >>> x.grad
    tensor([2., 2.])
    """

    def __init__(self) -> None:
        super().__init__(lambda t: t.clone(), lambda t: t)
