"""Saved tensors of nodes, and the hooks that pack and unpack them."""

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
    """Raise if one of the tensors, which are about to be saved for backward, is an inference tensor.

    They are allowed inside the transformations of `func`, which run backward before they return.
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
    """A tensor saved for backward. Users get it as ``node._raw_saved_<name>``, to register hooks.

    For an input, the tensor and the edge of its gradient are stored. For an output, only the array is stored, because a
    node must not refer to its own output; the tensor is created again, with its history, on each use. If there are
    hooks, the packed object is stored instead. (Nodes of operations store an input without hooks directly in its
    slot.)

    Raises
    ------
    RuntimeError
        If a program tries to create an instance; only nodes do.

    Examples
    --------
    >>> import gradcore as gc
    >>> y = gc.ones(2, requires_grad=True).exp()
    >>> y.grad_fn._raw_saved_result.data
    tensor([2.7183, 2.7183])
    """

    __slots__ = ("__dict__", "_array", "_vc")

    # Slots exist for the fields that the fast path sets. The defaults of the others are right for its single output.

    #: The array of a saved output, or None.
    _array: Any
    #: The version counter and the version at the time of saving. Packed values are not checked.
    _vc: VersionCounter | None
    version: int = 0
    #: For an output, its number (None for an input), and its device if that is not the node's.
    output_nr: int | None = 0
    device: Any = None
    #: The tangents, by level, of a saved output or of a packed tensor.
    tangents: Any = None
    #: For an input, the tensor itself and the edge of its gradient.
    tensor: Any = None
    edge: Edge | None = None
    #: For a packed tensor, the result of the pack hook, the unpack hook, and the dtype and shape of the tensor.
    packed: Any = None
    unpack_hook: Callable[[Any], Any] | None = None
    dtype: Any = None
    shape: tuple[int, ...] = ()
    #: A weak reference to the node, once users have access to the object.
    _node: Any = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError("Trying to create a SavedTensor object from Python is forbidden.")

    @classmethod
    def save_input(cls, t: AnyTensor, edge: Edge | None, time: int | None = None) -> SavedTensor:
        """Save an input `t` (a tensor or None) with its version at `time` on the clock of `tick`, by default now."""
        saved = NewSavedTensor()
        saved._array, saved._vc = None, None
        saved.tensor, saved.edge, saved.output_nr = t, edge, None
        if t is not None:
            saved._vc = vc = t._vc or version_counter(t)
            saved.version = vc.version if time is None else vc.at(time)
        return saved

    @classmethod
    def save_output(cls, t: AnyTensor, number: int = 0) -> SavedTensor:
        """Save `t`, output `number` of the node that saves it."""
        saved = NewSavedTensor()
        saved._array, saved.device, saved.output_nr = t._array, t._device, number
        saved._vc = vc = t._vc or version_counter(t)
        saved.version = vc.version
        if t._autograd is not None:
            saved.tangents = all_tangents(t)
        return saved

    def move(self, t: AnyTensor) -> None:
        """Store the memory of `t` instead, to which the saved output has been copied."""
        if self.unpack_hook is None:
            vc = version_counter(t)
            self._array, self._vc, self.version = t._array, vc, vc.version

    def keep_dual(self, dual: AnyTensor) -> None:
        """Store the dual tensor instead of its primal."""
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
            raise modified_in_place(self.restore_tensor(node), node._edge_of_output(self.output_nr), self.version)

    def restore_tensor(self, node: Any, as_saved: bool = False) -> Any:
        """Return the saved tensor (unpacked by its hook, if any) with the history that it had when `node` saved it.

        Parameters
        ----------
        node : Node
        as_saved : bool
            Whether the result has to have the dtype and shape that were saved, as kernels read it by these.

        Raises
        ------
        RuntimeError
            If `as_saved`, and what the unpack hook returns cannot be broadcast to the shape that was saved.
        TypeError
            If the unpack hook returns no tensor.
        """
        is_output = self.output_nr is not None
        edge = node._edge_of_output(self.output_nr) if is_output else self.edge
        if self.unpack_hook is not None:
            t = self.unpack_hook(self.packed)
            if not isinstance(t, Variable):
                raise TypeError(
                    "Output of saved tensor unpack_hook expected to be a Tensor but got result of type "
                    f"{type(t).__name__}"
                )
            if as_saved:
                t = self._convert_unpacked(t)
            if not is_output and not self.tangents:
                return with_edge(t, edge)
            t = alias(t, edge)
        elif not is_output:
            return with_edge(self.tensor, edge)
        else:
            t = wrap(self._array, self.device or node._device, None, edge)
            t._vc = self._vc
        return _with_tangents(t, self.tangents) if self.tangents is not None else t

    def _convert_unpacked(self, t: AnyTensor) -> AnyTensor:
        """Convert an unpacked tensor to the dtype that was saved, and broadcast it to the shape that was saved."""
        if t.shape != self.shape:
            try:
                t = t.expand(self.shape)
            except RuntimeError:
                raise RuntimeError(
                    f"Output of saved tensor unpack_hook expected to have the shape {[*self.shape]} of the tensor that "
                    f"was saved but got {[*t.shape]}"
                ) from None
        return t if t._dtype is self.dtype else t.to(self.dtype)

    def pack(self, hooks: tuple[Any, Any], node: Any) -> None:
        """Pack the saved tensor with `hooks`, a pair of pack and unpack hook. None is not packed."""
        if self.tensor is None and self._array is None:
            return
        pack, unpack = hooks
        t = self.restore_tensor(node)
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
        self.unpack_hook, self.dtype, self.shape = unpack, t._dtype, t.shape
        self.tangents = all_tangents(t)
        self._array = self.tensor = self._vc = None

    # -- what users see -------------------------------------------------------------------------------------------

    def shown_by(self, node: Any) -> SavedTensor:
        """Store a weak reference to `node`, whose attribute this object is, and return the object."""
        self._node = weakref.ref(node)
        return self

    def _owner(self) -> Any:
        """Return the node that saved the tensor, or None if an input's node no longer exists.

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
        """Return the saved tensor with its history, after a check of its version."""
        node = self._owner()
        self.check(node)
        return self.restore_tensor(node)

    @property
    def data(self) -> Any:
        """The saved tensor (or None), or the result of its pack hook."""
        node = self._owner()
        if self.unpack_hook is not None:
            return self.packed
        return self.tensor if self.output_nr is None else self.restore_tensor(node).detach()

    def register_hooks(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        """Replace the saved tensor by ``pack_hook(tensor)``, from which `unpack_hook` restores it on use.

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


#: Subclass of `SavedTensor` that can be instantiated, for nodes.
NewSavedTensor: Callable[[], SavedTensor] = type(
    "SavedTensor", (SavedTensor,), {"__init__": object.__init__, "__slots__": ()}
)


def check_version(t: AnyTensor, time: int) -> None:
    """Raise if a tensor (or None) has been written in place after `time` on the clock of `tick`."""
    vc = getattr(t, "_vc", None)
    if vc is INFERENCE_COUNTER and not local.state.transforms:
        raise RuntimeError(use_program_names(INFERENCE_SAVED))
    if vc is not None and vc.written > time:
        raise modified_in_place(t, gradient_edge(t), vc.at(time))


def with_edge(t: AnyTensor, edge: Edge | None) -> Any:
    """Return `t` with the history `edge` that it had when it was saved. Values other than tensors are unchanged."""
    if not isinstance(t, Variable):
        return t
    if edge is None:
        if not requires_grad(t):
            return t
    elif t._edge == edge or (edge[0].is_accumulator and edge[0].variable is t and t._autograd.requires_grad):  # type: ignore[attr-defined]
        return t
    elif t._edge is not None and t._edge[0]._edges == (edge,) and operation_of(t._edge[0]) == "ToCopy":
        return t  # a copy in the dtype of the computation, whose history continues at `edge`
    copy = alias(t, edge)
    tangents = all_tangents(t)
    return copy if tangents is None else _with_tangents(copy, tangents)


def _with_tangents(t: AnyTensor, tangents: Any) -> Any:
    """Set the tangents of the new tensor `t`, and return it."""
    t._autograd = AutogradMeta()
    t._autograd.tangents = tangents
    return t


# -- hooks for everything that is saved ---------------------------------------------------------------------------


class saved_tensors_hooks:
    """Context manager in which tensors saved for backward are packed and unpacked by a pair of functions.

    Parameters
    ----------
    pack_hook : callable
        Called with every tensor that is saved. Its result is stored instead. It must not modify the tensor in place.
    unpack_hook : callable
        Called with that result when backward needs the tensor. It returns a tensor of equal content.

    Raises
    ------
    RuntimeError
        If hooks are disabled, see `disable_saved_tensors_hooks`.

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
    """Context manager in which tensors saved for backward are moved to CPU memory, and copied back for backward.

    Parameters
    ----------
    pin_memory : bool
        Whether CUDA tensors are stored in page-locked memory, from which they can be copied back asynchronously.
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
    """Context manager and decorator in which `saved_tensors_hooks` raises an error.

    Parameters
    ----------
    error_message : str
        The message of the error.
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
    """Context manager in which saved tensors may be modified in place, because a copy is saved for backward.

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
