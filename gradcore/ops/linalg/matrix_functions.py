"""Powers and exponentials of matrices, pseudo-inverses, ranks, condition numbers and least squares."""

from __future__ import annotations

from gradcore.core import dtypes
from gradcore.ops.declare.annotations import Order, Tensor
from gradcore.ops.declare.promotion import same_dtypes
from gradcore.ops.declare.samples import case, floats
from gradcore.ops.declare.table import composite, constant, general
from gradcore.ops.linalg.matrix_checks import check_floating, check_matrix, check_square, is_vector

_PRIVATE = {"function": False, "method": False}

# -- powers and exponentials ------------------------------------------------------------------------------------------


def _power_cases():
    x = floats(3, 3, form="well-conditioned")
    return [
        case(x, 0),
        case(x, 1),
        case(x, 2),
        case(x, 3),
        case(floats(2, 3, 3), 5),
        case(x, -2),
        case(floats(0, 0), 2),
    ]


@composite(path="linalg.matrix_power", method=False, samples=_power_cases)
def linalg_matrix_power(F, A, n: int):
    """Return the product of `n` copies of square matrices, or of their inverses if `n` is negative.

    Matrices of integers have powers of integers, such as the number of paths of `n` steps in a graph.

    Returns
    -------
    Tensor
        Result of the same shape as the input.

    Examples
    --------
    >>> gc.linalg.matrix_power(gc.tensor([[1.0, 1.0], [0.0, 1.0]]), 3)
    tensor([[1., 3.],
            [0., 1.]])
    """
    if not hasattr(n, "__index__"):
        raise TypeError(f"linalg_matrix_power(): argument 'n' (position 2) must be int, not {type(n).__name__}")
    check_square("linalg.matrix_power", A, floating=n < 0)
    if n == 0:
        return F.clone(A).copy_(F.new_eye(A, A.shape[-1], A.shape[-1]))
    square = A if n > 0 else F.linalg_inv(A)
    n, result = abs(n), None
    while True:
        n, odd = divmod(n, 2)
        if odd:
            result = square if result is None else F.matmul(result, square)
        if not n:
            return result if result is not A else F.clone(A)
        square = F.matmul(square, square)


@composite(samples=_power_cases)
def matrix_power(F, self, n: int):
    """Return the product of `n` copies of square matrices; see `gradcore.linalg.matrix_power`.

    Returns
    -------
    Tensor
        Result of the same shape as the input.

    Examples
    --------
    >>> gc.matrix_power(gc.tensor([[1.0, 1.0], [0.0, 1.0]]), 3)
    tensor([[1., 3.],
            [0., 1.]])
    """
    return F.linalg_matrix_power(self, n)


def _exp_of_block(F, A, t):
    """Return the tangent of the exponential of `A` for the tangent `t`.

    It is a block of the exponential of a block matrix of `A` and `t`.
    """
    n = A.shape[-1]
    upper, lower = F.cat([A, t], -1), F.cat([F.zeros_like(A), A], -1)
    return F.narrow(F.narrow(F.linalg_matrix_exp(F.cat([upper, lower], -2)), -2, 0, n), -1, n, n)


@general(
    lambda F, grad, A: _exp_of_block(F, F.hermitian(A), grad),
    path="linalg.matrix_exp",
    method=False,
    samples=lambda: [case(floats(3, 3)), case(floats(2, 2, 2)), case(floats(1, 1)), case(floats(0, 0))],
    saved={"self": "A"},
)
def linalg_matrix_exp(K, A):
    """Return the exponential of square matrices, ``I + A + A @ A / 2 + ...``.

    Returns
    -------
    Tensor
        Result of the same shape as the input.

    Examples
    --------
    >>> gc.linalg.matrix_exp(gc.tensor([[0.0, 1.0], [0.0, 0.0]]))
    tensor([[1., 1.],
            [0., 1.]])
    """
    check_square("linalg.matrix_exp", A)
    return K.matrix_exponential(A)


linalg_matrix_exp.jvp("A")(lambda F, t, A: _exp_of_block(F, A, t))


