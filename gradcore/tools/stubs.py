"""Generator of the stub files of operations, for editors and type checkers: ``python -m gradcore.tools.stubs``.

Functions and methods are made from the table of operations when they are first looked up; the stub files next to the
modules declare their names and types. A test keeps them equal to the table.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import gradcore
from gradcore.backends import switches
from gradcore.core import dtypes
from gradcore.functions import return_types
from gradcore.ops.declare import table
from gradcore.ops.declare.table import Op
from gradcore.tensor import Tensor, namespaces
from gradcore.tools.stub_results import overloads, result
from gradcore.torch_names import paths

#: The package's own operations, without those that a program has declared.
OPS = {name: op for name, op in table.OPS.items() if op.module.startswith("gradcore.ops.")}

__all__ = ["stubs", "write"]

HEADER = '''"""Written by gradcore.stubs from the table of operations."""

import builtins
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, overload

'''
IMPORTS = """from gradcore.core.dtypes import dtype
from gradcore.functions import return_types
from gradcore.tensor import Tensor
"""
#: The longest line of a stub file, as for all source.
WIDTH = 120

ALIASES = """Number: TypeAlias = builtins.bool | builtins.int | builtins.float | builtins.complex
Ints: TypeAlias = builtins.int | Sequence[builtins.int]
Dims: TypeAlias = Ints | None
"""

#: Types of settings by the annotation in a declaration. Other settings are checked only when they are called.
TYPES = {
    "Arrays": "Sequence[Tensor]", "Dims": "Dims", "DType": "dtype | None", "Ints": "Ints", "Ints | None": "Ints | None",
    "Number": "Number", "Number | None": "Number | None", "Scalar": "builtins.float",
    "Scalar | None": "builtins.float | None",
    "OutputSizes": "builtins.int | Sequence[builtins.int | None] | None",
    "Sizes": "Sequence[builtins.int]", "Steps": "Ints",
    "Steps | None": "Ints | None", "Tensor | None": "Tensor | None",
}  # fmt: skip
BUILTIN = re.compile(r"\b(bool|int|float|complex|str|tuple)\b")

#: Python's comparisons, which `object` has too; of these `object` promises that they return bools.
COMPARISONS = ("__eq__", "__ge__", "__gt__", "__le__", "__lt__", "__ne__")
OVERRIDES = ("__eq__", "__ne__")
UNARY = ("__abs__", "__invert__", "__neg__", "__pos__")
#: Parameters and result of the methods by which Python finds its way, other than operators.
PROTOCOL = {
    "__array_wrap__": (["self", "array: Any", "context: Any = ...", "return_scalar: builtins.bool = ..."], "Tensor"),
    "__delitem__": (["self", "index: Any"], "None"),
    "__getitem__": (["self", "index: Any"], "Tensor"),
    "__long__": (["self"], "builtins.int"),
    "__nonzero__": (["self"], "builtins.bool"),
    "__setitem__": (["self", "index: Any", "value: Any"], "None"),
    "__setstate__": (["self", "state: Any"], "None"),
}
#: Modules in rooms that programs import from the top of the package: for type checkers, too.
FROM_ROOMS = (
    "array_api", "compiled", "errors", "fft", "linalg", "masked", "overrides", "profiler", "random", "return_types",
    "special", "testing", "types", "viz",
)  # fmt: skip
#: Modules that are not there when the package is imported.
LATER = ("interop", "stubs")
ANYTHING = ["*args: Any", "**named: Any"]


def _def(name: str, parameters: list[str], returned: str, indent: str = "") -> str:
    """Return the lines of a declaration, broken as `ruff format` breaks them."""
    line = f"{indent}def {name}({', '.join(parameters)}) -> {returned}: ..."
    if len(line) <= WIDTH:
        return line
    inner = f"{indent}    {', '.join(parameters)}"
    if len(inner) > WIDTH:
        inner = "\n".join(f"{indent}    {parameter}," for parameter in parameters)
    return f"{indent}def {name}(\n{inner}\n{indent}) -> {returned}: ..."


def _type(op: Op, position: int) -> str:
    """Return the type of a parameter in a stub file."""
    parameter = op.parameters[position]
    annotation = str(parameter.annotation)
    if position in op.tensors and position not in op.sequences:
        takes = op.kind == "elementwise" or (op.kind == "composite" and position and "." not in op.path)
        number = " | Number" if takes and len(op.tensors) > 1 else ""
        return f"Tensor{number}" + (" | None" if parameter.default is None else "")
    if annotation in TYPES:
        return TYPES[annotation]
    if re.fullmatch(r"(bool|int|float|str|None|Dims|Number|Tensor|[ |])+", annotation):
        return BUILTIN.sub(r"builtins.\1", annotation)
    return "Any"


def _signature(op: Op, method: bool) -> list[str]:
    """Return the parameters of an operation's function or method in a stub file."""
    parts: list[str] = []
    variadic = method and op.parameters and str(op.parameters[-1].annotation).startswith("Sizes")
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
    return parts


