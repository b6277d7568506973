"""Evaluation of parsed expressions with a namespace ``F``, and of their derivatives by the operations' formulas."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from gradcore.core.operators import OPERATORS, names_of
from gradcore.kernels.parsing import Program, Tree, Unparsable
from gradcore.ops.declare.promotion import is_number
from gradcore.ops.declare.table import OPS, Op

__all__ = ["check_functions", "differential", "evaluate"]

#: Names of operations, by name of the C++ function.
_FUNCTIONS = {
    "abs": "abs", "acos": "acos", "acosh": "acosh", "asin": "asin", "asinh": "asinh", "atan": "atan",
    "atan2": "atan2", "atanh": "atanh", "ceil": "ceil", "copysign": "copysign", "cos": "cos", "cosh": "cosh",
    "erf": "erf", "erfc": "erfc", "erfcx": "erfcx", "erfinv": "erfinv", "exp": "exp", "exp2": "exp2",
    "expm1": "expm1", "fabs": "abs", "floor": "floor", "fmax": "fmax", "fmin": "fmin", "fmod": "fmod",
    "hypot": "hypot", "isfinite": "isfinite", "isinf": "isinf", "isnan": "isnan", "lgamma": "lgamma", "log": "log",
    "log10": "log10", "log1p": "log1p", "log2": "log2", "max": "maximum", "min": "minimum", "pow": "pow",
    "rint": "round", "rsqrt": "rsqrt", "sin": "sin", "sinh": "sinh", "sqrt": "sqrt", "tan": "tan", "tanh": "tanh",
    "trunc": "trunc",
}  # fmt: skip

#: Operators of C++, by symbol.
_OPERATORS = {each.symbol: each for each in map(OPERATORS.__getitem__, names_of("arithmetic", "comparison"))}
#: Operations whose second operand is a number, by function. These functions commute if the number comes first.
_OF_NUMBERS = {
    "maximum": "clamp_min_number", "fmax": "clamp_min_number", "minimum": "clamp_max_number",
    "fmin": "clamp_max_number", "pow": "pow_number",
}  # fmt: skip


def check_functions(program: Program) -> None:
    """Raise `Unparsable` if a program calls a function that gradcore does not know."""

    def check(tree: Tree) -> None:
        if tree[0] == "call" and tree[1] not in _FUNCTIONS:
            raise Unparsable(f"{tree[1]}() is not among the functions that have a counterpart in gradcore")
        if tree[0] == "binary" and tree[1] == "%":
            raise Unparsable("% has no counterpart in gradcore: use fmod()")
        for subtree in tree:
            if isinstance(subtree, tuple):
                check(subtree)

    for _, tree in program.assignments:
        check(tree)


def evaluate(F: Any, program: Program, values: dict[str, Any]) -> Any:
    """Return the value of a program's last variable, given values of its parameters."""
    return _run(F, program, {name: (value, None) for name, value in values.items()})[0]


def differential(F: Any, program: Program, values: dict[str, Any], name: str, t: Any) -> Any:
    """Return the tangent of a program's last variable if the parameter `name` has the tangent `t`; zeros if none."""
    pairs = {each: (value, t if each == name else None) for each, value in values.items()}
    tangent = _run(F, program, pairs)[1]
    return F.zeros_like(t) if tangent is None else tangent


#: Pair of a value and its tangent, which is None if the value does not change.
Pair = tuple[Any, Any]


def _run(F: Any, program: Program, known: dict[str, Pair]) -> Pair:
    known, pair = dict(known), (None, None)
    for name, tree in program.assignments:
        pair = known[name] = _value(F, tree, known)
    return pair


def _value(F: Any, tree: Tree, known: dict[str, Pair]) -> Pair:
    kind = tree[0]
    if kind == "number":
        return tree[1], None
    if kind == "name":
        if tree[1] not in known:
            raise NameError(f"the kernel reads {tree[1]!r}, which is neither a parameter nor a variable")
        return known[tree[1]]
    first, *others = (_value(F, part, known) for part in tree[1:] if isinstance(part, tuple))
    if kind == "unary":
        return _unary(F, tree[1], first)
    if kind == "select":
        return _select(F, first[0], *others)
    if kind == "binary":
        return _binary(F, tree[1], first, others[0])
    return _call(F, _FUNCTIONS[tree[1]], [first, *others])


def _unary(F: Any, sign: str, x: Pair) -> Pair:
    if sign == "!":
        return (not x[0] if is_number(x[0]) else F.logical_not(x[0])), None
    return _apply(F, OPS["neg"], operator.neg, [x]) if sign == "-" else x


def _select(F: Any, condition: Any, x: Pair, y: Pair) -> Pair:
    if is_number(condition):
        return x if condition else y
    return _apply(F, OPS["select_where"], F.where, [(condition, None), x, y])


def _binary(F: Any, sign: str, x: Pair, y: Pair) -> Pair:
    if sign in _OPERATORS:
        return _apply(F, OPS[_OPERATORS[sign].operation], _OPERATORS[sign].function, [x, y])
    a, b = x[0], y[0]
    if is_number(a) and is_number(b):
        return (a and b if sign == "&&" else a or b), None
    return (F.logical_and(a, b) if sign == "&&" else F.logical_or(a, b)), None


def _call(F: Any, name: str, operands: list[Pair]) -> Pair:
    """Return the value and the tangent of the function `name`, one of whose two operands may be a number."""
    values = [value for value, _ in operands]
    if all(map(is_number, values)):
        return _call_on_numbers(name, values), None
    if len(values) == 2 and any(map(is_number, values)):
        if name == "pow" and is_number(values[0]):
            return _call(F, "exp", [_binary(F, "*", operands[1], (math.log(values[0]), None))])
        if name in _OF_NUMBERS:
            op = OPS[_OF_NUMBERS[name]]
            return _apply(
                F, op, getattr(F, op.name.removesuffix("_number")), operands[::-1] if is_number(values[0]) else operands
            )
        shape = values[1] if is_number(values[0]) else values[0]
        operands = [(F.zeros_like(shape) + x, None) if is_number(x) else (x, t) for x, t in operands]
    return _apply(F, OPS["pow_tensor" if name == "pow" else name], getattr(F, name), operands)


def _apply(F: Any, op: Op, function: Callable[..., Any], operands: list[Pair]) -> Pair:
    """Return the value of `function`, and its tangent by the differentials that the operation `op` declares."""
    values = [value for value, _ in operands]
    result, total = function(*values), None
    named_values = (
        {p.name: p.default for p in op.parameters} | dict(zip(op.names, values, strict=False)) | {"result": result}
    )
    for parameter, (_, t) in zip(op.names, operands, strict=False):
        if t is None:
            continue
        if op.name == "abs":
            change = t * F.sgn(values[0])
        elif parameter in op.differentials:  # functions such as isnan have none
            formula = op.differentials[parameter]
            change = formula.function(F, t, *[named_values[name] for name in formula.names])
        else:
            continue
        total = change if total is None else total + change
    return result, total


def _call_on_numbers(name: str, values: list[Any]) -> Any:
    if name in ("maximum", "fmax"):
        return max(values)
    if name in ("minimum", "fmin"):
        return min(values)
    if name == "rsqrt":
        return 1 / math.sqrt(*values)
    return getattr(math, {"abs": "fabs", "asinh": "asinh", "round": "rint"}.get(name, name))(*values)
