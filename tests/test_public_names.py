"""What users see of modules and objects: the public names, and no others, also where a name is misspelt."""

from __future__ import annotations

import importlib
import subprocess
import sys
import traceback
import types
import typing
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

import gradcore as gc
from gradcore.backends.kernel_rules import OPERATIONS
from gradcore.tensor.namespaces import LazyMethod
from gradcore.torch_names.paths import former

#: Modules of which gradcore is made; all others are for users.
INTERNAL = {
    "assertions", "config", "creation", "determinism", "diagnostics", "dispatch", "dtypes", "flags", "foreach",
    "indexing", "inplace_views", "inspection", "installation", "interop", "layouts", "legacy_types", "locks",
    "methods", "namespaces", "operators", "ops", "paths", "pickling", "predicates", "printing", "representation",
    "setitem", "sharing", "size", "storage", "stubs", "subclasses", "symbolic", "tensor", "to", "tracebacks",
    "transforms", "typing",
}  # fmt: skip
#: Packages whose modules are for users; those of others are of which they are made.
PACKAGES = ("amp", "autograd", "backends", "cuda", "distributions", "nn", "nn.utils", "optim", "signal", "utils")


def modules() -> Iterator[str]:
    """Yield the paths of public modules, the same ones whatever was imported before."""
    yield "gradcore"
    for name in dir(gc):
        if name not in ("multiprocessing", "tensor") and find_spec(f"gradcore.{name}") is not None:
            yield f"gradcore.{name}"
    for path in PACKAGES:
        package = importlib.import_module(f"gradcore.{path}")
        for name in dir(package):
            # All names of `common_types` begin with an underscore, as in PyTorch.
            if name != "common_types" and find_spec(f"{package.__name__}.{name}") is not None:
                yield f"{package.__name__}.{name}"


@pytest.mark.parametrize("path", sorted(set(modules())))
def test_modules_list_their_public_names_alone(path: str) -> None:
    module = importlib.import_module(path)
    names = dir(module)
    assert names
    # The array API standard asks for two names with underscores.
    assert not [name for name in names if name.startswith("_") and not name.startswith("__array_")]
    assert {name for name in getattr(module, "__all__", names) if name[0] != "_"} <= set(names)
    for name in names:
        try:
            value = getattr(module, name)
        except ImportError:  # what is said of it has a test of its own
            continue
        if isinstance(value, types.ModuleType):
            assert value.__name__.partition(".")[0] not in {"numpy", *sys.stdlib_module_names}, name
            assert former(value.__name__.removeprefix("gradcore.")) not in INTERNAL, name
        elif path != "gradcore.types":
            assert not any(value is foreign for foreign in (typing.Any, typing.TypeVar, typing.cast)), name


def test_everything_that_is_listed_at_the_top_is_there() -> None:
    assert {"tensor", "sin", "nn", "float32", "no_grad", "load", "Tensor", "pi"} <= set(dir(gc))
    assert not [name for name in INTERNAL & set(gc.__all__) if isinstance(getattr(gc, name), types.ModuleType)]
    assert "annotations" not in gc.__all__


def suggestion(target: object, name: str) -> str:
    try:
        getattr(target, name)
    except AttributeError as error:
        return traceback.format_exception_only(error)[-1]
    raise AssertionError(name)


@pytest.mark.parametrize("private", ["_numpy", "_paths", "_functions", "_parameters", "_modules"])
def test_misspelt_names_are_not_corrected_to_private_ones(private: str) -> None:
    """As close to a private name as can be; tensors list internal names, as PyTorch's do."""
    targets = (gc, gc.linalg, gc.nn, gc.optim, gc.nn.Linear(1, 1))
    for misspelt in (private[1:] + "x", private[1:-1], private[1:3] + private[4:]):
        for target in targets:
            if not hasattr(target, misspelt):
                said = suggestion(target, misspelt)
                assert "'_" not in said, said


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("code", "expected"),
    [("gc.tensr", "tensor"), ("gc.linalg.solv", "solve"), ("gc.nn.Liner", "Linear"), ("gc.ones(1).reshap", "reshape")],
)
def test_misspelt_names_are_corrected(code: str, expected: str) -> None:
    program = f"import gradcore as gc; {code}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert f"Did you mean: '{expected}'?" in done.stderr


def test_tensors_list_so_few_names_that_python_suggests_corrections() -> None:
    """Python suggests none for objects of more than 750 names. Each new elementwise operation adds two."""
    assert len(dir(gc.tensor(1.0))) <= 735


def test_no_operation_for_internal_use_is_a_method() -> None:
    internal = {op.name for op in OPERATIONS.values() if not (op.function or op.method)}
    leaked = {name for name in internal if isinstance(vars(gc.Tensor).get(name + "_"), LazyMethod)}
    assert len(internal) > 100
    assert not leaked