def _functions(path: str) -> Iterator[str]:
    """Yield the declarations of the functions of a namespace."""
    by_call = {id(op.call): op for op in OPS.values()}
    for name, make in sorted(namespaces.functions(path).items()):
        op = by_call.get(id(make()))
        if op is None:  # an in-place function
            yield _def(name, ["input: Tensor", *ANYTHING], "Tensor")
        elif op.varargs or any(p.kind is p.VAR_POSITIONAL for p in op.parameters):
            yield _def(name, ANYTHING, result(op))
        else:
            yield from _forms(name, op, False)


def _forms(name: str, op: Op, method: bool, indent: str = "") -> Iterator[str]:
    """Yield the declaration of an operation, or the declarations of all its overloads."""
    signature = _signature(op, method)
    forms = overloads(op, signature, method)
    for parameters, result_type in forms:
        yield f"{indent}@overload"
        yield _def(name, parameters, result_type, indent)
    if not forms:
        yield _def(name, signature, result(op), indent)


def _methods() -> Iterator[str]:
    by_function: dict[Any, Op] = {}
    for op in OPS.values():
        if op.method:
            by_function[op.method if isinstance(op.method, str) else op.name] = op
            if op.method is True:
                by_function |= dict.fromkeys(op.aliases, op)
    attributes = {op.name for op in OPS.values() if op.attribute}
    indent = " " * 4
    for name in sorted(set(dir(Tensor)) - _list_declared_names()):
        getattr(Tensor, name, None)  # operations become methods when they are first looked up
        value = inspect.getattr_static(Tensor, name)
        method = by_function.get(name.removesuffix("_") if name.removesuffix("_") in by_function else name)
        if isinstance(value, property):
            yield f"{indent}@property"
            yield _def(name, ["self"], "Tensor" if name in attributes else _result_annotation(value.fget), indent)
            if value.fset is not None:
                yield f"{indent}@{name}.setter"
                yield _def(name, ["self", "value: Any"], "None", indent)
        elif isinstance(value, (staticmethod, classmethod)):
            kind, first = ("classmethod", ["cls"]) if isinstance(value, classmethod) else ("staticmethod", [])
            yield f"{indent}@{kind}"
            yield _def(name, first + ANYTHING, "Any", indent)
        elif method is not None and not any(p.kind is p.VAR_POSITIONAL for p in method.parameters):
            if name.endswith("_"):
                yield _def(name, _signature(method, True), "Tensor", indent)
            else:
                yield from _forms(name, method, True, indent)
        elif name in PROTOCOL:
            yield _def(name, *PROTOCOL[name], indent)
        elif name.startswith("__"):
            comment = "  # type: ignore[override]" if name in OVERRIDES else ""
            yield _def(name, ["self"] if name in UNARY else ["self", "other: Any"], "Tensor", indent) + comment
        elif callable(value):
            result_type = "Tensor" if name.endswith("_") else _result_annotation(value)
            yield _def(name, ["self", *ANYTHING], result_type, indent)


def _result_annotation(function: Any) -> str:
    """Return the result annotation of a function written by hand, if a stub file can express it."""
    annotation = str(getattr(function, "__annotations__", {}).get("return"))
    if annotation in ("Tensor", "AnyTensor"):
        return "Tensor"
    return f"builtins.{annotation}" if annotation in ("bool", "int", "float", "str") else "Any"


def _list_declared_names() -> set[str]:
    """Return the names that the class `Tensor` or one of its bases declares in source."""
    defined = {name for name, value in vars(Tensor).items() if _home(value) == "gradcore.tensor"}
    special_names = {
        "__annotations__", "__array_priority__", "__dict__", "__firstlineno__", "__module__", "__slots__",
        "__static_attributes__", "__weakref__",
    }  # fmt: skip
    return defined | special_names | set(dir(object)) - set(COMPARISONS)


