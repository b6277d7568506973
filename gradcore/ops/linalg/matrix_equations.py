"""Sylvester's equation, and matrix functions whose derivatives solve equations or use larger block matrices."""

from __future__ import annotations

from gradcore.ops.declare.promotion import common_dtype
from gradcore.ops.declare.samples import case, floats
from gradcore.ops.declare.table import general
from gradcore.ops.linalg.matrix_checks import check_floating

_PRIVATE = {"function": False, "method": False}


def _square():
    return [case(floats(3, 3, form="spd")), case(floats(2, 2, 2, form="spd"))]


@general(
    samples=lambda: [
        case(floats(3, 3, form="spd"), floats(2, 2, form="spd"), floats(3, 2)),
        case(floats(2, 2, 2, form="spd"), floats(2, 3, 3, form="spd"), floats(2, 2, 3)),
    ],
    mixed=common_dtype,
    broadcasts=True,
    **_PRIVATE,
)
def sylvester_solved(K, A, B, Q):
    """Return the solution of ``A @ X + X @ B = Q``."""
    for matrix in (A, B, Q):
        check_floating("solve_sylvester", matrix)
    shapes = [tuple(matrix.shape) for matrix in (A, B, Q)]
    if min(map(len, shapes)) < 2 or any(m != n for *_, m, n in shapes[:2]):
        raise ValueError(f"solve_sylvester() takes square matrices a and b, but their shapes are {shapes[:2]}")
    if shapes[2][-2:] != (shapes[0][-1], shapes[1][-1]):
        raise ValueError(f"solve_sylvester() takes a, b and q of corresponding sizes, but their shapes are {shapes}")
    return K.solve_sylvester(A, B, Q)


@sylvester_solved.vjp("A", "B", "Q")
def _(F, grad, A, B, result):
    by_q = F.sylvester_solved(F.hermitian(A), F.hermitian(B), grad)
    X = F.hermitian(result)
    return -F.matmul(by_q, X), -F.matmul(X, by_q), by_q


@sylvester_solved.jvp("A")
def _(F, t, A, B, result):
    return -F.sylvester_solved(A, B, F.matmul(t, result))


@sylvester_solved.jvp("B")
def _(F, t, A, B, result):
    return -F.sylvester_solved(A, B, F.matmul(result, t))


@sylvester_solved.jvp("Q")
def _(F, t, A, B):
    return F.sylvester_solved(A, B, t)


@general(
    lambda F, grad, A, result: F.sylvester_solved(F.hermitian(result), F.hermitian(result), grad),
    samples=_square,
    **_PRIVATE,
)
def matrix_sqrt(K, A):
    """Return the principal square root of matrices, or NaN where it does not exist in their dtype."""
    check_floating("sqrtm", A)
    return K.square_root(A)


matrix_sqrt.jvp("A")(lambda F, t, A, result: F.sylvester_solved(result, result, t))


def _log_of_block(F, A, t):
    """Return the tangent of the logarithm of `A` for the tangent `t`.

    It is a block of the logarithm of a block matrix of `A` and `t`.
    """
    n = A.shape[-1]
    upper, lower = F.cat([A, t], -1), F.cat([F.zeros_like(A), A], -1)
    return F.narrow(F.narrow(F.matrix_log(F.cat([upper, lower], -2)), -2, 0, n), -1, n, n)


@general(lambda F, grad, A: _log_of_block(F, F.hermitian(A), grad), samples=_square, **_PRIVATE)
def matrix_log(K, A):
    """Return the principal logarithm of matrices, or NaN where it does not exist in their dtype."""
    check_floating("logm", A)
    return K.logarithm(A)


matrix_log.jvp("A")(lambda F, t, A: _log_of_block(F, A, t))


@general(
    outputs=("U", "P"), samples=lambda: [case(floats(3, 3, form="well-conditioned")), case(floats(2, 4, 2))], **_PRIVATE
)
def polar_factors(K, A):
    """Return the polar decomposition ``A = U @ P`` of matrices with no more columns than rows."""
    rotation, stretch, vh = K.factor_svd(A)
    return K.matmul(rotation, vh), K.matmul(K.hermitian(vh) * stretch[..., None, :], vh)


@polar_factors.vjp("A")
def _(F, grads, U, P):
    of_u, of_p = grads
    inner = F.matmul(F.hermitian(U), of_u)
    skew = F.sylvester_solved(P, P, inner - F.hermitian(inner) - (F.matmul(of_p, P) - F.matmul(P, F.hermitian(of_p))))
    outside = F.linalg_solve(P, of_u - F.matmul(U, inner), left=False)
    return F.matmul(U, skew + of_p) + outside
