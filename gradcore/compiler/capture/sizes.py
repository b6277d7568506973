"""Symbolic sizes: numbers that are computed from the sizes of arguments, as expressions of symbols.

When a function is captured with symbolic sizes, a size that may change is a `SymbolicNumber`. Arithmetic with it is
done at several sizes at once and builds an expression; comparisons become conditions of the program. It is not an
int, so that no code can read the number unnoticed. The capture ends where an int is needed: ``range(n)``, ``[0] * n``,
``int(n)``, a dict key.
"""

from __future__ import annotations

import builtins
import itertools
import math
import operator
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from gradcore.autograd.variables import Variable
from gradcore.backends.numpy import malloc
from gradcore.compiler.capture.arrays import RecordedArray, current
from gradcore.compiler.capture.reasons import Code
from gradcore.compiler.program.program import Expression
from gradcore.core.operators import Form, Method, Operator, define_operators, names_of, symbols_of
from gradcore.core.tracebacks import is_own

__all__ = ["RECORDED", "SizeEscapes", "SymbolicNumber", "Symbols", "express", "number_at"]

_COMPARISONS = frozenset(symbols_of("comparison").values())
#: Special methods that need the number itself, and therefore end the capture.
_CONVERSIONS = ("index", "int", "float", "complex", "hash", "repr", "str", "trunc", "floor", "ceil")


#: The number of sizes at which each call is made during a capture.
RECORDED = 3


class SizeEscapes(BaseException):
    """Raised when no expression describes the use of a size. A `BaseException`, so that functions do not catch it."""


class Symbols:
    """The symbols of a capture, and the conditions on them.

    Parameters
    ----------
    values : dict
        The sizes of each symbol, by its name: in the captured call, then nearby sizes, then those of earlier programs.

    Attributes
    ----------
    numbers : dict
        The value number of each symbol in the program, by name.
    conditions : dict
        Whether each compared expression has to be true, by expression.
    decided : bool
        Whether a comparison had different outcomes at different sizes, which ends the capture.
    """

    def __init__(self, values: dict[str, tuple[int, ...]]) -> None:
        malloc.begin()  # Then no tensor asks whether it is the first large one.
        self.values = values
        self.decided = False
        self.numbers: dict[str, int] = {}
        self.conditions: dict[str, bool] = {}

    def symbol(self, name: str) -> SymbolicNumber:
        """Return the symbolic number of the symbol `name`."""
        return SymbolicNumber(self, self.values[name], name)

    def is_followed(self) -> bool:
        """Return whether this capture is active, and no kernel is running."""
        recorder = current.recorder
        return getattr(recorder, "symbols", None) is self and recorder.stopped is None and not recorder._depth

    def escape(self, why: str) -> None:
        """End the capture, if it is active."""
        recorder = current.recorder
        if getattr(recorder, "symbols", None) is self and recorder.stopped is None:
            recorder.stop(Code.SIZES, why)

    def decide(self, expression: str, values: tuple[Any, ...]) -> bool:
        """Add the outcome of a comparison as a condition; it must be the same at all captured sizes."""
        outcomes = [*map(bool, values)]
        frame: Any = sys._getframe(1)
        while frame.f_globals.get("__name__") == __name__:
            frame = frame.f_back
        if len({*(outcomes[:RECORDED] if is_own(frame) else outcomes)}) > 1:
            self.decided = True
            self.escape(f"{expression} decides how the function goes on")
        self.conditions[expression] = outcomes[0]
        return outcomes[0]


class SymbolicNumber:
    """A number computed from sizes: an int, or a float after a true division.

    Parameters
    ----------
    symbols : Symbols
    values : tuple of number
        The number at each of the sizes of `symbols`.
    expression : str
    """

    __slots__ = ("expression", "symbols", "values")

    def __init__(self, symbols: Symbols, values: tuple[Any, ...], expression: str) -> None:
        self.symbols, self.values, self.expression = symbols, values, expression

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self.values[0])

    def in_program(self) -> Expression:
        """Return the number as an argument of a call."""
        numbers = tuple(n for name, n in self.symbols.numbers.items() if name in self.expression)
        return Expression(self.expression, numbers)

    def __bool__(self) -> bool:
        if not self.symbols.is_followed():
            self.symbols.escape("a kernel looks at a size")
            return bool(self.values[0])
        return self.symbols.decide(f"{self.expression} != 0", self.values)

    def __getattr__(self, name: str) -> Any:
        result = getattr(self.values[0], name)  # Unknown attributes raise the usual error.
        self.symbols.escape(f"{name} of a size is used")
        return result

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        self.symbols.escape("a size becomes a NumPy array")
        raise TypeError("a size that is recorded is no array")

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        self.symbols.escape("NumPy computes with a size")
        return getattr(function, method)(*(number_at(each, 0) for each in inputs), **kwargs)

    def __reduce_ex__(self, protocol: Any) -> Any:
        self.symbols.escape("a size is pickled or copied")
        return type(self.values[0]), (self.values[0],)

    def __format__(self, spec: str) -> str:
        self.symbols.escape("a size is printed")
        return format(self.values[0], spec)

    def __round__(self, *digits: Any) -> Any:
        self.symbols.escape("a size is rounded")
        return round(self.values[0], *digits)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __neg__(self) -> Any:
        return _compute(operator.sub, "-", 0, self)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return self if _compute(operator.ge, ">=", self, 0) else -self


