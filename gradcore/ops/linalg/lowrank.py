"""Singular values and principal components of matrices of low rank, by random projection."""

from __future__ import annotations

from gradcore.ops.declare.samples import case, floats
from gradcore.ops.declare.table import composite
from gradcore.ops.linalg.matrix_checks import check_floating, check_matrix

# Halko, Martinsson and Tropp, "Finding structure with randomness", SIAM Review 53 (2011), algorithm 5.1 with 4.4.


def _range(F, A, q, niter):
    """Return an orthonormal basis of approximately the range of `A`, from `q` random combinations of its columns."""
    start = F.randn((A.shape[-1], q), dtype=A.dtype, device=A.device)
    Q = F.linalg_qr(F.matmul(A, start))[0]
    for _ in range(niter):
        Q = F.linalg_qr(F.matmul(F.hermitian(A), Q))[0]
        Q = F.linalg_qr(F.matmul(A, Q))[0]
    return Q


def _cases():
    return [case(floats(4, 3), q=3), case(floats(2, 3, 4), q=3)]


@composite(method=False, random=True, samples=_cases)
def svd_lowrank(F, A, q: int | None = 6, niter: int = 2, M=None):
    """Return about `q` largest singular values and vectors, ``A - M = U @ diag(S) @ V.mH``.

    Parameters
    ----------
    q : int
        The number of values to compute, somewhat larger than the number of values that are needed.
    niter : int
        Rounds of iteration; more where the singular values fall slowly.
    M : Tensor, optional
        The matrix to subtract from `A`.

    Examples
    --------
    >>> U, S, V = gc.svd_lowrank(gc.diag(gc.tensor([3.0, 2.0, 0.0])), q=2)
    >>> U.shape, S.shape, V.shape
    (torch.Size([3, 2]), torch.Size([2]), torch.Size([3, 2]))
    """
    check_matrix("svd_lowrank", A)
    check_floating("svd_lowrank", A)
    if M is not None:
        A = A - M
    wide = A.shape[-2] < A.shape[-1]
    A = F.hermitian(A) if wide else A
    Q = _range(F, A, 6 if q is None else q, niter)
    U, S, Vh = F.linalg_svd(F.matmul(F.hermitian(Q), A), full_matrices=False)
    U, V = F.matmul(Q, U), F.hermitian(Vh)
    return (V, S, U) if wide else (U, S, V)


@composite(method=False, random=True, samples=_cases)
def pca_lowrank(F, A, q: int | None = None, center: bool = True, niter: int = 2):
    """Return the principal components of the rows of `A`: `svd_lowrank` of `A` without its mean row if `center`.

    Examples
    --------
    >>> U, S, V = gc.pca_lowrank(gc.eye(4, 3), q=2)
    >>> U.shape, S.shape, V.shape
    (torch.Size([4, 2]), torch.Size([2]), torch.Size([3, 2]))
    """
    check_matrix("pca_lowrank", A)
    q = min(6, *A.shape[-2:]) if q is None else q
    if not 0 <= q <= min(A.shape[-2:]):
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(A.shape[-2:])}")
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    return F.svd_lowrank(A - F.mean(A, -2, True) if center else A, q, niter)
