"""State dicts of modules: saving and loading parameters and buffers by dotted name."""

from __future__ import annotations

import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from gradcore.autograd.grad_mode import no_grad
from gradcore.nn.lazy_parameter import is_lazy
from gradcore.nn.parameter import Parameter
from gradcore.tensor import Tensor
from gradcore.tensor.creation import as_tensor, from_dlpack
from gradcore.utils.hooks import RemovableHandle

__all__ = ["IncompatibleKeys", "State", "consume_prefix_in_state_dict_if_present"]

EXTRA = "_extra_state"
Table = dict[int, Any]


class IncompatibleKeys(NamedTuple):
    """Result of `Module.load_state_dict`: the missing and the unexpected keys."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Remove a prefix from the keys of a state dict, in place.

    Parameters
    ----------
    state_dict : dict
    prefix : str
        The prefix to remove, such as ``"module."``, with which `DataParallel` saves the state of its module.

    Examples
    --------
    >>> from gradcore.nn.modules.utils import consume_prefix_in_state_dict_if_present
    >>> state = {"module.weight": 1, "module.bias": 2}
    >>> consume_prefix_in_state_dict_if_present(state, "module.")
    >>> state
    {'weight': 1, 'bias': 2}
    """
    for table in (state_dict, getattr(state_dict, "_metadata", {})):
        entries = [("" if key == prefix[:-1] else key.removeprefix(prefix), value) for key, value in table.items()]
        table.clear()
        table.update(entries)


class _OfModule:
    """A hook whose first argument is its module, to which it holds a weak reference."""

    def __init__(self, hook: Callable[..., Any], module: Any) -> None:
        self.hook, self.module = hook, weakref.ref(module)

    def __call__(self, *args: Any) -> Any:
        return self.hook(self.module(), *args)

    def __reduce__(self) -> tuple[Any, ...]:
        return _OfModule, (self.hook, self.module())


class State:
    """Methods that save and load the state of modules."""

    #: A number for the layout of a class's state, which `_load_from_state_dict` finds in the metadata.
    _version: int = 1
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Any]
    _non_persistent_buffers_set: set[str]
    _state_dict_hooks: Table
    _state_dict_pre_hooks: Table
    _load_state_dict_pre_hooks: Table
    _load_state_dict_post_hooks: Table

    def get_extra_state(self) -> Any:
        """Return extra state for the `state_dict`. Subclasses define it together with `set_extra_state`."""
        raise RuntimeError("Reached a code path in Module.get_extra_state() that should never be called.")

    def set_extra_state(self, state: Any) -> None:
        """Restore the state that `get_extra_state` returned."""
        raise RuntimeError("Reached a code path in Module.set_extra_state() that should never be called.")

    def _own_state(self) -> dict[str, Tensor]:
        """Return the parameters and persistent buffers of this module, without its submodules."""
        persistent_buffers = {n: b for n, b in self._buffers.items() if n not in self._non_persistent_buffers_set}
        return {name: t for name, t in {**self._parameters, **persistent_buffers}.items() if t is not None}

    # -- saving ---------------------------------------------------------------------------------------------------

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """Return the parameters and persistent buffers by dotted name. They share memory with the module.

        Parameters
        ----------
        destination : dict, optional
            Filled and returned instead of a new one.
        prefix : str
            The prefix of the names.
        keep_vars : bool
            Keep the parameters themselves, not detached from the graph.

        Returns
        -------
        dict
        """
        if args:
            warnings.warn("Positional args are being deprecated, use kwargs instead.", FutureWarning, stacklevel=2)
            arguments: Any = (*args, *(destination, prefix, keep_vars)[len(args) :])
            destination, prefix, keep_vars = arguments
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, child in self._modules.items():
            if child is not None:
                child.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in self._state_dict_hooks.values():
            result = hook(self, destination, prefix, local)
            if result is not None and getattr(hook, "_from_public_api", False):
                raise RuntimeError("state_dict post-hook must return None")
            destination = destination if result is None else result
        return destination  # type: ignore[no-any-return]

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Add this module's own state to `destination`. Subclasses may add more."""
        for name, tensor in self._own_state().items():
            destination[prefix + name] = tensor if keep_vars or is_lazy(tensor) else tensor.detach()
        if type(self).get_extra_state is not State.get_extra_state:
            destination[prefix + EXTRA] = self.get_extra_state()

    # -- loading --------------------------------------------------------------------------------------------------

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copy the values of a `state_dict` into this module.

        Parameters
        ----------
        state_dict : dict
            Tensors by dotted name, or NumPy arrays, or tensors of PyTorch and other libraries that have DLPack.
        strict : bool
            Whether the names must be exactly the names of this module's state.
        assign : bool
            Take the given tensors themselves instead of copying their values.

        Returns
        -------
        IncompatibleKeys
            The names that were missing, and those that were not expected.

        Raises
        ------
        RuntimeError
            If shapes differ or, where `strict`, names do. What fits has been loaded.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        keys = IncompatibleKeys([], [])
        errors: list[str] = []
        _load(self, OrderedDict(state_dict), "", getattr(state_dict, "_metadata", {}), assign, keys, errors)
        if strict:
            for problem, names in (("Unexpected", keys.unexpected_keys), ("Missing", keys.missing_keys)):
                if names:
                    errors.insert(0, f"{problem} key(s) in state_dict: " + ", ".join(f'"{n}"' for n in names) + ". ")
        if errors:
            text = "\n\t".join(errors)
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{text}")
        return keys

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Load this module's own state. Subclasses may do more before or after."""
        for hook in self._load_state_dict_pre_hooks.values():
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        own_state = self._own_state()
        assign = local_metadata.get("assign_to_params_buffers", False)
        for name, tensor in own_state.items():
            key = prefix + name
            if key in state_dict:
                error = _take(self, name, tensor, state_dict[key], key, assign)
                error_msgs += [] if error is None else [error]
            elif strict:
                missing_keys.append(key)
        extra_key = prefix + EXTRA
        if type(self).set_extra_state is not State.set_extra_state:
            if extra_key in state_dict:
                self.set_extra_state(state_dict[extra_key])
            elif strict:
                missing_keys.append(extra_key)
        elif strict and extra_key in state_dict:
            unexpected_keys.append(extra_key)
        if strict:
            for key in state_dict:
                name, dot, _ = key.removeprefix(prefix).partition(".")
                if key.startswith(prefix) and key != extra_key and name not in (self._modules if dot else own_state):
                    unexpected_keys.append(key)

    # -- hooks ----------------------------------------------------------------------------------------------------

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, prefix, keep_vars)`` before the state is collected."""
        return RemovableHandle(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, local_metadata)`` after the state is collected."""
        hook._from_public_api = True  # type: ignore[attr-defined]
        return RemovableHandle(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was previously registered via "
                "register_state_dict_post_hook"
            )
        return RemovableHandle(self._state_dict_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Register a hook that is called before the module's own state is loaded.

        Parameters
        ----------
        hook : callable
            ``hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)``.
        """
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        return RemovableHandle(self._load_state_dict_pre_hooks, _OfModule(hook, self) if with_module else hook)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, incompatible_keys)`` after the state is loaded. The hook may change the lists of keys."""
        return RemovableHandle(self._load_state_dict_post_hooks, hook)


