"""Lowering of kernels by the calls that their bodies make, for kernels that declare it (`native_body`)."""

from __future__ import annotations

import copy
import types
from collections.abc import Callable
from itertools import accumulate, pairwise
from math import prod
from operator import mul
from typing import Any

import numpy as np

from gradcore.backends.kernel_rules import native_bodies
from gradcore.backends.numpy.backend import NumpyBackend
from gradcore.backends.portable.convolution import Convolution
from gradcore.backends.registry import CPU
from gradcore.compiler.capture.arrays import RecordedArray, current
from gradcore.compiler.capture.recorder import Recorder
from gradcore.compiler.capture.substitutes import RecordingBackend, original_backend, record_calls_of
from gradcore.compiler.capture.watch import suspend_callbacks
from gradcore.compiler.program.effects import Effects
from gradcore.compiler.program.program import Call, Literal, Value, leaves_in, map_leaves
from gradcore.compiler.program.storage import empty_strided
from gradcore.compiler.targets.native.steps import Loop, Reduction, Rules, Step, Unsupported, View, overlap
from gradcore.core.typing import AnyArray

__all__ = ["Bodies", "find_body"]

#: The bodies of kernels that are methods.
_METHODS = native_bodies(NumpyBackend)


def find_body(name: str) -> Callable[..., Any] | None:
    """Return the body whose calls are the native form of a kernel or operation, or None if there is none."""
    body = NumpyBackend.bodies.get(name)
    return body if hasattr(body, "native_body") else _METHODS.get(name)


class _Allocation(Convolution):
    """Kernels that allocate their results, and leave out the computation, which may take long."""

    xp: Any = np

    def matmul(self, a: AnyArray, b: AnyArray) -> AnyArray:
        batch, columns = np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), b.shape[-1:] if b.ndim > 1 else ()
        return np.empty((*batch, *a.shape[-2:-1], *columns), a.dtype)

    def correlate(self, *args: object) -> None:
        """Leave the result of `conv` as it is."""


class _BodyBackend(RecordingBackend):
    """The backend on which bodies run: their calls of kernels are captured, and those of other bodies are followed."""

    def __getattr__(self, name: str) -> Any:
        if name in ("conv", "matmul"):
            return record_calls_of(f"backend.{name}", getattr(_Allocation(), name), True)
        body = find_body(name)
        if body is None and name[0] == "_":  # A part of a portable body.
            classes = [cls for cls in type(self._backend).__mro__ if name in vars(cls)]
            body = vars(classes[-1])[name] if classes else None
        return super().__getattr__(name) if body is None else types.MethodType(body, self)

    def _softmax_in_place(self, x: Any) -> Any:
        """Return the softmax in new memory: the segment decides which arrays share memory."""
        return self.softmax_or_zero(x)


