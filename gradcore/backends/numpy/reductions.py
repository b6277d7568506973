"""Reductions and cumulative sums for NumPy that call BLAS or make fewer passes over memory.

A sum over contiguous dimensions is a product with a vector of ones, which takes a third of the time of
`numpy.add.reduce` over the last dimension and less over the first. BLAS adds in 4 to 32 lanes, in blocks: measured on
uniform numbers, float32 sums of 1,000, 65,536 and 1,000,000 elements were off by at most 3, 3 and 6 units of 2**-24 of
the sum of magnitudes (2, 1 and 1 pairwise). Over the first dimension, where NumPy adds row to row (25 and 80 such units
for 1,000 and 65,536 rows), blocks of 1,024 rows are added first (6 and 1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from gradcore.backends.kernel_methods import kernel_for
from gradcore.backends.kernel_rules import Reduction, reductions
from gradcore.backends.numpy import threads
from gradcore.backends.numpy.fused_reductions import dots_of_columns, sums_of_products
from gradcore.backends.numpy.matmul import blas_alone, sum_in_turn
from gradcore.backends.numpy.row_blocks import (
    NARROW,
    TALL,
    are_narrow,
    copy_rows,
    fold_columns,
    ones,
    row_maxima,
    row_sums,
    rows_of,
    run_in_blocks,
)
from gradcore.backends.portable.cumulative import Cumulative
from gradcore.backends.portable.reductions import Dims, Reductions, broadcast_dims

if TYPE_CHECKING:
    from gradcore.core.arrays import Array

__all__ = ["MAXIMA", "MINIMA", "PRODUCTS", "SQUARES", "SUMS", "NumpyReductions", "adjacent"]

_DECLARED = reductions(Reductions)
#: The declared reductions of runs of adjacent dims.
SUMS, SQUARES, PRODUCTS = _DECLARED["sum_over"], _DECLARED["squares_over"], _DECLARED["prod_over"]
MAXIMA, MINIMA = _DECLARED["max_over"], _DECLARED["min_over"]

#: Elements below which a call of BLAS costs more than it saves, except for the sum over the rows of a matrix.
SMALL = 8192
#: Length up to which BLAS sums rows as exactly as NumPy.
_SHORT = 32
#: Elements from which sums over the rows of a matrix go through the kernel that may be compiled.
_LARGE = 1 << 16
#: Elements below which NumPy, which adds pairwise and in all SIMD lanes, is faster for sums over all dims.
_SMALL_SUM = 1 << 14

#: Elements below which NumPy sums along some dims in less time than it takes to choose a kernel.
_FEW = 640

_add: Any = np.add.reduce
_multiply: Any = np.multiply.reduce
_maximum: Any = np.maximum.reduce
_minimum: Any = np.minimum.reduce


def _are_rows(x: Array, dims: Dims, most: int) -> bool:
    """Return whether reducing `dims` reduces many contiguous rows of at most `most` elements."""
    return dims is not None and len(dims) == 1 and dims[0] in (-1, x.ndim - 1) and are_narrow(x, most)


def _sum_run(x: Any, start: int, stop: int) -> Any:
    """Sum a large contiguous array over the dims in ``range(start, stop)``, by BLAS."""
    lead, rest = x.shape[:start], x.shape[stop:]
    outer, n, inner = math.prod(lead), math.prod(x.shape[start:stop]), math.prod(rest)
    if inner == 1:
        if outer == 1:
            return _sum_flat(x.reshape(n)).reshape(lead + rest)
        return (x.reshape(outer, n) @ ones(n, x.dtype)).reshape(lead + rest)
    return sum_in_turn(ones(n, x.dtype), x.reshape(outer, n, inner)).reshape(lead + rest)


def _sum_flat(x: Any) -> Any:
    """Sum a contiguous vector: pieces of 1024 elements by BLAS, and the sums of the pieces pairwise."""
    row = 1024
    rows = len(x) // row
    sums = x[: rows * row].reshape(rows, row) @ ones(row, x.dtype)
    return np.asarray(_add(sums) + _add(x[rows * row :]))


def _flat_index(shape: tuple[int, ...], index: Any, dim: int) -> Any:
    """Return the flat positions, in an array of the given shape, of the elements at `index` along `dim`."""
    n, inner, outer = shape[dim], math.prod(shape[dim + 1 :]), math.prod(shape[:dim])
    flat = index.reshape(outer, index.shape[dim], inner)
    if outer > 1:
        flat = flat + (np.arange(outer) * n)[:, None, None]
    if inner > 1:
        flat = flat * inner
        flat += np.arange(inner)
    return flat.reshape(index.shape)


def _product_of_rows(x: Any) -> Any:
    """Multiply along the last dim: first whole vectors, which uses all SIMD lanes, then their elements."""
    n = x.shape[-1]
    width = 128 if n >= 512 else 32
    end = n - n % width
    products = _multiply(_multiply(x[..., :end].reshape(*x.shape[:-1], -1, width), -2), -1)
    return products if end == n else products * _multiply(x[..., end:], -1)


def _index_of(x: Any, dim: int, extremum: Any, index: Any) -> Any:
    """Return the index of the first extremum along a dim.

    `extremum` and `index` are NumPy's functions for the extremum and for its index. NumPy searches columns one by one.
    If there are many, it is faster to compute their extrema and then find the elements that equal them.
    """
    inner = math.prod(x.shape[dim + 1 :])
    if inner < 16 or x.size < SMALL or not x.flags.c_contiguous:
        return index(x, axis=dim)
    values = extremum(x, dim, None, None, True)
    if x.dtype.kind == "f" and np.isnan(values).any():
        return index(x, axis=dim)
    n = x.shape[dim]
    matches = np.flatnonzero(x == values)[::-1]
    out = np.empty(values.size, np.int64)
    rows, columns = np.divmod(matches, inner)
    outer, indices = np.divmod(rows, n)
    out[outer * inner + columns] = indices  # The first of equal elements is written last.
    return out.reshape(x.shape[:dim] + x.shape[dim + 1 :])


def _row_by_row(function: Any, x: Any, dim: int, reverse: bool = False) -> Any:
    """Accumulate along a dim by calling `function` for whole slices, where the other dims have many elements.

    NumPy's `accumulate` goes through the columns one by one.
    """
    out = np.empty(x.shape, x.dtype)
    source, target = np.moveaxis(x, dim, 0), np.moveaxis(out, dim, 0)
    if reverse:
        source, target = source[::-1], target[::-1]
    target[:1] = source[:1]
    for i in range(1, len(source)):
        function(target[i - 1], source[i], out=target[i])
    return out


def _extrema_by_doubling(function: Any, x: Any) -> Any:
    """Return running extrema along the last dim, where each pass doubles the number of elements they cover.

    A pass treats the rows of a block as one vector, and then restores the first elements of each row. That costs less
    than a call for each row.
    """
    rows = rows_of(x)
    width = rows.shape[1]
    out = np.empty(rows.shape, x.dtype)
    steps = [1 << i for i in range((width - 1).bit_length())]

    def work(part: slice, _: int) -> None:
        current, buffers = rows[part], [np.empty_like(rows[part]), out[part]]
        for i, step in enumerate(steps):
            target = buffers[(len(steps) - i) % 2]  # The last target is `out`.
            function(current.reshape(-1)[step:], current.reshape(-1)[:-step], out=target.reshape(-1)[step:])
            target[:, :step] = current[:, :step]
            current = target

    run_in_blocks(work, rows)
    return out.reshape(x.shape)


def _cumsum_by_blocks(x: Any, reverse: bool) -> Any:
    """Return cumulative sums along the last dim, or None if a sum is not finite.

    Each block is multiplied by a triangular matrix of ones, and the sums of the blocks before it are added. The zeros
    of the matrix would turn infinities of other elements into NaN.
    """
    n = x.shape[-1]
    block = max((b for b in range(16, 41) if n % b == 0), default=32)
    rows = x.reshape(-1, n)
    if n % block:
        rows = np.zeros((len(rows), n + -n % block), x.dtype)
        rows[:, :n] = x.reshape(-1, n)
    triangle = np.tri(block, dtype=x.dtype)
    triangle = triangle if reverse else triangle.T
    blocks = rows.reshape(-1, block)
    out = np.empty(blocks.shape, x.dtype)

    def sum_in_blocks(part: slice, _: int) -> None:
        np.matmul(blocks[part], triangle, out[part])

    run_in_blocks(sum_in_blocks, blocks)
    sums = out[:, 0 if reverse else -1].reshape(len(rows), -1)
    if not np.isfinite(sums).all():
        return None
    before = np.zeros(sums.shape, x.dtype)
    if reverse:
        before[:, :-1] = np.cumsum(sums[:, :0:-1], axis=1)[:, ::-1]
    else:
        before[:, 1:] = np.cumsum(sums[:, :-1], axis=1)
    before = before.reshape(-1, 1)

    def add_before(part: slice, _: int) -> None:
        np.add(out[part], before[part], out[part])

    run_in_blocks(add_before, out)
    return np.ascontiguousarray(out.reshape(len(rows), -1)[:, :n]).reshape(x.shape)


def _is_last_dim_of_floats(backend: Any, x: Array, y: Array, dim: int) -> bool:
    return bool(x.dtype == y.dtype and x.dtype.kind == "f" and dim % x.ndim == x.ndim - 1)


def _has_long_rows(backend: Any, factor: Array, term: Array, dim: int, reverse: bool = False) -> bool:
    return bool(term.size > 0 and term.size >= 128 * term.shape[dim] and factor.shape == term.shape)


def adjacent(x: Any, dims: Dims) -> tuple[int, int] | None:
    """Return ``(start, stop)`` if `dims` are the dims in ``range(start, stop)`` and `x` is contiguous, else None."""
    if dims == () or not x.ndim or not x.flags.c_contiguous:
        return None
    chosen = sorted(range(x.ndim) if dims is None else [d % x.ndim for d in dims])
    start, stop = chosen[0], chosen[-1] + 1
    return (start, stop) if stop - start == len(chosen) else None


class NumpyReductions(Reductions, Cumulative):
    """Reductions of NumPy arrays."""

    bodies: ClassVar[dict[str, Callable[..., Any]]]
    dot: Any  # `dot` and `sum_of_rows` are defined by `NumpyProducts`.
    sum_of_rows: Any

    def sum(self, x: Any, dim: Dims = None, keepdim: bool = False, dtype: Any = None) -> Any:
        """Sum all elements of a small array at once, without handling dims and dtypes."""
        if dim is None and dtype is None and not keepdim and x.dtype.char in "fd" and x.size < _SMALL_SUM:
            return _add(x, None, None, np.empty((), x.dtype))
        return self.bodies["sum"](self, x, dim, keepdim, dtype)

    def sum_over(self, x: Any, dims: Dims = None, keepdim: bool = False, dtype: Any = None) -> Any:
        kind = x.dtype.kind
        if dtype is None and kind in "fc":
            small = x.size < SMALL
            if dims == (0,) and x.ndim == 2 and not keepdim and x.dtype.char in "fd":
                if small:
                    return ones(len(x), x.dtype).dot(x)
                if len(x) < TALL and x.flags.forc:
                    with blas_alone(x.size):
                        return self.sum_of_rows(ones(len(x), x.dtype), x)
            elif small:
                if _are_rows(x, dims, _SHORT) and x.dtype.char in "fd":
                    n = x.shape[-1]
                    return x.reshape(-1, n).dot(ones(n, x.dtype)).reshape(x.shape[:-1] + (1,) * keepdim)
                return _add(x, dims, None, None, keepdim)
        result_dtype = dtype.numpy if dtype is not None else "int64" if kind in "biu" else x.dtype
        natural = result_dtype == x.dtype and x.itemsize >= 4 if kind in "fc" else result_dtype == "int64"
        if x.size < SMALL or not natural or dims == ():
            return _add(x, dims, result_dtype, None, keepdim)
        if dims is not None:
            dims = tuple(d % x.ndim for d in dims)
        if not x.flags.c_contiguous:
            if not x.flags.f_contiguous:
                return _add(x, dims, result_dtype, None, keepdim)
            reversed_dims = None if dims is None else tuple(x.ndim - 1 - d for d in dims)
            return self.sum_over(x.T, reversed_dims, keepdim).T
        reduced = range(x.ndim) if dims is None else sorted(dims)
        total, stop = x, len(reduced)
        while stop:  # runs of adjacent dimensions, from the last one on
            start = stop - 1
            while start and reduced[start - 1] == reduced[start] - 1:
                start -= 1
            total = self.reduce_run(SUMS, total, reduced[start], reduced[stop - 1] + 1)
            stop = start
        return total.reshape([1 if d in reduced else n for d, n in enumerate(x.shape)]) if keepdim else total

    def reduce_run(self, kind: Reduction, x: Any, start: int, stop: int) -> Any:
        """Reduce a large contiguous array over the dims in ``range(start, stop)``.

        `kind` is one of `SUMS`, `SQUARES`, `PRODUCTS`, `MAXIMA` and `MINIMA`.
        """
        if kind is not SUMS:
            return self._reduce_run(kind, x, start, stop)
        if x.dtype.kind in "biu":
            return _add(x, tuple(range(start, stop)), np.int64)
        if threads.get_num_threads() < 2:
            return _sum_run(x, start, stop)
        with blas_alone(x.size):
            return _sum_run(x, start, stop)

    def _reduce_run(self, kind: Reduction, x: Any, start: int, stop: int) -> Any:
        """Reduce like `reduce_run`, for all kinds except `SUMS`."""
        dims = tuple(range(start, stop))
        if kind is SQUARES:
            if stop == x.ndim and not start:
                return np.asarray(self.dot(x.reshape(-1), x.reshape(-1)))
            return self.sum_over(x * x, dims)
        in_last_dims = stop == x.ndim and x.dtype.kind == "f"
        n = math.prod(x.shape[start:])
        if kind is PRODUCTS and in_last_dims and (n >= 64 or not start):
            return np.asarray(_product_of_rows(x.reshape(*x.shape[:start], n)))
        if kind is MAXIMA and in_last_dims and start and n >= 4:
            return row_maxima(x.reshape(-1, n)).reshape(x.shape[:start])
        return getattr(np, kind.function).reduce(x, dims)

    def reduce_dims(self, kind: Reduction, x: Any, dims: Dims, keepdim: bool) -> Any:
        """Reduce all dims, or adjacent dims, by product, extremum or sum of squares (see `reduce_run` for `kind`).

        Returns None if NumPy's own reduction is as fast, or if the dims are not adjacent.
        """
        run = adjacent(x, dims) if x.size >= SMALL and x.dtype.kind == "f" else None
        if run is None:
            return None
        start, stop = run
        result = self.reduce_run(kind, x, start, stop)
        return result.reshape(x.shape[:start] + (1,) * (stop - start) + x.shape[stop:]) if keepdim else result

    def sum_to_size(self, x: Any, shape: Sequence[int]) -> Any:
        """Sum a matrix over one dim directly, and others over cached dims, without searching for broadcast dims."""
        if x.ndim == 2 and x.dtype.char in "fd":
            height, width = x.shape
            if shape == (width,):
                return ones(height, x.dtype).dot(x) if x.size < SMALL else self.sum_over(x, (0,))
            if shape == (height, 1) and width > 1:
                return (row_sums(x) if x.size < _LARGE else self.sum_over(x, (1,))).reshape(shape)
        if x.__class__ is not np.ndarray or shape.__class__ is not tuple or x.dtype.char not in "fd":
            return super().sum_to_size(x, shape)
        dims = broadcast_dims(x.shape, shape)
        total = _add(x, dims) if x.size < _FEW else self.sum_over(x, dims) if dims else x
        return total.reshape(shape)

    def product_to_size(self, x: Any, y: Any, shape: Sequence[int]) -> Any:
        result = sums_of_products(self, x, y, tuple(shape))
        return super().product_to_size(x, y, shape) if result is None else result

    def row_dots(self, x: Any, y: Any) -> Any:
        """Return the dot products of the rows of two contiguous matrices of one dtype."""
        return np.vecdot(x, y)

    def column_dots(self, x: Any, y: Any) -> Any:
        """Return the dot products of the columns of two matrices."""
        return dots_of_columns(x, y)

    @kernel_for(_is_last_dim_of_floats)
    def dot_over(self, x: Any, y: Any, dim: int) -> Any:
        return np.vecdot(x, y)[..., None]

    def prod_over(self, x: Any, dims: Dims = None, keepdim: bool = False, dtype: Any = None) -> Any:
        result = self.reduce_dims(PRODUCTS, x, dims, keepdim) if dtype is None else None
        return super().prod_over(x, dims, keepdim, dtype) if result is None else result

    def max_over(self, x: Any, dims: Dims = None, keepdim: bool = False) -> Any:
        if _are_rows(x, dims, NARROW):
            return fold_columns(np.maximum, x.reshape(-1, x.shape[-1])).reshape(x.shape[:-1] + (1,) * keepdim)
        result = self.reduce_dims(MAXIMA, x, dims, keepdim)
        return _maximum(x, dims, None, None, keepdim) if result is None else result

    def min_over(self, x: Any, dims: Dims = None, keepdim: bool = False) -> Any:
        if _are_rows(x, dims, NARROW):
            return fold_columns(np.minimum, x.reshape(-1, x.shape[-1])).reshape(x.shape[:-1] + (1,) * keepdim)
        result = self.reduce_dims(MINIMA, x, dims, keepdim)
        return _minimum(x, dims, None, None, keepdim) if result is None else result

    def squares_over(self, x: Any, dims: Dims, keepdim: bool) -> Any:
        result = self.reduce_dims(SQUARES, x, dims, keepdim)
        return super().squares_over(x, dims, keepdim) if result is None else result

    def argmax_along(self, x: Any, dim: int, keepdim: bool = False) -> Any:
        return self.keep_dim(_index_of(x, dim, _maximum, np.argmax), dim, keepdim)

    def argmin_along(self, x: Any, dim: int, keepdim: bool = False) -> Any:
        return self.keep_dim(_index_of(x, dim, _minimum, np.argmin), dim, keepdim)

    def max_along(self, x: Any, dim: int, keepdim: bool = False) -> tuple[Any, Any]:
        return self.take_at_index(x, _index_of(x, dim, _maximum, np.argmax), dim, keepdim)

    def min_along(self, x: Any, dim: int, keepdim: bool = False) -> tuple[Any, Any]:
        return self.take_at_index(x, _index_of(x, dim, _minimum, np.argmin), dim, keepdim)

    def take_along(self, x: Any, index: Any, dim: int) -> Any:
        """Return the elements at `index` along `dim` by one flat `take`.

        This needs half of the time of `numpy.take_along_axis`, and a fifth of its overhead.
        """
        return x.reshape(-1).take(_flat_index(x.shape, index, dim))

    def put_along(self, x: Any, shape: tuple[int, ...], dim: int, index: Any) -> Any:
        out = np.zeros(shape, x.dtype)
        out.reshape(-1)[_flat_index(shape, index, dim)] = x
        return out

    def exp_for_ratio(self, x: Any, top: Any) -> Any:
        # With a moderate maximum, exponentials do not overflow in a sum, and those that underflow are negligible.
        if x.size >= SMALL and top.min() >= -8 and top.max() <= 60:
            return np.exp(x)
        return super().exp_for_ratio(x, top)

    def cumsum_along(self, x: Any, dim: int, reverse: bool = False, dtype: Any = None) -> Any:
        if x.size >= SMALL and x.dtype.kind in "fc" and x.itemsize >= 4 and (dtype is None or dtype.numpy == x.dtype):
            n = x.shape[dim]
            if dim < x.ndim - 1 and x.size >= 256 * n:
                return _row_by_row(np.add, x, dim, reverse)
            if dim == x.ndim - 1 and n >= 64:
                out = _cumsum_by_blocks(x, reverse)
                if out is not None:
                    return out
        if reverse or dtype is not None or x.dtype.kind not in "fc":
            return super().cumsum_along(x, dim, reverse, dtype)
        return np.add.accumulate(x, dim)

    @kernel_for(_has_long_rows)
    def scan_along(self, factor: Any, term: Any, dim: int, reverse: bool = False) -> Any:
        n = term.shape[dim]
        dtype = np.result_type(factor, term)
        is_last_dim = dim == term.ndim - 1
        if is_last_dim:
            factors, out = (copy_rows(a.reshape(-1, n).astype(dtype, copy=False).T) for a in (factor, term))
        else:
            factors, out = np.moveaxis(factor, dim, 0), np.array(np.moveaxis(term, dim, 0), dtype, order="C")
        spare = np.empty(out.shape[1:], dtype)
        step = 1 if reverse else -1
        for i in range(n - 2, -1, -1) if reverse else range(1, n):
            # One index after another; the elements of the other dims fill the CPU's SIMD lanes.
            out[i] += np.multiply(factors[i], out[i + step], spare)
        return copy_rows(out.T).reshape(term.shape) if is_last_dim else np.moveaxis(out, 0, dim)

    def running(self, function: Any, x: Any, dim: int) -> Any:
        if function is np.logaddexp and x.dtype == np.float32:  # float64 keeps the accumulated rounding errors small
            return np.logaddexp.accumulate(x.astype(np.float64), axis=dim).astype(np.float32)
        columns = x.size // max(x.shape[dim], 1)
        if columns >= 128 and dim < x.ndim - 1:
            return _row_by_row(function, x, dim)
        if function in (np.maximum, np.minimum) and dim == x.ndim - 1 and x.size >= SMALL and x.shape[dim] >= 16:
            return _extrema_by_doubling(function, x)
        return function.accumulate(x, axis=dim)

    def cumprod_along(self, x: Any, dim: int, dtype: Any = None) -> Any:
        if dtype is None and x.dtype.kind in "fc" and dim < x.ndim - 1 and x.size >= 128 * max(x.shape[dim], 1):
            return _row_by_row(np.multiply, x, dim)
        return super().cumprod_along(x, dim, dtype)

    @kernel_for(lambda self, x, running, dim: x.size >= SMALL)
    def with_last_index(self, x: Any, running: Any, dim: int) -> tuple[Any, Any]:
        """Compute the indices in the smallest integer dtype that holds the positions."""
        n = x.shape[dim]
        dtype = np.int16 if n < 1 << 15 else np.int32 if n < 1 << 31 else np.int64
        position = np.arange(n, dtype=dtype).reshape((-1,) + (1,) * (x.ndim - dim - 1))
        candidates = np.multiply(self.equal_or_nan(x, running), position, dtype=dtype)
        return running, self.running_max(candidates, dim).astype(np.int64)
