"""Linear algebra on the CPU for which NumPy has no function: SciPy's LAPACK and BLAS, called for each matrix."""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

import numpy as np

from gradcore.backends.kernel_methods import kernel_for
from gradcore.backends.numpy.openblas import SCIPY
from gradcore.backends.portable.linear_algebra import LinearAlgebra
from gradcore.core.errors import LinAlgError

__all__ = ["Lapack"]

#: Size of matrices up to which NumPy's routines, which take a whole batch, are faster than a loop over the matrices.
SMALL = 32
#: Number of columns in a block of LAPACK, and so the number of rows of the workspace of a QR factorisation.
BLOCK = 32
#: Size of a dim from which SciPy's threads pay off.
LARGE = 1024


@functools.cache
def _routine(library: str, name: str, dtype: str) -> Any:
    """Return a routine of ``scipy.linalg.lapack`` or ``blas`` for the dtype with this character."""
    import importlib

    module = importlib.import_module(f"scipy.linalg.{library}")
    return getattr(module, {"f": "s", "d": "d", "F": "c", "D": "z"}[dtype] + name)


def _threads_for(*arrays: Any) -> AbstractContextManager[None]:
    """Return a context for routines on these matrices in which SciPy's BLAS only uses threads if they are large.

    Its threads would slow down those of NumPy's BLAS.
    """
    return nullcontext() if any(max(a.shape[-2:]) >= LARGE for a in arrays) else SCIPY.alone()


def _batch(*arrays: Any) -> tuple[tuple[int, ...], list[Any]]:
    """Return the common batch shape of matrices, and the matrices expanded to it with their batch dims merged."""
    shape = np.broadcast_shapes(*(a.shape[:-2] for a in arrays))
    count = int(np.prod(shape))
    return shape, [np.broadcast_to(a, (*shape, *a.shape[-2:])).reshape(count, *a.shape[-2:]) for a in arrays]


def _is_slow_in_numpy(a: Any) -> bool:
    """Return whether SciPy decomposes such matrices 1.1 to 1.9 times faster than NumPy (in single precision)."""
    return a.dtype.char in "fF" and min(a.shape[-2:]) >= 16


def _is_hermitian(a: Any, hermitian: bool) -> bool:
    """Return whether to call LAPACK's Hermitian routines, which only exist for complex matrices."""
    return hermitian and a.dtype.kind == "c"


def _solve_ldl(ld: Any, pivots: Any, x: Any, hermitian: bool) -> None:
    """Solve for the columns of `x`, in place, with the factors of one matrix from ``sytrf`` (lower triangle).

    (SciPy has ``sytrs`` in its newest versions only.) A negative pivot stands for two rows: one block of D.
    """
    blocks = []  # the first row and the end of each block, and the two rows that were exchanged
    k = 0
    while k < len(pivots):
        end = k + (1 if pivots[k] > 0 else 2)
        if end > len(pivots):
            raise RuntimeError(
                "Negative pivots given to ldl_solve must come in pairs: a block of two rows ends the matrix"
            )
        blocks.append((k, end, end - 1, abs(pivots[k]) - 1))
        k = end
    for k, end, row, exchanged in blocks:
        x[[row, exchanged]] = x[[exchanged, row]]
        x[end:] -= ld[end:, k:end] @ x[k:end]
        block = np.tril(ld[k:end, k:end])
        upper = np.tril(block, -1).T
        x[k:end] = np.linalg.solve(block + (upper.conj() if hermitian else upper), x[k:end])
    for k, end, row, exchanged in reversed(blocks):
        rows_below = ld[end:, k:end].T
        x[k:end] -= (rows_below.conj() if hermitian else rows_below) @ x[end:]
        x[[row, exchanged]] = x[[exchanged, row]]


def _one_by_one(name: str, like: Any, *arrays: Any) -> Any:
    """Apply the function `name` of ``scipy.linalg`` to each matrix of a batch; return an array like `like`.

    If `like` is real, only the real part of complex results is kept.
    """
    import importlib

    function, out = getattr(importlib.import_module("scipy.linalg"), name), np.empty_like(like)
    with _threads_for(*arrays):
        for i in np.ndindex(like.shape[:-2]):
            matrix = function(*(a[i] for a in arrays)) if like.size else like[i]
            out[i] = matrix if like.dtype.kind == "c" else matrix.real
    return out


