"""Matrix products for NumPy, by the BLAS function that is fastest for each shape.

Single products use OpenBLAS's own threads, which stay awake for some 30 ms after the last product. The products of
large batches are shared among gradcore's threads, each of which calls BLAS with one thread, because `numpy.matmul`
computes them one after another.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from gradcore.backends.numpy import threads
from gradcore.backends.numpy.openblas import NUMPY
from gradcore.backends.portable.products import Products

__all__ = ["MANY", "NumpyProducts", "blas_alone", "share_products", "spread_products", "sum_in_turn"]

#: Multiplications of a batch from which gradcore's threads share it; multiplications of one product from which it is
#: left to OpenBLAS's threads; and those from which OpenBLAS uses threads.
_SHARED, _LARGE, MANY = 1 << 24, 1 << 23, 1 << 18
#: Length of the blocks of a dot product that BLAS sums in single precision without losing digits.
_BLOCK = 1 << 12
#: Number of rows that BLAS adds in sequence, and of such blocks whose sums are added in the precision of the elements.
_IN_TURN, _FEW_BLOCKS = 1 << 10, 16

#: Elements of a matrix above which OpenBLAS uses threads for its products with vectors.
_VECTORS = 9216
_AS_IT_IS = nullcontext()


def blas_alone(size: int, most: int = _VECTORS) -> AbstractContextManager[None]:
    """Return a context in which BLAS uses one thread, if it would use several for work of this size.

    `most` is the size from which BLAS uses threads. For short work they do not pay off, and they would slow down
    gradcore's own threads for long afterwards.
    """
    return NUMPY.alone() if size >= most and threads.get_num_threads() > 1 else _AS_IT_IS


def share_products(work: Callable[[Iterator[int]], None], count: int) -> None:
    """Call `threads.share` for work that multiplies matrices, with BLAS on one thread."""
    if threads.get_num_threads() < 2:
        work(iter(range(count)))
        return
    with NUMPY.alone():
        threads.share(work, count)


def spread_products(work: Callable[[int, int], None], count: int) -> None:
    """Call `threads.spread` for work that multiplies matrices, with BLAS on one thread."""
    if threads.get_num_threads() < 2:
        work(0, count)
        return
    with NUMPY.alone():
        threads.spread(work, count)


class NumpyProducts(Products):
    """Matrix products of NumPy arrays."""

    sum_over: Any
    #: Function for products of more than `MANY` multiplications, or None if no library has one.
    large_product: Any = None

    def matmul(self, a: Any, b: Any) -> Any:
        if a.ndim == 2 == b.ndim and a.dtype is b.dtype and a.dtype.char in "fd":
            rows, inner = a.shape
            if self.large_product is not None and rows * b.size > MANY:
                out = self.large_product(a, b)
                if out is not None:
                    return out
            # For many rows, OpenBLAS takes longer with a small transposed second operand than with its copy.
            if rows >= 48 and b.strides[1] > b.strides[0] and 512 <= b.size <= 8192:
                b = np.ascontiguousarray(b)
            # If the inner size is 1, a special case of `Products.matmul` applies.
            if inner != 1:
                try:
                    return a.dot(b)  # less overhead than `numpy.matmul`, and a copy if BLAS cannot read the strides
                except ValueError:
                    pass
            return super().matmul(a, b)
        if b.ndim == 1 and a.ndim == 2 and a.size < MANY and a.dtype is b.dtype and a.dtype.char in "fd":
            try:
                return a.dot(b)
            except ValueError:
                return super().matmul(a, b)  # This call raises the error.
        if a.ndim > 2 == b.ndim and a.size and a.dtype is b.dtype:  # one product instead of one for each of the batch
            shape = a.shape
            return self.matmul(a.reshape(-1, shape[-1]), b).reshape(*shape[:-1], b.shape[1])
        if 0 in a.strides:  # NumPy does not call BLAS for expanded arrays
            a = np.ascontiguousarray(a)
        strides = b.strides
        if 0 in strides or (
            len(strides) > 1
            and strides[-1] > strides[-2]
            and 512 <= b.shape[-1] * b.shape[-2] <= 8192
            and a.size >= 48 * b.shape[-2]
        ):
            b = np.ascontiguousarray(b)
        return super().matmul(a, b)

    def _product(self, a: Any, b: Any) -> Any:
        if a.ndim == 1 == b.ndim and a.size >= 4 * _BLOCK and a.shape == b.shape and a.dtype == b.dtype:
            return _inner_product(a, b) if a.dtype.kind == "f" else super()._product(a, b)
        if a.dtype.kind not in "fc" or a.ndim < 2 or b.ndim < 2 or a.shape[-1] != b.shape[-2]:
            return super()._product(a, b)
        if a.ndim == 2 == b.ndim:
            return a.dot(b)
        if b.ndim == 2:  # the general method merges the dims of `a` and calls this one again
            return super()._product(a, b)
        of_one = a.shape[-2] * a.shape[-1] * b.shape[-1]
        if of_one >= _LARGE or threads.get_num_threads() < 2:
            return super()._product(a, b)
        with blas_alone(of_one, MANY):
            if a.shape[:-2] == b.shape[:-2] and a.size * b.shape[-1] >= _SHARED:
                return _shared_products(a, b)
            return super()._product(a, b)

    def times_vector(self, x: Any, v: Any) -> Any:
        """Return the products of the rows of a contiguous matrix with a vector."""
        return x @ v

    def sum_of_rows(self, v: Any, x: Any) -> Any:
        """Return the sum of the rows of a contiguous matrix, weighted by the elements of `v`."""
        is_short = len(x) < 2 * _IN_TURN or not x.flags.c_contiguous
        return v.dot(x) if is_short else sum_in_turn(v, x[None])[0]

    def sum_rows(self, x: Any) -> Any:
        """Sum over all dims but the last, by the fastest method for the shape."""
        rows = x if x.ndim == 2 else x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
        if x.dtype.kind not in "fc":
            return np.add.reduce(rows, axis=0, dtype=x.dtype)
        return self.sum_over(rows, (0,))


def sum_in_turn(v: Any, x: Any) -> Any:
    """Return the sum of the rows of each contiguous matrix of a stack, weighted by the elements of `v`.

    The rows of a block are added in sequence, and then the sums of the blocks: if there are many, in double precision.
    """
    outer, n, inner = x.shape
    blocks = n // _IN_TURN
    if blocks < 2:
        return np.matmul(v, x)
    end = blocks * _IN_TURN
    sums = np.matmul(v[:end].reshape(blocks, 1, _IN_TURN), x[:, :end].reshape(outer, blocks, _IN_TURN, inner))
    total = np.add.reduce(sums, (1, 2), np.result_type(x, "f8") if blocks > _FEW_BLOCKS else None)
    if end < n:
        total += np.matmul(v[end:], x[:, end:])
    return total.astype(x.dtype, copy=False)


def _inner_product(a: Any, b: Any) -> Any:
    """Return the dot product of two long vectors, from dot products of blocks that are added in double precision.

    BLAS alone adds all products in sequence, which for 10 million single-precision numbers leaves four digits.
    """
    end = len(a) - len(a) % _BLOCK
    sums = np.vecdot(a[:end].reshape(-1, _BLOCK), b[:end].reshape(-1, _BLOCK))
    return (np.add.reduce(sums, dtype="float64") + np.dot(a[end:], b[end:])).astype(a.dtype)


def _shared_products(a: Any, b: Any) -> Any:
    """Multiply the matrices of two batches, shared among threads. `numpy.matmul` takes one after the other."""
    out = np.empty((*a.shape[:-1], b.shape[-1]), a.dtype)
    longest = max(range(a.ndim - 2), key=a.shape.__getitem__)
    first, second, target = (x.swapaxes(0, longest) for x in (a, b, out))

    def multiply_range(start: int, stop: int) -> None:
        np.matmul(first[start:stop], second[start:stop], out=target[start:stop])

    spread_products(multiply_range, len(first))
    return out
