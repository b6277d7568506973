"""Compiled functions: programs by their guards, and what happens where there is none."""

from __future__ import annotations

import functools
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from gradcore.autograd.gradients import grad as gradients_of
from gradcore.autograd.modes import GRAD, local
from gradcore.autograd.variables import AutogradMeta, Variable, bump, new, version_counter
from gradcore.autograd.views import gradient_edge
from gradcore.backends.registry import CPU
from gradcore.compiler import emit_python
from gradcore.compiler.arrays import RecordedArray, current
from gradcore.compiler.guards import Guards, Unguardable, names_in
from gradcore.compiler.history import Backward, ReplayedCall, connect
from gradcore.compiler.passes import optimized, stages
from gradcore.compiler.program import Program, values_in
from gradcore.compiler.recorder import Recorder, Unrecordable, give_plain_arrays, recording_lock
from gradcore.compiler.watching import Watch
from gradcore.random.generator import default_generator
from gradcore.tensor import Tensor
from gradcore.tracebacks import generated_file, shorten

__all__ = ["CompiledFunction", "forget_programs"]

#: Programs that one function may have, for different arguments and modes.
MOST_PROGRAMS = 8

_generation = [0]


def forget_programs() -> None:
    """Let every compiled function begin anew."""
    _generation[0] += 1


class Entry:
    """A program with its guards."""

    def __init__(self, guards: Guards, run: Any, programs: list[Any], effects: list[str]) -> None:
        self.guards, self.run, self.programs, self.effects = guards, run, programs, effects


