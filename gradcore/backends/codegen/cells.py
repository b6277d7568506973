"""Values that a formula changes in place: the parameters and states of optimisers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Cell", "held"]

_SIGNS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor")
_OTHERS = ("neg", "abs", "invert", "lt", "le", "gt", "ge", "eq", "ne")


class Cell:
    """A place that holds a value; operators act on the value, and those that assign replace it."""

    __slots__ = ("value",)
    __hash__ = object.__hash__

    def __init__(self, value: Any) -> None:
        self.value = value

    def __getattr__(self, name: str) -> Any:
        return getattr(self.value, name)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.value = self.value.trace.operand(value, self.value.dtype)


def held(value: Any) -> Any:
    """What a cell holds; anything else as it is."""
    return value.value if isinstance(value, Cell) else value


def _reading(name: str) -> Callable[..., Any]:
    def operator(self: Cell, *others: Any) -> Any:
        return getattr(self.value, name)(*map(held, others))

    return operator


def _assigning(name: str) -> Callable[..., Cell]:
    def operator(self: Cell, other: Any) -> Cell:
        self[...] = getattr(self.value, name)(held(other))
        return self

    return operator


for _name in _SIGNS:
    setattr(Cell, f"__{_name}__", _reading(f"__{_name}__"))
    setattr(Cell, f"__r{_name}__", _reading(f"__r{_name}__"))
    setattr(Cell, f"__i{_name}__", _assigning(f"__{_name}__"))
for _name in _OTHERS:
    setattr(Cell, f"__{_name}__", _reading(f"__{_name}__"))
