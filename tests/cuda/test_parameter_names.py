"""Names of parameters in kernels that CuPy completes: no other word of their expressions contains one of them.

Where CUB reduces, CuPy replaces the names in the expressions as text: of ``Extremum(x, _J)`` it makes
``Ein0tremum(in0, _J)``. No compiler is needed to see that, and none of the stand-ins but NVRTC takes CUB's headers.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gradcore
from gradcore.backends.base import Backend
from gradcore.backends.cupy.backend import CupyBackend
from gradcore.backends.cupy.elementwise import _MOST_JOINED
from gradcore.backends.cupy.reductions import _DECLARED, _FUNCTIONS_OF_SUMS

CLASSES = "ReductionKernel", "ElementwiseKernel"

#: The functions that make such kernels, and with which arguments they make all of them.
MAKERS: dict[str, list[tuple[Any, ...]]] = {
    "_as_unsigned": [()],
    "_join_kernel": [(count,) for count in range(2, _MOST_JOINED + 1)],
    "_order_kernel": [()],
    "_triangle_kernel": [()],
    "_watch_kernel": [()],
    "extremum_kernel": [
        (order, with_value, np.zeros(1, dtype)) for order in "<>" for with_value in (0, 1) for dtype in ("f4", "f8")
    ],
    "reduction_kernel": [(name,) for name in _DECLARED],
    "sum_kernel": [(name, np.zeros(1, dtype)) for name in _FUNCTIONS_OF_SUMS for dtype in ("f4", "f8")],
}


class _Recording(CupyBackend):
    """The CUDA backend without CuPy, whose kernels are the arguments that they were made of."""

    def __init__(self) -> None:
        record: Any = lambda *args, **named: (*args, named)  # noqa: E731
        Backend.__init__(self, SimpleNamespace(empty=np.empty, **dict.fromkeys(CLASSES, record)), np.ndarray)


def makers() -> set[str]:
    """Return the functions of the package that create kernels."""
    found = set()
    for path in Path(gradcore.__file__).parent.rglob("*.py"):
        source = path.read_text()
        if not any(f"{name}(" in source for name in CLASSES):
            continue
        for function in ast.walk(ast.parse(source)):
            if isinstance(function, ast.FunctionDef):
                called = (node.func for node in ast.walk(function) if isinstance(node, ast.Call))
                found |= {function.name for name in called if isinstance(name, ast.Attribute) and name.attr in CLASSES}
    return found


def clashes(inputs: str, outputs: str, *expressions: str) -> list[tuple[str, str]]:
    """Pairs of a parameter's name and another word that contains it."""
    names = [declared.split()[-1] for declared in f"{inputs}, {outputs}".split(", ")]
    words = set(re.findall(r"\w+", " ".join(expressions)))
    return [(name, word) for name in names for word in words if name in word and name != word]


def test_all_kernels_are_looked_at() -> None:
    assert makers() == set(MAKERS)


@pytest.mark.parametrize("maker", MAKERS)
def test_names_are_in_no_other_word(maker: str) -> None:
    backend = _Recording()
    for args in MAKERS[maker]:
        made = getattr(backend, maker)
        inputs, outputs, *rest, _named = made(*args) if callable(made) else made
        assert not clashes(inputs, outputs, *rest[:-1]), args


def test_names_that_clash_are_found() -> None:
    found = clashes("T x", "int64 i", "Extremum(x, _J)", "a + b", "i = a.index")
    assert set(found) == {("x", "Extremum"), ("x", "index"), ("i", "index")}
