"""Running extrema, modes and searches in sorted rows on CUDA, by one launch each."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from gradcore.backends.cupy.kernels import CudaKernels, dense, dtype_name, elements, rows_of
from gradcore.backends.kernel_methods import kernel_for
from gradcore.backends.portable.cumulative import Cumulative
from gradcore.backends.portable.sorting import Sorting, comparable
from gradcore.core.typing import AnyArray

__all__ = ["SCANNED_TYPES", "CudaScans"]

#: C++ types of the elements, and those in which they are compared.
SCANNED_TYPES = {
    "bool": ("u8", "i64"), "uint8": ("u8", "i64"), "uint16": ("u16", "i64"), "uint32": ("u32", "i64"),
    "uint64": ("u64", "u64"), "int8": ("i8", "i64"), "int16": ("i16", "i64"), "int32": ("i32", "i64"),
    "int64": ("i64", "i64"), "float16": ("float16", "float"), "bfloat16": ("bfloat16", "float"),
    "float32": ("float", "float"), "float64": ("double", "double"),
}  # fmt: skip

#: Number of columns from which each thread scans one, and length of columns up to which it does so anyway.
_COLUMNS, _SHORT = 1024, 64


def _takes(backend: CudaScans, x: AnyArray, *settings: object) -> bool:
    return bool(x.size) and backend.uses("selection") and dtype_name(x.dtype) in SCANNED_TYPES


def _takes_rows(backend: CudaScans, sequence: AnyArray, values: AnyArray, right: bool = False) -> bool:
    return sequence.ndim > 1 and bool(values.size) and _takes(backend, sequence) and values.dtype == sequence.dtype


class CudaScans(CudaKernels, Cumulative, Sorting):
    """Kernels that scan rows: a warp scans a short row, a block a long one."""

    @kernel_for(_takes)
    def cummax_along(self, x: AnyArray, dim: int) -> tuple[AnyArray, AnyArray]:
        return self._scan_extrema(x, dim, False)

    @kernel_for(_takes)
    def cummin_along(self, x: AnyArray, dim: int) -> tuple[AnyArray, AnyArray]:
        return self._scan_extrema(x, dim, True)

    def _scan_extrema(self, x: AnyArray, dim: int, least: bool) -> tuple[AnyArray, AnyArray]:
        """Return the extrema up to each element, and the index of the last element equal to each."""
        n, inner, columns = x.shape[dim], prod(x.shape[dim % x.ndim + 1 :]), x.size // x.shape[dim]
        if inner > 1 and columns < _COLUMNS and n > _SHORT:
            found = self._scan_extrema(self.xp.moveaxis(x, dim, -1), -1, least)
            values, indices = (dense(self.xp, self.xp.moveaxis(a, -1, dim)) for a in found)
            return values, indices
        values, indices = self.allocate(x.shape, x.dtype), self.allocate(x.shape, np.int64)
        arrays = dense(self.xp, comparable(x)), _as_numbers(values), indices
        if inner == 1:
            launch, sizes = rows_of(x, columns, n), self.int64s(columns, n)
        else:
            launch, sizes = elements(columns), self.int64s(columns, n, inner)
        kernel = self._scan_kernel("scan_rows" if inner == 1 else "scan_columns", x)
        kernel(*launch, (*arrays, *sizes, np.bool_(least)))
        return values, indices

    @kernel_for(_takes)
    def mode_along(self, x: AnyArray, dim: int, keepdim: bool = False) -> tuple[AnyArray, AnyArray]:
        rows = comparable(self.xp.moveaxis(x, dim, -1))
        n = rows.shape[-1]
        ordered, order = self.sort_along(rows, -1)
        values, indices = self.allocate(rows.shape[:-1], x.dtype), self.allocate(rows.shape[:-1], np.int64)
        count = values.size
        arrays = dense(self.xp, ordered), dense(self.xp, order), _as_numbers(values), indices
        self._scan_kernel("mode_rows", x)(*rows_of(rows, count, n), (*arrays, *self.int64s(count, n)))
        if not keepdim:
            return values, indices
        return self.xp.expand_dims(values, dim), self.xp.expand_dims(indices, dim)

    @kernel_for(_takes_rows)
    def search_in(self, sequence: AnyArray, values: AnyArray, right: bool = False) -> AnyArray:
        out = self.allocate(values.shape, np.int64)
        arrays = dense(self.xp, comparable(sequence)), dense(self.xp, comparable(values)), out
        sizes = self.int64s(values.size, sequence.shape[-1], values.shape[-1])
        self._scan_kernel("search_rows", sequence)(*elements(values.size), (*arrays, *sizes, np.bool_(right)))
        return out

    def _scan_kernel(self, name: str, x: AnyArray) -> Callable[..., object]:
        kind, wide = SCANNED_TYPES[dtype_name(x.dtype)]
        return self.cuda_kernel("scans", name, type=kind, wide=wide)


def _as_numbers(values: AnyArray) -> AnyArray:
    """Return the memory of bools as that of numbers, which the kernels write to it, and other arrays unchanged."""
    return values.view(np.uint8) if values.dtype.kind == "b" else values
