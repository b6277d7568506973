"""Sizes that programs compute: numbers that follow from the sizes of arguments, as expressions of symbols.

While a function is recorded for many sizes, a size that may change is a `SymbolicNumber`. It computes as the number
does, at several sizes at once, and notes how; comparisons become conditions. It is no int, so nothing reads the number
unseen: what asks for it (``range(n)``, ``[0] * n``, ``int(n)``, a key of a dict) ends the recording.
"""

from __future__ import annotations

import builtins
import math
import operator
import sys
from collections.abc import Callable, Iterable
from typing import Any

from gradcore.autograd.variables import Variable
from gradcore.compiler.capture.arrays import RecordedArray, current
from gradcore.compiler.program.program import Expression
from gradcore.core.operators import Form, Method, Operator, define_operators, names_of, symbols_of
from gradcore.core.tracebacks import is_own

__all__ = ["RECORDED", "ConstantsWithSizes", "SizeEscapes", "SymbolicNumber", "Symbols", "expressed", "number_at"]

_COMPARISONS = frozenset(symbols_of("comparison").values())
#: What asks for the number itself.
_CONVERSIONS = ("index", "int", "float", "complex", "hash", "repr", "str", "trunc", "floor", "ceil")


#: How many sizes are recorded at once.
RECORDED = 3


class SizeEscapes(BaseException):
    """A size is used in a way that no expression follows; not an error that functions catch."""


class Symbols:
    """The symbols of a recording, and the conditions that it takes for granted.

    Parameters
    ----------
    values : dict
        By the name of a symbol, the sizes that it has: in the call that is recorded, in others beside it, and then in
        calls of which there are programs already.

    Attributes
    ----------
    numbers : dict
        By the name of a symbol, the number of its value in the program.
    conditions : dict
        By expression, whether it is true.
    decided : bool
        Whether a comparison has come out otherwise at other sizes, which ends the recording.
    """

    def __init__(self, values: dict[str, tuple[int, ...]]) -> None:
        self.values = values
        self.decided = False
        self.numbers: dict[str, int] = {}
        self.conditions: dict[str, bool] = {}

    def symbol(self, name: str) -> SymbolicNumber:
        """Return the number that a symbol is."""
        return SymbolicNumber(self, self.values[name], name)

    def is_followed(self) -> bool:
        """Return whether this recording is going on, and no kernel is running."""
        recorder = current.recorder
        return getattr(recorder, "symbols", None) is self and recorder.stopped is None and not recorder._depth

    def escape(self, why: str) -> None:
        """End the recording, if it is going on."""
        recorder = current.recorder
        if getattr(recorder, "symbols", None) is self and recorder.stopped is None:
            recorder.stop(why)

    def decide(self, expression: str, values: tuple[Any, ...]) -> bool:
        """Note what a comparison gives: the same at all sizes that are recorded."""
        outcomes = [*map(bool, values)]
        if len({*(outcomes[:RECORDED] if _is_library_that_asks() else outcomes)}) > 1:
            self.decided = True
            self.escape(f"{expression} decides how the function goes on")
        self.conditions[expression] = outcomes[0]
        return outcomes[0]


def _is_library_that_asks() -> bool:
    frame: Any = sys._getframe(1)
    while frame.f_globals.get("__name__") == __name__:
        frame = frame.f_back
    return is_own(frame)


