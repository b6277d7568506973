"""The script of a recorded run: lines of Python between the calls on arrays, and the names in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gradcore.backends.registry import CPU
from gradcore.compiler.arrays import RecordedArray
from gradcore.compiler.effects import Effects
from gradcore.compiler.recorder import Recorder

__all__ = ["Part", "Script"]


@dataclass
class Part:
    """A part of the program: the calls before `end`, and the lines after them, which need values of these numbers.

    Attributes
    ----------
    writes : bool
        Whether its calls write to tensors from outside.
    is_final : bool
        Whether its lines change tensors or objects: from there on, the function cannot be called again instead.
    step : tuple of str, optional
        Where the last call is the step of an optimiser, its name and those of what is prepared for it.
    """

    end: int
    lines: list[str]
    needed: set[int]
    writes: bool = False
    is_final: bool = True
    step: tuple[str, str] | None = None


class Script:
    """The parts of a program, and what the names in their lines refer to.

    Parameters
    ----------
    recorder : Recorder
    """

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.parts: list[Part] = []
        self.scope: dict[str, Any] = {}
        #: The values that are given, and which tensors' arrays they are.
        self.arguments: dict[int, int] = {}
        #: What the program does besides calls on arrays, in words.
        self.effects: list[str] = []
        #: The values that are coming steps on a device, and lines that check whether these may be taken.
        self.steps: list[int] = []
        self.checks: list[str] = []

    def begin_part(self) -> Part:
        """Return the part of the calls since the last one."""
        part = Part(len(self.recorder.program.calls), [], set())
        self.parts.append(part)
        return part

    def is_pure(self) -> bool:
        """Return whether nothing was done so far that a second run would do again."""
        return not any(part.is_final for part in self.parts) and not Effects(self.recorder.program).writes_to_given

    def wrap(self, t: Any, part: Part) -> str:
        """Return the expression of a tensor without history, which a part needs the array of."""
        number = self.number(t._array)
        if number is None:
            return "None"
        part.needed.add(number)
        device = "" if t._device is CPU else f", {self.bound(t._device)}"
        return f"wrap({self.value(number)}, {self.bound(t._dtype)}{device})"

    def number(self, array: Any) -> int | None:
        """Return the number of the value that an array is."""
        number = self.known(array)
        if number is None:
            self.refuse("a tensor is used that is found in a way that cannot be checked")
        return number

    def known(self, array: Any) -> int | None:
        """Return the number of the value that an array is; None if it is none."""
        return array.number if isinstance(array, RecordedArray) else self.recorder.number_of(array)

    def value(self, number: int) -> str:
        """Return the name of a value in the source."""
        return f"a{self.arguments[number]}" if number in self.arguments else self.recorder.program.name_of(number)

    def bound(self, value: Any) -> str:
        """Return the name of an object in the source."""
        name = f"c{len(self.scope)}"
        self.scope[name] = value
        return name

    def refuse(self, why: str) -> None:
        """Have no program, for this reason."""
        if self.recorder.stopped is None:
            self.recorder.stopped = why
