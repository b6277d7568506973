"""Overriding of calls by PyTorch's protocol ``__torch_function__`` and by modes that intercept every call."""

from __future__ import annotations

import contextlib
import functools
import inspect
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar, cast

from gradcore.autograd import variables
from gradcore.autograd.modes import TORCH_FUNCTION_MODE, TORCH_FUNCTION_OFF, local
from gradcore.autograd.variables import PLAIN_TYPES
from gradcore.core.tracebacks import shorten
from gradcore.dispatch.foreign import refuse_tensor
from gradcore.dispatch.operands import type_error
from gradcore.ops.declare.table import Op

__all__ = [
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
    "argument_error",
    "call_without_overrides",
    "hand_over",
    "is_overridden",
    "name_of",
    "not_a_tensor",
    "overridable",
    "overriding_arguments",
    "route_call",
    "route_creation",
    "suspend_mode",
    "takes_over",
]


class DisableTorchFunctionSubclass:
    """Context in which subclasses are treated as plain tensors; modes still intercept calls.

    Examples
    --------
    >>> import gradcore
    >>> class Mine(gradcore.Tensor):
    ...     pass
    >>> x = gradcore.ones(2).as_subclass(Mine)
    >>> with gradcore.overrides.DisableTorchFunctionSubclass():
    ...     print(type(x + 1).__name__)
    Tensor
    """

    __slots__ = ("_before",)

    #: Bits of the thread's mode that the context clears.
    _clears = 0

    def __enter__(self) -> None:
        state = local.state
        self._before = state.mode & (TORCH_FUNCTION_OFF | self._clears)
        state.mode = (state.mode | TORCH_FUNCTION_OFF) & ~self._clears

    def __exit__(self, *error: object) -> None:
        state = local.state
        state.mode = state.mode & ~TORCH_FUNCTION_OFF | self._before


class DisableTorchFunction(DisableTorchFunctionSubclass):
    """Context in which neither subclasses nor modes override calls.

    Examples
    --------
    >>> import gradcore as gc
    >>> with gc.overrides.DisableTorchFunction():
    ...     y = gc.ones(1) + 1
    """

    __slots__ = ()
    _clears = TORCH_FUNCTION_MODE


