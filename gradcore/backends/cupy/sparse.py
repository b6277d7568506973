"""Products with sparse matrices on CUDA: a warp for each row, or for some elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gradcore.backends import sync_debug
from gradcore.backends.cupy.kernels import C_NAMES, COMPLEX_NAMES, NULL, CudaKernels, accumulation_dtype
from gradcore.backends.kernel_methods import kernel_for
from gradcore.backends.portable.sparse import SparseMatrices
from gradcore.backends.sparsity import Pattern

if TYPE_CHECKING:
    from gradcore.core.arrays import Array

__all__ = ["CudaSparse"]

#: Largest number of elements that a warp sums. Longer rows are split into pieces.
_PIECE = 256
#: Warps of a block, and largest number of blocks. Each warp loops over the remaining rows.
_WARPS, _MOST_BLOCKS = 8, 1 << 16
#: Number of elements from which indices have 64 bits, because a loop may count beyond the last element.
_BEYOND = (1 << 31) - (1 << 10)

_NAMES = {**C_NAMES, **COMPLEX_NAMES}


class _Rows(NamedTuple):
    """Elements of a sparsity pattern grouped by rows, or by columns.

    Attributes
    ----------
    kind : str
        The type of indices.
    ends : array
        Where each row begins among the elements, and the last one ends.
    inner : array
        The column of each element.
    order : array or None
        The positions of the elements; None if they are in this order.
    pieces : tuple of arrays or None
        Where pieces of rows begin among the elements, and rows among the pieces; None if no row is long.
    """

    kind: str
    ends: Any
    inner: Any
    order: Any
    pieces: Any


def _takes(backend: CudaSparse, first: Array, second: Array, pattern: Pattern, *rest: Any) -> bool:
    return (
        backend.uses("sparse")
        and first.dtype == second.dtype
        and first.dtype.name in _NAMES
        and second.ndim <= 2
        and min(first.size, second.size, pattern.size) > 0
    )


class CudaSparse(CudaKernels, SparseMatrices):
    """Sparse products of floating-point and complex numbers; other dtypes use the portable code."""

    @kernel_for(_takes)
    def sparse_product(self, values: Any, dense: Any, pattern: Pattern, transposed: bool) -> Any:
        rows, xp = self._elements_by_rows(pattern, transposed), self.xp
        out = xp.empty((pattern.shape[transposed], *dense.shape[1:]), dense.dtype)
        elements = xp.ascontiguousarray(values), rows.order, rows.inner
        if rows.pieces is None:
            self._sum_sparse_rows(rows, rows.ends, elements, dense, out)
        else:
            starts, ends = rows.pieces
            parts = xp.empty((len(starts) - 1, *dense.shape[1:]), accumulation_dtype(dense))
            self._sum_sparse_rows(rows, starts, elements, dense, parts)
            self._sum_sparse_rows(rows, ends, (None, None, None), parts, out)
        return out

    @kernel_for(_takes)
    def sampled_product(self, left: Any, right: Any, pattern: Pattern) -> Any:
        index, rows, cols = _positions(pattern)
        left, right = (x.reshape(len(x), -1) for x in (left, right))
        out = self.xp.empty(pattern.size, left.dtype)
        lanes = _lanes(left.shape[1])
        steps = (s // x.itemsize for x in (left, right) for s in x.strides)
        sizes = self.int64s(pattern.size, left.shape[1], *steps)
        kernel = self.cuda_kernel("sparse", "sparse_samples", **_types(left, out, index))
        kernel(*_warps(-(-pattern.size * lanes // 32)), (left, right, rows, cols, out, *sizes, np.int32(lanes)))
        return out

    def _sum_sparse_rows(self, rows: _Rows, ends: Any, elements: tuple[Any, ...], dense: Any, out: Any) -> None:
        """Launch the kernel that writes the products of sparse rows with a dense matrix to `out`."""
        values, order, inner = (NULL if x is None else x for x in elements)
        height, width = len(ends) - 1, dense.shape[1] if dense.ndim > 1 else 1
        lanes = _lanes(width)
        steps = [s // dense.itemsize for s in dense.strides] + [0] * (2 - dense.ndim)
        kernel = self.cuda_kernel("sparse", "sparse_rows", **_types(dense, out, rows.kind))
        arguments = (values, order, ends, inner, dense, out, *self.int64s(height, width, *steps), np.int32(lanes))
        kernel(*_warps(height), arguments)

    def _elements_by_rows(self, pattern: Pattern, transposed: bool) -> _Rows:
        """Return the elements grouped by rows, or by columns if `transposed`. The result is cached in `pattern`."""
        key = "by columns" if transposed else "by rows"
        if key not in pattern.kept:
            sync_debug.note("wait")
            kind, lists = _index_type(pattern), _compress_pattern(pattern, transposed)
            split = _split_long_rows(self.xp, lists[0])
            pieces = None if split is None else tuple(_as_index_array(kind, x) for x in split)
            ends, inner, order = (_as_index_array(kind, x) for x in lists)
            pattern.kept[key] = _Rows(kind, ends, inner, order, pieces)
        rows: _Rows = pattern.kept[key]
        return rows


def _positions(pattern: Pattern) -> tuple[str, Any, Any]:
    """Return the name of the index type, and the row and column of each element."""
    index = _index_type(pattern)
    if "positions" not in pattern.kept:
        pattern.kept["positions"] = tuple(_as_index_array(index, x) for x in (pattern.rows, pattern.cols))
    return (index, *pattern.kept["positions"])


def _compress_pattern(pattern: Pattern, transposed: bool) -> tuple[Any, Any, Any]:
    """Return the start of each row (or column), the column (or row) of each element, and the order of the elements."""
    if (pattern.by_rows or not pattern.is_compressed) != transposed:
        return pattern.compressed_form
    xp, outer, inner = pattern.xp, pattern.rows, pattern.cols
    if transposed:
        outer, inner = inner, outer
    order = xp.argsort(outer, kind="stable")
    return xp.searchsorted(outer[order], xp.arange(pattern.shape[transposed] + 1)), inner[order], order


def _split_long_rows(xp: Any, ends: Any) -> tuple[Any, Any] | None:
    """Split rows into pieces of limited length.

    Return the start of each piece among the elements, and the first piece of each row, or None if no row is long.
    """
    counts = -((ends[:-1] - ends[1:]) // _PIECE)
    total, largest = xp.asnumpy(xp.stack([counts.sum(), counts.max()])).tolist()
    if largest <= 1:
        return None
    of_rows = xp.concatenate([xp.zeros(1, counts.dtype), counts.cumsum()])
    piece = xp.arange(total)
    row = xp.searchsorted(of_rows, piece, side="right") - 1
    return xp.concatenate([ends[row] + (piece - of_rows[row]) * _PIECE, ends[-1:]]), of_rows


def _as_index_array(index: str, x: Any) -> Any:
    """Return `x` as a C-contiguous array of int32 or int64, or None if `x` is None."""
    return None if x is None else x.astype(np.int32 if index == "i32" else np.int64, order="C", copy=False)


def _index_type(pattern: Pattern) -> str:
    return "i32" if max(*pattern.shape, pattern.size) < _BEYOND else "i64"


def _types(x: Any, out: Any, index: str) -> dict[str, str]:
    macros = {"type": _NAMES[x.dtype.name], "result": _NAMES[out.dtype.name], "index": index}
    return {**macros, "complex": "1"} if x.dtype.kind == "c" else macros


def _lanes(width: int) -> int:
    """Return how many lanes of a warp process one column each."""
    return min(32, 1 << (width - 1).bit_length())


def _warps(count: int) -> tuple[tuple[int], tuple[int, int]]:
    """Return the grid and block for `count` warps."""
    return (min(-(-count // _WARPS), _MOST_BLOCKS),), (32, _WARPS)
