"""Safe globals: classes and functions that the user allows in files, in addition to containers and tensors."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["add_safe_globals", "clear_safe_globals", "find_allowed", "get_safe_globals", "is_allowed", "safe_globals"]

_allowed: dict[str, Any] = {}


def _name(value: Any) -> str:
    return f"{value.__module__}.{value.__qualname__}"


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Allow files to contain objects of these classes, and calls of these functions.

    Parameters
    ----------
    safe_globals : list
        Classes and functions, or pairs ``(object, "module.name")`` where a file has them under another name.

    Examples
    --------
    >>> import gradcore as gc
    >>> from fractions import Fraction
    >>> gc.serialization.add_safe_globals([Fraction])
    >>> gc.serialization.get_safe_globals()
    [<class 'fractions.Fraction'>]
    >>> gc.serialization.clear_safe_globals()
    """
    for entry in safe_globals:
        value, name = entry if isinstance(entry, tuple) else (entry, _name(entry))
        _allowed[name] = value


def get_safe_globals() -> list[Any]:
    """Return the classes and functions that were allowed by `add_safe_globals`.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.serialization.get_safe_globals()
    []
    """
    return list(_allowed.values())


def clear_safe_globals() -> None:
    """Remove all classes and functions that were allowed by `add_safe_globals`.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.serialization.clear_safe_globals()
    >>> gc.serialization.get_safe_globals()
    []
    """
    _allowed.clear()


@contextlib.contextmanager
def safe_globals(safe_globals: list[Callable[..., Any]]) -> Iterator[None]:
    """Allow, inside this context manager, objects of these classes and calls of these functions in files.

    Examples
    --------
    >>> import gradcore as gc
    >>> from fractions import Fraction
    >>> with gc.serialization.safe_globals([Fraction]):
    ...     print(gc.serialization.get_safe_globals())
    [<class 'fractions.Fraction'>]
    """
    before = dict(_allowed)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        _allowed.clear()
        _allowed.update(before)


def find_allowed(name: str) -> Any:
    """Return the allowed class or function called `name`, or None."""
    return _allowed.get(name)


def is_allowed(value: Any) -> bool:
    """Return whether the user has allowed this class or function."""
    return any(value is entry for entry in _allowed.values())
