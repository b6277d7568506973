"""``scipy.sparse.linalg`` of tensors: linear systems with sparse matrices, and with operators given as functions."""

from __future__ import annotations

import math
from typing import Any

from gradcore import functional as F
from gradcore import sparse
from gradcore.core.errors import LinAlgError
from gradcore.core.typing import AnyTensor
from gradcore.scipy.conversion import module_getattr
from gradcore.scipy.sparse.operators import LinearOperator, aslinearoperator, operator_solved
from gradcore.scipy.sparse.spectra import eigsh, lsqr, svds
from gradcore.sparse.solvers import iterative, lobpcg, spsolve
from gradcore.sparse.tensor import SparseTensor

__all__ = [
    "LinAlgError",
    "LinearOperator",
    "aslinearoperator",
    "bicg",
    "bicgstab",
    "cg",
    "cgs",
    "eigsh",
    "expm_multiply",
    "factorized",
    "gcrotmk",
    "gmres",
    "lgmres",
    "lobpcg",
    "lsqr",
    "minres",
    "norm",
    "spsolve",
    "spsolve_triangular",
    "svds",
    "tfqmr",
]

_ARPACK = "has no derivative here: use eigsh() or lobpcg(), or gradcore.linalg.eig() of the dense matrix"
_FACTORS = "factors have no derivatives: use factorized() or spsolve(), which keep them"
_LEAST = "use lsqr()"
_DENSE = "the result is dense: use gradcore.linalg, or expm_multiply()"
_OLD = "a submodule of SciPy that is deprecated"
#: Functions of SciPy that are missing, with the reason.
LEFT_OUT = {
    **dict.fromkeys(("ArpackError", "ArpackNoConvergence", "eigs"), _ARPACK),
    **dict.fromkeys(("SuperLU", "splu", "spilu", "is_sptriangular", "spbandwidth"), _FACTORS),
    "MatrixRankWarning": "a singular matrix is an error",
    "use_solver": "SuperLU solves; scikit-umfpack is not used",
    "qmr": "takes two preconditioners: use bicgstab() or gmres()",
    "inv": "the inverse is dense: use gradcore.linalg.inv(A.to_dense()), or spsolve()",
    "lsmr": _LEAST,
    **dict.fromkeys(("expm", "matrix_power", "funm_multiply_krylov"), _DENSE),
    "onenormest": "use norm(A, 1)",
    "LaplacianNd": "use gradcore.sparse.from_scipy(scipy.sparse.linalg.LaplacianNd(...).tosparse())",
    **dict.fromkeys(("dsolve", "eigen", "interface", "isolve", "matfuncs", "test"), _OLD),
}  # fmt: skip


def __dir__() -> list[str]:
    return [*__all__]


__getattr__ = module_getattr(__name__, LEFT_OUT)


def _solver(name: str, title: str) -> Any:
    of_matrices = iterative(name, title)

    def solve(A: Any, b: Any, x0: Any = None, *, M: Any = None, callback: Any = None, **settings: Any) -> Any:
        if callback is not None:
            settings["callback"] = callback
        if isinstance(A, LinearOperator):
            return operator_solved(name, A, b, x0, M, settings)
        return of_matrices(A, b, x0, M=M, **settings)

    solve.__name__ = solve.__qualname__ = name
    solve.__doc__ = f"""Solve ``A @ x = b`` by {title}. Return `x`, and 0 if the method converged; SciPy's arguments.

    Derivatives are those of the solution: backward solves the adjoint system by the same method, and raises where that
    does not converge.

    Parameters
    ----------
    A : Tensor or LinearOperator
        A sparse or dense matrix, or a `LinearOperator`, whose function may read any tensors with a history.
    b : Tensor
    x0 : Tensor, optional
        Where to start, without gradients.
    M : matrix or LinearOperator, optional
        The preconditioner, without gradients.
    callback : callable, optional
        As SciPy calls it, with arrays.
    **settings
        SciPy's: ``rtol``, ``atol``, ``maxiter`` and the method's own.

    Examples
    --------
    >>> import gradcore as gc
    >>> from gradcore.scipy.sparse import linalg
    >>> A = linalg.LinearOperator((2, 2), matvec=lambda x: 2 * x)
    >>> x, info = linalg.{name}(A, gc.tensor([2.0, 4.0]))
    >>> x.round(decimals=3), info
    (tensor([1., 2.]), 0)
    """
    return solve


bicg = _solver("bicg", "biconjugate gradients")
bicgstab = _solver("bicgstab", "stabilised biconjugate gradients")
cg = _solver("cg", "conjugate gradients")
cgs = _solver("cgs", "squared conjugate gradients")
gcrotmk = _solver("gcrotmk", "flexible minimal residuals with recycling (GCROT)")
gmres = _solver("gmres", "minimal residuals (GMRES)")
lgmres = _solver("lgmres", "minimal residuals with augmentation (LGMRES)")
minres = _solver("minres", "minimal residuals of symmetric matrices (MINRES)")
tfqmr = _solver("tfqmr", "quasi-minimal residuals without the transpose")


