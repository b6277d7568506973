"""Levels of batching, and the devices of batched arrays: a real device beneath one or more levels."""

from __future__ import annotations

import itertools
from operator import attrgetter
from typing import Any
from weakref import WeakValueDictionary

from gradcore.backends.registry import connect
from gradcore.core.device import device

__all__ = ["BatchedDevice", "VmapLevel", "batched_device", "unbatched_device"]

_numbers = itertools.count(1).__next__
_order = attrgetter("order")


class VmapLevel:
    """A level of batching: one call of a function by ``vmap``.

    Parameters
    ----------
    size : int
        Number of samples.
    randomness : {"error", "different", "same"}
        Whether random numbers raise an error, differ between samples, or are the same for all samples.
    """

    __slots__ = ("devices", "order", "randomness", "size")

    def __init__(self, size: int, randomness: str = "error") -> None:
        #: Later levels are nested in earlier ones.
        self.order = _numbers()
        #: Devices whose latest level is this one, by name and levels of the inner device. Tensors keep them alive.
        self.devices: WeakValueDictionary[tuple[Any, ...], BatchedDevice] = WeakValueDictionary()
        self.size = size
        self.randomness = randomness

    def __repr__(self) -> str:
        return f"<level {self.order}: {self.size} samples>"


class BatchedDevice(device):
    """The device of batched arrays. It prints as, and equals, the device of the arrays inside."""

    __slots__ = ("__weakref__", "inner", "levels", "real")

    #: The device without the latest level.
    inner: device
    #: The levels, the earliest first.
    levels: tuple[VmapLevel, ...]  # type: ignore[misc]
    #: The device without levels.
    real: device


def batched_device(levels: tuple[VmapLevel, ...], device: Any) -> Any:
    """Return the device of arrays of `device` that are batched at `levels` in addition to its own levels."""
    own_levels = device.levels
    for level in levels:
        if level not in own_levels:
            break
    else:
        return device
    if not own_levels and len(levels) == 1:
        return _batch_once(device, level)
    result = device.real
    for level in sorted({*levels, *own_levels}, key=_order):
        result = _batch_once(result, level)
    return result


def unbatched_device(device: Any, level: VmapLevel) -> Any:
    """Return `device` without this level."""
    if level not in device.levels:
        return device
    return batched_device(tuple(other for other in device.levels if other is not level), device.real)


def _batch_once(inner: Any, level: VmapLevel) -> BatchedDevice:
    """Return the device of arrays of `inner` batched at `level`, which is created once."""
    key = inner._name, inner.levels  # devices with and without levels are equal
    result = level.devices.get(key)
    if result is None:
        from gradcore.backends.vmap.backend import BatchedBackend

        result = object.__new__(BatchedDevice)
        result.type, result.index, result._name, result.guarded = inner.type, inner.index, inner._name, inner.guarded
        result.inner, result.levels, result.real = inner, (*inner.levels, level), inner.real
        connect(result, BatchedBackend(inner.backend, level))
        level.devices[key] = result
    return result
