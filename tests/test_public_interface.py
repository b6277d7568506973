"""What users build on is enough: `nn`, `optim`, `func`, `viz` and others import nothing private.

The packages that are interfaces to the inside (autocasting, a profiler, CUDA's devices) import of it what is listed.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gradcore as gc
from gradcore.autograd.graph import Node
from gradcore.torch_names.paths import former
from tests.test_public_names import INTERNAL

ROOT = Path(gc.__file__).parent
PACKAGES = ("distributions", "func", "nn", "optim", "signal", "tools/viz", "utils")
#: Of the inside, what each of the other packages of this layer is an interface to, or built on.
SEAMS: dict[str, set[str]] = {
    "amp": {"autograd.modes", "backends.registry", "dispatch.interception", "ops.table"},
    "cuda": {
        "backends.base", "backends.cupy.memory", "backends.cupy.memory_pools", "backends.kernel_rules",
        "backends.random", "backends.registry", "backends.streams", "backends.sync_debug", "config", "ops.samples",
        "ops.table",
    },
    "kernels": {
        "backends.base", "backends.codegen.trace", "backends.cupy.kernels", "backends.vmap", "ops.parameters",
        "ops.promotion", "ops.table",
    },
    "nn/recurrent.py": {"ops.shapes"},
    "optim/flat_state.py": {"autograd.variables"},
    "torch_names/overrides.py": {"autograd.modes", "dispatch.torch_function", "ops.table", "subclasses"},
    "tools/profiler": {"autograd.modes", "autograd.profiler", "backends.registry"},
    "serialization": {"backends.registry", "layouts", "size", "storage"},
    "serialization/safetensors.py": {"autograd.variables"},
    "torch_names/testing.py": {"creation"},
}  # fmt: skip
#: Who looks at slots: they see tensors of any class within a call, or among all objects of the process, where the
#: attributes of a subclass would call its ``__torch_function__``.
READERS_OF_SLOTS = {"amp/casting.py", "cuda/memory.py", "tools/profiler/recording.py"}
FILES = list(
    dict.fromkeys(
        path
        for package in (*PACKAGES, *SEAMS)
        for path in ([ROOT / package] if package.endswith(".py") else sorted((ROOT / package).rglob("*.py")))
    )
)

#: Internal modules that are made for the packages above: helpers without tensors, and interfaces to the engine.
HELPERS = {
    "gradcore.dispatch.settings", "gradcore.dtypes", "gradcore.errors", "gradcore.foreach", "gradcore.inspection",
    "gradcore.namespaces", "gradcore.paths", "gradcore.to", "gradcore.tracebacks", "gradcore.transforms",
    "gradcore.typing",
}  # fmt: skip
#: Public modules whose packages are not.
PUBLIC = {
    "gradcore.autograd", "gradcore.autograd.anomaly_mode", "gradcore.autograd.forward_ad", "gradcore.autograd.function",
    "gradcore.autograd.functional", "gradcore.autograd.grad_mode", "gradcore.autograd.gradients",
    "gradcore.autograd.graph", "gradcore.backends.cuda",
}  # fmt: skip
#: Slots of tensors and of nodes.
SLOTS = {
    name
    for cls in (*gc.Tensor.__mro__, *Node.__mro__)
    for name in getattr(cls, "__slots__", ())
    if name.startswith("_") and not name.startswith("__")
} - {"_metadata"}  # of a state_dict, too


def known_as(module: str) -> str:
    """Return the path of a module without the room that it lies in, as the lists above name it."""
    package, _, inner = module.partition(".")
    return f"{package}.{former(inner)}".rstrip(".")


def is_public(module: str) -> bool:
    """Whether a module is one that users import, or a helper without tensors."""
    module = known_as(module)
    if module == "gradcore" or module in PUBLIC or module in HELPERS:
        return True
    parts = module.split(".")
    return parts[0] != "gradcore" or (len(parts) > 1 and parts[1] not in INTERNAL | {"autograd", "backends"})


def private_imports(tree: ast.Module) -> Iterator[str]:
    """Yield the private imports of a module: neither is their module public, nor are they found in `gradcore`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if is_package(node.module) and importlib.util.find_spec(inner):
                    if not is_public(inner):
                        yield known_as(inner)
                elif not is_public(node.module) and getattr(gc, alias.name, gc) is not value(node.module, alias.name):
                    yield known_as(inner)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if not is_public(alias.name))


def is_package(module: str) -> bool:
    return module.startswith("gradcore") and hasattr(importlib.import_module(module), "__path__")


def value(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


def private_attributes(tree: ast.Module) -> Iterator[str]:
    """Yield the slots of tensors and nodes that a module reads."""
    for node in ast.walk(tree):
        own = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("self", "ctx")
        if isinstance(node, ast.Attribute) and node.attr in SLOTS and not own:
            yield f"{ast.unparse(node)} in line {node.lineno}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_private_is_used(path: Path) -> None:
    tree, name = ast.parse(path.read_text(encoding="utf-8")), path.relative_to(ROOT)
    known = {seam for each in (name, *name.parents) for seam in SEAMS.get(each.as_posix(), ())}
    seams = tuple(f"gradcore.{seam}." for seam in known)
    assert [imported for imported in private_imports(tree) if not f"{imported}.".startswith(seams)] == []
    assert (set() if name.as_posix() in READERS_OF_SLOTS else {*private_attributes(tree)}) == set()


def test_every_seam_is_used() -> None:
    for package, seams in SEAMS.items():
        files = [path for path in FILES if path.is_relative_to(ROOT / package)]
        found = [f"{name}." for path in files for name in private_imports(ast.parse(path.read_text(encoding="utf-8")))]
        assert [seam for seam in seams if not any(name.startswith(f"gradcore.{seam}.") for name in found)] == [], (
            package
        )


def test_the_reader_finds_what_is_private() -> None:
    source = """
from gradcore import dtypes, functional, to
from gradcore.autograd import grad
from gradcore.autograd.views import gradient_edge
from gradcore.creation.filled import zeros, number_as_tensor
import gradcore.dispatch.general
t._array, self._array
"""
    assert [*private_imports(ast.parse(source)), *private_attributes(ast.parse(source))] == [
        "gradcore.autograd.views.gradient_edge",
        "gradcore.creation.filled.number_as_tensor",
        "gradcore.dispatch.general",
        "t._array in line 7",
    ]