@composite(samples=lambda: [case(floats(3, 3)), case(floats(2, 2, 2))])
def matrix_exp(F, self):
    """Return the exponential of square matrices; see `gradcore.linalg.matrix_exp`.

    Returns
    -------
    Tensor
        Result of the same shape as the input.

    Examples
    --------
    >>> gc.matrix_exp(gc.tensor([[0.0, 1.0], [0.0, 0.0]]))
    tensor([[1., 1.],
            [0., 1.]])
    """
    return F.linalg_matrix_exp(self)


# -- tolerances, pseudo-inverses and ranks ---------------------------------------------------------------------------


def _relative(A, atol, rtol):
    """Return the relative tolerance: by default rounding error, or 0 if an absolute tolerance is given."""
    if rtol is not None:
        return rtol
    if atol is not None and not (isinstance(atol, float | int) and atol <= 0):
        return 0.0
    return max(A.shape[-2:]) * dtypes.finfo(A.dtype.to_real()).eps


def _tolerances(F, A, atol, rtol):
    """Return the absolute and the relative tolerance as tensors, with one number for each matrix or for all."""
    settings = {"dtype": A.dtype.to_real(), "device": A.device}
    tolerances = (0.0 if atol is None else atol, _relative(A, atol, rtol))
    return tuple(F.as_tensor(x, **settings) if hasattr(x, "ndim") else F.full((), x, **settings) for x in tolerances)


@constant(constant="results are bools", **_PRIVATE)
def is_large(K, self, atol, rtol):
    """Return a mask of the singular values that exceed ``max(atol, rtol * the largest)``."""
    return (self > rtol[..., None] * _largest(self)) & (self > atol[..., None])


def _largest(sizes):
    return sizes.max(axis=-1, keepdims=True) if sizes.size else sizes


def _sizes(F, A, hermitian):
    """Return the singular values of `A`, without derivatives."""
    return F.abs(F.linalg_eigvalsh(A.detach())) if hermitian else F.linalg_svdvals(A.detach())


def _pinv_cases():
    return [
        case(floats(3, 3, form="well-conditioned")), case(floats(4, 2)), case(floats(2, 4)), case(floats(2, 3, 2)),
        case(floats(3, 3, form="spd"), hermitian=True), case(floats(0, 3)), case(floats(3, 2), rtol=1e-8),
    ]  # fmt: skip


@general(node="LinalgPinvBackward0", **_PRIVATE, saved={"self": "A", "hermitian": None})
def pseudo_inverse(K, A, atol=None, rtol=None, hermitian: bool = False):
    """Return the pseudo-inverse.

    Singular values count as zero unless they are larger than both tolerances.

    Without tolerances, singular values that may be rounding errors of zero count as zero.
    """
    if hermitian:
        values, U = K.factor_eigh(A)
        sizes, Vh = abs(values), K.hermitian(U)
    else:
        U, values, Vh = K.factor_svd(A)
        sizes = values
    if rtol is None:
        is_nonzero = sizes > float(max(A.shape[-2:]) * K.xp.finfo(A.dtype).eps) * _largest(sizes)
    else:
        is_nonzero = K.is_large(sizes, atol, rtol)
    inverses = K.where(is_nonzero, 1 / values, K.zeros_like(values))
    return K.matmul(K.hermitian(Vh) * inverses[..., None, :], K.hermitian(U))


def _pinv_backward(F, grad, A, inverse):
    """Return the gradient of a matrix from that of its pseudo-inverse, for matrices of constant rank."""
    P = F.hermitian(inverse)
    adjoint = F.hermitian(grad)
    left = F.matmul(adjoint, F.matmul(inverse, P))
    right = F.matmul(F.matmul(P, inverse), adjoint)
    return (
        left - F.matmul(A, F.matmul(inverse, left))
        + right - F.matmul(F.matmul(right, inverse), A)
        - F.matmul(F.matmul(P, grad), P)
    )  # fmt: skip


