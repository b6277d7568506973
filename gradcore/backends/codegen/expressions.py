"""What an elementwise formula computes, as an expression for one element.

A formula that is called with values of this module in the place of arrays leaves the expressions of its results. Dtypes
follow NumPy's promotion; float16 and bfloat16 do not occur, as they are computed in float32. Equal expressions are one
object, so that nothing is computed twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradcore.backends.codegen.cells import held

__all__ = ["Setting", "Trace", "Unfusable", "Value", "call_of", "fresh"]

BOOL, FLOAT = np.dtype(bool), np.dtype("float32")


class Unfusable(Exception):
    """The formula is not an expression of one element's values."""


def call_of(name: str) -> Callable[..., Value]:
    """An operator of values: the function of that name of NumPy."""

    def operator(self: Value, *others: Any) -> Value:
        return self.trace.call(name, self, *others)

    return operator


def _reflected(name: str) -> Callable[[Any, Any], Value]:
    def operator(self: Value, other: Any) -> Value:
        return self.trace.call(name, other, self)

    return operator


class Value:
    """The value of an expression: a leaf, or a function of other values.

    Attributes
    ----------
    function : str
        NumPy's name of the function; ``"input"``, ``"number"``, ``"parameter"`` or ``"cast"``.
    operands : tuple
        The values it is a function of; of a leaf, its number.
    dtype : numpy.dtype
        What it is computed in.
    """

    __slots__ = ("dtype", "function", "operands", "trace")
    __hash__ = object.__hash__
    #: Formulas of elements do not depend on it.
    ndim = 1

    def __init__(self, trace: Trace, function: str, operands: tuple[Any, ...], dtype: np.dtype[Any]) -> None:
        self.trace, self.function, self.operands, self.dtype = trace, function, operands, dtype

    def __repr__(self) -> str:
        return f"{self.function}{self.operands}: {self.dtype}"

    def __bool__(self) -> bool:
        raise Unfusable("the formula branches on an element's value")

    def __getitem__(self, index: Any) -> Any:
        raise Unfusable("the formula takes parts of an array")

    def __iter__(self) -> Any:
        raise Unfusable("the formula takes parts of an array")

    def __len__(self) -> int:
        raise Unfusable("the formula asks how many elements there are")

    def __getattr__(self, name: str) -> Any:
        raise Unfusable(f"the formula reads {name!r} of an array")

    # -- methods of arrays that elementwise kernels use

    def astype(self, dtype: Any, copy: bool = True) -> Value:
        return self.trace.cast(self, np.dtype(dtype))

    def view(self, dtype: Any) -> Value:
        """Bools as the integers 0 and 1; nothing else."""
        if self.dtype != BOOL or np.dtype(dtype) != "int8":
            raise Unfusable("the formula looks at the bits of numbers")
        return self.astype(dtype)

    def copy(self) -> Value:
        return self

    @property
    def real(self) -> Value:
        return self.trace.call("real", self) if self.dtype.kind == "c" else self

    @property
    def imag(self) -> Value:
        return self.trace.call("imag", self) if self.dtype.kind == "c" else self.trace.number(0, self.dtype)

    # -- operators

    __pos__, __neg__ = call_of("positive"), call_of("negative")
    __abs__, __invert__ = call_of("absolute"), call_of("invert")
    __add__, __radd__ = call_of("add"), _reflected("add")
    __sub__, __rsub__ = call_of("subtract"), _reflected("subtract")
    __mul__, __rmul__ = call_of("multiply"), _reflected("multiply")
    __truediv__, __rtruediv__ = call_of("divide"), _reflected("divide")
    __floordiv__, __rfloordiv__ = call_of("floor_divide"), _reflected("floor_divide")
    __mod__, __rmod__ = call_of("remainder"), _reflected("remainder")
    __pow__, __rpow__ = call_of("power"), _reflected("power")
    __and__, __rand__ = call_of("bitwise_and"), _reflected("bitwise_and")
    __or__, __ror__ = call_of("bitwise_or"), _reflected("bitwise_or")
    __xor__, __rxor__ = call_of("bitwise_xor"), _reflected("bitwise_xor")
    __lt__, __le__, __gt__ = call_of("less"), call_of("less_equal"), call_of("greater")
    __ge__, __eq__, __ne__ = call_of("greater_equal"), call_of("equal"), call_of("not_equal")  # type: ignore[assignment]


def fresh(value: Value) -> Value:
    """The value as a result with memory of its own, where it is merely an operand."""
    return +value if value.function == "input" else value


