"""Reading and adding at one index per element in NumPy: places are made block by block, and never leave the cache."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

from gradcore.backends.indexing import Indexing

__all__ = ["NumpyIndexing"]

#: Elements of a block: their places, of 8 bytes each, and what is there fit into the second level of cache.
_BLOCK = 1 << 14


class NumpyIndexing(Indexing):
    """`gather` and `scatter_add` where index and array differ in size along the dim alone."""

    def gathered(self, x: Any, dim: int, index: Any) -> Any:
        if index.size <= _BLOCK or not _differ_along(x.shape, index.shape, dim) or not x.flags.c_contiguous:
            return super().gathered(x, dim, index)
        out, source = np.empty(index.size, x.dtype), x.reshape(-1)
        for part, places in self._blocks(x.shape, dim, index):
            out[part] = source.take(places)
        return out.reshape(index.shape)

    def added_along(self, out: Any, dim: int, index: Any, src: Any) -> Any:
        if (
            index.size <= _BLOCK
            or not _differ_along(out.shape, index.shape, dim)
            or not out.flags.c_contiguous
            or out.dtype != src.dtype
            or out.dtype.char not in "fdilq"
        ):
            return super().added_along(out, dim, index, src)
        total, source = out.reshape(-1), src.reshape(-1)
        for part, places in self._blocks(out.shape, dim, index):
            np.add.at(total, places, source[part])
        return out

    def _blocks(self, shape: tuple[int, ...], dim: int, index: Any) -> Iterator[tuple[slice, Any]]:
        """For each block of a flattened index: where it is, and the places it names in an array of that shape."""
        n, m, inner = shape[dim], index.shape[dim], prod(shape[dim + 1 :])
        rows = index.reshape(-1, m if inner == 1 else inner)
        height, width = rows.shape
        starts = np.arange(0, height * n, n) if inner == 1 else np.arange(height) // m * (n * inner)
        step = max(1, _BLOCK // width)
        for begin in range(0, height, step):
            block = rows[begin : begin + step]
            self.check_bounds(block, n, dim)
            if inner == 1:
                places = block + starts[begin : begin + step, None]
            else:
                places = block * inner
                places += np.arange(inner)
                if height > m:
                    places += starts[begin : begin + step, None]
            yield slice(begin * width, begin * width + places.size), places.reshape(-1)


def _differ_along(shape: tuple[int, ...], other: tuple[int, ...], dim: int) -> bool:
    """Whether two shapes are the same, but for one dim."""
    return len(shape) == len(other) and shape[:dim] == other[:dim] and shape[dim + 1 :] == other[dim + 1 :]
