"""Memory plan: large intermediate values of a program share one arena, which is used again by each run.

A value occupies its bytes from the call that computes it to the last call that reads it or a view of it. Outputs of
the program are never in the arena.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from gradcore.backends.portable.elementwise import RENAMED
from gradcore.compiler.program.arena import arrange, empty_block
from gradcore.compiler.program.effects import Effects
from gradcore.compiler.program.program import ArrayType, Call, Program, Value, last_uses
from gradcore.core.operators import BASIC, OPERATORS
from gradcore.core.typing import AnyArray

__all__ = ["MemoryPlan", "memory_plan", "peak_of", "ufunc_of"]

#: Smallest size in bytes of values in the arena.
_LARGE = 1 << 16


class MemoryPlan(NamedTuple):
    """The memory plan of a program.

    Attributes
    ----------
    size : int
        The size of the arena in bytes.
    offsets : dict
        The distance in bytes from the start of the arena to each value, by value number.
    types : dict
        The `ArrayType` of each of these values.
    lifetimes : dict
        The positions of the first and the last call that use each value.
    """

    size: int
    offsets: dict[int, int]
    types: dict[int, ArrayType]
    lifetimes: dict[int, tuple[int, int]]

    def __str__(self) -> str:
        if not self.offsets:
            return "no value is in the arena"
        value_bytes = sum(known.nbytes for known in self.types.values())
        lines = [f"an arena of {self.size:,} bytes for values of {value_bytes:,} bytes"]
        for n, offset in self.offsets.items():
            first, last = self.lifetimes[n]
            lines.append(f"v{n}: {self.types[n]} at byte {offset:,}, from call {first} to {last}")
        return "\n".join(lines)

    def allocate(self) -> tuple[AnyArray, ...]:
        """Return arrays for the values, in a new arena."""
        block = empty_block(self.size)
        return tuple([np.ndarray(self.types[n].shape, self.types[n].dtype, block, i) for n, i in self.offsets.items()])


def memory_plan(program: Program) -> MemoryPlan:
    """Return the memory plan of a program's large private values; programs of a device allocate all values."""
    types, outputs = program.types, [n for call in program.calls for n in call.outputs if n in program.types]
    if program.symbols or program.backend or all(types[n].nbytes < _LARGE for n in outputs):
        return MemoryPlan(0, {}, {}, {})
    effects = Effects(program)
    alive = _find_lifetimes(program, effects)
    lifetimes: dict[int, tuple[int, int]] = {}
    pairs: list[tuple[int, int]] = []
    for call in program.calls:
        for n in {*_destinations(call, program)} & alive.keys() - effects.escaping:
            lifetimes[n] = alive[n]
            if call.name != "fused":
                pairs += [(old, n) for old in _replaceable(call, n, effects)]
    size, slots = arrange(lifetimes, lambda n: types[n].nbytes, pairs)
    return MemoryPlan(size, {n: slots[n][1] for n in lifetimes}, {n: types[n] for n in lifetimes}, lifetimes)


def peak_of(program: Program) -> int:
    """Return the peak bytes of large live values over a run of the program."""
    changes = Counter[int]()
    for n, (first, last) in _find_lifetimes(program, Effects(program)).items():
        changes[first] += program.types[n].nbytes
        changes[last + 1] -= program.types[n].nbytes
    return max(itertools.accumulate(changes[position] for position in sorted(changes)), default=0)


def _find_lifetimes(program: Program, effects: Effects) -> dict[int, tuple[int, int]]:
    """Return the positions of the first and the last call that use each large value with memory of its own."""
    types, last_use = program.types, last_uses(program.calls, effects.memory)
    last_use.update(dict.fromkeys(effects.escaping, len(program.calls)))
    lifetimes: dict[int, tuple[int, int]] = {}
    for position, call in enumerate(program.calls):
        for n in call.outputs:
            if n in types and types[n].nbytes >= _LARGE and effects.memory(n) == n:
                lifetimes.setdefault(n, (position, last_use[n]))
    return lifetimes


def _replaceable(call: Call, result: int, effects: Effects) -> list[int]:
    """Return the arguments that a call may write its result over, as it reads their elements in the same order."""
    types, memories = effects.program.types, [*map(effects.memory, call.read)]
    layout = types[result][:3]
    return [n for n in call.read if n in types and types[n][:3] == layout and memories.count(effects.memory(n)) == 1]


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
