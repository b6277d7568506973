"""Loop rolling: repeated calls that differ only in their arrays become one call in a loop.

Examples are the time steps of a recurrent net, and equal layers: the functions are the same, and the addresses advance.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gradcore.compiler.targets.native.steps import View

__all__ = ["Invocation", "Repeat", "roll_repeats", "slots"]

#: The largest number of calls per turn, and the smallest numbers of turns and of calls saved by a loop.
_LONGEST, _FEWEST, _SAVED = 512, 3, 4
#: The size in bytes up to which each memory gets a slot of its own, even if few of them are in use at a time.
_LOOSE = 1 << 15


class Invocation(NamedTuple):
    """A call of a C++ function.

    Attributes
    ----------
    text : str
        The C++ call, with ``{0}``, ``{1}`` ... for the first elements of the views.
    views : tuple of View
        The arguments, in the order in which `text` refers to them.
    fallible : bool
        Whether the function returns false if it fails, for example for an index out of range.
    shared : tuple of (int, int)
        Pairs of memories that are read and written elementwise, so that they may share a slot.
    """

    text: str
    views: tuple[View, ...]
    fallible: bool = False
    shared: tuple[tuple[int, int], ...] = ()

    def __str__(self) -> str:
        return self.text


class Repeat(NamedTuple):
    """Several turns of invocations that differ only in their views: a loop.

    Attributes
    ----------
    turns : list of list of Invocation
        The invocations of each turn.
    """

    turns: list[list[Invocation]]

    def __str__(self) -> str:
        return f"{len(self.turns)} times {len(self.turns[0])} calls"


def roll_repeats(invocations: list[Invocation], is_private: Callable[[int], bool]) -> list[Invocation | Repeat]:
    """Return the invocations in order, with repeated runs as loops.

    Parameters
    ----------
    invocations : list of Invocation
    is_private : callable
        Function that returns whether a memory is in the arena. An argument is in the arena in all turns or in none.
    """
    keys: dict[Hashable, int] = {}
    numbers = [
        keys.setdefault((i.text, *[(v.dtype, is_private(v.memory)) for v in i.views]), len(keys)) for i in invocations
    ]
    rolled: list[Invocation | Repeat] = []
    end = 0
    for start, period, count in _repeats(np.asarray(numbers), 0):
        rolled += invocations[end:start]
        rolled.append(Repeat([invocations[start + k * period : start + (k + 1) * period] for k in range(count)]))
        end = start + period * count
    return [*rolled, *invocations[end:]]


def _repeats(numbers: Any, offset: int) -> list[tuple[int, int, int]]:
    """Return the repetitions in a sequence, each as (start, period, count). The most profitable are chosen first."""
    n = len(numbers)
    best = (0, 0, 0, 0)
    for period in range(1, min(_LONGEST, n // _FEWEST) + 1):
        differs = np.flatnonzero(numbers[period:] != numbers[:-period])
        bounds = np.concatenate([[-1], differs, [n - period]])
        # The lengths of runs in which each number equals the number one period earlier.
        lengths = np.diff(bounds) - 1
        longest = int(lengths.argmax())
        count = int(lengths[longest]) // period + 1
        saved = (count - 1) * period
        if count >= _FEWEST and saved > max(best[0], _SAVED - 1):
            best = saved, int(bounds[longest]) + 1, period, count
    saved, start, period, count = best
    if not saved:
        return []
    stop = start + period * count
    head, tail = _repeats(numbers[:start], offset), _repeats(numbers[stop:], offset + stop)
    return [*head, (offset + start, period, count), *tail]


def slots(
    repeats: list[Repeat], uses: dict[int, list[int]], span: Callable[[int], int]
) -> list[tuple[list[int], bool]]:
    """Return rows of memories that an argument uses in successive turns, to be equally spaced so that a loop is simple.

    Parameters
    ----------
    repeats : list of Repeat
    uses : dict
        The positions of the calls that use each memory of the arena, in order.
    span : callable
        Function that returns the size of a memory in bytes.

    Returns
    -------
    list of tuple
        Memories of one size, and whether a single slot is enough for all of them.
    """
    rows: list[list[int]] = []
    row_of: dict[int, list[int]] = {}
    for repeat in repeats:
        for calls in zip(*repeat.turns, strict=True):
            for views in zip(*[call.views for call in calls], strict=True):
                memories = [v.memory for v in views]
                are_alike = all(m in uses and span(m) == span(memories[0]) for m in memories)
                if are_alike and len({*memories}) == len(memories):
                    _extend(rows, row_of, memories)
    results = []
    for row in rows:
        alive_count = _alive_together([(uses[m][0], uses[m][-1]) for m in row])
        if alive_count == 1 or 2 * alive_count >= len(row) or span(row[0]) * len(row) <= _LOOSE:
            results.append((row, alive_count == 1))
    return results


def _extend(rows: list[list[int]], of: dict[int, list[int]], memories: list[int]) -> None:
    """Extend a row that ends or begins with some of these memories, or start a new row."""
    inner = [i for i, m in enumerate(memories) if m in of]
    if not inner:
        rows.append([*memories])
        of.update(dict.fromkeys(memories, rows[-1]))
        return
    first, stop = inner[0], inner[-1] + 1
    row = of[memories[first]]
    start = row.index(memories[first])
    if row[start : start + len(inner)] != memories[first:stop]:
        return
    if start == 0 and stop == len(memories):
        row[:0] = memories[:first]
    elif first == 0 and start + len(inner) == len(row):
        row += memories[stop:]
    else:
        return
    of.update(dict.fromkeys(memories, row))


def _alive_together(lifetimes: Sequence[tuple[int, int]]) -> int:
    """Return the largest number of lifetimes that overlap."""
    events = sorted([(first, 0, 1) for first, _ in lifetimes] + [(last, 1, -1) for _, last in lifetimes])
    alive = largest = 0
    for _, _, change in events:
        alive += change
        largest = max(largest, alive)
    return largest
