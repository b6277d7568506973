"""Floats that become parameters of a kernel, so that other values use the same kernel."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from gradcore.core.operators import Form, Method, Operator, define_operators, names_of

__all__ = ["Guard", "ScalarParameter", "SymbolicScalar", "is_number", "symbolic"]

#: Function that computes a scalar from the hyperparameters of a call.
Evaluator = Callable[[dict[str, Any]], Any]

#: Function ``guard(hyperparameters) -> bool`` that returns whether a comparison has the same outcome as during tracing.
Guard = Callable[[dict[str, Any]], bool]


class ScalarParameter(float):
    """A float argument of a formula that becomes a parameter of the kernel.

    Arithmetic with it gives scalar parameters again. Formulas may compare it; the kernel is then one for calls with the
    same outcome.
    """

    __slots__ = ()

    @property
    def identity(self) -> Hashable:
        """Hashable key, equal for scalars that can share a parameter."""
        return repr(self)  # The repr distinguishes 0.0 from -0.0.

    def evaluate(self, hyperparameters: dict[str, Any]) -> float:
        """Return the scalar's value for these hyperparameters."""
        return float(self)


#: Operators whose results are scalar parameters again.
_ARITHMETIC = "add", "sub", "mul", "truediv", "pow", "neg", "abs"


def _keep_class(operator: Operator, form: Form) -> Method | None:
    plain = getattr(float, dict(operator.methods)[form], None)
    if plain is None:
        return None

    def method(self: ScalarParameter, *others: Any) -> Any:
        result = plain(self, *others)
        return ScalarParameter(result) if result.__class__ is float else result

    return method


define_operators(ScalarParameter, _keep_class, _ARITHMETIC)


class SymbolicScalar(ScalarParameter):
    """A hyperparameter, or the result of arithmetic with hyperparameters, which can be evaluated for other values.

    Attributes
    ----------
    evaluator : callable
        Computes it from the hyperparameters.
    expression : hashable
        The computation from hyperparameters. It is equal for scalars that are equal for all values of these.
    guards : list of Guard
        The comparisons that were made; shared by all symbolic scalars of a formula.
    """

    __slots__ = ("evaluator", "expression", "guards")
    __hash__ = float.__hash__
    evaluator: Evaluator
    expression: Hashable
    guards: list[Guard]

    @property
    def identity(self) -> Hashable:
        """Key of this very scalar: two that have equal values now can differ in the next call."""
        return id(self)

    def evaluate(self, hyperparameters: dict[str, Any]) -> float:
        return self.evaluator(hyperparameters)


def _symbolic_scalar(value: float, evaluator: Evaluator, expression: Hashable, guards: list[Guard]) -> SymbolicScalar:
    scalar = SymbolicScalar(value)
    scalar.evaluator, scalar.expression, scalar.guards = evaluator, expression, guards
    return scalar


def is_number(setting: Any) -> bool:
    """Return whether a hyperparameter is a number rather than a flag."""
    return isinstance(setting, (int, float)) and not isinstance(setting, bool)


def symbolic(hyperparameters: dict[str, Any]) -> tuple[dict[str, Any], list[Guard]]:
    """Return the hyperparameters with numbers replaced by symbolic scalars, and the list that collects their guards."""
    guards: list[Guard] = []
    symbols = {
        name: _symbolic_scalar(value, operator.itemgetter(name), name, guards) if is_number(value) else value
        for name, value in hyperparameters.items()
    }
    return symbols, guards


def _evaluator_of(other: Any) -> Evaluator:
    return other.evaluator if isinstance(other, SymbolicScalar) else lambda hyperparameters: other


def _expression_of(other: Any) -> Hashable:
    return other.expression if isinstance(other, SymbolicScalar) else (type(other), repr(other))


def _arithmetic(operator: Operator, form: Form) -> Method | None:
    function, order = operator.function, -1 if form == "right" else 1

    def method(self: SymbolicScalar, *others: Any) -> Any:
        if not all(isinstance(o, (int, float)) and not isinstance(o, np.generic) for o in others):
            return NotImplemented
        parts = [self.evaluator, *map(_evaluator_of, others)][::order]
        values = [float(self), *map(float, others)][::order]
        expression = function, order, self.expression, *map(_expression_of, others)

        def evaluate(hyperparameters: dict[str, Any]) -> Any:
            return function(*[part(hyperparameters) for part in parts])

        return _symbolic_scalar(function(*values), evaluate, expression, self.guards)

    return None if form == "in place" else method


def _comparison(operator: Operator, form: Form) -> Method:
    function = operator.function

    def method(self: SymbolicScalar, other: Any) -> Any:
        if not isinstance(other, (int, float)):
            return NotImplemented
        first, second = self.evaluator, _evaluator_of(other)
        outcome = function(float(self), float(other))
        self.guards.append(lambda hyperparameters: function(first(hyperparameters), second(hyperparameters)) is outcome)
        return outcome

    return method


define_operators(SymbolicScalar, _arithmetic, _ARITHMETIC)
define_operators(SymbolicScalar, _comparison, names_of("comparison"))


def _truth(self: Any) -> bool:
    return bool(self != 0)


SymbolicScalar.__bool__ = _truth  # type: ignore[method-assign]
