"""Loop rolling: repeated calls that differ only in their arrays become one call in a loop.

Examples are the time steps of a recurrent net, and equal layers: the functions are the same, and the addresses advance.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import numpy as np

from gradcore.compiler.targets.native.steps import View

__all__ = ["Invocation", "Repeat", "roll_repeats"]

#: The largest number of calls per turn, and the smallest numbers of turns and of calls saved by a loop.
_LONGEST, _FEWEST, _SAVED = 512, 3, 4


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
    kinds = [(each.text, *[(v.dtype, is_private(v.memory)) for v in each.views]) for each in invocations]
    numbers = [keys.setdefault(each, len(keys)) for each in kinds]
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
