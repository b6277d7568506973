"""Levels of batching, and the devices of batched arrays: a real device beneath one or more levels."""

from __future__ import annotations

import itertools
from operator import attrgetter
from typing import Any
from weakref import WeakValueDictionary

from gradcore.backends.registry import connect
from gradcore.device import device

__all__ = ["BatchedDevice", "Level", "over", "under"]

_numbers = itertools.count(1).__next__
_order = attrgetter("order")


class Level:
    """One batch: a call of a function by ``vmap``.

    Parameters
    ----------
    size : int
        Number of samples.
    randomness : {"error", "different", "same"}
        What random numbers are to the samples.
    """

    __slots__ = ("devices", "order", "randomness", "size")

    def __init__(self, size: int, randomness: str = "error") -> None:
        #: Later levels are nested in earlier ones.
        self.order = _numbers()
        #: The devices whose latest level this is, by name and levels of the device inside; tensors keep them alive.
        self.devices: WeakValueDictionary[tuple[Any, ...], BatchedDevice] = WeakValueDictionary()
        self.size = size
        self.randomness = randomness

    def __repr__(self) -> str:
        return f"<level {self.order}: {self.size} samples>"


class BatchedDevice(device):
    """Where batched arrays lie: prints as, and equals, the device of the arrays inside."""

    __slots__ = ("__weakref__", "inner", "levels", "real")

    #: The device without the latest level.
    inner: device
    #: The levels, the earliest first.
    levels: tuple[Level, ...]  # type: ignore[misc]
    #: The device without levels.
    real: device


def over(levels: tuple[Level, ...], place: Any) -> Any:
    """The device `place` beneath `levels`, and those that it has already."""
    known = place.levels
    for level in levels:
        if level not in known:
            break
    else:
        return place
    if not known and len(levels) == 1:
        return _above(place, level)
    found = place.real
    for level in sorted({*levels, *known}, key=_order):
        found = _above(found, level)
    return found


def under(place: Any, level: Level) -> Any:
    """The device `place` without that level."""
    if level not in place.levels:
        return place
    return over(tuple(other for other in place.levels if other is not level), place.real)


def _above(inner: Any, level: Level) -> BatchedDevice:
    """The device of arrays of `inner` in a batch: the same one each time."""
    key = inner._name, inner.levels  # devices with and without levels are equal
    place = level.devices.get(key)
    if place is None:
        from gradcore.backends.vmap.backend import BatchingBackend

        place = object.__new__(BatchedDevice)
        place.type, place.index, place._name, place.guarded = inner.type, inner.index, inner._name, inner.guarded
        place.inner, place.levels, place.real = inner, (*inner.levels, level), inner.real
        connect(place, BatchingBackend(inner.backend, level))
        level.devices[key] = place
    return place
