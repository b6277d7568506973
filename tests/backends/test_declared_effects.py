"""Kernels declare the arguments that they write to; the compiler takes all other arguments for unchanged."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from gradcore.backends.compiled.backend import CompiledBackend
from gradcore.backends.cupy.backend import CupyBackend
from gradcore.backends.kernel_rules import writes, written_arguments
from gradcore.backends.numpy.backend import NumpyBackend

BACKENDS = (NumpyBackend, CompiledBackend, CupyBackend)
#: Functions that write to their first argument, and methods that write to the array itself.
FUNCTIONS = {"copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask", "at"}
METHODS = {"fill", "partition", "put", "setfield", "sort"}


def _name(node: ast.AST) -> str:
    """Return the name of the variable that an expression is, or is an element of."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def written_names(function: ast.FunctionDef) -> set[str]:
    """Return the parameters that a function's own statements write to and never assign."""
    written, assigned = set(), set()
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                for each in target.elts if isinstance(target, ast.Tuple) else [target]:
                    (written if isinstance(each, ast.Subscript) else assigned).add(_name(each))
        elif isinstance(node, ast.AugAssign):
            written.add(_name(node.target))
        elif isinstance(node, ast.Call):
            written |= {_name(each.value) for each in node.keywords if each.arg == "out"}
            called = node.func
            if isinstance(called, ast.Attribute) and called.attr in FUNCTIONS and node.args:
                written.add(_name(node.args[0]))
            if isinstance(called, ast.Attribute) and called.attr in METHODS:
                written.add(_name(called.value))
    return (written - assigned) & {each.arg for each in function.args.args[1:]}


def _kernels(backend: type) -> Iterator[tuple[str, ast.FunctionDef]]:
    for cls in backend.__mro__:
        for name, method in vars(cls).items():
            function = getattr(method, "method", method)
            if (
                inspect.isfunction(function)
                and function.__module__.startswith("gradcore.backends.")
                and name[:2] != "__"
            ):
                tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
                if isinstance(tree, ast.FunctionDef):
                    yield name, tree


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_a_kernel_writes_to_is_declared(backend: Any) -> None:
    declared, missing = written_arguments(backend), []
    for name, function in _kernels(backend):
        parameters = [each.arg for each in function.args.args[1:]]
        positions = {parameters.index(each) for each in written_names(function)}
        if not positions <= {*declared.get(name, ())} and name[0] != "_":
            missing.append(f"{backend.__name__}.{name} writes to {sorted(parameters[i] for i in positions)}")
    assert not missing


def test_writing_statements_are_seen() -> None:
    text = """
def kernel(self, a, b, c, d, e, f, g):
    a[0] = 1
    b += 1
    self.xp.copyto(c, 1)
    self.xp.add(d, 1, out=e)
    f = f + 1
    f += 1
    g.sort()
"""
    function = ast.parse(text).body[0]
    assert isinstance(function, ast.FunctionDef)
    assert written_names(function) == {"a", "b", "c", "e", "g"}


def test_positions_are_those_of_arguments() -> None:
    class Some:
        @writes("y")
        def first(self, x: Any, y: Any) -> None: ...

        @writes()
        def second(self, x: Any, y: Any) -> None: ...

    class Other(Some):
        def first(self, x: Any, y: Any) -> None: ...

    assert written_arguments(Other) == {"first": (1,), "second": (0, 1)}


def test_declared_arguments_change() -> None:
    """And the others do not, in a call of each kernel of indexing that writes."""
    backend: Any = NumpyBackend()
    index = np.array([2, 0])
    calls = {
        "copy_into": (np.zeros(3), np.ones(3)),
        "index_into": (np.zeros(3), np.ones(2), (index,)),
        "masked_write": (np.zeros(3), np.array([True, False, True]), np.ones(3)),
        "add_rows": (np.zeros((3, 2)), index, np.ones((2, 2))),
        "write_at": (np.zeros(3), (index,), np.ones(2)),
        "reduce_at": (np.zeros(3), index, np.ones(2), "amax"),
    }
    for name, args in calls.items():
        before = [np.array(each) for each in args if isinstance(each, np.ndarray)]
        getattr(backend, name)(*args)
        arrays = [each for each in args if isinstance(each, np.ndarray)]
        changed = [i for i, (old, new) in enumerate(zip(before, arrays, strict=True)) if not np.array_equal(old, new)]
        assert changed == [*written_arguments(NumpyBackend)[name]] == [0], name
