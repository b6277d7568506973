"""Functions of ``torch.overrides``, for objects that override operations.

A class overrides calls with its instances as arguments by defining ``__torch_function__``. The name is PyTorch's, so
classes written for PyTorch work unchanged. Subclasses of `gradcore.Tensor` inherit a method that keeps the subclass.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Self

from gradcore.autograd.modes import TORCH_FUNCTION_MODE, local
from gradcore.dispatch.torch_function import (
    DisableTorchFunction,
    DisableTorchFunctionSubclass,
    hand_over,
    overridable,
    overriding_arguments,
)
from gradcore.ops.declare.table import OPS
from gradcore.tensor import Tensor
from gradcore.tensor.subclasses import NOT_CONVERTED, OWN
from gradcore.torch_names import paths

__all__ = [
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
    "TorchFunctionMode",
    "get_default_nowrap_functions",
    "get_ignored_functions",
    "get_overridable_functions",
    "get_testing_overrides",
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "overridable",
    "resolve_name",
    "wrap_torch_function",
]


class TorchFunctionMode:
    """Context in which all operations of a thread call a method of the mode.

    Subclasses define ``__torch_function__`` as an ordinary method. While it runs, the mode itself is off, so that it
    can call `func`. Modes nest; the innermost mode is called first.

    Examples
    --------
    >>> import gradcore
    >>> class Names(gradcore.overrides.TorchFunctionMode):
    ...     def __torch_function__(self, func, types, args=(), kwargs=None):
    ...         print(func.__name__)
    ...         return func(*args, **(kwargs or {}))
    >>> x = gradcore.ones(2)
    >>> with Names():
    ...     y = (x * 2).sum()
    mul
    sum
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: tuple[type, ...], args: Any = (), kwargs: Any = None
    ) -> Any:
        """Make the call, or replace it; return `NotImplemented` to leave it to the arguments."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        state = local.state
        modes = (*state.functions, self)
        state.functions, state.mode = modes, state.mode | TORCH_FUNCTION_MODE
        return self

    def __exit__(self, *error: object) -> None:
        state = local.state
        modes = state.functions[:-1]
        state.functions, state.mode = modes, state.mode if modes else state.mode & ~TORCH_FUNCTION_MODE


def has_torch_function(relevant_args: Sequence[Any]) -> bool:
    """Return whether a mode is active, or an argument overrides calls.

    Parameters
    ----------
    relevant_args : sequence
        The arguments that may override the call.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.overrides.has_torch_function((gc.ones(1),))
    False
    """
    return bool(local.state.mode & TORCH_FUNCTION_MODE) or bool(overriding_arguments(relevant_args))


def has_torch_function_unary(relevant_arg: Any) -> bool:
    """Call `has_torch_function` with one argument.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.overrides.has_torch_function_unary(gc.ones(1))
    False
    """
    return has_torch_function((relevant_arg,))


def has_torch_function_variadic(*relevant_args: Any) -> bool:
    """Call `has_torch_function` with arguments passed one by one.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.overrides.has_torch_function_variadic(gc.ones(1), 2.0)
    False
    """
    return has_torch_function(relevant_args)


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Sequence[Any], *args: Any, **kwargs: Any
) -> Any:
    """Pass a call to a mode, or to the arguments that override it.

    Parameters
    ----------
    public_api : callable
        The function that the user called.
    relevant_args : sequence
        The arguments that may override the call.
    *args, **kwargs
        All arguments of the call.

    Raises
    ------
    TypeError
        If neither a mode nor an argument makes the call.

    Examples
    --------
    >>> import gradcore
    >>> from gradcore.overrides import handle_torch_function, has_torch_function_unary
    >>> def double(x):
    ...     if has_torch_function_unary(x):
    ...         return handle_torch_function(double, (x,), x)
    ...     return x * 2
    >>> class Always:
    ...     @classmethod
    ...     def __torch_function__(cls, func, types, args=(), kwargs=None):
    ...         return func.__name__
    >>> double(Always())
    'double'
    """
    return hand_over(public_api, overriding_arguments(relevant_args), args, kwargs)


def wrap_torch_function(dispatcher: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a function so that its arguments may override it.

    Parameters
    ----------
    dispatcher : callable
        Called with the function's arguments; returns those that may override the call.

    Examples
    --------
    >>> import gradcore as gc
    >>> @gc.overrides.wrap_torch_function(lambda x: (x,))
    ... def doubled(x):
    ...     return 2 * x
    >>> doubled(gc.ones(1))
    tensor([2.])
    """

    def decorate(func: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(func)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(wrapper, relevant, *args, **kwargs)
            return func(*args, **kwargs)

        return wrapper

    return decorate


def is_tensor_like(inp: Any) -> bool:
    """Return whether an object is a tensor, or overrides calls like a tensor.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.overrides.is_tensor_like(gc.ones(1)), gc.overrides.is_tensor_like(1.0)
    (True, False)
    """
    return type(inp) is Tensor or hasattr(inp, "__torch_function__")


def get_default_nowrap_functions() -> set[Callable[..., Any]]:
    """Return the getters of `Tensor` whose results do not become instances of the subclass.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.Tensor.grad.__get__ in gc.overrides.get_default_nowrap_functions()
    True
    """
    return set(NOT_CONVERTED)


@functools.cache
def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """Return the functions that arguments can override, by the module or class that contains them.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.sin in gc.overrides.get_overridable_functions()[gc]
    True
    """
    import gradcore

    results: dict[Any, list[Callable[..., Any]]] = {}
    for op in OPS.values():
        if op.function:
            owner = functools.reduce(getattr, op.path.split(".")[:-1], gradcore)
            results.setdefault(owner, []).append(op.call)
    results[Tensor] = [call for call in _calls_of_tensors() if call not in NOT_CONVERTED]
    return results


@functools.cache
def get_ignored_functions() -> set[Callable[..., Any]]:
    """Return the public functions that no argument can override: functions that create tensors, and settings."""
    import gradcore

    public: Any = vars(gradcore)["__all__"]
    results: set[Any] = {value for name in public if inspect.isfunction(value := getattr(gradcore, name))}
    return results - {call for calls in get_overridable_functions().values() for call in calls}


@functools.cache
def get_testing_overrides() -> dict[Callable[..., Any], Callable[..., int]]:
    """Return, for each function that arguments can override, a function with the same parameters that returns -1."""

    def override(call: Callable[..., Any]) -> Callable[..., int]:
        def answer(*args: Any, **kwargs: Any) -> int:
            return -1

        answer.__signature__ = inspect.signature(call)  # type: ignore[attr-defined]
        return answer

    return {call: override(call) for calls in get_overridable_functions().values() for call in calls}


@functools.cache
def _calls_of_tensors() -> dict[Any, str]:
    """Return the methods of `Tensor` and the getters of its attributes, with their names."""
    results: dict[Any, str] = {}
    for name in dir(Tensor):
        value = getattr(Tensor, name)
        if isinstance(value, property):
            results[value.__get__] = f"{name}.__get__"
        elif inspect.isfunction(value) and name not in OWN:
            results[value] = value.__name__
    return results


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Return whether the function of an overridden call is a method of `Tensor`, or the getter of an attribute.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.overrides.is_tensor_method_or_property(gc.Tensor.add)
    True
    """
    return func in _calls_of_tensors() or getattr(func, "__name__", "") in ("__get__", "__set__", "__delete__")


def resolve_name(f: Callable[..., Any]) -> str | None:
    """Return the full name of the function of an overridden call, for example ``'gradcore.Tensor.add'``.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.overrides.resolve_name(gc.sin)
    'gradcore.sin'
    """
    name = _calls_of_tensors().get(f)
    if name is not None:
        return f"gradcore.Tensor.{name}"
    return next((f"gradcore.{op.path}" for op in OPS.values() if op.call is f), None)


paths.show_public(__name__)
