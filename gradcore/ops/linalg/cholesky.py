"""Cholesky factors, and solutions of systems from them."""

from __future__ import annotations

from gradcore.core.errors import warn_deprecated
from gradcore.ops.declare.promotion import same_dtypes
from gradcore.ops.declare.samples import case, floats
from gradcore.ops.declare.table import composite, general
from gradcore.ops.linalg.matrix_checks import check_square

_PRIVATE = {"function": False, "method": False}


def _spd_cases():
    return [case(floats(3, 3, form="spd")), case(floats(2, 2, 2, form="spd"), upper=True), case(floats(0, 0))]


@general(
    outputs=("L", "info"),
    differentiable=(0,),
    node=lambda caller: "CholeskyBackward0" if caller == "cholesky" else "LinalgCholeskyExBackward0",
    **_PRIVATE,
    saved=lambda node: {"result": "L"} if node == "CholeskyBackward0" else {},
)
def cholesky_factor(K, A, upper: bool = False, caller: str = ""):
    """Return the Cholesky factor; an error for a matrix that is not positive definite names `caller`."""
    check_square(caller or "linalg.cholesky", A)
    L, info = K.factor_cholesky(K.hermitian(A) if upper else A)
    if caller:
        K.check_info(info, caller)
    return K.hermitian(L) if upper else L, info


@cholesky_factor.vjp("A")
def _(F, grad, L, upper):
    if upper:
        L, grad = F.hermitian(L), F.hermitian(grad)
    product = F.matmul(F.hermitian(L), grad)
    middle = (F.tril(product) + F.hermitian(F.tril(product, -1))) / 2
    half = F.linalg_solve_triangular(F.hermitian(L), middle, upper=True)
    return F.linalg_solve_triangular(L, half, upper=False, left=False)


@cholesky_factor.jvp("A")
def _(F, t, L, upper):
    if upper:
        L, t = F.hermitian(L), F.hermitian(t)
    half = F.linalg_solve_triangular(L, t, upper=False)
    middle = F.linalg_solve_triangular(F.hermitian(L), half, upper=True, left=False)
    change = F.matmul(L, (F.tril(middle) + F.tril(middle, -1)) / 2)
    return F.hermitian(change) if upper else change


@composite(path="linalg.cholesky", method=False, samples=_spd_cases, autocast="float32:cpu")
def linalg_cholesky(F, A, *, upper: bool = False):
    """Return the Cholesky factor of positive definite matrices: `L` with ``A = L @ L.mH``.

    With `upper`, return ``L.mH``.

    Raises
    ------
    LinAlgError
        If a matrix is not positive definite.

    Returns
    -------
    Tensor
        Result of shape ``(*, n, n)``.

    Examples
    --------
    >>> gc.linalg.cholesky(gc.tensor([[4.0, 2.0], [2.0, 5.0]]))
    tensor([[2., 0.],
            [1., 2.]])
    """
    return F.cholesky_factor(A, upper, "linalg.cholesky")[0]


@composite(
    path="linalg.cholesky_ex",
    method=False,
    fields="L info",
    samples=_spd_cases,
    autocast="float32:cpu",
)
def linalg_cholesky_ex(F, A, *, upper: bool = False, check_errors: bool = False):
    """Return the Cholesky factors, and for each matrix the order of a minor that is not positive, 0 if there is none.

    Examples
    --------
    >>> gc.linalg.cholesky_ex(gc.tensor([[4.0, 2.0], [2.0, 5.0]])).info
    tensor(0, dtype=torch.int32)
    """
    return F.cholesky_factor(A, upper, "linalg.cholesky_ex" if check_errors else "")


@composite(samples=_spd_cases, autocast="float32:cpu")
def cholesky(F, self, upper: bool = False):
    """Return the Cholesky factors of positive definite matrices; see `gradcore.linalg.cholesky`.

    Returns
    -------
    Tensor
        Result of shape ``(*, n, n)``.

    Examples
    --------
    >>> gc.cholesky(gc.tensor([[4.0, 2.0], [2.0, 5.0]]))
    tensor([[2., 0.],
            [1., 2.]])
    """
    warn_deprecated("cholesky", "linalg.cholesky")
    return F.cholesky_factor(self, upper, "cholesky")[0]


def _sandwich(F, left, middle, right):
    return F.matmul(F.matmul(left, middle), right)


