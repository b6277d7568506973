"""Products of matrices for NumPy: by the call of BLAS that is fastest, and large ones shared among threads.

The threads are gradcore's own, and BLAS works alone in each of them, also in products that are too small to be shared.
BLAS's own threads would be as fast in one product, but keep their cores busy for some 30 ms after it, while what comes
next is shared among gradcore's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcore.backends.numpy import threads
from gradcore.backends.numpy.openblas import NUMPY, has_avx512
from gradcore.backends.numpy.products_in_threads import blas_alone, spread_products
from gradcore.backends.portable.products import Products

__all__ = ["NumpyProducts"]

#: Multiplications above which OpenBLAS uses threads (AVX-512: a kernel for small matrices does not), and those from
#: which gradcore does, which take longer to wake.
_THREADED, _SHARED = 1_000_000 if has_avx512() else 1 << 18, 1 << 23
#: The former for complex numbers.
_LITTLE = 1 << 18
#: Rows or columns of a product from which it is shared.
_LEAST = 32


class NumpyProducts(Products):
    """Products of NumPy arrays."""

    def matmul(self, a: Any, b: Any) -> Any:
        if a.ndim == 2 == b.ndim and a.dtype is b.dtype and a.dtype.char in "fd":
            rows, inner = a.shape
            # For many rows, OpenBLAS takes longer with a small transposed second operand than with its copy.
            if rows >= 48 and b.strides[1] > b.strides[0] and 512 <= b.size <= 8192:
                b = np.ascontiguousarray(b)
            if inner != 1:  # nothing of what `Products.matmul` looks for
                products = a.size * b.shape[1]
                try:
                    if products < _THREADED or threads.get_num_threads() < 2:
                        return a.dot(b)  # sooner at BLAS than `numpy.matmul`, and copies what BLAS cannot read
                    if products < _SHARED:
                        with NUMPY:
                            return a.dot(b)
                except ValueError:
                    pass
            return super().matmul(a, b)
        if 0 in a.strides:  # an expanded array: NumPy has no fast way for it
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
        products = a.size * b.shape[-1] if b.ndim > 1 else a.size
        if products < _LITTLE or a.dtype.kind not in "fc" or a.shape[-1] != b.shape[-2 if b.ndim > 1 else -1]:
            return super()._product(a, b)
        shared = products >= _SHARED and threads.get_num_threads() > 1
        if a.ndim == 2 == b.ndim:
            if shared and max(a.shape[0], b.shape[1]) >= _LEAST:
                return _shared_product(a, b)
            with blas_alone(products, _LITTLE):
                return a.dot(b)
        if a.ndim > 2 >= b.ndim:  # which comes here again, as one product
            return super()._product(a, b)
        if shared and a.shape[:-2] == b.shape[:-2]:
            return _shared_products(a, b)
        of_one = a.shape[-1] * b.shape[-1] * (a.shape[-2] if a.ndim > 1 else 1)
        with blas_alone(of_one, _THREADED if a.dtype.char in "fd" else _LITTLE):
            return super()._product(a, b)


def _shared_product(a: Any, b: Any) -> Any:
    """The product of two matrices: each thread computes some of its rows or columns."""
    a, b = (x if x.flags.forc else np.ascontiguousarray(x) for x in (a, b))  # views with gaps are not for BLAS
    out = np.empty((a.shape[0], b.shape[1]), a.dtype)
    # Columns of a transposed operand lie together; otherwise it is the longer side that is cut.
    if out.shape[1] >= _LEAST and (out.shape[1] > out.shape[0] or b.strides[1] > b.strides[0]):

        def columns(start: int, stop: int) -> None:
            np.matmul(a, b[:, start:stop], out=out[:, start:stop])

        spread_products(columns, out.shape[1])
    else:

        def rows(start: int, stop: int) -> None:
            np.matmul(a[start:stop], b, out=out[start:stop])

        spread_products(rows, out.shape[0])
    return out


def _shared_products(a: Any, b: Any) -> Any:
    """The products of the matrices of two batches: `numpy.matmul` takes one after the other."""
    out = np.empty((*a.shape[:-1], b.shape[-1]), a.dtype)
    longest = max(range(a.ndim - 2), key=a.shape.__getitem__)
    first, second, target = (x.swapaxes(0, longest) for x in (a, b, out))

    def some(start: int, stop: int) -> None:
        np.matmul(first[start:stop], second[start:stop], out=target[start:stop])

    spread_products(some, len(first))
    return out
