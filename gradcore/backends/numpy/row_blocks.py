"""Functions on the rows of NumPy matrices: cache-sized blocks of rows, and their sums, maxima and exponentials."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcore.backends.numpy.matmul import blas_alone, share_products
from gradcore.backends.numpy.openblas import has_avx512

if TYPE_CHECKING:
    from gradcore.core.arrays import Array
    from gradcore.core.typing import AnyArray

__all__ = [
    "LONG",
    "NARROW",
    "TALL",
    "are_narrow",
    "copy_rows",
    "exponentials",
    "fold_columns",
    "number_of_blocks",
    "ones",
    "row_maxima",
    "row_sums",
    "rows_of",
    "run_in_blocks",
]  # fmt: skip

#: Elements of a block, and its least number of rows. Blocks are large, because threads need the interpreter's lock
#: between two calls of NumPy's functions.
_BLOCK, _ROWS = 1 << 18, 8
#: Elements from which threads share the blocks.
_MANY = 1 << 19
#: Elements below which additional calls cost more than they save.
_SMALL = 4096
#: Width up to which rows are reduced column by column, and number of rows from which this is faster.
NARROW, _FEW = 12, 64
#: Width from which rows are summed pairwise, because BLAS adds in a few lanes only. Number of rows up to which their
#: sum is one call.
LONG, TALL = 1 << 16, 1 << 13

#: Elements and rows from which arrays whose columns are contiguous are copied so many columns at a time.
_LARGE_COPY, _FEW_ROWS, _COLUMNS = 1 << 14, 8, 128

_ones: dict[Any, Any] = {}
_maximum: Any = np.maximum.reduce
_as_it_is: Callable[[Any], Any] = lambda function: function  # noqa: E731
_LOG2_E = np.array(1.4426950408889634, np.float32)


#: Whether NumPy has vectorized code for `exp2`, which takes half of the time of its `exp`.
_FAST_EXP2 = has_avx512()


def ones(n: int, dtype: Any) -> Any:
    """Return a vector of `n` ones. The longest vector so far is cached, unless it is very long."""
    cached = _ones.get(dtype)
    if cached is None or len(cached) < n:
        cached = np.ones(n, dtype)
        if n <= 1 << 20:
            _ones[dtype] = cached
    return cached[:n]


def rows_of(x: Any) -> Any:
    """Return `x`, which must not be empty, as a contiguous matrix whose rows lie along the last dim."""
    if x.ndim != 2:
        x = x.reshape(-1, x.shape[-1])
    return x if x.flags.c_contiguous else np.ascontiguousarray(x)


def number_of_blocks(x: Any) -> int:
    """Return the number of blocks into which `run_in_blocks` cuts a matrix."""
    size: int = x.size
    return max(1, min(-(-size // _BLOCK), len(x) // _ROWS))


def run_in_blocks(work: Callable[[slice, int], None], x: Any) -> None:
    """Call ``work(part, i)`` for each block of rows of a matrix: `part` is the slice of its rows, `i` its number.

    The blocks, and therefore the results, do not depend on the number of threads that share them.
    """
    height, count = len(x), number_of_blocks(x)

    def run_numbers(numbers: Iterator[int]) -> None:
        for i in numbers:
            work(slice(height * i // count, height * (i + 1) // count), i)

    if count > 1 and x.size >= _MANY:
        share_products(run_numbers, count)
    else:
        with blas_alone(x.size):
            run_numbers(iter(range(count)))


def copy_rows(x: AnyArray) -> AnyArray:
    """Return a contiguous copy of an array.

    Where the elements of columns are neighbours, some columns are copied at a time, so that lines of the cache that
    are read for one row are still there for the next.
    """
    ndim, strides = x.ndim, x.strides
    if ndim < 2 or x.size < _LARGE_COPY or abs(strides[-1]) <= abs(strides[-2]) or x.shape[-2] < _FEW_ROWS:
        return x.copy("C")
    out = np.empty(x.shape, x.dtype)
    for start in range(0, x.shape[-1], _COLUMNS):
        part = ..., slice(start, start + _COLUMNS)
        out[part] = x[part]
    return out


def row_sums(x: Any) -> Any:
    """Return the sum of each row, by BLAS. Long rows are summed pairwise."""
    n = x.shape[1]
    return x @ ones(n, x.dtype) if n < LONG else np.add.reduce(x, 1)


def are_narrow(x: Array, most: int) -> bool:
    """Return whether an array has many contiguous rows of at most `most` elements, which NumPy reduces one by one."""
    width: int = x.shape[-1] if x.ndim > 1 else 0
    return 0 < width <= most and x.size >= _FEW * width and bool(x.flags.c_contiguous)


def fold_columns(function: Callable[..., Array], x: Array) -> Array:
    """Reduce each row of a matrix by a function of two arrays, applied to one column after the other."""
    if x.shape[1] == 1:
        return x[:, 0].copy()
    total = function(x[:, 0], x[:, 1])
    for i in range(2, x.shape[1]):
        function(total, x[:, i], out=total)
    return total


def row_maxima(x: Any) -> Any:
    """Return the maximum of each contiguous row, or NaN if the row has one.

    For large matrices whose rows are not narrow, `argmax` finds its index first. That takes a half to a quarter of the
    time of `numpy.maximum.reduce`, because it uses SIMD instructions in short rows, too.
    """
    height, n = x.shape
    if are_narrow(x, NARROW):
        return fold_columns(np.maximum, x)
    if x.size < _SMALL:
        return _maximum(x, 1)
    positions = x.argmax(1)
    positions += np.arange(0, height * n, n)
    return x.reshape(-1).take(positions)


def exponentials(x: Any, out: Any, pooled: Callable[[Any], Any] = _as_it_is) -> Any:
    """Write ``exp(x)`` to `out`, which may be `x`, and return `out`.

    `pooled` wraps a universal function so that threads share its work. Where it is faster, float32 numbers are computed
    by `exp2`, with a relative error of at most ``2 + abs(x)`` units of 2**-24 (`exp`: 3.3).
    """
    if _FAST_EXP2 and x.dtype == np.float32 and x.size >= _SMALL:
        return pooled(np.exp2)(pooled(np.multiply)(x, _LOG2_E, out), out)
    return pooled(np.exp)(x, out)
