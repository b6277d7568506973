"""Factorisations: Cholesky, LU, QR, eigenvalues, singular values.

The signs or phases of vectors are arbitrary. Derivatives assume that the loss does not depend on them; a complex loss
that depends on a phase raises an error.
"""

from __future__ import annotations

from gradcore.backends.kernel_rules import all_samples
from gradcore.core.errors import warn_deprecated
from gradcore.ops.declare.samples import case, floats
from gradcore.ops.declare.table import composite, constant, general
from gradcore.ops.linalg.matrix_checks import check_floating, check_matrix, check_square

_PRIVATE = {"function": False, "method": False}


def _rows(F, x):
    """Append a dim to `x`, which has a number for each row, so that it broadcasts with the matrix."""
    return F.unsqueeze(x, -1)


def _columns(F, x):
    """Insert a dim into `x`, which has a number for each column, so that it broadcasts with the matrix."""
    return F.unsqueeze(x, -2)


def _sandwich(F, left, middle, right):
    return F.matmul(F.matmul(left, middle), right)


def _gaps(F, values):
    """Compute ``values[j] - values[i]`` at ``[i, j]``, and ones on the diagonal."""
    n = values.shape[-1]
    return _columns(F, values) - _rows(F, values) + F.new_eye(values, n, n)


def _divide_safely(F, x, gaps):
    """Compute ``x / gaps``, but zero where both are zero.

    A loss that does not depend on the vectors of equal values then has a finite gradient.
    """
    return F.div(x, F.where((gaps == 0) & (x == 0), F.ones_like(gaps), gaps))


def _rounding_bound(F, x, reduce="sum"):
    """Return a bound, of shape ``(*, 1, 1)``, of the rounding errors of matrices of the size of `x`.

    It is 8 units of rounding of the sum of the elements' sizes or, with ``"amax"``, of the largest one.
    """
    sizes = F.abs(x)
    return getattr(F, reduce)(sizes, (-2, -1), True) * (2.0**-20 if sizes.dtype.itemsize == 4 else 2.0**-49)


@composite(**_PRIVATE)
def divide_by_gaps(F, x, values, scale, of_values=None, skews: bool = False):
    """Return `x`, the gradient by rotations of pairs of vectors, divided by the gaps between their `values`.

    The diagonal is zero or, if it is given, `of_values`: the gradient by the values.

    The vectors of equal values may be rotated among themselves. If the loss does not depend on that rotation, its
    gradient by the rotation is a rounding error compared with `scale`, and the quotient is zero. If the loss depends
    on it, or if the gradients `of_values` of the equal values differ, there is no derivative: the quotient is
    infinite or NaN. The gradient by the rotation is ``x - x.mH`` if `skews`, else `x`. In forward mode, it is the
    rotation itself, up to the gaps.
    """
    if not values.shape[-1]:
        return x if of_values is None else x + F.diag_embed(of_values)
    gaps = _gaps(F, values)
    # A computed value has an error of some units of rounding of the largest value. The bound by the sum of all values
    # would be too large: different values of large matrices lie closer to each other.
    equal = F.abs(gaps) <= _rounding_bound(F, _rows(F, values), "amax")
    unseen = equal & (F.abs(_skew(F, x) if skews else x) <= _rounding_bound(F, scale))
    if of_values is not None:
        value_gaps = F.abs(_columns(F, of_values) - _rows(F, of_values))
        unseen = unseen & (value_gaps <= _rounding_bound(F, _rows(F, of_values)))
    gaps = F.where(equal, F.zeros_like(gaps), gaps)
    quotient = F.div(F.where(unseen, F.zeros_like(x), x), F.where(unseen, F.ones_like(gaps), gaps))
    middle = _off_diagonal(F, quotient)
    return middle if of_values is None else middle + F.diag_embed(of_values)


def _off_diagonal(F, x):
    """Return the matrices `x` with zeros on their diagonals."""
    return F.triu(x, 1) + F.tril(x, -1)


def _diagonal(F, x):
    return F.diagonal(x, 0, -2, -1)


