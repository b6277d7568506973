"""Elementwise formulas of several steps on large arrays: traced, then computed tile by tile in memory that stays in cache.

A formula that is called with arrays goes through memory once for every step. Here it is traced once for given dtypes and
settings, by what traces formulas for generated CUDA kernels; the steps, each with NumPy's function that the formula
would have called, then run on one tile of the arrays after the other, the last step writing into the result. So
results are the same as those of the formula itself, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gradcore.backends import threads
from gradcore.backends.fusion.expressions import Unfusable, Value
from gradcore.backends.fusion.tracer import Tracer

__all__ = ["LEAST", "Program", "compute", "trace"]

#: Elements from which a formula is computed in tiles, and the bytes of a tile of one array.
LEAST, TILE = 1 << 15, 1 << 17

#: Elements times steps from which threads take part: handing work to one takes about 50 microseconds.
LEAST_FOR_THREADS = 1 << 22

#: The same function on integers of the size of a number, for selection.
BITS = {np.dtype("f4"): np.dtype("i4"), np.dtype("f8"): np.dtype("i8")}
_BOOL = np.dtype(bool)


# -- steps ----------------------------------------------------------------------------------------------------------


def select(condition: Any, x: Any, y: Any, out: Any) -> None:
    """``where(condition, x, y)`` by integer arithmetic on the bits: exact for NaN and infinities, without a branch.

    `out` may be none of the others.
    """
    bits = BITS[out.dtype]
    chosen, a, b = out.view(bits), np.asarray(x, out.dtype).view(bits), np.asarray(y, out.dtype).view(bits)
    if not (b.ndim or b):
        np.multiply(a, condition, chosen)
    elif not (a.ndim or a):
        np.multiply(b, ~condition, chosen)
    else:
        np.bitwise_xor(a, b, chosen)
        np.multiply(chosen, condition, chosen)
        np.bitwise_xor(chosen, b, chosen)


def _convert(x: Any, out: Any) -> None:
    np.copyto(out, x, casting="unsafe")


class Step(NamedTuple):
    """One function of NumPy: where its operands are, and where its result goes."""

    function: Callable[..., Any]
    operands: tuple[int, ...]
    result: int


class Program(NamedTuple):
    """A formula as steps on places: first the operands of the formula, then constants, scratch arrays, the result."""

    constants: tuple[Any, ...]
    scratch: tuple[np.dtype[Any], ...]
    result: np.dtype[Any]
    steps: tuple[Step, ...]

    def run(self, operands: list[Any], result: Any) -> None:
        """Compute all tiles of 1-d operands (or 0-d ones) of the size of `result`."""
        size = len(result)
        count = -(-size // (TILE // result.itemsize))
        most = -(-size // count)

        def some(start: int, stop: int) -> None:
            scratch = [np.empty(most, dtype) for dtype in self.scratch]
            for i in range(start, stop):
                first, last = size * i // count, size * (i + 1) // count
                part, short = slice(first, last), slice(0, last - first)
                places = [a[part] if a.ndim else a for a in operands]
                places += self.constants
                places += [a[short] for a in scratch]
                places.append(result[part])
                for function, numbers, place in self.steps:
                    function(*[places[number] for number in numbers], out=places[place])

        if size * len(self.steps) < LEAST_FOR_THREADS:
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

    def power(self, x: Any, exponent: Any, value: Any) -> Any:
        raise Unfusable("powers of negative numbers have a kernel of their own")

    def copysign(self, x: Any, y: Any) -> Any:
        raise Unfusable("so do signs")


def _function(value: Value) -> Callable[..., Any]:
    """What computes a value: a function with `out`."""
    name = value.function
    if name == "where" and value.dtype in BITS:
        return select
    if name == "cast":
        return _convert
    found = np.clip if name == "clip" else getattr(np, name, None)
    if not (isinstance(found, np.ufunc) or found is np.clip):
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
    arrays = [i for i, operand in enumerate(operands) if isinstance(operand, np.ndarray)]
    values = [F.trace.input(arrays.index(i), o.dtype) if i in arrays else o for i, o in enumerate(operands)]
    return _arranged(formula(F, *values), len(arrays))


def _arranged(result: Value, inputs: int) -> Program:
    """Put the values that a result is made of in order, and each into a place that is free by then."""
    order = _in_order(result)
    if not order or result.dtype not in BITS:
        raise Unfusable("there is nothing to compute")
    uses = {id(value): step for step, value in enumerate(order) for value in value.operands}
    places: dict[int, tuple[str, int]] = {}
    constants: list[Any] = []
    scratch: list[np.dtype[Any]] = []
    free: list[int] = []
    steps = []
    for number, value in enumerate(order):
        given = []
        for operand in value.operands:
            if operand.function == "input":
                places[id(operand)] = "input", operand.operands[0]
            elif operand.function == "number" and id(operand) not in places:
                places[id(operand)] = "constant", len(constants)
                constants.append(np.asarray(operand.operands[0], operand.dtype))
            given.append(places[id(operand)])
        done = {places[id(o)][1] for o in value.operands if uses[id(o)] == number and places[id(o)][0] == "scratch"}
        if value.function != "where":  # which may not write into what it reads
            free += sorted(done)
        if value is result:
            place = "result", 0
        else:
            fitting = [slot for slot in free if scratch[slot] == value.dtype]
            if fitting:
                free.remove(fitting[-1])
            else:
                scratch.append(value.dtype)
            place = "scratch", fitting[-1] if fitting else len(scratch) - 1
        if value.function == "where":
            free += sorted(done)
        places[id(value)] = place
        steps.append((_function(value), given, place))
    starts = {"input": 0, "constant": inputs, "scratch": inputs + len(constants)}
    starts["result"] = starts["scratch"] + len(scratch)
    numbered = tuple(
        Step(function, tuple(starts[kind] + i for kind, i in given), starts[place[0]] + place[1])
        for function, given, place in steps
    )
    return Program(tuple(constants), tuple(scratch), result.dtype, numbered)


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


def compute(formula: Callable[..., Any], F: Any, operands: tuple[Any, ...]) -> Any:
    """``formula(F, *operands)`` for a large first operand, in tiles where that is possible and worth it."""
    kinds = tuple([o.dtype if isinstance(o, np.ndarray) else (type(o), o) for o in operands])
    key = formula, kinds
    try:
        program = _programs[key]
    except KeyError:
        program = _programs[key] = _program(formula, F, operands)
    if program is None:
        return formula(F, *operands)
    arrays = [o for o in operands if isinstance(o, np.ndarray)]
    shape = arrays[0].shape
    for order in "CF":
        flat = [_flat(a, shape, order) for a in arrays]
        if all(a is not None for a in flat):
            result = np.empty(shape, program.result, order)
            program.run(flat, result.ravel(order))
            return result
    return formula(F, *operands)


def _program(formula: Callable[..., Any], F: Any, operands: tuple[Any, ...]) -> Program | None:
    if len(_programs) >= 10_000:  # formulas made anew at each call, or ever new settings
        _programs.clear()
    if any(isinstance(o, np.ndarray) and o.dtype not in BITS and o.dtype != _BOOL for o in operands):
        return None
    try:
        program = trace(formula, operands, F.bodies)
    except Unfusable:
        return None
    return program if len(program.steps) > 1 else None


def _flat(a: Any, shape: tuple[int, ...], order: str) -> Any:
    """A view in one dim, in that order of the elements, or of a single one; None if there is none."""
    if a.size == 1 and len(shape) >= a.ndim:
        return a.reshape(())
    if a.shape != shape:
        return None
    if a.flags.c_contiguous if order == "C" else a.flags.f_contiguous:
        return a.ravel(order)
    return a.reshape(-1) if not any(a.strides) else None
