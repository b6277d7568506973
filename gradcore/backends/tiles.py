"""Elementwise formulas of several steps on large arrays: traced, then computed in tiles that stay in cache.

A formula that is called with arrays goes through memory once for every step, and allocates what it writes. Here it is
traced once for given dtypes and settings, as for a generated CUDA kernel. The steps, each the function of NumPy that
the formula would have called, become a straight-line function with places for all results, which then runs on one tile
of the arrays after the other. The results are those of the formula itself, bit for bit.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gradcore.backends import approximations, bits, threads
from gradcore.backends.fusion.cells import held
from gradcore.backends.fusion.expressions import Unfusable, Value
from gradcore.backends.fusion.tracer import Tracer

__all__ = ["Program", "compute", "trace"]

#: The bytes of a tile of one array.
TILE = 1 << 18

#: Steps times elements from which threads take part, which costs about 50 microseconds; from how many steps a program
#: is faster in one tile; from how many bytes all of them are, as their arrays are in no cache.
LEAST_FOR_THREADS, MANY_STEPS, NO_CACHE = 1 << 22, 7, 1 << 24

#: Dtypes of results, and of all operands.
_FLOATS = np.dtype("f4"), np.dtype("f8")
_DTYPES = (*_FLOATS, np.dtype(bool))


class Program(NamedTuple):
    """A formula as steps of NumPy.

    Attributes
    ----------
    steps : int
        How many functions are called.
    scratch : tuple of dtype
        What is kept between steps, in arrays of the size of a tile.
    result : dtype
        The dtype of the result.
    tile : callable
        ``(*operands, *scratch, result)``: calls the functions for one tile.
    """

    steps: int
    scratch: tuple[np.dtype[Any], ...]
    result: np.dtype[Any]
    tile: Callable[..., None]

    def pays(self, size: int) -> bool:
        """Whether the program is faster than the formula for arrays of that size."""
        if size * self.steps >= LEAST_FOR_THREADS and threads.get_num_threads() > 1:
            return True
        return self.steps >= (MANY_STEPS if size * self.result.itemsize < NO_CACHE else 3)

    def run(self, operands: list[Any], result: Any) -> None:
        """Compute `result`, in one dim, from operands of the same size or of a single element."""
        size = len(result)
        count = -(-size * result.itemsize // TILE)
        most = -(-size // count)

        def some(start: int, stop: int) -> None:
            scratch = [np.empty(most, dtype) for dtype in self.scratch]
            for i in range(start, stop):
                first, last = size * i // count, size * (i + 1) // count
                room = scratch if last - first == most else [a[: last - first] for a in scratch]
                self.tile(*[a[first:last] if a.ndim else a for a in operands], *room, result[first:last])

        if count == 1:
            self.tile(*operands, *[np.empty(size, dtype) for dtype in self.scratch], result)
        elif size * self.steps < LEAST_FOR_THREADS:
            some(0, count)
        else:
            threads.spread(some, count)


# -- from a formula to a program ------------------------------------------------------------------------------------


class _Tracer(Tracer):
    """Kernels as the CPU has them."""

    def clamp(self, x: Any, low: Any = None, high: Any = None) -> Any:
        if isinstance(low, Value) or isinstance(high, Value):
            return super().clamp(x, low, high)
        low, high = -np.inf if low is None else low, np.inf if high is None else high
        return self.trace.call_in("clip", x.dtype, x.dtype, x, low, high)

    def relu(self, x: Any) -> Any:
        return self.clamp(x, 0)

    def reciprocal(self, x: Any) -> Any:
        return 1 / x

    def __getattr__(self, name: str) -> Any:
        if name not in approximations.DTYPES:
            return super().__getattr__(name)
        return functools.partial(self._approximated, getattr(approximations, name), approximations.DTYPES[name])

    def _approximated(self, formula: Any, dtypes: str, x: Value) -> Any:
        if x.dtype.char not in dtypes:
            raise Unfusable("SciPy's function")
        return formula(self, x)

    def power(self, x: Any, exponent: Any, value: Any) -> Any:
        raise Unfusable("powers have a kernel of their own")

    def copysign(self, x: Any, y: Any) -> Any:
        raise Unfusable("so do signs")


def _clip(x: Any, low: Any, high: Any, out: Any) -> None:
    np.clip(x, low, high, out)


def _convert(x: Any, out: Any) -> None:
    np.copyto(out, x, casting="unsafe")


def _function(value: Value) -> Callable[..., Any]:
    """What computes a value: ``(*operands, out=...)``."""
    name = value.function
    if name == "clip":
        return _clip
    if name == "cast":
        return _convert
    if name == "where" and value.dtype in _FLOATS:
        return bits.select
    found = getattr(np, name, None)
    if not isinstance(found, np.ufunc):
        raise Unfusable(f"there is no {name} on the CPU")
    return found


def trace(formula: Callable[..., Any], operands: tuple[Any, ...], bodies: dict[str, Any]) -> Program:
    """The program of a formula ``(F, *operands)``, with arrays for examples.

    Raises
    ------
    Unfusable
        If the formula is not an expression of one element's values.
    """
    F = _Tracer(bodies)
    inputs = 0
    values = []
    for operand in operands:
        is_array = isinstance(operand, np.ndarray)
        values.append(F.trace.input(inputs, operand.dtype) if is_array else operand)
        inputs += is_array
    result = held(formula(F, *values))
    if not isinstance(result, Value):
        raise Unfusable("the formula gives a number")
    return _arranged(result, inputs)


def _arranged(result: Value, inputs: int) -> Program:
    """Put the values that a result is made of in order, each into a place that is free by then."""
    order = _in_order(result)
    if not order or result.dtype not in _FLOATS:
        raise Unfusable("there is nothing to compute")
    last_use = {id(operand): value for value in order for operand in value.operands}
    names: dict[int, str] = {}
    known: dict[str, Any] = {}
    scratch: list[np.dtype[Any]] = []
    free: list[int] = []
    lines = []
    for number, value in enumerate(order):
        for operand in value.operands:
            if operand.function == "input":
                names[id(operand)] = f"o{operand.operands[0]}"
            elif operand.function == "number":
                name = names[id(operand)] = f"c{len(known)}"
                known[name] = np.asarray(operand.operands[0], operand.dtype)
        given = [names[id(operand)] for operand in value.operands]
        done = {int(names[id(o)][1:]) for o in value.operands if last_use[id(o)] is value and names[id(o)][0] == "s"}
        kept = done if value.function == "where" else set()  # a selection may not write into what it reads
        free += sorted(done - kept)
        place = "result" if value is result else f"s{_take(free, scratch, value.dtype)}"
        free += sorted(kept)
        names[id(value)] = place
        known[f"f{number}"] = _function(value)
        lines.append(f"    f{number}({', '.join(given)}, out={place})")
    parameters = [*(f"o{i}" for i in range(inputs)), *(f"s{i}" for i in range(len(scratch))), "result"]
    exec("\n".join([f"def tile({', '.join(parameters)}):", *lines]), known)
    return Program(len(order), tuple(scratch), result.dtype, known["tile"])


def _take(free: list[int], scratch: list[np.dtype[Any]], dtype: np.dtype[Any]) -> int:
    """The number of a free scratch array of that dtype, the last one that was used: or of a new one."""
    for slot in reversed(free):
        if scratch[slot] == dtype:
            free.remove(slot)
            return slot
    scratch.append(dtype)
    return len(scratch) - 1


def _in_order(result: Value) -> list[Value]:
    """The values that have to be computed, each after its operands."""
    order: list[Value] = []
    seen: set[int] = set()

    def visit(value: Value) -> None:
        if value.function in ("input", "number") or id(value) in seen:
            return
        seen.add(id(value))
        for operand in value.operands:
            visit(operand)
        order.append(value)

    visit(result)
    return order


# -- calls ----------------------------------------------------------------------------------------------------------

_programs: dict[Any, Program | None] = {}

#: Formulas that are remembered, over all dtypes and settings.
_MOST_PROGRAMS = 10_000


def compute(formula: Callable[..., Any], F: Any, operands: tuple[Any, ...]) -> Any:
    """``formula(F, *operands)``, the first operand being the largest: by a program where there is one and it pays."""
    key = formula, *[o.dtype if isinstance(o, np.ndarray) else (o.__class__, o) for o in operands]
    try:
        program = _programs[key]
    except KeyError:
        program = _programs[key] = _program(formula, F, operands)
    if program is None or not program.pays(operands[0].size):
        return formula(F, *operands)
    shape = operands[0].shape
    order: Any
    for order in "CF":
        flat = [_flat(o, shape, order) for o in operands if isinstance(o, np.ndarray)]
        if all(a is not None for a in flat):
            result = np.empty(shape, program.result, order)
            program.run(flat, result.ravel(order))
            return result
    return formula(F, *operands)


def _program(formula: Callable[..., Any], F: Any, operands: tuple[Any, ...]) -> Program | None:
    if len(_programs) >= _MOST_PROGRAMS:  # formulas or settings that are made anew for each call
        _programs.clear()
    if any(isinstance(o, np.ndarray) and o.dtype not in _DTYPES for o in operands):
        return None
    try:
        return trace(formula, operands, F.bodies)
    except Unfusable:
        return None


def _flat(a: Any, shape: tuple[int, ...], order: Any) -> Any:
    """A view of an array in one dim, in that order of the elements, or of a single element; None if there is none."""
    if a.shape != shape:
        return a.reshape(()) if a.size == 1 and a.ndim <= len(shape) else None
    if a.flags.c_contiguous if order == "C" else a.flags.f_contiguous:
        return a.ravel(order)
    return None if any(a.strides) else a.reshape(-1)
