"""Modules import each other without cycles, and array libraries where they belong; see also test_import_layers.py."""

from __future__ import annotations

import functools
import graphlib
import os
import subprocess
import sys

import pytest

from gradcore.torch_names.paths import translate_former
from tests.imports import PATHS, ROOT, find_module, imported_modules, imported_names


@functools.cache
def graph() -> dict[str, frozenset[str]]:
    """Return the modules that each module imports.

    The package itself is left out: whoever imports it imports everything.
    """
    return {module: imported_modules(module) for module in PATHS if module}


@pytest.mark.slow
def test_imports_form_no_cycle() -> None:
    """Imports inside functions count: a module that needs another one only later needs it all the same."""
    graphlib.TopologicalSorter(graph()).prepare()  # raises CycleError


@pytest.mark.slow
def test_nothing_imports_the_bindings() -> None:
    """They join lower layers to upper ones, and so would close cycles."""
    assert not [module for module, names in graph().items() if "tensor.bindings" in names]


@pytest.mark.parametrize("module", PATHS)
def test_no_module_imports_by_a_former_path(module: str) -> None:
    """Modules lie in rooms. Their paths of before are for programs: here they would hide what a module imports."""
    names = [name.partition(".")[2] for name in imported_names(PATHS[module], types=True) if "gradcore." in name]
    assert not [name for name in names if translate_former(name) != name and find_module(f"gradcore.{name}") == ""]


def test_the_reader_of_imports_sees_them() -> None:
    """Something is found, in each of the forms."""
    assert "backends.registry" in imported_modules("backends")
    of_registry = imported_modules("backends.registry")
    assert {"backends.base", "core.config"} <= of_registry  # the second by `from gradcore.core import config`
    assert "backends.cupy.backend" in of_registry  # in a function
    assert "backends.random.exact" in imported_modules("backends.random.philox")  # relative
    assert "backends.cupy.backend" not in imported_modules("backends.registry", functions=False)
    assert "backends.base" not in imported_modules("core.device")  # for type checkers
    assert "gradcore.backends.base.Backend" in set(imported_names(PATHS["core.device"], types=True))
    assert find_module("numpy.linalg") is None
    assert find_module("gradcore.autograd.engine.GraphTask") == "autograd.engine"


@pytest.mark.parametrize("module", [m for m in PATHS if m.partition(".")[0] in ("ops", "autograd")])
def test_declarations_and_engine_know_no_array_library(module: str) -> None:
    names = {name.partition(".")[0] for name in imported_names(PATHS[module], functions=False)}
    assert not names & {"cupy", "cupyx", "scipy", "torch", *(["numpy"] if module.startswith("ops") else [])}


def test_importing_gradcore_imports_numpy_and_nothing_else() -> None:
    code = """
import sys
import numpy
known = {name.partition(".")[0] for name in sys.modules}
import gradcore
new = {name.partition(".")[0] for name in sys.modules} - known - set(sys.stdlib_module_names)
print(sorted(new))
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert found.stdout == "['gradcore']\n"


def test_importing_gradcore_imports_no_slow_module() -> None:
    """What a program may never need: a tenth of the time of the import."""
    code = """
import sys
import numpy
slow = {"importlib.abc", "importlib.resources", "random", "shutil", "tempfile", "hashlib", "json", "pathlib", "string"}
slow -= set(sys.modules)
import gradcore
print(sorted(slow & set(sys.modules)))
"""
    variables = {**os.environ, "GRADCORE_COMPILED": "0"}  # a compiled library is found by digests of files
    found = subprocess.run(
        [sys.executable, "-c", code], env=variables, capture_output=True, text=True, cwd=ROOT, check=True
    )
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
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
