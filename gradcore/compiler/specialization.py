"""Specializations: captured programs with their guards, and the generated function that runs them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from gradcore.autograd.variables import TensorMeta, Variable, bump, version_counter
from gradcore.compiler.autograd.node import Backward, as_freed, as_leaf, connect, watch
from gradcore.compiler.capture.guards import Guards
from gradcore.compiler.capture.numbers import RecordedFloat, RecordedInteger
from gradcore.compiler.capture.reasons import Code
from gradcore.compiler.capture.script import Part
from gradcore.compiler.capture.sizes import SymbolicNumber
from gradcore.compiler.captured_run import RecordedRun
from gradcore.compiler.program.effects import is_total
from gradcore.compiler.program.passes import optimize
from gradcore.compiler.program.program import Program
from gradcore.compiler.program.source import names_in_lines
from gradcore.compiler.targets import native
from gradcore.tensor.random.generator import default_generator

__all__ = ["Specialization", "SpecializationWriter"]


class Specialization(NamedTuple):
    """A program with its guards.

    Attributes
    ----------
    guards : Guards
    run : callable
        ``(args, named, is_check=False)``: return the result in a 1-tuple, or the number of the guard that failed. If
        `is_check` is True, only check the guards.
    programs, names : list
        The programs of the segments, the backward program if there is one, and their names for readers.
    effects : list of str
        Descriptions of the side effects, such as in-place writes.
    functions : list of function
        The function that runs each program.
    decides : bool
        Whether it checks computed values before it returns, and so may fail after part of the work is done.
    sizes : Sizes or None
        The sizes that the program is valid for, if it has symbolic sizes; see `gradcore.compiler.symbolic_sizes`.
    """

    guards: Guards
    run: Callable[..., Any]
    programs: list[Program]
    names: list[str]
    effects: list[str]
    functions: list[Any]
    decides: bool
    sizes: Any = None


class LazyRun:
    """The run function of a CPU backward program, built on first use.

    Attributes
    ----------
    found : tuple of bool
        For each input tensor, whether the program computes its gradient.
    watched : tuple of int
        The tensors whose memory the program reads.
    """

    def __init__(self, program: Program, cpp: str | None, gradients: list[int | None]) -> None:
        self.program, self.cpp = program, cpp
        self.found = tuple(n is not None for n in gradients)
        self.watched: tuple[int, ...] = ()

    @functools.cached_property
    def run(self) -> Callable[..., Any]:
        """Function that runs the optimized program."""
        return native.runnable(optimize(self.program), self.cpp)  # type: ignore[no-any-return]


class SpecializationWriter:
    """Emitter of the source of a specialization.

    Parameters
    ----------
    run : RecordedRun
        The captured run, after its `end`.
    """

    def __init__(self, run: RecordedRun) -> None:
        self.run, self.backward, self.script = run, run.backward, run.script
        self.recorder, self.guards = run.recorder, run.guards
        #: Lists and dicts of the result for which an expression has been emitted.
        self.rebuilt: list[Any] = []
        #: The backward program of each single result, if results have their own.
        self.alone: list[Program] = []

    def entry(self, function: Any) -> Specialization:
        """Return the specialization. `function` is called instead if a program raises an error."""
        last_part = self.script.parts[-1]
        backward, saved = self._split()
        half = self._connect(function, backward, saved, last_part) if self.backward.outs else None
        for t in self.backward.freed:
            metas = self.script.bind(() if self.recorder.program.symbols else (TensorMeta.of(t),))
            inputs = "".join(f"t{i}, " for i in self.backward.inputs)
            freed = f"freed({self.script.wrap(t, last_part)}, {metas}, ({inputs}))"
            last_part.lines.append(f"{self._name_result(t)} = {freed}")
        result = self._rebuild(self.run.result, last_part)
        if half is not None:
            self._watch(half, saved, last_part)
        programs = self._programs()
        self._leave_out_unused(programs, [result, *(line for part in self.script.parts for line in part.lines)])
        self._check_errors(programs)
        source = self._source(programs, result)
        self.script.scope |= {
            **self.guards.scope, "bump": bump, "wrap": as_leaf, "failed": function, "generator": default_generator,
            "connect": connect, "freed": as_freed, "watch": watch, "with_mode": _with_mode, "undone": _undo,
        }  # fmt: skip
        shown = [program for program in programs if program.calls]
        runs = [self.runnable(program) for program in shown]
        self.script.scope |= {f"program{programs.index(p)}": run for p, run in zip(shown, runs, strict=True)}
        names = ["program"] if len(shown) == 1 else [f"part {i + 1}" for i in range(len(shown))]
        if half is not None:
            shown, names, runs = [*shown, backward], [*names, "backward"], [*runs, half.run]
        for step in self.run.steps:
            names.append(f"step of {type(step.optimizer).__name__}")
            shown.append(step.program)
            runs.append(step.run)
        decides = any(not part.is_final for part in self.script.parts)
        run = self.script.define("run", source)
        return Specialization(self.guards, run, shown, names, self.script.effects, runs, decides)

    def _connect(self, function: Any, program: Program, saved: list[int], last: Part) -> Backward:
        """Emit the line that connects the results to a backward node; return the backward function."""
        bound, outs = self.script.bind, self.backward.outs
        numbers = [self.script.number(t._array) for t in outs]
        last.needed.update(n for n in (*numbers, *saved) if n is not None)
        repeatable = not self.script.effects and not self._reads_gradients(program)
        half = self._backward(function, program, saved, repeatable)
        names, saved_names = ([self.script.value(n) for n in each if n is not None] for each in (numbers, saved))
        targets = "".join(f"{self._name_result(t)}, " for t in outs)
        tensors = "".join(f"t{i}, " for i in range(len(self.run.tensors)))
        arrays = tensors.replace("t", "a")
        call = f"({''.join(f'{name}, ' for name in saved_names)}), (({tensors}), ({arrays}), args, named, place)"
        device = bound(outs[0]._device)
        line = f"{targets}= connect({bound(half)}, {device}, ({''.join(f'{n}, ' for n in names)}), {call})"
        bumps = (f"bump({self._name_result(t)})" for t in outs for _ in range(version_counter(t).version))
        last.lines += [line, *bumps]
        return half

    def _reads_gradients(self, backward: Program) -> bool:
        """Return whether the program computes with the earlier gradients of leaves."""
        read_values = _find_read_values(self.recorder.program) | _find_read_values(backward)
        gradients = [i for i, guard in enumerate(self.guards.tensors) if guard.lines.stop]
        return any(self.script.number(self.run.arrays[i]) in read_values for i in gradients)

    def _check_errors(self, programs: list[Program]) -> None:
        """Refuse a program in which a call may raise an error that user code catches after a side effect.

        After a side effect, the function cannot be called again to raise the error eagerly.
        """
        has_effects = False
        for part, program in zip(self.script.parts, programs, strict=True):
            risky = [call for call in program.calls if any(call is each for each in self.recorder.caught)]
            if (has_effects or part.writes) and not all(is_total(call, program) for call in risky):
                self.script.refuse(Code.ERROR, "an error may have to be caught after something was changed")
            has_effects = has_effects or part.writes or part.is_final

    def runnable(self, program: Program) -> Any:
        """Return a function that runs `program` on its target."""
        program = optimize(program)
        if program.backend is not None:
            from gradcore.compiler.targets.cuda.graphs import GraphedProgram

            argument_values = {n for n, i in self.script.arguments.items() if self.guards.tensors[i].given}
            copied, steps = frozenset([*argument_values, *self.backward.given]), frozenset(self.script.steps)
            return GraphedProgram(program, self.run.settings.graphs or "equal", copied, steps)
        return native.runnable(program, self.run.settings.cpp)

    def _programs(self) -> list[Program]:
        """Return one program per segment; its outputs are the values that later segments and lines read."""
        captured, start = self.recorder.program, 0
        programs = []
        for part in self.script.parts:
            program = captured.copy(captured.calls[start : part.end])
            program.inputs = sorted(_find_read_values(program) - _find_new_values(program))
            programs.append(program)
            start = part.end
        for i, program in enumerate(programs):
            later_reads = {n for part in self.script.parts[i:] for n in part.needed}
            later_reads |= {n for later_program in programs[i + 1 :] for n in later_program.inputs}
            program.outputs = sorted(later_reads & _find_new_values(program))
        return programs

    def _source(self, programs: list[Program], result: str) -> list[str]:
        """Return the lines of the function that checks the guards, runs the programs and the lines between them."""
        draws = self.recorder.draws_default
        lines = [f"place = {'generator._state.copy()' if draws else 'None'}"]
        can_fail = True
        for i, (part, program) in enumerate(zip(self.script.parts, programs, strict=True)):
            lines += [f"[{part.step[1]}] = {part.step[0]}.prepare()"] if part.step else []
            if program.calls:
                call = ", ".join([f"program{i}", *map(self.script.value, program.inputs)])
                target = f"[{', '.join(map(self.script.value, program.outputs))}] = " if program.outputs else ""
                lines += ["try:"] * can_fail
                lines += [f"{' ' * can_fail}{line}" for line in (
                    f"try: {target}state.enter({call})",
                    f"except RuntimeError as error: {target}state.reenter(error)({call})",
                )]  # fmt: skip
                if can_fail:
                    lines.append("except Exception:")
                    lines += [f" if {part.step[0]}.begun: raise"] if part.step else []
                    lines += [" generator._state.assign(place)"] if draws and not part.writes else []
                    lines.append(" raise" if part.writes else " return (failed(*args, **named),)")
            lines += part.lines
            can_fail = can_fail and not (part.writes or part.is_final)
        head = ["def run(args, named, is_check=False):", *self.guards.checks(), *self._alias_checks()]
        head += ["if is_check: return (None,)", *self.script.checks, *self.size_checks()]
        return [*head, *lines, f"return ({result},)"]

    def size_checks(self) -> list[str]:
        """Return source lines that return a guard number for sizes at which the program has not been verified."""
        return []

    def _leave_out_unused(self, programs: list[Program], lines: list[str]) -> None:
        """Remove guards of gradients that are reset before they are read, and of tensors that only optimizers read."""
        if self.run.reads_grads or not (self.guards.called_groups or any(g.lines.stop for g in self.guards.tensors)):
            return
        numbers = [self.script.number(array) for array in self.run.arrays]
        used = {n for program in programs for n in program.inputs} | {n for n in numbers if numbers.count(n) > 1}
        named = {*names_in_lines(lines)}
        unused = {i for i, n in enumerate(numbers) if n not in used and named.isdisjoint((f"t{i}", f"a{i}"))}
        groups = [guard.lines for i, guard in enumerate(self.guards.tensors) if guard.lines.stop and i in unused]
        self.guards.leave_out([*groups, *(each for each, tensors in self.guards.called_groups if tensors <= unused)])

    def _alias_checks(self) -> list[str]:
        """Return source lines that check that tensors with the same array still have one array."""
        lines: list[str] = []
        texts, names = self.guards.texts, [guard.name for guard in self.guards.tensors]
        for i, n in enumerate(map(self.script.number, self.run.arrays)):
            first = i if n is None else self.script.arguments[n]
            if first != i:
                lines.append(f"if a{i} is not a{first}: return {len(texts)}")
                texts.append(f"{names[i]} has the array of {names[first]}")
        return lines

    def _split(self) -> tuple[Program, list[int]]:
        """Split the program where backward begins; return the backward part and the values that it needs."""
        forward = self.recorder.program
        backward = forward.copy(forward.calls[self.backward.mark :])
        del forward.calls[self.backward.mark :]
        backward.outputs = [n for n in self.backward.gradients if n is not None]
        available = {*self.script.arguments, *forward.symbols, *_find_new_values(forward)}
        needed_values = {*_find_read_values(backward), *backward.outputs}
        for calls, grad_number, gradients in self.backward.alone:
            program = forward.copy(calls)
            program.inputs, program.outputs = [grad_number], [n for n in gradients if n is not None]
            self.alone.append(program)
            needed_values |= {*_find_read_values(program), *program.outputs}
        saved = sorted(available.intersection(needed_values))
        backward.inputs = [*saved, *self.backward.given]
        for program in self.alone:
            program.inputs = [*saved, *program.inputs]
        return backward, saved

    def _backward(self, function: Any, program: Program, saved: list[int], repeatable: bool) -> Backward:
        """Return the backward half of the specialization, with the function that runs `program`."""
        result, run = tuple(n is not None for n in self.backward.gradients), self.runnable(program)
        fresh = all(
            not set(each.outputs) & set(each.inputs) and len(set(each.outputs)) == len(each.outputs)
            for each in (program, *self.alone)
        )
        watched = self._find_sharing(self.run.tensors, saved)
        pairs = zip(self.alone, self.backward.alone, strict=True)
        alone = tuple(LazyRun(each, self.run.settings.cpp, gradients) for each, (*_, gradients) in pairs)
        metas = () if self.recorder.program.symbols else tuple(map(TensorMeta.of, self.backward.outs))
        with_grad = tuple(grad is not None for grad in self.run.first_grads) if self.guards.reads_grads else ()
        further = with_grad, alone, metas, tuple(self.backward.freed_with), tuple(self.backward.feeds)
        facts: Any = tuple(self.backward.reached), watched, repeatable, self.guards.changed_since, fresh, *further
        return Backward(function, run, tuple(self.backward.inputs), result, *facts)

    def _find_sharing(self, tensors: list[Any], numbers: Sequence[int]) -> tuple[int, ...]:
        """Return the positions of the tensors that share memory with one of the values `numbers`."""
        is_shared = self.recorder.memories_of(numbers)
        return tuple(i for i, t in enumerate(tensors) if is_shared(t._array))

    def _watch(self, half: Backward, saved: list[int], last: Part) -> None:
        """Emit the line that watches tensors that the call has created, if they share memory with saved values."""
        created = [(name, t) for t, name, _ in self.run.named.values() if name[0] != "t"]
        names = [created[i][0] for i in self._find_sharing([t for _, t in created], saved)]
        for run, program in zip(half.alone, self.alone, strict=True):
            read_values = [n for n in saved if n in _find_read_values(program) or n in program.outputs]
            run.watched = self._find_sharing(self.run.tensors, read_values)
        if names:
            last.lines.append(f"watch({self._name_result(self.backward.outs[0])}, ({', '.join(names)},))")

    def _name_result(self, t: Any) -> str:
        """Return the name of a result tensor in the source, a new one if it has none."""
        return str(self.run.named.setdefault(id(t), [t, f"r{len(self.run.named)}", 0])[1])

    def _rebuild(self, value: Any, part: Part) -> str:
        """Return the source expression of a result; append the lines that it needs to `part`."""
        kind = type(value)
        if kind in (RecordedFloat, RecordedInteger, SymbolicNumber):
            return str(value.expression)
        if isinstance(value, Variable):
            entry = self.run.named.get(id(value))
            if entry is not None:
                return str(entry[1])
            name = self._name_result(value)
            part.lines.append(f"{name} = {self.script.wrap(value, part)}")
            part.lines.extend([f"bump({name})"] * version_counter(value).version)
            return name
        if kind is tuple:
            return f"({''.join(f'{self._rebuild(each, part)}, ' for each in value)})"
        if kind in (list, dict):
            container = self.guards.containers.get(id(value))
            if container is not None:
                return container[1]
            if any(value is each for each in self.rebuilt):
                self.script.refuse(Code.RESULT, f"a {kind.__name__} is returned twice")
            self.rebuilt.append(value)
        if kind is list:
            return f"[{', '.join(self._rebuild(each, part) for each in value)}]"
        if kind is dict:
            items = (f"{self.script.bind(key)}: {self._rebuild(each, part)}" for key, each in value.items())
            return f"{{{', '.join(items)}}}"
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return f"{self.script.bind(kind)}({', '.join(self._rebuild(each, part) for each in value)})"
        if value is not None and self.recorder.foreign is not None:
            self.script.refuse(Code.OPTIMIZER, f"{self.recorder.foreign}, after which a number is returned")
        return self.script.bind(value)


def _find_read_values(program: Program) -> set[int]:
    return {n for call in program.calls for n in call.read}


def _find_new_values(program: Program) -> set[int]:
    """Return the numbers of the values that a program computes, excluding values that it reads before."""
    results: set[int] = set()
    read_before: set[int] = set()
    for call in program.calls:
        read_before.update(n for n in call.read if n not in results)
        results.update(n for n in call.outputs if n not in read_before)
    return results


def _with_mode(state: Any, mode: int, call: Callable[[], Any]) -> None:
    """Make a call under the thread's `mode` flags, such as grad mode."""
    previous_mode, state.mode = state.mode, mode
    try:
        call()
    finally:
        state.mode = previous_mode


def _undo(place: Any, number: int) -> int:
    """Rewind the random number generator to `place`; return the number of the guard that failed."""
    if place is not None:
        default_generator._state.assign(place)
    return number
