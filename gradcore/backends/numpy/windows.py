"""Convolution in threads, and pooling of small arrays in NumPy.

There calls cost more than elements, so that tables of windows, made once, are faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any, ClassVar, NamedTuple

import numpy as np

from gradcore.backends.numpy.convolution import correlate, weight_gradient
from gradcore.backends.portable import pooling
from gradcore.backends.portable.convolution import Kernels
from gradcore.backends.portable.sliding import pool_output_size
from gradcore.backends.portable.windows import Windows

__all__ = ["NumpyWindows"]

Ints = Sequence[int]

#: Elements of an array, and multiplications with the matrix of its means, up to which a table is faster.
_SMALL, _MULTIPLICATIONS = 1 << 13, 1 << 18


class NumpyWindows(Windows):
    """Convolution in threads, and windows of a few elements."""

    conv_kernels: ClassVar[Kernels] = Kernels(correlate, weight_gradient)

    def max_pool(
        self, x: Any, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
    ) -> tuple[Any, Any]:
        settings = (kernel, stride, padding, dilation)
        if not 0 < x.size <= _SMALL or x.dtype.char not in "fdbBhilq":
            return super().max_pool(x, *settings, ceil_mode)
        n = len(kernel)
        size = x.shape[-n:]
        places, outputs = _windows(size, *map(tuple, settings), ceil_mode)
        planes = x.reshape(-1, prod(size))
        best = planes.take(places, 1).argmax(2)
        indices = places.reshape(-1).take(best + np.arange(0, places.size, places.shape[1]))
        values = planes.reshape(-1).take(indices + np.arange(0, planes.size, planes.shape[1])[:, None])
        if x.dtype.kind == "f" and np.isnan(np.add.reduce(values, None)):  # of several NaN the last one counts
            return super().max_pool(x, *settings, ceil_mode)
        shape = (*x.shape[:-n], *outputs)
        return values.reshape(shape), indices.reshape(shape)

    def avg_pool(
        self,
        x: Any,
        kernel: Ints,
        stride: Ints,
        padding: Ints,
        ceil_mode: bool,
        count_include_pad: bool,
        divisor: int | None,
    ) -> Any:
        settings = (kernel, stride, padding, ceil_mode, count_include_pad, divisor)
        size = x.shape[-len(kernel) :]
        means = _means(x.dtype, x.size, size, *settings)
        result: Any = None if means is None else x.reshape(-1, prod(size)) @ means.matrix
        if means is None or not np.isfinite(result).all():  # zeros of the matrix times infinity
            return super().avg_pool(x, *settings)
        return result.reshape(*x.shape[: -len(size)], *means.outputs)

    def avg_pool_spread(
        self,
        x: Any,
        size: Ints,
        kernel: Ints,
        stride: Ints,
        padding: Ints,
        ceil_mode: bool,
        count_include_pad: bool,
        divisor: int | None,
    ) -> Any:
        settings = (kernel, stride, padding, ceil_mode, count_include_pad, divisor)
        n = len(kernel)
        means = _means(x.dtype, prod(x.shape[:-n]) * prod(size), size, *settings)
        result: Any = None if means is None else x.reshape(-1, prod(x.shape[-n:])) @ means.matrix.T
        if means is None or not np.isfinite(result).all():
            return super().avg_pool_spread(x, size, *settings)
        return result.reshape(*x.shape[:-n], *size)


@lru_cache(maxsize=256)
def _windows(
    size: tuple[int, ...],
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    ceil_mode: bool,
) -> tuple[Any, tuple[int, ...]]:
    """The flat indices of the elements of each window, and how many windows there are along each dim.

    In the place of elements outside stands the window's first element that is inside.
    """
    places, inside = np.zeros((1, 1), np.int64), np.ones((1, 1), bool)
    outputs = []
    for n, k, s, p, d in zip(size, kernel, stride, padding, dilation, strict=True):
        outputs.append(pool_output_size(n, k, s, p, d, ceil_mode))
        along = np.arange(outputs[-1])[:, None] * s - p + np.arange(k) * d
        places = _pairs(places * n, along, np.add)
        inside = _pairs(inside, (along >= 0) & (along < n), np.logical_and)
    first = places[np.arange(len(places)), inside.argmax(1)]
    return np.where(inside, places, first[:, None]), tuple(outputs)


def _pairs(x: Any, y: Any, combine: Any) -> Any:
    """Every row of `x` with every one of `y`, each a combination of every element with every one."""
    pairs = combine(x[:, None, :, None], y[None, :, None, :])
    return pairs.reshape(len(x) * len(y), -1)


class Means(NamedTuple):
    """The matrix that makes the means of windows of flattened elements, and how many there are along each dim."""

    matrix: Any
    outputs: tuple[int, ...]


def _means(dtype: Any, elements: int, size: Ints, *settings: Any) -> Means | None:
    """The means of windows of an array of so many elements; None where a matrix is not worth it."""
    if dtype.char not in "fd" or not 0 < elements <= _SMALL or elements * prod(size) > _MULTIPLICATIONS:
        return None
    kernel, stride, padding, *rest = settings
    return _matrix_of_means(dtype, tuple(size), tuple(kernel), tuple(stride), tuple(padding), *rest)


@lru_cache(maxsize=64)
def _matrix_of_means(dtype: Any, size: tuple[int, ...], *settings: Any) -> Means:
    volume = prod(size)
    means = pooling.avg_pool(np, np.eye(volume, dtype=dtype).reshape(volume, 1, *size), *settings)
    return Means(means.reshape(volume, -1), means.shape[2:])