class SymbolicNumber:
    """A number that follows from sizes: an int, or a float where one is divided by another.

    Parameters
    ----------
    symbols : Symbols
    values : tuple of number
        At the sizes of `symbols`.
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
        found = getattr(self.values[0], name)  # what numbers do not have is as with any number
        self.symbols.escape(f"{name} of a size is used")
        return found

    def __array__(self, *args: Any, **named: Any) -> Any:
        self.symbols.escape("a size becomes a NumPy array")
        raise TypeError("a size that is recorded is no array")

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **named: Any) -> Any:
        self.symbols.escape("NumPy computes with a size")
        return getattr(function, method)(*(number_at(each, 0) for each in inputs), **named)

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
        return _computed(operator.sub, "-", 0, self)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return self if _computed(operator.ge, ">=", self, 0) else -self


def _symbols_of(*operands: Any) -> Symbols:
    return next(each.symbols for each in operands if type(each) is SymbolicNumber)


def _values_of(operand: Any, count: int) -> tuple[Any, ...]:
    return operand.values if type(operand) is SymbolicNumber else (operand,) * count


def _written(operand: Any) -> str:
    return operand.expression if type(operand) is SymbolicNumber else repr(operand)


def number_at(leaf: Any, position: int) -> Any:
    """Return a number at one of the sizes that are recorded; anything else as it is."""
    return leaf.values[position] if type(leaf) is SymbolicNumber else leaf


def _computed(function: Callable[..., Any], symbol: str, a: Any, b: Any) -> Any:
    """Return the outcome of an operator."""
    other = b if type(a) is SymbolicNumber else a
    if isinstance(other, (Variable, RecordedArray)):
        return NotImplemented
    symbols = _symbols_of(a, b)
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
    expression = f"({_written(a)} {symbol} {_written(b)})"
    try:
        values = tuple(map(function, _values_of(a, count), _values_of(b, count)))
    except ArithmeticError:
        symbols.escape("a size is divided by zero")
        raise
    if symbol in _COMPARISONS:
        if _written(a) == _written(b):
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
        return lambda self, other: _computed(function, symbol, other, self)
    return lambda self, other: _computed(function, symbol, self, other)


def _make_conversion(name: str) -> Method:
    convert = getattr(math, name, None) or getattr(operator, name, None) or vars(builtins)[name]

    def number(self: SymbolicNumber) -> Any:
        self.symbols.escape(f"{name}() of a size")
        return convert(self.values[0])

    return number


define_operators(SymbolicNumber, _make_operator, names_of("arithmetic", "comparison"))
for _name in _CONVERSIONS:
    setattr(SymbolicNumber, f"__{_name}__", _make_conversion(_name))


class ConstantsWithSizes(dict[Any, Any]):
    """The constants that the library keeps of numbers, while there are numbers that are no keys."""

    def get(self, key: Any, default: Any = None) -> Any:
        return default if type(key[0]) is SymbolicNumber else super().get(key, default)

    def __setitem__(self, key: Any, value: Any) -> None:
        if type(key[0]) is not SymbolicNumber:
            super().__setitem__(key, value)


# -- expressions of what is found --------------------------------------------------------------------------------


def expressed(values: tuple[int, ...], known: Iterable[Any]) -> Any:
    """A number that has these values: a known one, or one that is affine in it, a quotient, or a multiple of a product.

    Returns
    -------
    int or SymbolicNumber or None
        None if there is none.
    """
    if len({*values}) == 1:
        return values[0]
    found = list({each.expression: each for each in known if type(each) is SymbolicNumber}.values())
    found = [each for each in found if all(type(n) is int and n > 0 for n in each.values)]
    for rule in (_same, _affine, _quotient, _product):
        for i, each in enumerate(found):
            for other in found[i:] if rule is _product else [each]:
                result = rule(values, each, other)
                if result is not None and result.values[:RECORDED] == values:
                    return result
    return None


def _same(values: tuple[int, ...], each: Any, other: Any) -> Any:
    return each


def _affine(values: tuple[int, ...], each: Any, other: Any) -> Any:
    step = (values[1] - values[0]) / ((each.values[1] - each.values[0]) or 1)
    start = values[0] - int(step) * each.values[0]
    if not step or step % 1:
        return None
    return each * int(step) + start if start else each * int(step)


def _quotient(values: tuple[int, ...], each: Any, other: Any) -> Any:
    return each // (each.values[0] // values[0]) if 0 < values[0] < each.values[0] else None


def _product(values: tuple[int, ...], each: Any, other: Any) -> Any:
    factor = values[0] // (each.values[0] * other.values[0])
    return each * other * factor if factor else None
