"""Examples and formulas of operations for the reference, from their declarations.

An example is the first call that the tests make of an operation, written as a user would write it. It is run when the
page is made, so what it shows is what it gives.
"""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

import gradcore as gc
from gradcore.ops.samples import Bools, Case, Floats, Ints, Values, case
from gradcore.ops.table import Formula, Op

__all__ = ["example", "formulas"]


# -- examples ---------------------------------------------------------------------------------------------------------


def example(op: Op) -> list[str]:
    """The lines of an interactive session that calls the operation; none if its declaration describes no call."""
    found = _call(op)
    if found is None:
        return []
    statements, call = found
    names: dict[str, Any] = {"gc": gc}
    gc.manual_seed(0)
    for line in statements:
        exec(line, names)
    result = eval(call, names)
    if not _of_each_element(op) or not isinstance(result, gc.Tensor):
        if isinstance(result, gc.Tensor):
            call, result = f"{call}.shape", result.shape
        elif isinstance(result, (tuple, list)) and all(isinstance(t, gc.Tensor) for t in result):
            call, result = f"[tuple(t.shape) for t in {call}]", [tuple(t.shape) for t in result]
    return [*(f">>> {line}" for line in statements), f">>> {call}", *repr(result).splitlines()]


def _of_each_element(op: Op) -> bool:
    return op.samples is None and op.kind in ("elementwise", "constant")


def _call(op: Op) -> tuple[list[str], str] | None:
    """Statements that make the arguments, and the call."""
    arguments = _three_numbers(op) if _of_each_element(op) else next(iter(op.samples() if op.samples else ()), None)
    if arguments is None:
        return None
    statements: list[str] = []
    shown: list[str] = []
    several = any(p.kind is p.VAR_POSITIONAL for p in op.parameters)
    last = max(op.tensors, default=0)
    for i, value in enumerate(arguments.args):
        name = f"x{i}" if several else op.names[i]
        if name.startswith("_"):
            break
        text = _argument("input" if name == "self" else name, value, op, statements)
        shown.append(text if several or i <= last else f"{name}={text}")
    shown += [f"{name}={_argument(name, value, op, statements)}" for name, value in arguments.settings.items()]
    return statements, f"gc.{op.path}({', '.join(shown)})"


def _three_numbers(op: Op) -> Case | None:
    """Three numbers for each tensor, from all over the domain."""
    if any(p.default is p.empty for i, p in enumerate(op.parameters) if i not in op.tensors):
        return None
    low, high = op.domain
    if "-float" in op.promotion:
        return case(*[np.array(row) for row in ([6, 4, 3], [1, 2, 5], [1, 1, 1])[: len(op.tensors)]])
    rows = [(low, (low + high) / 2, high), (high, low + 0.75 * (high - low), high), (high, high, low)]
    return case(*[np.round(np.array(row), 2) for row in rows[: len(op.tensors)]])


def _argument(name: str, value: Any, op: Op, statements: list[str]) -> str:
    """An argument in the call; tensors become statements that give them a name."""
    if isinstance(value, (list, tuple)) and not isinstance(value, (Floats, Ints, Bools, Values)):
        parts = [_argument(f"{name[0]}{i}", part, op, statements) for i, part in enumerate(value)]
        inside = ", ".join(parts)
        return f"[{inside}]" if isinstance(value, list) else f"({inside}{',' * (len(parts) == 1)})"
    made = _made(value, op.domain)
    if made is None:
        return str(value) if isinstance(value, gc.dtype) else repr(value)
    statements.append(f"{name} = {made}")
    return name


def _made(value: Any, domain: tuple[float, float]) -> str | None:
    """How a described tensor is made; None if the value describes none."""
    if isinstance(value, Floats):
        return _floats(value, domain)
    if isinstance(value, Ints):
        return f"gc.randint({value.low}, {value.high}, {value.shape})"
    if isinstance(value, Bools):
        return f"gc.rand({_sizes(value.shape)}) > 0.5"
    if isinstance(value, Values):
        return f"gc.tensor({list(value.values)}, dtype=gc.{value.dtype})"
    if isinstance(value, np.ndarray):
        return f"gc.tensor({value.tolist()})"
    return None


def _sizes(shape: tuple[int, ...]) -> str:
    return ", ".join(map(str, shape)) if shape else "()"


def _floats(described: Floats, domain: tuple[float, float]) -> str:
    sizes, n = _sizes(described.shape), described.shape[-1] if described.shape else 1
    if described.form == "complex":
        return f"gc.randn({sizes}, dtype=gc.complex64)"
    if described.form == "spd":
        return f"gc.eye({n}) + gc.ones({sizes})"
    if described.form == "symmetric":
        return f"gc.eye({n}) - gc.ones({sizes})"
    if described.form == "well-conditioned":
        return f"gc.randn({sizes}) + {2 * n} * gc.eye({', '.join(map(str, described.shape[-2:]))})"
    if described.form == "sorted":
        return f"gc.randn({sizes}).sort().values"
    low = domain[0] if described.low is None else described.low
    high = domain[1] if described.high is None else described.high
    if (low, high) == (-2.0, 2.0):
        return f"gc.randn({sizes})"
    return f"gc.rand({sizes})" if (low, high) == (0, 1) else f"gc.empty({sizes}).uniform_({low}, {high})"


# -- formulas ---------------------------------------------------------------------------------------------------------


def formulas(op: Op) -> Iterator[tuple[str, str]]:
    """The derivatives that are written as one expression: the input's name, and the expression."""
    for key, formula in (op.differentials or op.vjps).items():
        text = _expression(formula)
        if text is not None:
            yield (key if isinstance(key, str) else ", ".join(key)), text


def _expression(formula: Formula) -> str | None:
    code = formula.function.__code__
    if not formula.function.__module__.startswith("gradcore."):
        return None
    for node in _functions(formula.function.__module__).get(code.co_firstlineno, ()):
        body = node.body if isinstance(node, ast.Lambda) else _returned(node)
        if body is None or [a.arg for a in node.args.args] != list(code.co_varnames[: code.co_argcount]):
            continue
        arguments = ", ".join(a.arg for a in node.args.args)
        made = eval(f"lambda {arguments}: {ast.unparse(body)}")
        if (made.__code__.co_code, made.__code__.co_names) == (code.co_code, code.co_names):
            return ast.unparse(body)
    return None


def _returned(node: Any) -> ast.expr | None:
    return node.body[0].value if len(node.body) == 1 and isinstance(node.body[0], ast.Return) else None


@cache
def _functions(module: str) -> dict[int, list[Any]]:
    """The functions of a module by their first line."""
    found: dict[int, list[Any]] = {}
    for node in ast.walk(ast.parse(inspect.getsource(importlib.import_module(module)))):
        if isinstance(node, (ast.Lambda, ast.FunctionDef)):
            decorators = getattr(node, "decorator_list", [])
            found.setdefault(min([node.lineno, *(d.lineno for d in decorators)]), []).append(node)
    return found
