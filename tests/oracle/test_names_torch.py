"""Every public name of PyTorch's modules exists, or is in the table of docs/pytorch-differences.md."""

import fnmatch
import importlib
import pkgutil
import re
import warnings
from pathlib import Path

import pytest

import gradcore as gc

torch = pytest.importorskip("torch")

DOCUMENT = Path(__file__).parents[2] / "docs/pytorch-differences.md"
#: Modules whose own modules are not looked at: they are missing as a whole, or only start something.
CLOSED = (
    "ao", "bin", "contrib", "csrc", "distributed", "export", "fx", "headeronly", "include", "jit", "lib", "mps", "mtia",
    "nested", "numa", "monitor", "nativert", "onnx", "package", "quantization", "share", "sparse", "test", "testing",
    "xpu", "nn.backends", "nn.intrinsic", "nn.qat", "nn.quantizable", "nn.quantized", "nn.attention.experimental",
    "utils.benchmark.examples", "utils.benchmark.op_fuzzers", "utils.cpp_extension", "utils.data.datapipes",
    "utils.hipify", "utils.tensorboard", "backends.xeon",
)  # fmt: skip


def walked(module, found):
    """Collect a module and the public modules below it by name, with None for those that cannot be imported."""
    found[module.__name__] = module
    for info in pkgutil.iter_modules(getattr(module, "__path__", ())):
        name = f"{module.__name__}.{info.name}"
        if info.name.startswith("_") or name in found:
            continue
        if name.removeprefix("torch.") in CLOSED:
            found[name] = None
            continue
        try:
            walked(importlib.import_module(name), found)
        except Exception:  # needs something that is not installed
            found[name] = None
    return found


def public(module):
    names = getattr(module, "__all__", None)
    if names is None:
        names = [name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__]
    return [name for name in names if not name.startswith("_")]


def missing():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        modules = walked(torch, {})
        for name, module in modules.items():
            try:
                mine = importlib.import_module("gradcore" + name.removeprefix("torch"))
            except ImportError:
                yield name
                continue
            if module is not None:
                yield from (f"{name}.{each}" for each in public(module) if not hasattr(mine, each))
        for cls in ("Tensor", "nn.Module"):
            mine, theirs = (__import__("operator").attrgetter(cls)(library) for library in (gc, torch))
            names = (each for each in dir(theirs) if not each.startswith("_"))
            yield from (f"torch.{cls}.{each}" for each in names if not hasattr(mine, each))


@pytest.fixture(scope="module")
def names():
    return sorted(set(missing()))


@pytest.fixture(scope="module")
def patterns():
    section = DOCUMENT.read_text(encoding="utf-8").split("### Names that are missing")[1].split("\n## ")[0]
    rows = [line.split(" | ") for line in section.splitlines() if line.startswith("| ")][2:]
    return [pattern for row in rows for pattern in re.findall(r"`(torch\.[^`]*)`", row[1])]


def test_missing_names_are_documented(names, patterns):
    left = [name for name in names if not any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)]
    assert not left, "neither there nor in the table of docs/pytorch-differences.md"
    assert len(names) > 300  # names are compared


def test_the_table_lists_nothing_that_exists(names, patterns):
    stale = [pattern for pattern in patterns if not any(fnmatch.fnmatchcase(name, pattern) for name in names)]
    assert not stale, "nothing of these is missing any more"