class Lapack(LinearAlgebra):
    """Kernels of linear algebra for NumPy arrays."""

    # -- LU -----------------------------------------------------------------------------------------------------

    def factor_lu(self, a: Any) -> tuple[Any, Any, Any]:
        *batch, m, n = a.shape
        k = min(m, n)
        lu = np.empty((*batch, n, m), a.dtype).swapaxes(-1, -2)  # in column-major order, as LAPACK stores matrices
        pivots = np.empty((*batch, k), "int32")
        info = np.zeros(batch, "int32")
        if k:
            getrf = _routine("lapack", "getrf", a.dtype.char)
            if not batch:
                with _threads_for(a):
                    lu, pivots, failed = getrf(a)  # `getrf` returns a copy in column-major order.
                return lu, pivots + np.int32(1), np.asarray(failed, "int32")
            with _threads_for(a):
                for i in np.ndindex(*batch):
                    lu[i], pivots[i], info[i] = getrf(a[i])
            pivots += 1
        return lu, pivots, info

    def solve_and_factor(self, a: Any, b: Any) -> tuple[Any, Any, Any, Any]:
        if a.shape[-1] <= SMALL:
            try:
                x = np.linalg.solve(a, b)
                return x, np.empty((0, 0), a.dtype), np.empty(0, "int32"), np.zeros(a.shape[:-2], "int32")
            except np.linalg.LinAlgError:  # one matrix is singular, and the factorisation below finds out which
                pass
        lu, pivots, info = self.factor_lu(a)
        return self.solve_with_factors(a, lu, pivots, b), lu, pivots, info

    def solve_lu(self, lu: Any, pivots: Any, b: Any, adjoint: bool = False) -> Any:
        if not b.size or not lu.size:
            batch, (_, b) = _batch(lu, b)
            return np.zeros((*batch, *b.shape[-2:]), b.dtype)
        getrs = _routine("lapack", "getrs", lu.dtype.char)
        trans = 0 if not adjoint else 2 if lu.dtype.kind == "c" else 1
        if lu.ndim == 2 == b.ndim:
            with _threads_for(lu, b):
                return np.ascontiguousarray(getrs(lu, pivots - 1, b, trans)[0])
        batch, (lu, pivots, b) = _batch(lu, pivots[..., None], b)
        x = np.empty_like(b)
        with _threads_for(lu, b):
            for i in range(len(b)):
                x[i] = getrs(lu[i], pivots[i, :, 0] - 1, b[i], trans)[0]
        return x.reshape(*batch, *b.shape[-2:])

    @kernel_for(lambda self, ab, b, l, u: ab.size and b.size)
    def solve_banded(self, ab: Any, b: Any, l: int, u: int) -> Any:
        gbsv = _routine("lapack", "gbsv", ab.dtype.char)
        batch, (ab, b) = _batch(ab, b)
        x, work_rows = np.empty_like(b), np.zeros((2 * l + u + 1, ab.shape[-1]), ab.dtype)
        for i in range(len(b)):
            work_rows[l:] = ab[i]
            _, _, x[i], info = gbsv(l, u, work_rows, b[i])
            if info:
                raise LinAlgError("singular matrix")
        return x.reshape(*batch, *b.shape[-2:])

    # -- equations and functions of matrices -------------------------------------------------------------------

    def solve_sylvester(self, a: Any, b: Any, q: Any) -> Any:
        batch, (a, b, q) = _batch(a, b, q)
        return _one_by_one("solve_sylvester", q, a, b, q).reshape(*batch, *q.shape[-2:])

    def square_root(self, a: Any) -> Any:
        return _one_by_one("sqrtm", a, a)

    def logarithm(self, a: Any) -> Any:
        """Return the principal logarithm, in double precision, because SciPy warns about errors in single precision."""
        return _one_by_one("logm", a, a.astype("complex128" if a.dtype.kind == "c" else "float64", copy=False))

    # -- symmetric matrices ------------------------------------------------------------------------------------

    def factor_ldl(self, a: Any, hermitian: bool = False) -> tuple[Any, Any, Any]:
        """Return the LDL factors of symmetric or Hermitian matrices in one matrix, LAPACK's pivots, and info."""
        ld = np.tril(a)
        pivots, info = np.zeros(a.shape[:-1], "int32"), np.zeros(a.shape[:-2], "int32")
        if a.size:
            factor = _routine("lapack", "hetrf" if _is_hermitian(a, hermitian) else "sytrf", a.dtype.char)
            with _threads_for(a):
                for i in np.ndindex(a.shape[:-2]):
                    ld[i], pivots[i], info[i] = factor(ld[i], lower=1)
        return ld, pivots, info

    def solve_ldl(self, ld: Any, pivots: Any, b: Any, hermitian: bool = False) -> Any:
        """Return the solution of ``a @ x = b`` from the LDL factors of `a`."""
        batch, (ld, pivots, b) = _batch(ld, pivots[..., None], b)
        x = b.copy()
        for i in range(len(x)):
            _solve_ldl(ld[i], pivots[i, :, 0], x[i], _is_hermitian(ld, hermitian))
        return x.reshape(*batch, *b.shape[-2:])

    # -- triangles ------------------------------------------------------------------------------------------------

    def solve_triangle(self, a: Any, b: Any, upper: bool, unitriangular: bool = False) -> Any:
        # Transposed, so that the rows in memory are the columns that BLAS expects.
        trsm = functools.partial(_routine("blas", "trsm", a.dtype.char), 1, side=1, lower=upper, diag=unitriangular)
        if a.ndim == 2 == b.ndim and b.size:
            with _threads_for(a, b):
                return trsm(a.T, b.T).T
        batch, (a, b) = _batch(a, b)
        if len(b) > 4 and a.shape[-1] <= SMALL // 4:
            try:
                return super().solve_triangle(a, b, upper, unitriangular).reshape(*batch, *b.shape[-2:])
            except np.linalg.LinAlgError:  # A zero on a diagonal has to give infinities.
                pass
        x = np.empty_like(b)
        with _threads_for(a, b):
            for i in range(len(b) if b.size else 0):
                x[i] = trsm(a[i].T, b[i].T).T
        return x.reshape(*batch, *b.shape[-2:])

    # -- eigenvalues and singular values --------------------------------------------------------------------------

    @kernel_for(lambda self, a, uplo="L": _is_slow_in_numpy(a))
    def factor_eigh(self, a: Any, uplo: str = "L") -> tuple[Any, Any]:
        values, vectors = np.empty(a.shape[:-1], a.real.dtype), np.empty_like(a)
        self._eigh(a, uplo, values, vectors)
        return values, vectors

    @kernel_for(lambda self, a, uplo="L": _is_slow_in_numpy(a))
    def eigenvalues_hermitian(self, a: Any, uplo: str = "L") -> Any:
        values = np.empty(a.shape[:-1], a.real.dtype)
        self._eigh(a, uplo, values, None)
        return values

    def _eigh(self, a: Any, uplo: str, values: Any, vectors: Any) -> None:
        evd = _routine("lapack", "heevd" if a.dtype.kind == "c" else "syevd", a.dtype.char)
        with _threads_for(a):
            for i in np.ndindex(a.shape[:-2]):
                values[i], columns, info = evd(a[i], compute_v=vectors is not None, lower=uplo == "L")
                if info:
                    raise self._no_convergence("linalg.eigh", a)
                if vectors is not None:
                    vectors[i] = columns

    def factor_svd(self, a: Any, full_matrices: bool = False) -> tuple[Any, Any, Any]:
        if not np.isfinite(a).all():  # With NaN or infinities, LAPACK may not terminate.
            raise self._no_convergence("linalg.svd", a)
        if not _is_slow_in_numpy(a):
            return super().factor_svd(a, full_matrices)
        *batch, m, n = a.shape
        k = min(m, n)
        u = np.empty((*batch, m, m if full_matrices else k), a.dtype)
        vh = np.empty((*batch, n if full_matrices else k, n), a.dtype)
        values = np.empty((*batch, k), a.real.dtype)
        gesdd = _routine("lapack", "gesdd", a.dtype.char)
        with _threads_for(a):
            for i in np.ndindex(*batch):
                # Transposed, so that the rows in memory are the columns that LAPACK expects.
                right, values[i], left, info = gesdd(a[i].T, full_matrices=full_matrices)
                if info:
                    raise self._no_convergence("linalg.svd", a)
                u[i], vh[i] = left.T, right.T
        return u, values, vh

    def singular_values(self, a: Any) -> Any:
        if not np.isfinite(a).all():
            raise self._no_convergence("linalg.svd", a)
        if not _is_slow_in_numpy(a):
            return super().singular_values(a)
        values = np.empty((*a.shape[:-2], min(a.shape[-2:])), a.real.dtype)
        gesdd = _routine("lapack", "gesdd", a.dtype.char)
        with _threads_for(a):
            for i in np.ndindex(a.shape[:-2]):
                _, values[i], _, info = gesdd(a[i].T, compute_uv=False)
                if info:
                    raise self._no_convergence("linalg.svd", a)
        return values

    # -- others ---------------------------------------------------------------------------------------------------

    def factor_cholesky(self, a: Any) -> tuple[Any, Any]:
        factor = None
        if min(a.shape[-2:]) <= SMALL:
            with suppress(np.linalg.LinAlgError):
                factor, info = np.linalg.cholesky(a), np.zeros(a.shape[:-2], "int32")
        if factor is None:
            potrf = _routine("lapack", "potrf", a.dtype.char)
            factor, info = np.empty_like(a, order="C"), np.zeros(a.shape[:-2], "int32")
            with _threads_for(a):
                for i in np.ndindex(a.shape[:-2]):
                    upper, info[i] = potrf(a[i].T, lower=0, clean=1)
                    factor[i] = upper.T  # transposed, so that the rows in memory are the columns that LAPACK expects
        diagonal = np.diagonal(factor, 0, -2, -1)
        is_invalid = np.isnan(diagonal)  # LAPACK does not report NaN as a failure
        is_invalid[..., 1:] |= np.isinf(diagonal[..., :-1])  # the rows below an infinite pivot are divided by it
        if is_invalid.any():
            info = np.where((info == 0) & is_invalid.any(-1), is_invalid.argmax(-1) + 1, info).astype("int32")
        return factor, info

    @kernel_for(lambda self, a, mode="reduced": a.size and (a.ndim == 2 or min(a.shape[-2:]) > SMALL))
    def factor_qr(self, a: Any, mode: str = "reduced") -> tuple[Any, Any]:
        """Return Q and R, computed by SciPy's LAPACK in half of NumPy's time."""
        *batch, m, n = a.shape
        k, char = min(m, n), a.dtype.char
        geqrf, orgqr = (_routine("lapack", name, char) for name in ("geqrf", "ungqr" if char in "FD" else "orgqr"))
        rows, work = m if mode == "complete" else k, BLOCK * max(m, n)
        q, r = np.zeros((*batch, m, rows) if mode != "r" else 0, a.dtype), np.empty((*batch, rows, n), a.dtype)
        with _threads_for(a):
            for i in np.ndindex(*batch):
                vectors, tau, _, _ = geqrf(a[i], lwork=work)
                if mode != "r":
                    q[i][:, :k] = vectors[:, :k]
                    q[i] = orgqr(q[i], tau, lwork=work)[0]
                r[i] = np.triu(vectors[:rows])
        return q, r

    def invert(self, a: Any) -> tuple[Any, Any]:
        n = a.shape[-1]
        if not a.size or n <= SMALL:
            with suppress(np.linalg.LinAlgError):
                return np.linalg.inv(a), np.zeros(a.shape[:-2], "int32")
        lu, pivots, info = self.factor_lu(a)
        if n <= SMALL or info.any():
            return self.solve_lu(lu, pivots, np.broadcast_to(np.eye(n, dtype=a.dtype), a.shape)), info
        getri, inverse = _routine("lapack", "getri", a.dtype.char), np.empty_like(a, order="C")
        with _threads_for(a):
            for i in np.ndindex(a.shape[:-2]):
                inverse[i] = getri(lu[i], pivots[i] - 1, BLOCK * n, overwrite_lu=True)[0]
        return inverse, info