def call_without_overrides(func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """Call `func` with subclasses treated as plain tensors: the default ``__torch_function__``, without overrides."""
    with DisableTorchFunctionSubclass():
        return func(*args, **(kwargs or {}))


def takes_over(cls: type) -> bool:
    """Return whether instances of `cls` override the calls that they are arguments of."""
    if cls in PLAIN_TYPES:
        return False
    return getattr(cls, "__torch_function__", call_without_overrides) is not call_without_overrides


def overriding_arguments(values: Iterable[Any]) -> list[Any]:
    """Return the arguments that override a call, only the first of each type.

    Instances of subclasses come before those of their bases; otherwise the order is from left to right.
    """
    if local.state.mode & TORCH_FUNCTION_OFF:
        return []
    results: list[Any] = []
    for value in _flat(values):
        cls = type(value)
        if not takes_over(cls) or any(type(earlier) is cls for earlier in results):
            continue
        position = next((i for i, earlier in enumerate(results) if issubclass(cls, type(earlier))), len(results))
        results.insert(position, value)
    return results


def _flat(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from value
        else:
            yield value


@contextlib.contextmanager
def suspend_mode() -> Iterator[Any]:
    """Deactivate the innermost ``TorchFunctionMode`` inside of the context, and yield it."""
    state = local.state
    modes = state.functions
    state.functions = modes[:-1]
    if not state.functions:
        state.mode &= ~TORCH_FUNCTION_MODE
    try:
        yield modes[-1]
    finally:
        state.functions = modes
        state.mode |= TORCH_FUNCTION_MODE


def hand_over(func: Callable[..., Any], overrides: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the result of the first override of a call that does not return NotImplemented.

    The innermost mode is asked first, then the arguments in `overrides`, which `overriding_arguments` returned.

    Raises
    ------
    TypeError
        If all of them return NotImplemented.
    """
    types = tuple(map(type, overrides))
    mode = None
    if local.state.mode & TORCH_FUNCTION_MODE:
        with suspend_mode() as mode:
            result = mode.__torch_function__(func, types, args, kwargs)
        if result is not NotImplemented:
            return result
    for value in overrides:
        refuse_tensor(getattr(func, "__name__", "a function"), value)
        handler = value.__torch_function__
        if getattr(handler, "__self__", None) is value:
            warnings.warn(
                "Defining your `__torch_function__` as a plain method is deprecated and will be an error in future, "
                "please define it as a classmethod.",
                DeprecationWarning,
                stacklevel=3,
            )
        result = handler(func, types, args, kwargs)
        if result is not NotImplemented:
            return result
    nor = "" if mode is None else f" nor in mode {mode}"
    raise TypeError(
        f"no implementation found for '{name_of(func)}' on types that implement __torch_function__: {list(types)}{nor}"
    )


def name_of(func: Any) -> str:
    """Return a function's name with its module, for error messages."""
    return f"{getattr(func, '__module__', 'gradcore')}.{getattr(func, '__qualname__', repr(func))}"


def route_call(op: Op, args: tuple[Any, ...], func: Callable[..., Any] | None = None, **further: Any) -> Any:
    """Pass a call of an operation on to the mode or argument that overrides it, and return its result.

    Parameters
    ----------
    op : Op
    args : tuple
        Arguments of all parameters of the operation.
    func : callable, optional
        Function that the user called, if it is not the operation's own.
    **further
        Other arguments of the call, such as `out`.
    """
    positional, keywords = _as_called(op, args)
    keywords.update(further)
    return hand_over(func or op.call, overriding_arguments((*args, *further.values())), positional, keywords)


_F = TypeVar("_F", bound=Callable[..., Any])


#: Classes of arguments that do not override calls.
_NEVER_OVERRIDING = frozenset((int, float, bool, str, tuple, list, type(None)))


def overridable(function: _F) -> _F:
    """Allow modes and arguments to override the calls of a function of your own.

    Examples
    --------
    >>> import gradcore as gc
    >>> @gc.overrides.overridable
    ... def halve(x):
    ...     return x / 2
    >>> class Names(gc.overrides.TorchFunctionMode):
    ...     def __torch_function__(self, func, types, args=(), kwargs=None):
    ...         return func.__name__
    >>> with Names():
    ...     print(halve(gc.ones(1)))
    halve
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            has_mode = local.state.mode & TORCH_FUNCTION_MODE
            values = (*args, *kwargs.values()) if kwargs else args
            has_others = not _NEVER_OVERRIDING.issuperset(map(type, values))
            if has_mode or (has_others and any([takes_over(value.__class__) for value in values])):  # noqa: C419
                result = overriding_arguments(values)
                if has_mode or result:
                    return hand_over(call, result, args, kwargs)
            return function(*args, **kwargs)
        except BaseException as error:
            shorten(error)
            tensor_error = argument_error(function, args, kwargs) if isinstance(error, AttributeError) else None
            if tensor_error is None:
                raise
            raise tensor_error from None

    return cast(_F, call)


def argument_error(function: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> TypeError | None:
    """Return PyTorch's error for the first argument that is not a tensor but should be one, or None without such."""
    for i, p in enumerate(inspect.signature(function).parameters.values()):
        value = args[i] if i < len(args) else named.get(p.name, p.default)
        is_first = p.name == "self" and i == 0
        if (p.annotation == "Tensor" or is_first) and not isinstance(value, variables.Variable):
            name = "input" if is_first else p.name
            return TypeError(
                f"{function.__name__}(): argument '{name}' (position {i + 1}) must be Tensor, not "
                f"{type(value).__name__}"
            )
    return None


def route_creation(func: Callable[..., Any], *args: Any, **settings: Any) -> Any:
    """Pass a call that creates a tensor on to the mode or argument that overrides it, without unset settings.

    Settings are unset if they are None or False.
    """
    keywords = {name: value for name, value in settings.items() if value is not None and value is not False}
    return hand_over(func, overriding_arguments((*args, *keywords.values())), args, keywords)


def _as_called(op: Op, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the positional and named arguments of a call as a user would write them, without default values."""
    positional_args: list[Any] = []
    keywords: dict[str, Any] = {}
    positional = True
    for parameter, value in zip(op.parameters, args, strict=False):
        if parameter.kind is parameter.KEYWORD_ONLY:
            positional = False
        if parameter.default is not parameter.empty and _same(value, parameter.default):
            positional = False
        elif positional:
            positional_args.append(value)
        else:
            keywords[parameter.name] = value
    return tuple(positional_args), keywords


def _same(value: Any, default: Any) -> bool:
    return value is default or (value.__class__ is default.__class__ and bool(value == default))


def is_overridden(args: tuple[Any, ...], mode: int) -> bool:
    """Return whether a mode or an argument overrides the call."""
    if mode & TORCH_FUNCTION_MODE:
        return True
    return variables.subclasses_used and not mode & TORCH_FUNCTION_OFF and bool(overriding_arguments(args))


def not_a_tensor(op: Op, position: int, value: Any, args: tuple[Any, ...]) -> Any:
    """Handle a call whose argument at `position` is not a plain tensor.

    Return the result of the argument that overrides the call, or raise TypeError if there is none.
    """
    if overriding_arguments(args):
        return route_call(op, args)
    raise type_error(op, position, value)


variables.overloaded_args, variables.handle_torch_function = overriding_arguments, hand_over
