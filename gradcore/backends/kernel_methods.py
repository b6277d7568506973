"""Decorators for kernels that are methods of backends: support some arguments only, or take settings as one object."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import MethodType
from typing import Any, TypeVar, overload

__all__ = ["kernel_for", "packed"]

K = TypeVar("K", bound=Callable[..., Any])


def packed(settings: type[Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a kernel take the last of its arguments as one named tuple; it can be called with either.

    Parameters
    ----------
    settings : type
        The named tuple's class; the last parameter of the kernel is an instance.

    Examples
    --------
    >>> from typing import NamedTuple
    >>> class Line(NamedTuple):
    ...     slope: float
    ...     shift: float
    >>> class Mine:
    ...     @packed(Line)
    ...     def evaluate(self, x, line):
    ...         return x * line.slope + line.shift
    >>> Mine().evaluate(2.0, 3.0, 1.0), Mine().evaluate(2.0, Line(3.0, 1.0))
    (7.0, 7.0)
    """

    def decorate(method: Callable[..., Any]) -> Callable[..., Any]:
        pack, lead = _packer(method, settings)

        @functools.wraps(method)
        def kernel(self: Any, *args: Any) -> Any:
            if len(args) != lead + 1:
                args = (*args[:lead], pack(args[lead:]))
            return method(self, *args)

        kernel.__signature__ = _flat_signature(method, settings)  # type: ignore[attr-defined]
        return kernel

    return decorate


@overload
def kernel_for(supports: Callable[..., Any] | None) -> Callable[[K], K]: ...


@overload
def kernel_for(supports: Callable[..., Any], settings: type[Any]) -> Callable[[Callable[..., Any]], Any]: ...


def kernel_for(supports: Callable[..., Any] | None, settings: type[Any] | None = None) -> Any:
    """Override a kernel for the arguments that `supports` accepts; for others the kernel of the next class runs.

    Parameters
    ----------
    supports : callable or None
        Called with the backend and the kernel's arguments. None if the method itself returns NotImplemented for
        arguments that it does not support.
    settings : type, optional
        As for `packed`.

    Examples
    --------
    >>> class Base:
    ...     def double(self, x):
    ...         return x + x
    >>> class Fast(Base):
    ...     @kernel_for(lambda self, x: isinstance(x, int))
    ...     def double(self, x):
    ...         return x << 1
    >>> Fast().double(3), Fast().double("ab")
    (6, 'abab')
    """
    return lambda method: _Override(method, supports, settings)


class _Override:
    """Descriptor of an override. For each backend, it binds the override, its condition and the next kernel once."""

    def __init__(
        self, method: Callable[..., Any], supports: Callable[..., Any] | None, settings: type[Any] | None
    ) -> None:
        self.method, self.supports, self.settings = method, supports, settings
        self.__doc__, self.__name__ = method.__doc__, method.__name__

    def __set_name__(self, owner: type, name: str) -> None:
        self.owner, self.name = owner, name

    def __get__(self, backend: Any, cls: type) -> Any:
        if backend is None:
            return self
        run = self._bind(backend)
        if next(vars(base)[self.name] for base in cls.__mro__ if self.name in vars(base)) is self:
            vars(backend)[self.name] = run  # found first from now on; the kernels of bases are not
        return run

    def _bind(self, backend: Any) -> Callable[..., Any]:
        kernel = MethodType(self.method, backend)
        try:
            fallback = getattr(super(self.owner, backend), self.name)
        except AttributeError:  # no method: a function of the array library, or the body of an operation
            fallback = backend.__getattr__(self.name)
        if self.supports is None:

            def run_or_decline(*args: Any) -> Any:
                result = kernel(*args)
                return fallback(*args) if result is NotImplemented else result

            return run_or_decline
        supports = MethodType(self.supports, backend)

        def run(*args: Any) -> Any:
            return kernel(*args) if supports(*args) else fallback(*args)

        if self.settings is None:
            return run
        pack, lead = _packer(self.method, self.settings)

        def run_packed(*args: Any) -> Any:
            if len(args) != lead + 1:
                args = (*args[:lead], pack(args[lead:]))
            return kernel(*args) if supports(*args) else fallback(*args)

        return run_packed


def _flat_signature(method: Callable[..., Any], settings: Any) -> inspect.Signature:
    """Return the signature by which a kernel is called with separate settings."""
    lead = list(inspect.signature(method).parameters.values())[:-1]
    fields, defaults = settings._fields, settings._field_defaults
    kind, no_default = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.empty
    return inspect.Signature(
        [*lead, *(inspect.Parameter(f, kind, default=defaults.get(f, no_default)) for f in fields)]
    )


def _packer(method: Callable[..., Any], settings: Any) -> tuple[Callable[[tuple[Any, ...]], Any], int]:
    """Return a function that packs a kernel's last arguments into settings, and the number of arguments before them."""
    lead = method.__code__.co_argcount - 2  # arguments in front of the settings
    defaults = tuple(settings._field_defaults.values())
    total = len(settings._fields)
    least = total - len(defaults)  # two at the least: a single value is the object itself
    new = tuple.__new__  # the class itself is called through a function of Python

    def pack(values: tuple[Any, ...]) -> Any:
        if least <= len(values) <= total:
            return new(settings, values + defaults[len(values) - least :])
        return settings(*values)  # This call raises the error.

    return pack, lead