@pseudo_inverse.vjp("A")
def _(F, grad, A, result):
    gradient = _pinv_backward(F, grad, A, result)
    # With several tolerances for each matrix, the gradient has the dims of the tolerances as well.
    return gradient if gradient.shape == A.shape else F.sum_to_size(gradient, A.shape)


@pseudo_inverse.jvp("A")
def _(F, t, A, result):
    P = F.hermitian(result)
    adjoint = F.hermitian(t)
    left = F.matmul(F.matmul(result, P), adjoint)
    right = F.matmul(adjoint, F.matmul(P, result))
    return (
        left - F.matmul(F.matmul(left, A), result)
        + right - F.matmul(result, F.matmul(A, right))
        - F.matmul(F.matmul(result, t), result)
    )  # fmt: skip


@composite(path="linalg.pinv", method=False, samples=_pinv_cases)
def linalg_pinv(
    F,
    A,
    rcond: Tensor | float | None = None,
    hermitian: bool = False,
    *,
    atol: Tensor | float | None = None,
    rtol: Tensor | float | None = None,
):
    """Return the pseudo-inverse of matrices: singular values up to ``max(atol, rtol * the largest)`` count as zero.

    Returns
    -------
    Tensor
        Result of shape ``(*, n, m)``.

    Examples
    --------
    >>> gc.linalg.pinv(gc.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    if A.ndim < 2 or not A.dtype.is_differentiable:
        raise RuntimeError(
            f"linalg.pinv({A.dtype.scalar_name}{{{list(A.shape)}}}): expected a tensor with 2 or more dimensions of "
            "float, double, cfloat or cdouble types"
        )
    return F.pseudo_inverse(A, *_tolerances(F, A, atol, rcond if rtol is None else rtol), hermitian)


@composite(samples=lambda: [case(floats(3, 3, form="well-conditioned")), case(floats(4, 2))], autocast="float32:cpu")
def pinverse(F, self, rcond: float = 1e-15):
    """Return the pseudo-inverse of matrices; see `gradcore.linalg.pinv`.

    Returns
    -------
    Tensor
        Result of shape ``(*, n, m)``.

    Examples
    --------
    >>> gc.pinverse(gc.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    return F.linalg_pinv(self, rcond)


@composite(path="linalg.matrix_rank", method=False, samples=lambda: [
    case(floats(3, 2)), case(floats(2, 3, 3), hermitian=True), case(floats(3, 3), tol=0.5), case(floats(0, 3)),
], autocast="float32:cpu")  # fmt: skip
def linalg_matrix_rank(
    F,
    A,
    tol: Tensor | float | None = None,
    hermitian: bool = False,
    *,
    atol: Tensor | float | None = None,
    rtol: Tensor | float | None = None,
):
    """Return the number of singular values above ``max(atol, rtol * the largest)``, or above `tol`.

    Returns
    -------
    Tensor
        Result of shape ``(*)``, int64.

    Examples
    --------
    >>> gc.linalg.matrix_rank(gc.tensor([[1.0, 2.0], [2.0, 4.0]]))
    tensor(1)
    """
    check_matrix("torch.linalg.matrix_rank", A, "input")
    sizes = _sizes(F, A, hermitian)
    if tol is not None:
        atol, rtol = tol, 0.0
    return F.sum(F.is_large(sizes, *_tolerances(F, A, atol, rtol)), -1)


@composite(path="linalg.cond", method=False, samples=lambda: [
    case(floats(3, 3, form="well-conditioned")), case(floats(4, 2)), case(floats(3, 3, form="well-conditioned"), p=1),
    case(floats(2, 3, 3, form="well-conditioned"), p="fro"), case(floats(3, 3, form="well-conditioned"), p=-2),
], autocast="float32:cpu")  # fmt: skip
def linalg_cond(F, A, p: Order = None):
    """Return the condition number with respect to a matrix norm; infinite for singular matrices.

    Returns
    -------
    Tensor
        Result of shape ``(*)``.

    Examples
    --------
    >>> gc.linalg.cond(gc.tensor([[4.0, 0.0], [0.0, 2.0]]))
    tensor(2.)
    """
    if A.ndim < 2:
        raise RuntimeError("linalg.cond: The input tensor must have at least 2 dimensions.")
    if p is None or p in (2, -2):
        sizes = F.linalg_svdvals(A)
        largest, smallest = F.amax(sizes, -1), F.amin(sizes, -1)
        return smallest / largest if p == -2 else largest / smallest
    check_square(f"linalg.cond(ord={p})", A)
    inverse, info = F.linalg_inv_ex(A)
    condition = F.linalg_matrix_norm(A, p) * F.linalg_matrix_norm(inverse, p)
    return F.where(info == 0, condition, float("inf"))


# -- least squares ----------------------------------------------------------------------------------------------------


def _lstsq_cases():
    return [
        case(floats(4, 2), floats(4, 3)), case(floats(4, 2), floats(4, 1), driver="gels"),
        case(floats(2, 4), floats(2, 3)),
        case(floats(2, 4, 3), floats(2, 4, 2), driver="gelsd"), case(floats(3, 3), floats(3, 2), driver="gelss"),
    ]  # fmt: skip


@general(
    outputs=("solution", "residuals", "rank", "singular_values"),
    differentiable=(0, 1),
    node="LinalgLstsqBackward0",
    broadcasts=True,
    **_PRIVATE,
    mixed=same_dtypes(
        "torch.linalg.lstsq: Expected input and other to have the same dtype, but got input's dtype {A} and other's "
        "dtype {B}"
    ),
    saved={"self": "A", "b": "B", "rcond": None},
)
def least_squares(K, A, B, rcond: float, driver: str):
    """Return the least-squares solution of smallest norm of ``A @ X = B``, by singular values."""
    U, S, Vh = K.factor_svd(A)
    is_nonzero = (0 if driver == "gels" else rcond) * S[..., :1] < S
    weights = K.where(is_nonzero, 1 / S, K.zeros_like(S))[..., None].astype(A.dtype)
    X = K.matmul(K.hermitian(Vh), weights * K.matmul(K.hermitian(U), B))
    rank, empty = is_nonzero.sum(axis=-1), K.xp.zeros(0, S.dtype)
    residuals = empty
    if driver != "gelsy" and A.shape[-2] > A.shape[-1] and K.has_full_rank(is_nonzero):
        residuals = (abs(K.matmul(A, X) - B) ** 2).sum(axis=-2)
    sizes = S if driver in ("gelsd", "gelss") else empty
    return X, residuals, K.xp.zeros(0, "int64") if driver == "gels" else rank, sizes


@least_squares.vjp("A", "B")
def _(F, grads, A, B, solution):
    of_x, of_residuals = grads
    inverse = F.pseudo_inverse(A)
    by_a = _pinv_backward(F, F.matmul(of_x, F.hermitian(B)), A, inverse)
    by_b = F.matmul(F.hermitian(inverse), of_x)
    if tuple(of_residuals.shape) == (*solution.shape[:-2], solution.shape[-1]):  # there are residuals
        # The residual is orthogonal to the columns of A, so a change of the solution does not change its norm.
        residual_gradient = (F.matmul(A, solution) - B) * (2 * F.unsqueeze(of_residuals, -2))
        by_a, by_b = by_a + F.matmul(residual_gradient, F.hermitian(solution)), by_b - residual_gradient
    return by_a, by_b


@composite(
    path="linalg.lstsq",
    method=False,
    fields="solution residuals rank singular_values",
    samples=_lstsq_cases,
    autocast="float32:cpu",
    also={"input": "A", "b": "B"},
)
def linalg_lstsq(F, A, B, rcond: float | None = None, *, driver: str | None = None):
    """Return the least-squares solution of ``A @ X = B``; of several solutions, that of smallest norm.

    Parameters
    ----------
    rcond : float, optional
        Singular values up to this part of the largest count as zero; ``eps * max(m, n)`` by default.
    driver : str, optional
        The name of a LAPACK routine. All of them give the same solution here, but ``"gels"`` takes the rank for full
        and leaves it out, ``"gelsy"`` (the default) leaves the residuals out, and all but ``"gelsd"`` and ``"gelss"``
        the singular values.

    Examples
    --------
    >>> gc.linalg.lstsq(gc.tensor([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]]), gc.tensor([[1.0], [4.0], [5.0]])).solution
    tensor([[1.],
            [2.]])
    """
    name = "torch.linalg.lstsq"
    if A.ndim < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    vector = is_vector(A.shape, B.shape)
    right = F.unsqueeze(B, -1) if vector else B
    if right.shape[-2] != A.shape[-2]:
        sizes = "input.size(-2) should match other.size(-1)" if vector else "input.size(-2) should match other.size(-2)"
        raise RuntimeError(f"{name}: {sizes}")
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        raise RuntimeError(f"{name}: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)")
    check_floating(name, A)
    if rcond is None:
        rcond = _relative(A, None, None)
    solution, residuals, rank, sizes = F.least_squares(A, right, rcond, driver or "gelsy")
    if sizes.shape[-1] and F.is_differentiated(A):
        sizes = F.clone(F.linalg_svdvals(A))  # which can be written to, while those are saved for backward
    if vector:
        return (
            F.squeeze(solution, -1),
            F.squeeze(residuals, -1) if residuals.shape[-1:] == (1,) else residuals,
            rank,
            sizes,
        )
    return solution, residuals, rank, sizes


# -- diagonals and Vandermonde matrices -------------------------------------------------------------------------------


@composite(path="linalg.diagonal", method=False, samples=lambda: [case(floats(2, 3, 4)), case(floats(3, 3), offset=1)])
def linalg_diagonal(F, A, *, offset: int = 0, dim1: int = -2, dim2: int = -1):
    """Return a view of the diagonals of matrices; see `gradcore.diagonal`.

    Examples
    --------
    >>> gc.linalg.diagonal(gc.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
    """
    return F.diagonal(A, offset, dim1, dim2)


@composite(
    path="linalg.vander", method=False, samples=lambda: [case(floats(3)), case(floats(2, 3), N=4), case(floats(2), N=2)]
)
def linalg_vander(F, x, *, N: int | None = None):
    """Return the powers of the elements, from the power 0, along a new last dim of size `N`.

    Returns
    -------
    Tensor
        Result of shape ``(*, n, N)``.

    Examples
    --------
    >>> gc.linalg.vander(gc.tensor([2, 3]), N=3)
    tensor([[1, 2, 4],
            [1, 3, 9]])
    """
    if (N is None and (not x.ndim or x.shape[-1] < 2)) or (N is not None and N <= 1):
        raise RuntimeError("N must be greater than 1.")
    n = x.shape[-1] if N is None else N
    x = F.unsqueeze(x if x.ndim else F.unsqueeze(x, 0), -1)
    powers = F.cumprod(F.expand(x, (*x.shape[:-1], n - 1)), -1)
    return F.cat([F.ones_like(x), powers], -1)


@composite(method=False, samples=lambda: [case(floats(3)), case(floats(3), N=2, increasing=True)])
def vander(F, x, N: int | None = None, increasing: bool = False):
    """Return the powers of the elements of a vector along a new dim, the highest first unless `increasing`.

    Returns
    -------
    Tensor
        Result of shape ``(n, N)``.

    Examples
    --------
    >>> gc.vander(gc.tensor([2, 3]), N=3)
    tensor([[4, 2, 1],
            [9, 3, 1]])
    """
    if x.ndim != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    n = x.shape[0] if N is None else N
    leading_ones = F.ones_like(F.unsqueeze(x, -1))
    if n < 2:
        return F.narrow(leading_ones, -1, 0, n)
    powers = F.cumprod(F.expand(F.unsqueeze(x, -1), (x.shape[0], n - 1)), -1)
    increasing_powers = F.cat([leading_ones, powers], -1)
    return increasing_powers if increasing else F.flip(increasing_powers, (-1,))
