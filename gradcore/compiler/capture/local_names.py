"""Local names: which names statements of a function read and bind.

The analysis is conservative: a name counts as bound only if it is bound on every path through the statements.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from gradcore.compiler.capture.sources import SCOPES

__all__ = ["LocalNames", "Unclear", "captured_names", "names_bound_by", "names_bound_in", "parameters_of"]

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
#: Functions that read all of an iterator before they return.
_CONSUMERS = frozenset(["all", "any", "dict", "frozenset", "list", "max", "min", "set", "sorted", "sum", "tuple"])


class Unclear(Exception):
    """Raised when local names cannot be tracked, for example because of `exec` or `locals()`."""


class LocalNames(ast.NodeVisitor):
    """Visitor that collects the local names read and bound by statements, in execution order.

    Parameters
    ----------
    local : set of str
        All local names of the function.
    bound : iterable of str
        The names that are bound before the statements.
    suppressing : set of int
        The ids of the ``with`` statements that may suppress errors.

    Attributes
    ----------
    exposed : set of str
        Names that may be read before the statements have bound them.
    written : set of str
        Names that the statements may bind.
    bound : set of str
        Names that are bound after the statements on every path. After a ``return`` or similar, these are all names,
        because nothing follows.
    unbound : set of str
        Names that the statements may unbind, for example by ``del``.
    """

    def __init__(self, local: Iterable[str], bound: Iterable[str], suppressing: Collection[int]) -> None:
        self.local, self.bound, self.suppressing = frozenset(local), set(bound), suppressing
        self.exposed: set[str] = set()
        self.written: set[str] = set()
        self.unbound: set[str] = set()

    def block(self, statements: Sequence[ast.AST]) -> None:
        """Visit statements in order."""
        for each in statements:
            self.visit(each)

    def _branch(self, *ways: Sequence[ast.AST]) -> None:
        bound_before, bound_after = set(self.bound), []
        for way in ways:
            self.bound = set(bound_before)
            self.block(way)
            bound_after.append(self.bound)
        self.bound = set.intersection(*bound_after)

    def _read(self, names: Iterable[str]) -> None:
        self.exposed |= {name for name in names if name in self.local} - self.bound

    def _bind(self, *names: str) -> None:
        local_names = self.local.intersection(names)
        self.written |= local_names
        self.bound |= local_names

    # -- names ------------------------------------------------------------------------------------------------------

    def visit_Name(self, node: Any) -> None:
        if isinstance(node.ctx, ast.Load):
            self._read([node.id])
        elif isinstance(node.ctx, ast.Store):
            self._bind(node.id)
        elif node.id in self.local:
            raise Unclear("a local name is deleted")

    def visit_NamedExpr(self, node: Any) -> None:
        self.visit(node.value)
        self.written |= self.local & {node.target.id}  # It may be within `and`, so it is not certainly bound.

    def visit_Assign(self, node: Any) -> None:
        self.visit(node.value)
        self.block(node.targets)

    def visit_AnnAssign(self, node: Any) -> None:
        if node.value is not None:
            self.block([node.value, node.target])

    def visit_AugAssign(self, node: Any) -> None:
        if isinstance(node.target, ast.Name):
            self._read([node.target.id])
        self.visit(node.value)
        self.visit(node.target)

    def visit_alias(self, node: ast.alias) -> None:
        self._bind(*names_bound_by(node))

    # -- ways -------------------------------------------------------------------------------------------------------

    def visit_If(self, node: Any) -> None:
        self.visit(node.test)
        self._branch(node.body, node.orelse)

    def visit_For(self, node: Any) -> None:
        is_for = isinstance(node, ast.For)
        self.visit(node.iter if is_for else node.test)
        bound_before = set(self.bound)
        self._branch([node.target, *node.body] if is_for else node.body, node.orelse)
        if any(isinstance(each, ast.Break) for each in ast.walk(node)):
            self.bound = bound_before - self.unbound  # The rest of the body and the `else` may be left out.

    visit_While = visit_For

    def visit_With(self, node: Any) -> None:
        bound_before = set(self.bound)
        self.block([*node.items, *node.body])
        if id(node) in self.suppressing:
            self.bound = bound_before - self.unbound  # Any statement, and the binding of a later item, may be left out.

    def visit_Try(self, node: Any) -> None:
        bound_before = set(self.bound)
        self._branch([*node.body, *node.orelse], *([each] for each in node.handlers))
        bound_after, self.bound = self.bound, bound_before - self.unbound
        self.block(node.finalbody)  # It also runs where an error has ended the other blocks.
        self.bound |= bound_after - self.unbound

    visit_TryStar = visit_Try

    def visit_ExceptHandler(self, node: Any) -> None:
        if node.type is not None:
            self.visit(node.type)
        self._bind(*filter(None, [node.name]))
        self.block(node.body)
        self.bound.discard(node.name)
        self.unbound |= self.local & {node.name}

    def visit_Match(self, node: Any) -> None:
        raise Unclear("the function has a match statement")

    def _nothing_follows(self, node: Any) -> None:
        self.generic_visit(node)
        self.bound |= self.local

    visit_Return = visit_Raise = visit_Break = visit_Continue = _nothing_follows

    # -- scopes of their own ------------------------------------------------------------------------------------------

    def _add_scope(self, node: Any) -> None:
        """Add the function's names that a nested scope reads, as if that scope ran at once."""
        self._read(_read_in(node))
        for each in ast.walk(node):
            if isinstance(each, ast.NamedExpr) and isinstance(node, _COMPREHENSIONS):
                self.written |= self.local & {each.target.id}
        self._bind(*names_bound_by(node))

    visit_Lambda = visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _add_scope
    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _add_scope


