"""Cutting: runs of calls that have native steps become calls of one native function each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from gradcore.backends.codegen.cpp import C_TYPES
from gradcore.backends.codegen.expr import NotFusible
from gradcore.compiler import emit_python
from gradcore.compiler.native import groups, source
from gradcore.compiler.native.lowering import Lowering, Unsupported
from gradcore.compiler.native.steps import Kernel, Loop, Reduction, Step, View, contiguous_strides
from gradcore.compiler.program import Call, Literal, Program, Value, values_in

__all__ = ["NativeProgram", "Part", "source_of"]

#: Calls that are worth a native part, and bytes of scratch memory that it has on its stack.
_LEAST, _STACK = 2, 1 << 15


class Part:
    """A run of calls that one native function makes.

    Attributes
    ----------
    calls : list of Call
    steps : list of Step
    arguments : list of int
        The values whose memory it is given, literals as negative numbers.
    scratch : int
        The bytes that it is given beside.
    in_threads : bool
        Whether its function takes some time: it is told how many threads there are, and other threads of Python run.
    text : str
        The C++ function, but for its name.
    """

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.steps: list[Step] = []
        self.computing = 0
        self.arguments: list[int] = []
        self.scratch = 0
        self.in_threads = False
        self.text = ""

    @property
    def touched(self) -> set[int]:
        return {v.memory for step in self.steps for v in (*step.reads, *step.writes)}


class NativeProgram:
    """A program in parts.

    Parameters
    ----------
    program : Program
    blas : bool
        Whether there is a BLAS to call.

    Attributes
    ----------
    parts : list of Part
    loops : dict
        The C++ functions that parts call, by name.
    refused : list of str
        The calls that Python makes, and why.
    """

    def __init__(self, program: Program, blas: bool) -> None:
        self.program = program
        self.lowering = Lowering(program, blas)
        self.pieces: list[Any] = []
        self.refused: list[str] = []
        self._cut()
        self.parts = [piece for piece in self.pieces if isinstance(piece, Part)]
        self._plan()
        self.loops: dict[str, str] = {}
        for part in self.parts:
            self._write(part)

    # -- which calls are native -------------------------------------------------------------------------------------

    def _cut(self) -> None:
        part = Part()
        for call in self.program.calls:
            steps = self._native(call)
            if steps is not None and any(s.fallible for s in steps) and self._writes_outside(part):
                self._close(part)
                part = Part()
            if steps is None:
                self.lowering.follow(call)
                self._close(part)
                part = Part()
                self.pieces.append(call)
            else:
                part.calls.append(call)
                part.steps += steps
                part.computing += bool(steps)
        self._close(part)

    def _native(self, call: Call) -> list[Step] | None:
        try:
            steps = self.lowering.steps(call)
            for step in steps:
                if isinstance(step, (Loop, Reduction)):
                    traced = groups.trace_group(groups.Group(step), lambda memory: True, {})
                    if groups.is_slow(traced):
                        return None
            return steps
        except (Unsupported, NotFusible, AttributeError, TypeError, ValueError) as error:  # of a formula
            self.refused.append(f"{call.name}: {error}")
            return None

    def _writes_outside(self, part: Part) -> bool:
        """Whether a part could not run again from its beginning."""
        made = {self.program.types[n].memory for call in part.calls for n in values_in(call.results)}
        return any(w.memory not in made or w.memory in self.program.inputs for s in part.steps for w in s.writes)

    def _close(self, part: Part) -> None:
        if part.computing >= _LEAST:
            self.pieces.append(part)
        else:
            self.pieces += part.calls

    # -- memory -----------------------------------------------------------------------------------------------------

    def _plan(self) -> None:
        """Which memories Python makes, and which are inside of one part."""
        program, lowering = self.program, self.lowering
        given = set(program.inputs)
        self.made_by: dict[int, Any] = {}  # the piece in which a value begins
        for piece in self.pieces:
            for call in piece.calls if isinstance(piece, Part) else [piece]:
                for n in values_in(call.results):
                    self.made_by.setdefault(n, piece)
        users: dict[int, set[int]] = {}
        for i, piece in enumerate(self.pieces):
            if isinstance(piece, Part):
                touched: Iterable[int] = piece.touched
            else:
                numbers = (*values_in(piece.args), *values_in(piece.named), *values_in(piece.results))
                touched = [lowering.views[n].memory for n in numbers if n in lowering.views]
            for memory in touched:
                users.setdefault(memory, set()).add(i)
        visible = {lowering.views[n].memory for n in program.outputs if n in lowering.views}
        order = {id(piece): i for i, piece in enumerate(self.pieces)}
        self.private: dict[int, Part] = {}
        for memory, used in users.items():
            owner = self.made_by.get(memory)
            if memory < 0 or memory in given or memory in visible or not isinstance(owner, Part):
                continue
            if used == {order[id(owner)]}:
                self.private[memory] = owner

    # -- C++ --------------------------------------------------------------------------------------------------------

    def _write(self, part: Part) -> None:
        given = frozenset(n for n in part.touched if n in self.program.inputs)
        ordered = groups.grouped(part.steps, given)
        users: dict[int, set[int]] = {}
        for i, each in enumerate(ordered):
            for view in (*each.reads, *each.writes):
                users.setdefault(view.memory, set()).add(i)
        constants = self.lowering.constants
        lines: list[str] = []
        needed: dict[int, list[int]] = {}
        calls: list[tuple[Any, Any]] = []
        for i, each in enumerate(ordered):
            if isinstance(each, Kernel):
                calls.append((each, None))
                used = [*each.writes, *each.reads]
            else:

                def kept(memory: int, i: int = i) -> bool:
                    others = users[memory] != {i} and memory not in constants
                    kernels = any(isinstance(ordered[j], Kernel) for j in users[memory])
                    return memory not in self.private or others or (memory in constants and kernels)

                traced = groups.trace_group(each, kept, constants)
                if not traced.stores and not traced.reductions:
                    continue
                calls.append((each, traced))
                used = [*traced.loads, *traced.stores, *(r.writes[0] for r in traced.reductions)]
            for view in used:
                needed.setdefault(view.memory, []).append(len(calls) - 1)
        arena = self._arena(needed)
        used_loops: list[str] = []
        part.arguments = sorted(m for m in needed if m not in self.private)
        for call, traced in calls:
            if traced is None:
                places = [self._address(v) for v in (*call.writes, *call.reads)]
                text = call.text.format(*places)
                lines.append(f"if (!{text}) return 1;" if call.fallible else f"{text};")
            else:
                name, text = source.loop_source(traced)
                self.loops[name] = text
                used_loops.append(name)
                lines.append(source.loop_call(name, traced, self._address))
        size = arena.pop(-1)
        part.scratch = size if size > _STACK else 0
        part.in_threads = any("spread(" in self.loops[name] for name in used_loops)
        part.in_threads |= any(line.startswith("large_product") for line in lines)  # others of Python's may go on
        threads = ", i64 threads" if part.in_threads else ""
        head = [f"(const void* given{threads}) {{"]
        head.append("(void)given;" if part.in_threads else "const i64 threads = 1; (void)given; (void)threads;")
        for i, memory in enumerate(part.arguments):
            kind = self.type_of(memory)
            shape, strides = (f"{{{', '.join(map(str, each)) or '0'}}}" for each in (kind.shape, kind.strides))
            head.append(f"const Array& g{i} = item(given, {i});")
            dims = len(kind.shape)
            head.append(f"if (!fits<{max(dims, 1)}>(g{i}, {shape}, {strides}, {dims})) return 1;")
            head.append(f"char* const m{_named(memory)} = g{i}.data;")
        if size:
            own = f"item(given, {len(part.arguments)}).data" if part.scratch else "scratch"
            if not part.scratch:
                head.append(f"alignas(64) char scratch[{size}];")
            head += [f"char* const m{memory} = {own} + {place};" for memory, place in arena.items()]
        part.text = "\n    ".join([*head, *lines, "return 0;"]) + "\n}"

    def _arena(self, needed: dict[int, list[int]]) -> dict[int, int]:
        """Where private memories are, by the time in which they are used; under -1 the size of all."""
        places: dict[int, int] = {}
        busy: list[tuple[int, int, int]] = []  # start, stop, and the last use
        whole = 0
        private = sorted((uses[0], uses[-1], m) for m, uses in needed.items() if m in self.private)
        for first, last, memory in private:
            size = max(self._span(memory), 1)
            size += -size % 64
            busy = sorted(each for each in busy if each[2] >= first)
            start = 0
            for low, high, _ in busy:
                if start + size <= low:
                    break
                start = max(start, high)
            busy.append((start, start + size, last))
            places[memory] = start
            whole = max(whole, start + size)
        return {**places, -1: whole}

    def _span(self, memory: int) -> int:
        return self.lowering.views[memory].extent[1]

    def type_of(self, memory: int) -> Any:
        """The shape, strides and dtype of the value that owns a memory, or of a literal."""
        return self.lowering.views[memory] if memory >= 0 else self.lowering._literal(-1 - memory)

    def _address(self, view: View) -> str:
        place = f"m{_named(view.memory)}" + (f" + {view.offset}" if view.offset else "")
        return f"({C_TYPES[view.dtype.name]}*)({place})"

    # -- Python -----------------------------------------------------------------------------------------------------

    def linked(self, functions: list[Callable[..., Any]]) -> Program:
        """The program with calls of native functions in the places of the parts."""
        old, out = self.program, Program()
        out.inputs, out.outputs, out.literals = list(old.inputs), list(old.outputs), old.literals
        out.scalars, out.types = old.scalars, dict(old.types)
        there = set(old.inputs)
        by_result: dict[int, Call] = {}
        for call in old.calls:
            for n in values_in(call.results):
                by_result.setdefault(n, call)
        free = 1 + max([*old.types, *by_result], default=0)

        def make(number: int) -> None:
            """Let Python have a value: by its call, which makes a view, or as a new array."""
            if number in there:
                return
            view = self.lowering.views.get(number)
            if view is not None and view.memory == number and isinstance(self.made_by.get(number), Part):
                there.add(number)
                out.calls.append(_allocation(number, view))
                return
            call = by_result[number]
            for n in (*values_in(call.args), *values_in(call.named)):
                make(n)
            out.calls.append(call)
            there.update(values_in(call.results))

        for piece in self.pieces:
            if not isinstance(piece, Part):
                for n in (*values_in(piece.args), *values_in(piece.named)):
                    make(n)
                out.calls.append(piece)
                there.update(values_in(piece.results))
                continue
            for n in piece.arguments:
                if n >= 0:
                    make(n)
            given: list[Any] = [Value(n) if n >= 0 else Literal(-1 - n) for n in piece.arguments]
            if piece.scratch:
                out.calls.append(Call("xp.empty", np.empty, (piece.scratch, np.uint8), {}, Value(free)))
                out.types[free] = old.types[next(iter(old.types))]._replace(
                    shape=(piece.scratch,), dtype=np.dtype(np.uint8), strides=(1,), memory=free
                )
                given.append(Value(free))
                free += 1
            run = functions[self.parts.index(piece)]
            out.calls.append(Call("native.run", run, (tuple(given),), {}, None))
        for n in out.outputs:
            make(n)
        return out

    def slow(self, part: Part) -> Callable[..., None]:
        """The calls of a part, made by Python: so errors are those that the calls raise."""
        old, own = self.program, Program()
        own.calls, own.literals, own.scalars, own.types = part.calls, old.literals, old.scalars, old.types
        first_made: set[int] = set()
        needed: list[int] = []
        for call in part.calls:
            needed += [n for n in (*values_in(call.args), *values_in(call.named)) if n not in first_made]
            first_made |= set(values_in(call.results))
        own.inputs = sorted(set(needed))
        own.outputs = sorted(n for n in part.arguments if n >= 0 and n in first_made and n not in own.inputs)
        views = [self.lowering.views[n] for n in own.inputs]
        run = emit_python.function_of(own)
        place = {memory: i for i, memory in enumerate(part.arguments)}
        targets = [place[n] for n in own.outputs]

        def again(given: tuple[Any, ...]) -> None:
            found = run(*[_view_of(given[place[v.memory]], v) for v in views])
            for target, array in zip(targets, found, strict=True):
                given[target][...] = array

        return again


def source_of(programs: list[NativeProgram]) -> str:
    """The C++ of the parts of programs, numbered through."""
    loops = {name: text for program in programs for name, text in program.loops.items()}
    texts = [part.text for program in programs for part in program.parts]
    shown = 'extern "C" __attribute__((visibility("default"))) i64'
    parts = [f"{shown} part{i}{text}" for i, text in enumerate(texts)]
    head = ['#include "program.h"', "namespace gradcore {", *loops.values(), "}", "using namespace gradcore;"]
    return "\n".join([*head, *parts, ""])


def _view_of(owner: Any, view: View) -> Any:
    if view.offset == 0 and view.shape == owner.shape and view.strides == owner.strides:
        return owner
    return np.asarray(_Interface(owner, view))


class _Interface:
    """Elements at an address, kept alive by the array that owns them."""

    def __init__(self, owner: Any, view: View) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "data": (owner.ctypes.data + view.offset, False), "shape": view.shape, "strides": view.strides,
            "typestr": view.dtype.str, "version": 3,
        }  # fmt: skip


def _allocation(number: int, view: View) -> Call:
    """The call that makes the memory of a value."""
    if view.strides == contiguous_strides(view.shape, view.dtype.itemsize) or view.is_contiguous:
        return Call("xp.empty", np.empty, (view.shape, view.dtype), {}, Value(number))
    return Call("native.empty_strided", _empty_strided, (view.shape, view.strides, view.dtype), {}, Value(number))


def _empty_strided(shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any) -> Any:
    size = sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + dtype.itemsize if np.prod(shape) else 0
    return np.ndarray(shape, dtype, np.empty(size, np.uint8), 0, strides)


def _named(memory: int) -> str:
    return str(memory) if memory >= 0 else f"l{-1 - memory}"