class CompiledFunction:
    """A function of which the first calls are recorded, and later ones run as programs.

    Parameters
    ----------
    function : callable
    fullgraph : bool
        Whether it is an error if the function cannot be recorded as a whole.
    """

    def __init__(self, function: Callable[..., Any], fullgraph: bool = False) -> None:
        functools.update_wrapper(self, function, updated=())
        self._function, self._fullgraph = function, fullgraph
        self._begin()

    def _begin(self) -> None:
        self._generation = _generation[0]
        self._entries: list[Entry] = []
        self._executed: set[types.CodeType] = set()
        self._users: set[types.CodeType] = set()
        self._computed_names = False
        self._left: str | None = None

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<compiled {self._function!r}>"

    def __call__(self, *args: Any, **named: Any) -> Any:
        if current.recorder is not None or self._generation != _generation[0]:
            if current.recorder is not None:
                return self._function(*args, **named)
            self._begin()
        for entry in self._entries:
            result = entry.run(args, named)
            if type(result) is not int:
                return result[0]
        return self._first(args, named)

    # -- calls for which there is no program --------------------------------------------------------------------

    def _first(self, args: Any, named: Any) -> Any:
        state = local.state
        if self._left is not None or state.mode & ~GRAD or state.batches or state.transforms or state.task is not None:
            return self._function(*args, **named)
        if len(self._entries) >= MOST_PROGRAMS:
            failed = self._entries[0].run(args, named)
            text = self._entries[0].guards.texts[failed] if type(failed) is int else ""
            self._leave(
                f"there are {MOST_PROGRAMS} programs of it already, and this guard keeps failing: {text}. Pass what "
                "changes as a tensor, or keep it the same"
            )
            return self._function(*args, **named)
        if not recording_lock.acquire(blocking=False):  # another thread is recording
            return self._function(*args, **named)
        try:
            return self._record(args, named) if self._executed else self._observe(args, named)
        finally:
            recording_lock.release()

    def _observe(self, args: Any, named: Any) -> Any:
        """Run the function as it is, and see which code it is made of."""
        watch = Watch()
        with watch.on():
            result = self._function(*args, **named)
        self._learn(watch)
        return result

    def _learn(self, watch: Watch, guards: Guards | None = None) -> bool:
        """Take note of what ran; returns whether that was known."""
        names = names_in(watch.executed)
        known = watch.user_codes <= self._users and watch.computed_names <= self._computed_names
        known = known and (guards is None or not (guards.skipped & names or guards.reads_grads < ("grad" in names)))
        self._executed |= watch.executed
        self._users |= watch.user_codes
        self._computed_names |= watch.computed_names
        if watch.refused is not None:
            self._leave(watch.refused)
        return known

    def _leave(self, why: str) -> None:
        """Run the function as it is from now on."""
        if self._left is None:
            self._left = why
            name = getattr(self._function, "__qualname__", type(self._function).__name__)
            text = f"compile: {name} runs as it is: {why}"
            if self._fullgraph:
                raise Unrecordable(text)
            warnings.warn(text, stacklevel=5)

    def _record(self, args: Any, named: Any) -> Any:
        guards = Guards(self._executed, self._computed_names)
        try:
            guards.modes()
            guards.visit(self._function, guards.bind(self._function), "the function")
            guards.visit(args, "args", "args", given=True)
            guards.visit(named, "named", "named", given=True)
        except (Unguardable, RecursionError) as error:
            self._leave(str(error))
            return self._function(*args, **named)
        check = guards.function_of()
        recorder, watch = Recorder(self._fullgraph), Watch()
        recorded = _Recorded(recorder, [guard.tensor for guard in guards.tensors])
        try:
            with recorder.on(), watch.on():
                recorded.begin()
                result = self._function(*args, **named)
                recorded.record_backward(result)
        except BaseException as error:
            recorded.end(None)
            shorten(error)
            raise
        recorded.end(result)
        known = self._learn(watch, guards)
        if self._left is not None or not known:
            return result
        for code in watch.user_codes - guards.codes:
            where = f"{code.co_filename}:{code.co_firstlineno}"
            recorded.refuse(f"{code.co_name} ({where}) is called, and found in a way that cannot be checked")
        failed = recorded.checked(lambda: check(args, named))
        if recorder.stopped is None and type(failed) is int:
            recorder.stopped = f"the function changes what it depends on: {guards.texts[failed]}"
        if recorder.stopped is not None:
            self._leave(recorder.stopped)
            return result
        self._entries.insert(0, recorded.entry(guards, self._function))
        guards.forget()
        return result

    # -- for readers ----------------------------------------------------------------------------------------------

    def explain(self, *args: Any, **named: Any) -> str:
        """Call the function until there is a program for these arguments, and describe it: guards, calls, source."""
        for _ in range(3):
            self(*args, **named)
            found = [entry for entry in self._entries if type(entry.guards.function_of()(args, named)) is not int]
            if found:
                entry = found[0]
                parts = ["guards:", *(f"  {each}" for each in entry.guards.texts)]
                for name, program in zip(("program:", "backward:"), entry.programs, strict=False):
                    parts += [name, *(f"  {line}" for line in repr(program).splitlines())]
                    after = program
                    for stage, after in stages(program):
                        parts += [f"{stage}:", *(f"  {line}" for line in repr(after).splitlines())]
                    text, _ = emit_python.source_of(after)
                    parts += [f"source of the {name}", *(f"  {line}" for line in text.splitlines())]
                parts += ["effects:", *(f"  {each}" for each in entry.effects)] if entry.effects else []
                return "\n".join(parts)
        return f"no program: {self._left}"


