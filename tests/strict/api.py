"""What CuPy offers: names and keyword arguments, read from the installed package or from the record beside this file.

``python -m tests.strict.api`` renews the record.
"""

import ast
import importlib
import importlib.util
import inspect
import json
import re
from pathlib import Path
from typing import Any

RECORD = Path(__file__).with_name("cupy_api.json")
MODULES = {"": "cupy", "linalg": "cupy.linalg", "fft": "cupy.fft", "lib.stride_tricks": "cupy.lib.stride_tricks",
           "special": "cupyx.scipy.special", "scipy_linalg": "cupyx.scipy.linalg"}  # fmt: skip
UFUNC_KEYWORDS = ["out", "dtype", "casting"]
UFUNC_METHODS = {"reduce": ["axis", "dtype", "out", "keepdims"], "accumulate": ["axis", "dtype", "out"],
                 "at": [], "outer": UFUNC_KEYWORDS, "reduceat": ["axis", "dtype", "out"]}  # fmt: skip

#: The functions whose methods work: for the others CuPy raises NotImplementedError.
UFUNCS_WITH = {"reduce": ["add", "multiply"], "accumulate": ["add", "multiply"], "reduceat": ["add"],
               "at": ["add", "subtract", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor"]}  # fmt: skip

#: Dtypes of `ufunc.at`: what has an atomic operation. (Those of float64 extrema exist, but round to float32.)
AT_DTYPES = {"add.at": ["int32", "uint32", "uint64", "float16", "float32", "float64"],
             "maximum.at": ["int32", "uint32", "uint64", "float32"],
             "minimum.at": ["int32", "uint32", "uint64", "float32"]}  # fmt: skip


def _keywords(function: Any) -> list[str] | None:
    """Parameter names of a function; None where they cannot be known."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        first = (function.__doc__ or "").strip().partition("\n")[0]
        match = re.search(r"\((.*)\)", first)
        if match is None:
            return None
        names = [re.split(r"[=:]", part.strip().strip("[]"))[0].split(" ")[-1] for part in match[1].split(",")]
        return [n for n in names if n.isidentifier() and n != "self"]
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    return [p.name for p in parameters]


def _functions(module_name: str) -> dict[str, Any]:
    """Return the functions of a module by name, or their parameters if it cannot be imported without CUDA."""
    try:
        module = importlib.import_module(module_name)
    except ImportError:
        return _from_source(module_name)
    found = {name: getattr(module, name) for name in dir(module) if not name.startswith("_")}
    return {name: value for name, value in found.items() if callable(value) and not isinstance(value, type)}


def _from_source(package: str) -> dict[str, list[str]]:
    """Return the names and parameters of the functions that a package's files define."""
    top, _, rest = package.partition(".")
    spec = importlib.util.find_spec(top)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(package)
    folder = Path(spec.submodule_search_locations[0], *rest.split("."))
    trees = [ast.parse(path.read_text()) for path in sorted(folder.glob("_[a-z]*.py"))]
    functions = [node for tree in trees for node in tree.body if isinstance(node, ast.FunctionDef)]
    return {f.name: [a.arg for a in (*f.args.posonlyargs, *f.args.args, *f.args.kwonlyargs)]
            for f in functions if not f.name.startswith("_")}  # fmt: skip


def introspect() -> dict[str, Any]:
    """Return the API of the installed CuPy."""
    import cupy

    api: dict[str, Any] = {"version": cupy.__version__, "functions": {}, "ufuncs": {}, "methods": {}}
    for prefix, module_name in MODULES.items():
        for name, value in _functions(module_name).items():
            key = f"{prefix}.{name}" if prefix else name
            if isinstance(value, cupy.ufunc):
                methods = [m for m in UFUNC_METHODS if name in UFUNCS_WITH.get(m, [name])]
                api["ufuncs"][key] = {"methods": methods, "types": list(value.types)}
            else:
                api["functions"][key] = value if isinstance(value, list) else _keywords(value)
    for name in dir(cupy.ndarray):
        if not name.startswith("_"):
            value = getattr(cupy.ndarray, name)
            api["methods"][name] = _keywords(value) if callable(value) else "attribute"
    return api


def load() -> dict[str, Any]:
    """Return the API of the installed CuPy, or else the recorded one."""
    try:
        return introspect()
    except ImportError:
        recorded: dict[str, Any] = json.loads(RECORD.read_text())
        return recorded


if __name__ == "__main__":
    RECORD.write_text(json.dumps(introspect(), indent=0, sort_keys=True) + "\n")
