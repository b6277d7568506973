"""The script of a captured run: the lines of Python between the segments of array calls, and the names in them."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

from gradcore.backends.registry import CPU
from gradcore.compiler.capture.arrays import RecordedArray, current
from gradcore.compiler.capture.guards import Guards
from gradcore.compiler.capture.numbers import RecordedFloat, is_followed, plain_numbers, recorded_number
from gradcore.compiler.capture.reasons import Code, Reason
from gradcore.compiler.capture.recorder import Recorder
from gradcore.compiler.program.effects import Effects
from gradcore.compiler.program.source import Source
from gradcore.core.tracebacks import user_frame, user_line
from gradcore.nn.module import Module
from gradcore.nn.module_hooks import _Call
from gradcore.tensor import Tensor

__all__ = ["Part", "ReadNumbers", "Script"]


@dataclass
class Part:
    """A segment of the script: the calls before `end`, and the lines that run after them.

    Attributes
    ----------
    writes : bool
        Whether its calls write to tensors that exist outside of the function.
    is_final : bool
        Whether its lines change tensors or objects, so that the function cannot be called again from the beginning.
    step : tuple of str, optional
        If the last call is the step of an optimizer: the names of the step and of its prepared values.
    """

    end: int
    lines: list[str]
    needed: set[int]
    writes: bool = False
    is_final: bool = True
    step: tuple[str, str] | None = None


class Script(Source):
    """The segments of a program, and the objects that their lines refer to by name.

    Parameters
    ----------
    recorder : Recorder
    """

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.parts: list[Part] = []
        super().__init__("c", {})
        #: For each input value, the number of the tensor that holds the array.
        self.arguments: dict[int, int] = {}
        #: Descriptions of the program's side effects.
        self.effects: list[str] = []
        #: The values that are inputs of optimizer steps on a device, and lines that check that these are still valid.
        self.steps: list[int] = []
        self.checks: list[str] = []

    def is_pure(self) -> bool:
        """Return whether the script has no side effect so far that a second run would repeat."""
        return not any(part.is_final for part in self.parts) and not Effects(self.recorder.program).writes_to_given

    def wrap(self, t: Any, part: Part) -> str:
        """Return the source expression of a tensor without history that wraps the array of `t`."""
        number = self.number(t._array)
        if number is None:
            return "None"
        part.needed.add(number)
        device = "" if t._device is CPU else f", {self.bind(t._device)}"
        return f"wrap({self.value(number)}, {self.bind(t._dtype)}{device})"

    def number(self, array: Any) -> int | None:
        """Return the value number of an array, or end the capture if it has none."""
        number = self.known(array)
        if number is None:
            self.refuse(Code.STATE, "a tensor is used that is found in a way that cannot be checked")
        return number

    def known(self, array: Any) -> int | None:
        """Return the value number of an array, or None."""
        return array.number if isinstance(array, RecordedArray) else self.recorder.number_of(array)

    def value(self, number: int) -> str:
        """Return the name of a value in the source."""
        return f"a{self.arguments[number]}" if number in self.arguments else self.recorder.program.name_of(number)

    def refuse(self, code: Code, text: str, where: str = "") -> None:
        """End the capture without a program, and store the reason."""
        if self.recorder.stopped is None:
            self.recorder.stopped = Reason(code, text, where)


class ReadNumbers:
    """The numbers that a captured run reads from tensors.

    Parameters
    ----------
    script : Script
    guards : Guards
    caller : frame
        The frame that calls the captured function.
    """

    def __init__(self, script: Script, guards: Guards, caller: FrameType) -> None:
        self.recorder: Recorder = script.recorder
        self.script, self.guards = script, guards
        #: The id of the calling frame, or None after the function has returned.
        self.caller: int | None = id(caller)
        #: The value numbers of computed numbers, by expression.
        self.numbers: dict[str, int] = {}

    def item(self, array: RecordedArray) -> Any:
        """Return the only element of an array: a recorded number, or a plain one that becomes a condition."""
        recorder, plain = self.recorder, self.recorder.backend_of(array.array)
        value = array.array.item() if plain is None else plain.item(array.array)
        if recorder.stopped is not None:
            return value
        is_known = not recorder.fullgraph and self.caller is not None and type(value) in (bool, int, float)
        if is_known and type(value) is not bool and self._is_followed():
            name = f"n{len(self.script.parts)}"
            self._cut(f"{name} = {self._item(array)}", array.number)
            return recorded_number(value, name, self)
        if is_known and type(value) is not float:
            self._decide(self._item(array), value, array.number)
        else:
            recorder.stop(Code.ELEMENTS, "elements of a tensor are read")
        return value

    def take_arguments(
        self, args: Sequence[object], named: dict[str, object], varying: Collection[int | str]
    ) -> tuple[list[object], dict[str, object]]:
        """Return the arguments with recorded numbers in the place of floats that vary between calls."""

        def take(value: object, owner: str, key: int | str) -> object:
            if key not in varying:
                return value
            name = f"n{len(self.script.parts)}"
            self._cut(f"{name} = {owner}[{key!r}]")
            return recorded_number(value, name, self)  # type: ignore[arg-type]

        own_args = [take(x, "args", i) for i, x in enumerate(args)]
        return own_args, {key: take(x, "named", key) for key, x in named.items()}

    def _item(self, array: RecordedArray) -> str:
        """Return the expression that reads the only element of an array."""
        name, backend = self.script.value(array.number), self.recorder.backend_of(array.array)
        return f"{name}.item()" if backend is None else f"{self.script.bind(backend.item)}({name})"

    def _is_followed(self) -> bool:
        """Return whether the user's function uses the number only in ways that recorded numbers track."""
        watch, frame = sys.getprofile(), sys._getframe()
        sys.setprofile(None)
        try:
            while frame.f_code is not Tensor.item.__code__:
                if frame.f_back is None:
                    return False
                frame = frame.f_back
            own = frame.f_back
            if own is None or own is not user_frame():
                return False
            return is_followed(own, id(_receiving_frame(own)) == self.caller)
        finally:
            sys.setprofile(watch)

    def _cut(self, line: str, *numbers: int) -> None:
        """End the segment with a line that reads the values `numbers` and has no side effect."""
        part = Part(len(self.recorder.program.calls), [line], {*numbers}, not self.script.is_pure(), False)
        self.script.parts.append(part)

    def _decide(self, expression: str, value: Any, *numbers: int) -> None:
        """Make the program valid only for runs in which the expression equals `value`."""
        if not self.script.is_pure():
            text = "elements of a tensor are read, after something was written in place or called"
            self.recorder.stop(Code.ELEMENTS, text)
            return
        number = len(self.guards.texts)
        self.guards.texts.append(f"the value {value!r} of what is read in {user_line()}")
        self._cut(f"if {expression} != {self.script.bind(value)}: return undone(place, {number})", *numbers)

    def compute(self, value: Any, symbol: str, *operands: Any) -> Any:
        """Return the result of an operator on recorded numbers."""
        if self.recorder.stopped is not None or current.recorder is not self.recorder:
            return value
        if any(type(plain_numbers(each)) not in (bool, int, float) for each in operands):
            self.recorder.stop(Code.ELEMENTS, "elements of a tensor are computed with, together with what is no number")
            return value
        divisor = operands[-1] if symbol in ("/", "//", "%") else 1
        if plain_numbers(divisor) is not divisor or type(value) not in (bool, int, float):
            self.recorder.stop(Code.ELEMENTS, "numbers are divided by an element of a tensor")
            return value
        names = [getattr(each, "expression", None) or self.script.bind(each) for each in operands]
        expression = f"({f' {symbol} '.join(names)})" if len(names) == 2 else f"({symbol}{names[0]})"
        if type(value) is not bool:
            return recorded_number(value, expression, self)
        self._decide(expression, value)
        return value

    def given_number(self, value: RecordedFloat) -> int:
        """Return the value number of a computed float for the array calls that follow."""
        number = self.numbers.get(value.expression)
        if number is None:
            number = self.numbers[value.expression] = self.recorder.new_value()
            self.script.parts[-1].lines.append(f"v{number} = {value.expression}")
        return number


def _receiving_frame(frame: FrameType) -> FrameType | None:
    """Return the frame that receives the result of `frame`, skipping calls of modules without hooks."""
    caller = frame.f_back
    if caller is not None and caller.f_code is _Call.run.__code__ and not caller.f_locals["self"].module._forward_hooks:
        caller = caller.f_back
    is_call = caller is not None and caller.f_code in (Module.__call__.__code__, Module._call_impl.__code__)
    return caller.f_back if is_call and caller is not None else caller
