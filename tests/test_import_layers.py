"""Modules import only their own layer and those below it, in functions too, as the table in docs/design.md says."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

from tests.imports import PATHS, ROOT, imported_modules

ROW = re.compile(r"^\| (\d) \| (.+?) \|", re.MULTILINE)
DESIGN = (ROOT / "docs/design.md").read_text(encoding="utf-8")
LAYERS = {name: int(layer) for layer, cell in ROW.findall(DESIGN) for name in re.findall(r"`(.+?)`", cell)}
#: The packages and modules that the table names: those of rooms, and the interface of a package, by themselves.
ALL = {name.replace(".", "/") for name in PATHS if name}
#: The rooms of the compiler, from the lowest to the package itself, which may import all of them.
ROOMS = re.findall(
    r"^\| (.+?) \|", DESIGN[DESIGN.index("| room |") : DESIGN.index("### sparse and tools")], re.MULTILINE
)[2:]


def layer_of(module: str) -> int | None:
    """Return the layer of a module (``autograd.engine``), by the longest part of its path that has one.

    The interface of a package may have a layer of its own, as ``autograd/__init__``.
    """
    path = module.replace(".", "/")
    if f"{path}/__init__" in LAYERS:
        return LAYERS[f"{path}/__init__"]
    while path and path not in LAYERS:
        path = path.rpartition("/")[0]
    return LAYERS.get(path)


def test_every_module_has_a_layer() -> None:
    missing = [module for module in PATHS if module and layer_of(module) is None]
    assert not missing, f"not in the table of layers in docs/design.md: {missing}"


def test_the_table_names_modules_that_exist() -> None:
    assert not {name.removesuffix("/__init__") for name in LAYERS} - ALL


@pytest.mark.parametrize("module", [module for module in PATHS if module])
def test_imports_stay_within_the_layers_below(module: str) -> None:
    own = layer_of(module)
    assert own is not None
    above = {name: layer_of(name) for name in imported_modules(module) if (layer_of(name) or 0) > own}
    assert not above, f"{module} (layer {own}) imports what lies above it: {above}"


def room_of(module: str) -> int:
    """Return the place of a module of the compiler in the list of rooms, lowest first."""
    name = f"`{module.split('.')[1]}`" if module.count(".") else ""
    return ROOMS.index(name) if name in ROOMS else len(ROOMS) - 1


def test_rooms_of_the_compiler_import_only_those_below() -> None:
    inside = [module for module in PATHS if module.partition(".")[0] == "compiler"]
    assert {room_of(module) for module in inside} == set(range(5))
    above = {(module, name) for module in inside for name in imported_modules(module)
             if name.partition(".")[0] == "compiler" and room_of(name) > room_of(module)}  # fmt: skip
    assert not above


#: What ``pip install -e ".[test]"`` installs.
INSTALLED = {"gradcore", "hypothesis", "ml_dtypes", "numpy", "pytest", "scipy"}


def others_imported(path: Path) -> set[str]:
    """Return the packages that a module imports outside of functions and that need not be installed."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
    return found - INSTALLED - {"tests", "benchmarks"} - sys.stdlib_module_names


def test_modules_of_tests_import_what_is_installed() -> None:
    """Other packages are imported by `pytest.importorskip`, or in functions that skip without them."""
    paths = sorted((ROOT / "tests").rglob("test_*.py"))
    wrong = {str(path): found for path in paths if (found := others_imported(path))}
    assert not {path for path in wrong if "importorskip" not in Path(path).read_text(encoding="utf-8")}
