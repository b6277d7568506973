"""One recorded run: what a function does with tensors besides calls on arrays, and the source of what does it again.

Gradients that are set, versions, host calls and results are noted as lines of Python, in their order. Host calls cut
the calls on arrays into parts, each of which is a `Program`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass
from types import FrameType
from typing import Any, NamedTuple

from gradcore.autograd.gradients import grad as gradients_of
from gradcore.autograd.modes import GRAD, local
from gradcore.autograd.node import FREED
from gradcore.autograd.variables import Variable, bump, new, version_counter
from gradcore.autograd.views import gradient_edge
from gradcore.backends.registry import CPU
from gradcore.compiler import cuda, native
from gradcore.compiler.arrays import RecordedArray, current
from gradcore.compiler.effects import Effects, is_total
from gradcore.compiler.guards import Guards
from gradcore.compiler.history import Backward, connect, connect_one, freed, is_planned, without_history
from gradcore.compiler.host_calls import HOST_CLASSES, runs_user_code
from gradcore.compiler.numbers import RecordedFloat, RecordedInteger, is_followed, plain_numbers, recorded_number
from gradcore.compiler.optimizer_steps import PlannedStep, planned
from gradcore.compiler.passes import optimized
from gradcore.compiler.program import Program
from gradcore.compiler.recorder import Recorder, Unrecordable, give_plain_arrays, user_frame, user_line
from gradcore.compiler.sizes import SymbolicNumber
from gradcore.compiler.storage import share_memory
from gradcore.nn.module import Module
from gradcore.nn.module_hooks import _Call
from gradcore.random.generator import default_generator
from gradcore.tensor import Tensor
from gradcore.tracebacks import generated_file

__all__ = ["Entry", "RecordedRun"]


class Entry(NamedTuple):
    """A program with its guards.

    Attributes
    ----------
    guards : Guards
    run : callable
        Of the arguments and the named ones, the result in a tuple, or the number of the guard that failed.
    programs, names : list
        The parts, and that of backward, if there is one; and what they are called.
    effects : list of str
        What else the program does, in words.
    functions : list of function
        Those of the programs.
    decides : bool
        Whether it computes something to find out if it is the program to run.
    sizes : Sizes or None
        Those that it is a program for, if it is one for many; see `gradcore.compiler.symbolic`.
    """

    guards: Guards
    run: Callable[..., Any]
    programs: list[Program]
    names: list[str]
    effects: list[str]
    functions: list[Any]
    decides: bool
    sizes: Any = None


@dataclass
class Part:
    """A part of the program: the calls before `end`, and the lines after them, which need values of these numbers.

    Attributes
    ----------
    writes : bool
        Whether its calls write to tensors from outside.
    is_final : bool
        Whether its lines change tensors or objects: from there on, the function cannot be called again instead.
    """

    end: int
    lines: list[str]
    needed: set[int]
    writes: bool = False
    is_final: bool = True


class RecordedRun:
    """One recording: the tensors that take part, and how they were before.

    Parameters
    ----------
    recorder : Recorder
    guards : Guards
    reads_grads : bool
        Whether code of the user's may read gradients.
    """

    def __init__(self, recorder: Recorder, guards: Guards, reads_grads: bool) -> None:
        self.reads_grads = reads_grads
        self.recorder, self.guards = recorder, guards
        self.tensors = [guard.tensor for guard in guards.tensors]
        self.arrays = [t._array for t in self.tensors]
        self.first_grads = [_grad_of(t) for t in self.tensors]
        self.requires_grad = [t.requires_grad for t in self.tensors]
        self.mode = local.state.mode
        self.result: Any = None
        #: Tensors that lines can name: by their ids the tensor, its name, and the version that is accounted for.
        self.named: dict[int, list[Any]] = {
            id(t): [t, f"t{i}", version_counter(t).version] for i, t in enumerate(self.tensors)
        }
        #: Arguments with a history: how they were before, see `_state_of_history`.
        self.histories: dict[int, tuple[Any, ...]] = {}
        #: The results that have a history, the numbers of the tensors with gradients, and in the program the numbers of
        #: the results' gradients and of these tensors' gradients; the calls before backward.
        self.outs: list[Any] = []
        self.freed: list[Any] = []
        self.inputs: list[int] = []
        self.given: list[int] = []
        self.gradients: list[int | None] = []
        self.mark = 0
        #: The values that are given, and which tensors' arrays they are.
        self.arguments: dict[int, int] = {}
        self.scope: dict[str, Any] = {}
        self.parts: list[Part] = []
        self.effects: list[str] = []
        #: The values of the program that are numbers, by their expressions.
        self.numbers: dict[str, int] = {}
        #: The steps of optimisers that are parts of the program.
        self.steps: list[PlannedStep] = []
        #: Where the default generator was.
        self.place = default_generator._state.copy()
        #: The frame that calls the function; None before, and when it has returned.
        self.caller: FrameType | None = None

    def begin(self, caller: FrameType) -> None:
        """Give the tensors arrays that are recorded."""
        self.recorder.on_host_call, self.recorder.on_item, self.caller = self.host_call, self.item, caller
        self.recorder.on_backward, self.recorder.on_number = self.backward_runs, self.given_number
        for i, (t, array) in enumerate(zip(self.tensors, self.arrays, strict=True)):
            t._array = self.recorder.given(array)
            self.arguments.setdefault(t._array.number, i)
            if t._edge is not None:
                self.histories[i] = _state_of_history(t)
        self.grads = [_grad_of(t) for t in self.tensors]

    def backward_runs(self, task: Any) -> None:
        """Stop where a backward call may lead into the history of an argument: in the next call, it is another one."""
        histories = {edge[0]: i for i, (edge, *_) in self.histories.items()}
        if not histories or self.caller is None:
            return
        edges: list[Any] = [gradient_edge(self.tensors[i]) for i in self._inputs()]
        outside = {*histories, *(edge[0] for edge in edges)}
        wanted = {*task.captures}
        for node in _reached([root[0] for root in task.roots], histories):
            if (
                not wanted
                or task.accumulate
                or wanted & outside - {node}
                or (node in wanted and node._hooks is not None)
            ):
                self.recorder.stop("gradients are computed through the history of an argument")
            elif node in wanted:
                i = histories[node]
                self.guards.require(f"t{i}._edge[0]._hooks is None", f"{self.guards.tensors[i].name} has no hooks")

    def _inputs(self) -> list[int]:
        """The tensors that gradients go to: leaves, and arguments with a history."""
        return [i for i, t in enumerate(self.tensors) if i in self.histories or _accumulates(t)]

    def record_backward(self, result: Any) -> None:
        """Record, after the function, the gradients of its results that have a history."""
        self.caller = None
        given = {id(t) for t in self.tensors}
        outs = [t for t in _with_history(result, self.refuse) if id(t) not in given]
        self.inputs = self._inputs()
        self.mark = len(self.recorder.program.calls)
        for i, before in self.histories.items():
            if _state_of_history(self.tensors[i]) != before:
                self.refuse("an argument with a history is written in place, detached, or given a hook")
        if not outs or self.recorder.stopped is not None:
            return
        with without_history([self.tensors[i] for i in self.histories]):
            self._record_backward(outs)

    def _record_backward(self, outs: list[Any]) -> None:
        if not self._record_gradients(outs):
            self.freed = [t for t in outs if not self._record_gradients([t])]
            del self.recorder.program.calls[self.mark :]
            outs = [t for t in outs if not any(t is other for other in self.freed)]
            if outs and not self._record_gradients(outs):
                self.refuse("the graph of a result is freed in part")

    def _record_gradients(self, outs: list[Any]) -> bool:
        """Record the gradients of some results; returns whether their graph is there."""
        given = [self.recorder.ones(t) for t in outs]
        grads = [_wrapped(array, t._dtype, t._device) for array, t in zip(given, outs, strict=True)]
        inputs = [self.tensors[i] for i in self.inputs]
        try:
            found = gradients_of(outs, inputs, grads, retain_graph=True, allow_unused=True)
        except Unrecordable:
            raise
        except RuntimeError as error:
            if str(error) != FREED:
                self.refuse(f"the gradients of a result cannot be computed: {error}")
            return str(error) != FREED
        if any(g is not None and not (g._strided and isinstance(g._array, RecordedArray)) for g in found):
            self.refuse("a gradient is no recorded array")
            return True
        if any(t._device is not outs[0]._device for t in outs):
            self.refuse("results with a history are on several devices")
            return True
        self.outs, self.given = outs, [array.number for array in given]
        self.gradients = [None if g is None else g._array.number for g in found]
        return True

    # -- numbers that the function reads ----------------------------------------------------------------------------

    def item(self, array: RecordedArray) -> Any:
        """The only element of an array: a recorded number, or one that decides which program it is."""
        recorder, plain = self.recorder, self.recorder.backend_of(array.array)
        value = array.array.item() if plain is None else plain.item(array.array)
        if recorder.stopped is not None:
            return value
        if recorder.fullgraph or self.caller is None or type(value) not in (bool, int, float):
            recorder.stop("elements of a tensor are read")
        elif type(value) is not bool and self._is_followed():
            name = f"n{len(self.parts)}"
            self._cut(f"{name} = {self._item(array)}", array.number)
            return recorded_number(value, name, self)
        elif type(value) is not float:
            self._decide(self._item(array), value, array.number)
        else:
            recorder.stop("elements of a tensor are read")
        return value

    def _item(self, array: RecordedArray) -> str:
        """The expression of an array's only element."""
        name, backend = self._value(array.number), self.recorder.backend_of(array.array)
        return f"{name}.item()" if backend is None else f"{self._bound(backend.item)}({name})"

    def _is_followed(self) -> bool:
        """Whether the user's function uses the number in ways that recorded numbers see."""
        watch, frame = sys.getprofile(), sys._getframe()
        sys.setprofile(None)
        try:
            while frame.f_code is not Tensor.item.__code__:
                if frame.f_back is None:
                    return False
                frame = frame.f_back
            own = frame.f_back
            return own is not None and own is user_frame() and is_followed(own, _called_by(own) is self.caller)
        finally:
            sys.setprofile(watch)

    def _cut(self, line: str, *numbers: int) -> None:
        """End a part of the program with a line that needs some values, and changes nothing."""
        self.parts.append(Part(len(self.recorder.program.calls), [line], {*numbers}, not self._is_pure(), False))

    def _is_pure(self) -> bool:
        """Whether nothing was done so far that a second run would do again."""
        return not any(part.is_final for part in self.parts) and not Effects(self.recorder.program).writes_to_given

    def _decide(self, expression: str, value: Any, *numbers: int) -> None:
        """Let this be the program for runs in which an expression has that value."""
        if not self._is_pure():
            self.recorder.stop("elements of a tensor are read, after something was written in place or called")
            return
        number = len(self.guards.texts)
        self.guards.texts.append(f"the value {value!r} of what is read in {user_line()}")
        self._cut(f"if {expression} != {self._bound(value)}: return undone(place, {number})", *numbers)

    def computed(self, value: Any, symbol: str, *operands: Any) -> Any:
        """The outcome of an operator with recorded numbers."""
        if self.recorder.stopped is not None or current.recorder is not self.recorder:
            return value
        if any(type(plain_numbers(each)) not in (bool, int, float) for each in operands):
            self.recorder.stop("elements of a tensor are computed with, together with what is no number")
            return value
        divisor = operands[-1] if symbol in ("/", "//", "%") else 1
        if plain_numbers(divisor) is not divisor or type(value) not in (bool, int, float):
            self.recorder.stop("numbers are divided by an element of a tensor")
            return value
        names = [getattr(each, "expression", None) or self._bound(each) for each in operands]
        expression = f"({f' {symbol} '.join(names)})" if len(names) == 2 else f"({symbol}{names[0]})"
        if type(value) is not bool:
            return recorded_number(value, expression, self)
        self._decide(expression, value)
        return value

    def given_number(self, value: RecordedFloat) -> int:
        """The number of the value that a computed float is for the calls on arrays after it."""
        number = self.numbers.get(value.expression)
        if number is None:
            number = self.numbers[value.expression] = self.recorder.new_value()
            self.parts[-1].lines.append(f"v{number} = {value.expression}")
        return number

    # -- what the function does with tensors ------------------------------------------------------------------------

    def host_call(self, host: Any, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Make a host call, and note it with what comes before it."""
        foreign = runs_user_code(host)
        self._check_host_call(host, name, [*args, *named.values()], foreign)
        stopped = self.recorder.stopped is not None
        if stopped and any(map(callable, (*args, *named.values()))):
            return self.recorder.within(host, name, args, named)
        if not stopped:
            part = self._changes()
            given = [self._argument(each, part) for each in args]
            given += [f"{key}={self._argument(each, part)}" for key, each in named.items()]
            call = f"{self._bound(host)}.{name}({', '.join(given)})"
            mode = local.state.mode
            part.lines.append(call if mode == self.mode else f"with_mode(state, {mode}, lambda: {call})")
            mark = len(part.lines)
            self.effects.append(f"{type(host).__name__}.{name} is called")
        grads = [grad for grad in map(_grad_of, self.tensors) if grad is not None]
        tensors = [*self.tensors, *grads, *(known[0] for known in self.named.values()), *_tensors_in(args, _ignore)]
        result = self._made_by_host(
            tensors, foreign or stopped, host, name, lambda: getattr(host, name)(*args, **named)
        )
        if foreign:
            self.recorder.foreign = f"{type(host).__name__}.{name} runs functions of yours"
        if result is not None:
            self.recorder.stop(f"{name} of {type(host).__name__} returns something")
        if not stopped:
            self._account_for_host_call()
            if name == "step" and not (args or named or foreign):
                part.lines[mark - 1 :] = self._planned(host, part, part.lines[-1])
        return result

    def _made_by_host(self, tensors: list[Any], every: bool, host: Any, name: str, call: Callable[[], Any]) -> Any:
        """Make a host call as it is."""
        with self.recorder.off():
            return self._with_plain_arrays(tensors, every, call)

    def _planned(self, optimizer: Any, part: Part, call: str) -> list[str]:
        """Lines that take the step of an optimiser as a part of the program, if they can; else by its method."""
        step = None
        with self.recorder.off():
            tensors = [*self.tensors, *[grad for grad in self.grads if grad is not None]]
            step = self._with_plain_arrays(tensors, False, lambda: planned(optimizer, self.recorder.cpp))
        if step is None:
            return [call]
        given, known = [], f"x{len(self.steps)}"
        place = 0
        for params, states in step.arrays():
            own = [[p._array for p in params], [p._autograd.grad._array for p in params]]
            given.append(f"{known}[{place}]")
            for array in (*own[0], *own[1]):
                number = self._number(array)
                if number is None:
                    return [call]
                part.needed.add(number)
                given.append(self._value(number))
            given += [f"{known}[{place + 1 + i}]" for i in range(states)]
            place += 1 + states
        self.steps.append(step)
        name = self._bound(step)
        return [
            f"{known} = {name}.prepare()", f"if {known} is None: {call}",
            f"else: {name}.run({', '.join(given)}); {name}.finish()",
        ]  # fmt: skip

    def _check_host_call(self, host: Any, name: str, args: list[Any], foreign: bool) -> None:
        state, stop = local.state, self.recorder.stop
        if state.task is not None or state.batches or state.transforms:
            stop(f"{name} is called within a transformation, or in a backward")
        if state.mode & ~GRAD != self.mode & ~GRAD:
            stop(f"{name} is called in another mode")
        for each in args:
            if isinstance(each, Variable):
                if foreign:
                    stop(f"{name} of {type(host).__name__}, which runs functions of yours, is given a tensor")
            elif not (each is None or type(each) in (bool, int, float, str) or isinstance(each, HOST_CLASSES)):
                stop(f"{name} of {type(host).__name__} is given a {type(each).__name__}")

    def _argument(self, value: Any, part: Part) -> str:
        if not isinstance(value, Variable):
            return self._bound(value)
        known = self.named.get(id(value))
        if known is None:
            made = self._wrap(value, part)
            return f"freed({made})" if value._edge is not None else made
        return str(known[1])

    def _with_plain_arrays(self, tensors: list[Any], every: bool, call: Callable[[], Any]) -> Any:
        """Make a call while tensors have plain arrays."""
        before = [(t, t._array) for t in _unique(tensors) if isinstance(t._array, RecordedArray)]
        for t, recorded in before:
            t._array = recorded.array
        if every:
            self.recorder.give_all_plain_arrays()
        try:
            return call()
        finally:
            for t, recorded in before:
                if t._array is recorded.array:
                    t._array = recorded
                else:
                    self.refuse("the memory of a tensor is replaced")

    def _account_for_host_call(self) -> None:
        """Take what tensors are now as what the host call leaves."""
        self.grads = [_grad_of(t) for t in self.tensors]
        for grad in self.grads:
            if grad is not None and not isinstance(grad._array, RecordedArray):
                self.refuse("a step replaces a gradient")
        for known in self.named.values():
            known[2] = version_counter(known[0]).version

    def _changes(self) -> Part:
        """The part of the program up to here, and the changes of tensors since the last one."""
        part = Part(len(self.recorder.program.calls), [], set())
        self.parts.append(part)
        after = [_grad_of(t) for t in self.tensors]
        for i, (before, grad) in enumerate(zip(self.grads, after, strict=True)):
            if grad is before:
                continue
            if not self.requires_grad[i] or i in self.histories:
                self.refuse("the gradient of a tensor is set that has a history, or does not require grad")
            self.effects.append(f"{self.guards.tensors[i].name}.grad is {'None' if grad is None else 'set'}")
            part.lines.append(f"t{i}._autograd.grad = {self._gradient(grad, part)}")
        self.grads = after
        counters: list[Any] = []
        for t, name, version in self.named.values():
            counter = version_counter(t)
            if counter.version > version and not any(counter is other for other in counters):
                counters.append(counter)
                part.lines.extend([f"bump({name})"] * (counter.version - version))
                if name[0] == "t":
                    part.writes = True
                    self.effects.append(f"{self.guards.tensors[int(name[1:])].name} is written in place")
        for known in self.named.values():
            known[2] = version_counter(known[0]).version
        return part

    def _gradient(self, grad: Any, part: Part) -> str:
        if grad is None:
            return "None"
        known = self.named.get(id(grad))
        if known is None:
            if type(grad) is not Tensor or grad._edge is not None or not self.recorder.records(grad._device):
                self.refuse("a gradient has a history, or is no plain tensor of the CPU or of CUDA")
            known = self.named[id(grad)] = [grad, f"g{len(self.named)}", 0]
            return f"({known[1]} := {self._wrap(grad, part)})"
        return str(known[1])

    def _wrap(self, t: Any, part: Part) -> str:
        number = self._number(t._array)
        if number is None:
            return "None"
        part.needed.add(number)
        device = "" if t._device is CPU else f", {self._bound(t._device)}"
        return f"wrap({self._value(number)}, {self._bound(t._dtype)}{device})"

    def _number(self, array: Any) -> int | None:
        number = array.number if isinstance(array, RecordedArray) else self.recorder.number_of(array)
        if number is None:
            self.refuse("a tensor is used that is found in a way that cannot be checked")
        return number

    def _value(self, number: int) -> str:
        """The name of a value in the source."""
        return f"a{self.arguments[number]}" if number in self.arguments else self.recorder.program.name_of(number)

    def _bound(self, value: Any) -> str:
        name = f"c{len(self.scope)}"
        self.scope[name] = value
        return name

    def refuse(self, why: str) -> None:
        """Have no program, for this reason."""
        if self.recorder.stopped is None:
            self.recorder.stopped = why

    # -- the end of the recording -------------------------------------------------------------------------------------

    def end(self, result: Any) -> None:
        """Give all tensors plain arrays, and find out what the function has done to them."""
        recorder = self.recorder
        if recorder.stopped is None:
            calls = recorder.program.calls
            backward, calls[self.mark :] = calls[self.mark :], []
            self._changes()
            calls += backward
        for t, array in zip(self.tensors, self.arrays, strict=True):
            if isinstance(t._array, RecordedArray):
                t._array = t._array.array
            if t._array is not array:
                self.refuse("the memory of a tensor is replaced")
        grads = [grad for grad in map(_grad_of, self.tensors) if grad is not None]
        for t in (*_tensors_in(result, self.refuse), *grads, *(known[0] for known in self.named.values())):
            base = t._autograd and t._autograd.base
            for each in (t, base):
                if each is not None and each._strided and isinstance(each._array, RecordedArray):
                    each._array = each._array.array
        outs = [*_tensors_in(result, _ignore), *(self.tensors[i] for i in self.histories)]
        ends = [edge[0] for edge, *_ in self.histories.values()]
        give_plain_arrays([t._edge[0] for t in outs if t._edge is not None], ends)
        self.result = result
        for t, needed in zip(self.tensors, self.requires_grad, strict=True):
            if t.requires_grad is not needed:
                self.refuse("requires_grad of a tensor is changed, or a history is recorded into it")
        self._check_outputs()
        if recorder.release():
            self.refuse("the function keeps a tensor that it computes, beside what it returns")

    def checked(self, check: Callable[[], Any]) -> Any:
        """The outcome of the guards with the gradients that leaves had before."""
        leaves = [(t, grad) for t, grad in zip(self.tensors, self.first_grads, strict=True) if t._autograd is not None]
        after = [t._autograd.grad for t, _ in leaves]
        for t, grad in leaves:
            t._autograd.grad = grad
        try:
            return check()
        finally:
            for (t, _), grad in zip(leaves, after, strict=True):
                t._autograd.grad = grad

    def _check_outputs(self) -> None:
        named = [known[0] for known in self.named.values()]
        seen: list[Any] = list(self.tensors)
        if any(vars(t) for t in self.tensors):
            self.refuse("an attribute of a tensor is set")
        for t in _tensors_in(self.result, self.refuse):
            if vars(t):
                self.refuse("an attribute of a tensor is set")
            if any(t is other for other in (*seen, *named)):
                continue
            if t.requires_grad and not any(t is out for out in (*self.outs, *self.freed)):
                self.refuse("a result is a leaf that requires grad")
            meta = t._autograd
            if meta is not None and (meta.inference or meta.tangents or meta.retains_grad):
                self.refuse("a result retains its gradient, has tangents, or is of inference mode")
            if type(t) is not Tensor or not self.recorder.records(t._device):
                self.refuse("a result is no plain tensor of the CPU or of CUDA")
            elif any(share_memory(t._array, other._array) for other in seen):
                self.refuse("a result shares memory with an argument or with another result")
            seen.append(t)

    # -- the source ---------------------------------------------------------------------------------------------------

    def entry(self, function: Any) -> Entry:
        """The program, and the function that runs it for what passes the guards."""
        last = self.parts[-1]
        outs = [self._number(t._array) for t in self.outs]
        backward, saved = self._split()
        last.needed.update(n for n in (*outs, *saved) if n is not None)
        if self.outs:
            repeatable = not self.effects
            half = self._backward(function, backward, saved, repeatable)
            names, kept = ([self._value(n) for n in each if n is not None] for each in (outs, saved))
            made = "".join(f"{self._made(t)}, " for t in self.outs)
            tensors = "".join(f"t{i}, " for i in range(len(self.tensors)))
            call = f"({''.join(f'{name}, ' for name in kept)}), (({tensors}), args, named, place)"
            if len(outs) == 1 and is_planned(half):
                dtype, device = self._bound(self.outs[0]._dtype), self._bound(self.outs[0]._device)
                line = f"{made[:-2]} = connect_one({self._bound(half)}, {names[0]}, {dtype}, {device}, {call})"
            else:
                device = self._bound(self.outs[0]._device)
                line = f"{made}= connect({self._bound(half)}, {device}, ({''.join(f'{n}, ' for n in names)}), {call})"
            last.lines.append(line)
        for t in self.freed:
            last.lines.append(f"{self._made(t)} = freed({self._wrap(t, last)})")
        result = self._rebuilt(self.result, last)
        programs = self._programs()
        self._leave_out_gradients(programs, [result, *(line for part in self.parts for line in part.lines)])
        self._check_errors(programs)
        source = self._source(programs, result)
        self.scope |= {
            **self.guards.scope, "bump": bump, "wrap": _wrapped, "failed": function, "generator": default_generator,
            "connect": connect, "connect_one": connect_one, "freed": freed, "with_mode": _with_mode, "undone": _undone,
        }  # fmt: skip
        runs = [self._runnable(program) for program in programs]
        self.scope |= {f"program{i}": run for i, run in enumerate(runs)}
        exec(compile(source, generated_file(__name__, source), "exec"), self.scope)
        shown = [program for program in programs if program.calls]
        runs = [run for run, program in zip(runs, programs, strict=True) if program.calls]
        names = ["program"] if len(shown) == 1 else [f"part {i + 1}" for i in range(len(shown))]
        if self.outs:
            shown, names, runs = [*shown, backward], [*names, "backward"], [*runs, half.run]
        for step in self.steps:
            names.append(f"step of {type(step.optimizer).__name__}")
            shown.append(step.program)
            runs.append(step.run)
        decides = any(not part.is_final for part in self.parts)
        return Entry(self.guards, self.scope["run"], shown, names, self.effects, runs, decides)

    def _check_errors(self, programs: list[Program]) -> None:
        """Refuse calls whose errors may be caught after something was changed: the function cannot be called again."""
        changed = False
        for part, program in zip(self.parts, programs, strict=True):
            risky = [call for call in program.calls if any(call is each for each in self.recorder.caught)]
            if (changed or part.writes) and not all(is_total(call, program) for call in risky):
                self.refuse("an error may have to be caught after something was changed")
            changed = changed or part.writes or part.is_final

    def _runnable(self, program: Program) -> Any:
        """The function that one of the writers makes of a program."""
        program = optimized(program)
        if program.backend is not None:
            given = {n for n, i in self.arguments.items() if self.guards.tensors[i].given}
            return cuda.runnable(program, self.recorder.graphs, frozenset([*given, *self.given]))
        return native.runnable(program, self.recorder.cpp)

    def _programs(self) -> list[Program]:
        """A program for each part, of what it reads, with the results that are needed after it."""
        whole, start = self.recorder.program, 0
        programs = []
        for part in self.parts:
            program = _like(whole, whole.calls[start : part.end])
            program.inputs = sorted(_used(program) - _made_in(program))
            programs.append(program)
            start = part.end
        for i, program in enumerate(programs):
            later = {n for part in self.parts[i:] for n in part.needed}
            later |= {n for after in programs[i + 1 :] for n in after.inputs}
            program.outputs = sorted(later & _made_in(program))
        return programs

    def _source(self, programs: list[Program], result: str) -> str:
        draws = self.recorder.draws_default
        lines = [f"place = {'generator._state.copy()' if draws else 'None'}"]
        can_fail = True
        for i, (part, program) in enumerate(zip(self.parts, programs, strict=True)):
            if program.calls:
                call = ", ".join([f"program{i}", *map(self._value, program.inputs)])
                target = f"[{', '.join(map(self._value, program.outputs))}] = " if program.outputs else ""
                lines += ["try:"] * can_fail
                lines += [f"{' ' * can_fail}{line}" for line in (
                    f"try: {target}state.enter({call})",
                    f"except RuntimeError as error: {target}state.reenter(error)({call})",
                )]  # fmt: skip
                if can_fail:
                    lines.append("except Exception:")
                    lines += [" generator._state.assign(place)"] if draws and not part.writes else []
                    lines.append(" raise" if part.writes else " return (failed(*args, **named),)")
            lines += part.lines
            can_fail = can_fail and not (part.writes or part.is_final)
        same = [f"if a{i} is not a{self.arguments[n]}: return 0" for i, n in self._given_twice()]
        same += self._size_checks()
        return "\n ".join(["def run(args, named):", *self.guards.checks(), *same, *lines, f"return ({result},)"])

    def _size_checks(self) -> list[str]:
        """Lines that return if the sizes are not known to be those of the program."""
        return []

    def _leave_out_gradients(self, programs: list[Program], lines: list[str]) -> None:
        """Leave gradients unchecked that are reset before anything reads them."""
        if self.reads_grads:
            return
        text = "\n".join(lines)
        numbers = [self._number(array) for array in self.arrays]
        used = {n for program in programs for n in program.inputs} | {n for n in numbers if numbers.count(n) > 1}
        for i, guard in enumerate(self.guards.tensors):
            if guard.lines.stop and numbers[i] not in used and not re.search(rf"\b[ta]{i}\b", text):
                self.guards.leave_out(i)

    def _given_twice(self) -> list[tuple[int, int]]:
        """The tensors whose arrays are those of others, and the numbers of these."""
        numbers = [self._number(array) for array in self.arrays]
        return [(i, n) for i, n in enumerate(numbers) if n is not None and self.arguments[n] != i]

    def _split(self) -> tuple[Program, list[int]]:
        """Cut the program where backward begins; returns that part and the values that it needs of the first."""
        whole = self.recorder.program
        backward = _like(whole, whole.calls[self.mark :])
        del whole.calls[self.mark :]
        backward.outputs = [n for n in self.gradients if n is not None]
        known = {*self.arguments, *whole.symbols, *_made_in(whole)}
        saved = sorted(known.intersection([*_used(backward), *backward.outputs]))
        backward.inputs = [*saved, *self.given]
        return backward, saved

    def _backward(self, function: Any, program: Program, saved: list[int], repeatable: bool) -> Backward:
        arrays = [self.recorder.kept(n) for n in saved]

        def watched(tensors: list[Any]) -> tuple[int, ...]:
            return tuple(i for i, t in enumerate(tensors) if any(share_memory(t._array, a) for a in arrays))

        found = tuple(n is not None for n in self.gradients)
        run = self._runnable(program)
        fresh = not set(program.outputs) & set(program.inputs) and len(set(program.outputs)) == len(program.outputs)
        seen = watched(self.tensors), watched(self.outs)
        return Backward(function, _with_history, run, tuple(self.inputs), found, *seen, repeatable, fresh)

    def _made(self, t: Any) -> str:
        """The name of a result in the source."""
        return str(self.named.setdefault(id(t), [t, f"r{len(self.named)}", 0])[1])

    def _rebuilt(self, value: Any, part: Part) -> str:
        """The expression of a result."""
        kind = type(value)
        if kind in (RecordedFloat, RecordedInteger, SymbolicNumber):
            return str(value.expression)
        if isinstance(value, Variable):
            known = self.named.get(id(value))
            if known is not None:
                return str(known[1])
            made = self._made(value)
            part.lines.append(f"{made} = {self._wrap(value, part)}")
            part.lines.extend([f"bump({made})"] * version_counter(value).version)
            return made
        if kind is tuple:
            return f"({''.join(f'{self._rebuilt(each, part)}, ' for each in value)})"
        if kind is list:
            return f"[{', '.join(self._rebuilt(each, part) for each in value)}]"
        if kind is dict:
            return f"{{{', '.join(f'{self._bound(key)}: {self._rebuilt(each, part)}' for key, each in value.items())}}}"
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return f"{self._bound(kind)}({', '.join(self._rebuilt(each, part) for each in value)})"
        if value is not None and self.recorder.foreign is not None:
            self.refuse(f"{self.recorder.foreign}, after which a number is returned")
        return self._bound(value)


def _like(program: Program, calls: list[Any]) -> Program:
    """Some calls of a program as one of their own."""
    part = Program()
    part.literals, part.scalars, part.types = program.literals, program.scalars, program.types
    part.backend, part.index, part.symbols = program.backend, program.index, program.symbols
    part.calls = calls
    return part


def _used(program: Program) -> set[int]:
    return {n for call in program.calls for n in call.read}


def _made_in(program: Program) -> set[int]:
    """The values that are results of a program's calls, and no others' before."""
    made: set[int] = set()
    read: set[int] = set()
    for call in program.calls:
        read.update(n for n in call.read if n not in made)
        made.update(n for n in call.made if n not in read)
    return made


def _wrapped(array: Any, dtype: Any, device: Any = CPU) -> Any:
    """A tensor without history."""
    t = new(Tensor)
    t._array, t._device, t._dtype = array, device, dtype
    t._edge = t._autograd = t._vc = None
    return t


def _with_mode(state: Any, mode: int, call: Callable[[], Any]) -> None:
    """Make a call with gradients recorded, or not."""
    before, state.mode = state.mode, mode
    try:
        call()
    finally:
        state.mode = before


def _called_by(frame: FrameType) -> FrameType | None:
    """The frame that gets what another one returns: that which has called a module without hooks, for its `forward`."""
    above = frame.f_back
    if above is not None and above.f_code is _Call.run.__code__ and not above.f_locals["self"].module._forward_hooks:
        above = above.f_back
    is_call = above is not None and above.f_code in (Module.__call__.__code__, Module._call_impl.__code__)
    return above.f_back if is_call and above is not None else above


def _undone(place: Any, number: int) -> int:
    """Take back the random numbers that were drawn since then; returns the number of the guard that failed."""
    if place is not None:
        default_generator._state.assign(place)
    return number


def _grad_of(t: Any) -> Any:
    return None if t._autograd is None else t._autograd.grad


def _accumulates(t: Any) -> bool:
    return t._autograd is not None and t._autograd.requires_grad


def _state_of_history(t: Any) -> tuple[Any, ...]:
    """The edge of a tensor, whether its gradient is retained, and the hooks of its node."""
    hooks = t._edge and t._edge[0]._hooks
    tables = hooks and [[*hooks.pre], [*hooks.post], [*hooks.retain], [[*each] for each in hooks.tensor.values()]]
    return t._edge, t._autograd is not None and t._autograd.retains_grad, tables


def _reached(roots: list[Any], ends: Collection[Any]) -> list[Any]:
    """Those of some nodes that a graph, as far as these, leads to."""
    waiting, seen = [*roots], {*roots}
    while waiting:
        node = waiting.pop()
        found = {edge[0] for edge in node._edges if edge is not None and node not in ends} - seen
        seen |= found
        waiting += found
    return [node for node in ends if node in seen]


def _ignore(why: str) -> None:
    """Nothing: what is refused has been seen before."""


def _with_history(result: Any, refuse: Callable[[str], None] = _ignore) -> list[Any]:
    """The tensors in a result that have a history, each once."""
    return [t for t in _unique(_tensors_in(result, refuse)) if t._edge is not None]


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
    if not (value is None or plain_numbers(value).__class__ in (bool, int, float, complex, str)):
        refuse(f"a result is a {type(value).__name__}")
    return []
