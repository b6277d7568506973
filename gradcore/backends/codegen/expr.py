"""The intermediate representation: scalar expressions of one element, hash-consed in a graph.

Calling a formula with expressions in the place of arrays gives the expressions of its results. Dtypes follow NumPy's
promotion; float16 and bfloat16 do not occur, as they are computed in float32. Equal expressions are one object, so
common subexpressions are computed once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from gradcore.backends.codegen.scalars import ScalarParameter
from gradcore.backends.stand_ins import ArrayStandIn
from gradcore.core.operators import Form, Method, Operator, define_operators

__all__ = ["Expr", "ExprGraph", "MutableExpr", "NotFusible", "as_output", "unwrap"]

BOOL, HALF, FLOAT = np.dtype(bool), np.dtype("float16"), np.dtype("float32")


class NotFusible(Exception):
    """Raised for a formula that is no expression of single elements, or needs a function that the target lacks."""


def _refuse(reason: str) -> Callable[..., NoReturn]:
    def method(self: Expr, *args: Any) -> NoReturn:
        raise NotFusible(reason)

    return method


class Expr(ArrayStandIn):
    """Expression of one element: a leaf, or a function of other expressions.

    Attributes
    ----------
    graph : ExprGraph
        Graph that the expression belongs to.
    function : str
        The name of a NumPy or SciPy function, ``"where"``, ``"cast"``, ``"complex"`` or ``"round_to_float16"``; of a
        leaf ``"input"``, ``"constant"`` or ``"parameter"``.
    operands : tuple of Expr
        The function's arguments; empty for leaves.
    dtype : numpy.dtype
        The dtype it is computed in.
    value : object
        The number of a constant, or the position of an input or a parameter.
    """

    __slots__ = ("dtype", "function", "graph", "operands", "value")
    __hash__ = object.__hash__
    #: Formulas read it to recognise arrays. The expression of an element does not depend on it.
    ndim = 1
    dtype: np.dtype[Any]

    def __init__(
        self, graph: ExprGraph, function: str, operands: tuple[Expr, ...], dtype: np.dtype[Any], value: Any = None
    ) -> None:
        self.graph, self.function, self.operands, self.dtype, self.value = graph, function, operands, dtype, value

    def __repr__(self) -> str:
        inside = ", ".join(o.function for o in self.operands) if self.operands else str(self.value)
        return f"{self.function}({inside}): {self.dtype}"

    def __getattr__(self, name: str) -> Any:
        raise NotFusible(f"the formula reads {name!r} of an array")

    __bool__ = _refuse("the formula branches on an element's value")
    __getitem__ = __iter__ = _permute = _reshape = _refuse("the formula takes parts of an array")
    __len__ = _refuse("the formula asks for the number of elements")

    # -- methods of arrays that elementwise kernels use

    def astype(self, dtype: Any, copy: bool = True) -> Expr:
        return self.graph.cast(self, np.dtype(dtype))

    def view(self, dtype: Any) -> Expr:
        """Return bools as the integers 0 and 1. Other reinterpretations of bits are refused."""
        if self.dtype != BOOL or np.dtype(dtype) != "int8":
            raise NotFusible("the formula looks at the bits of numbers")
        return self.astype(dtype)

    def copy(self) -> Expr:
        return self

    def _part(self, name: str) -> Expr:
        if self.dtype.kind == "c":
            return self.graph.call(name, self)
        return self if name == "real" else self.graph.constant(0, self.dtype)

    # -- operators: the NumPy functions of the graph

    @staticmethod
    def make_operator(operator: Operator, form: Form) -> Method | None:
        name = operator.ufunc.__name__
        if form == "in place" or operator.kind == "product":
            return None
        if form == "right":
            return lambda self, other: self.graph.call(name, other, self)
        return lambda self, *others: self.graph.call(name, self, *others)

    def call_method(self, name: str, function: Method, args: tuple[object, ...], named: dict[str, Any]) -> NoReturn:
        raise NotFusible(f"the formula calls {name!r} of an array")

    def convert(self, name: str, *args: object, **kwargs: object) -> NoReturn:
        raise NotFusible(f"the formula takes an element for a number or array of Python ({name})")


def as_output(expr: Expr) -> Expr:
    """Return an expression that a kernel can store: an input that is returned unchanged becomes a new array."""
    return expr.graph.call("positive", expr) if expr.function == "input" else expr


class ExprGraph:
    """The expressions of one formula. Equal expressions are one object (hash-consing)."""

    def __init__(self) -> None:
        self._known: dict[Any, Expr] = {}
        #: Scalars that are parameters of the kernel, with their dtypes as arguments.
        self.parameters: list[tuple[ScalarParameter, np.dtype[Any]]] = []

    def node(self, function: str, operands: tuple[Expr, ...], dtype: np.dtype[Any]) -> Expr:
        """Return the expression that applies a function to other expressions."""
        key = function, dtype, *map(id, operands)
        expr = self._known.get(key)
        if expr is None:
            expr = self._known[key] = Expr(self, function, operands, dtype)
        return expr

    # -- leaves

    def _leaf(self, function: str, value: Any, dtype: np.dtype[Any]) -> Expr:
        key = function, dtype, type(value), repr(value)  # The repr distinguishes 0.0 from -0.0.
        expr = self._known.get(key)
        if expr is None:
            expr = self._known[key] = Expr(self, function, (), dtype, value)
        return expr

    def input(self, position: int, dtype: np.dtype[Any]) -> Expr:
        """Return the element of an input of the kernel, in the dtype it is computed in."""
        return self._leaf("input", position, dtype)

    def constant(self, value: Any, dtype: np.dtype[Any]) -> Expr:
        """Return a Python or NumPy scalar as an expression of `dtype`: a constant, or a parameter of the kernel."""
        if isinstance(value, ScalarParameter):
            return self._parameter(value, dtype)
        try:
            return self._leaf("constant", dtype.type(value).item(), dtype)
        except (OverflowError, TypeError) as error:
            raise NotFusible(str(error)) from None

    def _parameter(self, scalar: ScalarParameter, dtype: np.dtype[Any]) -> Expr:
        for position, (value_before, its_dtype) in enumerate(self.parameters):
            if its_dtype == dtype and value_before.identity == scalar.identity:
                return self._leaf("parameter", position, dtype)
        self.parameters.append((scalar, dtype))
        return self._leaf("parameter", len(self.parameters) - 1, dtype)

    # -- functions

    def cast(self, expr: Expr, dtype: np.dtype[Any]) -> Expr:
        """Return the expression converted to `dtype`. A complex number becomes real by dropping its imaginary part."""
        if expr.dtype == dtype:
            return expr
        if expr.function == "constant":
            return self.constant(np.asarray(expr.value).astype(dtype)[()], dtype)
        if expr.dtype.kind == "c" and dtype.kind not in "cb":
            expr = expr.real
            if expr.dtype == dtype:
                return expr
        return self.node("cast", (expr,), dtype)

    def round_to(self, expr: Expr, dtype: np.dtype[Any]) -> Expr:
        """Return a float32 rounded to a 16-bit float, as if it had been stored and read again."""
        name = f"round_to_{dtype.name}"
        return expr if expr.function == name else self.node(name, (expr,), FLOAT)

    def call(self, name: str, *operands: Any) -> Expr:
        """Return the expression of the NumPy function `name`, in the dtypes in which NumPy computes it."""
        operands = tuple([unwrap(o) for o in operands])
        if name in ("real", "imag"):
            return self.node(name, operands, np.dtype("float32" if operands[0].dtype.itemsize == 8 else "float64"))
        function = getattr(np, name, None)
        if not isinstance(function, np.ufunc):
            raise NotFusible(f"{name} is not a function of elements")
        kinds = [o.dtype if isinstance(o, Expr) else _promotion_type(o) for o in operands]
        try:
            *inputs, output = [FLOAT if d == HALF else d for d in function.resolve_dtypes((*kinds, None))]
        except TypeError as error:
            raise NotFusible(str(error)) from None
        return self.node(
            name, tuple([self._convert_operand(o, dtype) for o, dtype in zip(operands, inputs, strict=True)]), output
        )

    def call_in(self, name: str, dtype: np.dtype[Any], result: np.dtype[Any], *operands: Any) -> Expr:
        """Return the expression of a function whose operands are all converted to `dtype`."""
        return self.node(name, tuple(self.operand(o, dtype) for o in operands), result)

    def where(self, condition: Expr, x: Any, y: Any) -> Expr:
        """Return the expression of a selection."""
        condition, x, y = map(unwrap, (condition, x, y))
        dtype = np.result_type(*(o.dtype if isinstance(o, Expr) else _plain(o) for o in (x, y)))
        return self.node("where", (self.cast(condition, BOOL), self.operand(x, dtype), self.operand(y, dtype)), dtype)

    def operand(self, operand: Any, dtype: np.dtype[Any]) -> Expr:
        """Return an operand, an expression or a scalar, as an expression of `dtype`."""
        return self._convert_operand(unwrap(operand), dtype)

    def _convert_operand(self, operand: Any, dtype: np.dtype[Any]) -> Expr:
        return self.cast(operand, dtype) if isinstance(operand, Expr) else self.constant(operand, dtype)


def _plain(scalar: Any) -> Any:
    """Return a scalar as an instance of Python's own class, so that `numpy.result_type` treats it as weak."""
    return float(scalar) if isinstance(scalar, ScalarParameter) else scalar


