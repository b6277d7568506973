"""Pooling of small arrays on the CPU by cached tables of windows, because calls cost more time than elements there."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from gradcore.backends.kernel_methods import kernel_for, packed
from gradcore.backends.portable.pooling import AvgPool, MaxPool, Pooling
from gradcore.backends.portable.sliding import pool_output_size
from gradcore.core.typing import NUMPY, AnyArray, NamedTuple

__all__ = ["NumpyPooling"]

Ints = Sequence[int]

#: Elements of an array, and multiplications with a matrix that computes means, up to which tables are faster.
_SMALL, _MULTIPLICATIONS = 1 << 13, 1 << 18


def _is_small(backend: Any, x: AnyArray, window: MaxPool) -> bool:
    return 0 < x.size <= _SMALL and x.dtype.char in "fdbBhilq"


class NumpyPooling(Pooling):
    """Pooling kernels for small NumPy arrays."""

    @kernel_for(_is_small, MaxPool)
    def max_pool(self, x: AnyArray, window: MaxPool) -> tuple[AnyArray, AnyArray]:
        n = len(window.kernel)
        size = x.shape[-n:]
        window_indices, outputs = _windows(size, window)
        planes = x.reshape(-1, prod(size))
        best = planes.take(window_indices, 1).argmax(2)
        indices = window_indices.reshape(-1).take(best + np.arange(0, window_indices.size, window_indices.shape[1]))
        values = planes.reshape(-1).take(indices + np.arange(0, planes.size, planes.shape[1])[:, None])
        if x.dtype.kind == "f" and np.isnan(np.add.reduce(values, None)):  # PyTorch returns the last NaN of a window
            return super().max_pool(x, window)
        shape = (*x.shape[:-n], *outputs)
        return values.reshape(shape), indices.reshape(shape)

    @packed(AvgPool)
    def avg_pool(self, x: AnyArray, window: AvgPool) -> AnyArray:
        size = x.shape[-len(window.kernel) :]
        means = _means(x.dtype, x.size, size, window)
        result: AnyArray = None if means is None else x.reshape(-1, prod(size)) @ means.matrix
        if means is None or not np.isfinite(result).all():  # as infinity times the zeros of the matrix is NaN
            return super().avg_pool(x, window)
        return result.reshape(*x.shape[: -len(size)], *means.outputs)

    @packed(AvgPool)
    def avg_pool_spread(self, grad: AnyArray, size: Ints, window: AvgPool) -> AnyArray:
        n = len(size)
        means = _means(grad.dtype, prod(grad.shape[:-n]) * prod(size), size, window)
        result: AnyArray = None if means is None else grad.reshape(-1, prod(grad.shape[-n:])) @ means.matrix.T
        if means is None or not np.isfinite(result).all():
            return super().avg_pool_spread(grad, size, window)
        return result.reshape(*grad.shape[:-n], *size)


@lru_cache(maxsize=256)
def _windows(size: tuple[int, ...], window: MaxPool) -> tuple[Any, tuple[int, ...]]:
    """Return the flat indices of the elements of each window, and the number of windows along each dim.

    For elements in the padding, the index of the window's first element inside the image is repeated.
    """
    indices, inside = np.zeros((1, 1), np.int64), np.ones((1, 1), bool)
    outputs = []
    for n, k, s, p, d in zip(size, *window[:4], strict=True):
        outputs.append(pool_output_size(n, k, s, p, d, window.ceil_mode))
        along_dim = np.arange(outputs[-1])[:, None] * s - p + np.arange(k) * d
        indices = _pairs(indices * n, along_dim, np.add)
        inside = _pairs(inside, (along_dim >= 0) & (along_dim < n), np.logical_and)
    first_inside = indices[np.arange(len(indices)), inside.argmax(1)]
    return np.where(inside, indices, first_inside[:, None]), tuple(outputs)


def _pairs(x: Any, y: Any, combine: Any) -> Any:
    """Combine every row of `x` with every row of `y`, each element with every other."""
    pairs = combine(x[:, None, :, None], y[None, :, None, :])
    return pairs.reshape(len(x) * len(y), -1)


class Means(NamedTuple):
    """A matrix that maps flattened elements to the means of windows, and the number of windows along each dim."""

    matrix: Any
    outputs: tuple[int, ...]


def _means(dtype: Any, elements: int, size: Ints, window: AvgPool) -> Means | None:
    """Return the matrix that maps images to the means of windows, or None if multiplying by it does not pay off."""
    if dtype.char not in "fd" or not 0 < elements <= _SMALL or elements * prod(size) > _MULTIPLICATIONS:
        return None
    return _matrix_of_means(dtype, tuple(size), window)


@lru_cache(maxsize=64)
def _matrix_of_means(dtype: Any, size: tuple[int, ...], window: AvgPool) -> Means:
    volume = prod(size)
    images = Pooling()
    images.xp = NUMPY
    means = images.avg_pool(np.eye(volume, dtype=dtype).reshape(volume, 1, *size), window)
    return Means(means.reshape(volume, -1), means.shape[2:])
