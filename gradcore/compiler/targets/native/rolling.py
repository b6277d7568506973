"""Loop rolling: repeated calls that differ only in their arrays become one call in a loop.

The steps of a recurrent net and equal layers are such calls: the functions are the same, and the addresses advance.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gradcore.compiler.targets.native.steps import View

__all__ = ["Invocation", "Repeat", "roll_repeats", "slots"]

#: Calls that one repetition has at most, repetitions that there are at least, and calls that a loop saves at least.
_LONGEST, _FEWEST, _SAVED = 512, 3, 4
#: Bytes in which memories have a place each, even if few of them are alive together.
_LOOSE = 1 << 15


class Invocation(NamedTuple):
    """A call of a C++ function.

    Attributes
    ----------
    text : str
        With ``{0}``, ``{1}`` ... for the first elements of the views.
    views : tuple of View
        What it writes, and then what it reads, or the other way round: the text says which.
    fallible : bool
        Whether it returns false where it cannot do its work.
    shared : tuple of (int, int)
        Memories that it reads and writes element by element, so that one may be where the other is.
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
        Of each repetition.
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
        Whether a memory is one of those that have places in one arena; an argument is such a one in all turns, or none.
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
    """Return start, period and count of repetitions in a sequence, the most profitable first, without overlap."""
    n = len(numbers)
    best = (0, 0, 0, 0)
    for period in range(1, min(_LONGEST, n // _FEWEST) + 1):
        differs = np.flatnonzero(numbers[period:] != numbers[:-period])
        bounds = np.concatenate([[-1], differs, [n - period]])
        lengths = np.diff(bounds) - 1  # of runs in which each number is that of the period before
        longest = int(lengths.argmax())
        count = int(lengths[longest]) // period + 1
        saved = (count - 1) * period
        if count >= _FEWEST and saved > max(best[0], _SAVED - 1):
            best = saved, int(bounds[longest]) + 1, period, count
    saved, start, period, count = best
    if not saved:
        return []
    stop = start + period * count
    before, after = _repeats(numbers[:start], offset), _repeats(numbers[stop:], offset + stop)
    return [*before, (offset + start, period, count), *after]


def slots(
    repeats: list[Repeat], uses: dict[int, list[int]], span: Callable[[int], int]
) -> list[tuple[list[int], bool]]:
    """Return rows of memories that arguments take turn by turn: equally spaced, their addresses are arithmetic.

    Parameters
    ----------
    repeats : list of Repeat
    uses : dict
        By memory that has a place in the arena the positions of the calls that use it, in order.
    span : callable
        The bytes of a memory.

    Returns
    -------
    list of tuple
        Memories of one size, and whether one place is enough for all of them.
    """
    rows: list[list[int]] = []
    of: dict[int, list[int]] = {}
    for repeat in repeats:
        for calls in zip(*repeat.turns, strict=True):
            for views in zip(*[call.views for call in calls], strict=True):
                memories = [v.memory for v in views]
                if len({*memories}) == len(memories) and all(
                    m in uses and span(m) == span(memories[0]) for m in memories
                ):
                    _extend(rows, of, memories)
    results = []
    for row in rows:
        together = _alive_together([(uses[m][0], uses[m][-1]) for m in row])
        if together == 1 or 2 * together >= len(row) or span(row[0]) * len(row) <= _LOOSE:
            results.append((row, together == 1))
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
    alive = most = 0
    for _, _, change in events:
        alive += change
        most = max(most, alive)
    return most