class Bodies(Rules):
    """Lowering rule for kernels that declare a body."""

    def _lower_body(self, body: Callable[..., Any], call: Call, results: list[View]) -> list[Step]:
        """Return the steps of a call by its body; calls that differ by their memories alone are lowered once."""
        views: list[View] = []
        firsts: dict[int, tuple[int, int]] = {}

        def describe(leaf: Any) -> Any:
            if type(leaf) not in (Value, Literal):
                return (type(leaf), leaf) if type(leaf) in (bool, int, float, str) else id(leaf)
            view = self._view(leaf)
            return leaf if view.memory < 0 or view.memory in self.constants else relate(view)

        def relate(view: View) -> View:
            views.append(view)
            number, offset = firsts.setdefault(view.memory, (len(firsts), view.offset))
            return view._replace(memory=number, offset=view.offset - offset)

        key = repr((id(body), map_leaves(describe, (call.args, call.named)), [*map(relate, results)]))
        if key not in self._lowered_bodies:
            others = {*self.temporary}
            steps = self._steps_of_body(body, call, results)
            # The call keeps the objects alive whose ids are in the key.
            self._lowered_bodies[key] = call, views, {m: self.views[m] for m in self.temporary - others}, steps
            return steps
        _, known_views, temporaries, steps = self._lowered_bodies[key]
        targets = {v.memory: w._replace(offset=w.offset - v.offset) for v, w in zip(known_views, views, strict=True)}
        for memory, view in temporaries.items():
            number = self.program.new_value(self.program.types[memory]).number
            targets[memory] = self.views[number] = view._replace(memory=number)
            self.temporary.add(number)
            if memory in self.constants:
                self.constants[number] = self.constants[memory]
        return [_move(step, targets) for step in steps]

    def _steps_of_body(self, body: Callable[..., Any], call: Call, results: list[View]) -> list[Step]:
        """Return the steps of the calls that a body makes; its results are in the memory of the call's results."""
        recorder = Recorder()
        program = recorder.program
        program.literals = self.program.literals
        recorder.start_at(self.program)
        recorded: dict[Any, RecordedArray] = {}

        def stand_in(leaf: Any) -> Any:
            if type(leaf) not in (Value, Literal):
                return leaf
            if leaf not in recorded:
                view = self._view(leaf)
                array = recorded[leaf] = recorder.add_input(empty_strided(view.shape, view.strides, view.dtype))
                array.array.fill(1)
                self.views[array.number] = view
            return recorded[leaf]

        before, current.recorder = current.recorder, recorder
        try:
            with suspend_callbacks(of_collector=False), np.errstate(all="ignore"):
                args, named = map_leaves(stand_in, call.args), map_leaves(stand_in, call.named)
                outcome = body(_BodyBackend(original_backend(CPU.backend)), *args, **named)
        finally:
            current.recorder = before
        if recorder.stopped is not None:
            raise Unsupported(str(recorder.stopped))
        self.program.types |= program.types
        self.program.free = recorder.new_value()
        outer, self._effects = self._effects, Effects(program)
        try:
            steps = [step for each in program.calls for step in self._steps_or_literal(each)]
        finally:
            self._effects = outer
        memories = {n for each in program.calls for n in each.outputs if self.views[n].memory == n}
        placed: dict[int, View] = {}
        for out, result in zip(results, leaves_in(outcome, (RecordedArray,)), strict=True):
            view = self.views[result.number]
            is_alike = (view.shape, view.dtype) == (out.shape, out.dtype)
            is_alike &= view.strides == out.strides or (view.is_contiguous and out.is_contiguous)
            is_own = view.memory in memories - placed.keys() and not view.offset
            if is_alike and is_own and self.views[view.memory].size == view.size:
                placed[view.memory] = out
            else:
                steps.append(self._convert(out, view))
        self.temporary |= memories - placed.keys()
        steps = [_move(step, placed) for step in steps]
        _align_shapes(steps, max((self._view(leaf).shape for leaf in recorded), key=prod))
        _recompute_loops(steps)
        return _remove_dead_loops(steps)

    def _steps_or_literal(self, call: Call) -> list[Step]:
        """Return the steps of a call in a body; a constant array without native form becomes a literal."""
        try:
            return self._steps(call)  # type: ignore[no-any-return]
        except Unsupported:
            number = call.results.number if type(call.results) is Value else -1
            is_constant = number >= 0 and call.name.startswith("xp.") and self._effects.is_constant(number)
            if not is_constant or leaves_in((call.args, call.named), (Value, Literal)):
                raise
            literal = self.program.new_literal(call.function(*call.args, **call.named))
            self.views[number] = self._literal(literal.number)
            return []


def _align_shapes(steps: list[Step], shape: tuple[int, ...]) -> None:
    """Split the dims of loops over as many elements as `shape` has, so that all have the same dims and can be fused.

    Bodies merge dims, which is faster in NumPy.
    """
    loops = [each for each in steps if isinstance(each, (Loop, Reduction)) and prod(each.shape) == prod(shape)]
    blocks = sorted({n for each in (shape, *(loop.shape for loop in loops)) for n in accumulate((1, *each[::-1]), mul)})
    if blocks[0] and not any(large % small for small, large in pairwise(blocks)):
        sizes = tuple(large // small for small, large in pairwise(blocks))[::-1]
        for each in loops:
            each.split_dims(sizes)


def _recompute_loops(steps: list[Step]) -> None:
    """Compute results of earlier loops again where they are read, if that loads no more arrays.

    Bodies store such results, as a difference from a mean, because each call of NumPy does.
    """
    known: dict[View, Loop] = {}
    for step in steps:
        for source in (known.get(read) for read in step.reads):
            if source is not None and isinstance(step, Loop):
                step.compute(source)
        for written in step.writes:
            known = {v: s for v, s in known.items() if not any(overlap(written, each) for each in (v, *s.reads))}
        if isinstance(step, Loop) and not any(overlap(w, r) for w in step.writes for r in step.reads):
            loads = [all(s or n == 1 for n, s in zip(r.shape, r.strides, strict=True)) for r in step.reads]
            known |= {step.writes[0]: step} if loads.count(True) == len(step.writes) == 1 else {}


def _remove_dead_loops(steps: list[Step]) -> list[Step]:
    """Return the steps without loops whose results are overwritten before they are read."""
    kept: list[Step] = []
    overwritten: set[View] = set()
    for step in reversed(steps):
        if isinstance(step, Loop) and overwritten.issuperset(step.writes):
            continue
        overwritten |= {*step.writes} if isinstance(step, Loop) else set()
        overwritten = {v for v in overwritten if not any(overlap(v, r) for r in step.reads)}
        kept.append(step)
    return kept[::-1]


def _move(step: Step, targets: dict[int, View]) -> Step:
    """Return the step on other memory: each memory in `targets` begins at the first byte of a view there."""

    def move(view: View) -> View:
        to = targets.get(view.memory)
        return view if to is None else view._replace(memory=to.memory, offset=to.offset + view.offset)

    moved = copy.copy(step)
    moved.reads, moved.writes = [*map(move, step.reads)], [*map(move, step.writes)]
    return moved
