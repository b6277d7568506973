"""Results of functions: the tensors in them, and tensors made of arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradcore.autograd.variables import Variable, new
from gradcore.backends.registry import CPU
from gradcore.compiler.numbers import plain_numbers
from gradcore.tensor import Tensor

__all__ = ["all_tensors_in", "grad_of", "ignore", "tensors_in", "unique", "with_history", "wrapped"]


def wrapped(array: Any, dtype: Any, device: Any = CPU) -> Any:
    """Return a tensor without history."""
    t = new(Tensor)
    t._array, t._device, t._dtype = array, device, dtype
    t._edge = t._autograd = t._vc = None
    return t


def grad_of(t: Any) -> Any:
    return None if t._autograd is None else t._autograd.grad


def ignore(why: str) -> None:
    """Nothing: what is refused has been seen before."""


def with_history(result: Any, refuse: Callable[[str], None] = ignore) -> list[Any]:
    """Return the tensors in a result that have a history, each once."""
    return [t for t in unique(tensors_in(result, refuse)) if t._edge is not None]


def unique(tensors: list[Any]) -> list[Any]:
    return list({id(t): t for t in tensors}.values())


def all_tensors_in(value: Any) -> list[Any]:
    """Return the tensors in lists, tuples and dicts."""
    if isinstance(value, Variable):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [t for each in parts for t in all_tensors_in(each)]


def tensors_in(value: Any, refuse: Callable[[str], None]) -> list[Any]:
    """Return the tensors in a result; what cannot be made again is refused."""
    if isinstance(value, Variable):
        return [value]
    if type(value) in (tuple, list) or (isinstance(value, tuple) and hasattr(value, "_fields")):
        return [t for each in value for t in tensors_in(each, refuse)]
    if type(value) is dict:
        return [t for each in value.values() for t in tensors_in(each, refuse)]
    if not (value is None or plain_numbers(value).__class__ in (bool, int, float, complex, str)):
        refuse(f"a result is a {type(value).__name__}")
    return []
