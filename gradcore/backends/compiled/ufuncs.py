"""NumPy's universal functions in the threads of the compiled library.

The library calls NumPy's own inner loops, which do not need the interpreter, so results are the same bit for bit.
Writing to memory that another core has in its cache takes ten times as long as writing to a thread's own memory.
Therefore even short calls are shared among the threads if calls before and after them are.
"""

from __future__ import annotations

import ctypes
import functools
import operator
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from gradcore.backends.compiled.calls import WORTH_A_THREAD
from gradcore.backends.compiled.library import builtin
from gradcore.backends.numpy import threads
from gradcore.core.typing import AnyArray

__all__ = ["Call", "CallList", "wrap_for_pool"]


#: Elements from which threads share a pass.
_LARGE = 2 * WORTH_A_THREAD
#: Products of the numbers of elements from which it is checked whether operands are broadcast along short rows.
_LEAST = 1 << 13
#: The length of short rows, and of rows that repeat one row; elements from which copies of longer rows pay off.
_SHORT, _WIDE, _MANY = 16, 512, 1 << 13
#: Numbers of short rows from which operands are copied: if both are broadcast, one is broadcast, or has one column.
#: Tests set them to 1.
_ROWS = (256, 768, 1536)
#: Pairs of shapes whose result's shape is cached.
_MOST_PLANS = 1_000
_size = operator.attrgetter("size")


class Call(ctypes.Structure):
    """The structure of a loop that `gradcore_run` and similar functions read."""

    _fields_ = (
        ("loop", ctypes.c_void_p), ("parameters", ctypes.c_void_p), ("grain", ctypes.c_int64),
        ("sizes", ctypes.c_void_p),
    )  # fmt: skip


class _Head(ctypes.Structure):
    """The first fields of NumPy's C structure PyUFuncObject, which are stable."""

    _fields_ = (
        ("nin", ctypes.c_int), ("nout", ctypes.c_int), ("nargs", ctypes.c_int), ("identity", ctypes.c_int),
        ("functions", ctypes.POINTER(ctypes.c_void_p)), ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("ntypes", ctypes.c_int),
    )  # fmt: skip


class _InnerLoop:
    """An inner loop of a universal function for operands of given dtypes."""

    def __init__(self, head: _Head, number: int, kinds: str) -> None:
        sizes = [np.dtype(char).itemsize for char in kinds]
        self.sizes = (ctypes.c_int64 * len(sizes))(*sizes)
        address = ctypes.addressof(self.sizes)
        self.call = Call(head.functions[number], head.data[number] if head.data else None, WORTH_A_THREAD, address)
        self.address, self.dtype = ctypes.addressof(self.call), np.dtype(kinds[-1])


@functools.cache
def _inner_loops(function: np.ufunc) -> dict[str, _InnerLoop]:
    """Return a function's inner loops for floats and complex numbers, by the characters of the operands' dtypes."""
    head = _Head.from_address(id(function) + object.__basicsize__)
    if (head.nin, head.nout, head.nargs, head.ntypes) != (function.nin, function.nout, function.nargs, function.ntypes):
        return {}
    results: dict[str, _InnerLoop] = {}
    for number, kinds in enumerate(function.types):
        inputs, outputs = kinds.split("->")
        if set(inputs) <= set("fdFD") and outputs in "fdFD?" and head.functions[number]:
            results.setdefault(inputs, _InnerLoop(head, number, inputs + outputs))
    return results


#: Shapes of results by the shapes of two operands, see `plan_broadcast`.
_plans: dict[tuple[tuple[int, ...], tuple[int, ...]], tuple[int, ...] | None] = {}


def plan_broadcast(x: AnyArray, y: AnyArray) -> tuple[int, ...] | None:
    """Return the shape of the result of two arrays if copies of operands pay off, else None.

    The arrays have different shapes, or one shape and different strides.
    """
    shapes = x.shape, y.shape
    try:
        return _plans[shapes]
    except KeyError:
        if len(_plans) >= _MOST_PLANS:
            _plans.clear()
        plan = _plans[shapes] = _compute_plan(*shapes)
        return plan


def _compute_plan(shape: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...] | None:
    try:
        result = np.broadcast_shapes(shape, other)
    except ValueError:  # NumPy's function raises it again
        return None
    return result if shape and other and all(result) and _is_worth_copies(shape, other, result) else None


