"""Grouping: the part of the fusion passes that does not depend on the target.

A pass decides which calls can be in one group, and how a group becomes one function. Here calls are scheduled so that
groups are adjacent. A group gets its inputs and outputs, and stays as it is if that function cannot be made.
"""

from __future__ import annotations

import itertools
import operator
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Any, TypeAlias, TypeVar

from gradcore.backends.codegen.expr import NotFusible
from gradcore.compiler.capture.arrays import current
from gradcore.compiler.program.effects import Effects, is_pure, written_values
from gradcore.compiler.program.program import Call, Literal, Program, Value, leaves_in

__all__ = ["FusedCalls", "Grouping", "Leaf", "call_on_expressions", "leaves_of"]

Leaf: TypeAlias = Value | Literal
_T = TypeVar("_T")


class FusedCalls:
    """Several calls as one function.

    Parameters
    ----------
    calls : list of Call
    inputs : list
        The values that the calls read and do not compute: their numbers, or on CUDA the `Value` and `Literal` of each.
    outputs : list of int
        The numbers of the values that the function returns.
    program : Program
        The program that contains the calls.

    Raises
    ------
    NotFusible
        If the calls cannot be one function, or are as fast by themselves.
    """

    calls: list[Call]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.calls)} calls)"

    @property
    def label(self) -> str:
        """The name of the function in profiles."""
        return f"fused {' '.join(call.last_name for call in self.calls)}"

    def call_in_profile(self, function: Callable[..., _T], *args: object) -> _T:
        """Call a function, within a range named `label` if a profiler is recording."""
        profiler = current.profiler
        if profiler is None:
            return function(*args)
        event = profiler.begin(self.label)
        result = function(*args)
        profiler.end(event)
        return result


class Grouping:
    """A fusion pass over a program.

    Calls are taken in order, with one open group. A call with the group's key joins it, if it needs only calls of the
    group and earlier ones. Other calls move in front of the group if they need none of its calls.

    Parameters
    ----------
    program : Program
    refused : list of str
        Receives why calls are not part of a group.
    waits : bool
        Whether calls that need the open group are delayed until no other call can join it. If not, the first of them
        ends the group.

    Attributes
    ----------
    found : Program
        The program after the pass, to which calls and groups are added in order.
    uses : Counter
        The number of times that calls and outputs use each value.
    may_wait : bool
        Whether a call has ended a group that would be delayed if the pass waited.
    """

    #: The name of fused calls in programs.
    name = "fused"
    #: Whether calls that may raise errors keep their order relative to writes, as errors are raised at once.
    keeps_errors = True

    def __init__(self, program: Program, refused: list[str], waits: bool) -> None:
        self.program, self.refused, self.found = program, refused, program.copy()
        self.waits, self.may_wait = waits, False
        self.uses = Counter(itertools.chain(program.outputs, *(call.read for call in program.calls)))

    def key(self, call: Call) -> Hashable:
        """Return the same key for all calls that can be in one group, and None for calls that can be in no group."""
        raise NotImplementedError

    def joins(self, group: Collection[Call], call: Call) -> bool:
        """Return whether a call with the group's key joins the group."""
        return True

    def sort(self, positions: list[int]) -> list[int]:
        """Return the positions of calls in the order in which they are taken."""
        return positions

    def run(self) -> Program:
        """Return the program with groups of calls fused."""
        calls = self.program.calls
        keys = [*map(self.key, calls)]
        needed, emitted, waiting = self._find_order(keys), set[int](), [*range(len(calls))]
        while waiting:
            group, delayed = dict[int, Call](), list[int]()
            key: Hashable = None
            for k, i in enumerate(positions := self.sort(waiting)):
                missing = needed[i] - emitted
                if keys[i] is None and not missing:
                    emitted.add(i)
                    self.found.calls.append(calls[i])
                elif (
                    keys[i] is not None
                    and missing <= group.keys()
                    and (not group or (keys[i] == key and self.joins(group.values(), calls[i])))
                ):
                    group[i], key = calls[i], keys[i]
                else:
                    delayed.append(i)
                    if not self.waits:
                        self.may_wait = self.may_wait or (keys[i] is None and is_pure(calls[i]))
                        delayed += positions[k + 1 :]
                        break
            self.add([*group.values()])
            emitted.update(group)
            waiting = sorted(delayed) if self.waits else delayed
        return self.found

    def _find_order(self, keys: list[Hashable]) -> list[set[int]]:
        """Return, for each call, the positions of calls that must come before it, directly or through others."""
        effects = Effects(self.program)
        producers, writers, readers = dict[int, int](), dict[int, int](), dict[int, list[int]]()
        fallible, last_write, barrier = set[int](), set[int](), set[int]()
        order: list[set[int]] = []
        for i, call in enumerate(self.program.calls):
            needed = {producers[n] for n in (*call.read, *call.outputs) if n in producers} | barrier
            if effects.written:
                reads, writes = effects.reads(call), effects.writes[i]
                needed |= {writers[m] for m in (reads | writes if writers else ()) if m in writers}
                needed |= {j for m in writes for j in readers.pop(m, ())}
                if self.keeps_errors and keys[i] is None:
                    needed |= last_write
                    if writes:
                        needed |= fallible
                        last_write, fallible = {i}, set()
                    else:
                        fallible.add(i)
                for m in reads & effects.written:
                    readers.setdefault(m, []).append(i)
                writers.update(dict.fromkeys(writes, i))
            if written_values(call) is None or call.name.startswith("random"):  # Draws keep their order.
                needed, barrier = {*range(min(barrier, default=0), i)}, {i}
            producers.update(dict.fromkeys(call.outputs, i))
            order.append(needed)
        return order

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
        numbers, leaves = dict[int, None](), dict[Leaf, None]()
        inner_uses = Counter(itertools.chain(*(call.read for call in calls)))
        for call in calls:
            leaves |= dict.fromkeys(v for v in leaves_of(call) if type(v) is Literal or v.number not in numbers)
            # Results that are arguments are not new.
            numbers |= dict.fromkeys(n for n in call.outputs if Value(n) not in leaves)
        outputs = [n for n in numbers if self.uses[n] > inner_uses[n]]
        try:
            if len(calls) < 2 or not outputs:
                raise NotFusible("no neighbouring call can join it")
            function, arguments = self.fuse(calls, [*leaves], outputs)
        except Exception as error:  # NotFusible, or any error of a formula that cannot handle expressions
            self.refused += [f"{call!r}: {error}" for call in calls]
            self.found.calls += calls
            return
        self.found.calls.append(Call(self.name, function, tuple(arguments), {}, tuple(map(Value, outputs))))


def leaves_of(call: Call) -> list[Leaf]:
    """Return the array arguments of a call."""
    return leaves_in((call.args, call.named), (Value, Literal))


def call_on_expressions(call: Call, F: Any, args: Sequence[Any], named: dict[str, object]) -> Any:
    """Return the expressions of the results of an elementwise call, made in the namespace `F` with other arguments."""
    kind, _, name = call.name.partition(".")
    if name == "evaluate_tiled":
        return args[0](F, *args[1:])
    return (getattr(operator, name) if kind == "operator" else getattr(F, name))(*args, **named)
