"""What CuPy and NumPy look for in the functions that call them."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore import cuda, fft, linalg, special
from gradcore.nn import functional

PLACES = (gc, gc.Tensor, fft, functional, linalg, special, cuda)


def functions() -> list[Any]:
    """All functions of the public namespaces that are written in Python."""
    found = [getattr(place, name, None) for place in PLACES for name in dir(place)]
    return [f for f in (inspect.unwrap(f) for f in found if callable(f)) if inspect.isfunction(f)]


def test_c_code_can_import_below_any_function() -> None:
    """CuPy asks for a dtype's name where it makes a kernel; NumPy imports a module for it, by the caller's globals."""
    x = gc.ones(2)
    for function in functions():
        assert "__builtins__" in function.__globals__, function
    for call in (lambda: x + x, lambda: gc.add(x, x), lambda: x.sum(0), lambda: x.view(2)):
        for _ in range(3):  # a function is written anew after its first calls
            call()
    for function in functions():
        assert "__builtins__" in function.__globals__, function


@pytest.mark.parametrize("name", ["add", "mul", "sum", "reshape", "where", "softmax"])
def test_a_kernel_may_import(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second call of a function too, which is not its first's code."""
    function, asked = getattr(gc, name), []
    x = gc.ones(2, 3)
    arguments = {"add": (x, x), "mul": (x, x), "sum": (x, 0), "reshape": (x, (6,)), "where": (x > 0, x, x)}
    for dtype in (gc.float32, gc.float64):
        y = [a.to(dtype) if isinstance(a, gc.Tensor) and a.dtype != gc.bool else a for a in arguments.get(name, (x, 0))]

        class Asking(np.ndarray[Any, Any]):
            def __array_finalize__(self, other: Any) -> None:
                asked.append(np.dtype.name.__get__(self.dtype))

        function(*y)
        for t in y:
            if isinstance(t, gc.Tensor):
                t._array = t._array.view(Asking)
        function(*y)
    assert asked
