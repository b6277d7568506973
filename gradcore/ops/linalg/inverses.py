"""Inverses and systems of equations."""

from __future__ import annotations

from math import prod

from gradcore.core.errors import warn_deprecated
from gradcore.ops.declare.annotations import Dims
from gradcore.ops.declare.promotion import same_dtypes
from gradcore.ops.declare.samples import case, floats
from gradcore.ops.declare.table import composite, general
from gradcore.ops.linalg.matrix_checks import (
    check_matrix,
    check_reshapable,
    check_solvable,
    check_square,
    is_vector,
)

_PRIVATE = {"function": False, "method": False}


def _square(*shape, form="well-conditioned"):
    return floats(*shape, form=form)


def _square_cases():
    return [
        case(_square(3, 3)),
        case(_square(2, 2, 2)),
        case(_square(1, 1)),
        case(floats(0, 0)),
        case(_square(2, 0, 3, 3)),
    ]


def _column(F, x):
    return F.unsqueeze(x, -1)


# -- inverses ---------------------------------------------------------------------------------------------------------


@general(
    lambda F, grad, inverse: -F.matmul(F.matmul(F.hermitian(inverse), grad), F.hermitian(inverse)),
    outputs=("inverse", "info"),
    differentiable=(0,),
    node="LinalgInvExBackward0",
    samples=_square_cases,
    **_PRIVATE,
)
def invert_with_info(K, A, caller: str = ""):
    """Return the inverses of square matrices, and the positions of zero pivots.

    If `caller` is given, a singular matrix raises an error that names it.
    """
    check_square(caller or "linalg.inv", A)
    inverse, info = K.invert(A)
    if caller:
        K.check_info(info, caller)
    return inverse, info


invert_with_info.jvp("A")(lambda F, t, inverse: -F.matmul(F.matmul(inverse, t), inverse))