def _values_of(operand: Any, count: int) -> tuple[Any, ...]:
    return operand.values if type(operand) is SymbolicNumber else (operand,) * count


def _expression_of(operand: Any) -> str:
    return operand.expression if type(operand) is SymbolicNumber else repr(operand)


def number_at(leaf: Any, position: int) -> Any:
    """Return the value of a symbolic number at the captured sizes `position`; other objects unchanged."""
    return leaf.values[position] if type(leaf) is SymbolicNumber else leaf


def _compute(function: Callable[..., Any], symbol: str, a: Any, b: Any) -> Any:
    """Return the result of an operator on symbolic numbers."""
    other = b if type(a) is SymbolicNumber else a
    if isinstance(other, (Variable, RecordedArray)):
        return NotImplemented
    symbols = next(each.symbols for each in (a, b) if type(each) is SymbolicNumber)
    if not symbols.is_followed():
        symbols.escape("a kernel computes with a size")
        return function(number_at(a, 0), number_at(b, 0))
    if type(other) not in (int, float, bool, SymbolicNumber) or (type(other) is float and not math.isfinite(other)):
        if symbol in ("==", "!=") and (other is None or isinstance(other, (str, tuple, list))):
            return NotImplemented
        symbols.escape(f"a size is computed with, together with a {type(other).__name__}")
    if symbol == "*" and type(other) is int and other == 1:
        return a if other is b else b
    count = len(_values_of(a if type(a) is SymbolicNumber else b, 1))
    expression = f"({_expression_of(a)} {symbol} {_expression_of(b)})"
    try:
        values = tuple(map(function, _values_of(a, count), _values_of(b, count)))
    except ArithmeticError:
        symbols.escape("a size is divided by zero")
        raise
    if symbol in _COMPARISONS:
        if _expression_of(a) == _expression_of(b):
            return symbol in ("<=", ">=", "==")
        return symbols.decide(expression, values)
    if any(type(each) not in (int, float) or type(each) is not type(values[0]) for each in values):
        symbols.escape("a size becomes another number")
    return SymbolicNumber(symbols, values, expression)


def _make_operator(operator: Operator, form: Form) -> Method | None:
    function, symbol = operator.function, operator.symbol
    if form == "in place":
        return None
    if form == "right":
        return lambda self, other: _compute(function, symbol, other, self)
    return lambda self, other: _compute(function, symbol, self, other)


def _make_conversion(name: str) -> Method:
    convert = getattr(math, name, None) or getattr(operator, name, None) or vars(builtins)[name]

    def number(self: SymbolicNumber) -> Any:
        self.symbols.escape(f"{name}() of a size")
        return convert(self.values[0])

    return number


define_operators(SymbolicNumber, _make_operator, names_of("arithmetic", "comparison"))
for _name in _CONVERSIONS:
    setattr(SymbolicNumber, f"__{_name}__", _make_conversion(_name))


# -- expressions of what is found --------------------------------------------------------------------------------


def express(values: tuple[int, ...], known: Iterable[Any]) -> Any:
    """Return an expression with these values: a known number, or an affine function, quotient or product of known ones.

    Returns
    -------
    int or SymbolicNumber or None
        None if no such expression exists.
    """
    if len({*values}) == 1:
        return values[0]
    numbers = list({each.expression: each for each in known if type(each) is SymbolicNumber}.values())
    numbers = [each for each in numbers if all(type(n) is int and n > 0 for n in each.values)]
    results = _possible_expressions(values, numbers)
    return next((result for result in results if result.values[:RECORDED] == values), None)


def _possible_expressions(values: tuple[int, ...], numbers: list[Any]) -> Iterator[Any]:
    """Yield expressions of known numbers, of which some have the given values; see `express`."""
    yield from numbers
    for each in numbers:
        step, remainder = divmod(values[1] - values[0], each.values[1] - each.values[0] or 1)
        if step and not remainder:
            start = values[0] - step * each.values[0]
            yield each * step + start if start else each * step
    for each in numbers:
        if 0 < values[0] < each.values[0]:
            yield each // (each.values[0] // values[0])
    for each, other in itertools.combinations_with_replacement(numbers, 2):
        factor = values[0] // (each.values[0] * other.values[0])
        if factor:
            yield each * other * factor
