"""Formulas of operations for the reference, as their declarations write them."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from functools import cache
from typing import Any

from gradcore.ops.declare.table import Formula, Op

__all__ = ["formulas"]


def formulas(op: Op) -> Iterator[tuple[str, str]]:
    """Yield the input's name and the expression for each derivative that is a single expression."""
    along = "t" if op.differentials else "grad"
    for key, formula in (op.differentials or op.vjps).items():
        if formula.is_identity or formula.is_product:
            text: str | None = " * ".join((along, *formula.names))
        else:
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
    """Map the first line of each function of a module to its syntax tree."""
    found: dict[int, list[Any]] = {}
    for node in ast.walk(ast.parse(inspect.getsource(importlib.import_module(module)))):
        if isinstance(node, (ast.Lambda, ast.FunctionDef)):
            decorators = getattr(node, "decorator_list", [])
            found.setdefault(min([node.lineno, *(d.lineno for d in decorators)]), []).append(node)
    return found
