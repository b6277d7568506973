"""The tables of docs/conventions.md, read and evaluated."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any, NamedTuple

TEXT = (Path(__file__).parents[1] / "docs/conventions.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(.+)` \| (x = .+?) \| (.+?) \| (.+?) \|$", re.MULTILINE)
TENSOR = re.compile(r"(\w) = (\[.+?\])(?=, \w = |$)")


class Convention(NamedTuple):
    """One line of a table."""

    expression: str
    point: str
    ours: str
    theirs: str


CONVENTIONS = [Convention(*row) for row in ROW.findall(TEXT)]


def evaluate(library: Any, convention: Convention) -> str:
    """Evaluate a convention with a library."""
    names: dict[str, Any] = {}
    exec(f"from {library.__name__} import *", names)
    names |= {"F": library.nn.functional, "inf": math.inf, "nan": math.nan}
    tensors = {}
    for name, values in TENSOR.findall(convention.point):
        data = eval(values, dict(names))
        tensors[name] = library.tensor(data, dtype=library.float64, requires_grad=True)
    try:
        out = eval(convention.expression, names | tensors)
        if not out.requires_grad:
            return "constant"
        out.sum().backward()
    except (NotImplementedError, RuntimeError):
        return "RuntimeError"
    shown = {name: _shown(t.grad.tolist()) for name, t in tensors.items()}
    return shown["x"] if len(shown) == 1 else ", ".join(f"{name}: {text}" for name, text in shown.items())


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"
    return f"{value + 0.0:.4g}"  # no negative zeros
