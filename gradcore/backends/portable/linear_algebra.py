"""Kernels of factorisations and solvers, for any array library that has NumPy's ``linalg``.

On the CPU, `gradcore.backends.numpy.lapack` calls LAPACK instead. It solves from factors, makes use of triangles, and
reports where a factorisation failed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcore.backends.kernel_rules import Result, all_samples, along, leading, shaped
from gradcore.core.errors import LinAlgError

if TYPE_CHECKING:
    from gradcore.core.arrays import Array, Namespace

__all__ = ["LinearAlgebra"]

#: PyTorch's error messages for failed factorisations, by function, with ``{}`` for the position in `info`.
_FAILURES = {
    "inv": "The diagonal element {} is zero, the inversion could not be completed because the input matrix is "
    "singular.",
    "solve": "The solver failed because the input matrix is singular.",
    "cholesky": "The factorization could not be completed because the input is not positive-definite (the leading "
    "minor of order {} is not positive-definite).",
    "ldl_factor": "D[{0},{0}] is zero: the matrix is singular, and the factors solve no system.",
    "lu_factor": "U[{0},{0}] is zero and using it on lu_solve would result in a division by zero. If you still want to "
    "perform the factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)",
}

#: Coefficients of the Padé approximant of the exponential of degree 13, of which the first is about 1, and the norm up
#: to which it is exact.
_PADE = [math.comb(13, k) * math.factorial(26 - k) // math.factorial(13) / 2**56 for k in range(14)]
_PADE_LIMIT = 5.37
#: The same for roots of the norms of powers, and the first coefficient of the approximant's relative backward error.
_PADE_LIMIT_OF_POWERS, _PADE_ERROR = 4.25, 1 / 1.1325077560602111e35


def _largest_column(x: Array) -> Array:
    """Return the norm of order 1 of matrices, with both dims kept."""
    return abs(x).sum(axis=-2).max(axis=-1)[..., None, None]


def _info(a: Array) -> Result:
    return Result(a.shape[:-2], "int32")


def _complex(a: Array) -> np.dtype[Any]:
    return np.result_type(a.dtype, "complex64")


def _solution(a: Array, b: Array) -> Result:
    return Result((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:]), b.dtype)


class LinearAlgebra:
    """Factorizations and solvers of batches of matrices. As in LAPACK, an `info` of 0 means success."""

    xp: Namespace
    div: Any
    matmul: Any
    hermitian: Any
    dot: Any
    squares_over: Any
    sum_over: Any
    sum_to_size: Any
    host_scalars: bool

    # -- systems of equations -----------------------------------------------------------------------------------

    @leading(2)
    @shaped(lambda a: (a, Result((*a.shape[:-2], min(a.shape[-2:])), "int32"), _info(a)))
    def factor_lu(self, a: Array) -> tuple[Array, Array, Array]:
        """Return LU factors in one matrix, pivots (from 1) and info, by elimination of all matrices at once."""
        *batch, m, n = a.shape
        lu = a.reshape(math.prod(batch), m, n).copy()
        numbers = self.xp.arange(len(lu))
        pivots = self.xp.zeros((len(lu), min(m, n)), "int32")
        for j in range(min(m, n)):
            row = abs(lu[:, j:, j]).argmax(axis=1) + j
            pivots[:, j] = row + 1
            swapped = lu[numbers, row]
            lu[numbers, row] = lu[:, j]
            lu[:, j] = swapped
            pivot = lu[:, j, j, None]
            lu[:, j + 1 :, j] = self.div(lu[:, j + 1 :, j], self.xp.where(pivot == 0, 1, pivot))
            lu[:, j + 1 :, j + 1 :] -= lu[:, j + 1 :, j, None] * lu[:, j, None, j + 1 :]
        zero = self.xp.diagonal(lu, 0, -2, -1) == 0
        info = self.xp.where(zero.any(axis=-1), zero.argmax(axis=-1) + 1, 0) if min(m, n) else zero.any(axis=-1)
        return lu.reshape(a.shape), pivots.reshape(*batch, min(m, n)), info.astype("int32").reshape(batch)

    @leading(2, 1, 2)
    @shaped(lambda lu, pivots, b, adjoint=False: _solution(lu, b))
    def solve_lu(self, lu: Array, pivots: Array, b: Array, adjoint: bool = False) -> Array:
        """Return the solution of ``a @ x = b``, or with the conjugate transpose of `a`, from the factors of `a`."""
        p = self.permutation(lu, pivots, lu.shape[-1])
        if adjoint:
            lu = self.hermitian(lu)
            return self.matmul(p, self.solve_triangle(lu, self.solve_triangle(lu, b, False), True, True))
        b = self.matmul(p.swapaxes(-1, -2), b)
        return self.solve_triangle(lu, self.solve_triangle(lu, b, False, True), True)

    def solve_and_factor(self, a: Array, b: Array) -> tuple[Array, Array, Array, Array]:
        """Return the solution of ``a @ x = b``, factors and pivots for further right-hand sides, and info.

        The factors are empty where the library does not give them, or they are not worth keeping.
        """
        x = self.xp.linalg.solve(a, b)
        failed = self.sum_to_size((~self.xp.isfinite(x)).any(axis=(-2, -1)).astype("int32"), a.shape[:-2])
        failed = (failed > 0).astype("int32")
        return x, self.xp.zeros((0, 0), a.dtype), self.xp.zeros(0, "int32"), failed

    @leading(2, 2, 1, 2)
    def solve_with_factors(self, a: Array, lu: Array, pivots: Array, b: Array, adjoint: bool = False) -> Array:
        """Solve as `solve_lu` does, with the factors that `solve_and_factor` returned for `a`."""
        if lu.shape[-1] != a.shape[-1]:
            return self.xp.linalg.solve(self.hermitian(a) if adjoint else a, b)
        return self.solve_lu(lu, pivots, b, adjoint)

    @leading(2, 2)
    @shaped(lambda a, b, upper, unitriangular=False: _solution(a, b))
    def solve_triangle(self, a: Array, b: Array, upper: bool, unitriangular: bool = False) -> Array:
        """Return the solution of ``a @ x = b``, reading only the upper or the lower triangle of `a`."""
        a = self.xp.triu(a) if upper else self.xp.tril(a)
        if unitriangular:
            a = self.xp.where(self.xp.eye(a.shape[-1], dtype=bool), 1, a).astype(a.dtype)
        return self.xp.linalg.solve(a, b)

    @leading(2, 2)
    @shaped(lambda ab, b, l, u: _solution(ab, b))
    def solve_banded(self, ab: Array, b: Array, l: int, u: int) -> Array:
        """Return the solution of ``a @ x = b`` for a matrix stored by its `l` lower, main and `u` upper diagonals."""
        n = ab.shape[-1]
        a = self.xp.zeros((*ab.shape[:-2], n, n), ab.dtype)
        for k in range(-min(l, n - 1), min(u, n - 1) + 1):
            columns = self.xp.arange(max(k, 0), n + min(k, 0))
            a[..., columns - k, columns] = ab[..., u - k, max(k, 0) : n + min(k, 0)]
        x, _, _, info = self.solve_and_factor(a, b)
        self.check_info(info, "scipy.linalg.solve_banded")
        return x

    # -- equations and functions of matrices --------------------------------------------------------------------

    @leading(2, 2, 2)
    @shaped(lambda a, b, q: q)
    def solve_sylvester(self, a: Array, b: Array, q: Array) -> Array:
        """Return the solution of ``a @ x + x @ b = q``, from one system of equations for all elements."""
        n, m = q.shape[-2:]
        of_a = a[..., :, None, :, None] * self.xp.eye(m, dtype=a.dtype)[:, None, :]
        of_b = b.swapaxes(-1, -2)[..., None, :, None, :] * self.xp.eye(n, dtype=a.dtype)[:, None, :, None]
        system = of_a + of_b
        x = self.xp.linalg.solve(system.reshape(*system.shape[:-4], n * m, n * m), q.reshape(*q.shape[:-2], n * m, 1))
        return x.reshape(*x.shape[:-2], n, m)

    @leading(2)
    @shaped(lambda a: a)
    def square_root(self, a: Array) -> Array:
        """Return the principal square root of matrices by the Denman-Beavers iteration in double precision."""
        return self._root(a.astype("complex128" if a.dtype.kind == "c" else "float64"), 24).astype(a.dtype)

    def _root(self, a: Array, iterations: int) -> Array:
        """Return the square root after so many iterations, each of which inverts two matrices by one call."""
        pair = self.xp.zeros((2, *a.shape), a.dtype)
        pair[0], pair[1] = a, self.xp.eye(a.shape[-1], dtype=a.dtype)
        for _ in range(iterations):
            pair = (pair + self.invert(pair)[0][::-1]) / 2
        return pair[0]

    @leading(2)
    @shaped(lambda a: a)
    def logarithm(self, a: Array) -> Array:
        """Return the principal logarithm of matrices.

        It takes square roots until they are close to the identity, whose logarithm a Gaussian quadrature computes.
        An iteration for a root first halves the distance of the exponents, then converges quadratically. After each
        root the exponents are half as large, so the next root needs fewer iterations.
        """
        roots, dtype = 8, a.dtype
        a = a.astype("complex128" if a.dtype.kind == "c" else "float64")
        for k in range(roots):
            a = self._root(a, 5 + -(-19 // 2**k))
        identity = self.xp.eye(a.shape[-1], dtype=a.dtype)
        nodes, weights = np.polynomial.legendre.leggauss(8)
        small = a - identity
        terms = (
            float(w / 2) * self.xp.linalg.solve(identity + float((t + 1) / 2) * small, small)
            for t, w in zip(nodes, weights, strict=True)
        )
        return (2**roots * sum(terms)).astype(dtype)

    @leading(2)
    @shaped(lambda a, hermitian=False: (a, Result(a.shape[:-1], "int32"), _info(a)))
    def factor_ldl(self, a: Array, hermitian: bool = False) -> tuple[Array, Array, Array]:
        """Return the LDL factors of symmetric or Hermitian matrices in one matrix, LAPACK's pivots, and info."""
        raise NotImplementedError

    @leading(2, 1, 2)
    @shaped(lambda ld, pivots, b, hermitian=False: _solution(ld, b))
    def solve_ldl(self, ld: Array, pivots: Array, b: Array, hermitian: bool = False) -> Array:
        """Return the solution of ``a @ x = b`` from the LDL factors of `a`."""
        raise NotImplementedError

    # -- failures -----------------------------------------------------------------------------------------------

    @all_samples
    @shaped(lambda info, caller: None)
    def check_info(self, info: Array, caller: str) -> None:
        """Raise for the first matrix of a batch whose factorisation failed."""
        if not info.any():
            return
        first = int(info.ravel().nonzero()[0][0])
        failure = next(text for name, text in _FAILURES.items() if name in caller)
        prefix = f"(Batch element {first}): " if info.ndim else ""
        raise LinAlgError(f"{caller}: {prefix}{failure.format(int(info.ravel()[first]))}")

    @all_samples
    @shaped(lambda kept: True)
    def has_full_rank(self, kept: Array) -> bool:
        """Return whether the mask `kept` of singular values is True everywhere."""
        return bool(kept.all())

    def assert_small(self, x: Array, text: str) -> Array:
        """Raise with the message `text` where an element is too large to be a rounding error."""
        if (abs(x) > 1e-2).any():
            raise RuntimeError(text)
        return x

    def _no_convergence(self, name: str, a: Array) -> LinAlgError:
        if not self.xp.isfinite(a).all():
            reason = "the input matrix contained non-finite values."
        else:
            reason = "the input matrix is ill-conditioned or has too many repeated singular values."
        return LinAlgError(f"{name}: The algorithm failed to converge because {reason}")

    # -- factorisations -----------------------------------------------------------------------------------------

    @leading(2)
    @shaped(lambda a: (a, _info(a)))
    def factor_cholesky(self, a: Array) -> tuple[Array, Array]:
        """Return the lower Cholesky factor and info."""
        factor = self.xp.linalg.cholesky(a)
        failed = self.xp.isnan(factor).any(axis=(-2, -1))
        return factor, failed.astype("int32")

    @leading(2)
    def factor_eigh(self, a: Array, uplo: str = "L") -> tuple[Array, Array]:
        try:
            values, vectors = self.xp.linalg.eigh(a, uplo)
        except ValueError:
            raise self._no_convergence("linalg.eigh", a) from None
        return values, vectors

    @leading(2)
    def eigenvalues_hermitian(self, a: Array, uplo: str = "L") -> Array:
        try:
            return self.xp.linalg.eigvalsh(a, uplo)
        except ValueError:
            raise self._no_convergence("linalg.eigh", a) from None

    @leading(2)
    @shaped(lambda a: (Result(a.shape[:-1], _complex(a)), Result(a.shape, _complex(a))))
    def factor_eig(self, a: Array) -> tuple[Array, Array]:
        """Return complex eigenvalues and eigenvectors."""
        if not self.xp.isfinite(a).all():
            raise RuntimeError("torch.linalg.eig: input tensor should not contain infs or NaNs.")
        try:
            values, vectors = self.xp.linalg.eig(a)
        except ValueError:
            raise self._no_convergence("linalg.eig", a) from None
        dtype = self.xp.result_type(a.dtype, "complex64")
        return values.astype(dtype), vectors.astype(dtype)

    @leading(2)
    @shaped(lambda a: Result(a.shape[:-1], _complex(a)))
    def eigenvalues(self, a: Array) -> Array:
        """Return complex eigenvalues."""
        if not self.xp.isfinite(a).all():
            raise RuntimeError("torch.linalg.eig: input tensor should not contain infs or NaNs.")
        try:
            values = self.xp.linalg.eigvals(a)
        except ValueError:
            raise self._no_convergence("linalg.eigvals", a) from None
        return values.astype(self.xp.result_type(a.dtype, "complex64"))

    @leading(2)
    def factor_svd(self, a: Array, full_matrices: bool = False) -> tuple[Array, Array, Array]:
        try:
            u, s, vh = self.xp.linalg.svd(a, full_matrices)
        except ValueError:
            raise self._no_convergence("linalg.svd", a) from None
        return u, s, vh

    @leading(2)
    def singular_values(self, a: Array) -> Array:
        try:
            return self.xp.linalg.svd(a, False, False)
        except ValueError:
            raise self._no_convergence("linalg.svd", a) from None

    @leading(2)
    def factor_qr(self, a: Array, mode: str = "reduced") -> tuple[Array, Array]:
        """Return Q and R, with an empty Q for the mode ``"r"``."""
        if mode == "r":
            return self.xp.zeros(0, a.dtype), self.xp.linalg.qr(a, "r")
        q, r = self.xp.linalg.qr(a, mode)
        return q, r

    # -- inverses and determinants ------------------------------------------------------------------------------

    @leading(2)
    @shaped(lambda a: (a, _info(a)))
    def invert(self, a: Array) -> tuple[Array, Array]:
        """Return the inverse and info. For a singular matrix, the elements of the inverse are undefined."""
        result = self.xp.linalg.inv(a)
        failed = ~self.xp.isfinite(result).all(axis=(-2, -1))
        return result, failed.astype("int32")

    @leading(2)
    def determinant(self, a: Array) -> Array:
        result = self.xp.linalg.det(a)
        return self._nan_where_nan(a, result, result == 0)

    @leading(2)
    def log_determinant(self, a: Array) -> tuple[Array, Array]:
        """Return the sign, and the logarithm of the absolute value, of the determinants."""
        sign, size = self.xp.linalg.slogdet(a)
        return sign, self._nan_where_nan(a, size, sign == 0)

    def _nan_where_nan(self, a: Array, results: Array, singular: Array) -> Array:
        """Return `results`, a number for each matrix, with NaN for matrices that contain NaN.

        LAPACK may leave NaN out of a pivot's column, so that the matrix counts as `singular`. Other results are NaN.
        """
        if self.host_scalars and not singular.any():
            return results
        return self.xp.where(self.xp.isnan(a).any(axis=(-2, -1)), results.dtype.type("nan"), results)

    def adjugate(self, a: Array) -> Array:
        """Return the adjugate (the transpose of the cofactors): where possible, the inverse times the determinant."""
        if a.shape[-1] < 2:
            return self.xp.ones_like(a)
        determinant = self.xp.linalg.det(a)[..., None, None]
        inverse, info = self.invert(a)
        if self._is_accurate(a, inverse, info) or not self.xp.isfinite(a).all():
            return inverse * determinant
        u, s, vh = self.factor_svd(a)
        phase = (self.xp.linalg.det(u) * self.xp.linalg.det(vh))[..., None]
        return (self.hermitian(vh) * (phase * self.products_of_others(s))[..., None, :]) @ self.hermitian(u)

    def is_regular(self, a: Array) -> bool:
        """Return whether all matrices are far enough from singular for an accurate inverse."""
        return self._is_accurate(a, *self.invert(a))

    def _is_accurate(self, a: Array, inverse: Array, info: Array) -> bool:
        """Return whether all matrices have an inverse, and a moderate condition number."""
        if not a.size:
            return True
        norms = [abs(x).sum(axis=-1).max(axis=-1) for x in (a, inverse)]
        return bool(((info == 0) & (norms[0] * norms[1] < self.xp.finfo(a.dtype).eps ** -0.5)).all())

    @leading(1)
    def products_of_others(self, s: Array) -> Array:
        """Return, for each element of the last dim, the product of all others."""
        before = self.xp.ones_like(s)
        after = self.xp.ones_like(s)
        before[..., 1:] = self.xp.cumprod(s[..., :-1], axis=-1)
        after[..., :-1] = self.xp.cumprod(s[..., :0:-1], axis=-1)[..., ::-1]
        return before * after

    @shaped(lambda like, pivots, rows: Result((*pivots.shape[:-1], rows, rows), like.dtype))
    def permutation(self, like: Array, pivots: Array, rows: int) -> Array:
        """Return the permutation matrix of LAPACK's pivots, which are row exchanges in sequence."""
        batch = pivots.shape[:-1]
        count = math.prod(batch)
        order = self.xp.broadcast_to(self.xp.arange(rows), (count, rows)).copy()
        pivots = pivots.reshape(count, pivots.shape[-1]) - 1
        numbers = self.xp.arange(count)
        for i in range(pivots.shape[-1]):
            exchanged = pivots[:, i]
            order[numbers, i], order[numbers, exchanged] = order[numbers, exchanged], order[numbers, i].copy()
        eye = self.xp.eye(rows, dtype=like.dtype)
        return eye[order].swapaxes(-1, -2).reshape(*batch, rows, rows)

    # -- exponentials ---------------------------------------------------------------------------------------------

    @leading(2)
    @shaped(lambda a: a)
    def matrix_exponential(self, a: Array) -> Array:
        """Return the exponential of matrices, by scaling and squaring and a Padé approximant of degree 13.

        Squarings lose digits where they are more than the powers of a matrix need, as for triangular matrices and
        those of derivatives. So the powers choose their number: Al-Mohy and Higham, "A new scaling and squaring
        algorithm for the matrix exponential", SIAM J. Matrix Anal. Appl. 31 (2009).
        """
        if not a.size:
            return a.copy()
        x = a.astype("complex128" if a.dtype.kind == "c" else "float64")
        size = _largest_column(x)
        size = self.xp.where(self.xp.isfinite(size), size, 0)
        halvings = self.xp.ceil(self.xp.log2(self.xp.maximum(size / _PADE_LIMIT, 1)))
        x = x * self.xp.exp2(-halvings)
        c = _PADE
        eye = self.xp.eye(a.shape[-1])
        x2 = x @ x
        x4 = x2 @ x2
        x6 = x4 @ x2
        most = int(halvings.max())
        if most:
            needed = self._needed_squarings(x, x4, x6, halvings)
            grow = self.xp.exp2(halvings - needed)
            x, halvings = x * grow, needed
            for power, factors in ((x2, 2), (x4, 4), (x6, 6)):
                for _ in range(factors):  # One by one, as their product overflows where a power is zero.
                    power *= grow
            most = int(halvings.max())
        odd = x6 @ (c[13] * x6 + c[11] * x4 + c[9] * x2) + c[7] * x6 + c[5] * x4 + c[3] * x2 + c[1] * eye
        even = x6 @ (c[12] * x6 + c[10] * x4 + c[8] * x2) + c[6] * x6 + c[4] * x4 + c[2] * x2 + c[0] * eye
        odd = x @ odd
        result = self.xp.linalg.solve(even - odd, even + odd)
        for i in range(most):
            result = self.xp.where(i < halvings, result @ result, result)
        return result.astype(a.dtype)

    def _needed_squarings(self, x: Array, x4: Array, x6: Array, halvings: Array) -> Array:
        """Return how often to halve each matrix, at most as often as `halvings`, so that its powers are small enough.

        `x` is the matrix after `halvings`, and `x4` and `x6` are powers of `x`.
        """
        d4, d6, d8 = (_largest_column(power) ** (1 / n) for power, n in ((x4, 4), (x6, 6), (x4 @ x4, 8)))
        least, highest = self.xp.minimum, self.xp.maximum
        growth = least(highest(d4, d6), highest(d6, d8))
        needed = halvings + self.xp.ceil(self.xp.log2(highest(growth / _PADE_LIMIT_OF_POWERS, 1e-300)))
        needed = least(highest(needed, 0), halvings)
        # The error of the approximant is bounded by the 27th power of the absolute values.
        size = abs(x)
        third, sums = size @ size @ size, self.xp.ones((1, x.shape[-1]))
        for _ in range(9):
            sums = sums @ third
        error = _largest_column(sums) / highest(_largest_column(x), 1e-300) * _PADE_ERROR
        more = self.xp.ceil(self.xp.log2(highest(error * 2.0**53, 1e-300)) / 26 + halvings - needed)
        return self.xp.where(error > 0, least(needed + highest(more, 0), halvings), needed)

    # -- norms ----------------------------------------------------------------------------------------------------

    @along(2)
    def vector_norm(self, x: Array, ord: float, axes: tuple[int, ...] | None, keepdim: bool) -> Array:
        """Return the norm of order `ord` over `axes` (over all of them if None)."""
        if ord == 2 and x.dtype.kind == "f":
            if axes is None and not keepdim:
                flat = x.reshape(-1)
                return self.xp.sqrt(self.dot(flat, flat))
            return self.xp.sqrt(self.squares_over(x, axes, keepdim))
        if ord == 0:
            return (x != 0).sum(axis=axes, keepdims=keepdim).astype(x.real.dtype)
        size = abs(x)
        if ord == 1:
            return self.sum_over(size, axes, keepdim, None)
        if abs(ord) == math.inf:
            return (size.max if ord > 0 else size.min)(axis=axes, keepdims=keepdim)
        return self.xp.power(self.sum_over(self.xp.power(size, ord), axes, keepdim, None), 1 / ord)

    @leading(2)
    @shaped(lambda x: (x, Result((*x.shape[:-2], min(x.shape[-2:])), x.dtype)))
    def raw_qr(self, x: Array) -> tuple[Array, Array]:
        """Return the Householder vectors and factors of a QR factorisation, as LAPACK stores them."""
        h, tau = self.xp.linalg.qr(x, mode="raw")
        return h.swapaxes(-1, -2), tau
