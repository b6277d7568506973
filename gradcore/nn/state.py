"""Saving and loading what modules hold."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from gradcore.autograd.grad_mode import no_grad
from gradcore.nn.parameter import Parameter
from gradcore.tensor import Tensor

if TYPE_CHECKING:
    from gradcore.nn.module import Module

__all__ = ["IncompatibleKeys", "load_state_dict", "state_dict"]


class IncompatibleKeys(NamedTuple):
    """What `Module.load_state_dict` did not find, and what it did not expect."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


def state_dict(module: Module, destination: Any, prefix: str, keep_vars: bool) -> Any:
    """Parameters and persistent buffers by name; `destination` is filled and returned."""
    if destination is None:
        destination = OrderedDict()
    for hook in module._state_dict_pre_hooks.values():
        hook(module, prefix, keep_vars)
    own = {**module._parameters, **{n: b for n, b in module._buffers.items() if n not in module._transient}}
    for name, tensor in own.items():
        if tensor is not None:
            destination[prefix + name] = tensor if keep_vars else tensor.detach()
    extra = module.get_extra_state()
    if extra is not None:
        destination[prefix + "_extra_state"] = extra
    for name, child in module._modules.items():
        if child is not None:
            child.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
    for hook in module._state_dict_hooks.values():
        destination = hook(module, destination, prefix, {}) or destination
    return destination


def load_state_dict(module: Module, state: Mapping[str, Any], strict: bool, assign: bool) -> IncompatibleKeys:
    """Copy values into a module's parameters and buffers; nothing is changed where something does not fit."""
    if not isinstance(state, Mapping):
        raise TypeError(f"Expected state_dict to be dict-like, got {type(state)}.")
    for part in module.modules():
        for hook in part._load_pre_hooks.values():
            hook(part, state)
    plan: list[tuple[Module, str, Tensor, Any]] = []
    missing, errors = [], []
    expected = set()
    for prefix, part in module.named_modules(remove_duplicate=False):
        dotted = f"{prefix}." if prefix else ""
        own = {**part._parameters, **{n: b for n, b in part._buffers.items() if n not in part._transient}}
        for name, tensor in own.items():
            if tensor is None:
                continue
            key = dotted + name
            expected.add(key)
            if key not in state:
                missing.append(key)
                continue
            value = state[key]
            if not isinstance(value, Tensor):
                errors.append(
                    f'While copying the parameter named "{key}", expected Tensor or Tensor-like object from checkpoint '
                    f"but received {type(value)}"
                )
            elif tuple(value.shape) != tuple(tensor.shape):
                errors.append(
                    f"size mismatch for {key}: copying a param with shape {value.shape} from checkpoint, the shape in "
                    f"current model is {tensor.shape}."
                )
            else:
                plan.append((part, name, tensor, value))
        if dotted + "_extra_state" in state:
            expected.add(dotted + "_extra_state")
            part.set_extra_state(state[dotted + "_extra_state"])
    unexpected = [key for key in state if key not in expected]
    if strict:
        if unexpected:
            errors.insert(0, "Unexpected key(s) in state_dict: " + ", ".join(f'"{k}"' for k in unexpected) + ". ")
        if missing:
            errors.insert(0, "Missing key(s) in state_dict: " + ", ".join(f'"{k}"' for k in missing) + ". ")
    if errors:
        text = "\n\t".join(errors)
        raise RuntimeError(f"Error(s) in loading state_dict for {type(module).__name__}:\n\t{text}")
    with no_grad():
        for part, name, tensor, value in plan:
            if not assign:
                tensor.copy_(value)
            elif name in part._parameters:
                part._parameters[name] = (
                    value if isinstance(value, Parameter) else Parameter(value, requires_grad=tensor.requires_grad)
                )
            else:
                part._buffers[name] = value
    keys = IncompatibleKeys(missing, unexpected)
    for part in module.modules():
        for hook in part._load_post_hooks.values():
            hook(part, keys)
    return keys