def _home(value: Any) -> str:
    function = value.fget if isinstance(value, property) else value
    code = getattr(function, "__code__", None)
    return "gradcore.tensor" if code is not None and code.co_filename.endswith("/tensor.py") else ""


def _reexports(module: ModuleType) -> list[str]:
    """Return import lines of everything public of a package except operations, from where it is defined."""
    defined_elsewhere = {*namespaces.functions(""), *dtypes.DTYPES, *dtypes.ALIASES, "annotations"}
    imports, values = [], []
    for name in dir(module):
        if name.startswith("_") or name in defined_elsewhere:
            continue
        value = getattr(module, name)
        if isinstance(value, ModuleType):
            package, _, inner = value.__name__.partition(".")
            if paths.former(inner) == name and hasattr(value, "__file__") and name not in LATER:
                imports.append((f"{package}.{inner}".rpartition(".")[0], name))
            continue
        home = str(getattr(value, "__module__", None))
        if value is None or isinstance(value, float):  # Several modules may have the same constant.
            where = None
        else:
            where = home if home.startswith("gradcore.") else _defining_module(name, value)
        if where is None:
            kind = "None" if value is None else "builtins.float" if isinstance(value, float) else "Any"
            values.append(f"{name}: {kind}")
        else:
            imports.append((where, name))
    in_order = sorted(imports, key=lambda pair: (pair[0], pair[1][0].islower(), pair[1]))
    return [*(_reexport(home, name) for home, name in in_order), "", *sorted(values)]


def _reexport(home: str, name: str) -> str:
    """Return the import of a public name, broken to the length of a line."""
    line = f"from {home} import {name} as {name}"
    return line if len(line) <= 120 else f"from {home} import (\n    {name} as {name},\n)"


def _defining_module(name: str, value: Any) -> str | None:
    for path, module in sorted(sys.modules.items()):
        is_source = path == module.__name__ and path.startswith("gradcore.")
        if is_source and vars(module).get(name) is value and name in getattr(module, "__all__", ()):
            return path
    return None


def _root() -> str:
    types = [f"{name}: dtype" for name in sorted({**dtypes.DTYPES, **dtypes.ALIASES})]
    lines = [*_reexports(gradcore), "", "__version__: str", "", ALIASES, *types, "", *_functions("")]
    return HEADER + "\n".join(lines) + "\n"


def _namespace(path: str, module: ModuleType) -> str:
    names = namespaces.functions(path)
    public = {n: vars(module)[n] for n in sorted(getattr(module, "__all__", ())) if n not in names}
    classes = [f"class {n}({_base(value)}): ..." for n, value in public.items() if isinstance(value, type)]
    functions = {n: value for n, value in public.items() if callable(value) and not isinstance(value, type)}
    imports = [
        f"from {f.__module__} import {n} as {n}" for n, f in functions.items() if f.__module__ != module.__name__
    ]
    definitions = [_def(n, ANYTHING, "Any") for n, f in functions.items() if f.__module__ == module.__name__]
    lines = ["", ALIASES, *_add_blank_line(classes), *definitions, *_functions(path)]
    return HEADER + "\n".join([*sorted([*IMPORTS.splitlines(), *imports]), *lines]) + "\n"


def _switches(module: switches.Switches) -> str:
    """Return the stub file of a module that has no source file."""
    attributes = {
        name for name, value in vars(type(module)).items() if isinstance(value, (switches.Switch, switches.Switches))
    }
    functions = {name: value for name, value in vars(module).items() if name in module.__all__ and callable(value)}
    lines = [f"{name}: Any" for name in sorted(attributes)]
    definitions = [_def(n, ANYTHING, _result_annotation(f)) for n, f in sorted(functions.items())]
    return HEADER + "\n".join([*_add_blank_line(lines), *definitions]) + "\n"


def _base(cls: type) -> str:
    assert cls.__base__ is not None
    return cls.__base__.__name__


def _add_blank_line(lines: list[str]) -> list[str]:
    """Return the lines with an empty one at the end, if there are any."""
    return [*lines, ""] if lines else []


