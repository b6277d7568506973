"""The class `Module`: named parameters, buffers and submodules, and a forward computation."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, Self

from gradcore import functional
from gradcore.core.tracebacks import ShortErrors
from gradcore.nn.conversion import Conversion
from gradcore.nn.module_hooks import (
    Calls,
    register_module_backward_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
)
from gradcore.nn.parameter import Buffer, Parameter
from gradcore.nn.state import State
from gradcore.tensor import Tensor
from gradcore.utils.hooks import RemovableHandle

__all__ = [
    "Module",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]

Hooks = dict[int, Any]
#: Hooks on registrations in all modules.
_global_parameter_registration_hooks: Hooks = {}
_global_buffer_registration_hooks: Hooks = {}
_global_module_registration_hooks: Hooks = {}
_REGISTRATION_HOOKS = {
    "parameter": _global_parameter_registration_hooks,
    "buffer": _global_buffer_registration_hooks,
    "module": _global_module_registration_hooks,
}

_TABLES = (
    "_backward_pre_hooks", "_backward_hooks", "_forward_hooks", "_forward_pre_hooks", "_state_dict_hooks",
    "_state_dict_pre_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks",
)  # fmt: skip


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, name, buffer)`` whenever a module registers a buffer. The hook may return a replacement.

    Examples
    --------
    >>> import gradcore as gc
    >>> hook = gc.nn.modules.module.register_module_buffer_registration_hook(
    ...     lambda module, name, buffer: print(name)
    ... )
    >>> norm = gc.nn.BatchNorm1d(1)
    running_mean
    running_var
    num_batches_tracked
    >>> hook.remove()
    """
    return RemovableHandle(_global_buffer_registration_hooks, hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, name, submodule)`` whenever a module registers a submodule.

    The hook may return a replacement.

    Examples
    --------
    >>> import gradcore as gc
    >>> hook = gc.nn.modules.module.register_module_module_registration_hook(
    ...     lambda module, name, submodule: print(name)
    ... )
    >>> net = gc.nn.Sequential(gc.nn.ReLU())
    0
    >>> hook.remove()
    """
    return RemovableHandle(_global_module_registration_hooks, hook)


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, name, param)`` whenever a module registers a parameter. The hook may return a replacement.

    Examples
    --------
    >>> import gradcore as gc
    >>> hook = gc.nn.modules.module.register_module_parameter_registration_hook(
    ...     lambda module, name, param: print(name)
    ... )
    >>> layer = gc.nn.Linear(1, 1)
    weight
    bias
    >>> hook.remove()
    """
    return RemovableHandle(_global_parameter_registration_hooks, hook)


def _run_registration_hooks(kind: str, module: Any, name: str, value: Any) -> Any:
    for hook in _REGISTRATION_HOOKS[kind].values():
        replacement = hook(module, name, value)
        value = value if replacement is None else replacement
    return value


def _addindent(text: str, spaces: int) -> str:
    """Return `text` with all lines but the first indented."""
    return text.replace("\n", "\n" + " " * spaces)


def count_dims(module: object, argument: str, value: object) -> int:
    """Return the number of dims of an argument of a module's forward.

    Raises
    ------
    TypeError
        If the argument is no tensor.
    """
    if not hasattr(value, "ndim"):
        raise TypeError(
            f"{type(module).__name__}.forward(): argument {argument!r} must be Tensor, not {type(value).__name__}"
        )
    return value.ndim  # type: ignore[no-any-return]


def _kind(value: Any) -> str:
    """Return the type of a value in the form that error messages use."""
    if isinstance(value, Tensor):
        return value.type() if type(value) is Tensor else f"torch.nn.{type(value).__name__}"
    cls = type(value)
    return cls.__name__ if cls.__module__ in ("builtins", "") else f"{cls.__module__}.{cls.__qualname__}"


