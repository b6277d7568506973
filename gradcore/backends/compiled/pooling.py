"""Maximum pooling over one or two dims, and its gradient."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from gradcore.backends.compiled.calls import CompiledCalls
from gradcore.backends.kernel_methods import kernel_for
from gradcore.backends.numpy import threads
from gradcore.backends.portable.pooling import MaxPool, planes_of

if TYPE_CHECKING:
    from gradcore.core.arrays import Array

__all__ = ["CompiledPooling"]

#: The numbers of a C structure `Windows`.
_Windows = ctypes.c_int64 * 13


def _takes_windows(backend: object, x: Array, window: MaxPool) -> bool:
    return bool(x.dtype.char in "fd" and x.size and x.flags.aligned and len(window.kernel) < 3)


def _takes_places(backend: object, x: Array, indices: Array, size: Sequence[int], windows: Sequence[int] = ()) -> bool:
    is_supported = x.dtype.char in "fd" and x.flags.aligned and indices.dtype.char == "l" and indices.flags.aligned
    return bool(is_supported and x.size and indices.shape == x.shape)


class CompiledPooling(CompiledCalls):
    """Maxima of windows of float32 and float64 numbers, with their indices."""

    @kernel_for(_takes_windows, MaxPool)
    def max_pool(self, x: Array, window: MaxPool) -> tuple[Array, Array]:
        settings = planes_of(x.shape, *window)
        if settings is None:
            return super().max_pool(x, window)
        planes, sizes, outputs, *others = settings
        n = len(window.kernel)
        shape = (*x.shape[: x.ndim - n], *outputs[2 - n :])
        out, indices = np.empty(shape, x.dtype), np.empty(shape, np.int64)
        windows = _Windows(planes, *[number for pair in (sizes, outputs, *others) for number in pair])
        x = np.ascontiguousarray(x)
        self._function("max_pool", x.dtype.char)(ctypes.addressof(windows), threads.available(), x, out, indices)
        return out, indices

    @kernel_for(_takes_places)
    def max_pool_spread(self, x: Array, indices: Array, size: Sequence[int], windows: Sequence[int] = ()) -> Array:
        lead = x.shape[: x.ndim - len(size)]
        numbers = prod(lead), prod(x.shape[x.ndim - len(size) :]), prod(size)
        out, x, positions = np.empty((*lead, *size), x.dtype), np.ascontiguousarray(x), np.ascontiguousarray(indices)
        if self._function("spread_places", x.dtype.char)(*numbers, threads.available(), x, positions, out):
            return out
        return super().max_pool_spread(x, indices, size, windows)  # This call raises the error.
