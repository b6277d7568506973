"""Solvers of linear systems (general, triangular, banded, factored) and of matrix equations."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcore import functional as F
from gradcore.core import dtypes
from gradcore.core.typing import AnyTensor
from gradcore.numpy import linalg as numpy_linalg
from gradcore.numpy.conversion import common, tensor_of
from gradcore.scipy.conversion import like
from gradcore.scipy.implicit import root_at
from gradcore.scipy.linalg.decompositions import check_matrix, hermitian_of, number_as_matrix
from gradcore.scipy.required import scipy_module

__all__ = [
    "cho_factor", "cho_solve", "cho_solve_banded", "cholesky_banded", "inv", "lstsq", "lu_factor", "lu_solve", "solve",
    "solve_banded", "solve_continuous_are", "solve_continuous_lyapunov", "solve_discrete_are",
    "solve_discrete_lyapunov", "solve_sylvester", "solve_triangular", "solveh_banded",
]  # fmt: skip


def _system(a: Any, b: Any, check_finite: bool) -> tuple[AnyTensor, AnyTensor, Any]:
    """Return the matrix and right side (as columns) in one dtype, and a function that reshapes solutions like `b`."""
    A, right = common(check_matrix(a, check_finite), check_matrix(b, check_finite))
    if right.ndim == 1:
        return A, right[:, None], lambda x: x[..., 0]
    return A, right, lambda x: x


def solve(
    a: Any, b: Any, lower: bool = False, overwrite_a: bool = False, overwrite_b: bool = False,
    check_finite: bool = True, assume_a: str | None = None, transposed: bool = False,
) -> AnyTensor:  # fmt: skip
    """Solve the linear system ``a @ x = b``; `assume_a` names the structure of `a`, as in SciPy.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.solve([[2.0, 0.0], [1.0, 1.0]], [2.0, 3.0])
    tensor([1., 2.], dtype=torch.float64)
    """
    A, right, shaped = _system(a, b, check_finite)
    if not A.ndim:  # a number, as in SciPy
        return (right if right.ndim else right[None]) / A if right.ndim < 2 else shaped(right / A)
    kind = (assume_a or "general").replace(" ", "_")
    if kind in ("pos", "positive_definite", "her", "hermitian"):
        A = hermitian_of(A, lower)
    elif kind in ("sym", "symmetric"):
        A = F.tril(A) + F.tril(A, -1).mT if lower else F.triu(A) + F.triu(A, 1).mT
    elif kind in ("upper_triangular", "lower_triangular"):
        A = F.triu(A) if kind.startswith("u") else F.tril(A)
    elif kind == "diagonal":
        A = F.diag_embed(F.diagonal(A, 0, -2, -1))
    elif kind not in ("gen", "general", "banded", "tridiagonal"):
        raise ValueError(f"{assume_a} is not a recognized matrix structure")
    return shaped(F.linalg_solve(A.mT if transposed else A, right))


def lstsq(
    a: Any, b: Any, cond: float | None = None, overwrite_a: bool = False, overwrite_b: bool = False,
    check_finite: bool = True, lapack_driver: str | None = None,
) -> tuple[Any, Any, int, Any]:  # fmt: skip
    """Compute the least-squares solution of smallest norm, the sums of squared residuals, the rank and singular values.

    Derivatives assume that the rank is constant.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> x, rest, rank, _ = linalg.lstsq([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]], [1.0, 3.0, 5.0])
    >>> x.round(decimals=4), rank
    (tensor([1., 2.], dtype=torch.float64), 2)
    """
    A, right = common(check_matrix(a, check_finite), check_matrix(b, check_finite))
    x, residuals, rank, values = numpy_linalg.lstsq(
        A, right, float(np.finfo(A.dtype.numpy).eps) if cond is None else cond
    )
    if right.ndim == 1 and residuals.numel():
        residuals = residuals[0]
    return x, residuals, rank, values


def inv(
    a: Any, overwrite_a: bool = False, check_finite: bool = True, *, assume_a: str | None = None, lower: bool = False
) -> AnyTensor:
    """Return the inverse of matrices.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.inv([[2.0, 0.0], [0.0, 4.0]])
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]], dtype=torch.float64)
    """
    A = check_matrix(a, check_finite)
    if assume_a is None:
        return F.linalg_inv(A)
    return solve(A, F.broadcast_to(like(np.eye(A.shape[-1]), A), A.shape), lower, assume_a=assume_a)


def solve_triangular(
    a: Any, b: Any, trans: Any = 0, lower: bool = False, unit_diagonal: bool = False, overwrite_b: bool = False,
    check_finite: bool = True,
) -> AnyTensor:  # fmt: skip
    """Solve a triangular system, with ``trans=1`` the transposed and with ``trans=2`` the conjugate transposed one.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.solve_triangular([[2.0, 0.0], [1.0, 4.0]], [2.0, 9.0], lower=True)
    tensor([1., 2.], dtype=torch.float64)
    """
    A, right, shaped = _system(a, b, check_finite)
    trans = {"N": 0, "T": 1, "C": 2}.get(trans, trans)
    A = (A, A.mT, A.mH)[trans]
    return shaped(
        F.linalg_solve_triangular(A, right, upper=bool(lower) == bool(trans), unitriangular=bool(unit_diagonal))
    )


def solve_banded(
    l_and_u: tuple[int, int], ab: Any, b: Any, overwrite_ab: bool = False, overwrite_b: bool = False,
    check_finite: bool = True,
) -> AnyTensor:  # fmt: skip
    """Solve a banded system whose matrix is stored by diagonals: ``a[i, j]`` is ``ab[u + i - j, j]``.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.solve_banded((0, 1), [[0.0, 1.0], [2.0, 4.0]], [3.0, 4.0])
    tensor([1., 1.], dtype=torch.float64)
    """
    lower, upper = map(int, l_and_u)
    A, right, shaped = _system(ab, b, check_finite)
    if A.shape[-2] != lower + upper + 1:
        raise ValueError(
            f"invalid values for the number of lower and upper diagonals: l+u+1 ({lower + upper + 1}) does not equal "
            f"ab.shape[0] ({A.shape[-2]})"
        )
    return shaped(F.banded_solved(A, right, lower, upper))


def _adjoint_rows(rows: list[tuple[AnyTensor, int]]) -> AnyTensor:
    """Return the stored diagonals of the conjugate transposed matrix: each is shifted by its offset."""
    return F.stack([F.pad(F.conj(row), (k, -k)) for row, k in rows], -2)


def _whole_band(ab: AnyTensor, lower: bool) -> tuple[AnyTensor, int]:
    """Return all diagonals of a Hermitian matrix from the stored half, and their number on either side."""
    u = ab.shape[-2] - 1
    if not u:
        return ab, 0
    if lower:
        return F.cat([_adjoint_rows([(ab[..., k, :], k) for k in range(u, 0, -1)]), ab], -2), u
    return F.cat([ab, _adjoint_rows([(ab[..., u - k, :], -k) for k in range(1, u + 1)])], -2), u


def solveh_banded(
    ab: Any, b: Any, overwrite_ab: bool = False, overwrite_b: bool = False, lower: bool = False,
    check_finite: bool = True,
) -> AnyTensor:  # fmt: skip
    """Solve a banded system with a positive definite matrix, of which the lower or upper diagonals are stored.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.solveh_banded([[0.0, 1.0], [2.0, 2.0]], [3.0, 3.0])
    tensor([1., 1.], dtype=torch.float64)
    """
    half, right, shaped = _system(ab, b, check_finite)
    band, u = _whole_band(half, lower)
    return shaped(F.banded_solved(band, right, u, u))


def cholesky_banded(ab: Any, overwrite_ab: bool = False, lower: bool = False, check_finite: bool = True) -> AnyTensor:
    """Return the Cholesky factor of a banded matrix in the same banded storage; it is computed as a dense matrix.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.cholesky_banded([[0.0, 2.0], [4.0, 5.0]])
    tensor([[0., 1.],
            [2., 2.]], dtype=torch.float64)
    """
    band, u = _whole_band(check_matrix(ab, check_finite, 2), lower)
    n = band.shape[-1]
    dense = sum(F.diag_embed(band[..., u - k, max(k, 0) : n + min(k, 0)], k) for k in range(-u, u + 1))
    factor = F.linalg_cholesky(dense, upper=not lower)
    order = range(u + 1) if lower else range(u, -1, -1)
    rows = [F.diagonal(factor, -k if lower else k, -2, -1) for k in order]
    return F.stack([F.pad(r, (0, n - r.shape[-1]) if lower else (n - r.shape[-1], 0)) for r in rows], -2)


def cho_solve_banded(
    cb_and_lower: tuple[Any, bool], b: Any, overwrite_b: bool = False, check_finite: bool = True
) -> AnyTensor:
    """Solve a banded system with the Cholesky factor that `cholesky_banded` returns.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.cho_solve_banded((linalg.cholesky_banded([[0.0, 2.0], [4.0, 5.0]]), False), [6.0, 7.0])
    tensor([1., 1.], dtype=torch.float64)
    """
    factor, lower = cb_and_lower
    cb, right, shaped = _system(factor, b, check_finite)
    u = cb.shape[-2] - 1
    if lower:
        upper = _adjoint_rows([(cb[..., k, :], k) for k in range(u, -1, -1)])
        return shaped(F.banded_solved(upper, F.banded_solved(cb, right, u, 0), 0, u))
    below = _adjoint_rows([(cb[..., u - k, :], -k) for k in range(u + 1)])
    return shaped(F.banded_solved(cb, F.banded_solved(below, right, u, 0), 0, u))


def cho_factor(
    a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[AnyTensor, bool]:
    """Return the Cholesky factor of a matrix and `lower`, for `cho_solve`; the other triangle is zero.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.cho_solve(linalg.cho_factor([[4.0, 2.0], [2.0, 5.0]]), [6.0, 7.0])
    tensor([1., 1.], dtype=torch.float64)
    """
    return F.linalg_cholesky(hermitian_of(check_matrix(a, check_finite, 2), lower), upper=not lower), lower


def cho_solve(c_and_lower: tuple[Any, bool], b: Any, overwrite_b: bool = False, check_finite: bool = True) -> AnyTensor:
    """Solve a system with the Cholesky factor that `cho_factor` returns.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.cho_solve(([[2.0, 0.0], [1.0, 2.0]], True), [6.0, 7.0])
    tensor([1., 1.], dtype=torch.float64)
    """
    factor, lower = c_and_lower
    c, right, shaped = _system(factor, b, check_finite)
    return shaped(F.cholesky_solve(right, F.tril(c) if lower else F.triu(c), not lower))


def lu_factor(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> tuple[AnyTensor, AnyTensor]:
    """Return both LU factors in one matrix, and the pivot indices from zero, for `lu_solve`.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.lu_solve(linalg.lu_factor([[0.0, 1.0], [2.0, 0.0]]), [1.0, 2.0])
    tensor([1., 1.], dtype=torch.float64)
    """
    factors, pivots = F.linalg_lu_factor(number_as_matrix(check_matrix(a, check_finite)))
    return factors, pivots - 1


def lu_solve(
    lu_and_piv: tuple[Any, Any], b: Any, trans: int = 0, overwrite_b: bool = False, check_finite: bool = True
) -> AnyTensor:
    """Solve a system with the factors of `lu_factor`, with ``trans=1`` or 2 the (conjugate) transposed system.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.lu_solve(linalg.lu_factor([[1.0, 1.0], [0.0, 2.0]]), [1.0, 3.0], trans=1)
    tensor([1., 1.], dtype=torch.float64)
    """
    factors, right, shaped = _system(lu_and_piv[0], b, check_finite)
    pivots = tensor_of(lu_and_piv[1], dtypes.int32) + 1
    if trans == 1:
        return shaped(F.conj(F.linalg_lu_solve(factors, pivots, F.conj(right), adjoint=True)))
    return shaped(F.linalg_lu_solve(factors, pivots, right, adjoint=trans == 2))


# -- equations of matrices --------------------------------------------------------------------------------------------


def solve_sylvester(a: Any, b: Any, q: Any) -> AnyTensor:
    """Return the solution of ``a @ x + x @ b = q``.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.solve_sylvester([[1.0]], [[2.0]], [[6.0]])
    tensor([[2.]], dtype=torch.float64)
    """
    return F.sylvester_solved(*common(*map(tensor_of, (a, b, q))))


def solve_continuous_lyapunov(a: Any, q: Any) -> AnyTensor:
    """Return the solution of ``a @ x + x @ a.mH = q``.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.solve_continuous_lyapunov([[1.0]], [[6.0]])
    tensor([[3.]], dtype=torch.float64)
    """
    A, Q = (t if t.ndim else t[None, None] for t in common(tensor_of(a), tensor_of(q)))
    return F.sylvester_solved(A, F.hermitian(A), Q)


def solve_discrete_lyapunov(a: Any, q: Any, method: str | None = None) -> AnyTensor:
    """Solve ``a @ x @ a.mH - x + q = 0`` by a bilinear transform, or as one linear system if `method` is ``"direct"``.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.solve_discrete_lyapunov([[0.5]], [[3.0]])
    tensor([[4.]], dtype=torch.float64)
    """
    A, Q = common(tensor_of(a), tensor_of(q))
    n = A.shape[-1]
    identity, adjoint = like(np.eye(n), A), F.hermitian(A)
    if method == "direct" or (method is None and n < 10):
        system = like(np.eye(n * n), A) - F.kron(A, F.conj(A))
        return F.reshape(F.linalg_solve(system, F.reshape(Q, (-1, 1))), (n, n))
    if method not in (None, "bilinear"):
        raise ValueError(f"Unknown solver {method}")
    inverse = F.linalg_inv(adjoint + identity)
    B = F.matmul(adjoint - identity, inverse)
    C = 2 * F.matmul(F.linalg_solve(A + identity, Q), inverse)
    return F.sylvester_solved(F.hermitian(B), B, -C)


def _riccati(name: str, residual: Any, given: tuple[Any, ...], e: Any, s: Any, balanced: bool) -> AnyTensor:
    if e is not None or s is not None:
        raise TypeError(f"{name}() of tensors takes neither e nor s")
    matrices = common(*map(tensor_of, given))
    if any(F.is_complex(m) for m in matrices):
        raise TypeError(f"{name}() of tensors takes real matrices")
    value = like(
        getattr(scipy_module("linalg"), name)(*(m.detach().host() for m in matrices), balanced=balanced), matrices[0]
    )
    n = value.shape[-1]

    def at(values: Any, x: AnyTensor) -> AnyTensor:
        return F.reshape(residual(*values, F.reshape(x, (n, n))), (-1,))

    return F.reshape(root_at(at, F.reshape(value, (-1,)), *matrices), (n, n))


def solve_continuous_are(
    a: Any, b: Any, q: Any, r: Any, e: Any = None, s: Any = None, balanced: bool = True
) -> AnyTensor:
    """Return the solution of the continuous algebraic Riccati equation of real matrices.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.solve_continuous_are([[0.0]], [[1.0]], [[4.0]], [[1.0]])
    tensor([[2.]], dtype=torch.float64)
    """

    def residual(A: AnyTensor, B: AnyTensor, Q: AnyTensor, R: AnyTensor, X: AnyTensor) -> AnyTensor:
        XA = F.matmul(X, A)
        return F.matmul(A.mT, X) + XA - F.matmul(F.matmul(X, B), F.linalg_solve(R, F.matmul(B.mT, X))) + Q

    return _riccati("solve_continuous_are", residual, (a, b, q, r), e, s, balanced)


def solve_discrete_are(
    a: Any, b: Any, q: Any, r: Any, e: Any = None, s: Any = None, balanced: bool = True
) -> AnyTensor:
    """Return the solution of the discrete algebraic Riccati equation of real matrices.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.solve_discrete_are([[1.0]], [[1.0]], [[2.0]], [[1.0]])
    tensor([[2.7321]], dtype=torch.float64)
    """

    def residual(A: AnyTensor, B: AnyTensor, Q: AnyTensor, R: AnyTensor, X: AnyTensor) -> AnyTensor:
        XA, BX = F.matmul(X, A), F.matmul(B.mT, X)
        gain = F.linalg_solve(R + F.matmul(BX, B), F.matmul(BX, A))
        return F.matmul(A.mT, XA) - X - F.matmul(F.matmul(A.mT, F.matmul(X, B)), gain) + Q

    return _riccati("solve_discrete_are", residual, (a, b, q, r), e, s, balanced)
