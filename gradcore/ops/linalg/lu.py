"""LU factors, and solutions of systems from them."""

from __future__ import annotations

from typing import Any

from gradcore.core.errors import warn_deprecated
from gradcore.ops.declare.promotion import same_dtypes
from gradcore.ops.declare.samples import case, floats, values
from gradcore.ops.declare.table import composite, constant, general
from gradcore.ops.linalg.matrix_checks import check_square

_PRIVATE = {"function": False, "method": False}


def _cases():
    return [case(floats(3, 3)), case(floats(4, 2)), case(floats(2, 4)), case(floats(2, 3, 3)), case(floats(0, 3))]


def _check(caller, A, pivot):
    if A.ndim < 2:
        raise RuntimeError(f"{caller}: Expected tensor with 2 or more dimensions. Got size: {list(A.shape)} instead")
    if not pivot:
        raise RuntimeError(f"{caller}: LU without pivoting is not implemented on the CPU")


# -- parts of the factors ---------------------------------------------------------------------------------------------


def _lower(F, LU):
    """Return the lower triangular factor, with ones on its diagonal."""
    m, n = LU.shape[-2:]
    k = min(m, n)
    return F.tril(F.narrow(LU, -1, 0, k), -1) + F.new_eye(LU, m, k)


def _upper(F, LU):
    return F.triu(F.narrow(LU, -2, 0, min(LU.shape[-2:])))


def _join_factors(F, of_l, of_u):
    """Return both LU factors, or their gradients, in one matrix."""
    (m, k), n = of_l.shape[-2:], of_u.shape[-1]
    of_l, of_u = F.tril(of_l, -1), F.triu(of_u)
    if n > k:
        of_l = F.cat([of_l, F.new_zeros(of_l, (*of_l.shape[:-1], n - k))], -1)
    if m > k:
        of_u = F.cat([of_u, F.new_zeros(of_u, (*of_u.shape[:-2], m - k, n))], -2)
    return of_l + of_u


@constant(constant="only the dtype of `self` is read", **_PRIVATE)
def permutation(self, pivots, rows: int):
    """Return the permutation matrix of `pivots`, in the dtype of `self`."""


# -- factors ----------------------------------------------------------------------------------------------------------


def _backward(F, of_l, of_u, P, L, U):
    """Return the gradient of a matrix ``P @ L @ U`` from those of its factors."""
    (m, k), n = L.shape[-2:], U.shape[-1]
    of_l, of_u = F.tril(of_l, -1), F.triu(of_u)
    lower = right = None
    if n > k:  # the last columns of U are the inverse of L times those of the matrix
        right = F.linalg_solve_triangular(F.hermitian(L), F.narrow(of_u, -1, k, n - k), upper=True, unitriangular=True)
        of_l = of_l - F.matmul(right, F.hermitian(F.narrow(U, -1, k, n - k)))
        U, of_u = F.narrow(U, -1, 0, k), F.narrow(of_u, -1, 0, k)
    if m > k:  # the last rows of L are those of the matrix times the inverse of U
        lower = F.linalg_solve_triangular(F.hermitian(U), F.narrow(of_l, -2, k, m - k), upper=False, left=False)
        of_u = of_u - F.matmul(F.hermitian(F.narrow(L, -2, k, m - k)), lower)
        L, of_l = F.narrow(L, -2, 0, k), F.narrow(of_l, -2, 0, k)
    middle = F.tril(F.matmul(F.hermitian(L), of_l), -1) + F.triu(F.matmul(of_u, F.hermitian(U)))
    half = F.linalg_solve_triangular(F.hermitian(L), middle, upper=True, unitriangular=True)
    result = F.linalg_solve_triangular(F.hermitian(U), half, upper=False, left=False)
    if right is not None:
        result = F.cat([result, right], -1)
    if lower is not None:
        result = F.cat([result, lower], -2)
    return F.matmul(P, result)


