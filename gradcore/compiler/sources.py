"""The source of functions: their syntax trees, and the line that runs."""

from __future__ import annotations

import ast
import functools
import linecache
import sys
import types
from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

__all__ = ["SCOPES", "codes_in", "keep_tree", "line_in", "tree_of"]

SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)

#: The trees of code that was made of trees.
_made: WeakKeyDictionary[types.CodeType, Any] = WeakKeyDictionary()


def keep_tree(code: types.CodeType, tree: Any) -> None:
    """Have `tree_of` give the tree that code was made of."""
    _made[code] = tree


def tree_of(code: types.CodeType) -> Any:
    """The syntax tree of a function; None if its source is not there, or is another one by now."""
    return _made[code] if code in _made else _read(code)


@functools.lru_cache(256)
def _read(code: types.CodeType) -> Any:
    text = "".join(linecache.getlines(code.co_filename))
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
                return node if _is_alone(tree, node) else None
    return None


def _is_alone(tree: Any, node: Any) -> bool:
    """Whether no other function of that name begins on the same line."""
    name, line = getattr(node, "name", "<lambda>"), node.lineno
    alike = [n for n in ast.walk(tree) if isinstance(n, SCOPES) and n.lineno == line]
    return len([n for n in alike if getattr(n, "name", "<lambda>") == name]) == 1


def codes_in(code: types.CodeType) -> Iterator[types.CodeType]:
    """The functions, at any depth, that code makes."""
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield each
            yield from codes_in(each)


def line_in(code: types.CodeType | None) -> int | None:
    """The line that runs of the outermost call of a function; None if it does not run."""
    frame: types.FrameType | None = sys._getframe(1)
    line = None
    while frame is not None:
        if frame.f_code is code:
            line = frame.f_lineno
        frame = frame.f_back
    return line
