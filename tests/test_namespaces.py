"""Modules whose functions are made when they are first looked up."""

import functools
import importlib
import subprocess
import sys
import types

import pytest

import gradcore as gc
from gradcore.tensor import namespaces

PATHS = ("", "fft", "linalg", "masked", "nn.functional", "special")
MODULES = [(path, functools.reduce(getattr, filter(None, path.split(".")), gc)) for path in PATHS]


@pytest.mark.parametrize(
    ("path", "module"), MODULES, ids=lambda value: value or "top" if isinstance(value, str) else ""
)
def test_every_function_is_listed_and_stays_the_same(path, module):
    for name in namespaces.functions(path):
        assert (name in dir(module)) == (name in module.__all__) == (not name.startswith("_"))
        assert getattr(module, name) is vars(module)[name]


@pytest.mark.parametrize(
    ("path", "module"), MODULES, ids=lambda value: value or "top" if isinstance(value, str) else ""
)
def test_a_name_that_does_not_exist_is_an_attribute_error(path, module):
    name = ".".join(filter(None, ("gradcore", path)))
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'no_such_name'"):
        module.no_such_name  # noqa: B018


def test_functions_are_not_made_before_they_are_looked_up():
    program = "import gradcore; print('sinc' in vars(gradcore), gradcore.sinc.__name__, 'sinc' in vars(gradcore))"
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert printed.split() == ["False", "sinc", "True"]


def test_importing_everything():
    names = {}
    exec("from gradcore import *", names)
    assert names["sinc"] is gc.sinc
    assert names["tensor"] is gc.tensor


LISTED = (
    "numpy", "numpy.fft", "numpy.linalg", "scipy", "scipy.fft", "scipy.integrate", "scipy.interpolate", "scipy.linalg",
    "scipy.ndimage", "scipy.optimize", "scipy.signal", "scipy.sparse.linalg", "scipy.spatial.distance",
    "scipy.special", "scipy.stats",
)  # fmt: skip


@pytest.mark.parametrize("path", LISTED)
def test_modules_list_what_they_offer_and_no_helpers(path):
    module = importlib.import_module(f"gradcore.{path}")
    offered = {*module.__all__, *getattr(module, "OWN", ())}
    listed = {name for name in dir(module) if not name.startswith("_")}
    beside = {name for name in listed - offered if not isinstance(getattr(module, name), types.ModuleType)}
    assert offered <= listed
    assert not beside
