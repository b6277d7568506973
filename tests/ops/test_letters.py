"""A first parameter ``F`` or ``K`` of a function in `gradcore.ops` says what it uses: operations, or a backend."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from gradcore import functional, ops
from gradcore.ops.declare.table import OPS, composite

FILES = sorted(Path(ops.__file__).parent.rglob("*.py"))
FUNCTIONS = (ast.FunctionDef, ast.Lambda)


def namespace(node: ast.AST) -> str | None:
    """Return the letter of the namespace that a function takes, or None."""
    if not isinstance(node, FUNCTIONS):
        return None
    first = [p.arg for p in (*node.args.posonlyargs, *node.args.args)][:1]
    return first[0] if first in (["F"], ["K"]) else None


def inside(node: ast.AST, letter: str | None = None) -> Iterator[tuple[str, ast.AST]]:
    """Every node within functions that have a namespace, with its letter; decorators belong to what is around."""
    decorators = getattr(node, "decorator_list", [])
    within = namespace(node) or letter
    for child in ast.iter_child_nodes(node):
        around = letter if child in decorators else within
        if around is not None:
            yield around, child
        yield from inside(child, around)


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


#: Helpers that take a namespace, by name, with the letters that functions of that name have.
HELPERS: dict[str, set[str]] = {}
for _path in FILES:
    for _node in parsed(_path).body:
        if isinstance(_node, ast.FunctionDef) and not _node.decorator_list and namespace(_node):
            HELPERS.setdefault(_node.name, set()).add(namespace(_node) or "")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_functions_with_the_operations_use_nothing_else(path: Path) -> None:
    attributes = {
        node.attr
        for letter, node in inside(parsed(path))
        if letter == "F"
        and isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "F"
    }
    assert sorted(name for name in attributes if not hasattr(functional, name)) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_helpers_with_kernels_are_not_called_with_the_operations(path: Path) -> None:
    handed = {
        node.func.id
        for letter, node in inside(parsed(path))
        if letter == "F" and isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        and node.args and isinstance(node.args[0], ast.Name) and node.args[0].id == "F"
    }  # fmt: skip
    assert sorted(name for name in handed if HELPERS.get(name) == {"K"}) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_function_names_its_own_namespace_only(path: Path) -> None:
    wrong = [
        f"{node.id} in line {node.lineno}"
        for letter, node in inside(parsed(path))
        if isinstance(node, ast.Name) and node.id in ("F", "K") and node.id != letter
    ]
    assert wrong == []


def test_bodies_of_composites_have_the_operations_and_others_kernels() -> None:
    letters = {
        op.name: op.declaration.__code__.co_varnames[0]
        for op in OPS.values()
        if op.has_body and op.module.startswith(ops.__name__)
    }
    assert {
        name for name, letter in letters.items() if letter != ("F" if OPS[name].kind == "composite" else "K")
    } == set()


def test_formulas_have_the_operations() -> None:
    for op in OPS.values():
        for table in (op.vjps, op.differentials, op.jvps):
            for formula in table.values():
                assert formula.function.__code__.co_varnames[0] == "F", op.name


def test_a_composite_with_kernels_is_refused() -> None:
    def doubled(K, self):  # type: ignore[no-untyped-def]
        return K.add_product(self, self, 1)

    with pytest.raises(TypeError, match="its first parameter must be F"):
        composite()(doubled)


def test_the_reader_finds_what_is_wrong() -> None:
    source = "@linear(lambda F, t: F.neg(t))\ndef body(K, x):\n    return F.neg(K.cut(x))\n"
    found = [(letter, node.id) for letter, node in inside(ast.parse(source)) if isinstance(node, ast.Name)]
    assert sorted(found) == [("F", "F"), ("F", "t"), ("K", "F"), ("K", "K"), ("K", "x")]
