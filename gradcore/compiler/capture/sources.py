"""Function sources: syntax trees, and the statement that each instruction belongs to."""

from __future__ import annotations

import ast
import functools
import linecache
import sys
import types
import warnings
from collections.abc import Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

__all__ = ["SCOPES", "codes_in", "keep_tree", "offset_of_return", "running_offset", "statements_in",
           "statements_of", "tree_of"]  # fmt: skip

SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)

#: The syntax trees of generated code.
_made: WeakKeyDictionary[types.CodeType, Any] = WeakKeyDictionary()


def keep_tree(code: types.CodeType, tree: Any) -> None:
    """Store the syntax tree of generated code for `tree_of`."""
    _made[code] = tree


def tree_of(code: types.CodeType) -> Any:
    """Return the syntax tree of a function, or None if its source is missing or has changed."""
    return _made[code] if code in _made else _read(code)


@functools.lru_cache(256)
def _read(code: types.CodeType) -> Any:
    """Return the syntax tree of the function with this code from its file, or None if the file has changed."""
    text = "".join(linecache.getlines(code.co_filename))
    with warnings.catch_warnings(action="ignore"):  # Python gave them when it loaded the source
        try:
            tree, module = ast.parse(text), compile(text, code.co_filename, "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            return None
    if not any(each == code for each in codes_in(module)):
        return None
    for node in ast.walk(tree):
        if isinstance(node, SCOPES):
            lines = [node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))]
            if min(lines) == code.co_firstlineno and getattr(node, "name", "<lambda>") == code.co_name:
                names = [(n.lineno, getattr(n, "name", "<lambda>")) for n in ast.walk(tree) if isinstance(n, SCOPES)]
                return node if names.count((node.lineno, code.co_name)) == 1 else None
    return None


def codes_in(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yield the code objects nested in `code`, at any depth."""
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield each
            yield from codes_in(each)


def running_offset(code: types.CodeType | None) -> int | None:
    """Return the offset of the current instruction in a function's outermost call, or None if it is not running."""
    frame: types.FrameType | None = sys._getframe(1)
    offset = None
    while frame is not None:
        if frame.f_code is code:
            offset = frame.f_lasti
        frame = frame.f_back
    return offset


def statements_of(code: types.CodeType, tree: Any) -> Sequence[Any]:
    """Return, for each instruction of a function, the innermost statement of `tree` that it belongs to.

    Statements are found by line and column, so that several of them may be on one line. The entry is None for an
    instruction of no statement, or where Python keeps no columns and the line has several statements.
    """
    spans = [] if tree is None else [(_span(node), node) for node in _statements_below(tree)]
    statements: dict[Any, Any] = {}
    out = []
    for line, end_line, column, end_column in code.co_positions():
        key: Any = line, end_line, column, end_column
        if key not in statements:
            statements[key] = None if line is None else _innermost(spans, *key)
        out.append(statements[key])
    return out


def offset_of_return(code: types.CodeType) -> int | None:
    """Return the offset of a function's last statement, if that is a ``return`` with others before it."""
    tree = tree_of(code)
    body = getattr(tree, "body", None)
    if not isinstance(body, list) or len(body) < 2 or not isinstance(body[-1], ast.Return):
        return None
    statements = statements_of(code, tree)
    return next((2 * i for i, each in enumerate(statements) if each is body[-1]), None)


def _statements_below(tree: Any) -> Iterator[Any]:
    """Yield all statements in a tree at any depth, except those of nested functions."""
    for each in statements_in(tree):
        yield each
        if not isinstance(each, SCOPES):
            yield from _statements_below(each)


def statements_in(statement: Any) -> Iterator[Any]:
    """Yield the statements of a statement's own blocks, but not those nested deeper."""
    for each in ast.iter_child_nodes(statement):
        if isinstance(each, ast.stmt):
            yield each
        elif isinstance(each, (ast.ExceptHandler, ast.match_case)):
            yield from statements_in(each)


def _span(node: Any) -> tuple[tuple[int, int], tuple[int, int]]:
    return (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)


def _innermost(spans: Any, line: int, end_line: int, column: int | None, end_column: int | None) -> Any:
    """Return the smallest statement whose span contains a position."""
    if column is None or end_column is None:
        enclosing = [(start[0], end[0], node) for (start, end), node in spans if start[0] <= line <= end[0]]
        innermost = [node for start, end, node in enclosing if not any(start <= s and e <= end for s, e, n in enclosing
                                                                       if n is not node)]  # fmt: skip
        return innermost[0] if len(innermost) == 1 else None
    start, end = (line, column), (end_line, end_column)
    # Statements are in the order of the source, so the innermost comes last.
    return [None, *(node for (first, last), node in spans if first <= start and end <= last)][-1]
