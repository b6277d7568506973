"""Subclasses of tensors that override operations with ``__torch_function__``.

The class `Overriding` is inserted into the bases of such a subclass, in front of `Tensor`. Plain tensors are therefore
not slowed down, and methods that the subclass defines take precedence over those of `Overriding`.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

from gradcore import functional
from gradcore.autograd import variables
from gradcore.autograd.variables import PLAIN_TYPES, as_class
from gradcore.core.operators import OPERATORS
from gradcore.core.typing import AnyTensor
from gradcore.dispatch.foreign import refuse_function
from gradcore.dispatch.torch_function import (
    DisableTorchFunction,
    DisableTorchFunctionSubclass,
    hand_over,
    overriding_arguments,
    takes_over,
)
from gradcore.tensor import Tensor
from gradcore.tensor.namespaces import LazyAttribute, LazyMethod
from gradcore.tensor.operators import as_operand

__all__ = ["NOT_CONVERTED", "OWN", "as_subclass", "enlist", "make_subclass", "torch_function"]

#: Attributes whose values keep their class.
NOT_CONVERTED = {Tensor._base.__get__, Tensor.grad.__get__, Tensor._grad.__get__}

#: Methods that do not call ``__torch_function__``: creation, comparison of identity, and methods that call others.
OWN = frozenset((
    "__array_ufunc__", "__class__", "__getattribute__", "__hash__", "__init__", "__init_subclass__", "__iter__",
    "__new__", "__setattr__", "__setstate__", "__torch_function__", "_cdata", "_make_subclass", "as_subclass",
))  # fmt: skip

#: Operators that are passed to ``__torch_function__`` as themselves; the others are passed as their method.
BY_OWN_NAME = frozenset((
    "__and__", "__eq__", "__floordiv__", "__lshift__", "__or__", "__rfloordiv__", "__rlshift__",
    "__rmatmul__", "__rmod__", "__rpow__", "__rrshift__", "__rshift__", "__rsub__", "__xor__",
))  # fmt: skip


def torch_function(
    cls: type, func: Callable[..., Any], types: tuple[type, ...], args: Any = (), kwargs: Any = None
) -> Any:
    """Call the function, and convert its results to the subclass: the default ``__torch_function__``.

    Parameters
    ----------
    func : callable
        The function or method that was called, or the getter or setter of an attribute.
    types : tuple of type
        The classes of the arguments that override calls.
    args, kwargs
        The arguments.
    """
    refuse_function(func)
    if not all(issubclass(cls, each) for each in types):
        return NotImplemented
    with DisableTorchFunctionSubclass():
        result = func(*args, **(kwargs or {}))
        return result if func in NOT_CONVERTED else _convert_result(result, cls)


def _convert_result(result: Any, cls: type) -> Any:
    if cls is Tensor:
        return result
    if isinstance(result, Tensor):
        return result if isinstance(result, cls) else as_subclass(result, cls)
    if isinstance(result, (tuple, list)):
        parts = [_convert_result(part, cls) for part in result]
        return type(result)(*parts) if hasattr(result, "_fields") else type(result)(parts)
    return result


def as_subclass(self: Tensor, cls: type) -> Any:
    """Return a view of the whole tensor, with its history, as an instance of a subclass of `Tensor`."""
    if not issubclass(cls, Tensor):
        raise RuntimeError(f"as_subclass expects a subclass of Tensor, but got {cls.__name__}")
    with DisableTorchFunction():
        return as_class(functional.alias(self), cls)


def make_subclass(cls: type, data: Tensor, require_grad: bool = False) -> Any:
    """Return a leaf that shares memory with `data`, as an instance of a subclass of `Tensor`."""
    if data.__class__ in PLAIN_TYPES:
        out = as_class(data.detach(), cls)
    else:
        with DisableTorchFunction():
            out = as_class(data.detach(), cls)
    return out.requires_grad_() if require_grad else out


# -- classes whose methods go through the protocol -------------------------------------------------------------------


def enlist(cls: type, between: bool = False, **kwargs: Any) -> None:
    """Put `Overriding` among the bases of a new subclass if it overrides operations."""
    super(Tensor, cls).__init_subclass__(**kwargs)  # type: ignore[misc]
    if between:
        return
    if not takes_over(cls):
        PLAIN_TYPES.add(cls)
        return
    variables.subclasses_used = True
    overriding = _overriding()
    if not issubclass(cls, overriding):
        bases = tuple(overriding if base is Tensor else base for base in cls.__bases__)
        cls.__bases__ = bases if overriding in bases else (*bases, overriding)


@functools.cache
def _overriding() -> type:
    """Return the class between `Tensor` and its overriding subclasses, created with the first of them."""
    body: dict[str, Any] = {"__slots__": (), "__doc__": "Tensor, with ``__torch_function__`` asked first."}
    for name in dir(Tensor):
        value = next((vars(each)[name] for each in Tensor.__mro__[:-1] if name in vars(each)), None)
        if name in OWN:
            continue
        if isinstance(value, LazyAttribute):
            value = getattr(Tensor, name)
        if isinstance(value, types.FunctionType):
            body[name] = _method(value)
        elif isinstance(value, LazyMethod):
            body[name] = LazyMethod(name, _method_of, name, _overriding)
        elif isinstance(value, property):
            body[name] = _attribute(value)
    for each in OPERATORS.values():
        operation = getattr(Tensor, each.operation)
        methods = {form: getattr(Tensor, name) if name in BY_OWN_NAME else operation for form, name in each.methods}
        for form, name in each.methods:
            if form == "unary":
                body[name] = _method(operation)
            elif form == "left":
                body[name] = _operator(methods["left"])
            elif form == "right":
                body[name] = _reflect(methods["right"], methods["left"])
    body["__rtruediv__"] = _reflect(Tensor.__rdiv__, Tensor.div)
    body["__hash__"] = Tensor.__hash__
    return type("Overriding", (Tensor,), body, between=True)


def _method_of(name: str) -> Callable[..., Any]:
    return _method(getattr(Tensor, name))


def _method(func: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(func)
    def method(self: AnyTensor, *args: Any, **kwargs: Any) -> Any:
        result = overriding_arguments((self, *args, *kwargs.values()))
        return hand_over(func, result, (self, *args), kwargs) if result else func(self, *args, **kwargs)

    return method


def _attribute(attribute: property) -> property:
    def accessor(access: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: AnyTensor, *value: Any) -> Any:
            result = overriding_arguments((self, *value))
            return hand_over(access, result, (self, *value), {}) if result else access(self, *value)

        return call

    return property(
        accessor(attribute.__get__),
        accessor(attribute.__set__) if attribute.fset else None,
        accessor(attribute.__delete__) if attribute.fdel else None,
        attribute.__doc__,
    )


def _operator(func: Callable[..., Any]) -> Callable[..., Any]:
    call = _method(func)

    @functools.wraps(call)
    def method(self: AnyTensor, other: Any) -> Any:
        if not takes_over(type(other)):
            other = as_operand(other)
        return NotImplemented if other is None else call(self, other)

    return method


def _reflect(func: Callable[..., Any], forward: Callable[..., Any]) -> Callable[..., Any]:
    """Return the method for ``other op self``.

    If `other` is a tensor, Python has called this method first, because it is of a subclass.
    """
    call, reflected = _operator(func), _operator(forward)

    def method(self: AnyTensor, other: Any) -> Any:
        return reflected(other, self) if isinstance(other, Tensor) else call(self, other)

    return method
