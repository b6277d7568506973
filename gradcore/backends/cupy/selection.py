"""Sorting and selection in rows on CUDA: radix select, and sorting in shared memory. Most rows take one launch."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from gradcore.backends.cupy.kernels import NULL, CudaKernels, block_of, dense, dtype_name, elements
from gradcore.backends.kernel_methods import kernel_for
from gradcore.backends.portable.sorting import Sorting
from gradcore.core.typing import AnyArray

__all__ = ["CudaSelection"]

#: Kind of each dtype in the kernels (0: unsigned integers, 1: signed integers, 2: floats), and the bits of infinity.
_KINDS = {
    "bool": (0, "0"), "uint8": (0, "0"), "uint16": (0, "0"), "uint32": (0, "0"), "uint64": (0, "0"), "int8": (1, "0"),
    "int16": (1, "0"), "int32": (1, "0"), "int64": (1, "0"), "float16": (2, "0x7C00"), "bfloat16": (2, "0x7F80"),
    "float32": (2, "0x7F800000"), "float64": (2, "0x7FF0000000000000ull"),
}  # fmt: skip

#: Number of elements that a block sorts in shared memory, for short rows (several blocks share a multiprocessor) and at
#: most.
_FEW, _MOST = 128, 2048

#: Length from which fewer than `_BLOCKS` rows are divided among blocks; least length of the parts of a row.
_LONG, _BLOCKS, _LEAST_PART = 1 << 15, 128, 1 << 13

#: Length from which several blocks search a row for the element of a rank, with one launch for each digit.
_LONG_OF_RANK = 1 << 18

#: Modes of the search: the element of a rank, the median, and the median of the elements that are not NaN.
_RANK, _MEDIAN, _NAN_MEDIAN = 0, 1, 2


@functools.cache
def _kind(dtype: np.dtype[np.generic]) -> tuple[int, str] | None:
    return _KINDS.get(dtype_name(dtype))


def _takes(backend: CudaSelection, x: AnyArray, dim: int, *settings: object) -> bool:
    """Return whether the dtype is supported, and the indices fit into 31 bits."""
    is_taken = bool(x.size) and backend.uses("selection") and _kind(x.dtype) is not None
    return is_taken and max(x.shape[dim], x.size // x.shape[dim]) < 1 << 31


def _takes_top(backend: CudaSelection, x: AnyArray, dim: int, k: int, *settings: object) -> bool:
    return 0 < k <= _MOST and _takes(backend, x, dim)


class CudaSelection(CudaKernels, Sorting):
    """Sorting and selection kernels. CuPy sorts rows that are too long for a block, by integer keys."""

    # -- sorting -------------------------------------------------------------------------------------------------

    @kernel_for(_takes)
    def argsort_along(self, x: AnyArray, dim: int, descending: bool = False) -> AnyArray:
        return self._sort_rows(x, dim, x.shape[dim], descending, False)[1]

    @kernel_for(_takes)
    def sort_along(self, x: AnyArray, dim: int, descending: bool = False) -> tuple[AnyArray, AnyArray]:
        return self._sort_rows(x, dim, x.shape[dim], descending)

    def _sort_rows(
        self, x: AnyArray, dim: int, k: int, descending: bool, with_values: bool = True
    ) -> tuple[AnyArray, AnyArray]:
        """Return the first `k` elements of sorted rows (None unless `with_values`), and their indices.

        Long rows are sorted whole.
        """
        rows = self._rows_of_bits(x, dim)
        n = rows.shape[-1]
        values, indices = self._result_memory(rows, k, with_values)
        results = NULL if values is None else values, indices
        if n <= _MOST:
            threads = min(1024, max(32, _power_of_two(n) // 2))
            kernel = self._selection_kernel("sort_rows", x, n)
            kernel((rows.size // n,), (threads,), (rows, *results, *self.int64s(n, k), np.bool_(descending)))
        else:
            self._sort_long_rows(x, rows, results, descending)
        return self._from_rows(values, x, dim), self._from_rows(indices, None, dim)

    def _sort_long_rows(
        self, x: AnyArray, rows: AnyArray, results: tuple[AnyArray, AnyArray], descending: bool
    ) -> None:
        """Sort rows by integer keys, and write the values and indices to `results`.

        The rows are sorted as one array, because CuPy uses radix sort for one row and comparisons for several. Keys are
        integers, because NVIDIA's radix sort compares bits and puts NaN with a sign bit first.
        """
        xp, n = self.xp, rows.shape[-1]
        count, is_wide = rows.size // n, rows.dtype.itemsize > 4
        chunk = _chunk(count, n, 0)
        sizes, launch = self.int64s(n, chunk), ((count * -(-n // chunk),), block_of(chunk, 8))
        name, key = ("order_keys_by_row", np.uint64) if count > 1 and not is_wide else ("order_keys", rows.dtype)
        keys = self.allocate(rows.size, key)
        self._selection_kernel(name, x, _FEW)(*launch, (rows, keys, *sizes, np.bool_(descending)))
        order = xp.argsort(keys, kind="stable")
        if count > 1 and is_wide:
            order = order[xp.argsort((order // n).astype(np.uint32), kind="stable")]
        self._selection_kernel("take_order", x, _FEW)(*launch, (rows, order, *results, *sizes))

    # -- the first elements ----------------------------------------------------------------------------------------

    @kernel_for(_takes_top)
    def topk_along(self, x: AnyArray, dim: int, k: int, largest: bool = True) -> tuple[AnyArray, AnyArray]:
        n = x.shape[dim]
        if n <= _MOST and (n <= 256 or n <= 4 * k):
            return self._sort_rows(x, dim, k, largest)
        rows, chunk = self._rows_of_bits(x, dim), _chunk(x.size // n, n, 4 * k)
        values, indices = self._top_of_rows(x, rows, NULL, k, chunk, largest)
        if chunk < n:
            values, indices = self._top_of_rows(x, values, indices, k, values.shape[-1], largest)
        return self._from_rows(values, x, dim), self._from_rows(indices, None, dim)

    def _top_of_rows(
        self, x: AnyArray, rows: AnyArray, places: AnyArray, k: int, chunk: int, largest: bool
    ) -> tuple[AnyArray, AnyArray]:
        """Return the first `k` elements, in order, of each part of `chunk` elements of each row, and their indices."""
        n = rows.shape[-1]
        count, parts = rows.size // n, -(-n // chunk)
        values, indices = self._result_memory(rows, (parts - 1) * k + min(k, n - (parts - 1) * chunk))
        arguments = rows, places, values, indices, *self.int64s(n, chunk, k), np.bool_(largest)
        self._selection_kernel("topk_rows", x, k)((count * parts,), block_of(chunk, 8), arguments)
        return values, indices

    # -- one element of the order ----------------------------------------------------------------------------------

    @kernel_for(_takes)
    def kthvalue_along(self, x: AnyArray, dim: int, k: int, keepdim: bool = False) -> tuple[AnyArray, AnyArray]:
        return self._select_rank(x, dim, k, _RANK, keepdim)

    @kernel_for(_takes)
    def median_along(
        self, x: AnyArray, dim: int, keepdim: bool = False, ignore_nan: bool = False
    ) -> tuple[AnyArray, AnyArray]:
        return self._select_rank(x, dim, 0, _NAN_MEDIAN if ignore_nan else _MEDIAN, keepdim)

    def _select_rank(self, x: AnyArray, dim: int, rank: int, mode: int, keepdim: bool) -> tuple[AnyArray, AnyArray]:
        """Return the element of a rank (from 1) or the median of each row, and the index of its first occurrence."""
        rows = self._rows_of_bits(x, dim)
        n = rows.shape[-1]
        if n > _LONG_OF_RANK and rows.size // n < _BLOCKS // 4:
            values, indices = self._select_rank_by_blocks(x, rows, rank, mode)
        else:
            values, indices = self._result_memory(rows, 1)
            arguments = rows, values, indices, *self.int64s(n, rank), np.int32(mode)
            self._selection_kernel("kth_of_rows", x, _FEW)((rows.size // n,), block_of(n, 8), arguments)
        result = self._from_rows(values, x, dim), self._from_rows(indices, None, dim)
        return result if keepdim else (result[0].squeeze(dim), result[1].squeeze(dim))

    def _select_rank_by_blocks(self, x: AnyArray, rows: AnyArray, rank: int, mode: int) -> tuple[AnyArray, AnyArray]:
        """Return the same as `_select_rank` for few long rows: one launch per 8-bit digit, and one for the index."""
        xp, n = self.xp, rows.shape[-1]
        count, chunk, digits = rows.size // n, _chunk(rows.size // n, n, 0), rows.dtype.itemsize
        parts = -(-n // chunk)
        counts = xp.zeros((count, 256 * digits + 1), np.uint32)
        indices = xp.full((*rows.shape[:-1], 1), np.iinfo(np.int64).max, np.uint64)
        kernel, sizes = self._selection_kernel("count_digits", x, _FEW), self.int64s(n, chunk, rank)
        first = -1 if mode and _kind(x.dtype)[0] == 2 else 0  # type: ignore[index]
        for number in range(first, digits):
            numbers = np.int32(mode), np.int32(number)
            kernel((count * parts,), block_of(chunk, 8), (rows, counts, *sizes, *numbers))
        kernel = self._selection_kernel("find_chosen", x, _FEW)
        kernel((count * parts,), block_of(chunk, 8), (rows, counts, indices, *sizes, np.int32(mode)))
        indices = indices.view(np.int64)
        values = self.allocate(indices.shape, rows.dtype)
        kernel = self._selection_kernel("take_chosen", x, _FEW)
        kernel(*elements(count), (rows, indices, values, *self.int64s(count, n)))
        return values, indices

    # -- rows ------------------------------------------------------------------------------------------------------

    def _rows_of_bits(self, x: AnyArray, dim: int) -> AnyArray:
        """Return the elements as unsigned integers with the same bits, dense, with `dim` last."""
        if x.dtype.kind == "b":
            x = (x.view(np.uint8) != 0).view(np.uint8)  # whatever bytes stand for True
        return dense(self.xp, self.xp.moveaxis(x, dim, -1)).view(f"u{x.dtype.itemsize}")

    def _result_memory(self, rows: AnyArray, k: int, with_values: bool = True) -> tuple[AnyArray, AnyArray]:
        """Return memory for `k` elements of each row (None unless `with_values`), and for their indices."""
        shape = (*rows.shape[:-1], k)
        return self.allocate(shape, rows.dtype) if with_values else None, self.allocate(shape, np.int64)

    def _from_rows(self, rows: AnyArray, x: AnyArray, dim: int) -> AnyArray:
        """Return `rows` with the last dim moved to `dim`, and the dtype of `x` if that is not None; None for None."""
        if rows is None:
            return None
        return dense(self.xp, self.xp.moveaxis(rows if x is None else rows.view(x.dtype), -1, dim))

    def _selection_kernel(self, name: str, x: AnyArray, count: int) -> Callable[..., object]:
        """Return the kernel `name` for rows of up to `count` elements with the dtype of `x`."""
        kind, infinity = _kind(x.dtype)  # type: ignore[misc]
        element, largest_count = f"u{8 * x.dtype.itemsize}", str(_FEW if count <= _FEW else _MOST)
        return self.cuda_kernel("selection", name, type=element, kind=str(kind), infinity=infinity, most=largest_count)


def _power_of_two(n: int) -> int:
    return 1 << max(n - 1, 0).bit_length()


def _chunk(rows: int, n: int, least: int) -> int:
    """Return how many elements of a row a block processes, so that there are blocks for the whole device.

    It is a multiple of 16, or `n`.
    """
    if n <= _LONG or rows >= _BLOCKS:
        return n
    parts = max(1, min(2 * _BLOCKS // rows, n // max(least, _LEAST_PART)))
    return min(n, -(-n // (16 * parts)) * 16)
