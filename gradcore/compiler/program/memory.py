"""Buffer plan: reuse buffers for a program's large intermediate values.

A value occupies a buffer from the call that computes it to the last call that reads it or a view of it. Outputs of
the program are never in buffers. Each run takes its own set of buffers, so threads and nested calls do not share
them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gradcore.backends.portable.elementwise import RENAMED
from gradcore.compiler.program.effects import Effects
from gradcore.compiler.program.program import ArrayType, Call, Program, Value, last_uses
from gradcore.core.operators import BASIC, OPERATORS

__all__ = ["NO_PLAN", "Buffers", "MemoryPlan", "memory_plan", "peak_of", "ufunc_of"]

#: Smallest size in bytes of values that are assigned to buffers.
_LARGE = 1 << 16
#: The largest number of sets of buffers that a program keeps between runs.
_MOST_SETS = 2


class MemoryPlan(NamedTuple):
    """The buffer plan of a program.

    Attributes
    ----------
    buffers : list of int
        The size of each buffer in bytes.
    chosen : dict
        The buffer of each value, by value number.
    types : dict
        The `ArrayType` of each of these values.
    lifetimes : dict
        The positions of the first and the last call that use each value.
    """

    buffers: list[int]
    chosen: dict[int, int]
    types: dict[int, ArrayType]
    lifetimes: dict[int, tuple[int, int]]

    def __str__(self) -> str:
        if not self.chosen:
            return "no value has a buffer"
        value_bytes = sum(self.types[n].nbytes for n in self.chosen)
        lines = [f"{len(self.buffers)} buffers of {sum(self.buffers):,} bytes for values of {value_bytes:,} bytes"]
        for n, buffer in self.chosen.items():
            first, last = self.lifetimes[n]
            lines.append(f"v{n}: {self.types[n]} in buffer {buffer}, from call {first} to {last}")
        return "\n".join(lines)


#: The plan of a program without planned buffers.
NO_PLAN = MemoryPlan([], {}, {}, {})


def memory_plan(program: Program) -> MemoryPlan:
    """Return the buffer plan of a program's large private values."""
    large = {n for n, kind in program.types.items() if kind.nbytes >= _LARGE}
    if program.symbols or not large:
        return NO_PLAN
    effects = Effects(program)
    last_use = last_uses(program.calls, effects.memory)
    plan = MemoryPlan([], {}, {}, {})
    for position, call in enumerate(program.calls):
        if large.isdisjoint(call.outputs):
            continue
        for n in _destinations(call, program):
            kind = program.types[n]
            if effects.memory(n) != n or n in effects.escaping or n not in large or n in plan.chosen:
                continue
            free_buffers = [i for i in range(len(plan.buffers)) if _is_free(i, position, plan, call, kind)]
            buffer = min(
                (i for i in free_buffers if plan.buffers[i] >= kind.nbytes), key=plan.buffers.__getitem__, default=None
            )
            if buffer is None and free_buffers:
                buffer = max(free_buffers, key=plan.buffers.__getitem__)
                plan.buffers[buffer] = kind.nbytes
            elif buffer is None:
                buffer = len(plan.buffers)
                plan.buffers.append(kind.nbytes)
            plan.chosen[n], plan.types[n], plan.lifetimes[n] = buffer, kind, (position, last_use[n])
    return plan


def peak_of(program: Program) -> int:
    """Return the peak bytes of large live values over a run of the program."""
    effects, types = Effects(program), program.types
    last_use = last_uses(program.calls, effects.memory)
    ending_sizes: dict[int, list[int]] = {}
    alive = peak = 0
    live: set[int] = set()
    for position, call in enumerate(program.calls):
        new = {n for n in call.outputs if n in types and effects.memory(n) == n and types[n].nbytes >= _LARGE} - live
        live |= new
        for n in new - effects.escaping:
            ending_sizes.setdefault(last_use[n], []).append(types[n].nbytes)
        alive += sum(types[n].nbytes for n in new)
        peak = max(peak, alive)
        alive -= sum(ending_sizes.get(position, ()))
    return peak


def _destinations(call: Call, program: Program) -> list[int]:
    """Return the result numbers that a call can write into arrays passed as ``out``."""
    if call.name == "fused":
        return list(call.outputs)
    if type(call.results) is not Value or ufunc_of(call) is None or call.results.number not in program.types:
        return []
    return [call.results.number] if program.types[call.results.number].is_dense else []


def ufunc_of(call: Call) -> Any:
    """Return a function for the call that accepts an ``out`` array as its last argument, or None."""
    kind, _, name = call.name.partition(".")
    function = _OPERATORS.get(name) if kind == "operator" else call.function
    inputs, outputs = getattr(function, "nin", 1), getattr(function, "nout", 0)
    if call.named or outputs != 1 or inputs != len(call.args) or (kind != "operator" and name not in RENAMED):
        return None
    return function


_OPERATORS = {name: OPERATORS[name].ufunc for name in (*BASIC, "neg")}


def _is_free(buffer: int, position: int, plan: MemoryPlan, call: Call, known: ArrayType) -> bool:
    """Return whether a call may write to a buffer: its value is dead, or the call reads it elementwise."""
    for n, value_buffer in plan.chosen.items():
        _, end = plan.lifetimes[n]
        if value_buffer == buffer and end >= position:
            is_own_argument = Value(n) in call.args and plan.types[n][:3] == known[:3]
            if end > position or not is_own_argument or call.name == "fused":
                return False
    return True


class Buffers:
    """Pool of the arrays of a buffer plan: each run takes one set of arrays.

    Parameters
    ----------
    plan : MemoryPlan
    """

    def __init__(self, plan: MemoryPlan) -> None:
        self.plan = plan
        self._free: list[tuple[Any, ...]] = []

    def take(self) -> tuple[Any, ...]:
        """Return a set of arrays that no other run uses."""
        try:
            return self._free.pop()
        except IndexError:
            buffers = [np.empty(size, np.uint8) for size in self.plan.buffers]
            types = self.plan.types
            return tuple([np.ndarray(types[n].shape, types[n].dtype, buffers[i]) for n, i in self.plan.chosen.items()])

    def give(self, arrays: tuple[Any, ...]) -> None:
        """Put a set of arrays back into the pool."""
        if len(self._free) < _MOST_SETS:
            self._free.append(arrays)
