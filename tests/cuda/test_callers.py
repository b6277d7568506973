"""What CuPy and NumPy look for in the functions that call them."""

from __future__ import annotations

import inspect
from typing import Any

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
