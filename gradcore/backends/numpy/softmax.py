"""Softmax and log-softmax for NumPy, computed in a few passes over cache-sized blocks of rows.

In single precision, the error of softmax is at most 16 units of 2**-24, relative to the largest number of the row;
half of it comes from `exp2`. The error of log-softmax is at most 8 such units, relative to its value or to 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcore.backends.kernel_methods import kernel_for
from gradcore.backends.numpy.row_blocks import exponentials, row_maxima, row_sums, rows_of, run_in_blocks
from gradcore.backends.portable.reductions import Reductions

__all__ = ["HIGH", "LOW", "NumpySoftmax"]

#: Elements from which blocks are faster than fewer calls: for formulas of one pass, and of several passes.
_LARGE, _SEVERAL = 1 << 19, 1 << 14
#: Columns from which `numpy.vecdot` is faster than a product and a sum.
_WIDE = 64
#: Range of a row's sum of exponentials within which subtracting the maximum first would not be more precise.
LOW, HIGH = 2.0**-6, 2.0**16

_least: Any = np.minimum.reduce
_largest: Any = np.maximum.reduce


class NumpySoftmax(Reductions):
    """Kernels of softmax and log-softmax, which work on rows if the dim is the last one."""

    def exp_less(self, x: Any, top: Any) -> Any:
        shifted = np.asarray(x - top)
        return exponentials(shifted, shifted)

    def softmax_along(self, x: Any, dim: int) -> Any:
        if not _supports(x, dim):
            return super().softmax_along(x, dim)
        rows = rows_of(x)
        out = np.empty(rows.shape, x.dtype)
        run_in_blocks(lambda part, _: _softmax(rows[part], out[part]), rows)
        return out.reshape(x.shape)

    def softmax_product(self, t: Any, y: Any, dim: int) -> Any:
        is_wide = y.shape[dim] >= _WIDE
        is_small = y.size < (_LARGE if is_wide else _SEVERAL)
        if is_small or not _supports(y, dim) or t.dtype != y.dtype or t.shape != y.shape:
            return super().softmax_product(t, y, dim)
        rows, results = rows_of(t), rows_of(y)
        out = np.empty(rows.shape, y.dtype)

        def work(part: slice, _: int) -> None:
            a, b, c = rows[part], results[part], out[part]
            dots = np.vecdot(a, b) if is_wide else row_sums(np.multiply(a, b, c))
            np.subtract(a, dots[:, None], c)
            c *= b

        run_in_blocks(work, rows)
        return out.reshape(y.shape)

    @kernel_for(lambda self, x, dim: x.size >= _SEVERAL)
    def log_softmax_along(self, x: Any, dim: int) -> Any:
        if not _supports(x, dim):
            out = np.asarray(x - self.max_over(x, (dim,), True))
            out -= np.log(self.sum_over(exponentials(out, np.empty_like(out)), (dim,), True))
            return out
        rows = rows_of(x)
        out = np.empty(rows.shape, x.dtype)

        def work(part: slice, _: int) -> None:
            a, b = rows[part], out[part]
            np.subtract(a, row_maxima(a)[:, None], b)
            b -= np.log(row_sums(exponentials(b, np.empty_like(b))))[:, None]

        run_in_blocks(work, rows)
        return out.reshape(x.shape)

    @kernel_for(lambda self, t, y, dim: y.size >= _SEVERAL)
    def log_softmax_transposed(self, t: Any, y: Any, dim: int) -> Any:
        if not _supports(y, dim) or t.dtype != y.dtype or t.shape != y.shape:
            out = exponentials(y, np.empty_like(y))
            out *= self.sum_over(t, (dim,), True)
            return np.subtract(t, out, out)
        rows, results = rows_of(t), rows_of(y)
        out = np.empty(rows.shape, y.dtype)

        def work(part: slice, _: int) -> None:
            a, b = rows[part], exponentials(results[part], out[part])
            b *= row_sums(a)[:, None]
            np.subtract(a, b, b)

        run_in_blocks(work, rows)
        return out.reshape(y.shape)


def _supports(x: Any, dim: int) -> bool:
    """Return whether the kernels above support these arguments: floats along the last dim."""
    return bool(dim == x.ndim - 1 and x.size and x.dtype.kind == "f" and x.itemsize >= 4)


def _softmax(x: Any, out: Any) -> None:
    """Write the softmax of rows to `out`.

    The maximum is only subtracted first if a sum of exponentials is outside of the range from `LOW` to `HIGH`.
    """
    total = row_sums(exponentials(x, out))
    if not (_least(total) >= LOW and _largest(total) <= HIGH):
        total = row_sums(exponentials(np.subtract(x, row_maxima(x)[:, None], out), out))
    out /= total[:, None]