def _forward(F, t, P, L, U):
    """Return the tangents of the factors from the tangent `t` of the matrix."""
    m, k = L.shape[-2:]
    t = F.matmul(F.hermitian(P), t)
    first_l, first_u = F.narrow(L, -2, 0, k), F.narrow(U, -1, 0, k)
    half = F.linalg_solve_triangular(first_l, F.narrow(t, -2, 0, k), upper=False, unitriangular=True)
    middle = F.linalg_solve_triangular(first_u, F.narrow(half, -1, 0, k), upper=True, left=False)
    lower = F.tril(middle, -1)
    change_l, change_u = F.matmul(first_l, lower), half - F.matmul(lower, U)
    if m > k:
        lower_rows = F.narrow(F.narrow(t, -2, k, m - k), -1, 0, k) - F.matmul(F.narrow(L, -2, k, m - k), change_u)
        change_l = F.cat([change_l, F.linalg_solve_triangular(first_u, lower_rows, upper=True, left=False)], -2)
    return F.tril(change_l, -1), F.triu(change_u)


@general(
    differentiable=(1, 2),
    path="linalg.lu",
    method=False,
    fields="P L U",
    samples=_cases,
)
def linalg_lu(K, A, *, pivot: bool = True):
    """Compute ``A = P @ L @ U`` with a permutation, a lower triangle with ones on its diagonal, and an upper triangle.

    Examples
    --------
    >>> A = gc.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> P, L, U = gc.linalg.lu(A)
    >>> gc.allclose(P @ L @ U, A)
    True
    """
    _check("linalg.lu", A, pivot)
    LU, pivots, _ = K.factor_lu(A)
    return K.permutation(LU, pivots, A.shape[-2]), _lower(K, LU), _upper(K, LU)


linalg_lu.vjp("A")(lambda F, grads, P, L, U: _backward(F, grads[0], grads[1], P, L, U))
linalg_lu.jvp("A")(lambda F, t, P, L, U: _forward(F, t, P, L, U))


@general(
    outputs=("LU", "pivots", "info"), differentiable=(0,), node="LinalgLuFactorExBackward0", **_PRIVATE
)  # fmt: skip
def lu_factors(K, A, pivot: bool = True, caller: str = ""):
    """Return both LU factors in one matrix, the exchanged rows, and the position of a zero pivot."""
    _check(caller.replace("torch.linalg", "linalg") or "linalg.lu_factor", A, pivot)
    LU, pivots, info = K.factor_lu(A)
    if caller:
        K.check_info(info, caller)
    return LU, pivots, info


@lu_factors.vjp("A")
def _(F, grad, LU, pivots):
    L, U = _lower(F, LU), _upper(F, LU)
    k = min(LU.shape[-2:])
    P = F.permutation(LU, pivots, LU.shape[-2])
    return _backward(F, F.narrow(grad, -1, 0, k), F.narrow(grad, -2, 0, k), P, L, U)


@lu_factors.jvp("A")
def _(F, t, LU, pivots):
    return _join_factors(F, *_forward(F, t, F.permutation(LU, pivots, LU.shape[-2]), _lower(F, LU), _upper(F, LU)))


@composite(path="linalg.lu_factor", method=False, fields="LU pivots", samples=_cases)
def linalg_lu_factor(F, A, *, pivot: bool = True):
    """Return both LU factors in one matrix, and pivots.

    Row ``i`` was exchanged with row ``pivots[i] - 1``.

    Examples
    --------
    >>> LU, pivots = gc.linalg.lu_factor(gc.tensor([[1.0, 2.0], [3.0, 4.0]]))
    >>> pivots
    tensor([2, 2], dtype=torch.int32)
    """
    return F.lu_factors(A, pivot, "torch.linalg.lu_factor")[:2]