def _modules() -> str:
    """Return the stub file of `gradcore.nn`.

    Modules with a class in source are imported. Modules that are made from tables are declared in the stub file.
    """
    package: Any = gradcore.nn
    imports, classes = [], []
    for name in vars(package)["__all__"]:
        value = vars(package)[name]
        home = getattr(value, "__module__", package.__name__)
        if home != package.__name__:
            imports.append((home, name))
        elif isinstance(value, type):
            parameters = inspect.signature(value).parameters.values()
            classes += [
                "",
                f"class {name}(Module):",
                *_attributes(value),
                _def("__init__", _format_settings(parameters), "None", "    "),
                *_forward(value),
            ]
        else:
            imports.append((package.__name__, name))
    in_order = sorted(imports, key=lambda pair: (pair[0], not pair[1].isupper(), pair[1]))
    lines = [f"from {home} import {name} as {name}" for home, name in in_order]
    lines.append("from gradcore.tensor import Tensor")
    return HEADER + "\n".join([*lines, *classes]) + "\n"


def _attributes(cls: type) -> list[str]:
    hints = {name: hint for base in cls.__mro__ for name, hint in vars(base).get("__annotations__", {}).items()}
    return [f"    {name}: {hints[name]}" for name in ("weight", "bias") if str(hints.get(name)).startswith("Tensor")]


def _forward(cls: type) -> list[str]:
    """Return the result annotation of a module whose function has one result."""
    has_several_results = "return_indices" in inspect.signature(cls).parameters
    return [] if has_several_results else [_def("forward", ["self", "*inputs: Any", "**named: Any"], "Tensor", "    ")]


def _format_settings(parameters: Iterable[inspect.Parameter]) -> list[str]:
    """Return the settings with the types of their defaults; a single number may stand for one number per dim."""
    declarations, keyword_only = ["self"], False
    for p in parameters:
        if p.kind is p.KEYWORD_ONLY and not keyword_only:
            declarations, keyword_only = [*declarations, "*"], True
        annotation = f"builtins.{type(p.default).__name__}" if isinstance(p.default, (bool, float, str)) else "Any"
        annotation = "Any" if isinstance(p.default, str) and p.name == "padding" else annotation
        declarations.append(f"{p.name}: {annotation}" + ("" if p.default is p.empty else " = ..."))
    return declarations


def stubs() -> dict[str, str]:
    """Return the stub files by their path in the package."""
    texts: dict[str, Callable[[], str]] = {
        "__init__.pyi": _root,
        "nn/__init__.pyi": _modules,
        "nn/functional.pyi": lambda: _namespace("nn.functional", gradcore.nn.functional),
        "functions/linalg.pyi": lambda: _namespace("linalg", gradcore.linalg),
        "functions/fft.pyi": lambda: _namespace("fft", gradcore.fft),
        "functions/special.pyi": lambda: _namespace("special", gradcore.special),
        "functions/masked.pyi": lambda: _namespace("masked", gradcore.masked),
    }
    files = {path: make() for path, make in texts.items()}
    for name in FROM_ROOMS:
        first, present_path = HEADER.partition("\n")[0], paths.translate_former(name)
        files[f"{name}.pyi"] = f"{first}\n\nfrom gradcore.{present_path} import *\n"
    files["functions/return_types.pyi"] = "\n".join([*_named_tuples(), ""])
    files["tensor/methods.pyi"] = HEADER + IMPORTS + "\n".join(["", ALIASES, "class Methods:", *_methods()]) + "\n"
    files |= {f"backends/{name.rpartition('.')[2]}.pyi": _switches(module) for name, module in switches.MODULES.items()}
    return {path: _remove_unused_imports(text) for path, text in files.items()}


def _named_tuples() -> Iterator[str]:
    """Yield the named tuples of operations with several results."""
    yield from (HEADER.partition("\n")[0], "", "from typing import NamedTuple", "")
    yield "from gradcore.tensor import Tensor"
    for name in dir(return_types):
        fields = getattr(return_types, name)._fields
        yield from ("", f"class {name}(NamedTuple):", *(f"    {field}: Tensor" for field in fields))


def _remove_unused_imports(text: str) -> str:
    """Return the text without unused imports."""
    lines = text.splitlines(keepends=True)
    for i, line in enumerate(lines):
        match = re.fullmatch(r"((?:from [\w.]+ )?import )([\w, ]+)\n", line)
        if match and " as " not in line:
            rest = "".join(lines[:i] + lines[i + 1 :])
            names = [name for name in match[2].split(", ") if re.search(rf"(?<![.\w]){name}\b", rest)]
            lines[i] = f"{match[1]}{', '.join(names)}\n" if names else ""
    return "".join(lines)


def write() -> None:
    """Write the stub files into the package."""
    for path, text in stubs().items():
        (Path(gradcore.__file__).parent / path).write_text(text)


if __name__ == "__main__":
    write()