@functools.lru_cache(_MOST_PLANS)
def _is_large_result(shape: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Return whether the result of two small arrays, such as an outer product, is large enough for threads."""
    try:
        return prod(np.broadcast_shapes(shape, other)) >= _LARGE
    except ValueError:  # NumPy's function raises it again
        return False


def _is_worth_copies(shape: tuple[int, ...], other: tuple[int, ...], result: tuple[int, ...]) -> bool:
    """Return whether NumPy's loop for each row takes longer than copies of operands.

    It takes longest if no operand has all rows, and is shortest for a single number in each row.
    """
    width, rows = result[-1], prod(result[:-1])
    if result in (shape, other) and shape[-1] == other[-1]:
        return rows >= _ROWS[1] if width <= _SHORT else width <= _WIDE and width * rows > _MANY
    return width <= _SHORT and rows >= _ROWS[0 if result not in (shape, other) else 2]


def wrap_for_pool(library: ctypes.CDLL, function: np.ufunc, general: Callable[..., Any] | None = None) -> Any:
    """Return a version of a universal function that shares large contiguous arrays among the library's threads.

    Parameters
    ----------
    library : CDLL
        The library.
    function : ufunc
        The function, which computes smaller arrays and other dtypes itself.
    general : callable, optional
        Computes, or refuses by None, large operands of different shapes.
    """
    loops = _inner_loops(function) if function.nout == 1 and function.signature is None else {}
    if not loops or function.nin > 2:
        return function
    run, array = builtin(library, "gradcore_run_numpy"), np.ndarray
    # Loops for two floats of one type in the byte order of this machine.
    broadcasting = {np.dtype(char): loops[char * 2] for char in "fd" if char * 2 in loops}
    run_broadcast = builtin(library, "gradcore_run_broadcast")

    def compute(out: AnyArray | None, *operands: AnyArray) -> AnyArray | None:
        number = threads.available()
        if number < 2 or not all(x.dtype.isnative for x in operands):
            return None
        loop = loops.get("".join([x.dtype.char for x in operands]))
        if loop is None:
            return None
        shape = max(operands, key=_size).shape
        result = np.empty(shape, loop.dtype) if out is None else out
        if result.dtype == loop.dtype and result.shape == shape and run(loop.address, number, *operands, result):
            return result
        return None if general is None or out is not None else general(*operands)

    def broadcast(x: AnyArray, y: AnyArray, out: AnyArray | None) -> AnyArray | None:
        """Return the result for many rows of operands that are broadcast, or None."""
        shape, loop = plan_broadcast(x, y), broadcasting.get(x.dtype)
        if shape is None or loop is None or x.dtype is not y.dtype:
            return None
        result = np.empty(shape, loop.dtype) if out is None else out
        fits = out is None or (result.dtype == loop.dtype and result.shape == shape)
        return result if fits and run_broadcast(loop.address, threads.available(), x, y, result) else None

    def unary(x: AnyArray, out: AnyArray | None = None) -> AnyArray:
        if x.__class__ is array and x.size >= _LARGE:
            result = compute(out, x)
            if result is not None:
                return result
        return function(x) if out is None else function(x, out)

    def binary(x: AnyArray, y: AnyArray, out: AnyArray | None = None) -> AnyArray:
        if y.__class__ is float and x.__class__ is array and x.size >= _LARGE and x.dtype.char in "fd":
            y = np.asarray(y, x.dtype)
        if x.__class__ is array is y.__class__:
            size, other = x.size, y.size
            # Operands of one size may have other shapes, or be views that repeat elements.
            if size * other >= _LEAST and (size != other or x.strides != y.strides):
                result = broadcast(x, y, out)
                if result is not None:
                    return result
            if size >= _LARGE or other >= _LARGE:
                result = compute(out, x, y)
                if result is not None:
                    return result
            elif size * other >= _LARGE and out is None and general is not None and threads.available() > 1:
                result = general(x, y) if _is_large_result(x.shape, y.shape) else None
                if result is not None:
                    return result
        return function(x, y) if out is None else function(x, y, out=out)

    kernel: Any = unary if function.nin == 1 else binary
    kernel.nin, kernel.nout, kernel.function = function.nin, 1, function
    return kernel


class _Kind(ctypes.Structure):
    """The loop that several calls of a list have in common."""

    _fields_ = (("loop", ctypes.c_void_p), ("data", ctypes.c_void_p), ("count", ctypes.c_int64),
                ("steps", ctypes.c_int64 * 3))  # fmt: skip


class CallList:
    """A list of universal function calls on parts of one memory block, which the library makes in sequence.

    Parameters
    ----------
    library : CDLL
        The library.

    Examples
    --------
    >>> from gradcore.backends.registry import CPU
    >>> library = getattr(CPU.backend, "library", None)
    >>> if library is not None:
    ...     calls, memory = CallList(library), np.array([3, 5, 0], np.float32)
    ...     calls.append(np.multiply, memory.dtype, 1, (0, 4, 8), (False,) * 3)
    ...     calls(memory)
    ...     assert memory[2] == 15
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        self._kinds: dict[Any, int] = {}
        self._steps: list[tuple[int, ...]] = []
        self._table: Any = None
        self._run = builtin(library, "gradcore_run_list")

    @staticmethod
    def takes(function: Any, dtype: Any) -> bool:
        """Return whether a function has a loop for operands of a dtype."""
        if not isinstance(function, np.ufunc) or function.signature is not None or function.nin > 2:
            return False
        return function.nout == 1 and dtype.char * function.nin in _inner_loops(function)

    def append(self, function: np.ufunc, dtype: Any, count: int, offsets: Any, repeated: Any) -> None:
        """Add a call.

        Parameters
        ----------
        function : ufunc
            A function of one or two operands, whose result also has the dtype `dtype`.
        dtype : dtype
        count : int
            The number of elements.
        offsets : sequence of int
            Where operands, and then the result, begin, in bytes.
        repeated : sequence of bool
            Which operands are a single element.
        """
        key = function, dtype, count, repeated
        kind = self._kinds.setdefault(key, len(self._kinds))
        self._steps.append((kind, *offsets, *[0] * (3 - len(offsets))))
        self._table = None

    def __call__(self, memory: AnyArray) -> None:
        """Make all calls on the memory of an array."""
        if self._table is None:
            self._table = self._build_tables()
        self._run(*self._addresses, len(self._steps), memory)

    def _build_tables(self) -> tuple[Any, Any]:
        """Return the C structures of the loops, and the steps of all calls as an array; store their addresses."""
        kinds = (_Kind * len(self._kinds))()
        for kind, (function, dtype, count, repeated) in zip(kinds, self._kinds, strict=True):
            loop = _inner_loops(function)[dtype.char * function.nin].call
            kind.loop, kind.data, kind.count = loop.loop, loop.parameters, count
            for i, each in enumerate(repeated):
                kind.steps[i] = 0 if each else dtype.itemsize
        steps = np.array(self._steps, np.int32)
        self._addresses = ctypes.addressof(kinds), steps.ctypes.data
        return kinds, steps