def factorized(A: Any) -> Any:
    """Factorize the matrix `A` once, and return a function that solves systems with it.

    Examples
    --------
    >>> import gradcore as gc
    >>> from gradcore.scipy.sparse import linalg
    >>> linalg.factorized((2 * gc.eye(2)).to_sparse_csc())(gc.tensor([2.0, 4.0]))
    tensor([1., 2.])
    """
    return lambda b: spsolve(A, b)


def spsolve_triangular(
    A: Any,
    b: Any,
    lower: bool = True,
    overwrite_A: bool = False,
    overwrite_b: bool = False,
    unit_diagonal: bool = False,
) -> AnyTensor:
    """Solve a system with a triangular sparse matrix; differentiable with respect to the values of `A` and to `b`.

    Examples
    --------
    >>> import gradcore as gc
    >>> from gradcore.scipy.sparse import linalg
    >>> linalg.spsolve_triangular(gc.tensor([[2.0, 0.0], [1.0, 1.0]]).to_sparse(), gc.tensor([2.0, 3.0]))
    tensor([1., 2.])
    """
    matrix: Any = A.to_sparse().coalesce()
    rows, cols = index = matrix.indices()
    beyond = rows < cols if lower else rows > cols
    values = matrix.values()
    if bool((values[beyond] != 0).any()):
        raise LinAlgError("A is not triangular")
    mask = ~beyond & (rows != cols) if unit_diagonal else ~beyond
    index, values = index[:, mask], values[mask]
    if unit_diagonal:
        diagonal = F.as_tensor(range(matrix.shape[0]), device=index.device)
        index = F.cat([index, F.stack([diagonal, diagonal])], 1)
        values = F.cat([values, F.new_zeros(values, (matrix.shape[0],)) + 1])
    return spsolve(_coo(index, values, matrix.shape), b)


def _coo(index: AnyTensor, values: AnyTensor, shape: Any) -> Any:
    from gradcore.sparse.making import sparse_coo_tensor

    return sparse_coo_tensor(index, values, shape)


def norm(x: Any, ord: Any = None, axis: int | None = None) -> AnyTensor:
    """Return a norm of a sparse matrix, or the norms of its rows or columns if `axis` is given.

    The norm of a matrix is the Frobenius norm by default, the maximum row sum for ``inf``, and the maximum column sum
    for 1.

    Examples
    --------
    >>> import gradcore as gc
    >>> from gradcore.scipy.sparse import linalg
    >>> linalg.norm(gc.tensor([[3.0, 0.0], [0.0, 4.0]]).to_sparse_csr())
    tensor(5.)
    """
    if not isinstance(x, SparseTensor):
        raise TypeError("input is not sparse. use gradcore.scipy.linalg.norm")
    sizes = abs(x.to_sparse().coalesce())
    if axis is None and ord in (None, "fro"):
        return F.linalg_vector_norm(sizes.values())
    if axis is not None and ord in (None, 2):
        return F.sqrt(sparse.sum(sizes * sizes, axis).to_dense())
    if axis is not None and ord == 1:
        return sparse.sum(sizes, axis).to_dense()
    if axis is None and ord in (1, -1, math.inf, -math.inf):
        sums = sparse.sum(sizes, 0 if abs(ord) == 1 else 1).to_dense()
        return F.amax(sums) if ord > 0 else F.amin(sums)
    raise NotImplementedError(f"norm: the order {ord!r} of sparse matrices needs singular values; use to_dense()")


def expm_multiply(
    A: Any, B: Any, start: Any = None, stop: Any = None, num: Any = None, endpoint: Any = None
) -> AnyTensor:
    """Compute ``expm(A) @ B`` for a vector or a matrix `B`, by Taylor polynomials over short steps.

    Examples
    --------
    >>> import gradcore as gc
    >>> from gradcore.scipy.sparse import linalg
    >>> linalg.expm_multiply(gc.zeros(2, 2).to_sparse_csr(), gc.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """
    if any(value is not None for value in (start, stop, num, endpoint)):
        raise TypeError("expm_multiply() of tensors takes no times: call it for each time t with t * A")
    if isinstance(A, LinearOperator):
        raise TypeError("expm_multiply() of tensors takes a matrix, because the number of steps depends on its norm")
    size = float(norm(A.detach(), 1)) if isinstance(A, SparseTensor) else float(abs(A.detach()).sum(0).max())
    steps = max(1, math.ceil(size))
    bound = 2.0**-53 if B.dtype.to_real().name == "float64" else 2.0**-24
    result = B
    for _ in range(steps):
        term = result
        for k in range(1, 60):
            term = (A @ term) * (1 / (steps * k))
            result = result + term
            if float(abs(term.detach()).max()) <= bound * float(abs(result.detach()).max()):
                break
    return result
