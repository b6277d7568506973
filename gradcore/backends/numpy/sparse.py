"""Products with sparse matrices on the CPU, by SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcore.backends.kernel_methods import kernel_for
from gradcore.backends.portable.sparse import SparseMatrices, scipy_matrix
from gradcore.backends.sparsity import Pattern

__all__ = ["NumpySparse"]

#: Elements of the gathered rows that are multiplied at a time, so that they stay in cache.
_AT_ONCE = 1 << 15


class NumpySparse(SparseMatrices):
    """Sparse products for the dtypes that SciPy supports."""

    @kernel_for(lambda self, values, dense, *_: values.dtype.char in "fdFDilq" and dense.dtype.char in "fdFDilq")
    def sparse_product(self, values: Any, dense: Any, pattern: Pattern, transposed: bool) -> Any:
        """Return the product of a sparse matrix, or of its transpose, with a dense vector or matrix."""
        return scipy_matrix(values, pattern, transposed) @ dense

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
