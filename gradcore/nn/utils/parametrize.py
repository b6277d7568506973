"""Parametrizations: parameters and buffers computed from other tensors at each access, or once inside `cached`."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Sequence
from typing import Any

from gradcore.autograd.grad_mode import no_grad
from gradcore.core.typing import AnyTensor
from gradcore.nn.containers import ModuleDict, ModuleList
from gradcore.nn.module import Module
from gradcore.nn.parameter import Parameter
from gradcore.tensor import Tensor

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]


class _Cache:
    """Cache of parametrized tensors inside `cached`, by module and name."""

    depth = 0
    values: dict[tuple[int, str], Tensor] = {}  # noqa: RUF012  (one for the process)


@contextlib.contextmanager
def cached() -> Iterator[None]:
    """Cache parametrized tensors inside this context manager: each is computed on its first access only.

    Examples
    --------
    >>> import gradcore as gc
    >>> with gc.nn.utils.parametrize.cached():
    ...     pass
    """
    _Cache.depth += 1
    try:
        yield
    finally:
        _Cache.depth -= 1
        if not _Cache.depth:
            _Cache.values.clear()


def _register(module: Module, name: str, t: Tensor) -> None:
    if isinstance(t, Parameter):
        module.register_parameter(name, t)
    else:
        module.register_buffer(name, t)


def _check_alike(expected: Tensor, found: Tensor, attributes: tuple[str, ...], message: str) -> None:
    """Raise an error if one of `attributes` differs between two tensors.

    `message` is a format string with fields for the name of the attribute and both values.
    """
    for attribute in attributes:
        a, b = getattr(expected, attribute), getattr(found, attribute)
        if a != b:
            raise ValueError(message.format(what=attribute, expected=a, found=b))


_CHANGED = "Registering a parametrization may not change the {{what}} of the tensor, unless {} flag is enabled."


def _as_tensor(value: Any) -> Tensor:
    if not isinstance(value, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(value).__name__}.")
    return value


class ParametrizationList(ModuleList):
    """Functions that compute a tensor, applied one after the other to the stored tensors.

    Parameters
    ----------
    modules : sequence of Module
        The functions. If they have a method ``right_inverse``, it computes the stored tensors.
    original : Tensor
        The tensor as it was.
    unsafe : bool
        Whether shape and dtype may change.

    Examples
    --------
    >>> import gradcore as gc
    >>> layer = gc.nn.utils.parametrizations.weight_norm(gc.nn.Linear(2, 3))
    >>> len(layer.parametrizations.weight)
    1
    """

    original: Tensor

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        new: Any = original
        with no_grad():
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    with contextlib.suppress(NotImplementedError):
                        new = module.right_inverse(new)
        self.is_tensor = isinstance(new, Tensor)
        if not self.is_tensor and not isinstance(new, Sequence):
            raise ValueError(
                f"'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got "
                f"{type(new).__name__}"
            )
        self.ntensors = 1 if self.is_tensor else len(new)
        before = original.detach().clone() if new is original else original.detach()
        if self.is_tensor:
            self._take_one(original, new)
        else:
            self._take_several(original, new)
        if not unsafe:
            message = "\nunparametrized {what}: {expected}\nparametrized {what}: {found}"
            _check_alike(before, _as_tensor(self()), ("dtype", "shape"), _CHANGED.format("`unsafe`") + message)

    def _take_one(self, original: Tensor, new: Tensor) -> None:
        message = (
            "When `right_inverse` outputs one tensor, it may not change the {what}.\noriginal.{what}: {expected}\n"
            "right_inverse(original).{what}: {found}"
        )
        _check_alike(original, new, ("dtype", "device"), message)
        with no_grad():
            original.data = new
        _register(self, "original", original)

    def _take_several(self, original: Tensor, new: Sequence[Any]) -> None:
        for i, t in enumerate(new):
            if not isinstance(t, Tensor):
                raise ValueError(
                    "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got element "
                    f"{i} of the sequence with type {type(t).__name__}."
                )
            t = Parameter(t, original.requires_grad) if isinstance(original, Parameter) else t
            _register(self, f"original{i}", t.requires_grad_(original.requires_grad))

    @property
    def _stored_names(self) -> list[str]:
        """Names of the stored tensors."""
        return ["original"] if self.is_tensor else [f"original{i}" for i in range(self.ntensors)]

    def _originals(self) -> list[Tensor]:
        return [getattr(self, name) for name in self._stored_names]

    @no_grad()
    def right_inverse(self, value: Any) -> None:
        """Set the stored tensors so that the parametrized tensor equals `value`."""
        for module in reversed(list(self)):
            if not hasattr(module, "right_inverse"):
                raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
            value = module.right_inverse(value)
        if self.is_tensor and not isinstance(value, Tensor):
            raise ValueError(f"`right_inverse` should return a tensor. Got {type(value).__name__}")
        values = [value] if self.is_tensor else list(value)
        if len(values) != self.ntensors:
            raise ValueError(
                f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. Got a sequence of "
                f"length {len(values)}."
            )
        for original, t in zip(self._originals(), values, strict=True):
            if original.dtype != t.dtype:
                raise ValueError(
                    f"The tensor returned by `right_inverse` has dtype {t.dtype} while `original` has dtype "
                    f"{original.dtype}"
                )
            original.data = t

    def forward(self) -> Tensor:
        """Return the parametrized tensor."""
        first, *rest = self
        out = first(*self._originals())
        for module in rest:
            out = module(out)
        return out  # type: ignore[no-any-return]


def _deepcopy(self: AnyTensor, memo: dict[int, Any]) -> Any:
    if id(self) not in memo:
        memo[id(self)] = twin = self.__new__(type(self))
        twin.__dict__ = copy.deepcopy(self.__dict__, memo)
    return memo[id(self)]


def _getstate(self: AnyTensor) -> Any:
    raise RuntimeError("Serialization of parametrized modules is only supported through state_dict().")


def _give_properties(module: Module) -> None:
    """Give a module a class of its own, for the properties of its parametrized tensors."""
    cls = type(module)
    body: dict[str, Any] = {"__getstate__": _getstate}
    if not hasattr(cls, "__deepcopy__"):
        body["__deepcopy__"] = _deepcopy
    module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), body)


def _property(name: str) -> property:
    def get(self: AnyTensor) -> Tensor:
        parametrizations = self.parametrizations[name]
        if not _Cache.depth:
            return parametrizations()  # type: ignore[no-any-return]
        key = id(self), name
        if key not in _Cache.values:
            _Cache.values[key] = parametrizations()
        return _Cache.values[key]

    def put(self: AnyTensor, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    return property(get, put)


def tensor_of(module: Module, name: str) -> Tensor:
    """Return the parameter or buffer called `name`, in the form that parametrizations of this package need."""
    tensor = getattr(module, name, None)
    if not isinstance(tensor, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return tensor


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Replace a parameter or buffer of a module by a function of stored tensors.

    Parameters
    ----------
    module : Module
    tensor_name : str
        The name of a parameter or buffer of the module.
    parametrization : Module
        The function. If it has a method ``right_inverse``, the tensor can be assigned to, and keeps its first value.
    unsafe : bool
        Whether the function may change shape and dtype.

    Returns
    -------
    Module
        The module.

    Examples
    --------
    >>> from gradcore import nn
    >>> class Symmetric(nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).T
    >>> layer = nn.Linear(3, 3)
    >>> _ = nn.utils.parametrize.register_parametrization(layer, "weight", Symmetric())
    >>> bool((layer.weight == layer.weight.T).all())
    True
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            before = getattr(module, tensor_name)
            _check_next(parametrization, before, tensor_name)
        parametrizations = module.parametrizations[tensor_name]
        parametrizations.append(parametrization)
        parametrizations.unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        parametrizations = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _give_properties(module)
            module.parametrizations = ModuleDict()
        setattr(type(module), tensor_name, _property(tensor_name))
        module.parametrizations[tensor_name] = parametrizations
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name "
            f"'{tensor_name}'"
        )
    return module


def _check_next(parametrization: Module, before: Tensor, name: str) -> None:
    """Raise an error if a further parametrization changes the shape or dtype, in forward or right_inverse."""
    transformed = _as_tensor(parametrization(before))
    message = f"\nmodule.{name}.{{what}}: {{expected}}\nparametrization(module.{name}).{{what}}: {{found}}"
    _check_alike(before, transformed, ("dtype", "shape"), _CHANGED.format("the `unsafe`") + message)
    if hasattr(parametrization, "right_inverse"):
        with contextlib.suppress(NotImplementedError):
            restored = parametrization.right_inverse(transformed)
            if not isinstance(restored, Tensor):
                raise ValueError(f"parametrization.right_inverse must return a tensor. Got: {type(restored).__name__}")
            message = (
                "The tensor returned by parametrization.right_inverse must have the same {what} as "
                f"module.{name}, unless the `unsafe` flag is enabled.\nmodule.{name}.{{what}}: {{expected}}\n"
                "returned {what}: {found}"
            )
            _check_alike(before, restored, ("dtype", "shape"), message)


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Return whether a module has parametrized tensors, or whether `tensor_name` is one.

    Parameters
    ----------
    module : Module
    tensor_name : str, optional
        Ask for the tensor of that name only.

    Returns
    -------
    bool

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.nn.utils.parametrize.is_parametrized(gc.nn.Linear(2, 3))
    False
    """
    result = getattr(module, "parametrizations", None)
    if not isinstance(result, ModuleDict):
        return False
    return len(result) > 0 if tensor_name is None else tensor_name in result


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Turn a parametrized tensor back into an ordinary parameter or buffer.

    Parameters
    ----------
    module : Module
    tensor_name : str
    leave_parametrized : bool
        Whether the tensor keeps its present value; otherwise it gets the stored one.

    Returns
    -------
    Module
        The module.

    Examples
    --------
    >>> import gradcore as gc
    >>> utils = gc.nn.utils
    >>> layer = utils.parametrizations.weight_norm(gc.nn.Linear(2, 3))
    >>> utils.parametrize.is_parametrized(utils.parametrize.remove_parametrizations(layer, "weight"))
    False
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    parametrizations = module.parametrizations[tensor_name]
    value = getattr(module, tensor_name)
    if parametrizations.is_tensor:
        original = parametrizations.original
        if leave_parametrized:
            with no_grad():
                original.data = value.detach()
    elif leave_parametrized:
        original = Parameter(value.detach()) if value.requires_grad else value
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a "
            "sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register(module, tensor_name, original)
    if not is_parametrized(module):
        del module.parametrizations
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """Return the class that a module had before it was parametrized.

    Examples
    --------
    >>> import gradcore as gc
    >>> utils = gc.nn.utils
    >>> layer = utils.parametrizations.weight_norm(gc.nn.Linear(2, 3))
    >>> utils.parametrize.type_before_parametrizations(layer).__name__
    'Linear'
    """
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Copy the parametrizations of a module to another module, with the same stored tensors.

    Parameters
    ----------
    from_module, to_module : Module
    tensor_name : str, optional
        Only that tensor.

    Returns
    -------
    Module
        `to_module`.

    Examples
    --------
    >>> import gradcore as gc
    >>> utils = gc.nn.utils
    >>> a = utils.parametrizations.weight_norm(gc.nn.Linear(2, 3))
    >>> b = utils.parametrize.transfer_parametrizations_and_params(a, gc.nn.Linear(2, 3))
    >>> utils.parametrize.is_parametrized(b)
    True
    """
    if not is_parametrized(from_module):
        return to_module
    for name in list(from_module.parametrizations) if tensor_name is None else [tensor_name]:
        source = from_module.parametrizations[name]
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name).detach()))
        for function in source:
            register_parametrization(to_module, name, function)
        target = to_module.parametrizations[name]
        for stored in source._stored_names:
            setattr(target, stored, getattr(source, stored))
    return to_module