@composite(path="linalg.lu_factor_ex", method=False, fields="LU pivots info", samples=_cases)
def linalg_lu_factor_ex(F, A, *, pivot: bool = True, check_errors: bool = False):
    """Return the results of `gradcore.linalg.lu_factor`, and for each matrix the position of a zero pivot (0: none).

    Examples
    --------
    >>> gc.linalg.lu_factor_ex(gc.tensor([[1.0, 2.0], [3.0, 4.0]])).info
    tensor(0, dtype=torch.int32)
    """
    return F.lu_factors(A, pivot, "torch.linalg.lu_factor_ex" if check_errors else "")


@composite(samples=_cases, autocast="float32:cpu", returns="tuple[Tensor, ...]")
def lu(F, self, pivot: bool = True, get_infos: bool = False):
    """Return LU factors and pivots, and with `get_infos` the infos of `gradcore.linalg.lu_factor_ex`.

    Examples
    --------
    >>> LU, pivots = gc.lu(gc.tensor([[1.0, 2.0], [3.0, 4.0]]))
    >>> pivots
    tensor([2, 2], dtype=torch.int32)
    """
    warn_deprecated("lu", "linalg.lu_factor / torch.linalg.lu_factor_ex")
    return F.linalg_lu_factor_ex(self, pivot=pivot) if get_infos else F.lu_factors(self, pivot, "torch.lu_factor")[:2]


#: Sample of a triangular factor that is far from singular.
_PACKED = floats(3, 3, form="well-conditioned")


def _pivots(*rows: int) -> Any:
    return values(*rows, dtype="int32")


def _packed_cases():
    return [case(_PACKED, _pivots(2, 3, 3)), case(floats(4, 2), _pivots(3, 4)), case(floats(2, 4), _pivots(2, 2))]


def _solve_cases():
    return [
        case(_PACKED, _pivots(3, 3, 3), floats(3, 2)),
        case(_PACKED, _pivots(2, 3, 3), floats(3, 1), adjoint=True),
        case(_PACKED, _pivots(1, 3, 3), floats(2, 3), left=False),
    ]


@general(
    differentiable=(1, 2), method=False, fields="P L U", samples=_packed_cases,
    saved={"unpack_data": None, "unpack_pivots": None},
)  # fmt: skip
def lu_unpack(K, LU_data, LU_pivots, unpack_data: bool = True, unpack_pivots: bool = True):
    """Return the permutation and the two factors of a result of `gradcore.linalg.lu_factor`.

    Results that are not requested are empty.

    Examples
    --------
    >>> P, L, U = gc.lu_unpack(*gc.linalg.lu_factor(gc.tensor([[1.0, 2.0], [3.0, 4.0]])))
    >>> P
    tensor([[0., 1.],
            [1., 0.]])
    """
    if unpack_pivots:
        if LU_pivots.dtype != "int32":
            raise RuntimeError("torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype.")
        rows = min(LU_data.shape[-2:])
        if LU_pivots.shape != (*LU_data.shape[:-2], rows):
            raise RuntimeError(
                f"torch.lu_unpack: LU_pivots is expected to have the shape {[*LU_data.shape[:-2], rows]}, but it has "
                f"{list(LU_pivots.shape)}"
            )
        K.check_bounds(
            LU_pivots - 1,
            LU_data.shape[-2],
            0,
            0,
            "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive. Did you properly pass the "
            "result of lu_factor?",
        )
    empty = K.new_zeros(LU_data, (0,))
    P = K.permutation(LU_data, LU_pivots, LU_data.shape[-2]) if unpack_pivots else empty
    return P, *((_lower(K, LU_data), _upper(K, LU_data)) if unpack_data else (empty, empty))


lu_unpack.vjp("LU_data")(lambda F, grads: _join_factors(F, *grads))
lu_unpack.jvp("LU_data")(lambda F, t: (_lower(F, t) - F.new_eye(t, t.shape[-2], min(t.shape[-2:])), _upper(F, t)))


