"""From an elementwise formula to steps: the functions of NumPy that it calls, with places for their results."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from gradcore.backends.codegen.cells import held
from gradcore.backends.codegen.expressions import Unfusable, Value
from gradcore.backends.codegen.tracer import Tracer
from gradcore.backends.numpy import bits
from gradcore.backends.numpy.tiles import Program
from gradcore.backends.portable import approximations
from gradcore.tracebacks import generated_file

__all__ = ["Unfusable", "program_of"]

#: Dtypes of results.
_FLOATS = np.dtype("f4"), np.dtype("f8")


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


def program_of(formula: Callable[..., Any], operands: tuple[Any, ...], bodies: dict[str, Any]) -> Program:
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
    text = "\n".join([f"def tile({', '.join(parameters)}):", *lines])
    exec(compile(text, generated_file(__name__, text), "exec"), known)
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