def _check_phase(F, x, name, vectors):
    """Raise if a complex loss depends on the phases of vectors: `x` is not real on the diagonal then."""
    if F.is_complex(x):
        F.assert_small(
            F.imag(_diagonal(F, x)),
            f"{name}: The {vectors} in the complex case are specified up to multiplication by e^{{i phi}}. "
            "The specified loss function depends on this quantity, so it is ill-defined.",
        )


@constant(
    constant="rounding errors, of which only the size is looked at",
    **_PRIVATE,
    batch=all_samples,
    shaped=lambda x, text: x,
)
def assert_small(self, text: str):
    """Return `self`, or raise with `text` if an element is larger than rounding errors can be."""


# -- eigenvalues of Hermitian matrices --------------------------------------------------------------------------------


def _symmetric_cases():
    return [case(floats(3, 3, form="symmetric")), case(floats(2, 2, 2, form="symmetric"), UPLO="U"), case(floats(0, 0))]


def _check_uplo(UPLO):
    if UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    return UPLO.upper()


@general(
    path="linalg.eigh",
    method=False,
    fields="eigenvalues eigenvectors",
    samples=_symmetric_cases,
    materialize=False,
    autocast="float32:cpu",
    saved={"UPLO": None},
)
def linalg_eigh(K, A, UPLO: str = "L"):
    """Return eigenvalues, in ascending order, and eigenvectors of Hermitian matrices.

    `UPLO` chooses the triangle that is read.

    Examples
    --------
    >>> L, Q = gc.linalg.eigh(gc.tensor([[2.0, 1.0], [1.0, 2.0]]))
    >>> L
    tensor([1., 3.])
    >>> gc.allclose(Q @ gc.diag(L) @ Q.mT, gc.tensor([[2.0, 1.0], [1.0, 2.0]]))
    True
    """
    check_square("linalg.eigh", A)
    return K.factor_eigh(A, _check_uplo(UPLO))


@linalg_eigh.vjp("A")
def _(F, grads, eigenvalues, eigenvectors):
    of_values, of_vectors = grads
    if of_vectors is None:
        return F.matmul(eigenvectors * _columns(F, of_values), F.hermitian(eigenvectors))
    inner = F.matmul(F.hermitian(eigenvectors), of_vectors)
    _check_phase(F, inner, "linalg_eigh_backward", "eigenvectors")
    middle = F.divide_by_gaps(inner, eigenvalues, inner, of_values, True)
    return _sandwich(F, eigenvectors, middle, F.hermitian(eigenvectors))


@linalg_eigh.jvp("A")
def _(F, t, eigenvalues, eigenvectors):
    t = (t + F.hermitian(t)) / 2
    inner = _sandwich(F, F.hermitian(eigenvectors), t, eigenvectors)
    turn = F.divide_by_gaps(inner, eigenvalues, inner)
    return F.real(_diagonal(F, inner)), F.matmul(eigenvectors, turn)


@composite(path="linalg.eigvalsh", method=False, samples=_symmetric_cases, autocast="float32:cpu")
def linalg_eigvalsh(F, A, UPLO: str = "L"):
    """Return the eigenvalues of Hermitian matrices in ascending order.

    `UPLO` chooses the triangle that is read.

    Returns
    -------
    Tensor
        Result of shape ``(*, n)``, in ascending order.

    Examples
    --------
    >>> gc.linalg.eigvalsh(gc.tensor([[2.0, 1.0], [1.0, 2.0]]))
    tensor([1., 3.])
    """
    check_square("linalg.eigvalsh", A)
    if F.is_differentiated(A):
        return F.linalg_eigh(A, UPLO)[0]
    return F.eigenvalues_without_vectors(A, UPLO)


@general(**_PRIVATE)  # without a derivative, which takes the vectors
def eigenvalues_without_vectors(K, A, UPLO: str):
    return K.eigenvalues_hermitian(A, _check_uplo(UPLO))


# -- eigenvalues ------------------------------------------------------------------------------------------------------


def _matrix_cases():
    return [case(floats(3, 3)), case(floats(2, 2, 2)), case(floats(0, 0))]


