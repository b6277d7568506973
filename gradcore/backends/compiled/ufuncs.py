"""NumPy's universal functions in the threads of the compiled library.

The library calls the inner loops that NumPy itself calls, which need nothing of the interpreter, so results are the
same bit for bit. What one thread has read and another one then writes costs ten times what it costs to write what is
its own: passes that take turns with shared ones are shared too, however short they are.
"""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from gradcore.backends.compiled.calls import WORTH_A_THREAD
from gradcore.backends.numpy import threads

__all__ = ["Call", "in_pool"]


#: Elements from which threads share a pass.
_LARGE = 2 * WORTH_A_THREAD
_size = operator.attrgetter("size")


class Call(ctypes.Structure):
    """The loop that `gradcore_run_2` and its like read."""

    _fields_ = (
        ("loop", ctypes.c_void_p), ("parameters", ctypes.c_void_p), ("grain", ctypes.c_int64),
        ("sizes", ctypes.c_void_p),
    )  # fmt: skip


class _Head(ctypes.Structure):
    """The head of PyUFuncObject after that of the object, which NumPy keeps as it is."""

    _fields_ = (
        ("nin", ctypes.c_int), ("nout", ctypes.c_int), ("nargs", ctypes.c_int), ("identity", ctypes.c_int),
        ("functions", ctypes.POINTER(ctypes.c_void_p)), ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("ntypes", ctypes.c_int),
    )  # fmt: skip


class _InnerLoop:
    """An inner loop of a universal function, for operands of given dtypes."""

    def __init__(self, head: _Head, number: int, kinds: str) -> None:
        sizes = [np.dtype(char).itemsize for char in kinds]
        self.sizes = (ctypes.c_int64 * len(sizes))(*sizes)
        place = ctypes.addressof(self.sizes)
        self.call = Call(head.functions[number], head.data[number] if head.data else None, WORTH_A_THREAD, place)
        self.reference, self.dtype = ctypes.byref(self.call), np.dtype(kinds[-1])


def _inner_loops(function: np.ufunc) -> dict[str, _InnerLoop]:
    """The inner loops of a function for floats and complex numbers by the characters of its operands' dtypes."""
    head = _Head.from_address(id(function) + object.__basicsize__)
    if (head.nin, head.nout, head.nargs, head.ntypes) != (function.nin, function.nout, function.nargs, function.ntypes):
        return {}
    found: dict[str, _InnerLoop] = {}
    for number, kinds in enumerate(function.types):
        given, made = kinds.split("->")
        if set(given) <= set("fdFD") and made in "fdFD?" and head.functions[number]:
            found.setdefault(given, _InnerLoop(head, number, given + made))
    return found


def in_pool(library: ctypes.CDLL, function: np.ufunc, general: Callable[..., Any] | None = None) -> Any:
    """A universal function of one or two operands that shares large contiguous arrays among the library's threads.

    Parameters
    ----------
    library : CDLL
        The library.
    function : ufunc
        It computes what is smaller, or of other dtypes.
    general : callable, optional
        Computes, or refuses by None, large operands of different shapes.
    """
    loops = _inner_loops(function) if function.nout == 1 and function.signature is None else {}
    if not loops or function.nin > 2:
        return function
    run, array = library[f"gradcore_run_numpy_{function.nin + 1}"], np.ndarray
    run.argtypes = [ctypes.c_void_p, ctypes.c_int64, *[ctypes.py_object] * (function.nin + 1)]
    run.restype = ctypes.c_bool

    def shared(out: Any, *operands: Any) -> Any:
        number = threads.available()
        if number < 2 or not all(x.dtype.isnative for x in operands):
            return None
        loop = loops.get("".join([x.dtype.char for x in operands]))
        if loop is None:
            return None
        shape = max(operands, key=_size).shape
        result = np.empty(shape, loop.dtype) if out is None else out
        if result.dtype == loop.dtype and result.shape == shape and run(loop.reference, number, *operands, result):
            return result
        return None if general is None or out is not None else general(*operands)

    def unary(x: Any, out: Any = None) -> Any:
        if x.__class__ is array and x.size >= _LARGE:
            found = shared(out, x)
            if found is not None:
                return found
        return function(x) if out is None else function(x, out)

    def binary(x: Any, y: Any, out: Any = None) -> Any:
        if y.__class__ is float and x.__class__ is array and x.size >= _LARGE and x.dtype.char in "fd":
            y = np.asarray(y, x.dtype)
        if x.__class__ is array is y.__class__ and (x.size >= _LARGE or y.size >= _LARGE):
            found = shared(out, x, y)
            if found is not None:
                return found
        return function(x, y) if out is None else function(x, y, out=out)

    kernel: Any = unary if function.nin == 1 else binary
    kernel.nin, kernel.nout, kernel.function = function.nin, 1, function
    return kernel
