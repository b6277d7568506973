"""LDL factors of symmetric matrices that need not be definite, and solutions of systems from them."""

from __future__ import annotations

from gradcore.ops.declare.checks import dtype_of
from gradcore.ops.declare.promotion import same_dtypes
from gradcore.ops.declare.samples import case, constants, floats, values
from gradcore.ops.declare.table import composite, general
from gradcore.ops.linalg.matrix_checks import check_matrix, check_square


def _cases():
    return [case(constants(3, 3)), case(constants(2, 4, 4), hermitian=True)]


@general(outputs=("LD", "pivots", "info"), differentiable=(0,), function=False, method=False)
def ldl_factors(K, A, hermitian: bool = False, caller: str = ""):
    """Return both LDL factors in one matrix, the exchanges, and the position of a zero block of D."""
    check_square("torch.linalg.ldl_factor_ex", A)
    LD, pivots, info = K.factor_ldl(A, hermitian)
    if caller:
        K.check_info(info, caller)
    return LD, pivots, info


@ldl_factors.vjp("A")
def _(F, grad):
    raise NotImplementedError("derivative for linalg.ldl_factor is not implemented")


@composite(path="linalg.ldl_factor", method=False, fields="LD pivots", samples=_cases)
def linalg_ldl_factor(F, A, *, hermitian: bool = False):
    """Compute ``A = L @ D @ L.mT`` of symmetric matrices, packed as in LAPACK.

    Of `hermitian` matrices, ``A = L @ D @ L.mH``. There is no derivative.

    Only the lower triangle is read. `LD` and `pivots` are the arguments of `gradcore.linalg.ldl_solve`.

    Examples
    --------
    >>> LD, pivots = gc.linalg.ldl_factor(gc.tensor([[2.0, 1.0], [1.0, 2.0]]))
    >>> LD.shape
    torch.Size([2, 2])
    """
    return F.ldl_factors(A, hermitian, "torch.linalg.ldl_factor")[:2]


@composite(path="linalg.ldl_factor_ex", method=False, fields="LD pivots info", samples=_cases)
def linalg_ldl_factor_ex(F, A, *, hermitian: bool = False, check_errors: bool = False):
    """Return the results of `gradcore.linalg.ldl_factor`, and the position of a zero in D, from 1, or 0.

    Examples
    --------
    >>> gc.linalg.ldl_factor_ex(gc.tensor([[2.0, 1.0], [1.0, 2.0]])).info
    tensor(0, dtype=torch.int32)
    """
    return F.ldl_factors(A, hermitian, "torch.linalg.ldl_factor_ex" if check_errors else "")


def _solve_cases():
    factors = constants(3, 3, low=0.5, high=2)
    return [
        case(factors, values(1, 2, 3, dtype="int32"), floats(3, 2)),
        case(factors, values(3, -3, -3, dtype="int32"), floats(3, 1), hermitian=True),
    ]


def _check_solve(LD, pivots, B):
    check_matrix("torch.linalg.ldl_solve", B, "B")
    check_square("torch.linalg.ldl_solve", LD)
    if LD.shape[-1] != B.shape[-2]:
        raise RuntimeError(
            f"Incompatible matrix sizes for torch.linalg.ldl_solve: each A matrix is {LD.shape[-1]} by {LD.shape[-1]} "
            f"but each b matrix is {B.shape[-2]} by {B.shape[-1]}"
        )
    if pivots.shape != LD.shape[:-1]:
        raise RuntimeError(
            "torch.linalg.ldl_solve: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with shape "
            f"{list(pivots.shape)} instead"
        )
    if pivots.dtype.kind not in "iu":
        name = dtype_of(pivots).scalar_name
        raise RuntimeError(f"torch.linalg.ldl_solve: Expected pivots to be integers. Got {name}")


@general(
    path="linalg.ldl_solve",
    method=False,
    broadcasts=True,
    samples=_solve_cases,
    keeps_dtype=("pivots",),
    mixed=same_dtypes("Expected b and A to have the same dtype, but found b of type {B} and A of type {LD} instead."),
)
def linalg_ldl_solve(K, LD, pivots, B, *, hermitian: bool = False):
    """Return the solution of ``A @ X = B`` from `gradcore.linalg.ldl_factor` of `A`; differentiable by `B`.

    Returns
    -------
    Tensor
        Result of shape ``(*, n, k)``.

    Examples
    --------
    >>> LD, pivots = gc.linalg.ldl_factor(gc.tensor([[2.0, 1.0], [1.0, 2.0]]))
    >>> gc.linalg.ldl_solve(LD, pivots, gc.tensor([[3.0], [3.0]]))
    tensor([[1.],
            [1.]])
    """
    _check_solve(LD, pivots, B)
    message = (
        "Pivots given to ldl_solve must all satisfy 1 <= |pivot| <= n. Did you properly pass the result of ldl_factor?"
    )
    K.check_bounds(abs(pivots) - 1, LD.shape[-1], 0, 0, message)
    return K.solve_ldl(LD, pivots, B, hermitian)


@linalg_ldl_solve.vjp("LD")
def _(F, grad):
    raise NotImplementedError("the derivative for 'linalg.ldl_solve: LD' is not implemented.")


@linalg_ldl_solve.vjp("B")
def _(F, grad, LD, pivots, hermitian):
    if hermitian:
        return F.linalg_ldl_solve(LD, pivots, grad, hermitian=True)
    return F.conj(F.linalg_ldl_solve(LD, pivots, F.conj(grad)))
