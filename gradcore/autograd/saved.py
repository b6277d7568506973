"""Tensors that nodes keep for backward, and the hooks around them."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable
from typing import Any

from gradcore.autograd.modes import GRAD, SAVED_HOOKS, local
from gradcore.autograd.node import FREED, INFERENCE_SAVED, modified_in_place, operation_of
from gradcore.autograd.variables import (
    INFERENCE_COUNTER,
    AutogradMeta,
    Edge,
    Variable,
    VersionCounter,
    alias,
    version_counter,
    wrap,
)
from gradcore.autograd.views import all_tangents, gradient_edge, requires_grad
from gradcore.core.errors import use_program_names
from gradcore.core.typing import AnyTensor

__all__ = [
    "NewSavedTensor",
    "SavedTensor",
    "allow_mutation_on_saved_tensors",
    "check_version",
    "current_hooks",
    "disable_saved_tensors_hooks",
    "refuse_inference",
    "save_on_cpu",
    "saved_tensors_hooks",
    "with_edge",
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
        if isinstance(t, Variable) and t._autograd is not None and t._autograd.inference:
            raise RuntimeError(use_program_names(INFERENCE_SAVED))


def current_hooks() -> tuple[Any, Any] | None:
    """Return the innermost pair of saved-tensor hooks, or None."""
    state = local.state
    return state.pack_hooks[-1] if state.mode & SAVED_HOOKS else None


# -- one saved tensor ---------------------------------------------------------------------------------------------


class SavedTensor:
    """A tensor that a node keeps for backward, as ``node._raw_saved_<name>`` shows it: to give it hooks of its own.

    An input is kept itself, with the edge that its gradient goes to. Of an output the memory is kept: a node never
    holds its own output, whose history is put back when it is asked for. What hooks have packed takes the place of
    both. (The nodes of operations keep an input without hooks in its slot as it is.)

    Raises
    ------
    RuntimeError
        Nodes make these objects; programs cannot.

    Examples
    --------
    >>> import gradcore as gc
    >>> y = gc.ones(2, requires_grad=True).exp()
    >>> y.grad_fn._raw_saved_result.data
    tensor([2.7183, 2.7183])
    """

    __slots__ = ("__dict__", "_array", "_vc")

    # What recording sets of the only output of an operation has slots; the rest has the defaults of such an output.

    #: The array of an output, or None.
    _array: Any
    #: The version that has been saved. Nobody can write in place to what hooks have packed: they answer for that.
    _vc: VersionCounter | None
    version: int = 0
    #: Of an output: which one, and its device where that is not the node's. None for an input.
    output_nr: int | None = 0
    device: Any = None
    #: The tangents, by level, that an output has, and what hooks do not see.
    tangents: Any = None
    #: Of an input: the tensor itself, and where its gradient goes.
    tensor: Any = None
    edge: Edge | None = None
    #: What a hook has made of the tensor, the other one of the pair, and the tensor's dtype.
    packed: Any = None
    unpack_hook: Callable[[Any], Any] | None = None
    dtype: Any = None
    #: The node, as a weak reference, where the object is shown.
    _node: Any = None

    def __init__(self, *args: Any, **named: Any) -> None:
        raise RuntimeError("Trying to create a SavedTensor object from Python is forbidden.")

    @classmethod
    def of_input(cls, t: AnyTensor, edge: Edge | None, time: int | None = None) -> SavedTensor:
        """Return a tensor, or None, as it was at some time on the clock of `tick`; now if None."""
        saved = NewSavedTensor()
        saved._array, saved._vc = None, None
        saved.tensor, saved.edge, saved.output_nr = t, edge, None
        if t is not None:
            saved._vc = vc = t._vc or version_counter(t)
            saved.version = vc.version if time is None else vc.at(time)
        return saved

    @classmethod
    def of_output(cls, t: AnyTensor, number: int = 0) -> SavedTensor:
        """Return an output of the node that keeps it."""
        saved = NewSavedTensor()
        saved._array, saved.device, saved.output_nr = t._array, t._device, number
        saved._vc = vc = t._vc or version_counter(t)
        saved.version = vc.version
        if t._autograd is not None:
            saved.tangents = all_tangents(t)
        return saved

    def move(self, t: AnyTensor) -> None:
        """Note that an output has been copied to the memory of `t`."""
        if self.unpack_hook is None:
            vc = version_counter(t)
            self._array, self._vc, self.version = t._array, vc, vc.version

    def keep_dual(self, dual: AnyTensor) -> None:
        """Keep a dual in the place of its primal."""
        if self.unpack_hook is not None or self.output_nr is not None:
            self.tangents = all_tangents(dual)
        else:
            self.tensor = dual

    # -- back to a tensor -----------------------------------------------------------------------------------------

    def check(self, node: Any) -> None:
        """Raise if the tensor has been written in place since `node` saved it."""
        vc = self._vc
        if vc is None:
            return
        if vc is INFERENCE_COUNTER and not local.state.transforms:
            raise RuntimeError(use_program_names(INFERENCE_SAVED))
        if vc.version != self.version:
            if self.output_nr is None:
                raise modified_in_place(self.tensor, gradient_edge(self.tensor), self.version)
            raise modified_in_place(self.open(node), node._edge_of_output(self.output_nr), self.version)

    def open(self, node: Any) -> Any:
        """Return the tensor, with the history that it had when `node` saved it."""
        own = self.output_nr is not None
        edge = node._edge_of_output(self.output_nr) if own else self.edge
        if self.unpack_hook is not None:
            t = self.unpack_hook(self.packed)
            if not isinstance(t, Variable):
                raise TypeError(
                    "Output of saved tensor unpack_hook expected to be a Tensor but got result of type "
                    f"{type(t).__name__}"
                )
            if not own and not self.tangents:
                return with_edge(t, edge)
            t = alias(t, edge)
        elif not own:
            return with_edge(self.tensor, edge)
        else:
            t = wrap(self._array, self.device or node._device, None, edge)
            t._vc = self._vc
        return _with_tangents(t, self.tangents) if self.tangents is not None else t

    def pack(self, hooks: tuple[Any, Any], node: Any) -> None:
        """Give the tensor, which `node` keeps, to hooks; None stays."""
        if self.tensor is None and self._array is None:
            return
        pack, unpack = hooks
        t = self.open(node)
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
        self.packed = alias(t, None) if self.output_nr is not None and packed is t else packed
        self.unpack_hook, self.dtype = unpack, t._dtype
        self.tangents = all_tangents(t)
        self._array = self.tensor = self._vc = None

    # -- what users see -------------------------------------------------------------------------------------------

    def shown_by(self, node: Any) -> SavedTensor:
        """Note the node that shows the object; returns the object."""
        self._node = weakref.ref(node)
        return self

    def _owner(self) -> Any:
        """Return the node that keeps the tensor; None if it is gone and was not needed.

        Raises
        ------
        RuntimeError
            If the tensor has been freed.
        """
        node = self._node()
        if node.is_freed() if node is not None else self.output_nr is not None:
            raise RuntimeError(FREED_HOOKS)
        return node

    def unpack(self) -> Any:
        """Return the tensor, with its history."""
        node = self._owner()
        self.check(node)
        return self.open(node)

    @property
    def data(self) -> Any:
        """The saved tensor, or the result of its pack hook; None for None."""
        node = self._owner()
        if self.unpack_hook is not None:
            return self.packed
        return self.tensor if self.output_nr is None else self.open(node).detach()

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
        node = self._owner()
        if self.unpack_hook is not None:
            raise RuntimeError(HOOKS_TWICE)
        if self.tensor is None and self._array is None:
            raise RuntimeError("Calling register_hooks on a saved tensor with value None is forbidden")
        self.pack((pack_hook, unpack_hook), node)


#: `SavedTensor` as nodes make it.
NewSavedTensor: Callable[[], SavedTensor] = type(
    "SavedTensor", (SavedTensor,), {"__init__": object.__init__, "__slots__": ()}
)


def check_version(t: AnyTensor, time: int) -> None:
    """Raise if a tensor (or None) has been written in place since a time on the clock of `tick`."""
    vc = getattr(t, "_vc", None)
    if vc is INFERENCE_COUNTER and not local.state.transforms:
        raise RuntimeError(use_program_names(INFERENCE_SAVED))
    if vc is not None and vc.written > time:
        raise modified_in_place(t, gradient_edge(t), vc.at(time))


def with_edge(t: AnyTensor, edge: Edge | None) -> Any:
    """Return a tensor with the history that it had when it was saved; what is none as it is."""
    if not isinstance(t, Variable):
        return t
    if edge is None:
        if not requires_grad(t):
            return t
    elif t._edge == edge or (edge[0].is_accumulator and edge[0].variable is t and t._autograd.requires_grad):  # type: ignore[attr-defined]
        return t
    elif t._edge is not None and t._edge[0]._edges == (edge,) and operation_of(t._edge[0]) == "ToCopy":
        return t  # a copy in the dtype of the computation: its own history goes on at that edge
    other = alias(t, edge)
    tangents = all_tangents(t)
    return other if tangents is None else _with_tangents(other, tangents)


def _with_tangents(t: AnyTensor, tangents: Any) -> Any:
    """Return a tensor that has just been made, given the tangents of another one."""
    t._autograd = AutogradMeta()
    t._autograd.tangents = tangents
    return t


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
        state.pack_hooks, state.mode = hooks, state.mode | SAVED_HOOKS  # without a call: see `grad_mode`

    def __exit__(self, *exc: object) -> None:
        state = local.state
        hooks = state.pack_hooks[:-1]
        state.pack_hooks, state.mode = hooks, state.mode if hooks else state.mode & ~SAVED_HOOKS


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
        def pack(t: AnyTensor) -> tuple[Any, Any]:
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
