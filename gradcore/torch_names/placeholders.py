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
from types import FunctionType, ModuleType
from typing import Any, NoReturn

from gradcore.nn.module import Module
from gradcore.torch_names import foreach

__all__ = ["Placeholders", "attach", "homes", "names"]


@functools.cache
def names() -> dict[str, dict[str, str]]:
    """Return PyTorch's names by the path of the module, each with its kind; see tests/oracle/write_torch_names.py."""
    results: dict[str, dict[str, str]] = {}
    for line in Path(__file__).with_name("torch_names.txt").read_text("utf-8").splitlines():
        if not line.startswith("#"):
            path, *entries = line.split(" ")
            results[path] = {re.split("[=~]", entry[1:], maxsplit=1)[0]: entry for entry in entries}
    return results


@functools.cache
def _list_parents() -> set[str]:
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
    if path in _list_parents():
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
        """Return None, so that Python creates the module."""

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
#: `record` writes errors to a file for torchrun, as the processes of gradcore's launcher do by themselves.
_DECORATORS = {
    "functional_datapipe": True, "guaranteed_datapipes_determinism": True, "wrap": False, "disable": False,
    "record": False,
}  # fmt: skip

#: What to use instead of names that are missing, by the name without its module.
_REPLACEMENTS = {
    "FileSystemReader": "pass the folder to torch.distributed.checkpoint.load as checkpoint_id",
    "FileSystemWriter": "pass the folder to torch.distributed.checkpoint.save as checkpoint_id",
    "FullyShardedDataParallel": "shard a module in place with torch.distributed.fsdp.fully_shard",
    "optimize": "call torch.compile(model, backend=...)",
}


#: Classes whose instances only describe how something is divided. Packages create them when they are imported.
DESCRIPTIONS = {
    "ColwiseParallel", "Partial", "PrepareModuleInput", "PrepareModuleInputOutput", "PrepareModuleOutput", "Replicate",
    "RowwiseParallel", "SequenceParallel", "Shard",
}  # fmt: skip

#: Classes that PyTorch derives from `nn.Module`, so that classes derived from them are modules as well.
_MODULES = {"GraphModule"}

#: Significand bits, largest and smallest normal number of floating-point types, for `torch.finfo`.
_FLOATS = {
    "float8_e4m3fn": (3, 448.0, 2.0**-6),
    "float8_e4m3fnuz": (3, 240.0, 2.0**-7),
    "float8_e5m2": (2, 57344.0, 2.0**-14),
    "float8_e5m2fnuz": (3, 57344.0, 2.0**-15),
    "float8_e8m0fnu": (0, 2.0**127, 2.0**-127),
}

#: Methods of an operation that `torch.library.custom_op` returns.
_METHODS_OF_OPERATIONS = ("register_autograd", "register_fake", "register_kernel", "register_vmap")


def _decorator(has_arguments: bool) -> Callable[..., Any]:
    """Return a decorator that changes nothing, or (with arguments of its own) a function that makes one."""

    def decorate(*args: Any, **kwargs: Any) -> Any:
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
    if name in DESCRIPTIONS and kind in "cC":
        return _description(path, name, why)
    if kind in "cC":
        return _class(path, name, why, Module if name in _MODULES else object)
    if kind in "eE":
        return _class(path, name, why, Exception)
    if kind != "f":
        return _Object(f"{path}.{name}", why)
    if name.startswith("_foreach_"):
        return foreach.make_loop(name)
    return _register(path, name, why) if path == "torch.library" else _function(path, name, why)


def _refuse(path: str, why: str) -> NotImplementedError:
    why = _REPLACEMENTS.get(path.rpartition(".")[2], why)
    return NotImplementedError(f"{path} is there by name alone, as gradcore runs as torch: {why}")


def _class(path: str, name: str, why: str, base: type) -> type:
    """Return a class that can be subclassed and used in ``isinstance``, and has no instances."""

    def __new__(cls: type, *args: Any, **kwargs: Any) -> Any:
        raise _refuse(f"{path}.{name}", why)

    def __class_getitem__(cls: type, item: Any) -> type:
        return cls

    attributes = {"__module__": path, "__qualname__": name, "__doc__": f"A name alone: {why}", "__new__": __new__}
    return type(name, (base,), {**attributes, "__class_getitem__": classmethod(__class_getitem__)})


def _description(path: str, name: str, why: str) -> type:
    """Return a class whose instances can be passed on, and raise an error when an attribute is read."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        pass

    def __getattr__(self: Any, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        raise _refuse(f"{path}.{name}", why)

    attributes = {"__module__": path, "__qualname__": name, "__doc__": f"A name alone: {why}"}
    return type(name, (), {**attributes, "__init__": __init__, "__getattr__": __getattr__})


def _function(path: str, name: str, why: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        if name in _ANSWERS:
            return _ANSWERS[name]
        if len(args) == 1 and not kwargs and isinstance(args[0], FunctionType):
            return _refuse_at_call(args[0], f"{path}.{name}", why)  # a decorator
        raise _refuse(f"{path}.{name}", why)

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__module__ = path
    return refuse


def _refuse_at_call(function: Callable[..., Any], path: str, why: str) -> Callable[..., Any]:
    """Return a function in the place of a decorated one, which raises an error that names the decorator."""

    @functools.wraps(function)
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise _refuse(path, why)

    return refuse


def _register(path: str, name: str, why: str) -> Callable[..., Any]:
    """Return a function that takes the definition of an operation, which cannot be called.

    Packages define operations when they are imported, with a decorator or with a call that has the function as an
    argument. Each defined operation has such functions as its methods, for example ``register_fake``.
    """

    def register(*args: Any, **kwargs: Any) -> Any:
        for value in (*args, *kwargs.values()):
            if isinstance(value, FunctionType):
                operation = _refuse_at_call(value, f"{path}.{name}", why)
                for method in _METHODS_OF_OPERATIONS:
                    setattr(operation, method, _register(path, name, why))
                return operation
        return register

    register.__name__ = register.__qualname__ = name
    register.__module__ = path
    return register


class _Object:
    """Placeholder for an object of PyTorch, such as a dtype that gradcore lacks."""

    def __init__(self, path: str, why: str) -> None:
        self._path, self._why = path, why
        name = path.rpartition(".")[2]
        if name in _FLOATS:
            bits, largest, tiny = _FLOATS[name]
            low = tiny if name == "float8_e8m0fnu" else -largest  # that type has no negative numbers
            self.limits = {
                "dtype": name, "bits": 8, "eps": 2.0**-bits, "max": largest, "min": low, "smallest_normal": tiny,
                "tiny": tiny, "resolution": 1.0,
            }  # fmt: skip

    def __repr__(self) -> str:
        return self._path

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise _refuse(self._path, self._why)

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{self._path}.{name} does not exist, as gradcore runs as torch: {self._why}")

    def __reduce__(self) -> Any:
        return _find, (self._path,)


def _find(path: str) -> Any:
    """Return the object at a path, in the process that reads a pickle."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)
