"""Fusion on the CPU: elementwise calls on large arrays of one shape become one fused kernel, computed tile by tile.

The formulas of the calls are traced to one kernel (`gradcore.backends.codegen`), which calls the same functions as
they would; with compiled kernels, the calls themselves are made for each tile. Results are bitwise equal.
"""

from __future__ import annotations

import operator
from collections.abc import Collection
from typing import Any

import numpy as np

from gradcore.backends.base import Backend
from gradcore.backends.codegen.emit_numpy import NumpyTracer, emit
from gradcore.backends.codegen.expr import NotFusible
from gradcore.backends.codegen.schedule import Input
from gradcore.backends.codegen.trace import trace
from gradcore.backends.numpy import bits, threads, tiled
from gradcore.backends.numpy.backend import NumpyBackend
from gradcore.backends.portable.elementwise import RENAMED
from gradcore.backends.registry import CPU
from gradcore.compiler.program.effects import is_pure
from gradcore.compiler.program.memory import peak_of, ufunc_of
from gradcore.compiler.program.program import Call, Literal, Program, Value, last_uses, leaves_in, map_leaves, values_in
from gradcore.compiler.targets.grouping import FusedCalls, Grouping, Leaf, call_on_expressions

__all__ = ["FusedKernel", "fuse_calls"]

_DTYPES = np.dtype("f4"), np.dtype("f8"), np.dtype(bool)
_FLOATS = _DTYPES[:2]
#: Elementwise kernels in addition to operations and functions of NumPy.
_FORMULAS = frozenset(["evaluate_tiled", "tanh_backward"])
#: The largest number of inputs, and of calls, of one group.
_MOST_INPUTS, _MOST_CALLS = 24, 200
#: Elements of a tile for compiled kernels, which treat all larger arrays alike; and of a tile for one thread.
_TILE, _SHARED_TILE = 1 << 16, 1 << 18


class FusedKernel(FusedCalls):
    """A fused kernel: a group of elementwise calls as one function of arrays with the same layout."""

    def __init__(self, calls: list[Call], inputs: list[int], outputs: list[int], program: Program) -> None:
        self.calls, self.inputs, self.outputs = calls, inputs, outputs
        self.types = [program.types[n] for n in outputs]
        operands = [(f"x{i}", Input(program.types[n].dtype)) for i, n in enumerate(inputs)]
        literals = program.literals

        def formula(F: Any, *args: Any) -> list[Any]:
            values = dict(zip(inputs, args, strict=True))

            def plain(leaf: Any) -> Any:
                if type(leaf) is Value:
                    return values[leaf.number]
                if type(leaf) is Literal:
                    value = _element(literals[leaf.number])
                    return F.graph.constant(value.item(), value.dtype)
                return leaf

            for call in calls:
                values[call.results.number] = call_on_expressions(call, F, map_leaves(plain, call.args), {})
            return [values[n] for n in outputs]

        self.kernel = trace("group", formula, operands, NumpyTracer(Backend.bodies))
        self.function = emit(self.kernel, bits.select)
        if [dtype for _, dtype in self.kernel.outputs] != [array_type.dtype for array_type in self.types]:
            raise NotFusible("its results would have other dtypes")
        if not tiled.pays(self.function, self.types[0].size):
            text = f"{self.function.calls} passes over {self.types[0].size} elements are as fast by themselves"
            raise NotFusible(text)

    @property
    def summary(self) -> str:
        """Description of the size, for `explain`."""
        return f"{self.function.calls} passes over each tile"

    def __call__(self, *arrays: Any, out: tuple[Any, ...] = ()) -> tuple[Any, ...]:
        outputs = out or [None] * len(self.types)
        results = [np.empty(t.shape, t.dtype) if a is None else a for t, a in zip(self.types, outputs, strict=True)]
        self.call_in_profile(self._run, arrays, [a.reshape(-1) for a in results])
        return tuple(results)

    def _run(self, arrays: tuple[Any, ...], results: list[Any]) -> None:
        flat = [arrays[i].reshape(-1) if any(arrays[i].strides) else _element(arrays[i]) for i in self.function.inputs]
        tiled.run(self.function, flat, *results)


