"""Segments: maximal runs of calls with native steps become one native function each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradcore.backends.codegen.expr import NotFusible
from gradcore.compiler.program.program import Call, Program
from gradcore.compiler.targets.native import building, groups, plans, source
from gradcore.compiler.targets.native.draws import RESERVING
from gradcore.compiler.targets.native.lowering import Lowering
from gradcore.compiler.targets.native.plans import PartPlan, Plan, are_apart
from gradcore.compiler.targets.native.products import LARGE_PRODUCT
from gradcore.compiler.targets.native.rolling import Invocation
from gradcore.compiler.targets.native.segment_source import PartSource
from gradcore.compiler.targets.native.steps import Kernel, Loop, Reduction, Step, Unsupported, View, overlap

__all__ = ["NativeProgram", "Part", "source_of"]


@dataclass(eq=False)
class Part:
    """A native segment: a run of calls that one C++ function makes.

    Attributes
    ----------
    calls : list of Call
    steps : list of Step
    computing : int
        The number of calls that compute, rather than make views.
    text : str
        The source of the C++ function, without its name.
    plan : PartPlan
        How Python calls the function.
    """

    calls: list[Call] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    computing: int = 0
    text: str = ""
    plan: PartPlan = field(init=False)

    @property
    def memories(self) -> set[int]:
        return {v.memory for step in self.steps for v in (*step.reads, *step.writes)}


class NativeProgram:
    """A program split into native segments and calls made by Python.

    Parameters
    ----------
    program : Program
    blas : bool
        Whether NumPy's BLAS can be called.

    Attributes
    ----------
    parts : list of Part
    loops : dict
        The C++ functions that parts call, by name.
    refused : list of str
        The calls that Python makes, and why.
    rolled : list of str
        The loops over calls that repeat.
    """

    def __init__(self, program: Program, blas: bool) -> None:
        self.program = program = program.copy(program.calls)  # The copy gets memories and literals for steps.
        self._positions = {id(call): i for i, call in enumerate(program.calls)}
        self.lowering = Lowering(program, blas)
        self.are_apart = are_apart(program)
        self.pieces: list[Any] = []
        self.refused: list[str] = []
        self._cut()
        self.parts = [piece for piece in self.pieces if isinstance(piece, Part)]
        self._plan()
        self.loops: dict[str, str] = {}
        self.rolled: list[str] = []
        for part in self.parts:
            self._write(part)

    # -- which calls are native -------------------------------------------------------------------------------------

    def _cut(self) -> None:
        """Split the program into segments and calls that Python makes."""
        part = Part()
        for call in self.program.calls:
            if call.name == RESERVING and not any(s.fallible for s in part.steps):
                self.lowering.follow(call)
                self.pieces.append(call)  # The call moves in front of the open segment.
                continue
            steps = self._native(call)
            if steps is None or (any(s.fallible for s in steps) and self._writes_outside(part)):
                self._close(part)
                part = Part()
            if steps is None:
                self.lowering.follow(call)
                self.pieces.append(call)
            else:
                part.calls.append(call)
                part.steps += steps
                part.computing += bool(steps)
        self._close(part)

    def _native(self, call: Call) -> list[Step] | None:
        """Return the native steps of a call, or None if Python has to make it."""
        try:
            steps = self.lowering.steps(call)
            inputs = frozenset() if self.are_apart else frozenset(self.program.inputs)
            if any(w != r and overlap(w, r, inputs) for step in steps for w in step.writes for r in step.reads):
                raise Unsupported("its inputs may overlap its outputs")
            for step in [] if building.has_vector_functions() else steps:
                if isinstance(step, (Loop, Reduction)):
                    traced = groups.trace_group(groups.Group(step), lambda memory: True, {})
                    if groups.is_slow(traced):
                        return None
            return steps
        # Formulas may raise any error for arguments that they were not written for.
        except (Unsupported, NotFusible, AttributeError, TypeError, ValueError) as error:
            self.refused.append(f"{call.name}: {error}")
            return None

    def _writes_outside(self, part: Part) -> bool:
        """Return whether a segment cannot run again from its beginning, as it changes memory from before."""
        own_memories = self._own_memories(part)
        return any(w.memory not in own_memories for s in part.steps for w in s.writes)

    def _own_memories(self, part: Part) -> set[int]:
        """Return the memories that begin in a segment, which it may write again if it runs again."""
        views = self.lowering.views
        results = {n for call in part.calls for n in call.outputs if n in views and views[n].memory == n}
        return (results | self.lowering.temporary) - {*self.program.inputs}

    def _close(self, part: Part) -> None:
        if part.computing >= plans.LEAST_CALLS:
            self.pieces.append(part)
        else:
            self.pieces += part.calls

    # -- memory -----------------------------------------------------------------------------------------------------

    def _plan(self) -> None:
        """Decide which memories Python allocates, and which are private to one segment."""
        program, views = self.program, self.lowering.views
        self.made_by: dict[int, Any] = {}  # The piece that first writes each value.
        users: dict[int, set[int]] = {}  # The ids of the pieces that use each memory.
        for piece in self.pieces:
            if isinstance(piece, Part):
                numbers, memories = [n for call in piece.calls for n in call.outputs], piece.memories
                self.made_by.update(dict.fromkeys(memories & self.lowering.temporary, piece))
            else:
                numbers = [*piece.outputs]
                memories = {views[n].memory for n in (*piece.read, *numbers) if n in views}
            for n in numbers:
                self.made_by.setdefault(n, piece)
            for memory in memories:
                users.setdefault(memory, set()).add(id(piece))
        visible = {*program.inputs, *(views[n].memory for n in program.outputs if n in views)}
        self.private: dict[int, Part] = {}
        for memory, pieces in users.items():
            owner = self.made_by.get(memory)
            if memory >= 0 and memory not in visible and isinstance(owner, Part) and pieces == {id(owner)}:
                self.private[memory] = owner

    # -- C++ --------------------------------------------------------------------------------------------------------

    def _narrow(self, part: Part) -> None:
        """Store private indices as 32-bit integers, if all their users accept these."""
        users: dict[int, list[Step]] = {}
        for step in part.steps:
            for view in (*step.reads, *step.writes):
                users.setdefault(view.memory, []).append(step)
        for memory, steps in users.items():
            if self.private.get(memory) is not part or not all(isinstance(s, Kernel) and s.narrow for s in steps):
                continue
            views = [v for s in steps for v in (*s.reads, *s.writes) if v.memory == memory]
            if any(v.dtype != np.int64 or not v.is_contiguous or v.offset for v in views):
                continue
            self.lowering.views[memory] = _narrow_indices(self.owner(memory))
            for s in steps:
                s.reads = [_narrow_indices(v) if v.memory == memory else v for v in s.reads]
                s.writes = [_narrow_indices(v) if v.memory == memory else v for v in s.writes]

    def _write(self, part: Part) -> None:
        """Emit the C++ of a segment: group its steps, emit their loops, and store the source in `part`."""
        self._narrow(part)
        inputs = frozenset(n for n in part.memories if n in self.program.inputs)
        written_inputs = inputs & {w.memory for step in part.steps for w in step.writes}
        apart = inputs if written_inputs and len(inputs) > 1 and self.are_apart else frozenset()
        ordered = groups.group_steps(part.steps, inputs - apart, self._own_memories(part))
        users: dict[int, set[int]] = {}
        for i, each in enumerate(ordered):
            for view in (*each.reads, *each.writes):
                users.setdefault(view.memory, set()).add(i)
        constants, in_threads, multiplies = self.lowering.constants, False, False
        invocations: list[Invocation] = []
        for i, each in enumerate(ordered):
            if isinstance(each, Kernel):
                invocations.append(Invocation(each.text, (*each.writes, *each.reads), each.fallible))
                in_threads |= each.lasting
                multiplies |= each.text.startswith(LARGE_PRODUCT)
                continue

            def is_needed(memory: int, i: int = i) -> bool:
                later = [ordered[j] for j in users[memory] if j > i]
                is_read = any(isinstance(user, Kernel) for user in later) if memory in constants else bool(later)
                return memory not in self.private or is_read

            traced = groups.trace_group(each, is_needed, constants)
            if traced.stores or traced.reductions:
                name, text = source.loop_source(traced)
                self.loops[name] = text
                in_threads |= "spread(" in text
                invocations.append(source.loop_call(name, traced))
        writer = PartSource(invocations, self.private.__contains__, self.owner, lambda m: self._is_fresh(m, part))
        writer.apart = {m: m in written_inputs for m in writer.arguments if m in apart and self.owner(m).size}
        part.text = writer.text(in_threads)
        calls = tuple([self._positions[id(call)] for call in part.calls])
        part.plan = PartPlan(calls, part.computing, tuple(writer.arguments), writer.scratch, in_threads, multiplies)
        self.rolled += map(str, writer.repeats)

    def _is_fresh(self, memory: int, part: Part) -> bool:
        """Return whether a memory is allocated for a segment, which writes it first."""
        is_new = self.made_by.get(memory) is part and memory not in self.program.inputs
        return is_new and self.lowering.views[memory].memory == memory and self.owner(memory).extent[0] == 0

    def owner(self, memory: int) -> View:
        """Return the view of a whole memory, of a value or a literal."""
        return self.lowering.views[memory] if memory >= 0 else self.lowering._literal(-1 - memory)

    # -- Python -----------------------------------------------------------------------------------------------------

    def plan(self) -> Plan:
        """Return the plan by which Python calls the segments."""
        pieces = [piece.plan if isinstance(piece, Part) else self._positions[id(piece)] for piece in self.pieces]
        begun = {n for n, piece in self.made_by.items() if isinstance(piece, Part)}
        return Plan(self.program, pieces, self.lowering.views, begun, self.refused, self.rolled)


def _narrow_indices(indices: View) -> View:
    """Return the view as 32-bit integers."""
    return indices._replace(dtype=np.dtype(np.int32)).reshape(indices.shape)


def source_of(programs: list[NativeProgram]) -> str:
    """Return the C++ source of the segments of several programs, numbered consecutively."""
    loops = {name: text for program in programs for name, text in program.loops.items()}
    texts = [part.text for program in programs for part in program.parts]
    exported = 'extern "C" __attribute__((visibility("default"))) i64'
    parts = [f"{exported} part{i}{text}" for i, text in enumerate(texts)]
    draws = ['#include "draws.h"'] if any("philox::" in text or "draw<" in text for text in texts) else []
    head = ['#include "program.h"', *draws, "namespace gradcore {", *loops.values(), "}", "using namespace gradcore;"]
    return "\n".join([*head, *parts, ""])