@general(
    path="linalg.eig",
    method=False,
    fields="eigenvalues eigenvectors",
    samples=lambda: [case(floats(0, 0))],
    materialize=False,
    autocast="float32:cpu",
)
def linalg_eig(K, A):
    """Return the eigenvalues and eigenvectors of square matrices, as complex numbers.

    Examples
    --------
    >>> gc.linalg.eig(gc.tensor([[0.0, -1.0], [1.0, 0.0]])).eigenvalues
    tensor([0.+1.j, 0.-1.j])
    """
    check_square("linalg.eig", A)
    return K.factor_eig(A)


@linalg_eig.vjp("A")
def _(F, grads, eigenvalues, eigenvectors):
    of_values, of_vectors = grads
    adjoint = F.hermitian(eigenvectors)
    if of_vectors is None:
        return F.solve_keeping_factors(adjoint, _rows(F, of_values) * adjoint)[0]
    scale = inner = F.matmul(adjoint, of_vectors)
    _check_phase(F, inner, "linalg_eig_backward", "eigenvectors")
    # Eigenvectors have length one, so the part of a gradient that would change the length is left out.
    inner = inner - F.matmul(adjoint, eigenvectors * _columns(F, F.real(_diagonal(F, inner))))
    middle = F.divide_by_gaps(inner, F.conj(eigenvalues), scale, of_values)
    return F.solve_keeping_factors(adjoint, F.matmul(middle, adjoint))[0]


@linalg_eig.jvp("A")
def _(F, t, eigenvalues, eigenvectors):
    inner = F.solve_keeping_factors(eigenvectors, F.matmul(t if F.is_complex(t) else t + 0j, eigenvectors))[0]
    turn = F.matmul(eigenvectors, F.divide_by_gaps(inner, eigenvalues, inner))
    length = F.real(F.sum(F.conj(eigenvectors) * turn, -2))
    return _diagonal(F, inner), turn - eigenvectors * _columns(F, length)


@composite(path="linalg.eigvals", method=False, samples=_matrix_cases, autocast="float32:cpu")
def linalg_eigvals(F, A):
    """Return the eigenvalues of square matrices, as complex numbers.

    Returns
    -------
    Tensor
        Result of shape ``(*, n)``, complex.

    Examples
    --------
    >>> gc.linalg.eigvals(gc.tensor([[0.0, -1.0], [1.0, 0.0]]))
    tensor([0.+1.j, 0.-1.j])
    """
    check_square("linalg.eigvals", A)
    if F.is_differentiated(A):
        return F.linalg_eig(A)[0]
    return F.complex_eigenvalues_without_vectors(A)


@general(**_PRIVATE)  # without a derivative, which takes the vectors
def complex_eigenvalues_without_vectors(K, A):
    return K.eigenvalues(A)


# -- singular values --------------------------------------------------------------------------------------------------


def _svd_cases():
    return [
        case(floats(3, 3)), case(floats(4, 2), False), case(floats(2, 4), False), case(floats(2, 3, 2), False),
        case(floats(0, 3), False),
    ]  # fmt: skip


@general(
    path="linalg.svd",
    method=False,
    fields="U S Vh",
    samples=_svd_cases,
    materialize=False,
    autocast="float32:cpu",
)
def linalg_svd(K, A, full_matrices: bool = True, *, driver: str | None = None):
    """Compute ``A = U @ diag(S) @ Vh`` with singular values in descending order.

    `driver` chooses a routine on CUDA only.

    Examples
    --------
    >>> A = gc.tensor([[3.0, 0.0], [0.0, 2.0], [0.0, 0.0]])
    >>> U, S, Vh = gc.linalg.svd(A, full_matrices=False)
    >>> S
    tensor([3., 2.])
    >>> gc.allclose(U * S @ Vh, A)
    True
    """
    check_matrix("linalg.svd", A)
    check_floating("linalg.svd", A)
    return K.factor_svd(A, full_matrices)


def _first(F, U, Vh, k):
    """Return the first `k` columns of `U` and rows of `Vh`."""
    return F.narrow(U, -1, 0, k), F.narrow(Vh, -2, 0, k)


def _skew(F, x):
    return x - F.hermitian(x)


