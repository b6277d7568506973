"""Methods of tensors come from their class, or from the tables of `gradcore.tensor.installation`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import gradcore as gc
from gradcore import functional
from gradcore.tensor import installation

ROOT = Path(gc.__file__).parent
#: Objects that only the installer gives attributes.
FILLED = {"Tensor", "functional"}


def assigned(tree: ast.Module) -> Iterator[str]:
    """Attributes that are assigned to what `FILLED` names, by statements and by ``setattr``."""
    for node in ast.walk(tree):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, (ast.AnnAssign, ast.AugAssign)):
            targets = [node.target]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "setattr":
            targets = [ast.Attribute(node.args[0], ast.unparse(node.args[1]), ast.Store())]
        for target in targets:
            for each in ast.walk(target):
                if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id in FILLED:
                    yield ast.unparse(each)


@pytest.mark.slow
def test_only_the_installer_gives_tensors_methods() -> None:
    found = {
        path.relative_to(ROOT).as_posix(): list(assigned(ast.parse(path.read_text()))) for path in ROOT.rglob("*.py")
    }
    # While a function is recorded, operators see numbers that its program computes.
    assert {path for path, names in found.items() if names} == {
        "tensor/installation.py",
        "compiler/capture/substitutes.py",
    }


def test_the_reader_sees_assignments() -> None:
    source = "Tensor.a = 1\nfor n in x: setattr(functional, n, f)\nTensor.b, c = 1, 2\nd.Tensor = Tensor.e\n"
    assert sorted(assigned(ast.parse(source))) == ["Tensor.a", "Tensor.b", "functional.n"]


def test_every_name_of_the_tables_is_installed_once() -> None:
    tables = (
        installation.METHODS,
        installation.SHORTENED_METHODS,
        installation.ATTRIBUTES,
        installation.CLASS_METHODS,
        installation.STATIC_METHODS,
    )
    names = [name for table in tables for name, _ in installation.iterate_table(table)]
    assert len(names) == len(set(names))
    assert not [name for name in names if name not in vars(gc.Tensor)]
    assert all(hasattr(functional, name) for name, _ in installation.iterate_table(installation.FUNCTIONS))
