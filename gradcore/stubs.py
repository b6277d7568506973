"""Writes what editors and type checkers see of the operations: ``python -m gradcore.stubs``.

Functions and methods are made from the table of operations when gradcore is imported; the stub files beside the modules
say their names and types. A test keeps them equal to the table.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import gradcore
from gradcore import dtypes, namespaces
from gradcore.ops.table import OPS, Op
from gradcore.tensor import Tensor

__all__ = ["stubs", "write"]

HEADER = '''"""Written by gradcore.stubs from the table of operations."""

import builtins
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

'''

ALIASES = '''Number: TypeAlias = builtins.bool | builtins.int | builtins.float | builtins.complex
Ints: TypeAlias = builtins.int | Sequence[builtins.int]
Dims: TypeAlias = Ints | None
'''

#: Types of settings by the annotation in a declaration; what is not here is checked when it is called only.
TYPES = {
    "Arrays": "Sequence[Tensor]", "Dims": "Dims", "DType": "dtype | None", "Ints": "Ints", "Ints | None": "Ints | None",
    "Number": "Number", "Number | None": "Number | None", "Sizes": "Sequence[builtins.int]", "Steps": "Ints",
    "Steps | None": "Ints | None", "Tensor | None": "Tensor | None",
}  # fmt: skip
BUILTIN = re.compile(r"\b(bool|int|float|complex|str|tuple)\b")


def _type(op: Op, position: int) -> str:
    parameter = op.parameters[position]
    annotation = str(parameter.annotation)
    if position in op.tensors and not (position == 0 and op.sequence):
        number = " | Number" if op.kind == "elementwise" and len(op.tensors) > 1 else ""
        return f"Tensor{number}" + (" | None" if parameter.default is None else "")
    if annotation in TYPES:
        return TYPES[annotation]
    if re.fullmatch(r"(bool|int|float|str|None|Tensor|[ |])+", annotation):
        return BUILTIN.sub(r"builtins.\1", annotation)
    return "Any"


def _returned(op: Op) -> str:
    if op.kind == "composite":
        return "Any"
    if op.variadic or len(op.outputs) > 1:
        return "Any" if op.output_type else "builtins.tuple[Tensor, ...]"
    return "Tensor"


def _signature(op: Op, method: bool) -> str:
    parts: list[str] = []
    variadic = method and op.parameters and op.parameters[-1].annotation == "Sizes"
    for i, parameter in enumerate(op.parameters):
        if method and i == 0:
            parts.append("self")
            continue
        if variadic and i == len(op.parameters) - 1:
            parts.append(f"*{parameter.name}: Any")
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        name = "input" if parameter.name == "self" else parameter.name
        default = "" if parameter.default is parameter.empty else " = ..."
        parts.append(f"{name}: {_type(op, i)}{default}")
    if not method and not op.view and not op.path.startswith("nn."):
        parts += ([] if "*" in parts else ["*"]) + ["out: Any = ..."]
    return ", ".join(parts)


def _functions(path: str) -> Iterator[str]:
    by_call = {id(op.call): op for op in OPS.values()}
    for name, function in sorted(namespaces.functions(path).items()):
        op = by_call.get(id(function))
        if op is None:  # an in-place function
            yield f"def {name}(input: Tensor, *args: Any, **named: Any) -> Tensor: ..."
        elif op.varargs or any(p.kind is p.VAR_POSITIONAL for p in op.parameters):
            yield f"def {name}(*args: Any, **named: Any) -> {_returned(op)}: ..."
        else:
            yield f"def {name}({_signature(op, False)}) -> {_returned(op)}: ..."


def _methods() -> Iterator[str]:
    by_function: dict[Any, Op] = {}
    for op in OPS.values():
        if op.method:
            by_function[op.method if isinstance(op.method, str) else op.name] = op
            if op.method is True:
                by_function |= dict.fromkeys(op.aliases, op)
    for name in sorted(n for n in dir(Tensor) if n not in _declared()):
        value = inspect.getattr_static(Tensor, name)
        op = by_function.get(name.removesuffix("_") if name.removesuffix("_") in by_function else name)
        if isinstance(value, property):
            yield f"    @property\n    def {name}(self) -> Any: ..."
        elif op is not None and not any(p.kind is p.VAR_POSITIONAL for p in op.parameters):
            yield f"    def {name}({_signature(op, True)}) -> {'Tensor' if name.endswith('_') else _returned(op)}: ..."
        elif name.startswith("__"):
            yield f"    def {name}(self, {'' if name in _UNARY else 'other: Any'}) -> {_OPERATOR_TYPES.get(name, 'Tensor')}: ..."
        elif callable(value):
            yield f"    def {name}(self, *args: Any, **named: Any) -> Any: ..."


_UNARY = {"__neg__", "__pos__", "__abs__", "__invert__", "__long__", "__nonzero__"}
_OPERATOR_TYPES = {"__long__": "builtins.int", "__nonzero__": "builtins.bool"}


def _declared() -> set[str]:
    """Names that the class `Tensor` itself, or one of its bases, declares in source."""
    own = {name for name, value in vars(Tensor).items() if _home(value) == "gradcore.tensor"}
    return own | set(dir(object)) | {"__module__", "__slots__", "__dict__", "__weakref__", "__annotations__", "__array_priority__"}


def _home(value: Any) -> str:
    function = value.fget if isinstance(value, property) else value
    code = getattr(function, "__code__", None)
    return "gradcore.tensor" if code is not None and code.co_filename.endswith("/tensor.py") else ""


def _reexports(module: ModuleType) -> Iterator[str]:
    """Everything public of a package that is not an operation, from where it is defined."""
    ops = set(namespaces.functions(""))
    for name, value in sorted(vars(module).items()):
        if name.startswith("_") or name in ops or name in dtypes.DTYPES or name in dtypes.ALIASES or name == "annotations":
            continue
        if isinstance(value, ModuleType):
            if value.__name__ == f"{module.__name__}.{name}":
                yield f"from {module.__name__} import {name} as {name}"
        else:
            home = getattr(value, "__module__", None)
            home = _defining_module(name, value) if home in (None, "gradcore") or not str(home).startswith("gradcore") else home
            yield f"from {home} import {name} as {name}" if home else f"{name}: Any"


def _defining_module(name: str, value: Any) -> str | None:
    import sys

    for path, module in sorted(sys.modules.items()):
        if path.startswith("gradcore.") and vars(module).get(name) is value and name in getattr(module, "__all__", ()):
            return path
    return None


def _root() -> str:
    types = [f"{name}: dtype" for name in sorted({**dtypes.DTYPES, **dtypes.ALIASES})]
    lines = [*_reexports(gradcore), "", "__version__: str", "", ALIASES, *types, "", *_functions("")]
    return HEADER + "\n".join(lines) + "\n"


def _namespace(path: str, module: ModuleType) -> str:
    names = namespaces.functions(path)
    extra = [
        f"from {value.__module__} import {n} as {n}" if value.__module__ != module.__name__ else f"def {n}(*args: Any, **named: Any) -> Any: ..."
        for n, value in sorted(vars(module).items())
        if n in getattr(module, "__all__", ()) and n not in names and callable(value) and not isinstance(value, type)
    ]
    classes = [
        f"class {n}({value.__base__.__name__}): ..."
        for n, value in sorted(vars(module).items())
        if isinstance(value, type) and n in getattr(module, "__all__", ())
    ]
    lines = ["from gradcore.dtypes import dtype", "from gradcore.tensor import Tensor", "", ALIASES, *classes, *extra, ""]
    return HEADER + "\n".join([*lines, *_functions(path)]) + "\n"


def stubs() -> dict[str, str]:
    """The stub files by their path in the package."""
    texts: dict[str, Callable[[], str]] = {
        "__init__.pyi": _root,
        "nn/functional.pyi": lambda: _namespace("nn.functional", gradcore.nn.functional),
        "linalg.pyi": lambda: _namespace("linalg", gradcore.linalg),
        "fft.pyi": lambda: _namespace("fft", gradcore.fft),
        "special.pyi": lambda: _namespace("special", gradcore.special),
    }
    found = {path: make() for path, make in texts.items()}
    lines = ["from gradcore.dtypes import dtype", "from gradcore.tensor import Tensor", "", ALIASES, "class Methods:"]
    found["methods.pyi"] = HEADER + "\n".join([*lines, *_methods()]) + "\n"
    return found


def write() -> None:
    """Write the stub files into the package."""
    for path, text in stubs().items():
        (Path(gradcore.__file__).parent / path).write_text(text)


if __name__ == "__main__":
    write()
