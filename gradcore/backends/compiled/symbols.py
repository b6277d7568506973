"""Settings that remember how they were computed, so that a formula need not be traced again for other values."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from gradcore.backends.codegen.expressions import Setting, Trace, Value
from gradcore.backends.compiled.tracer import LoopTracer

__all__ = ["Guard", "StepTracer", "Symbol", "is_number", "symbols_of"]

How = Callable[[dict[str, Any]], Any]

#: What a formula asked about a setting, and the answer: ``guard(settings) -> bool`` says whether it is the same.
Guard = Callable[[dict[str, Any]], bool]


class Symbol(Setting):
    """A float among settings, or what arithmetic made of such ones.

    Attributes
    ----------
    how : callable
        Computes it from the settings.
    guards : list of Guard
        Shared by all symbols of a formula.
    """

    __slots__ = ("guards", "how")
    __hash__ = float.__hash__
    how: How
    guards: list[Guard]


def _symbol(value: float, how: How, guards: list[Guard]) -> Symbol:
    made = Symbol(value)
    made.how, made.guards = how, guards
    return made


def is_number(setting: Any) -> bool:
    """Whether a setting is a number, and not a flag."""
    return isinstance(setting, (int, float)) and not isinstance(setting, bool)


def symbols_of(settings: dict[str, Any]) -> tuple[dict[str, Any], list[Guard]]:
    """The settings with symbols in the place of numbers, and the list that their guards come into."""
    guards: list[Guard] = []
    found = {
        name: _symbol(value, operator.itemgetter(name), guards) if is_number(value) else value
        for name, value in settings.items()
    }
    return found, guards


def _operand(other: Any) -> How:
    return other.how if isinstance(other, Symbol) else lambda settings: other


def _arithmetic(function: Callable[..., Any], reflected: bool = False) -> Callable[..., Any]:
    def method(self: Symbol, *others: Any) -> Any:
        if not all(isinstance(o, (int, float)) and not isinstance(o, np.generic) for o in others):
            return NotImplemented
        hows = [self.how, *map(_operand, others)][:: -1 if reflected else 1]
        values = [float(self), *map(float, others)][:: -1 if reflected else 1]
        return _symbol(function(*values), lambda settings: function(*[how(settings) for how in hows]), self.guards)

    return method


def _comparison(function: Callable[[Any, Any], bool]) -> Callable[..., Any]:
    def method(self: Symbol, other: Any) -> Any:
        if not isinstance(other, (int, float)):
            return NotImplemented
        first, second = self.how, _operand(other)
        answer = function(float(self), float(other))
        self.guards.append(lambda settings: function(first(settings), second(settings)) is answer)
        return answer

    return method


for _name in ("add", "sub", "mul", "truediv", "pow"):
    setattr(Symbol, f"__{_name}__", _arithmetic(getattr(operator, _name)))
    setattr(Symbol, f"__r{_name}__", _arithmetic(getattr(operator, _name), reflected=True))
for _name in ("neg", "abs"):
    setattr(Symbol, f"__{_name}__", _arithmetic(getattr(operator, _name)))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(Symbol, f"__{_name}__", _comparison(getattr(operator, _name)))


def _truth(self: Any) -> bool:
    return bool(self != 0)


Symbol.__bool__ = _truth  # type: ignore[method-assign]


class _StepTrace(Trace):
    """Every symbol is a parameter of its own: that two have equal values now does not make them one."""

    def __init__(self) -> None:
        super().__init__()
        self._places: dict[tuple[int, Any], int] = {}

    def number(self, value: Any, dtype: np.dtype[Any]) -> Value:
        if not isinstance(value, Symbol):
            return super().number(value, dtype)
        place = self._places.setdefault((id(value), dtype), len(self.parameters))
        if place == len(self.parameters):
            self.parameters.append((value, dtype))
        return self._value("parameter", (place,), dtype)


class StepTracer(LoopTracer):
    """The namespace for the formula of an optimiser's step."""

    def __init__(self, bodies: dict[str, Callable[..., Any]]) -> None:
        super().__init__(bodies, _StepTrace())
