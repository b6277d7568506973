"""Reasons why a function, or a statement of it, has no program."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

__all__ = ["Code", "Reason"]


class Code(Enum):
    """Kinds of reasons: a label for readers, and the remedy if there is one that always helps.

    Attributes
    ----------
    label : str
    remedy : str or None
    """

    ELEMENTS = "elements are read", "compute with tensors (gradcore.where in the place of `if`), or read them outside"
    SIZES = "sizes depend on values", "compute with gradcore.where, or select outside"
    CALL = "a function may do more than compute with its arguments", "move the call out of the function"
    STATE = "state cannot be checked", "pass it as an argument, or keep it in a plain attribute, list or dict"
    CHANGE = "state changes", "give it what changes as an argument, and return it"
    PROGRAMS = "there are too many programs", "pass what changes as a tensor, or keep it the same"
    WRITE = "an argument is changed", "write to a clone, or outside"
    HISTORY = "an argument has a history", "call backward outside"
    BACKWARD = "a hook or a custom backward may have effects", "let it only compute"
    KEPT = "a tensor is kept", "return the tensor"
    SHARED = "a result shares memory", "return a clone"
    LEAF = "a result is a leaf", "call requires_grad_() outside"
    RESULT = "a result is not supported", None
    GENERATOR = "a generator of random numbers is used", None
    OPTIMIZER = "an optimizer, scheduler or scaler is used", "use it outside"
    ERROR = "an error is caught", None
    KERNEL = "a call of an array function is not supported", None
    TENSOR = "a tensor is not supported", None
    LIMIT = "there are too many values", None
    BREAK = "graph_break() is called", None
    UNSUPPORTED = "the function is not supported", None

    def __init__(self, label: str, remedy: str | None) -> None:
        self.label, self.remedy = label, remedy


#: The codes of results that a program cannot return.
OF_RESULTS = frozenset((Code.SHARED, Code.LEAF, Code.RESULT))


class Reason(NamedTuple):
    """A reason why a call has no program: a graph break.

    Attributes
    ----------
    code : Code
    text : str
    where : str
        The file, line and function that were running; empty if unknown.
    file : str
    line : int
        The line of the statement that cannot be captured, or of the function if the statement is not known.
    """

    code: Code
    text: str
    where: str = ""
    file: str = ""
    line: int = 0

    @property
    def reason(self) -> str:
        """The text with the line that was running."""
        return f"{self.text} ({self.where})" if self.where else self.text

    @property
    def remedy(self) -> str | None:
        """Advice to users; None if there is none."""
        return self.code.remedy

    @property
    def advice(self) -> str:
        """The reason and the remedy."""
        return f"{self.reason}; {self.remedy}" if self.remedy else self.reason

    def __str__(self) -> str:
        return self.reason
