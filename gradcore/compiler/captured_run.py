"""A captured run: the effects of a function on tensors, in addition to its calls on arrays.

Assignments of gradients, changes of versions, host calls and results become lines of Python, in order. Host calls split
the array calls into segments, each of which becomes a `Program`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from gradcore.autograd.modes import GRAD, local
from gradcore.autograd.variables import Variable, version_counter
from gradcore.compiler.autograd.backward import RecordedBackward
from gradcore.compiler.autograd.node import grad_of, ignore, tensors_in, unique
from gradcore.compiler.autograd.optimizer_steps import PlannedStep, plan_step
from gradcore.compiler.capture.arrays import RecordedArray, give_holders_plain_arrays, give_plain_arrays
from gradcore.compiler.capture.guards import Guards
from gradcore.compiler.capture.host_calls import HOST_CLASSES, runs_user_code
from gradcore.compiler.capture.reasons import Code
from gradcore.compiler.capture.recorder import Recorder
from gradcore.compiler.capture.script import Part, ReadNumbers, Script
from gradcore.compiler.capture.substitutes import original_backend
from gradcore.compiler.capture.watch import Watch
from gradcore.compiler.program.program import ArrayType, Call, Value
from gradcore.compiler.program.storage import share_memory
from gradcore.compiler.settings import Settings
from gradcore.compiler.targets.cuda.steps import DeviceStep
from gradcore.tensor import Tensor

__all__ = ["RecordedRun"]


class RecordedRun:
    """The tensors of a captured run, and their state before it.

    Parameters
    ----------
    recorder : Recorder
    guards : Guards
    reads_grads : bool
        Whether user code may read gradients.
    settings : Settings
        The settings of the compiled function.
    """

    def __init__(self, recorder: Recorder, guards: Guards, reads_grads: bool, settings: Settings) -> None:
        self.reads_grads, self.settings = reads_grads, settings
        self.recorder, self.guards = recorder, guards
        self.tensors = [guard.tensor for guard in guards.tensors]
        self.arrays = [t._array for t in self.tensors]
        self.first_grads = [grad_of(t) for t in self.tensors]
        self.grads = [*self.first_grads]
        self.requires_grad = [t.requires_grad for t in self.tensors]
        self.mode = local.state.mode
        self.script = Script(recorder)
        self.backward = RecordedBackward(self.script, guards, self.tensors)
        self.numbers: ReadNumbers
        self.result: Any = None
        #: Tensors with a name in the script: by id, the tensor, its name, and the version that the script has set.
        self.named: dict[int, list[Any]]
        self.named = {id(t): [t, f"t{i}", version_counter(t).version] for i, t in enumerate(self.tensors)}
        #: The optimizer steps that are parts of the program.
        self.steps: list[PlannedStep] = []

    def begin(self, caller: FrameType) -> None:
        """Replace the arrays of the tensors by stand-ins. `caller` is the frame that calls the captured function."""
        self.recorder.run, self.numbers = self, ReadNumbers(self.script, self.guards, caller)
        for i, (t, array) in enumerate(zip(self.tensors, self.arrays, strict=True)):
            t._array = self.recorder.add_input(array)
            self.script.arguments.setdefault(t._array.number, i)

    def run(self, function: Callable[..., Any], args: Any, named: Any, watch: Watch, varying: Any = frozenset()) -> Any:
        """Call the function, capture it and the gradients of its results, and return its result.

        The floats whose positions or names are in `varying` become recorded numbers.
        """
        with self.recorder.on(self.guards.hosts):
            self.begin(sys._getframe())
            args, named = self.numbers.take_arguments(args, named, varying)
            with watch.on():
                result = function(*args, **named)
                if self.recorder.error is not None:
                    raise self.recorder.error
                if self.recorder.is_first:
                    self.script.refuse(Code.STATE, "the function has not been observed")
                with watch.forbid_effects(self.script.refuse):
                    self.numbers.caller = None
                    self.backward.record(result)
        self.end(result)
        return result

    # -- what the function does with tensors ------------------------------------------------------------------------

    def host_call(self, host: Any, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Make a host call, end the current segment with it, and return its result."""
        foreign = runs_user_code(host)
        if self.recorder.is_first:  # Not all tensors are known that it reads.
            self.script.refuse(Code.OPTIMIZER, f"{name} of {type(host).__name__} is called")
        self._check_host_call(host, name, [*args, *named.values()], foreign)
        stopped = self.recorder.stopped is not None
        if stopped and any(map(callable, (*args, *named.values()))):
            return self.recorder.within(host, name, args, named)
        if not stopped:
            part = self._changes()
            arguments = [self._argument(each, part) for each in args]
            arguments += [f"{key}={self._argument(each, part)}" for key, each in named.items()]
            call = f"{self.script.bind(host)}.{name}({', '.join(arguments)})"
            mode = local.state.mode
            part.lines.append(call if mode == self.mode else f"with_mode(state, {mode}, lambda: {call})")
            mark = len(part.lines)
            self.script.effects.append(f"{type(host).__name__}.{name} is called")
        grads = [grad for grad in map(grad_of, self.tensors) if grad is not None]
        tensors = [*self.tensors, *grads, *(entry[0] for entry in self.named.values()), *tensors_in(args, ignore)]
        result = self._call_host(tensors, foreign or stopped, host, name, lambda: getattr(host, name)(*args, **named))
        if foreign:
            self.recorder.foreign = f"{type(host).__name__}.{name} runs functions of yours"
        if result is not None:
            self.recorder.stop(Code.OPTIMIZER, f"{name} of {type(host).__name__} returns something")
        if not stopped:
            self._account_for_host_call()
            if name == "step" and not (args or named or foreign):
                part.lines[mark - 1 :] = self._plan_step(host, part, part.lines[-1])
        return result

    def _call_host(self, tensors: list[Any], every: bool, host: Any, name: str, call: Callable[[], Any]) -> Any:
        """Make a host call without capturing its array calls."""
        return self._with_plain_arrays(tensors, every, call)

    def _plan_step(self, optimizer: Any, part: Part, call: str) -> list[str]:
        """Return source lines that take an optimizer's step as a part of the program, or else contain `call`."""
        tensors, program = [*self.tensors, *[grad for grad in self.grads if grad is not None]], self.recorder.program
        how = self.settings.cpp, not program.calls, program.backend, program.index
        step = self._with_plain_arrays(tensors, False, lambda: plan_step(optimizer, *how))
        if step is None:
            return [call]
        if isinstance(step, DeviceStep):
            return self._append_device_step(step, part) or [call]
        arguments, states_name = [], f"x{len(self.steps)}"
        position = 0
        for params, states in step.arrays():
            param_arrays = [[p._array for p in params], [p._autograd.grad._array for p in params]]
            arguments.append(f"{states_name}[{position}]")
            for array in (*param_arrays[0], *param_arrays[1]):
                number = self.script.number(array)
                if number is None:
                    return [call]
                part.needed.add(number)
                arguments.append(self.script.value(number))
            arguments += [f"{states_name}[{position + 1 + i}]" for i in range(states)]
            position += 1 + states
        self.steps.append(step)
        name = self.script.bind(step)
        return [
            f"{states_name} = {name}.prepare()", f"if {states_name} is None: {call}",
            f"else: {name}.take({', '.join(arguments)})",
        ]  # fmt: skip

    def _append_device_step(self, step: DeviceStep, part: Part) -> list[str] | None:
        """Append an optimizer step to a segment; return the lines that follow it, or None if that is impossible."""
        recorder, script, program = self.recorder, self.script, self.recorder.program
        (inputs, *memory), step.values = step.values, []
        params = [script.known(p._array) for p in step.params]
        grads = [script.known(p._autograd.grad._array) for p in step.params]
        if None in (*params, *grads) or any(recorder.number_of(array) in script.arguments for array in memory):
            return None
        states = [recorder.new_stand_in(a).number if (n := recorder.number_of(a)) is None else n for a in memory]
        number = recorder.new_value()
        program.types[number] = ArrayType(inputs.values.shape, inputs.values.dtype, inputs.values.strides, number)
        script.steps.append(number)
        name = script.bind(step)
        values = [[Value(n) for n in each if n is not None] for each in (params, grads, states)]
        args, out = (Value(number), values[1]), {"out": (values[0], values[2])}
        program.calls.append(Call("optimizer.step", step.take, args, out, None))
        part.end += 1
        part.step = name, ", ".join(map(script.value, [number, *states]))
        script.checks.append(f"if not {name}.fits(): return {len(self.guards.texts)}")
        self.guards.texts.append(f"what the step of {type(step.optimizer).__name__} is")
        return [f"{name}.finish()"]

    def _check_host_call(self, host: Any, name: str, args: list[Any], foreign: bool) -> None:
        """End the capture if a program cannot make a host call in this mode or with these arguments."""
        state, stop = local.state, self.recorder.stop
        if state.task is not None or state.batches or state.transforms:
            stop(Code.OPTIMIZER, f"{name} is called within a transformation, or in a backward")
        if state.mode & ~GRAD != self.mode & ~GRAD:
            stop(Code.OPTIMIZER, f"{name} is called in another mode")
        for each in args:
            if isinstance(each, Variable):
                if foreign:
                    text = f"{name} of {type(host).__name__}, which runs functions of yours, is given a tensor"
                    stop(Code.OPTIMIZER, text)
            elif not (each is None or type(each) in (bool, int, float, str) or isinstance(each, HOST_CLASSES)):
                stop(Code.OPTIMIZER, f"{name} of {type(host).__name__} is given a {type(each).__name__}")

    def _argument(self, value: Any, part: Part) -> str:
        """Return the source expression of an argument of a host call."""
        if not isinstance(value, Variable):
            return self.script.bind(value)
        entry = self.named.get(id(value))
        if entry is None:
            expression = self.script.wrap(value, part)
            return f"freed({expression})" if value._edge is not None else expression
        return str(entry[1])

    def _with_plain_arrays(self, tensors: list[Any], every: bool, call: Callable[[], Any]) -> Any:
        """Make a call, which is not captured, while the tensors hold plain arrays."""
        stand_ins = [(t, t._array) for t in unique(tensors) if isinstance(t._array, RecordedArray)]
        for t, recorded in stand_ins:
            t._array = recorded.array
        if every:
            give_holders_plain_arrays(self.recorder.list_held())
        try:
            with self.recorder.off():
                return call()
        finally:
            for t, recorded in stand_ins:
                if t._array is recorded.array:
                    t._array = recorded
                else:
                    self.script.refuse(Code.WRITE, "the memory of a tensor is replaced")

    def _account_for_host_call(self) -> None:
        """Store the gradients and versions after a host call, so that the script does not set them again."""
        self.grads = [grad_of(t) for t in self.tensors]
        for grad in self.grads:
            if grad is not None and not isinstance(grad._array, RecordedArray):
                self.script.refuse(Code.OPTIMIZER, "a step replaces a gradient")
        for entry in self.named.values():
            entry[2] = version_counter(entry[0]).version

    def _changes(self) -> Part:
        """End the current segment: return it, with lines for the changes of tensors since the last one."""
        part = Part(len(self.recorder.program.calls), [], set())
        self.script.parts.append(part)
        grads = [grad_of(t) for t in self.tensors]
        for i, (earlier_grad, grad) in enumerate(zip(self.grads, grads, strict=True)):
            if grad is earlier_grad:
                continue
            if not self.requires_grad[i] or i in self.backward.histories:
                text = "the gradient of a tensor is set that has a history, or requires no grad"
                self.script.refuse(Code.WRITE, text)
            self.script.effects.append(f"{self.guards.tensors[i].name}.grad is {'None' if grad is None else 'set'}")
            part.lines.append(f"t{i}._autograd.grad = {self._gradient(grad, part)}")
        self.grads = grads
        counters: list[Any] = []
        for t, name, version in self.named.values():
            counter = version_counter(t)
            if counter.version > version and not any(counter is earlier_counter for earlier_counter in counters):
                counters.append(counter)
                part.lines.extend([f"bump({name})"] * (counter.version - version))
                if name[0] == "t":
                    part.writes = True
                    self.script.effects.append(f"{self.guards.tensors[int(name[1:])].name} is written in place")
        for entry in self.named.values():
            entry[2] = version_counter(entry[0]).version
        return part

    def _gradient(self, grad: Any, part: Part) -> str:
        """Return the source expression of a gradient that the script sets."""
        if grad is None:
            return "None"
        entry = self.named.get(id(grad))
        if entry is None:
            if type(grad) is not Tensor or grad._edge is not None or not self.recorder.records(grad._device):
                self.script.refuse(Code.TENSOR, "a gradient has a history, or is no plain tensor of the CPU or of CUDA")
            entry = self.named[id(grad)] = [grad, f"g{len(self.named)}", 0]
            return f"({entry[1]} := {self.script.wrap(grad, part)})"
        return str(entry[1])

    def guard_places(self, array: RecordedArray) -> None:
        """Guard where inputs lie in the storage that they share with `array`, and the size of that storage."""
        types = self.recorder.program.types
        for n, i in self.script.arguments.items():
            if types[n].memory == types[array.number].memory:
                place = original_backend(self.tensors[i]._device.backend).place_in_memory
                text = f"place of {self.guards.tensors[i].name} in its storage"
                self.guards.require(f"{self.guards.bind(place)}(a{i}) == {place(self.arrays[i])}", text)

    # -- the end of the capture ---------------------------------------------------------------------------------------

    def end(self, result: Any) -> None:
        """Replace all stand-ins by plain arrays, and check that a program can repeat all changes of tensors."""
        recorder = self.recorder
        if recorder.stopped is None:
            calls = recorder.program.calls
            backward, calls[self.backward.mark :] = calls[self.backward.mark :], []
            self._changes()
            calls += backward
        for t, array in zip(self.tensors, self.arrays, strict=True):
            if isinstance(t._array, RecordedArray):
                t._array = t._array.array
            if t._array is not array:
                self.script.refuse(Code.WRITE, "the memory of a tensor is replaced")
        grads = [grad for grad in map(grad_of, self.tensors) if grad is not None]
        for t in (*tensors_in(result, self.script.refuse), *grads, *(entry[0] for entry in self.named.values())):
            base = t._autograd and t._autograd.base
            for each in (t, base):
                if each is not None and each._strided and isinstance(each._array, RecordedArray):
                    each._array = each._array.array
        outs = [*tensors_in(result, ignore), *(self.tensors[i] for i in self.backward.histories)]
        end_nodes = [edge[0] for edge, *_ in self.backward.histories.values()]
        give_plain_arrays([t._edge[0] for t in outs if t._edge is not None], end_nodes)
        self.result = result
        for t, required_grad in zip(self.tensors, self.requires_grad, strict=True):
            if t.requires_grad is not required_grad:
                self.script.refuse(Code.WRITE, "requires_grad of a tensor is changed, or a history is recorded into it")
        self._check_outputs()
        if recorder.release():
            self.script.refuse(Code.KEPT, "the function keeps a tensor that it computes, beside what it returns")

    def _check_outputs(self) -> None:
        """Refuse results that a program cannot return, such as views of arguments."""
        named_tensors = [entry[0] for entry in self.named.values()]
        earlier: list[Any] = list(self.tensors)
        outs = tensors_in(self.result, self.script.refuse)
        if any(vars(t) for t in (*self.tensors, *outs)):
            self.script.refuse(Code.WRITE, "an attribute of a tensor is set")
        for t in outs:
            if any(t is earlier_tensor for earlier_tensor in (*earlier, *named_tensors)):
                continue
            if t.requires_grad and not any(t is out for out in (*self.backward.outs, *self.backward.freed)):
                self.script.refuse(Code.LEAF, "a result is a leaf that requires grad")
            meta = t._autograd
            if meta is not None and (meta.inference or meta.tangents):
                self.script.refuse(Code.RESULT, "a result has tangents, or is of inference mode")
            if type(t) is not Tensor or not self.recorder.records(t._device):
                self.script.refuse(Code.RESULT, "a result is no plain tensor of the CPU or of CUDA")
            elif any(share_memory(t._array, earlier_tensor._array) for earlier_tensor in earlier):
                self.script.refuse(Code.SHARED, "a result shares memory with an argument or with another result")
            earlier.append(t)
