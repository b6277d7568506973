"""Every public function, given NumPy arrays where it takes tensors: a result, or an error about the argument."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gradcore as gc

MODULES = {"": gc, "nn.functional": gc.nn.functional, "linalg": gc.linalg, "fft": gc.fft, "special": gc.special}
#: Functions of other things than tensors, and products of sparse matrices, whose errors name the layout.
OTHERS = {"fork", "hspmm", "load", "register_op", "save", "seed", "smm", "sspaddmm", "to_dlpack", "wait", "while_loop"}
#: Errors of Python's that say nothing of an argument.
INTERNAL = re.compile(r"'[\w.]+' object has no attribute|object is not callable|has no attribute '_")


def functions(path: str) -> Iterator[tuple[str, Any]]:
    module = MODULES[path]
    for name in sorted(set(dir(module))):
        function = getattr(module, name)
        changes_settings = name.startswith(("_", "set_", "use_", "compile", "init", "manual_seed"))
        if not changes_settings and name not in OTHERS and inspect.isroutine(function):
            yield name, function


def calls() -> Iterator[tuple[Any, ...]]:
    """Yield arguments with arrays in every place in which functions take tensors."""
    array, matrix, cube, index = np.ones(3), np.ones((2, 2)), np.ones((2, 2, 2)), np.zeros(2, int)
    t, m, c, i = gc.ones(3), gc.ones(2, 2), gc.ones(2, 2, 2), gc.zeros(2, dtype=gc.int64)
    yield from ((array,), (matrix, matrix), (t, array), (array, t), (array, 1), (m, 0, index), ([array, array],))
    yield from ((c, cube, cube), (t, t, array), (matrix, 0, index, matrix), (m, 0, i, matrix))


@pytest.mark.parametrize("path", [pytest.param(path, marks=() if path else pytest.mark.slow) for path in MODULES])
def test_errors_are_about_the_argument(path: str) -> None:
    wrong = {}
    with warnings.catch_warnings(), gc.random.fork_rng():
        warnings.simplefilter("ignore")
        for name, function in functions(path):
            for args in calls():
                try:
                    function(*args)
                except Exception as error:
                    if isinstance(error, AttributeError) or INTERNAL.search(str(error)):
                        wrong[name] = f"{type(error).__name__}: {error}"
    assert not wrong
