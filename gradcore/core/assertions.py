"""Checks that raise with a message given by the caller, such as ``torch._assert`` and ``torch._check``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__: list[str] = []

Message = Callable[[], Any] | None


def _assert(condition: Any, message: str) -> None:
    """Raise AssertionError with `message` unless `condition`, a bool or a tensor, is true."""
    if not condition:
        raise AssertionError(message)


def _raiser(error: type[Exception]) -> Callable[..., None]:
    def check(cond: Any, message: Message = None) -> None:
        if not cond:
            text = "Expected cond to be True" if message is None else str(message())
            raise error(text)

    check.__doc__ = f"Raise a {error.__name__} unless `cond` is true. `message` is a function that returns its text."
    return check


_check = _raiser(RuntimeError)
_check_index = _raiser(IndexError)
_check_value = _raiser(ValueError)
_check_type = _raiser(TypeError)
_check_not_implemented = _raiser(NotImplementedError)


def _check_with(error_type: type[Exception], cond: Any, message: Message) -> None:
    """Raise an error of type `error_type` unless `cond` is true."""
    _raiser(error_type)(cond, message)


def _check_is_size(i: Any, message: Message = None, *, max: int | None = None) -> None:
    """Raise RuntimeError unless the number `i` can be a size."""
    _check(i >= 0 and (max is None or i <= max), message)


def _check_tensor_all(cond: Any, message: Message = None) -> None:
    """Raise RuntimeError unless all elements of a bool tensor are true."""
    _check(cond.all().item(), message)


def _check_tensor_all_with(error_type: type[Exception], cond: Any, message: Message = None) -> None:
    """Raise an error of type `error_type` unless all elements of a bool tensor are true."""
    _raiser(error_type)(cond.all().item(), message)
