"""Python's operators in one table: their names, symbols, methods, and the functions of NumPy that they call."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeAlias

import numpy as np

from gradcore.core.typing import NamedTuple

__all__ = ["BASIC", "BY_UFUNC", "OPERATORS", "Form", "Method", "Operator", "define_operators", "names_of", "symbols_of"]

#: The forms of an operator: ``-x``; ``x + y`` called on the left operand, or on the right one; ``x += y``.
Form: TypeAlias = Literal["unary", "left", "right", "in place"]
#: A method of some class.
Method: TypeAlias = Callable[..., Any]


class Operator(NamedTuple):
    """Python operator: its names, symbol and methods.

    Attributes
    ----------
    name : str
        The name of its method, without underscores.
    symbol : str
    kind : str
        ``"arithmetic"``, ``"bits"``, ``"comparison"``, ``"unary"`` or ``"product"``.
    ufunc : numpy.ufunc
    operation : str
        The operation of tensors.
    function : callable
        The function of Python's module `operator`.
    in_place : callable or None
        The in-place function of the module `operator`, if there is one.
    """

    name: str
    symbol: str
    kind: str
    ufunc: np.ufunc
    operation: str
    function: Method
    in_place: Method | None

    @property
    def methods(self) -> tuple[tuple[Form, str], ...]:
        """The method names of the operator's forms."""
        if self.kind == "unary":
            return (("unary", f"__{self.name}__"),)
        left: tuple[Form, str] = ("left", f"__{self.name}__")
        if self.in_place is None:
            return (left,)
        return left, ("right", f"__r{self.name}__"), ("in place", f"__i{self.name}__")


def _operator(name: str, symbol: str, kind: str, ufunc: np.ufunc, operation: str) -> Operator:
    function = getattr(operator, f"{name}_" if name in ("and", "or") else name)
    return Operator(name, symbol, kind, ufunc, operation, function, getattr(operator, f"i{name}", None))


#: The operators by name.
OPERATORS = {
    each[0]: _operator(*each)
    for each in (
        ("add", "+", "arithmetic", np.add, "add"),
        ("sub", "-", "arithmetic", np.subtract, "sub"),
        ("mul", "*", "arithmetic", np.multiply, "mul"),
        ("truediv", "/", "arithmetic", np.true_divide, "div"),
        ("floordiv", "//", "arithmetic", np.floor_divide, "floor_divide"),
        ("mod", "%", "arithmetic", np.remainder, "remainder"),
        ("pow", "**", "arithmetic", np.power, "pow"),
        ("matmul", "@", "product", np.matmul, "matmul"),
        ("and", "&", "bits", np.bitwise_and, "bitwise_and"),
        ("or", "|", "bits", np.bitwise_or, "bitwise_or"),
        ("xor", "^", "bits", np.bitwise_xor, "bitwise_xor"),
        ("lshift", "<<", "bits", np.left_shift, "bitwise_left_shift"),
        ("rshift", ">>", "bits", np.right_shift, "bitwise_right_shift"),
        ("lt", "<", "comparison", np.less, "lt"),
        ("le", "<=", "comparison", np.less_equal, "le"),
        ("gt", ">", "comparison", np.greater, "gt"),
        ("ge", ">=", "comparison", np.greater_equal, "ge"),
        ("eq", "==", "comparison", np.equal, "eq"),
        ("ne", "!=", "comparison", np.not_equal, "ne"),
        ("neg", "-", "unary", np.negative, "neg"),
        ("pos", "+", "unary", np.positive, "positive"),
        ("abs", "abs", "unary", np.absolute, "abs"),
        ("invert", "~", "unary", np.invert, "bitwise_not"),
    )
}
#: Sums, differences, products and quotients.
BASIC = {name: each for name, each in OPERATORS.items() if each.kind == "arithmetic" and each.symbol in tuple("+-*/")}
#: The operator that each function of NumPy is.
BY_UFUNC = {each.ufunc: each for each in OPERATORS.values()}


def names_of(*kinds: str) -> list[str]:
    """Return the names of the operators whose kind is one of `kinds`."""
    return [each.name for each in OPERATORS.values() if each.kind in kinds]


def symbols_of(*kinds: str) -> dict[str, str]:
    """Return the symbols, by name, of the operators whose kind is one of `kinds`."""
    return {name: OPERATORS[name].symbol for name in names_of(*kinds)}


def define_operators(
    cls: type, make: Callable[[Operator, Form], Method | None], names: Iterable[str] = OPERATORS
) -> None:
    """Define operator methods on a class, except those that it defines itself.

    Parameters
    ----------
    cls : type
    make : callable
        ``make(operator, form)`` returns the method of one form of an operator; None if the class has none.
    names : iterable of str
        The operators, by default all.
    """
    for name in names:
        for form, method_name in OPERATORS[name].methods:
            method = None if method_name in vars(cls) else make(OPERATORS[name], form)
            if method is not None:
                setattr(cls, method_name, method)
