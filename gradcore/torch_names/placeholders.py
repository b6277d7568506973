"""Stand-ins for names of PyTorch that gradcore lacks, for programs that run with `gradcore.as_torch`.

Packages import many names that they never use. A program can import, pass on and subclass such a name, and use it in
``isinstance``. A call of the name raises an error that says what is missing. Without `as_torch` there are no stand-ins.
"""

from __future__ import annotations

import functools
import importlib
import json
import re
from collections.abc import Callable
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["Placeholders", "attach", "homes", "names"]


@functools.cache
def names() -> dict[str, dict[str, str]]:
    """Return PyTorch's names by the path of the module, each with its kind; see tests/oracle/write_torch_names.py."""
    results: dict[str, dict[str, str]] = {}
    for line in Path(__file__).with_name("torch_names.txt").read_text("utf-8").splitlines():
        if not line.startswith("#"):
            path, *entries = line.split(" ")
            results[path] = {re.split("[=~]", entry[1:], maxsplit=1)[0]: entry for entry in entries}
    for name in [name for name in results["torch"] if name.startswith("_foreach_")]:
        del results["torch"][name]  # optimizers ask by hasattr whether there are these faster forms of their loops
    return results


@functools.cache
def _above() -> set[str]:
    """Return the paths of modules that contain other modules."""
    return {path.rpartition(".")[0] for path in names()}


@functools.cache
def homes() -> dict[str, list[str]]:
    """Return the modules in which PyTorch defines classes, by the name of the class."""
    results: dict[str, list[str]] = {}
    for path, entries in names().items():
        for name, entry in entries.items():
            if entry[0] in "CE":
                results.setdefault(name, []).append(path)
    return results


def attach(module: ModuleType, path: str) -> None:
    """Add placeholders to a module of gradcore for all names that only PyTorch's module at `path` has."""
    entries, scope = names().get(path), vars(module)
    module_getattr = scope.get("__getattr__")
    if entries is None or hasattr(module_getattr, "placeholders"):
        return
    if path in _above():
        scope.setdefault("__path__", [])  # so that modules below it are looked for

    def __getattr__(name: str) -> Any:
        try:
            if module_getattr is not None:
                return module_getattr(name)
            raise AttributeError(f"module {path!r} has no attribute {name!r}")
        except AttributeError as error:
            if name not in entries:
                raise
            return scope.setdefault(name, _make(path, entries[name], str(error)))

    __getattr__.placeholders = True  # type: ignore[attr-defined]
    scope["__getattr__"] = __getattr__


class Placeholders(Loader):
    """Loader that creates the module of a path that gradcore does not have.

    Parameters
    ----------
    why : str
        The message of the error that the import would raise.
    """

    def __init__(self, why: str) -> None:
        self.why = why

    def create_module(self, spec: ModuleSpec) -> None:
        """Leave it to Python."""

    def exec_module(self, module: ModuleType) -> None:
        path = module.__name__
        entries, scope = names()[path], vars(module)
        scope["__all__"] = [name for name in entries if not name.startswith("_")]

        def __getattr__(name: str) -> Any:
            if name in entries:
                return scope.setdefault(name, _make(path, entries[name], self.why))
            if f"{path}.{name}" in names():
                return importlib.import_module(f"{path}.{name}")
            raise AttributeError(f"module {path!r} has no attribute {name!r}")

        scope["__getattr__"] = __getattr__


#: Functions that ask whether a feature is available, with their results.
_ANSWERS = {
    "is_available": False, "is_initialized": False, "is_built": False, "device_count": 0, "is_compiling": False,
    "is_tracing": False, "is_scripting": False, "is_fx_tracing": False, "is_fx_symbolic_tracing": False,
    "is_torchelastic_launched": False, "is_exporting": False, "is_in_onnx_export": False, "is_rpc_available": False,
}  # fmt: skip


#: Missing decorators that packages call when they are imported, as functions that return their argument. The value
#: says whether the decorator takes arguments.
_DECORATORS = {"functional_datapipe": True, "guaranteed_datapipes_determinism": True, "wrap": False, "disable": False}


def _decorator(has_arguments: bool) -> Callable[..., Any]:
    """Return a decorator that changes nothing, or (with arguments of its own) a function that makes one."""

    def decorate(*args: Any, **named: Any) -> Any:
        return (lambda decorated: decorated) if has_arguments or not args else args[0]

    return decorate


def _make(path: str, entry: str, why: str) -> Any:
    """Return the stand-in for a name: a module, a class, an exception, a function, a number, a text or an object."""
    kind, rest = entry[0], entry[1:]
    name, sign, text = re.match(r"(\w+)([=~]?)(.*)", rest).groups()  # type: ignore[union-attr]
    if sign:
        value = json.loads(text)
        return re.compile(value) if sign == "~" else value
    if name in _DECORATORS and kind in "cCf":
        return _decorator(_DECORATORS[name])
    if kind == "m":
        inner = f"{path}.{name}"
        return importlib.import_module(inner) if inner in names() else _Object(inner, why)
    if kind in "cC":
        return _class(path, name, why, object)
    if kind in "eE":
        return _class(path, name, why, Exception)
    return _function(path, name, why) if kind == "f" else _Object(f"{path}.{name}", why)


def _refuse(path: str, why: str) -> NotImplementedError:
    return NotImplementedError(f"{path} is there by name alone, as gradcore runs as torch: {why}")


def _class(path: str, name: str, why: str, base: type) -> type:
    """Return a class that can be subclassed and used in ``isinstance``, and has no instances."""

    def __new__(cls: type, *args: Any, **named: Any) -> Any:
        raise _refuse(f"{path}.{name}", why)

    def __class_getitem__(cls: type, item: Any) -> type:
        return cls

    inside = {"__module__": path, "__qualname__": name, "__doc__": f"A name alone: {why}", "__new__": __new__}
    return type(name, (base,), {**inside, "__class_getitem__": classmethod(__class_getitem__)})


def _function(path: str, name: str, why: str) -> Callable[..., Any]:
    def refuse(*args: Any, **named: Any) -> Any:
        if name in _ANSWERS:
            return _ANSWERS[name]
        raise _refuse(f"{path}.{name}", why)

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__module__ = path
    return refuse


class _Object:
    """Placeholder for an object of PyTorch, such as a dtype that gradcore lacks."""

    def __init__(self, path: str, why: str) -> None:
        self._path, self._why = path, why

    def __repr__(self) -> str:
        return self._path

    def __call__(self, *args: Any, **named: Any) -> Any:
        raise _refuse(self._path, self._why)

    def __reduce__(self) -> Any:
        return _find, (self._path,)


def _find(path: str) -> Any:
    """Return the object at a path, in the process that reads a pickle."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)
