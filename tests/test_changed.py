"""What `--changed` chooses: the tests that import a changed module, and the operations that it declares."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import changed
from tests.imports import ROOT, module_of


@pytest.fixture(scope="module")
def selection() -> changed.Selection:
    """Return the choice for three changed files: a module of operations, one of the compiler, and a test."""
    names = "gradcore/ops/shape/cat_split.py", "gradcore/compiler/program/passes.py", "tests/optim/test_optimizers.py"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(changed, "list_changed", lambda base: {ROOT / name for name in names})
        return changed.Selection("HEAD")


@pytest.mark.parametrize(
    "name", ["gradcore/core/device.py", "gradcore/ops/shape/cat_split.py", "gradcore/optim/__init__.py"]
)
def test_files_that_import_a_module_are_found(name: str) -> None:
    """Compare with the imports of each file: a file without the name of a module is not parsed."""
    module, files = module_of(ROOT / name), [*(ROOT / "gradcore" / "optim").glob("*.py"), ROOT / "tests" / "devices.py"]
    known = {module_of(path) for path in (ROOT / "gradcore").rglob("*.py")}
    wanted = {path for path in files if module in changed._modules_of(path, known)}
    assert {path for path in files if changed._import_any({module}, path, known)} == wanted


def test_an_operation_has_its_cases_and_docstrings(selection: changed.Selection) -> None:
    assert {"cat", "stack"} <= selection.operations
    assert "exp" not in selection.operations
    assert not selection.is_left_out(ROOT / "tests" / "ops" / "test_every_op.py")
    assert selection.is_left_out(ROOT / "gradcore" / "numpy" / "shaping.py")
    file = ROOT / "tests" / "ops" / "test_every_op.py"
    assert selection.is_wanted(file, "cat-float64")
    assert not selection.is_wanted(file, "exp-float64")
    names = ["gradcore.cat", "gradcore.exp"]
    docstrings: list[Any] = [SimpleNamespace(path=ROOT / "gradcore" / "__init__.py", name=name) for name in names]
    assert selection.list_left_out(docstrings) == docstrings[1:]


def test_of_other_files_in_the_folder_some_tests_run(selection: changed.Selection) -> None:
    importing, beside = (ROOT / "tests" / "compiler" / name for name in ("test_passes.py", "test_refusals.py"))

    def tests_of(path: Path) -> list[Any]:
        return [SimpleNamespace(path=path, name=f"test_{n}", nodeid=f"{path}::test_{n}") for n in range(300)]

    assert not selection.is_left_out(beside)
    assert selection.list_left_out(tests_of(importing)) == []
    assert len(selection.list_left_out(tests_of(beside))) == 300 - changed.MOST_BESIDE
    assert selection.is_left_out(ROOT / "tests" / "nn" / "test_module.py")


def test_a_changed_test_runs_whole(selection: changed.Selection) -> None:
    file = ROOT / "tests" / "optim" / "test_optimizers.py"
    assert selection.is_wanted(file, "any case")


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("gradcore/backends/compiled/indexing.cpp", "compiled"),
        ("gradcore/compiler/targets/native/program.h", "compiler"),
        ("gradcore/backends/cupy/sources/softmax.cu", "cuda"),
        ("gradcore/optim/deleted.py", "optim"),
    ],
)
def test_sources_without_imports_choose_folders(name: str, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changed, "list_changed", lambda base: {ROOT / name})
    assert {path for path in changed.Selection("HEAD").beside if path.parent.name == folder}
