"""Counts of whole numbers and histograms on CUDA, in one launch for up to 16,384 numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gradcore.backends import sync_debug
from gradcore.backends.cupy.kernels import NULL, CudaKernels, block_of, dense, dtype_name, elements
from gradcore.backends.portable.sorting import Sorting
from gradcore.core import determinism
from gradcore.core.typing import AnyArray

__all__ = ["CudaCounts"]

#: CUDA names of the dtypes that are counted.
_TYPES = {
    "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16", "uint32": "u32",
    "float32": "float", "float64": "double",
}  # fmt: skip

#: Number of elements up to which one block counts them, and up to which one block finds the least and the largest.
_OF_A_BLOCK, _RANGE_OF_A_BLOCK = 1 << 14, 1 << 16

#: Number of bins that a block counts in shared memory.
_BINS = 2048


class CudaCounts(CudaKernels, Sorting):
    """Counts in shared memory. The host waits for the range of the numbers only where that is needed."""

    def bincount_of(self, x: AnyArray, weights: AnyArray = None, minlength: int = 0) -> AnyArray:
        if weights is not None:
            determinism.alert("_bincount_cuda")
        if not self._counts(x):
            return super().bincount_of(x, weights, minlength)
        least, largest = self._read_range(x)
        self.check_counted(least, largest)
        bins = max(int(largest) + 1, minlength)
        if weights is None:
            return self._count_in_bins("count_numbers", x, bins)
        sums = self.xp.zeros(bins, np.float64)
        arrays = dense(self.xp, x), dense(self.xp, weights.astype(np.float64, copy=False)), sums
        self._counting_kernel("add_weights", x)(*elements(x.size), (*arrays, *self.int64s(x.size)))
        return sums.astype(self.sum_type(weights), copy=False)

    def histogram_of(self, x: AnyArray, bins: int, low: float, high: float) -> AnyArray:
        if not self._counts(x):
            sync_debug.note("wait")
            return super().histogram_of(x, bins, low, high)
        if low == high:
            low, high = self.check_range(*self._read_range(x))
        return self._count_in_bins("count_in_bins", x, bins, np.float64(low), np.float64(high))

    def _counts(self, x: AnyArray) -> bool:
        """Return whether the kernels take the elements of `x`."""
        return bool(x.size) and self.uses("selection") and dtype_name(x.dtype) in _TYPES

    def _read_range(self, x: AnyArray) -> list[float]:
        """Return the least and the largest element, NaN if one is NaN, as numbers of the host.

        The host waits once for few elements, and twice for many, whose reductions are CuPy's.
        """
        sync_debug.note("wait")
        if x.size > _RANGE_OF_A_BLOCK:
            least, largest = x.min(), x.max()
            return [least.item(), largest.item()]
        result = self.allocate(2, _count_dtype(x))
        kernel = self._counting_kernel("find_range", x)
        kernel((1,), block_of(x.size), (dense(self.xp, x), result, *self.int64s(x.size)))
        return self.xp.asnumpy(result).tolist()

    def _count_in_bins(self, name: str, x: AnyArray, bins: int, *settings: object) -> AnyArray:
        """Return how many elements each bin has, by the kernel `name`: int64 for whole numbers, or the dtype of `x`."""
        has_one_block, dtype = x.size <= _OF_A_BLOCK and bins <= _BINS, _count_dtype(x)
        result = self.allocate(bins, dtype) if has_one_block else None
        counts = None if has_one_block else self.xp.zeros(bins, np.int64)
        launch = ((1,), block_of(x.size)) if has_one_block else _blocks(x.size)
        arrays = dense(self.xp, x), *(NULL if a is None else a for a in (counts, result))
        self._counting_kernel(name, x)(*launch, (*arrays, *self.int64s(x.size, bins), *settings))
        return result if counts is None else counts.astype(dtype, copy=False)

    def _counting_kernel(self, name: str, x: AnyArray) -> Callable[..., object]:
        kind, count = (_TYPES[dtype_name(dtype)] for dtype in (x.dtype, _count_dtype(x)))
        return self.cuda_kernel("counts", name, type=kind, count=count)


def _count_dtype(x: AnyArray) -> np.dtype[np.generic]:
    """Return the dtype of counts: that of floating-point numbers, or int64."""
    return x.dtype if x.dtype.kind == "f" else np.dtype(np.int64)


def _blocks(size: int) -> tuple[tuple[int], tuple[int]]:
    """Return the grid and block for a kernel whose blocks count in shared memory: few, each of many elements."""
    return (min(-(-size // 4096), 1024),), (512,)