class Module(Calls, State, Conversion, ShortErrors):
    """Base class of all modules: assign parameters and modules as attributes in ``__init__``, and define ``forward``.

    Examples
    --------
    >>> import gradcore
    >>> from gradcore import nn
    >>> class Net(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.hidden = nn.Linear(2, 3)
    ...     def forward(self, x):
    ...         return self.hidden(x).tanh()
    >>> net = Net()
    >>> [name for name, _ in net.named_parameters()]
    ['hidden.weight', 'hidden.bias']
    >>> net(gradcore.ones(1, 2)).shape
    torch.Size([1, 3])
    """

    #: Whether ``__init__`` passes further arguments to the next class, for classes with several bases.
    call_super_init: bool = False
    training: bool
    _modules: dict[str, Module | None]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init:
            name = f"{type(self).__name__}.__init__()"
            if kwargs:
                raise TypeError(f"{name} got an unexpected keyword argument '{next(iter(kwargs))}'")
            if args:
                raise TypeError(f"{name} takes 1 positional argument but {len(args) + 1} were given")
        attributes = self.__dict__
        attributes["training"] = True
        attributes["_parameters"], attributes["_buffers"], attributes["_modules"] = {}, {}, {}
        attributes["_non_persistent_buffers_set"], attributes["_is_full_backward_hook"] = set(), None
        for table in _TABLES:
            attributes[table] = {}
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    # -- attributes -----------------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        for table in ("_parameters", "_buffers", "_modules"):
            entries = self.__dict__.get(table)
            if entries is not None and name in entries:
                return entries[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        attributes = self.__dict__
        if isinstance(value, Parameter):
            self._make_room(name, "_parameters", "parameters")
            self.register_parameter(name, value)
        elif name in attributes.get("_parameters", ()):
            if value is not None:
                self._refuse(name, value, "parameter", "torch.nn.Parameter")
            self.register_parameter(name, None)
        elif isinstance(value, Module):
            self._make_room(name, "_modules", "module")
            attributes["_modules"][name] = _run_registration_hooks("module", self, name, value)
        elif name in attributes.get("_modules", ()):
            if value is not None:
                self._refuse(name, value, "child module", "torch.nn.Module")
            attributes["_modules"][name] = _run_registration_hooks("module", self, name, value)
        elif isinstance(value, Buffer) or name in attributes.get("_buffers", ()):
            if value is not None and not isinstance(value, Tensor):
                self._refuse(name, value, "buffer", "torch.nn.Buffer, torch.Tensor")
            persistent = value.persistent if isinstance(value, Buffer) else name not in self._non_persistent_buffers_set
            self.register_buffer(name, value, persistent)
        else:
            object.__setattr__(self, name, value)

    def _make_room(self, name: str, table: str, kind: str) -> None:
        """Delete the attribute, parameter, buffer or submodule `name`, before `name` is added to the given table."""
        attributes = self.__dict__
        if table not in attributes:
            raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
        for other in (attributes, *(attributes[t] for t in ("_parameters", "_buffers", "_modules") if t != table)):
            other.pop(name, None)
        self._non_persistent_buffers_set.discard(name)

    def _refuse(self, name: str, value: Any, kind: str, expected: str) -> None:
        raise TypeError(f"cannot assign '{_kind(value)}' as {kind} '{name}' ({expected} or None expected)")

    def __delattr__(self, name: str) -> None:
        for table in (self._parameters, self._buffers, self._modules):
            if name in table:
                del table[name]
                self._non_persistent_buffers_set.discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        names = {*object.__dir__(self)} - _private_names()
        names |= {*self._parameters, *self._buffers, *self._modules}
        return sorted(name for name in names if not name[0].isdigit())

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter under a name.

        Raises
        ------
        KeyError
            If the name is taken, empty, or has a dot.
        """
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        self._check_name(name, "parameter", self._parameters)
        if param is not None:
            if not isinstance(param, Parameter):
                raise TypeError(
                    f"cannot assign '{_kind(param)}' object to parameter '{name}' (torch.nn.Parameter or None required)"
                )
            if param.grad_fn is not None:
                raise ValueError(
                    f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created "
                    f"explicitly. To express '{name}' as a function of another Tensor, compute the value in the "
                    "forward() method."
                )
            param = _run_registration_hooks("parameter", self, name, param)
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is part of the module's state but is not trained.

        Parameters
        ----------
        name : str
        tensor : Tensor or None
        persistent : bool
            Whether it is part of the `state_dict`.
        """
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        self._check_name(name, "buffer", self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{_kind(tensor)}' object to buffer '{name}' (torch Tensor or None required)"
            )
        self._buffers[name] = _run_registration_hooks("buffer", self, name, tensor)
        change = self._non_persistent_buffers_set
        (change.discard if persistent else change.add)(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a submodule under a name."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{_kind(module)} is not a Module subclass")
        self._check_name(name, "module", self._modules)
        self._modules[name] = _run_registration_hooks("module", self, name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """Add a submodule under a name."""
        self.add_module(name, module)

    def _check_name(self, name: str, kind: str, table: Any) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {_kind(name)}")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain "."' + (f", got: {name}" if kind == "module" else ""))
        if not name:
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if name not in table and hasattr(self, name):
            raise KeyError(f"attribute '{name}' already exists")

    # -- walks ----------------------------------------------------------------------------------------------------

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """Yield pairs of dotted name and module, for the module itself and all its descendants."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, child in self._modules.items():
            if child is not None:
                yield from child.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """Yield the module itself and all its descendants."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yield pairs of name and module, for the immediate submodules."""
        seen = set()
        for name, child in self._modules.items():
            if child is not None and child not in seen:
                seen.add(child)
                yield name, child

    def children(self) -> Iterator[Module]:
        """Yield the immediate submodules."""
        for _, child in self.named_children():
            yield child

    def _named_members(
        self,
        get_members_fn: Callable[[Module], Any],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        parts = self.named_modules(None, prefix, remove_duplicate) if recurse else [(prefix, self)]
        for path, module in parts:
            for name, tensor in get_members_fn(module):
                if tensor is not None and not (remove_duplicate and id(tensor) in seen):
                    seen.add(id(tensor))
                    yield f"{path}.{name}" if path else name, tensor

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Yield pairs of dotted name and parameter, each parameter once."""
        return self._named_members(lambda m: m._parameters.items(), prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Yield the parameters of this module and its descendants, each once."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Yield pairs of dotted name and buffer."""
        return self._named_members(lambda m: m._buffers.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Yield the buffers of this module and its descendants."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def _member(self, name: str) -> Any:
        if not hasattr(self, name):
            raise AttributeError(f"{self._get_name()} has no attribute `{name}`")
        return getattr(self, name)

    def get_submodule(self, target: str) -> Module:
        """Return the submodule with this dotted name.

        Raises
        ------
        AttributeError
            If there is none.
        """
        module: Module = self
        for name in target.split(".") if target else ():
            module = module._member(name)
            if not isinstance(module, Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Replace the submodule with this dotted name.

        Parameters
        ----------
        target : str
        module : Module
        strict : bool
            Whether there must be a module of that name already.
        """
        if not target:
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        parent_name, _, name = target.rpartition(".")
        parent = self.get_submodule(parent_name)
        if (strict or hasattr(parent, name)) and not isinstance(parent._member(name), Module):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """Return the parameter with this dotted name."""
        parent_name, _, name = target.rpartition(".")
        result = self.get_submodule(parent_name)._member(name)
        if not isinstance(result, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return result

    def get_buffer(self, target: str) -> Tensor:
        """Return the buffer with this dotted name."""
        parent_name, _, name = target.rpartition(".")
        module = self.get_submodule(parent_name)
        result = module._member(name)
        if name not in module._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return result  # type: ignore[no-any-return]

    # -- all at once ----------------------------------------------------------------------------------------------

    def train(self, mode: bool = True) -> Self:
        """Set training mode for this module and its descendants."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for child in self.children():
            child.train(mode)
        return self

    def eval(self) -> Self:
        """Set evaluation mode for this module and its descendants."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Freeze or unfreeze all parameters."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset the gradients of all parameters: to None, or to zeros."""
        for parameter in self.parameters():
            grad = parameter.grad
            if grad is None:
                continue
            if set_to_none:
                parameter.grad = None
                continue
            if grad.grad_fn is not None:
                grad.detach_()
            else:
                grad.requires_grad_(False)
            grad.zero_()

    def apply(self, fn: Callable[[Module], Any]) -> Self:
        """Call a function on every module, children first."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def share_memory(self) -> Self:
        """Move parameters and buffers to memory shared by processes; see `Tensor.share_memory_`."""
        for t in (*self.parameters(), *self.buffers()):
            t.share_memory_()
        return self

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile the calls of this module in place, including hooks; see `gradcore.compile` for the arguments.

        Copies and pickles of the module are not compiled.

        Examples
        --------
        >>> import gradcore as gc
        >>> net = gc.nn.Linear(2, 1)
        >>> net.compile(fullgraph=True)
        >>> net(gc.ones(3, 2)).shape, list(net.state_dict())
        (torch.Size([3, 1]), ['weight', 'bias'])
        """
        self._compiled_call_impl = functional.compile(self._call_impl, *args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_compiled_call_impl"}

    # -- printing -------------------------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """Return the text between the parentheses in the `repr` of the module."""
        return ""

    def _get_name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        text = self.extra_repr()
        extra_lines = text.split("\n") if text else []
        lines = [f"({name}): " + _addindent(repr(child), 2) for name, child in self._modules.items()]
        if not lines and len(extra_lines) < 2:
            return f"{self._get_name()}({text})"
        return f"{self._get_name()}(\n  " + "\n  ".join(extra_lines + lines) + "\n)"

    def _repr_html_(self) -> str:
        from gradcore.tools.viz.outline import outline

        return outline(self)


@functools.cache
def _private_names() -> frozenset[str]:
    """Return the names that every module has, and that are not meant for users."""
    return frozenset(name for name in (*dir(Module), *vars(Module())) if name[0] == "_" and name[:2] != "__")
