"""Products with sparse matrices on the CPU, by SciPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcore.backends.kernel_methods import kernel_for
from gradcore.backends.portable.sparse import SparseMatrices, scipy_matrix
from gradcore.backends.sparsity import Pattern

if TYPE_CHECKING:
    from gradcore.core.arrays import Array

__all__ = ["NumpySparse"]

#: Elements of the gathered rows that are multiplied at a time, so that they stay in cache.
_AT_ONCE = 1 << 15
#: Number of indices from which counting is faster than sorting.
_MANY = 1 << 20
#: Mean number of elements of a row from which counting columns is faster than sorting each row.
_LONG = 64


class NumpySparse(SparseMatrices):
    """Sparse products for the dtypes that SciPy supports."""

    @kernel_for(lambda self, values, dense, *_: values.dtype.char in "fdFDilq" and dense.dtype.char in "fdFDilq")
    def sparse_product(self, values: Any, dense: Any, pattern: Pattern, transposed: bool) -> Any:
        """Return the product of a sparse matrix, or of its transpose, with a dense vector or matrix."""
        return scipy_matrix(values, pattern, transposed) @ dense

    @kernel_for(
        lambda self, index, sizes: len(sizes) == 2 and index.shape[1] >= _MANY and max(sizes) <= 4 * index.shape[1]
    )
    def sort_coordinates(self, index: Array, sizes: Sequence[int]) -> tuple[Array, Array]:
        """Sort the indices of a matrix by counting the elements of each row, as SciPy does.

        The elements of short rows are then sorted by column. Long rows are not sorted: columns are counted first.
        """
        from scipy.sparse import coo_array

        nnz = index.shape[1]
        positions = np.arange(nnz, dtype=np.int32 if nnz < 2**31 else np.int64)
        matrix = coo_array((positions, (index[0], index[1])), shape=tuple(sizes))
        matrix.has_canonical_format = True  # so that the positions of equal indices are not added
        is_short = nnz < _LONG * sizes[0]
        by_rows = matrix.tocsr() if is_short else matrix.tocsc().tocsr()
        by_rows.sort_indices()
        out = np.empty((2, nnz), np.int64)
        out[0], out[1] = np.repeat(np.arange(sizes[0]), np.diff(by_rows.indptr)), by_rows.indices
        order = by_rows.data
        if is_short:  # SciPy's sort is not stable
            repeated = np.flatnonzero((out[:, 1:] == out[:, :-1]).all(0))
            repeated = np.union1d(repeated, repeated + 1)
            part = order[repeated]
            order[repeated] = part[np.lexsort((part, *out[::-1, repeated]))]
        return order.astype(np.int64), out

    @kernel_for(lambda self, left, right, pattern: left.ndim > 1 and left.dtype.char in "fdFD")
    def sampled_product(self, left: Any, right: Any, pattern: Pattern) -> Any:
        """Return the elements of ``left @ right.T`` at the positions of the pattern."""
        rows, cols = pattern.rows, pattern.cols
        out = np.empty(rows.size, np.result_type(left.dtype, right.dtype))
        step = max(1, _AT_ONCE // max(1, left.shape[1]))
        for start in range(0, rows.size, step):
            part = slice(start, start + step)
            a, b = left.take(rows[part], 0), right.take(cols[part], 0)
            out[part] = np.einsum("ij,ij->i", a, b)
        return out