class _Recorded:
    """One recording: the tensors that take part, and how they were before.

    Parameters
    ----------
    recorder : Recorder
    tensors : list of Tensor
    """

    def __init__(self, recorder: Recorder, tensors: list[Any]) -> None:
        self.recorder, self.tensors = recorder, tensors
        self.arrays = [t._array for t in tensors]
        self.versions = [version_counter(t).version for t in tensors]
        self.grads = [None if t._autograd is None else t._autograd.grad for t in tensors]
        self.requires_grad = [t.requires_grad for t in tensors]
        self.result: Any = None
        #: The names of results in the source.
        self._made: dict[int, str] = {}
        #: Tensors with a history, the edge, and what else they had.
        self.histories: list[Any] = []
        #: The results that have a history, the numbers of the tensors with gradients, and in the program the numbers of
        #: the results' gradients and of these tensors' gradients; the calls before backward.
        self.outs: list[Any] = []
        self.inputs: list[int] = []
        self.given: list[int] = []
        self.gradients: list[int | None] = []
        self.mark = 0

    def begin(self) -> None:
        """Give the tensors arrays that are recorded; those with a history are leaves meanwhile."""
        for t, array in zip(self.tensors, self.arrays, strict=True):
            t._array = self.recorder.given(array)
            if t._edge is not None:
                self.histories.append((t, t._edge, t._autograd))
                t._edge, t._autograd = None, AutogradMeta()
                t._autograd.requires_grad = True

    def record_backward(self, result: Any) -> None:
        """Record, after the function, the gradients of its results that have a history."""
        outs = [t for t in _unique(_tensors_in(result, self.refuse)) if t._edge is not None]
        self.inputs = [i for i, t in enumerate(self.tensors) if t._autograd is not None and t._autograd.requires_grad]
        self.mark = len(self.recorder.program.calls)
        if not outs or self.recorder.stopped is not None:
            return
        self.outs = outs
        given = [self.recorder.apart(np.ones(t.shape, t._dtype.numpy)) for t in outs]
        self.given = [array.number for array in given]
        grads = [_wrapped(array, t._dtype) for array, t in zip(given, outs, strict=True)]
        inputs = [self.tensors[i] for i in self.inputs]
        found = gradients_of(outs, inputs, grads, retain_graph=True, allow_unused=True)
        if any(g is not None and not isinstance(g._array, RecordedArray) for g in found):
            self.refuse("a gradient is no recorded array")
            return
        self.gradients = [None if g is None else g._array.number for g in found]

    def end(self, result: Any) -> None:
        """Give all tensors plain arrays, and find out what the function has done to them."""
        recorder = self.recorder
        self.numbers = {id(known.array): known.number for known in recorder._known.values()}
        for t, _, _ in self.histories:
            if t._edge is not None:
                self.refuse("an argument with a history is written in place")
        for t, array in zip(self.tensors, self.arrays, strict=True):
            if isinstance(t._array, RecordedArray):
                t._array = t._array.array
            if t._array is not array:
                self.refuse("the memory of a tensor is replaced")
        edges: dict[Any, Any] = {_accumulator(t): edge for t, edge, _ in self.histories if t._edge is None}
        for t, edge, meta in self.histories:
            t._edge, t._autograd = edge, meta
        self.after = [None if t._autograd is None else t._autograd.grad for t in self.tensors]
        for t in (*_tensors_in(result, self.refuse), *(g for g in self.after if g is not None)):
            base = t._autograd and t._autograd.base
            for each in (t, base):
                if each is not None and isinstance(each._array, RecordedArray):
                    each._array = each._array.array

        outs = [] if result is None else [t._edge[0] for t in _tensors_in(result, _ignore) if t._edge is not None]
        give_plain_arrays(outs, edges)
        self.result = result
        for t, needed in zip(self.tensors, self.requires_grad, strict=True):
            if t.requires_grad is not needed:
                self.refuse("requires_grad of a tensor is changed, or a history is recorded into it")
        self._check_outputs()
        if recorder.release():
            self.refuse("the function keeps a tensor that it computes, beside what it returns")

    def checked(self, check: Callable[[], Any]) -> Any:
        """The outcome of the guards with the gradients that leaves had before."""
        leaves = [t for t in self.tensors if t._autograd is not None]
        before = [g for t, g in zip(self.tensors, self.grads, strict=True) if t._autograd is not None]
        after = [t._autograd.grad for t in leaves]
        for t, g in zip(leaves, before, strict=True):
            t._autograd.grad = g
        try:
            return check()
        finally:
            for t, g in zip(leaves, after, strict=True):
                t._autograd.grad = g

    def refuse(self, why: str) -> None:
        if self.recorder.stopped is None:
            self.recorder.stopped = why

    def _check_outputs(self) -> None:
        seen: list[Any] = list(self.tensors)
        for t in _tensors_in(self.result, self.refuse):
            if any(t is other for other in seen):
                continue
            if t.requires_grad and not any(t is out for out in self.outs):
                self.refuse("a result is a leaf that requires grad")
            if type(t) is not Tensor or t._device is not CPU:
                self.refuse("a result is no plain tensor of the CPU")
            elif any(np.may_share_memory(t._array, other._array) for other in seen):
                self.refuse("a result shares memory with an argument or with another result")
            seen.append(t)

    def entry(self, guards: Guards, function: Any) -> Entry:
        """The program, and the function that runs it for what passes the guards."""
        program = self.recorder.program
        scope: dict[str, Any] = {
            "check": guards.function_of(), "state_of": local, "bump": bump, "wrap": _wrapped, "failed": function,
            "generator": default_generator, "connect": connect, "Call": ReplayedCall,
        }  # fmt: skip
        effects: list[str] = []
        lines: list[str] = []
        outputs: list[int] = []

        def value(array: Any) -> str:
            outputs.append(self.numbers[id(array)])
            return f"values[{len(outputs) - 1}]"

        for i, (before, after) in enumerate(zip(self.grads, self.after, strict=True)):
            if after is not before:
                given = "None" if after is None else f"wrap({value(after._array)}, {_bound(scope, after._dtype)})"
                lines.append(f"tensors[{i}]._autograd.grad = {given}")
                effects.append(f"{guards.tensors[i].name}.grad is {'None' if after is None else 'set'}")
        counters: list[Any] = []
        for i, (t, version) in enumerate(zip(self.tensors, self.versions, strict=True)):
            counter = version_counter(t)
            if counter.version > version and not any(counter is other for other in counters):
                counters.append(counter)
                lines += [f"bump(tensors[{i}])"] * (counter.version - version)
                effects.append(f"{guards.tensors[i].name} is written in place")
        draws, writes = self.recorder.draws_default, bool(counters)
        programs = [program]
        if self.outs:
            arrays = "".join(f"{value(t._array)}, " for t in self.outs)
            backward, saved = self._split(program)
            programs.append(backward)
            start = len(outputs)
            outputs += saved
            half = _bound(scope, self._backward(function, backward, saved, not effects))
            call = f"Call(tensors, args, named, {'place' if draws else 'None'})"
            made = "".join(f"{self._named(t)}, " for t in self.outs)
            lines.append(f"{made}= connect({half}, ({arrays}), values[{start}:{start + len(saved)}], {call})")
        result = self._rebuilt(self.result, value, scope)
        program.outputs = outputs
        order = [program.inputs.index(self.numbers[id(a)]) for a in self.arrays]
        first = [order.index(i) for i in range(len(program.inputs))]
        same = [f"arrays[{i}] is not arrays[{first[n]}]" for i, n in enumerate(order) if first[n] != i]
        scope["program"] = emit_python.function_of(optimized(program))
        given = "*arrays" if not same else ", ".join(f"arrays[{i}]" for i in first)
        text = [
            "def run(args, named):",
            "    found = check(args, named)",
            "    if type(found) is int: return found",
            "    tensors, arrays = found",
            *([f"    if {' or '.join(same)}: return 0"] if same else []),
            f"    place = {'generator._state.copy()' if draws else 'None'}",
            "    try:",
            f"        values = state_of.state.run(program, {given})",
            "    except Exception:",
            *(["        generator._state.assign(place)"] if draws and not writes else []),
            "        raise" if writes else "        return (failed(*args, **named),)",
            "    return (finish(tensors, values, args, named, place),)",
            "def finish(tensors, values, args, named, place):",
            *(f"    {line}" for line in lines),
            f"    return {result}",
        ]
        source = "\n".join(text)
        exec(compile(source, generated_file(__name__, source), "exec"), scope)
        return Entry(guards, scope["run"], programs, effects)

    def _split(self, program: Program) -> tuple[Program, list[int]]:
        """Cut the program where backward begins; returns that part and the values that it needs of the first."""
        backward = Program()
        backward.literals, backward.scalars, backward.types = program.literals, program.scalars, program.types
        backward.calls = program.calls[self.mark :]
        del program.calls[self.mark :]
        known = {*program.inputs, *(n for call in program.calls for n in values_in(call.results))}
        backward.outputs = [n for n in self.gradients if n is not None]
        used = [n for call in backward.calls for n in (*values_in(call.args), *values_in(call.named))]
        saved = sorted(known.intersection([*used, *backward.outputs]))
        backward.inputs = [*saved, *self.given]
        return backward, saved

    def _backward(self, function: Any, program: Program, saved: list[int], repeatable: bool) -> Backward:
        arrays = [self.recorder.kept(n) for n in saved]

        def watched(tensors: list[Any]) -> tuple[int, ...]:
            return tuple(i for i, t in enumerate(tensors) if any(np.may_share_memory(t._array, a) for a in arrays))

        found = tuple(n is not None for n in self.gradients)
        run = emit_python.function_of(optimized(program))
        fresh = not set(program.outputs) & set(program.inputs) and len(set(program.outputs)) == len(program.outputs)
        seen = watched(self.tensors), watched(self.outs)
        return Backward(function, _with_history, run, tuple(self.inputs), found, *seen, repeatable, fresh)

    def _named(self, t: Any) -> str:
        return self._made.setdefault(id(t), f"made{len(self._made)}")

    def _rebuilt(self, value: Any, array: Callable[[Any], str], scope: dict[str, Any]) -> str:
        """The expression of a result."""
        kind = type(value)
        if isinstance(value, Variable):
            for i, t in enumerate(self.tensors):
                if t is value:
                    return f"tensors[{i}]"
            made = self._made.get(id(value))
            if made is None:
                dtype = _bound(scope, value._dtype)
                made = self._made[id(value)] = f"made{len(self._made)}"
                return f"({made} := wrap({array(value._array)}, {dtype}))"
            return made
        if kind is tuple:
            return f"({''.join(f'{self._rebuilt(each, array, scope)}, ' for each in value)})"
        if kind is list:
            return f"[{', '.join(self._rebuilt(each, array, scope) for each in value)}]"
        if kind is dict:
            parts = [f"{_bound(scope, key)}: {self._rebuilt(each, array, scope)}" for key, each in value.items()]
            return f"{{{', '.join(parts)}}}"
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return f"{_bound(scope, kind)}({', '.join(self._rebuilt(each, array, scope) for each in value)})"
        return _bound(scope, value)