class TiledCalls(FusedKernel):
    """A group whose calls are made one after the other on each tile of the arrays.

    Compiled kernels choose an algorithm by the size of their first operand. Tiles are large enough that the choice is
    the same as for the whole array, so that results are bitwise equal.
    """

    def __init__(self, calls: list[Call], inputs: list[int], outputs: list[int], program: Program) -> None:
        self.calls, self.inputs, self.outputs = calls, inputs, outputs
        self.types = [program.types[n] for n in outputs]
        size, min_calls = self.types[0].size, tiled.SOME_STEPS
        if max(array_type.nbytes for array_type in self.types) < tiled.NO_CACHE:
            min_calls = tiled.MANY_STEPS
        if size < 2 * _TILE or len(calls) < min_calls:
            raise NotFusible(f"{len(calls)} calls on {size} elements are as fast by themselves")
        self.literals: list[Any] = []
        last_use = last_uses(calls)
        self.steps = [self._step(call, i, last_use, program.literals) for i, call in enumerate(calls)]

    def _step(self, call: Call, position: int, last: dict[int, int], literals: list[Any]) -> tuple[Any, ...]:
        """Return a call as function, arguments, result, values that end, output index, and whether it takes ``out``."""
        number, ufunc = call.results.number, ufunc_of(call)
        args: list[tuple[bool, Any]] = []
        for leaf in call.args:
            if type(leaf) is Literal and literals[leaf.number].shape:
                self.literals.append(literals[leaf.number])
                args.append((True, -len(self.literals)))
            elif type(leaf) is Literal:
                args.append((False, literals[leaf.number]))
            elif type(leaf) is Value:
                args.append((True, leaf.number))
            elif values_in(leaf):
                raise NotFusible("arrays are in a list")
            else:
                args.append((False, leaf))
        ending_values = {n for n in call.read if last[n] == position and n not in self.outputs}
        output_index = self.outputs.index(number) if number in self.outputs else None
        takes_out = output_index is not None and ufunc is not None
        return ufunc if takes_out else call.function, args, number, ending_values, output_index, takes_out

    @property
    def summary(self) -> str:
        return f"{len(self.calls)} calls on each tile"

    def _run(self, arrays: tuple[Any, ...], results: list[Any]) -> None:
        """Make the calls tile by tile, and write the outputs to `results`."""
        size = len(results[0])
        count = size // (_TILE if threads.available() == 1 else _SHARED_TILE) or 1
        arrays_by_number = dict(zip(self.inputs, arrays, strict=True))
        arrays_by_number |= {-i: array for i, array in enumerate(self.literals, 1)}
        flat = {n: _flat(array, size) for n, array in arrays_by_number.items()}
        for i in range(count):
            first, stop = size * i // count, size * (i + 1) // count
            values = {n: a[first:stop] if a.ndim else a for n, a in flat.items()}
            for function, args, number, ending_values, output_index, is_written in self.steps:
                operands = [values[leaf] if is_value else leaf for is_value, leaf in args]
                if output_index is None:
                    values[number] = function(*operands)
                elif is_written:
                    values[number] = function(*operands, results[output_index][first:stop])
                else:
                    values[number] = results[output_index][first:stop]
                    values[number][...] = function(*operands)
                for n in ending_values:
                    del values[n]


def _flat(array: Any, size: int) -> Any:
    """Return a flat view of an array; 0-dim arrays are returned unchanged."""
    if not array.ndim or any(array.strides):
        return array.reshape(-1) if array.ndim else array
    return np.broadcast_to(_element(array), (size,))


def _element(array: Any) -> Any:
    """Return the single distinct element of a one-element or stride-0 array."""
    return array[(0,) * array.ndim]


def fuse_calls(program: Program, refused: list[str] | None = None) -> Program:
    """Fuse groups of elementwise calls on large arrays into one call each.

    Parameters
    ----------
    program : Program
    refused : list of str, optional
        Receives why calls on large arrays are not part of a group.
    """
    is_plain = CPU.backend.__class__ is NumpyBackend
    if program.symbols or not (is_plain or getattr(CPU.backend, "library", None)):  # Kernels may differ in bits.
        return program
    if all(array_type.size < Backend.LARGE for array_type in program.types.values()):
        return program
    kind = FusedKernel if is_plain else TiledCalls
    grouping = _Grouping(program, kind, False)
    result = grouping.run()
    if grouping.may_wait:
        waiting = _Grouping(program, kind, True)
        delayed_result = waiting.run()
        if peak_of(delayed_result) < peak_of(result):
            grouping, result = waiting, delayed_result
    if refused is not None:
        refused += grouping.refused
    return result


class _Grouping(Grouping):
    """Fusion pass that groups calls on arrays of one shape that share values.

    Parameters
    ----------
    program : Program
    kind : type
        The class of the groups.
    waits : bool
        Whether calls are delayed, so that groups can store fewer results.
    """

    def __init__(self, program: Program, kind: type[FusedKernel], waits: bool) -> None:
        super().__init__(program, [], waits)
        self.kind = kind

    def key(self, call: Call) -> tuple[int, ...] | None:
        """Return the shape of the result of a call that can be fused, or None for other calls."""
        reason = self._refusal(call)
        if reason:
            self.refused.append(f"{call!r}: {reason}")
        return self.program.types[call.results.number].shape if reason is None else None

    def joins(self, group: Collection[Call], call: Call) -> bool:
        values = {n for each in group for n in (*each.read, each.results.number)}
        shares = not values.isdisjoint(call.read)
        return shares and len(group) < _MOST_CALLS and len(values) < _MOST_CALLS + _MOST_INPUTS

    def _refusal(self, call: Call) -> str | None:
        """Return the reason why a call cannot be fused, empty for calls on small arrays; None if it can be fused."""
        types = self.program.types
        result = types.get(call.results.number) if type(call.results) is Value else None
        if result is None or result.size < Backend.LARGE or not is_pure(call):
            return ""
        kind, _, name = call.name.partition(".")
        is_elementwise = name in Backend.elementwise or name in RENAMED or name in _FORMULAS
        if not (is_elementwise if kind in ("kernels", "backend") else kind == "operator" and hasattr(operator, name)):
            return "it is not elementwise"
        if result.memory != call.results.number or not result.is_dense:
            return "its result is a view, or not contiguous"
        literals: list[Any] = [self.program.type_of(leaf) for leaf in leaves_in(call.args, (Literal,))]
        leaves = [self.program.type_of(Value(n)) for n in call.read]
        operands = [each for each in (result, *leaves, *literals) if each is not None]
        if result.dtype not in _FLOATS or any(each.dtype not in _DTYPES for each in operands):
            return "it computes no floats"
        if any(each.shape not in ((), result.shape) for each in operands):
            return "an array is broadcast"
        if any(any(each.strides) for each in literals):
            return "an array is part of the program"
        if any(not each.is_dense and any(each.strides) for each in operands):
            return "an array is not contiguous"
        return "it has settings by name" if call.named else None

    def fuse(self, calls: list[Call], inputs: list[Leaf], outputs: list[int]) -> tuple[FusedKernel, list[Leaf]]:
        """Return a fused kernel for a group, and its arguments; literals are part of the kernel."""
        values = [leaf for leaf in inputs if type(leaf) is Value]
        return self.kind(calls, [leaf.number for leaf in values], outputs, self.program), [*values]