@composite(path="linalg.inv", method=False, samples=_square_cases, autocast="float32:cpu")
def linalg_inv(F, A):
    """Return the inverses of square matrices.

    Raises
    ------
    LinAlgError
        If a matrix is singular.

    Returns
    -------
    Tensor
        Result of the same shape as the input.

    Examples
    --------
    >>> gc.linalg.inv(gc.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    return F.invert_with_info(A, "linalg.inv")[0]


@composite(path="linalg.inv_ex", method=False, fields="inverse info", samples=_square_cases, autocast="float32:cpu")
def linalg_inv_ex(F, A, *, check_errors: bool = False):
    """Return the inverses of square matrices, and the position of a zero pivot for each.

    The position counts from 1; it is 0 if the matrix has an inverse.

    Examples
    --------
    >>> gc.linalg.inv_ex(gc.tensor([[2.0, 0.0], [0.0, 4.0]])).info
    tensor(0, dtype=torch.int32)
    """
    return F.invert_with_info(A, "linalg.inv_ex" if check_errors else "")


@composite(samples=_square_cases, autocast="float32:cpu")
def inverse(F, self):
    """Return the inverses of square matrices; see `gradcore.linalg.inv`.

    Returns
    -------
    Tensor
        Result of the same shape as the input.

    Examples
    --------
    >>> gc.inverse(gc.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    return F.invert_with_info(self, "linalg.inv")[0]


# -- systems of equations ---------------------------------------------------------------------------------------------


def _matrix_gradient(F, A, by_b, X, left, adjoint):
    """Return the gradient of the matrix of a system from that of its right-hand sides."""
    if is_vector(A.shape, X.shape):
        by_b, X = _column(F, by_b), _column(F, X)
    product = F.matmul(by_b, F.hermitian(X)) if left else F.matmul(F.hermitian(X), by_b)
    return -(F.hermitian(product) if adjoint else product)


def _systems():
    return [
        case(_square(3, 3), floats(3, 2)), case(_square(3, 3), floats(3)), case(_square(2, 3, 3), floats(2, 3)),
        case(_square(2, 3, 3), floats(3, 2)), case(_square(3, 3), floats(4, 3, 1)), case(floats(0, 0), floats(0, 2)),
        case(_square(3, 3), floats(2, 3), left=False),
    ]  # fmt: skip


@general(
    outputs=("result", "LU", "pivots", "info"),
    differentiable=(0,),
    node="LinalgSolveExBackward0",
    broadcasts=True,
    **_PRIVATE,
    mixed=same_dtypes(
        "linalg.solve: Expected A and B to have the same dtype, but found A of type {A} and B of type {B} instead"
    ),
)
def solve_keeping_factors(K, A, B, left: bool = True, caller: str = ""):
    """Return the solution of ``A @ X = B`` with the LU factors of `A`, which the derivatives use again."""
    vector = is_vector(A.shape, B.shape)
    check_solvable("linalg.solve", A, B, left, vector)
    if vector and not left:
        raise RuntimeError(
            "linalg.solve: Vector broadcasting of the left hand side is not supported for left=False. In this case "
            "linalg.solve is equivalent to B / A.squeeze(-1)"
        )
    if left:
        X, LU, pivots, info = K.solve_and_factor(A, B[..., None] if vector else B)
        X = X[..., 0] if vector else X
    else:
        LU, pivots, info = K.factor_lu(A)
        X = K.hermitian(K.solve_lu(LU, pivots, K.hermitian(B), True))
    if caller:
        K.check_info(info, caller)
    return X, LU, pivots, info


@solve_keeping_factors.vjp("A", "B")
def _(F, grad, A, result, LU, pivots, left):
    by_b = F.solved_again(A, LU, pivots, grad, left, True)
    return _matrix_gradient(F, A, by_b, result, left, False), by_b


@solve_keeping_factors.jvp("A")
def _(F, t, A, result, LU, pivots, left):
    vector = is_vector(A.shape, result.shape)
    X = _column(F, result) if vector else result
    change = F.matmul(t, X) if left else F.matmul(X, t)
    return -F.solved_again(A, LU, pivots, F.squeeze(change, -1) if vector else change, left, False)


@solve_keeping_factors.jvp("B")
def _(F, t, A, LU, pivots, left):
    return F.solved_again(A, LU, pivots, t, left, False)


@general(
    broadcasts=True,
    node="LinalgSolveExBackward0",
    constant={"LU": "factors of `A`, by which there are derivatives"},
    **_PRIVATE,
)
def solved_again(K, A, LU, pivots, B, left: bool, adjoint: bool):
    """Solve ``A @ X = B``, or ``A.mH @ X = B`` if `adjoint`, by LU factors that have no derivatives."""
    if is_vector(A.shape, B.shape):
        return K.solve_with_factors(A, LU, pivots, B[..., None], adjoint)[..., 0]
    if left:
        return K.solve_with_factors(A, LU, pivots, B, adjoint)
    return K.hermitian(K.solve_with_factors(A, LU, pivots, K.hermitian(B), not adjoint))


@solved_again.vjp("A", "B")
def _(F, grad, A, LU, pivots, result, left, adjoint):
    by_b = F.solved_again(A, LU, pivots, grad, left, not adjoint)
    return _matrix_gradient(F, A, by_b, result, left, adjoint), by_b


@composite(path="linalg.solve", method=False, samples=_systems, autocast="float32:cpu")
def linalg_solve(F, A, B, *, left: bool = True):
    """Return the solution of ``A @ X = B``, or of ``X @ A = B`` if not `left`.

    Raises
    ------
    LinAlgError
        If a matrix is singular.

    Returns
    -------
    Tensor
        Result of the shape of `B`.

    Examples
    --------
    >>> gc.linalg.solve(gc.tensor([[2.0, 0.0], [0.0, 4.0]]), gc.tensor([2.0, 2.0]))
    tensor([1.0000, 0.5000])
    """
    return F.solve_keeping_factors(A, B, left, "torch.linalg.solve")[0]


@composite(path="linalg.solve_ex", method=False, fields="result info", samples=_systems)
def linalg_solve_ex(F, A, B, *, left: bool = True, check_errors: bool = False):
    """Return the solution of ``A @ X = B``, and for each matrix the position of a zero pivot (0: none).

    Examples
    --------
    >>> gc.linalg.solve_ex(gc.tensor([[2.0, 0.0], [0.0, 4.0]]), gc.tensor([2.0, 2.0])).result
    tensor([1.0000, 0.5000])
    """
    result, _, _, info = F.solve_keeping_factors(A, B, left, "torch.linalg.solve_ex" if check_errors else "")
    return result, info


def _triangular_cases():
    return [
        case(_square(3, 3), floats(3, 2), upper=True), case(_square(3, 3), floats(3, 2), upper=False),
        case(_square(3, 3), floats(2, 3), upper=True, left=False), case(_square(2, 3, 3), floats(3, 1), upper=False),
        case(floats(3, 3), floats(4, 3, 2), upper=True, unitriangular=True),
        case(floats(0, 0), floats(0, 2), upper=True),
    ]  # fmt: skip


def _triangle(F, x, upper, unitriangular):
    return F.triu(x, int(unitriangular)) if upper else F.tril(x, -int(unitriangular))


@general(
    path="linalg.solve_triangular",
    method=False,
    broadcasts=True,
    samples=_triangular_cases,
    mixed=same_dtypes(
        "linalg.solve_triangular: Expected A and B to have the same dtype, but found A of type {A} and B of "
        "type {B} instead"
    ),
    saved={"self": "A"},
)
def linalg_solve_triangular(K, A, B, *, upper: bool, left: bool = True, unitriangular: bool = False):
    """Return the solution of ``A @ X = B``, or of ``X @ A = B`` if not `left`, with a triangular `A`.

    Only the triangle that `upper` names is read. If `unitriangular`, the diagonal is taken as ones and not read.

    Returns
    -------
    Tensor
        Result of the shape of `B`.

    Examples
    --------
    >>> gc.linalg.solve_triangular(gc.tensor([[2.0, 0.0], [1.0, 4.0]]), gc.tensor([[2.0], [9.0]]), upper=False)
    tensor([[1.],
            [2.]])
    """
    check_matrix("linalg.solve_triangular", A)
    check_matrix("linalg.solve_triangular", B, "B")
    check_solvable("linalg.solve_triangular", A, B, left)
    if left:
        return K.solve_triangle(A, B, upper, unitriangular)
    X = K.solve_triangle(A.swapaxes(-1, -2), B.swapaxes(-1, -2), not upper, unitriangular)
    return X.swapaxes(-1, -2)


@linalg_solve_triangular.vjp("A", "B")
def _(F, grad, A, result, upper, left, unitriangular, needs):
    by_b = F.linalg_solve_triangular(F.hermitian(A), grad, upper=not upper, left=left, unitriangular=unitriangular)
    if not needs[0]:
        return None, by_b
    return _triangle(F, _matrix_gradient(F, A, by_b, result, left, False), upper, unitriangular), by_b


@linalg_solve_triangular.jvp("A")
def _(F, t, A, result, upper, left, unitriangular):
    t = _triangle(F, t, upper, unitriangular)
    change = F.matmul(t, result) if left else F.matmul(result, t)
    return -F.linalg_solve_triangular(A, change, upper=upper, left=left, unitriangular=unitriangular)


@linalg_solve_triangular.jvp("B")
def _(F, t, A, upper, left, unitriangular):
    return F.linalg_solve_triangular(A, t, upper=upper, left=left, unitriangular=unitriangular)


@composite(method="triangular_solve", fields="solution cloned_coefficient", samples=lambda: [
    case(floats(3, 2), _square(3, 3)), case(floats(3, 2), _square(3, 3), upper=False, transpose=True),
], autocast="float32:cpu")  # fmt: skip
def triangular_solve(F, self, A, upper: bool = True, transpose: bool = False, unitriangular: bool = False):
    """Return the solution of ``A @ X = self`` with a triangular `A`, and a copy of `A`.

    Examples
    --------
    >>> gc.triangular_solve(gc.tensor([[2.0], [9.0]]), gc.tensor([[2.0, 0.0], [1.0, 4.0]]), upper=False).solution
    tensor([[1.],
            [2.]])
    """
    warn_deprecated("triangular_solve", "linalg.solve_triangular", "Its arguments come in another order: A, B.")
    for name, x in (("b", self), ("A", A)):
        if x.ndim < 2:
            raise RuntimeError(
                f"torch.triangular_solve: Expected {name} to have at least 2 dimensions, but it has {x.ndim} "
                "dimensions instead"
            )
    if A.shape[-1] != self.shape[-2]:
        raise RuntimeError(
            f"Incompatible matrix sizes for triangular_solve: each A matrix is {A.shape[-1]} by {A.shape[-1]} but "
            f"each b matrix is {self.shape[-2]} by {self.shape[-1]}"
        )
    matrix = F.transpose(A, -1, -2) if transpose else A
    X = F.linalg_solve_triangular(matrix, self, upper=upper != transpose, unitriangular=unitriangular)
    return X, F.clone(A)


@composite(path="linalg.tensorsolve", method=False, samples=lambda: [
    case(floats(2, 3, 6, form="distinct"), floats(2, 3)),
    case(floats(3, 6, 2, form="distinct"), floats(3, 2), dims=(1,)),
], autocast="float32:cpu", also={"input": "A", "other": "B"})  # fmt: skip
def linalg_tensorsolve(F, A, B, dims: Dims = None):
    """Return the solution `X` of ``tensordot(A, X, X.ndim) = B``, after moving the dims `dims` of `A` to the end.

    Examples
    --------
    >>> gc.linalg.tensorsolve(gc.eye(4).reshape(2, 2, 2, 2), gc.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[1., 2.],
            [3., 4.]])
    """
    if dims is not None:
        moved_dims = (dims,) if isinstance(dims, int) else tuple(dims)
        A = F.movedim(A, moved_dims, tuple(range(A.ndim - len(moved_dims), A.ndim)))
    check_reshapable("other.ndim", A.shape, B.ndim)
    n = prod(B.shape)
    return F.reshape(F.linalg_solve(F.reshape(A, (n, n)), F.reshape(B, (n,))), A.shape[B.ndim :])


@composite(path="linalg.tensorinv", method=False, samples=lambda: [
    case(floats(2, 3, 6, form="distinct")), case(floats(6, 2, 3, form="distinct"), ind=1),
], autocast="float32:cpu")  # fmt: skip
def linalg_tensorinv(F, A, ind: int = 2):
    """Return the tensor whose `tensordot` undoes that with `A`.

    Examples
    --------
    >>> gc.linalg.tensorinv(gc.eye(4).reshape(2, 2, 4)).shape
    torch.Size([4, 2, 2])
    """
    if ind <= 0:
        raise RuntimeError(f"Expected a strictly positive integer for 'ind', but got {ind}")
    check_reshapable("ind", A.shape, ind)
    n = prod(A.shape[ind:])
    inverse = F.invert_with_info(F.reshape(A, (n, n)), "linalg.inv")[0]
    return F.reshape(inverse, (*A.shape[ind:], *A.shape[:ind]))
