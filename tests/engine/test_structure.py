"""The package of the engine stays small, its loop readable, and its modules without circles, hidden ones included."""

from __future__ import annotations

import ast
import graphlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import gradcore.autograd

ROOT = Path(gradcore.autograd.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))


def inner_imports(tree: ast.Module) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the imports inside functions."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.Import | ast.ImportFrom):
                    yield node


def lines_of(function: ast.FunctionDef) -> int:
    """Return the number of lines of a function's body, without its docstring."""
    first = function.body[1] if ast.get_docstring(function) else function.body[0]
    assert function.end_lineno is not None
    return function.end_lineno - first.lineno + 1


def test_the_package_has_at_most_26_modules() -> None:
    assert len(MODULES) <= 26, [str(path.relative_to(ROOT)) for path in MODULES]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_an_import_inside_a_function_says_why(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    for node in inner_imports(ast.parse(text)):
        line, above = lines[node.lineno - 1], lines[node.lineno - 2].strip()
        assert "#" in line or above.startswith("#"), f"{path.name}:{node.lineno}: {line.strip()}"


def all_imports(tree: ast.AST) -> Iterator[str]:
    """Yield the modules of the package that a module imports at run time."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gradcore.autograd"):
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        yield from all_imports(node)


def test_no_circle_hides_in_functions() -> None:
    names = {".".join(("gradcore.autograd", *path.relative_to(ROOT).with_suffix("").parts)): path for path in MODULES}
    modules = {name: path for name, path in names.items() if path.name != "__init__.py"}
    graph = {
        name: {found for found in all_imports(ast.parse(path.read_text(encoding="utf-8"))) if found in modules}
        for name, path in modules.items()
    }
    assert sum(map(len, graph.values())) > 50
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError


def test_the_loop_of_the_engine_has_at_most_80_lines() -> None:
    functions = {
        node.name: node
        for node in ast.walk(ast.parse((ROOT / "engine.py").read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    }
    assert lines_of(functions["run_nodes"]) <= 80
    assert "invariants" in (ast.get_docstring(functions["run_nodes"]) or "")


def test_an_import_inside_a_function_is_found() -> None:
    assert [*inner_imports(ast.parse("def f():\n    import a\n"))]
    assert not [*inner_imports(ast.parse("import a\n"))]
