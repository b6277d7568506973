"""Parsed expressions computed with a namespace ``F``, and their derivatives by the declared formulas."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from gradcore.kernels.parsing import Program, Tree, Unparsable
from gradcore.ops.declare.promotion import is_number
from gradcore.ops.declare.table import OPS

__all__ = ["check_functions", "differential", "evaluate"]

#: Functions of C++: the operation of that name.
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

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "==": operator.eq,
    "!=": operator.ne, "<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge,
}  # fmt: skip


def check_functions(program: Program) -> None:
    """Raise `Unparsable` if a program calls a function that gradcore does not know."""

    def check(tree: Tree) -> None:
        if tree[0] == "call" and tree[1] not in _FUNCTIONS:
            raise Unparsable(f"{tree[1]}() is not among the functions that have a counterpart in gradcore")
        if tree[0] == "binary" and tree[1] == "%":
            raise Unparsable("% has no counterpart in gradcore: use fmod()")
        for part in tree:
            if isinstance(part, tuple):
                check(part)

    for _, tree in program.assignments:
        check(tree)


def evaluate(F: Any, program: Program, values: dict[str, Any]) -> Any:
    """Return the last variable of a program, whose parameters have the given values."""
    return _run(F, program, {name: (value, None) for name, value in values.items()})[0]


def differential(F: Any, program: Program, values: dict[str, Any], name: str, t: Any) -> Any:
    """By how much the last variable moves if a parameter moves by `t`; zeros if it does not depend on it."""
    known = {each: (value, t if each == name else None) for each, value in values.items()}
    tangent = _run(F, program, known)[1]
    return F.zeros_like(t) if tangent is None else tangent


#: A value, and its tangent (None: it does not move).
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
    value, t = x
    if sign == "!":
        return (not value if is_number(value) else F.logical_not(value)), None
    return (-value, None if t is None else -t) if sign == "-" else x


def _select(F: Any, condition: Any, x: Pair, y: Pair) -> Pair:
    if is_number(condition):
        return x if condition else y
    if x[1] is None and y[1] is None:
        return F.where(condition, x[0], y[0]), None
    tangents = (0 if t is None else t for t in (x[1], y[1]))
    return F.where(condition, x[0], y[0]), F.where(condition, *tangents)


def _binary(F: Any, sign: str, x: Pair, y: Pair) -> Pair:
    (a, s), (b, t) = x, y
    if sign in ("&&", "||"):
        if is_number(a) and is_number(b):
            return (a and b if sign == "&&" else a or b), None
        return (F.logical_and(a, b) if sign == "&&" else F.logical_or(a, b)), None
    value = _OPERATORS[sign](a, b)
    if (s is None and t is None) or sign not in "+-*/":
        return value, None
    if sign in "+-":
        return value, _sum(s, t if sign == "+" or t is None else -t)
    if sign == "*":
        return value, _sum(None if s is None else s * b, None if t is None else t * a)
    return value, _sum(None if s is None else s / b, None if t is None else -t * (value / b))


def _sum(s: Any, t: Any) -> Any:
    return t if s is None else s if t is None else s + t


def _call(F: Any, name: str, operands: list[Pair]) -> Pair:
    """Return a function's value; its tangent by the differentials that the operation declares."""
    values = [value for value, _ in operands]
    if all(map(is_number, values)):
        return _of_numbers(name, values), None
    if len(values) == 2 and any(map(is_number, values)):
        return _with_number(F, name, operands)
    result = getattr(F, name)(*values)
    total = None
    op = OPS["pow_tensor" if name == "pow" else name]
    for parameter, (_, t) in zip(op.names, operands, strict=False):
        if t is not None:
            total = _sum(total, _moved(F, op, parameter, t, values, result))
    return result, total


def _moved(F: Any, op: Any, parameter: str, t: Any, values: list[Any], result: Any) -> Any:
    """Tangent of an operation's result for the tangent `t` of one of its inputs."""
    if op.name == "abs":
        return t * F.sgn(values[0])
    if parameter not in op.differentials:  # of isnan, say
        return None
    formula = op.differentials[parameter]
    known = {p.name: p.default for p in op.parameters} | dict(zip(op.names, values, strict=False)) | {"result": result}
    return formula.function(F, t, *[known[name] for name in formula.names])


def _with_number(F: Any, name: str, operands: list[Pair]) -> Pair:
    """Return a function of two, one of which is a number: what the operations have for that."""
    (a, s), (b, t) = operands
    first = is_number(a)
    x, moved, number = (b, t, a) if first else (a, s, b)
    if name in ("maximum", "fmax", "minimum", "fmin"):
        low = name in ("maximum", "fmax")
        value = F.clamp_min(x, number) if low else F.clamp_max(x, number)
        if moved is None:
            return value, None
        return value, F.where(x >= number if low else x <= number, moved, 0)
    if name == "pow" and not first:
        value = F.pow(x, number)
        return value, None if moved is None else moved * (number * F.pow(x, number - 1))
    if name == "pow":
        value = F.exp(x * math.log(number))
        return value, None if moved is None else moved * (value * math.log(number))
    filled = F.zeros_like(x) + number
    return _call(F, name, [(filled, None), operands[1]] if first else [operands[0], (filled, None)])


def _of_numbers(name: str, values: list[Any]) -> Any:
    if name in ("maximum", "fmax"):
        return max(values)
    if name in ("minimum", "fmin"):
        return min(values)
    if name == "rsqrt":
        return 1 / math.sqrt(*values)
    return getattr(math, {"abs": "fabs", "asinh": "asinh", "round": "rint"}.get(name, name))(*values)
