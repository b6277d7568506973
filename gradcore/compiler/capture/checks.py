"""The lines that check the guards of a program, and the functions that are made of them."""

from __future__ import annotations

import itertools
import operator
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from gradcore.compiler.capture.reasons import Code, Reason
from gradcore.compiler.program.source import Source, names_assigned_in, names_in_lines
from gradcore.core.typing import AnyTensor

__all__ = ["Checks", "TensorGuard", "Unguardable"]

#: The largest number of guards of a program. Functions that need more are not compiled.
MOST = 4096
#: The end of the checks. An error means that an object has been deleted that no earlier line checks.
_IF_DELETED = "except (AttributeError, LookupError, TypeError, ValueError): return 0"


class Unguardable(Exception):
    """Raised when a function depends on state that cannot be checked."""

    def __init__(self, code: Code, text: str) -> None:
        super().__init__(text)
        self.reason = Reason(code, text)


class TensorGuard(NamedTuple):
    """A tensor that a program depends on.

    Attributes
    ----------
    name : str
        The path to the tensor from the function or its arguments, for readers.
    tensor : Tensor
    given : bool
        Whether the tensor is an argument, so that each call may pass another one.
    lines : slice
        If the tensor is the ``.grad`` of another one, the lines that check it; else empty.
    constant : str
        The name of the tensor in the scope, if each call uses the same one.
    """

    name: str
    tensor: Any
    given: bool
    lines: slice = slice(0)
    constant: str = ""


class Checks(Source):
    """The lines of a function that checks guards, and the tensors that it finds.

    Parameters
    ----------
    scope : dict
        Objects that have a name in these lines.
    """

    def __init__(self, scope: dict[str, Any]) -> None:
        super().__init__("k", scope)
        self.lines: list[str] = []
        #: Numbers of guards that are checked before a call only, see `require`.
        self.passing: set[int] = set()
        #: A description of each guard, for readers.
        self.texts: list[str] = []
        self.tensors: list[TensorGuard] = []
        #: The numbers of guards that have been removed because the program does not depend on them.
        self._left_out: set[str] = set()
        self._variables = itertools.count(1)
        self._still: Any = None
        #: By their numbers, the lines that check sizes of tensors, without the check of sizes.
        self.of_any_size: dict[int, str] = {}

    def require(self, condition: str, text: str, passing: bool = False) -> None:
        """Add a condition; a `passing` one is checked before the call only, as it may be false afterwards."""
        if len(self.lines) > MOST:
            raise Unguardable(Code.LIMIT, f"the function depends on more than {MOST} values")
        if passing:
            self.passing.add(len(self.lines))
        self.lines.append(f"if not ({condition}): return {len(self.texts)}")
        self.texts.append(text)

    def require_unchanged(self, expression: str, text: str) -> None:
        """Add the condition that an expression of names in the scope has the value that it has now."""
        value = eval(expression, self.scope)
        relation = "==" if type(value) in (int, tuple) else "is"
        self.require(f"{expression} {relation} {value if type(value) in (bool, tuple) else self.bind(value)}", text)

    def assign(self, expression: str) -> str:
        """Add a line that assigns an expression to a new variable, and return its name."""
        name = f"o{next(self._variables)}"
        self.lines.append(f"{name} = {expression}")
        return name

    def leave_out(self, groups: Iterable[slice]) -> None:
        """Remove checks of tensors that the program does not read, unless other checks use the names in these lines."""
        uses = Counter(names_in_lines(self.lines))
        for lines in groups:
            removed = self.lines[lines]
            names, own_uses = names_assigned_in(removed), Counter(names_in_lines(removed))
            if names and all(uses[name] == own_uses[name] for name in names):
                uses.subtract(own_uses)
                self._left_out.update(line.rpartition(": return ")[2] for line in removed)
                self.lines[lines] = ["" for _ in removed]

    def checked_texts(self) -> list[str]:
        """Return the descriptions of the guards that are checked in each call."""
        return [text for i, text in enumerate(self.texts) if str(i) not in self._left_out]

    # -- functions ------------------------------------------------------------------------------------------------

    def checks(self) -> list[str]:
        """Return source lines that check the guards and assign each tensor and its array to ``t0`` and ``a0``, etc."""
        return ["try:", *(f" {line}" for line in self.lines if line), _IF_DELETED]

    def function_of(self) -> Callable[..., Any]:
        """Return the guard function: ``(args, named) -> None`` or the number of the guard that failed."""
        return self.define("check", ["def check(args, named):", *self.checks()])  # type: ignore[no-any-return]

    def admits_other_sizes(self, args: object, named: object) -> bool:
        """Return whether a call passes all guards, except that contiguous tensors may have other sizes."""
        lines = [f" {self.of_any_size.get(i, line)}" for i, line in enumerate(self.lines) if line]
        check = self.define("check_any_size", ["def check_any_size(args, named):", "try:", *lines, _IF_DELETED])
        return check(args, named) is None

    def changed_since(self, args: Any, named: Any, tensors: tuple[Any, ...], arrays: tuple[Any, ...]) -> str | None:
        """Return a description of the state that has changed since a call with `tensors` and `arrays`, or None."""
        if any(t._array is not array for t, array in zip(tensors, arrays, strict=True)):
            return "the memory of a tensor"
        guard_number, result = self._evaluate(args, named)
        if guard_number is not None:
            return str(self.texts[guard_number])
        earlier_tensors = (t for t, guard in zip(tensors, self.tensors, strict=True) if not guard.lines.stop)
        return None if all(map(operator.is_, result, earlier_tensors)) else "a tensor among the arguments"

    def tensors_by_name(self, args: object, named: object) -> dict[str, AnyTensor]:
        """Return the tensors of a call that passes the guards, by name, without gradients."""
        names = [guard.name for guard in self.tensors if not guard.lines.stop]
        unique_names = [name if names.index(name) == i else f"{name} ({i})" for i, name in enumerate(names)]
        return dict(zip(unique_names, self._evaluate(args, named)[1], strict=True))

    def _evaluate(self, args: object, named: object) -> tuple[int | None, tuple[AnyTensor, ...]]:
        """Return the number of the failed guard, `passing` ones excepted, and the tensors of a call."""
        if self._still is None:
            lines = [f" {line}" for i, line in enumerate(self.lines) if line and i not in self.passing]
            tensors = "".join(f"{g.constant or f't{i}'}, " for i, g in enumerate(self.tensors) if not g.lines.stop)
            lines = ["def still(args, named):", "try:", *lines, _IF_DELETED, f"return ({tensors})"]
            self._still = self.define("still", lines)
        result = self._still(args, named)
        return (result, ()) if type(result) is int else (None, result)