def _promotion_type(scalar: Any) -> Any:
    """Return what stands for a scalar in NumPy's promotion: a Python class, or the dtype of a NumPy scalar."""
    if isinstance(scalar, bool):
        return BOOL
    if isinstance(scalar, np.generic):
        return scalar.dtype
    for kind in (int, float, complex):
        if isinstance(scalar, kind):
            return kind
    raise NotFusible(f"the formula computes with {type(scalar).__name__}")


# -- formulas that write in place ------------------------------------------------------------------------------------


class MutableExpr:
    """A variable that holds an expression: operators read it, in-place operators and ``x[...] = y`` assign to it.

    It stands for the parameter and the states that an optimiser's formula writes in place.
    """

    __slots__ = ("expr",)
    __hash__ = object.__hash__

    def __init__(self, expr: Any) -> None:
        self.expr = expr

    def __getattr__(self, name: str) -> Any:
        return getattr(self.expr, name)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.expr = self.expr.graph.operand(value, self.expr.dtype)


def unwrap(value: Any) -> Any:
    """Return the expression that a `MutableExpr` holds, and any other value unchanged."""
    return value.expr if isinstance(value, MutableExpr) else value


def _make_operator(operator: Operator, form: Form) -> Method | None:
    if operator.kind == "product":
        return None
    (_, left), *others = operator.methods
    name = others[0][1] if form == "right" else left

    def read(self: MutableExpr, *operands: Any) -> Any:
        return getattr(self.expr, name)(*map(unwrap, operands))

    def assign(self: MutableExpr, operand: Any) -> MutableExpr:
        self[...] = read(self, operand)
        return self

    return assign if form == "in place" else read


define_operators(MutableExpr, _make_operator)
