"""Arenas: one block of memory for many values, where values that are never needed at the same time share bytes."""

from __future__ import annotations

import operator
import sys
from bisect import insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from gradcore.core.typing import AnyArray

__all__ = ["Host", "Pool", "arrange", "empty_block"]

_T = TypeVar("_T")

#: Alignment in bytes of arrays, a cache line, and of numbers.
_LINE, _WORD = 64, 8
#: The largest size in bytes of values that may not use the memory of hosts, and of arenas that stay as they are first.
_SMALL = 1 << 15
#: The largest number of values that are placed in other orders than that of first uses.
_MANY = 1000
#: The largest number of blocks that a pool keeps.
_MOST_BLOCKS = 2


class Host(NamedTuple):
    """A block of memory besides the arena, which values may use before the call `until`."""

    name: str
    size: int
    until: int


class _Lifetime(NamedTuple):
    """The positions of the first and the last use of a slot, its size, and the values that have it in turn."""

    first: int
    last: int
    size: int
    values: list[int]


#: The name of the block and the distance in bytes from its start, for each value.
Slots = dict[int, tuple[str, int]]

#: The orders in which values get slots: first used first (fast); largest first, longest used first, and both.
_ORDERS: list[Callable[[_Lifetime], tuple[object, ...]]] = [
    lambda life: (life.first, -life.last, *life),
    lambda life: (-life.size, *life),
    lambda life: (life.first - life.last, *life),
    lambda life: (-life.size * (life.last - life.first + 1), *life),
]


def arrange(
    lifetimes: Mapping[int, tuple[int, int]], size_of: Callable[[int], int], pairs: Iterable[tuple[int, int]] = (),
    hosts: Sequence[Host] = (),
) -> tuple[int, Slots]:  # fmt: skip
    """Return the size of an arena for values, and where each value is.

    Parameters
    ----------
    lifetimes : mapping of int to tuple of int
        The positions of the first and the last call that use each value.
    size_of : callable
        Function that returns the size of a value in bytes.
    pairs : iterable of tuple of int, optional
        Values that a call reads, each with a value that it writes element by element, and may write over it.
    hosts : sequence of Host, optional
        Other memory that large values may use.

    Returns
    -------
    size : int
        The size in bytes.
    slots : dict
        The name of the host, or ``"arena"``, and the distance in bytes from its start, for each value.
    """
    joined = _join(lifetimes, size_of, pairs)
    size, slots = _place_all(sorted(joined, key=_ORDERS[0]), [], in_time=True)
    if size <= _SMALL or len(joined) > _MANY:
        return size, slots
    others = [_place_all(sorted(joined, key=order), hosts, in_time=False) for order in _ORDERS[1:]]
    return min([(size, slots), *others], key=operator.itemgetter(0))


def _join(
    lifetimes: Mapping[int, tuple[int, int]], size_of: Callable[[int], int], pairs: Iterable[tuple[int, int]]
) -> list[_Lifetime]:
    """Return the lifetimes of slots; a value that a call writes over its argument has the argument's slot."""
    after: dict[int, int] = {}
    continuing: set[int] = set()
    for old, new in pairs:
        follows = (
            old in lifetimes
            and new in lifetimes
            and lifetimes[old][1] == lifetimes[new][0]
            and size_of(old) == size_of(new)
        )
        if follows and old not in after and new not in continuing:
            after[old] = new
            continuing.add(new)
    results = []
    for head in sorted(lifetimes.keys() - continuing):
        values = [head]
        while values[-1] in after:
            values.append(after[values[-1]])
        size = max(size_of(head), 1)
        size = _WORD if size <= _WORD else size + -size % _LINE
        results.append(_Lifetime(lifetimes[head][0], lifetimes[values[-1]][1], size, values))
    return results


def _place_all(lifetimes: list[_Lifetime], hosts: Sequence[Host], in_time: bool) -> tuple[int, Slots]:
    """Return the size of the arena and the slots of values, which are chosen in the order given."""
    regions = [_Region(host) for host in hosts]
    arena = _Region(Host("arena", sys.maxsize, sys.maxsize))
    slots: Slots = {}
    for life in lifetimes:
        for region in [arena] if life.size <= _SMALL else [*regions, arena]:
            start = region.place(life, in_time)
            if start is not None:
                slots.update(dict.fromkeys(life.values, (region.host.name, start)))
                break
    return arena.used, slots


class _Region:
    """The values in one block of memory."""

    def __init__(self, host: Host) -> None:
        self.host, self.used = host, 0
        self._taken: list[tuple[int, int, int, int]] = []  # start, stop, first and last use

    def place(self, life: _Lifetime, in_time: bool) -> int | None:
        """Return the first offset that is free during a lifetime, or None.

        If lifetimes are given in the order of first uses (`in_time`), slots that are no longer used are dropped.
        """
        if life.last >= self.host.until:
            return None
        if in_time:
            self._taken = [each for each in self._taken if each[3] >= life.first]
        start, alignment = 0, min(life.size, _LINE)
        for low, high, first, last in self._taken:
            if first <= life.last and life.first <= last:
                if start + life.size <= low:
                    break
                start = high + -high % alignment if high > start else start
        if start + life.size > self.host.size:
            return None
        insort(self._taken, (start, start + life.size, life.first, life.last))
        self.used = max(self.used, start + life.size)
        return start


def empty_block(size: int) -> AnyArray:
    """Return uninitialized bytes that begin at a cache line."""
    block = np.empty(size + _LINE, np.uint8)
    start = -block.ctypes.data % _LINE
    return block[start : start + size]


class Pool(Generic[_T]):
    """Pool of equal blocks of memory: each run takes one, so that threads and nested runs share none.

    Parameters
    ----------
    allocate : callable
        Function without arguments that returns a new block.
    """

    def __init__(self, allocate: Callable[[], _T]) -> None:
        self._allocate = allocate
        self._free: list[_T] = []

    def take(self) -> _T:
        """Return a block that no other run uses."""
        try:
            return self._free.pop()
        except IndexError:
            return self._allocate()

    def give(self, block: _T) -> None:
        """Put a block back into the pool."""
        if len(self._free) < _MOST_BLOCKS:
            self._free.append(block)
