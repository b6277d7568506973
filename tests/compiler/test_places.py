"""Where a user's module lies, and what it is called, decides nothing: it is never taken for one of a library."""

from __future__ import annotations

import builtins
import collections
import linecache
import os
import queue
import subprocess
import sys
import sysconfig
import types
import zipimport
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.compiler.capture import trusted

SOURCE = """
from gradcore import nn

scale = 2.0

class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.state = [1.0]

    def forward(self, x):
        return x * scale * self.state[0]

def multiply(x):
    return x * scale
"""
LIBRARY, PACKAGES = (sysconfig.get_paths()[name] for name in ("stdlib", "purelib"))
NUMPY = os.path.dirname(np.__file__)
#: Names and files of modules.
PLACES = [
    ("helpers", "/home/me/helpers.py"),
    ("helpers", f"{PACKAGES}/helpers.py"),
    ("helpers.inner", f"{PACKAGES}/helpers/inner.py"),
    ("helpers", f"{LIBRARY}/site-packages/helpers.py"),
    ("helpers", f"{LIBRARY}/dist-packages/helpers.py"),
    ("helpers", f"{LIBRARY}-of-mine/helpers.py"),
    ("numpy_helpers", f"{NUMPY}_helpers.py"),
    ("numpyx.inner", f"{NUMPY}x/inner.py"),
    ("numpy_layers.inner", "/home/me/numpy_layers/inner.py"),
    ("random_layers", "/home/me/random_layers.py"),
    ("namedtuple_helpers", "/home/me/namedtuple_helpers.py"),
    ("cuda", "/home/me/cuda.py"),
    ("cupy_helpers", "/home/me/cupy_helpers.py"),
    ("gradcore_helpers", "/home/me/gradcore_helpers.py"),
    ("queue", "/home/me/app.zip/queue.py"),
    ("queue", ""),
]


@pytest.mark.parametrize(("name", "file"), PLACES)
def test_state_of_a_module_is_guarded_wherever_it_lies(name: str, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType(name)
    if file:
        module.__file__ = file
    path = file or "<a user's module>"
    monkeypatch.setitem(linecache.cache, path, (len(SOURCE), None, SOURCE.splitlines(True), path))
    monkeypatch.setitem(sys.modules, name, module)
    exec(compile(SOURCE, path, "exec"), vars(module))
    layer = module.Layer()
    x = gc.tensor([1.0, -2.0])
    calls_function, calls_layer = (
        gc.compile(function, options={"cpp": False}) for function in (lambda x: module.multiply(x), lambda x: layer(x))
    )
    for _ in range(4):
        assert calls_function(x).tolist() == calls_layer(x).tolist() == [2.0, -4.0]
    assert calls_function.count_programs() == calls_layer.count_programs() == 1
    module.scale = 3.0
    assert calls_function(x).tolist() == calls_layer(x).tolist() == [3.0, -6.0]
    layer.state[0] = 10.0
    assert calls_layer(x).tolist() == [30.0, -60.0]


@pytest.mark.parametrize("expression", ["x * scale", "(lambda: x * scale)()"])
def test_names_in_builtins_of_a_module_are_not_trusted(expression: str, monkeypatch: pytest.MonkeyPatch) -> None:
    own: dict[str, Any] = {**vars(builtins), "scale": 2.0}
    module = types.ModuleType("helpers")
    vars(module)["__builtins__"] = own
    monkeypatch.setitem(sys.modules, "helpers", module)
    exec(f"def multiply(x): return {expression}", vars(module))
    compiled = gc.compile(lambda x: module.multiply(x), options={"cpp": False})
    with pytest.warns(UserWarning, match="has builtins of its own"):
        assert [compiled(gc.ones(1)).tolist() for _ in range(4)] == [[2.0]] * 4
    own["scale"] = 3.0
    assert compiled(gc.ones(1)).tolist() == [3.0]


def test_functions_that_a_call_creates_see_new_builtins(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("helpers")
    monkeypatch.setitem(sys.modules, "helpers", module)
    exec("def multiply(x): return (lambda: x * max(1, 2))()", vars(module))
    compiled = gc.compile(lambda x: module.multiply(x), options={"cpp": False})
    for _ in range(4):
        assert compiled(gc.ones(1)).tolist() == [2.0]
    assert compiled.count_programs() == 1
    vars(module)["__builtins__"] = {**vars(builtins), "max": min}
    with pytest.warns(UserWarning, match="has builtins of its own"):
        assert [compiled(gc.ones(1)).tolist() for _ in range(4)] == [[1.0]] * 4


def test_builtins_of_a_module_by_a_computed_name(monkeypatch: pytest.MonkeyPatch) -> None:
    module, parts = types.ModuleType("helpers"), ["__buil", "tins__"]
    vars(module)["__builtins__"] = own = {"scale": 2.0}
    monkeypatch.setitem(sys.modules, "helpers", module)
    compiled = gc.compile(lambda x: x * getattr(module, "".join(parts))["scale"], options={"cpp": False})
    for _ in range(4):
        assert compiled(gc.ones(1)).tolist() == [2.0]
    own["scale"] = 3.0
    assert compiled(gc.ones(1)).tolist() == [3.0]
    vars(module)["__builtins__"] = {"scale": 4.0}
    assert compiled(gc.ones(1)).tolist() == [4.0]


def test_modules_of_libraries_are_known() -> None:
    pair = collections.namedtuple("pair", "first second")
    assert all(map(trusted.is_library, [vars(gc), vars(np), vars(np.linalg), vars(types), pair.__new__.__globals__]))
    assert all(map(trusted.is_standard, [vars(queue), vars(sys), vars(zipimport)]))  # from a file, built-in, frozen
    archive = f"python{sys.version_info[0]}{sys.version_info[1]}.zip"
    assert trusted.is_standard({"__name__": "queue", "__file__": os.path.join(os.sep, archive, "queue.pyc")})
    assert trusted.is_foreign({"__name__": "cuda.bindings", "__file__": f"{PACKAGES}/cuda/bindings/__init__.py"})


def test_python_may_be_installed_among_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = os.path.join(os.sep, "opt", "site-packages", "python", "lib", "")
    monkeypatch.setattr(trusted, "_STANDARD", (folder,))
    assert trusted.is_standard({"__name__": "queue", "__file__": f"{folder}queue.py"})
    assert not trusted.is_standard({"__name__": "queue", "__file__": os.path.join(folder, "site-packages", "queue.py")})


APP = """
import sys
import gradcore as gc
import helpers

def by_name(x):
    return helpers.multiply(x)

def by_computed_name(x):
    for name in ("sin", "cos"):
        x = getattr(x, name)()
    return helpers.multiply(x)

compiled = gc.compile(globals()[sys.argv[1]], options={"cpp": False})
for _ in range(3):
    compiled(gc.ones(2))
print(compiled.count_programs(), compiled.breaks())
"""


@pytest.mark.parametrize("function", ["by_name", "by_computed_name"])
def test_the_first_function_of_a_process_may_call_another_module(function: str, tmp_path: Path) -> None:
    """Capture a call in which the library generates code. Names in it, as `__builtins__`, are no reads of a module."""
    (tmp_path / "helpers.py").write_text(SOURCE)
    (tmp_path / "app.py").write_text(APP)
    command = [sys.executable, "-W", "error", str(tmp_path / "app.py"), function]
    shown = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (shown.stdout, shown.stderr) == ("1 []\n", "")
