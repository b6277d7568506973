"""Linear algebra on the CPU: what NumPy lacks, by SciPy's LAPACK and BLAS, one matrix after another."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from gradcore.backends.linear_algebra import LinearAlgebra
from gradcore.backends.products_in_threads import spread_products

__all__ = ["Lapack"]

#: Up to this size NumPy's solver, which works on a whole batch but factors anew, beats a loop over the matrices.
SMALL = 32
#: Multiplications of a batch of products from which threads take part.
MANY = 1 << 23


@functools.cache
def _routine(library: str, name: str, dtype: str) -> Any:
    """A routine of ``scipy.linalg.lapack`` or ``blas`` for a dtype's character; SciPy is imported when first used."""
    import importlib

    module = importlib.import_module(f"scipy.linalg.{library}")
    return getattr(module, {"f": "s", "d": "d", "F": "c", "D": "z"}[dtype] + name)


def _batch(*arrays: Any) -> tuple[tuple[int, ...], list[Any]]:
    """The common batch shape of matrices, and the matrices expanded to it with their batch dims merged."""
    shape = np.broadcast_shapes(*(a.shape[:-2] for a in arrays))
    count = int(np.prod(shape))
    return shape, [np.broadcast_to(a, (*shape, *a.shape[-2:])).reshape(count, *a.shape[-2:]) for a in arrays]


def _shared_product(a: Any, b: Any) -> Any:
    """The products of the matrices of two batches, shared among threads: `numpy.matmul` takes one after the other."""
    out = np.empty((*a.shape[:-1], b.shape[-1]), a.dtype)
    first, second, target = (x.reshape(-1, *x.shape[-2:]) if x.shape[0] < 8 else x for x in (a, b, out))

    def some(start: int, stop: int) -> None:
        np.matmul(first[start:stop], second[start:stop], out=target[start:stop])

    spread_products(some, len(first))
    return out


class Lapack(LinearAlgebra):
    """Kernels for NumPy arrays."""

    def matmul(self, a: Any, b: Any) -> Any:
        if a.ndim == 2 == b.ndim and a.dtype is b.dtype and a.dtype.char in "fd":
            rows, inner = a.shape
            # For many rows, OpenBLAS takes longer with a small transposed second operand than with its copy.
            if rows >= 48 and b.strides[1] > b.strides[0] and 512 <= b.size <= 8192:
                b = np.ascontiguousarray(b)
            if inner != 1:  # nothing of what `Products.matmul` looks for
                try:
                    return a.dot(b)  # sooner at BLAS than `numpy.matmul`, and copies what BLAS cannot read
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

    # -- LU -----------------------------------------------------------------------------------------------------

    def factor_lu(self, a: Any) -> tuple[Any, Any, Any]:
        *batch, m, n = a.shape
        k = min(m, n)
        lu = np.empty((*batch, n, m), a.dtype).swapaxes(-1, -2)  # columns together, as LAPACK has them
        pivots = np.empty((*batch, k), "int32")
        info = np.zeros(batch, "int32")
        if k:
            getrf = _routine("lapack", "getrf", a.dtype.char)
            for i in np.ndindex(*batch):
                lu[i], pivots[i], info[i] = getrf(a[i])
            pivots += 1
        return lu, pivots, info

    def solve_and_factor(self, a: Any, b: Any) -> tuple[Any, Any, Any, Any]:
        if a.shape[-1] <= SMALL:
            try:
                x = np.linalg.solve(a, b)
                return x, np.empty((0, 0), a.dtype), np.empty(0, "int32"), np.zeros(a.shape[:-2], "int32")
            except np.linalg.LinAlgError:  # a singular one is among them: find out which
                pass
        lu, pivots, info = self.factor_lu(a)
        return self.solve_with_factors(a, lu, pivots, b), lu, pivots, info

    def solve_lu(self, lu: Any, pivots: Any, b: Any, adjoint: bool = False) -> Any:
        if not b.size or not lu.size:
            batch, (_, b) = _batch(lu, b)
            return np.zeros((*batch, *b.shape[-2:]), b.dtype)
        getrs = _routine("lapack", "getrs", lu.dtype.char)
        trans = 0 if not adjoint else 2 if lu.dtype.kind == "c" else 1
        batch, (lu, pivots, b) = _batch(lu, pivots[..., None], b)
        x = np.empty_like(b)
        for i in range(len(b)):
            x[i] = getrs(lu[i], pivots[i, :, 0] - 1, b[i], trans)[0]
        return x.reshape(*batch, *b.shape[-2:])

    # -- triangles ------------------------------------------------------------------------------------------------

    def solve_triangle(self, a: Any, b: Any, upper: bool, unitriangular: bool = False) -> Any:
        # Transposed, so that the rows in memory are the columns that BLAS expects.
        trsm = functools.partial(_routine("blas", "trsm", a.dtype.char), 1, side=1, lower=upper, diag=unitriangular)
        if a.ndim == 2 == b.ndim and b.size:
            return trsm(a.T, b.T).T
        batch, (a, b) = _batch(a, b)
        if len(b) > 4 and a.shape[-1] <= SMALL // 4:
            try:
                return super().solve_triangle(a, b, upper, unitriangular).reshape(*batch, *b.shape[-2:])
            except np.linalg.LinAlgError:  # a zero on a diagonal, which gives infinities
                pass
        x = np.empty_like(b)
        for i in range(len(b) if b.size else 0):
            x[i] = trsm(a[i].T, b[i].T).T
        return x.reshape(*batch, *b.shape[-2:])

    # -- others ---------------------------------------------------------------------------------------------------

    def factor_cholesky(self, a: Any) -> tuple[Any, Any]:
        try:
            return np.linalg.cholesky(a), np.zeros(a.shape[:-2], "int32")
        except np.linalg.LinAlgError:
            potrf = _routine("lapack", "potrf", a.dtype.char)
            factor, info = np.empty_like(a), np.zeros(a.shape[:-2], "int32")
            for i in np.ndindex(a.shape[:-2]):
                factor[i], info[i] = potrf(a[i], lower=1, clean=1)
            return factor, info

    def invert(self, a: Any) -> tuple[Any, Any]:
        try:
            return np.linalg.inv(a), np.zeros(a.shape[:-2], "int32")
        except np.linalg.LinAlgError:
            lu, pivots, info = self.factor_lu(a)
            return self.solve_lu(lu, pivots, np.broadcast_to(np.eye(a.shape[-1], dtype=a.dtype), a.shape)), info