def _split(F, x, dim, k):
    """Return the first `k` columns or rows of matrices, and the remaining ones."""
    return F.narrow(x, dim, 0, k), F.narrow(x, dim, k, x.shape[dim] - k)


def _check_basis(F, vectors, grad):
    """Raise if a loss depends on the choice of `vectors` as an orthonormal basis of their span."""
    rotation = F.matmul(F.hermitian(vectors), grad)
    scale = 1e3 / (F.sum(F.abs(grad), (-2, -1), True) + 1e-30)
    F.assert_small(
        F.abs(_skew(F, rotation)) * scale,
        "svd_backward: The singular vectors beyond the singular values (full_matrices=True) are any orthonormal basis "
        "of their subspace. The specified loss function depends on the choice of the basis, so it is ill-defined. Let "
        "it depend on the subspace alone, as by the projection U @ U.mH, or use full_matrices=False.",
    )


def _further_vectors_gradient(F, of_u, of_vh, U, S, Vh):
    """Return the gradient through the singular vectors that belong to no singular value; None if there are none.

    They rotate together with the other vectors: their derivative is ``-U @ diag(1 / S) @ Vh @ dA.mH @ further_u``.
    """
    k, result = S.shape[-1], None
    (U, further_u), (Vh, further_vh) = _split(F, U, -1, k), _split(F, Vh, -2, k)
    inverse = F.matmul(U * _columns(F, 1 / S), Vh)
    if further_u.shape[-1]:
        grad = F.narrow(of_u, -1, k, further_u.shape[-1])
        _check_basis(F, further_u, grad)
        result = -_sandwich(F, further_u, F.hermitian(grad), inverse)
    if further_vh.shape[-2]:
        grad = F.narrow(of_vh, -2, k, further_vh.shape[-2])
        _check_basis(F, F.hermitian(further_vh), F.hermitian(grad))
        by_vh = -_sandwich(F, inverse, F.hermitian(grad), further_vh)
        result = by_vh if result is None else result + by_vh
    return result


@linalg_svd.vjp("A")
def _(F, grads, U, S, Vh):
    of_u, of_s, of_vh = grads
    k = S.shape[-1]
    m, n = U.shape[-2], Vh.shape[-1]
    if of_u is None is of_vh:
        U, Vh = _first(F, U, Vh, k)
        return F.matmul(U * _columns(F, of_s), Vh)
    of_u = F.zeros_like(U) if of_u is None else of_u
    of_vh = F.zeros_like(Vh) if of_vh is None else of_vh
    from_rest = _further_vectors_gradient(F, of_u, of_vh, U, S, Vh)
    (of_u, of_vh), (U, Vh) = _first(F, of_u, of_vh, k), _first(F, U, Vh, k)
    of_turned_u, of_turned_v = F.matmul(F.hermitian(U), of_u), F.matmul(Vh, F.hermitian(of_vh))
    from_u, from_v = _skew(F, of_turned_u), _skew(F, of_turned_v)
    _check_phase(F, from_u + from_v, "svd_backward", "singular vectors")
    # Rotating U and Vh together involves the gaps of singular values; rotating them against each other, the sums.
    together, against = (from_u + from_v) / 2, (from_u - from_v) / 2
    scale = F.abs(of_turned_u) + F.abs(of_turned_v)
    opposed = _off_diagonal(F, _divide_safely(F, against, _rows(F, S) + _columns(F, S)))
    middle = F.divide_by_gaps(together, S, scale, of_s) + opposed
    if F.is_complex(middle):
        middle = middle + F.diag_embed(_divide_safely(F, _diagonal(F, from_u), 2 * S))
    result = _sandwich(F, U, middle, Vh)
    if m > k:  # the part of `of_u` that is orthogonal to the columns of U
        across = _divide_safely(F, of_u, _columns(F, S))
        result = result + F.matmul(across - F.matmul(U, F.matmul(F.hermitian(U), across)), Vh)
    if n > k:
        across = _divide_safely(F, of_vh, _rows(F, S))
        result = result + F.matmul(U, across - F.matmul(F.matmul(across, F.hermitian(Vh)), Vh))
    return result if from_rest is None else result + from_rest