def _factor_gradient(F, by_matrix, factor, upper):
    """Return the gradient of a Cholesky factor from that of its matrix."""
    symmetric = by_matrix + F.hermitian(by_matrix)
    return F.triu(F.matmul(F.triu(factor), symmetric)) if upper else F.tril(F.matmul(symmetric, F.tril(factor)))


def _solve_factored(K, factor, B, upper):
    lower = K.hermitian(factor) if upper else factor
    half = K.linalg_solve_triangular(lower, B, upper=False)
    return K.linalg_solve_triangular(K.hermitian(lower), half, upper=True)


@general(
    broadcasts=True,
    mixed=same_dtypes(
        "Expected b and A to have the same dtype, but found b of type {self} and A of type {input2} instead."
    ),
    samples=lambda: [
        case(floats(3, 2), floats(3, 3, form="well-conditioned")),
        case(floats(2, 3, 1), floats(2, 3, 3, form="spd"), upper=True),
    ],
    autocast="float32:cpu",
)  # fmt: skip
def cholesky_solve(K, self, input2, upper: bool = False):
    """Return the solution of ``A @ X = self`` for the matrix `A` of which `input2` is the Cholesky factor.

    Returns
    -------
    Tensor
        Result of shape ``(*, n, k)``.

    Examples
    --------
    >>> L = gc.linalg.cholesky(gc.tensor([[4.0, 2.0], [2.0, 5.0]]))
    >>> gc.cholesky_solve(gc.tensor([[8.0], [12.0]]), L)
    tensor([[1.],
            [2.]])
    """
    if self.ndim < 2 or input2.ndim < 2:
        name, x = ("b", self) if self.ndim < 2 else ("u", input2)
        raise RuntimeError(f"{name} should have at least 2 dimensions, but has {x.ndim} dimensions instead")
    if input2.shape[-1] != self.shape[-2]:
        raise RuntimeError(
            f"Incompatible matrix sizes for cholesky_solve: each A matrix is {input2.shape[-1]} by {input2.shape[-1]} "
            f"but each b matrix is {self.shape[-2]} by {self.shape[-1]}"
        )
    return _solve_factored(K, input2, self, upper)


@cholesky_solve.vjp("self", "input2")
def _(F, grad, input2, result, upper, needs):
    by_b = F.cholesky_solve(grad, input2, upper)
    by_matrix = -F.matmul(by_b, F.hermitian(result)) if needs[1] else None
    return by_b, _factor_gradient(F, by_matrix, input2, upper) if needs[1] else None


@cholesky_solve.jvp("self")
def _(F, t, input2, upper):
    return F.cholesky_solve(t, input2, upper)


@cholesky_solve.jvp("input2")
def _(F, t, input2, result, upper):
    return -F.cholesky_solve(F.matmul(_matrix_change(F, t, input2, upper), result), input2, upper)


def _matrix_change(F, t, factor, upper):
    """Return the tangent of a matrix from the tangent `t` of its Cholesky factor."""
    half = (
        F.matmul(F.hermitian(F.triu(factor)), F.triu(t)) if upper else F.matmul(F.tril(t), F.hermitian(F.tril(factor)))
    )
    return half + F.hermitian(half)


@general(
    samples=lambda: [case(floats(3, 3, form="well-conditioned")), case(floats(2, 2, 2, form="spd"), upper=True)],
    autocast="float32:cpu",
)
def cholesky_inverse(K, self, upper: bool = False):
    """Return the inverse of the matrix whose Cholesky factor is `self`.

    Returns
    -------
    Tensor
        Result of shape ``(*, n, n)``.

    Examples
    --------
    >>> gc.cholesky_inverse(gc.linalg.cholesky(gc.tensor([[4.0, 0.0], [0.0, 5.0]])))
    tensor([[0.2500, 0.0000],
            [0.0000, 0.2000]])
    """
    check_square("cholesky_inverse", self)
    eye = K.xp.broadcast_to(K.new_eye(self, self.shape[-1], self.shape[-1]), self.shape)
    return _solve_factored(K, self, eye, upper)


@cholesky_inverse.vjp("self")
def _(F, grad, self, result, upper):
    return _factor_gradient(F, -_sandwich(F, result, grad, result), self, upper)


@cholesky_inverse.jvp("self")
def _(F, t, self, result, upper):
    return -_sandwich(F, result, _matrix_change(F, t, self, upper), result)
