"""Call lists: runs of exact calls on small arrays become one call of the compiled library.

The library calls the inner loops of NumPy's own functions, so results are bitwise equal.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from gradcore.backends.codegen.expr import NotFusible
from gradcore.backends.compiled.ufuncs import CallList
from gradcore.backends.registry import CPU
from gradcore.compiler.program.arena import Pool, arrange, empty_block
from gradcore.compiler.program.memory import ufunc_of
from gradcore.compiler.program.program import Call, Literal, Program, Value, last_uses
from gradcore.compiler.targets.grouping import FusedCalls, Grouping, Leaf

__all__ = ["ListedCalls", "list_calls"]

_FLOATS = np.dtype("f4"), np.dtype("f8")
#: Functions of NumPy whose inner loops all return the exact result, rounded once.
_EXACT = frozenset([np.absolute, np.add, np.divide, np.multiply, np.negative, np.sqrt, np.square, np.subtract])
#: The largest number of elements of one array, and of bytes of all arrays.
_MOST, _MOST_BYTES = 1 << 12, 1 << 20
#: Cost model in nanoseconds: a call on numbers, a call on arrays, the call of the list, each array that is copied in or
#: out, and a few of its bytes.
_NUMBER, _ARRAY, _WHOLE, _MOVED, _BYTES = 25, 350, 1_200, 150, 8
#: The largest integer up to which floats of any dtype are exact.
_INTEGER = 1 << 24


def list_calls(program: Program) -> Program:
    """Replace runs of exact calls on small arrays by one call each, if the compiled library is available."""
    if getattr(CPU.backend, "library", None) is None or program.backend is not None or program.symbols:
        return program
    return _Listing(program, [], waits=False).run()


class _Listing(Grouping):
    """The pass of `list_calls` over one program."""

    name = "listed"

    def key(self, call: Call) -> bool | None:
        """Return True for exact calls, which can all be in one list, and None for other calls."""
        return _is_exact(call, self.program) or None

    def add(self, calls: list[Call]) -> None:
        inputs = {n for call in calls for n in call.read}.difference(*(call.outputs for call in calls))
        if _pays(calls, inputs, self.program):
            super().add(calls)
        else:  # A list would not pay off, whichever results it has.
            self.found.calls += calls

    def fuse(self, calls: list[Call], inputs: list[Leaf], outputs: list[int]) -> tuple[ListedCalls, list[Leaf]]:
        values = [leaf.number for leaf in inputs if type(leaf) is Value]
        return ListedCalls(calls, values, outputs, self.program), [*map(Value, values)]


def _is_exact(call: Call, program: Program) -> bool:
    """Return whether a call is exact arithmetic on numbers, or on small arrays with the same layout."""
    function = ufunc_of(call)
    if function not in _EXACT or type(call.results) is not Value:
        return False
    result = program.types.get(call.results.number)
    if result is None or result.dtype not in _FLOATS or not 0 < result.size <= _MOST:
        return False
    if result.memory != call.results.number or not CallList.takes(function, result.dtype):
        return False
    arrays = 0
    for each in call.args:
        arg_type = program.type_of(each)
        if arg_type is None:
            if not (type(each) is float or (type(each) is int and abs(each) <= _INTEGER)):
                return False
            continue
        arrays += 1
        if arg_type.dtype != result.dtype or arg_type.shape not in ((), result.shape):
            return False
    return arrays > 0


def _pays(calls: list[Call], moved: Collection[int], program: Program) -> bool:
    """Return whether a list is faster than its calls by themselves, if the arrays `moved` are copied in or out."""
    saved = sum(_ARRAY if program.types[call.results.number].shape else _NUMBER for call in calls)
    return saved > _WHOLE + sum(_MOVED + program.types[n].nbytes / _BYTES for n in moved)


class ListedCalls(FusedCalls):
    """A run of exact calls that the compiled library makes, as one function of the arrays that it reads."""

    def __init__(self, calls: list[Call], inputs: list[int], outputs: list[int], program: Program) -> None:
        self.calls, self.inputs, self.outputs, self.types = calls, inputs, outputs, program.types
        if not _pays(calls, [*inputs, *outputs], program):
            raise NotFusible("the calls are as fast by themselves")
        self._list = CallList(CPU.backend.library)
        self._constants: dict[Any, tuple[int, Any]] = {}  # The number of each number or literal, and its array.
        self._arrange(program)
        if self._size > _MOST_BYTES:
            raise NotFusible("the arrays are large")
        self._blocks = Pool(self._allocate)

    def _arrange(self, program: Program) -> None:
        """Arrange values, numbers and literals in one block of memory, and fill the list."""
        types, last_use, end = self.types, last_uses(self.calls), len(self.calls)
        lifetimes = dict.fromkeys(self.inputs, (-1, end))
        pairs: list[tuple[int, int]] = []
        operands = []
        for i, call in enumerate(self.calls):
            n = call.results.number
            lifetimes[n] = i, end if n in self.outputs else last_use[n]
            operands.append([each.number if type(each) is Value else self._constant(each, n, program)
                             for each in call.args])  # fmt: skip
            pairs += [(old, n) for old in call.read]
        arrays = dict(self._constants.values())
        lifetimes |= dict.fromkeys(arrays, (-1, end))
        self._size, slots = arrange(lifetimes, lambda n: (arrays[n] if n in arrays else types[n]).nbytes, pairs)
        self._offsets = {n: offset for n, (_, offset) in slots.items()}
        for call, numbers in zip(self.calls, operands, strict=True):
            result = types[call.results.number]
            repeated = [result.size > 1 and not (arrays[n].shape if n in arrays else types[n].shape) for n in numbers]
            offsets = (*(self._offsets[n] for n in numbers), self._offsets[call.results.number])
            self._list.append(ufunc_of(call), result.dtype, result.size, offsets, (*repeated, False))

    def _constant(self, leaf: Any, result: int, program: Program) -> int:
        """Return a negative number for an argument that is a number or a literal."""
        dtype = self.types[result].dtype
        key = (leaf, dtype) if type(leaf) is Literal else (repr(leaf), dtype)
        if key not in self._constants:
            array = program.literals[leaf.number] if type(leaf) is Literal else np.asarray(leaf, dtype)
            is_number = not any(array.strides)
            self._constants[key] = -1 - len(self._constants), array[(0,) * array.ndim] if is_number else array
        return self._constants[key][0]

    def _allocate(self) -> tuple[Any, list[Any], list[Any]]:
        """Allocate a block; return it, and the input and output arrays in it."""
        block, types, offsets = empty_block(self._size), self.types, self._offsets
        for number, array in self._constants.values():
            np.ndarray(array.shape, array.dtype, block, offsets[number])[...] = array
        views = [[np.ndarray(types[n].shape, types[n].dtype, block, offsets[n]) for n in numbers]
                 for numbers in (self.inputs, self.outputs)]  # fmt: skip
        return block, views[0], views[1]

    @property
    def summary(self) -> str:
        """Description of the size, for `explain`."""
        return f"{len(self.calls)} calls by the library, in {self._size:,} bytes"

    @property
    def label(self) -> str:
        return f"listed {len(self.calls)} calls"

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        taken = self._blocks.take()
        block, inputs, outputs = taken
        for place, array in zip(inputs, arrays, strict=True):
            place[...] = array
        self.call_in_profile(self._list, block)
        results = tuple([place.copy() if place.ndim else place[()] for place in outputs])
        self._blocks.give(taken)
        return results