@linalg_svd.jvp("A")
def _(F, t, U, S, Vh, full_matrices):
    k = S.shape[-1]
    m, n = U.shape[-2], Vh.shape[-1]
    whole_u, whole_vh = U, Vh
    U, Vh = _first(F, U, Vh, k)
    inner = _sandwich(F, F.hermitian(U), t, F.hermitian(Vh))
    mirrored = F.hermitian(inner)
    symmetric = (inner + mirrored) / 2
    together = F.divide_by_gaps(symmetric, S, inner)
    against = _off_diagonal(F, _divide_safely(F, (inner - mirrored) / 2, _rows(F, S) + _columns(F, S)))
    turn_u, turn_v = together + against, together - against
    if F.is_complex(inner):  # the phase can be shared in many ways; here U gets all of it
        turn_u = turn_u + F.diag_embed(F.div(_diagonal(F, inner - mirrored), 2 * S))
    change_u, change_v = F.matmul(U, turn_u), F.matmul(F.hermitian(turn_v), Vh)
    if m > k:
        outside = F.matmul(t, F.hermitian(Vh)) * _columns(F, 1 / S)
        change_u = change_u + outside - F.matmul(U, F.matmul(F.hermitian(U), outside))
    if n > k:
        outside = _rows(F, 1 / S) * F.matmul(F.hermitian(U), t)
        change_v = change_v + outside - F.matmul(F.matmul(outside, F.hermitian(Vh)), Vh)
    inverse = F.matmul(U * _columns(F, 1 / S), Vh)
    if full_matrices and m > k:  # any basis is valid for the further vectors; this one rotates as little as possible
        further = F.narrow(whole_u, -1, k, m - k)
        change_u = F.cat([change_u, -_sandwich(F, inverse, F.hermitian(t), further)], -1)
    if full_matrices and n > k:
        further = F.narrow(whole_vh, -2, k, n - k)
        change_v = F.cat([change_v, -_sandwich(F, further, F.hermitian(t), inverse)], -2)
    return change_u, F.real(_diagonal(F, inner)), change_v


@composite(path="linalg.svdvals", method=False, samples=lambda: [
    case(floats(3, 3)), case(floats(4, 2)), case(floats(2, 2, 3)), case(floats(0, 3)),
], autocast="float32:cpu")  # fmt: skip
def linalg_svdvals(F, A, *, driver: str | None = None):
    """Return the singular values in descending order.

    Returns
    -------
    Tensor
        Result of shape ``(*, min(m, n))``, in descending order.

    Examples
    --------
    >>> gc.linalg.svdvals(gc.tensor([[3.0, 0.0], [0.0, 2.0]]))
    tensor([3., 2.])
    """
    check_matrix("linalg.svdvals", A)
    check_floating("linalg.svdvals", A)
    if F.is_differentiated(A):
        return F.linalg_svd(A, full_matrices=False)[1]
    return F.singular_values_without_vectors(A)


@general(**_PRIVATE)  # without a derivative, which takes the vectors
def singular_values_without_vectors(K, A):
    return K.singular_values(A)


@composite(
    fields="U S V",
    samples=lambda: [case(floats(3, 3)), case(floats(4, 2)), case(floats(2, 3), compute_uv=False)],
    autocast="float32:cpu",
)
def svd(F, self, some: bool = True, compute_uv: bool = True):
    """Compute ``self = U @ diag(S) @ V.mH``; see `gradcore.linalg.svd`.

    Examples
    --------
    >>> gc.svd(gc.tensor([[3.0, 0.0], [0.0, 2.0]])).S
    tensor([3., 2.])
    """
    if compute_uv:
        U, S, Vh = F.linalg_svd(self, full_matrices=not some)
        return U, S, F.contiguous(F.hermitian(Vh))
    *batch, m, n = self.shape
    return F.new_zeros(self, (*batch, m, m)), F.linalg_svdvals(self), F.new_zeros(self, (*batch, n, n))


# -- QR ---------------------------------------------------------------------------------------------------------------


