"""Modules import each other without cycles, and array libraries where they belong; see also test_import_layers.py."""

from __future__ import annotations

import ast
import graphlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import gradcore

ROOT = Path(gradcore.__file__).parent

#: What collects the names of its package for users may import all of its modules.
FACADES = {"", "autograd", "autograd.function", "cuda", "func"}

PATHS = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix("__init__").rstrip("."): path
    for path in sorted(ROOT.rglob("*.py"))
}


def imported(module: str) -> Iterator[str]:
    """The modules of the package that a module imports when it is imported (not those that functions import)."""
    package = module if PATHS[module].name == "__init__.py" else module.rpartition(".")[0]
    for node in top_level(ast.parse(PATHS[module].read_text()).body):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            base = node.module or ""
            if node.level:
                above = package.split(".") if package else []
                above = above[: len(above) - node.level + 1]
                base = ".".join(["gradcore", *above, *([node.module] if node.module else [])])
            names = [f"{base}.{alias.name}" for alias in node.names]
        for name in names:
            top, _, inner = name.partition(".")
            while top == "gradcore" and inner not in PATHS:  # a name in a module
                inner = inner.rpartition(".")[0]
            if top == "gradcore" and inner != module:
                yield inner


def top_level(body: list[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """The import statements that run at import: also in branches, but not in functions or for type checkers."""
    for node in body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node
        elif isinstance(node, ast.If) and "TYPE_CHECKING" not in ast.dump(node.test):
            yield from top_level([*node.body, *node.orelse])
        elif isinstance(node, ast.Try):
            yield from top_level([*node.body, *node.orelse, *node.finalbody])


def test_imports_form_no_cycle() -> None:
    """Facades aside, through which their own modules are imported."""
    graph = {module: {name for name in imported(module) if name not in FACADES} for module in PATHS}
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError


def test_the_reader_of_imports_sees_them() -> None:
    """Something is found, in each of the forms."""
    assert "backends.base" in set(imported("backends.registry"))
    assert "backends.registry" in set(imported("backends"))
    assert "config" in set(imported("backends.registry"))  # from gradcore import config
    assert "backends.random.exact" in set(imported("backends.random.philox"))  # relative
    assert "backends.cupy.backend" not in set(imported("backends.registry"))  # in a function
    assert "backends.base" not in set(imported("device"))  # for type checkers


@pytest.mark.parametrize("module", [m for m in PATHS if m.partition(".")[0] in ("ops", "autograd")])
def test_declarations_and_engine_know_no_array_library(module: str) -> None:
    body = ast.parse(PATHS[module].read_text()).body
    names = {name.partition(".")[0] for node in top_level(body) for name in written(node)}
    assert not names & {"cupy", "cupyx", "scipy", "torch", *(["numpy"] if module.startswith("ops") else [])}


def written(node: ast.Import | ast.ImportFrom) -> list[str]:
    """The modules that a statement names."""
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]


def test_importing_gradcore_imports_numpy_and_nothing_else() -> None:
    code = """
import sys
import numpy
known = {name.partition(".")[0] for name in sys.modules}
import gradcore
new = {name.partition(".")[0] for name in sys.modules} - known - set(sys.stdlib_module_names)
print(sorted(new))
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT.parent, check=True)
    assert found.stdout == "['gradcore']\n"


def test_importing_gradcore_imports_no_slow_module() -> None:
    """What a program may never need: a tenth of the time of the import."""
    code = """
import sys
import numpy
slow = {"importlib.abc", "importlib.resources", "random", "shutil", "tempfile"} - set(sys.modules)
import gradcore
print(sorted(slow & set(sys.modules)))
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT.parent, check=True)
    assert found.stdout == "[]\n"


@pytest.mark.parametrize("missing", ["", "numpy"])
def test_the_collector_is_left_on(missing: str) -> None:
    code = f"""
import gc, sys
frozen = gc.get_freeze_count()  # Python 3.12 starts with some
if {missing!r}:
    sys.modules[{missing!r}] = None
try:
    import gradcore
except ImportError:
    assert {missing!r}
assert gc.isenabled() and gc.get_freeze_count() <= frozen
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT.parent)
