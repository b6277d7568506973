"""Call lists: runs of exact calls on small arrays become one call of the compiled library.

The library calls the inner loops of NumPy's own functions, so results are bitwise equal.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcore.backends.codegen.expr import NotFusible
from gradcore.backends.compiled.ufuncs import CallList
from gradcore.backends.registry import CPU
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
#: Alignment in bytes of arrays, and of numbers.
_LINE, _WORD = 64, 8
#: The largest number of memory blocks kept between runs.
_MOST_SETS = 2


def list_calls(program: Program) -> Program:
    """Replace runs of exact calls on small arrays by one call each, if the compiled library is available."""
    if getattr(CPU.backend, "library", None) is None or program.backend is not None or program.symbols:
        return program
    return _Listing(program, [], waits=False).run()


class _Listing(Grouping):
    """The pass of `list_calls` over one program."""

    name, explains = "listed", False

    def key(self, call: Call) -> bool | None:
        """Return True for exact calls, which can all be in one list, and None for other calls."""
        return _is_exact(call, self.program) or None

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


class ListedCalls(FusedCalls):
    """A run of exact calls that the compiled library makes, as one function of the arrays that it reads."""

    def __init__(self, calls: list[Call], inputs: list[int], outputs: list[int], program: Program) -> None:
        self.calls, self.inputs, self.outputs, self.types = calls, inputs, outputs, program.types
        saved = sum(_ARRAY if program.types[call.results.number].shape else _NUMBER for call in calls)
        copied_bytes = [program.types[n].nbytes for n in (*inputs, *outputs)]
        if saved <= _WHOLE + _MOVED * len(copied_bytes) + sum(copied_bytes) // _BYTES:
            raise NotFusible("the calls are as fast by themselves")
        self._free: list[Any] = []
        self._list, self._memory = CallList(CPU.backend.library), _Memory(program)
        self._place()
        if self._memory.size > _MOST_BYTES:
            raise NotFusible("the arrays are large")

    def _place(self) -> None:
        """Assign an offset in the memory to each value."""
        memory, types = self._memory, self.types
        last_use = last_uses(self.calls)
        permanent = {*self.inputs, *self.outputs}
        for n in self.inputs:
            memory.take(n)
        for i, call in enumerate(self.calls):
            n = call.results.number
            result = types[n]
            offsets = [memory.constant(each, result) if type(each) is not Value else memory.places[each.number]
                       for each in call.args]  # fmt: skip
            repeated = [result.size > 1 and memory.is_number(each) for each in call.args]
            for each in {*call.read} - permanent:
                if last_use[each] == i:
                    memory.give(each)
            memory.take(n)
            if last_use[n] == i and n not in permanent:
                memory.give(n)
            places = (*offsets, memory.places[n])
            self._list.append(ufunc_of(call), result.dtype, result.size, places, (*repeated, False))

    @property
    def summary(self) -> str:
        """Description of the size, for `explain`."""
        return f"{len(self.calls)} calls by the library, in {self._memory.size:,} bytes"

    @property
    def label(self) -> str:
        return f"listed {len(self.calls)} calls"

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        try:
            block = self._free.pop()  # No other thread has this block.
        except IndexError:
            block = self._memory.allocate(self.inputs, self.outputs)
        address, inputs, outputs, _ = block
        for place, array in zip(inputs, arrays, strict=True):
            place[...] = array
        self.call_in_profile(self._list, address)
        results = tuple([place.copy() if place.ndim else place[()] for place in outputs])
        if len(self._free) < _MOST_SETS:
            self._free.append(block)
        return results


class _Memory:
    """Allocator of values, constants and inputs in one block of memory."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.size = 0
        self.places: dict[int, int] = {}
        self._free: dict[int, list[int]] = {}
        self._constants: dict[Any, tuple[int, Any]] = {}

    def take(self, n: int) -> None:
        """Allocate memory for a value."""
        array_type = self.program.types[n]
        size = _round_up(array_type)
        free = self._free.get(size)
        self.places[n] = free.pop() if free else self._new(size)

    def give(self, n: int) -> None:
        """Mark the memory of a value as free, so that later values can use it."""
        self._free.setdefault(_round_up(self.program.types[n]), []).append(self.places[n])

    def _new(self, size: int) -> int:
        start = self.size if size == _WORD else -(-self.size // _LINE) * _LINE
        self.size = start + size
        return start

    def is_number(self, leaf: Any) -> bool:
        """Return whether an argument is a number, or a literal of one repeated number."""
        array_type = self.program.type_of(leaf)
        return array_type is None or not array_type.shape or (type(leaf) is Literal and not any(array_type.strides))

    def constant(self, leaf: Any, result: Any) -> int:
        """Return the offset of a number or literal."""
        key = (leaf, result.dtype) if type(leaf) is Literal else (repr(leaf), result.dtype)
        if key not in self._constants:
            array = self.program.literals[leaf.number] if type(leaf) is Literal else np.asarray(leaf, result.dtype)
            array = array[(0,) * array.ndim] if self.is_number(leaf) else array
            self._constants[key] = self._new(max(_WORD, -(-array.nbytes // _LINE) * _LINE * (array.ndim > 0))), array
        return self._constants[key][0]

    def allocate(self, inputs: list[int], outputs: list[int]) -> tuple[int, list[Any], list[Any], Any]:
        """Allocate the block; return its address, the input and output arrays in it, and the object that owns it."""
        block = np.empty(self.size + _LINE, np.uint8)
        start = -block.ctypes.data % _LINE
        for place, array in self._constants.values():
            np.ndarray(array.shape, array.dtype, block, start + place)[...] = array
        types = self.program.types
        views = [[np.ndarray(types[n].shape, types[n].dtype, block, start + self.places[n]) for n in numbers]
                 for numbers in (inputs, outputs)]  # fmt: skip
        return block.ctypes.data + start, views[0], views[1], block


def _round_up(known: Any) -> int:
    """Return the aligned size of a value in bytes."""
    return -(-known.nbytes // _LINE) * _LINE if known.shape else _WORD