# -- solutions --------------------------------------------------------------------------------------------------------


@general(
    path="linalg.lu_solve",
    method=False,
    broadcasts=True,
    samples=_solve_cases,
    keeps_dtype=("pivots",),
    mixed=same_dtypes(
        "linalg.lu_solve: Expected LU and B to have the same dtype, but found LU of type {LU} and B of type {B} instead"
    ),
)
def linalg_lu_solve(K, LU, pivots, B, *, left: bool = True, adjoint: bool = False):
    """Return the solution of ``A @ X = B`` from the LU factors of `A`.

    It solves ``X @ A = B`` if not `left`, and with ``A.mH`` if `adjoint`.

    Returns
    -------
    Tensor
        Result of the shape of `B`.

    Examples
    --------
    >>> LU, pivots = gc.linalg.lu_factor(gc.tensor([[2.0, 0.0], [0.0, 4.0]]))
    >>> gc.linalg.lu_solve(LU, pivots, gc.tensor([[2.0], [2.0]]))
    tensor([[1.0000],
            [0.5000]])
    """
    check_square("linalg.lu_solve", LU)
    if pivots.dtype != "int32":
        raise RuntimeError("linalg.lu_solve: pivots should be a Tensor of scalar type torch.int32")
    if pivots.shape[-1] != LU.shape[-1]:
        raise RuntimeError("linalg.lu_solve: Number of pivots per batch should be same as the dimension of the matrix")
    K.check_bounds(
        pivots - 1,
        LU.shape[-1],
        0,
        0,
        "Pivots given to lu_solve must all be greater or equal to 1 and smaller or equal to LU.size(-2). Did "
        "you properly pass the result of lu_factor?",
    )
    if B.ndim < 2 or B.shape[-2 if left else -1] != LU.shape[-1]:
        raise RuntimeError(
            f"linalg.lu_solve: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'} "
            f"({LU.shape[-2]}x{LU.shape[-1]} and {B.shape[-2]}x{B.shape[-1]})"
        )
    if left:
        return K.solve_lu(LU, pivots, B, adjoint)
    return K.hermitian(K.solve_lu(LU, pivots, K.hermitian(B), not adjoint))


@linalg_lu_solve.vjp("LU", "B")
def _(F, grad, LU, pivots, result, left, adjoint, needs):
    by_b = F.linalg_lu_solve(LU, pivots, grad, left=left, adjoint=not adjoint)
    if not needs[0]:
        return None, by_b
    by_matrix = F.matmul(by_b, F.hermitian(result)) if left else F.matmul(F.hermitian(result), by_b)
    by_matrix = -F.matmul(
        F.hermitian(F.permutation(LU, pivots, LU.shape[-1])), F.hermitian(by_matrix) if adjoint else by_matrix
    )
    L, U = _lower(F, LU), _upper(F, LU)
    return _join_factors(F, F.matmul(by_matrix, F.hermitian(U)), F.matmul(F.hermitian(L), by_matrix)), by_b


@composite(method="lu_solve", samples=lambda: [case(floats(3, 2), _PACKED, _pivots(3, 3, 3))], autocast="float32:cpu")
def lu_solve(F, self, LU_data, LU_pivots):
    """Return the solution of ``A @ X = self`` from the LU factors of `A`; see `gradcore.linalg.lu_solve`.

    Returns
    -------
    Tensor
        Result of the shape of the input.

    Examples
    --------
    >>> LU, pivots = gc.linalg.lu_factor(gc.tensor([[2.0, 0.0], [0.0, 4.0]]))
    >>> gc.lu_solve(gc.tensor([[2.0], [2.0]]), LU, pivots)
    tensor([[1.0000],
            [0.5000]])
    """
    warn_deprecated("lu_solve", "linalg.lu_solve", "Its arguments come in another order: LU, pivots, B.")
    return F.linalg_lu_solve(LU_data, LU_pivots, self)
