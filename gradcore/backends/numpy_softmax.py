"""Softmax and its logarithm for NumPy: a few passes over blocks of rows that stay in cache."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcore.backends.numpy_rows import blocks, exponentials, row_maxima, row_sums, rows_of
from gradcore.backends.reductions import Reductions

__all__ = ["NumpySoftmax"]

#: Columns from which `numpy.vecdot` is faster than a product and a sum.
_WIDE = 256
#: The sums of a row's exponentials for which these are as precise as those of differences from the maximum.
_LOW, _HIGH = 2.0**-6, 2.0**16

_least: Any = np.minimum.reduce
_largest: Any = np.maximum.reduce


class NumpySoftmax(Reductions):
    """The softmax family along the last dim."""

    def softmax_along(self, x: Any, dim: int) -> Any:
        if not _by_rows(x, dim):
            return super().softmax_along(x, dim)
        rows = rows_of(x)
        out = np.empty(rows.shape, x.dtype)
        plain = True
        for part in blocks(rows):
            plain = _softmax(rows[part], out[part], plain)
        return out.reshape(x.shape)

    def softmax_product(self, t: Any, y: Any, dim: int) -> Any:
        if not _by_rows(y, dim) or t.dtype != y.dtype or t.shape != y.shape:
            return super().softmax_product(t, y, dim)
        rows, results = rows_of(t), rows_of(y)
        out = np.empty(rows.shape, y.dtype)
        wide = rows.shape[1] >= _WIDE
        for part in blocks(rows):
            a, b, c = rows[part], results[part], out[part]
            dots = np.vecdot(a, b) if wide else row_sums(np.multiply(a, b, c))
            np.subtract(a, dots[:, None], c)
            c *= b
        return out.reshape(y.shape)

    def log_softmax_along(self, x: Any, dim: int) -> Any:
        if not _by_rows(x, dim):
            return super().log_softmax_along(x, dim)
        rows = rows_of(x)
        out = np.empty(rows.shape, x.dtype)
        parts = blocks(rows)
        scratch = np.empty_like(out[parts[0]])
        for part in parts:
            a, b = rows[part], out[part]
            np.subtract(a, row_maxima(a)[:, None], b)
            b -= np.log(row_sums(exponentials(b, scratch[: len(b)])))[:, None]
        return out.reshape(x.shape)

    def log_softmax_transposed(self, t: Any, y: Any, dim: int) -> Any:
        if not _by_rows(y, dim) or t.dtype != y.dtype or t.shape != y.shape:
            return super().log_softmax_transposed(t, y, dim)
        rows, results = rows_of(t), rows_of(y)
        out = np.empty(rows.shape, y.dtype)
        for part in blocks(rows):
            a, b = rows[part], out[part]
            exponentials(results[part], b)
            b *= row_sums(a)[:, None]
            np.subtract(a, b, b)
        return out.reshape(y.shape)


def _by_rows(x: Any, dim: int) -> bool:
    """Whether the kernels above are made for it: floats along the last dim."""
    return bool(dim == x.ndim - 1 and x.size and x.dtype.kind == "f" and x.itemsize >= 4)


def _softmax(x: Any, out: Any, plain: bool) -> bool:
    """Write the softmax of rows to `out`: by exponentials of the numbers themselves where that will do, if `plain`.

    Returns whether it did: then their sums are neither large nor small.
    """
    if plain:
        exponentials(x, out)
        total = row_sums(out)
        if _least(total) >= _LOW and _largest(total) <= _HIGH:
            out /= total[:, None]
            return True
    exponentials(np.subtract(x, row_maxima(x)[:, None], out), out)
    out /= row_sums(out)[:, None]
    return False