def _bound(scope: dict[str, Any], value: Any) -> str:
    name = f"k{len(scope)}"
    scope[name] = value
    return name


def _wrapped(array: Any, dtype: Any) -> Any:
    """A tensor of the CPU without history."""
    t = new(Tensor)
    t._array, t._device, t._dtype = array, CPU, dtype
    t._edge = t._autograd = t._vc = None
    return t


def _accumulator(t: Any) -> Any:
    edge: Any = gradient_edge(t)
    return edge[0]


def _ignore(why: str) -> None:
    """Nothing: what is refused has been seen before."""


def _with_history(result: Any) -> list[Any]:
    """The tensors in a result that have a history, each once."""
    return [t for t in _unique(_tensors_in(result, _ignore)) if t._edge is not None]


def _unique(tensors: list[Any]) -> list[Any]:
    return list({id(t): t for t in tensors}.values())


def _tensors_in(value: Any, refuse: Callable[[str], None]) -> list[Any]:
    """The tensors in a result; what cannot be made again is refused."""
    if isinstance(value, Variable):
        return [value]
    if type(value) in (tuple, list) or (isinstance(value, tuple) and hasattr(value, "_fields")):
        return [t for each in value for t in _tensors_in(each, refuse)]
    if type(value) is dict:
        return [t for each in value.values() for t in _tensors_in(each, refuse)]
    if not (value is None or type(value) in (bool, int, float, complex, str)):
        refuse(f"a result is a {type(value).__name__}")
    return []