def _load(
    module: Any, state: Any, prefix: str, metadata: Any, assign: bool, keys: IncompatibleKeys, errors: list[str]
) -> None:
    local = dict(metadata.get(prefix[:-1], {})) if metadata else {}
    if assign:
        local["assign_to_params_buffers"] = assign
    module._load_from_state_dict(state, prefix, local, True, keys.missing_keys, keys.unexpected_keys, errors)
    for name, child in module._modules.items():
        if child is not None:
            below = f"{prefix}{name}."
            substate = {key: value for key, value in state.items() if key.startswith(below)}
            _load(child, substate, below, metadata, assign, keys, errors)
    for hook in module._load_state_dict_post_hooks.values():
        if hook(module, keys) is not None:
            raise AssertionError(
                "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return new values, "
                "if incompatible_keys need to be modified, it should be done inplace."
            )


def _take(module: Any, name: str, tensor: Tensor, value: Any, key: str, assign: bool) -> str | None:
    """Load one tensor of a state dict. Return a description of the problem, or None."""
    received = value
    try:
        value = _as_tensor(value)
    except Exception as error:
        return f'While copying the parameter named "{key}", an exception occurred : {error.args}.'
    if value is None:
        return (
            f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from checkpoint '
            f"but received {type(received)}"
        )
    if is_lazy(tensor) and is_lazy(value):
        return None
    if not tensor.ndim and value.shape == (1,):  # the form in which old versions saved scalars
        value = value[0]
    if value.shape != tensor.shape:
        return (
            f"size mismatch for {key}: copying a param with shape {value.shape} from checkpoint, the shape in current "
            f"model is {tensor.shape}."
        )
    if tensor.is_meta and not value.is_meta and not assign:
        warnings.warn(
            f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter in the current model, "
            "which is a no-op. (Did you mean to pass `assign=True` to assign items in the state dictionary to their "
            "corresponding key in the module instead of copying them in place?)",
            stacklevel=5,
        )
        return None
    try:
        if not assign:
            with no_grad():
                tensor.copy_(value)
            return None
        if isinstance(tensor, Parameter):
            if not isinstance(value, Parameter):
                value = Parameter(value, requires_grad=tensor.requires_grad)
            value.requires_grad_(tensor.requires_grad)
        setattr(module, name, value)
    except Exception as error:
        return (
            f'While copying the parameter named "{key}", whose dimensions in the model are {tensor.shape} and whose '
            f"dimensions in the checkpoint are {value.shape}, an exception occurred : {error.args}."
        )
    return None


def _as_tensor(value: Any) -> Tensor | None:
    """Return `value` as a tensor that shares its memory, or None if it is not a tensor or array of any library."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, (np.ndarray, np.generic)):
        return as_tensor(value)
    if not hasattr(value, "__dlpack__"):
        return None
    for method in ("detach", "resolve_conj", "resolve_neg"):  # without history, and without flags of PyTorch's
        value = getattr(value, method, lambda value=value: value)()
    return from_dlpack(value)
