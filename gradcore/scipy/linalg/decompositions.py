"""Matrix factorisations, determinants, norms, eigenvalues and bases of subspaces, with SciPy's arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcore import functional as F
from gradcore.core.typing import AnyTensor
from gradcore.numpy import linalg as numpy_linalg
from gradcore.numpy.conversion import common
from gradcore.scipy.conversion import floating

__all__ = [
    "cholesky", "det", "eig", "eigh", "eigvals", "eigvalsh", "lu", "norm", "null_space", "orth", "pinv", "pinvh",
    "polar", "qr", "svd", "svdvals",
]  # fmt: skip


def number_as_matrix(t: AnyTensor) -> AnyTensor:
    """Return a tensor without dims as a matrix of one element, and other tensors unchanged."""
    return t if t.ndim else t[None, None]


def check_matrix(a: Any, check_finite: bool = True, ndim: int = 0) -> AnyTensor:
    """Return `a` as a floating-point tensor of at least `ndim` dims.

    Raise if it has fewer, or if it is not finite and `check_finite` is True.
    """
    A = floating(a)
    if A.ndim < ndim:
        raise ValueError(f"The input array must have at least {ndim} dimensions, but has {A.ndim}.")
    if check_finite and not bool(F.all(F.isfinite(A.detach()))):
        raise ValueError("array must not contain infs or NaNs")
    return A


def hermitian_of(A: AnyTensor, lower: bool) -> AnyTensor:
    """Return the Hermitian matrix given by the lower or upper triangle of `A`."""
    half = F.tril(A, -1) if lower else F.triu(A, 1)
    return half + F.hermitian(half) + F.diag_embed(F.diagonal(A, 0, -2, -1))


def cholesky(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> AnyTensor:
    """Return the Cholesky factor, by default the upper one. Only the corresponding triangle of `a` is read.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.cholesky([[4.0, 2.0], [2.0, 5.0]]).round(decimals=4)
    tensor([[2., 1.],
            [0., 2.]], dtype=torch.float64)
    """
    A = check_matrix(a, check_finite)
    A = A if A.ndim else A[None, None]
    return F.linalg_cholesky(hermitian_of(A, lower), upper=not lower)


def det(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> AnyTensor:
    """Return the determinant.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.det([[2.0, 1.0], [1.0, 3.0]]).round(decimals=4)
    tensor(5., dtype=torch.float64)
    """
    return F.linalg_det(check_matrix(a, check_finite))


def norm(a: Any, ord: Any = None, axis: Any = None, keepdims: bool = False, check_finite: bool = True) -> AnyTensor:
    """Return the norm of a matrix or vector, or the norms of the matrices or vectors along `axis`.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.norm([3.0, 4.0]).round(decimals=4)
    tensor(5., dtype=torch.float64)
    """
    return numpy_linalg.norm(check_matrix(a, check_finite), ord, axis, keepdims)


def svd(
    a: Any, full_matrices: bool = True, compute_uv: bool = True, overwrite_a: bool = False, check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:  # fmt: skip
    """Return the singular value decomposition.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.svd([[3.0, 0.0], [0.0, 2.0]])[1].round(decimals=4)
    tensor([3., 2.], dtype=torch.float64)
    """
    A = check_matrix(a, check_finite)
    return tuple(F.linalg_svd(A, full_matrices)) if compute_uv else F.linalg_svdvals(A)


def svdvals(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> AnyTensor:
    """Return the singular values.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.svdvals([[3.0, 0.0], [0.0, 2.0]]).round(decimals=4)
    tensor([3., 2.], dtype=torch.float64)
    """
    return F.linalg_svdvals(check_matrix(a, check_finite))


def pinv(a: Any, *, atol: Any = None, rtol: Any = None, return_rank: bool = False, check_finite: bool = True) -> Any:
    """Return the pseudo-inverse; singular values up to ``atol + rtol * the largest`` count as zero.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.pinv([[2.0], [0.0]]).round(decimals=4)
    tensor([[0.5000, 0.0000]], dtype=torch.float64)
    """
    A = check_matrix(a, check_finite)
    values = F.linalg_svdvals(A.detach())
    rtol = max(A.shape[-2:]) * float(np.finfo(A.dtype.numpy).eps) if rtol is None else rtol
    bound, rank = _bound_and_rank(values, atol, rtol)
    result = F.linalg_pinv(A, atol=bound, rtol=0.0)
    return (result, rank) if return_rank else result


def _bound_and_rank(values: AnyTensor, atol: float | None, rtol: float) -> tuple[AnyTensor, AnyTensor | int]:
    """Return, for each matrix, the bound up to which singular values count as zero, and the number of larger ones."""
    largest = F.amax(values, -1) if values.shape[-1] else F.sum(values, -1)
    bound = (atol or 0.0) + rtol * largest
    rank = F.sum(values > bound[..., None], -1)
    return bound, rank if rank.ndim else int(rank)


def pinvh(
    a: Any, atol: Any = None, rtol: Any = None, lower: bool = True, return_rank: bool = False, check_finite: bool = True
) -> Any:
    """Compute the pseudo-inverse of a Hermitian matrix; eigenvalues up to ``atol + rtol * the largest`` count as zero.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.pinvh([[2.0, 0.0], [0.0, 0.0]])
    tensor([[0.5000, 0.0000],
            [0.0000, 0.0000]], dtype=torch.float64)
    """
    A = check_matrix(a, check_finite, 2)
    if A.shape[-1] != A.shape[-2]:
        raise ValueError('expected square "a" matrix')
    A = hermitian_of(A, lower)
    sizes = F.abs(F.linalg_eigvalsh(A.detach()))
    rtol = A.shape[-1] * float(np.finfo(A.dtype.numpy).eps) if rtol is None else rtol
    bound, rank = _bound_and_rank(sizes, atol, rtol)
    result = F.linalg_pinv(A, atol=bound, rtol=0.0, hermitian=True)
    return (result, rank) if return_rank else result


def eigh(
    a: Any, b: Any = None, *, lower: bool = True, eigvals_only: bool = False, overwrite_a: bool = False,
    overwrite_b: bool = False, type: int = 1, check_finite: bool = True, subset_by_index: Any = None,
    subset_by_value: Any = None, driver: Any = None,
) -> Any:  # fmt: skip
    """Compute the eigenvalues and eigenvectors of a Hermitian matrix, or of a pair of Hermitian matrices.

    Parameters
    ----------
    a, b : array_like
        The matrices of ``a @ v = w * b @ v`` for `type` 1, ``a @ b @ v = w * v`` for 2, ``b @ a @ v = w * v`` for 3.
    lower : bool
        Whether the lower triangles are read, rather than the upper ones.
    eigvals_only : bool
    subset_by_index, subset_by_value : pair, optional
        Which of the ascending eigenvalues to return: by first and last index, or by an interval, open below.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.eigh([[2.0, 0.0], [0.0, 6.0]], [[1.0, 0.0], [0.0, 2.0]], eigvals_only=True).round(decimals=4)
    tensor([2., 3.], dtype=torch.float64)
    """
    A = check_matrix(a, check_finite)
    uplo = "L" if lower else "U"
    if b is not None:
        A, B = (hermitian_of(t, lower) for t in common(A, check_matrix(b, check_finite)))
        factor, uplo = F.linalg_cholesky(B), "L"
        if type == 1:
            half = F.linalg_solve_triangular(factor, A, upper=False)
            A = F.linalg_solve_triangular(factor, F.hermitian(half), upper=False)
        else:
            A = F.matmul(F.hermitian(factor), F.matmul(A, factor))
    if eigvals_only:
        values = F.linalg_eigvalsh(A, uplo)
        return values[..., _subset(values, subset_by_index, subset_by_value)]
    values, vectors = F.linalg_eigh(A, uplo)
    if b is not None and type == 3:
        vectors = F.matmul(factor, vectors)
    elif b is not None:
        vectors = F.linalg_solve_triangular(F.hermitian(factor), vectors, upper=True)
    indices = _subset(values, subset_by_index, subset_by_value)
    return values[..., indices], vectors[..., indices]


def _subset(values: AnyTensor, by_index: Any, by_value: Any) -> slice:
    if by_index is not None:
        return slice(int(by_index[0]), int(by_index[1]) + 1)
    if by_value is not None:
        first, last = (int((values.detach() <= float(bound)).sum()) for bound in by_value)
        return slice(first, last)
    return slice(None)


def eigvalsh(a: Any, b: Any = None, **settings: Any) -> AnyTensor:
    """Compute the eigenvalues of a Hermitian matrix, or of a pair of Hermitian matrices; see `eigh`.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.eigvalsh([[2.0, 1.0], [1.0, 2.0]]).round(decimals=4)
    tensor([1., 3.], dtype=torch.float64)
    """
    return eigh(a, b, eigvals_only=True, **settings)


def eig(
    a: Any, b: Any = None, left: bool = False, right: bool = True, overwrite_a: bool = False, overwrite_b: bool = False,
    check_finite: bool = True, homogeneous_eigvals: bool = False,
) -> Any:  # fmt: skip
    """Compute complex eigenvalues and eigenvectors of a square matrix, or of a pair with a regular `b`.

    `left` and `right` choose which eigenvectors are returned. They have norm one. A loss that is differentiated must
    not depend on their phases, which are arbitrary.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.eig([[2.0, 0.0], [0.0, 3.0]], right=False)
    tensor([2.+0.j, 3.+0.j], dtype=torch.complex128)
    """
    if homogeneous_eigvals:
        raise TypeError("eig() of tensors has no homogeneous eigenvalues: b must be regular")
    A = check_matrix(a, check_finite)
    if b is not None:
        A, B = common(A, check_matrix(b, check_finite))
        A = F.linalg_solve(B, A)
    if not (left or right):
        return F.linalg_eigvals(A)
    values, vectors = F.linalg_eig(A)
    results = [values]
    if left:
        rows = F.linalg_inv(vectors)
        if b is not None:  # left vectors of B^-1 A, times B^-1
            rows = F.linalg_solve(F.hermitian(B).to(rows.dtype), F.hermitian(rows))
            rows = F.hermitian(rows)
        results.append(_normalize_columns(F.hermitian(rows)))
    if right:
        results.append(vectors if b is None else _normalize_columns(vectors))
    return tuple(results)


def _normalize_columns(columns: AnyTensor) -> AnyTensor:
    return columns / F.linalg_vector_norm(columns, 2, -2, True)


def eigvals(
    a: Any, b: Any = None, overwrite_a: bool = False, check_finite: bool = True, homogeneous_eigvals: bool = False
) -> AnyTensor:
    """Compute the eigenvalues of a square matrix, or of a pair with a regular `b`; see `eig`.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.eigvals([[0.0, 1.0], [-1.0, 0.0]]).imag.abs()
    tensor([1., 1.], dtype=torch.float64)
    """
    return eig(a, b, False, False, check_finite=check_finite, homogeneous_eigvals=homogeneous_eigvals)


def lu(
    a: Any, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True, p_indices: bool = False
) -> Any:
    """Return the LU decomposition ``p @ l @ u``.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.lu([[1.0, 2.0], [2.0, 2.0]])[2]
    tensor([[2., 2.],
            [0., 1.]], dtype=torch.float64)
    """
    p, lower, upper = F.linalg_lu(check_matrix(a, check_finite))
    if permute_l:
        return F.matmul(p, lower), upper
    return (F.argmax(F.real(p) if F.is_complex(p) else p, -1) if p_indices else p), lower, upper


def qr(
    a: Any, overwrite_a: bool = False, lwork: Any = None, mode: str = "full", pivoting: bool = False,
    check_finite: bool = True,
) -> Any:  # fmt: skip
    """Compute the QR decomposition; ``mode="economic"`` is differentiable for matrices with more rows than columns too.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.qr([[3.0], [4.0]], mode="economic")[1].abs().round(decimals=4)
    tensor([[5.]], dtype=torch.float64)
    """
    if pivoting or mode not in ("full", "economic"):
        raise TypeError("qr() of tensors is implemented for the modes 'full' and 'economic' without pivoting only")
    return tuple(F.linalg_qr(check_matrix(a, check_finite), "reduced" if mode == "economic" else "complete"))


def polar(a: Any, side: str = "right") -> tuple[AnyTensor, AnyTensor]:
    """Return the polar decomposition ``u @ p``, or ``p @ u`` on the left side.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.polar([[0.0, -2.0], [2.0, 0.0]])[1].abs().round(decimals=4)
    tensor([[2., 0.],
            [0., 2.]], dtype=torch.float64)
    """
    if side not in ("right", "left"):
        raise ValueError("`side` must be either 'right' or 'left'")
    A = check_matrix(a, ndim=2)
    A = A if side == "right" else F.hermitian(A)
    if A.shape[-2] >= A.shape[-1]:
        u, p = F.polar_factors(A)
    else:
        w, s, vh = F.linalg_svd(A, False)
        u, p = F.matmul(w, vh), F.matmul(F.hermitian(vh) * F.unsqueeze(s, -2), vh)
    return (u, p) if side == "right" else (F.hermitian(u), p)


def orth(A: Any, rcond: float | None = None) -> AnyTensor:
    """Return an orthonormal basis of the range of a matrix: the left singular vectors of nonzero singular values.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> tuple(linalg.orth([[1.0, 0.0], [0.0, 0.0]]).shape)
    (2, 1)
    """
    matrix = _check_single(check_matrix(A))
    u, s, _ = F.linalg_svd(matrix, False)
    return u[:, : _rank(matrix, s, rcond)]


def null_space(
    A: Any, rcond: float | None = None, *, overwrite_a: bool = False, check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> AnyTensor:  # fmt: skip
    """Return an orthonormal basis of the null space of a matrix.

    Any rotation of the basis is a basis, too. So a loss has a gradient only if it depends on the space alone, for
    example on the projection ``N @ N.mH`` or on a single vector up to its sign. Otherwise backward raises.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.null_space([[1.0, 0.0]]).abs().round(decimals=4)
    tensor([[0.],
            [1.]], dtype=torch.float64)
    """
    matrix = _check_single(check_matrix(A, check_finite))
    _, s, vh = F.linalg_svd(matrix, True)
    rank = _rank(matrix, s, rcond)
    if rank < s.shape[-1] and F.is_differentiated(matrix):
        raise RuntimeError(
            f"null_space() is not differentiable where rows and columns are dependent (the rank is {rank} of "
            f"{s.shape[-1]}): the null space is smaller for matrices beside this one; use detach()"
        )
    return F.hermitian(vh[rank:])


def _check_single(A: AnyTensor) -> AnyTensor:
    """Return the matrix, or raise if there are several, whose bases may have different sizes."""
    if A.ndim != 2:
        raise ValueError(f"expected one matrix, but the input has {A.ndim} dims; call the function for each matrix")
    return A


def _rank(matrix: AnyTensor, s: AnyTensor, rcond: float | None) -> int:
    bound = max(matrix.shape) * float(np.finfo(matrix.dtype.numpy).eps) if rcond is None else rcond
    return int((s.detach() > bound * s.detach().max()).sum()) if s.numel() else 0