def _read_in(node: Any) -> set[str]:
    """Return the names that a nested scope reads, except those that it certainly defines itself."""
    read_names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}
    if isinstance(node, _COMPREHENSIONS):
        outermost = {each.id for each in ast.walk(node.generators[0].iter) if isinstance(each, ast.Name)}
        bound_names = {each.id for g in node.generators for each in ast.walk(g.target) if isinstance(each, ast.Name)}
        return read_names - (bound_names - outermost)
    if isinstance(node, ast.Lambda):
        default_names = {each.id for each in ast.walk(node.args) if isinstance(each, ast.Name)}
        return read_names - ({*parameters_of(node)} - default_names)
    return read_names


def parameters_of(tree: Any) -> list[str]:
    """Return the names of a function's parameters."""
    args = tree.args
    parameters = (*args.posonlyargs, *args.args, *filter(None, [args.vararg, args.kwarg]), *args.kwonlyargs)
    return [each.arg for each in parameters]


def names_bound_in(node: Any) -> set[str]:
    """Return the names that a function's own code binds, except ``global`` and ``nonlocal`` ones."""
    bound, declared = set(parameters_of(node)), set()
    waiting = [*node.body]
    while waiting:
        each = waiting.pop()
        if isinstance(each, (ast.Global, ast.Nonlocal)):
            declared.update(each.names)
        elif isinstance(each, _COMPREHENSIONS):
            bound.update(inner.target.id for inner in ast.walk(each) if isinstance(inner, ast.NamedExpr))
        else:
            bound.update(names_bound_by(each))
            waiting += () if isinstance(each, (*SCOPES, ast.ClassDef)) else ast.iter_child_nodes(each)
    return bound - declared


def names_bound_by(node: Any) -> list[str]:
    """Return the names that a node itself binds or deletes."""
    if isinstance(node, ast.Name):
        return [] if isinstance(node.ctx, ast.Load) else [node.id]
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler)):
        return [node.name] if node.name else []
    return [(node.asname or node.name).partition(".")[0]] if isinstance(node, ast.alias) else []


def captured_names(tree: Any) -> set[str]:
    """Return the names read by nested functions, which may run at any later time."""
    nodes: list[Any] = [*ast.walk(tree)]
    consumed_ids = {id(node.args[0]) for node in nodes if _is_consumed_at_once(node)}
    delayed_scopes = (*SCOPES, ast.ClassDef, ast.GeneratorExp)
    nested = [n for n in nodes if isinstance(n, delayed_scopes) and n is not tree and id(n) not in consumed_ids]
    return {each.id for scope in nested for each in ast.walk(scope) if isinstance(each, ast.Name)}


def _is_consumed_at_once(node: Any) -> bool:
    """Return whether `node` is a call whose only argument is a generator expression, read to its end."""
    is_call = isinstance(node, ast.Call) and len(node.args) == 1 and isinstance(node.args[0], ast.GeneratorExp)
    return is_call and isinstance(node.func, ast.Name) and node.func.id in _CONSUMERS
