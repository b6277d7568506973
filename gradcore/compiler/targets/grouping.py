"""Grouping: the part of the fusion passes that does not depend on the target.

A pass decides which calls are adjacent, and how a group of them becomes one function. Here a group gets its inputs and
outputs, and stays as it is if that function cannot be made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TypeAlias, TypeVar

from gradcore.backends.codegen.expr import NotFusible
from gradcore.compiler.capture.arrays import current
from gradcore.compiler.program.program import Call, Literal, Program, Value, map_leaves

__all__ = ["FusedCalls", "Grouping", "Leaf", "leaves_of"]

Leaf: TypeAlias = Value | Literal
_T = TypeVar("_T")


class FusedCalls:
    """Several calls as one function.

    Attributes
    ----------
    calls : list of Call
    """

    calls: list[Call]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.calls)} calls)"

    def in_profile(self, function: Callable[..., _T], *args: object) -> _T:
        """Call a function, within a range named after the calls if a profiler is recording."""
        profiler = current.profiler
        if profiler is None:
            return function(*args)
        event = profiler.begin(f"fused {' '.join(call.last_name for call in self.calls)}")
        result = function(*args)
        profiler.end(event)
        return result


class Grouping:
    """A fusion pass over a program.

    Parameters
    ----------
    program : Program
    refused : list of str
        Receives why calls are not part of a group.

    Attributes
    ----------
    found : Program
        The program after the pass, to which calls and groups are added in order.
    uses : Counter
        The number of times that calls and outputs use each value.
    """

    def __init__(self, program: Program, refused: list[str]) -> None:
        self.program, self.refused, self.found = program, refused, program.copy()
        self.uses = Counter(program.outputs)
        for call in program.calls:
            self.uses.update(call.read)

    def fuse(
        self, calls: list[Call], inputs: list[Leaf], outputs: list[int]
    ) -> tuple[Callable[..., object], list[Leaf]]:
        """Return one function for a group, and its arguments.

        Parameters
        ----------
        calls : list of Call
        inputs : list of Value or Literal
            The arrays that the calls read, but do not compute.
        outputs : list of int
            The numbers of the values that are used after the group.

        Raises
        ------
        NotFusible
            If the calls cannot be one function, or it would be slower.
        """
        raise NotImplementedError

    def add(self, calls: list[Call]) -> None:
        """Add a group to the program, as one call if its calls can be fused."""
        numbers, keys, inner_uses = dict[int, None](), dict[tuple[type[Leaf], int], None](), Counter[int]()
        for call in calls:
            inner_uses.update(call.read)
            keys |= dict.fromkeys(key for key in leaves_of(call) if key[0] is Literal or key[1] not in numbers)
            # Results that are arguments are not new.
            numbers |= dict.fromkeys(n for n in call.outputs if (Value, n) not in keys)
        outputs = [n for n in numbers if self.uses[n] > inner_uses[n]]
        try:
            if len(calls) < 2 or not outputs:
                raise NotFusible("no neighbouring call can join it")
            function, arguments = self.fuse(calls, [kind(n) for kind, n in keys], outputs)
        except Exception as error:  # NotFusible, or any error of a formula that cannot handle expressions
            self.refused += [f"{call!r}: {error}" for call in calls]
            self.found.calls += calls
            return
        self.found.calls.append(Call("fused", function, tuple(arguments), {}, tuple(map(Value, outputs))))


def leaves_of(call: Call) -> list[tuple[type[Leaf], int]]:
    """Return the array arguments of a call as (class, number) pairs: a `Value` and a `Literal` can be equal tuples."""
    results: list[tuple[type[Leaf], int]] = []

    def note(leaf: object) -> None:
        if isinstance(leaf, (Value, Literal)):
            results.append((type(leaf), leaf.number))

    map_leaves(note, (call.args, call.named))
    return results