@general(
    path="linalg.qr", method=False, fields="Q R",
    samples=lambda: [
        case(floats(3, 3)), case(floats(4, 2)), case(floats(2, 4)), case(floats(2, 3, 2)),
        case(floats(2, 4), "complete"),
        case(floats(0, 3)),
    ],
    autocast="float32:cpu",
)  # fmt: skip
def linalg_qr(K, A, mode: str = "reduced"):
    """Compute ``A = Q @ R`` with orthonormal columns in `Q` and a triangular `R`.

    `mode` is ``"reduced"``, ``"complete"`` or ``"r"``.

    Examples
    --------
    >>> A = gc.tensor([[3.0, 1.0], [4.0, 2.0]])
    >>> Q, R = gc.linalg.qr(A)
    >>> gc.allclose(Q @ R, A), gc.allclose(Q.mT @ Q, gc.eye(2), atol=1e-6)
    (True, True)
    """
    check_matrix("linalg.qr", A)
    check_floating("linalg.qr", A)
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'"
        )
    return K.factor_qr(A, mode)


def _check_qr(Q, R, mode):
    if mode == "r":
        raise RuntimeError(
            "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use "
            "linalg.qr(A, mode='reduced') if you are going to require gradients or JVPs."
        )
    if mode == "complete" and R.shape[-2] > R.shape[-1]:
        raise RuntimeError(
            "The QR decomposition is not differentiable when mode='complete' and nrows > ncols. Please use "
            "linalg.qr(A, mode='reduced') if you are going to require gradients or JVPs."
        )


@linalg_qr.vjp("A")
def _(F, grads, Q, R, mode):
    _check_qr(Q, R, mode)
    of_q, of_r = grads
    m, n = Q.shape[-2], R.shape[-1]
    last_columns = None
    if n > m:  # A = [X, Y], and Y = Q Z takes part in R = [., Z] alone, as Q^H Y
        of_rest = F.narrow(of_r, -1, m, n - m)
        of_q = of_q + F.matmul(Q, F.matmul(F.narrow(R, -1, m, n - m), F.hermitian(of_rest)))
        last_columns = F.matmul(Q, of_rest)
        R, of_r = F.narrow(R, -1, 0, m), F.narrow(of_r, -1, 0, m)
    middle = F.triu(F.matmul(of_r, F.hermitian(R)) - F.matmul(F.hermitian(Q), of_q))
    symmetric = middle + F.hermitian(F.triu(middle, 1))
    if F.is_complex(symmetric):  # the diagonal of R is real
        symmetric = symmetric - F.diag_embed(F.imag(_diagonal(F, symmetric)) * 1j)
    product = of_q + F.matmul(Q, symmetric)
    result = F.linalg_solve_triangular(F.hermitian(R), product, upper=False, left=False)
    return result if last_columns is None else F.cat([result, last_columns], -1)


@linalg_qr.jvp("A")
def _(F, t, Q, R, mode):
    _check_qr(Q, R, mode)
    m, n = Q.shape[-2], R.shape[-1]
    first = F.linalg_solve_triangular(
        F.narrow(R, -1, 0, min(m, n)), F.narrow(t, -1, 0, min(m, n)), upper=True, left=False
    )
    inner = F.matmul(F.hermitian(Q), first)
    lower = F.tril(inner, -1)
    turn = lower - F.hermitian(lower)
    if F.is_complex(inner):
        turn = turn + F.diag_embed(F.imag(_diagonal(F, inner)) * 1j)
    change_q = F.matmul(Q, turn) + first - F.matmul(Q, inner)
    return change_q, F.matmul(F.hermitian(Q), t) - F.matmul(turn, R)


@composite(fields="Q R", samples=lambda: [case(floats(4, 2)), case(floats(2, 4), some=False)], autocast="float32:cpu")
def qr(F, self, some: bool = True):
    """Compute ``self = Q @ R``; see `gradcore.linalg.qr`.

    Examples
    --------
    >>> Q, R = gc.qr(gc.ones(3, 2))
    >>> Q.shape, R.shape
    (torch.Size([3, 2]), torch.Size([2, 2]))
    """
    warn_deprecated("qr", "linalg.qr", "The mode is 'reduced' or 'complete' there, in the place of some=True or False.")
    return F.linalg_qr(self, "reduced" if some else "complete")
