"""Modules: parameters, buffers and submodules under names, and a forward computation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gradcore.autograd.hooks import RemovableHandle
from gradcore.nn import state
from gradcore.nn.backward_hooks import watch_backward
from gradcore.nn.parameter import Buffer, Parameter
from gradcore.tensor import Tensor
from gradcore.transfer import parse_to

__all__ = ["Module", "register_module_forward_hook", "register_module_forward_pre_hook"]

_global_forward: dict[int, Any] = {}
_global_forward_pre: dict[int, Any] = {}

_TABLES = (
    "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks", "_state_dict_hooks",
    "_state_dict_pre_hooks", "_load_pre_hooks", "_load_post_hooks",
)  # fmt: skip


def register_module_forward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, args, output)`` after the forward of every module."""
    return RemovableHandle(_global_forward, (hook, False))


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, args)`` before the forward of every module."""
    return RemovableHandle(_global_forward_pre, (hook, False))


class Module:
    """The base of all modules: assign parameters and modules as attributes in ``__init__`` and define ``forward``.

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

    training: bool
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Module | None]
    #: Names of buffers that are not part of the state.
    _transient: set[str]

    def __init__(self) -> None:
        own = self.__dict__
        own["training"] = True
        own["_parameters"], own["_buffers"], own["_modules"], own["_transient"] = {}, {}, {}, set()
        for name in _TABLES:
            own[name] = {}

    def forward(self, *args: Any, **named: Any) -> Any:
        """The computation; define it in the subclass."""
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    # -- calls ----------------------------------------------------------------------------------------------------

    def __call__(self, *args: Any, **named: Any) -> Any:
        own = self._forward_hooks or self._forward_pre_hooks or self._backward_hooks or self._backward_pre_hooks
        if own or _global_forward or _global_forward_pre:
            return self._hooked_call(args, named)
        return self.forward(*args, **named)

    def _hooked_call(self, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        for hook, with_named in [*_global_forward_pre.values(), *self._forward_pre_hooks.values()]:
            result = hook(self, args, named) if with_named else hook(self, args)
            if result is not None and with_named:
                args, named = result
            elif result is not None:
                args = result if isinstance(result, tuple) else (result,)
        if self._backward_hooks or self._backward_pre_hooks:
            result = watch_backward(self, args, lambda inputs: self.forward(*inputs, **named))
        else:
            result = self.forward(*args, **named)
        for hook, with_named in [*_global_forward.values(), *self._forward_hooks.values()]:
            replaced = hook(self, args, named, result) if with_named else hook(self, args, result)
            result = result if replaced is None else replaced
        return result

    # -- attributes -----------------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        for table in ("_parameters", "_buffers", "_modules"):
            found = self.__dict__.get(table)
            if found is not None and name in found:
                return found[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if isinstance(value, (Parameter, Module, Buffer)):
            if "_parameters" not in own:
                raise AttributeError(f"cannot assign {type(value).__name__.lower()} before Module.__init__() call")
            self._forget(name)
            if isinstance(value, Parameter):
                self.register_parameter(name, value)
            elif isinstance(value, Module):
                own["_modules"][name] = value
            else:
                self.register_buffer(name, value, value.persistent)
            return
        for table, kind in (("_parameters", "parameter"), ("_modules", "child module"), ("_buffers", "buffer")):
            if name in own.get(table, ()):
                if value is not None and not (kind == "buffer" and isinstance(value, Tensor)):
                    needed = {"parameter": "torch.nn.Parameter", "child module": "torch.nn.Module"}.get(
                        kind, "torch.Tensor"
                    )
                    raise TypeError(
                        f"cannot assign '{type(value).__name__}' as {kind} '{name}' ({needed} or None expected)"
                    )
                own[table][name] = value
                return
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        if not self._forget(name):
            object.__delattr__(self, name)

    def _forget(self, name: str) -> bool:
        self._transient.discard(name)
        found = [table for table in (self._parameters, self._buffers, self._modules) if name in table]
        for table in found:
            del table[name]
        if not found and name in self.__dict__:
            del self.__dict__[name]
            return True
        return bool(found)

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *self._parameters, *self._buffers, *self._modules})

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter under a name."""
        self._check_name(name, self._parameters, "parameter")
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{type(param).__name__}' object to parameter '{name}' (torch.nn.Parameter or None "
                "required)"
            )
        if param is not None and not param.is_leaf:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created explicitly. To "
                "express it as a function of another Tensor, compute the value in the forward() method."
            )
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is part of the module's state but is not trained."""
        self._check_name(name, self._buffers, "buffer")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{type(tensor).__name__}' object to buffer '{name}' (torch Tensor or None required)"
            )
        self._buffers[name] = tensor
        (self._transient.discard if persistent else self._transient.add)(name)

    def register_module(self, name: str, module: Module | None) -> None:
        """Add a submodule under a name."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{type(module).__name__} is not a Module subclass")
        self._check_name(name, self._modules, "module")
        self._modules[name] = module

    add_module = register_module

    def _check_name(self, name: str, table: Any, kind: str) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {type(name).__name__}")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain ".", got: {name}')
        if not name:
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if hasattr(self, name) and name not in table:
            raise KeyError(f"attribute '{name}' already exists")

    # -- walks ----------------------------------------------------------------------------------------------------

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """The module itself and all below it, with dotted names."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, child in self._modules.items():
            if child is not None:
                yield from child.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def modules(self) -> Iterator[Module]:
        """The module itself and all below it."""
        for _, module in self.named_modules():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules directly below, with their names."""
        seen = set()
        for name, child in self._modules.items():
            if child is not None and child not in seen:
                seen.add(child)
                yield name, child

    def children(self) -> Iterator[Module]:
        """The modules directly below."""
        for _, child in self.named_children():
            yield child

    def _named(self, table: str, prefix: str, recurse: bool, unique: bool) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        parts = self.named_modules(prefix=prefix, remove_duplicate=unique) if recurse else [(prefix, self)]
        for where, module in parts:
            for name, tensor in getattr(module, table).items():
                if tensor is not None and not (unique and id(tensor) in seen):
                    seen.add(id(tensor))
                    yield f"{where}.{name}" if where else name, tensor

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Parameters with dotted names; each once."""
        return self._named("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Parameters of this module and those below it; each once."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Buffers with dotted names."""
        return self._named("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Buffers of this module and those below it."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def get_submodule(self, target: str) -> Module:
        """The module of that dotted name.

        Raises
        ------
        AttributeError
            If there is none.
        """
        module: Module = self
        for name in target.split(".") if target else ():
            child = module._modules.get(name)
            if child is None:
                raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
            module = child
        return module

    def get_parameter(self, target: str) -> Parameter:
        """The parameter of that dotted name."""
        where, _, name = target.rpartition(".")
        found = self.get_submodule(where)._parameters.get(name)
        if found is None:
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return found

    def get_buffer(self, target: str) -> Tensor:
        """The buffer of that dotted name."""
        where, _, name = target.rpartition(".")
        found = self.get_submodule(where)._buffers.get(name)
        if found is None:
            raise AttributeError(f"`{name}` is not a buffer")
        return found

    # -- state ----------------------------------------------------------------------------------------------------

    def state_dict(self, *, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> dict[str, Any]:
        """Parameters and persistent buffers by dotted name; their memory is shared."""
        return state.state_dict(self, destination, prefix, keep_vars)  # type: ignore[no-any-return]

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> state.IncompatibleKeys:
        """Copy the values of a `state_dict` into this module.

        Raises
        ------
        RuntimeError
            If shapes differ or, where `strict`, names do; nothing is changed then.
        """
        return state.load_state_dict(self, state_dict, strict, assign)

    def get_extra_state(self) -> Any:
        """Further state, to be defined in subclasses; None if there is none."""
        return None

    def set_extra_state(self, state: Any) -> None:
        """Take what `get_extra_state` returned."""
        raise RuntimeError("Reached a code path in Module.set_extra_state() that should never be called.")

    # -- all at once ----------------------------------------------------------------------------------------------

    def train(self, mode: bool = True) -> Module:
        """Set training mode, on this module and all below it."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Module:
        """Set evaluation mode."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Module:
        """Freeze or unfreeze all parameters."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or fill them with zeros."""
        for parameter in self.parameters():
            if parameter.grad is None:
                continue
            if set_to_none:
                parameter.grad = None
            else:
                parameter.grad = parameter.grad.detach()
                parameter.grad.zero_()

    def apply(self, fn: Callable[[Module], Any]) -> Module:
        """Call a function on every module, children first."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def _apply(self, fn: Callable[[Tensor], Tensor]) -> Module:
        """Replace the data of all parameters, gradients and buffers; parameters stay the same objects."""
        for module in self.modules():
            for parameter in module._parameters.values():
                if parameter is not None:
                    grad = parameter._grad
                    parameter.grad = None
                    parameter.data = fn(parameter.detach())
                    if grad is not None:
                        parameter.grad = fn(grad)
            for name, buffer in module._buffers.items():
                if buffer is not None:
                    module._buffers[name] = fn(buffer)
        return self

    def to(self, *args: Any, **named: Any) -> Module:
        """Move parameters and buffers to a device, and floating-point ones to a dtype."""

        def convert(t: Tensor) -> Tensor:
            device, dtype, _ = parse_to(t, args, dict(named))
            return t.to(device, dtype if t._dtype.category > 1 else t._dtype)

        return self._apply(convert)

    def cpu(self) -> Module:
        """Move to the CPU."""
        return self.to("cpu")

    def cuda(self, device: Any = None) -> Module:
        """Move to a CUDA device."""
        return self.to("cuda" if device is None else device)

    def type(self, dst_type: Any) -> Module:
        """Convert all parameters and buffers to a dtype."""
        return self._apply(lambda t: t.to(dst_type))

    def _convert(self, name: str) -> Module:
        return self._apply(lambda t: getattr(t, name)() if t.is_floating_point() else t)

    def float(self) -> Module:
        """Convert floating-point parameters and buffers to float32."""
        return self._convert("float")

    def double(self) -> Module:
        """Convert floating-point parameters and buffers to float64."""
        return self._convert("double")

    def half(self) -> Module:
        """Convert floating-point parameters and buffers to float16."""
        return self._convert("half")

    def bfloat16(self) -> Module:
        """Convert floating-point parameters and buffers to bfloat16."""
        return self._convert("bfloat16")

    # -- hooks ----------------------------------------------------------------------------------------------------

    def register_forward_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args, output)`` after `forward`; it may return another output."""
        return self._hook(self._forward_hooks, (hook, with_kwargs), prepend)

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args)`` before `forward`; it may return other arguments."""
        return self._hook(self._forward_pre_hooks, (hook, with_kwargs), prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, grad_input, grad_output)`` when the gradients of the inputs are known."""
        return self._hook(self._backward_hooks, hook, prepend)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, grad_output)`` when the gradients of the outputs are known."""
        return self._hook(self._backward_pre_hooks, hook, prepend)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, prefix, keep_vars)`` before the state is collected."""
        return self._hook(self._state_dict_pre_hooks, hook, False)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, local_metadata)`` after the state is collected."""
        return self._hook(self._state_dict_hooks, hook, False)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, state_dict)`` before state is loaded."""
        return self._hook(self._load_pre_hooks, hook, False)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, incompatible_keys)`` after state is loaded."""
        return self._hook(self._load_post_hooks, hook, False)

    @staticmethod
    def _hook(table: dict[int, Any], hook: Any, prepend: bool) -> RemovableHandle:
        handle = RemovableHandle(table, hook)
        if prepend:
            others = {key: value for key, value in table.items() if key != handle.id}
            table.clear()
            table.update({handle.id: hook, **others})
        return handle

    # -- printing -------------------------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """What stands between the parentheses when the module is printed."""
        return ""

    def _get_name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = [f"({name}): " + repr(child).replace("\n", "\n  ") for name, child in self._modules.items()]
        if not lines:
            return f"{self._get_name()}({extra})"
        head = [line for line in extra.split("\n") if line]
        return f"{self._get_name()}(\n  " + "\n  ".join(head + lines) + "\n)"