class Setting(float):
    """A float among an operation's settings: a parameter of the kernel, so that another value needs no other kernel.

    Arithmetic with it gives settings again. Formulas may compare it; the kernel is then one for calls with the same
    outcome.
    """

    __slots__ = ()


def _keeping(name: str) -> Callable[..., Any]:
    plain = getattr(float, name)

    def method(self: Setting, *others: Any) -> Any:
        result = plain(self, *others)
        return Setting(result) if result.__class__ is float else result

    return method


for _name in ("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "pow", "rpow", "neg", "abs"):
    setattr(Setting, f"__{_name}__", _keeping(f"__{_name}__"))


class Trace:
    """The expressions of one formula."""

    def __init__(self) -> None:
        self._known: dict[Any, Value] = {}
        #: Whether operands are computed in another dtype than their own.
        self.widened = False
        #: The values of the parameters, with their dtypes.
        self.parameters: list[tuple[float, np.dtype[Any]]] = []

    def _value(self, function: str, operands: tuple[Any, ...], dtype: np.dtype[Any]) -> Value:
        key = function, dtype, *(id(o) if isinstance(o, Value) else (type(o), repr(o)) for o in operands)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = Value(self, function, operands, dtype)
        return known

    # -- leaves

    def input(self, number: int, dtype: np.dtype[Any]) -> Value:
        """The element of an operand, in the dtype it is computed in."""
        return self._value("input", (number,), dtype)

    def number(self, value: Any, dtype: np.dtype[Any]) -> Value:
        """A number as a value of that dtype."""
        if value.__class__ is Setting:
            entry = float(value), dtype
            if entry not in self.parameters:
                self.parameters.append(entry)
            return self._value("parameter", (self.parameters.index(entry),), dtype)
        try:
            return self._value("number", (dtype.type(value).item(),), dtype)
        except (OverflowError, TypeError) as error:
            raise Unfusable(str(error)) from None

    def cast(self, value: Value, dtype: np.dtype[Any]) -> Value:
        """The value in another dtype; the real part of a complex number for a real one."""
        if value.dtype == dtype:
            return value
        if value.function == "number":
            return self.number(np.asarray(value.operands[0]).astype(dtype)[()], dtype)
        if value.dtype.kind == "c" and dtype.kind not in "cb":
            value = value.real
            if value.dtype == dtype:
                return value
        return self._value("cast", (value,), dtype)

    # -- functions

    def call(self, name: str, *operands: Any) -> Value:
        """NumPy's function of that name, in the dtypes that NumPy computes it in."""
        function = getattr(np, name, None)
        operands = tuple(map(held, operands))
        if name in ("real", "imag"):
            return self._value(name, operands, np.dtype("float32" if operands[0].dtype.itemsize == 8 else "float64"))
        if not isinstance(function, np.ufunc):
            raise Unfusable(f"{name} is not a function of elements")
        kinds = [o.dtype if isinstance(o, Value) else _kind(o) for o in operands]
        try:
            *inputs, output = (FLOAT if d == "float16" else d for d in function.resolve_dtypes((*kinds, None)))
        except TypeError as error:
            raise Unfusable(str(error)) from None
        return self._value(name, tuple(map(self.operand, operands, inputs)), output)

    def call_in(self, name: str, dtype: np.dtype[Any], result: np.dtype[Any], *operands: Any) -> Value:
        """A function whose operands all have one dtype."""
        return self._value(name, tuple(self.operand(o, dtype) for o in operands), result)

    def where(self, condition: Value, x: Any, y: Any) -> Value:
        """A selection."""
        condition, x, y = map(held, (condition, x, y))
        dtype = np.result_type(*(o.dtype if isinstance(o, Value) else _weak(o) for o in (x, y)))
        return self._value("where", (self.cast(condition, BOOL), self.operand(x, dtype), self.operand(y, dtype)), dtype)

    def operand(self, operand: Any, dtype: np.dtype[Any]) -> Value:
        """A value, or a number, in that dtype."""
        operand = held(operand)
        return self.cast(operand, dtype) if isinstance(operand, Value) else self.number(operand, dtype)


def _weak(number: Any) -> Any:
    return float(number) if number.__class__ is Setting else number


def _kind(number: Any) -> Any:
    """How NumPy's promotion sees a number: Python's by their class, its own by their dtype."""
    if isinstance(number, bool):
        return BOOL
    for kind in (int, float, complex):
        if isinstance(number, kind) and not isinstance(number, np.generic):
            return kind
    if isinstance(number, np.generic):
        return number.dtype
    raise Unfusable(f"the formula computes with {type(number).__name__}")
