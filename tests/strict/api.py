"""What CuPy offers: names and keyword arguments, read from the installed package or from the record beside this file.

``python -m tests.strict.api`` renews the record.
"""

import importlib
import inspect
import json
import re
from pathlib import Path
from typing import Any

RECORD = Path(__file__).with_name("cupy_api.json")
MODULES = {"": "cupy", "linalg": "cupy.linalg", "fft": "cupy.fft", "lib.stride_tricks": "cupy.lib.stride_tricks",
           "special": "cupyx.scipy.special"}  # fmt: skip
UFUNC_KEYWORDS = ["out", "dtype", "casting"]
UFUNC_METHODS = {"reduce": ["axis", "dtype", "out", "keepdims"], "accumulate": ["axis", "dtype", "out"],
                 "at": [], "outer": UFUNC_KEYWORDS, "reduceat": ["axis", "dtype", "out"]}  # fmt: skip


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


def introspect() -> dict[str, Any]:
    """The API of the installed CuPy."""
    import cupy

    api: dict[str, Any] = {"version": cupy.__version__, "functions": {}, "ufuncs": {}, "methods": {}}
    for prefix, module_name in MODULES.items():
        module = importlib.import_module(module_name)
        for name in dir(module):
            value = getattr(module, name)
            if name.startswith("_") or not callable(value) or isinstance(value, type):
                continue
            key = f"{prefix}.{name}" if prefix else name
            if isinstance(value, cupy.ufunc):
                api["ufuncs"][key] = sorted(m for m in UFUNC_METHODS if hasattr(value, m))
            else:
                api["functions"][key] = _keywords(value)
    for name in dir(cupy.ndarray):
        if not name.startswith("_"):
            value = getattr(cupy.ndarray, name)
            api["methods"][name] = _keywords(value) if callable(value) else "attribute"
    return api


def load() -> dict[str, Any]:
    """The installed CuPy's API, else the recorded one."""
    try:
        return introspect()
    except ImportError:
        recorded: dict[str, Any] = json.loads(RECORD.read_text())
        return recorded


if __name__ == "__main__":
    RECORD.write_text(json.dumps(introspect(), indent=0, sort_keys=True) + "\n")
