"""Systems of linear equations and eigenvalues of sparse matrices, with derivatives by the implicit function theorem."""

from __future__ import annotations

from typing import Any

from gradcore import functional
from gradcore.backends.portable.sparse import Iteration
from gradcore.core import dtypes
from gradcore.sparse.making import from_scipy
from gradcore.sparse.products import elements
from gradcore.sparse.tensor import CSR, SparseTensor, sparse
from gradcore.tensor import Tensor

__all__ = ["bicgstab", "cg", "gmres", "iterative", "lobpcg", "spsolve"]


def _matrix(A: Any, name: str) -> SparseTensor:
    """Convert a square matrix, which may be SciPy's or dense, to a sparse tensor."""
    if type(A).__module__.startswith("scipy.sparse") and hasattr(A, "format"):
        A = from_scipy(A)
    if isinstance(A, Tensor) and not isinstance(A, SparseTensor) and A.ndim == 2:
        A = _dense_matrix(A)
    if not isinstance(A, SparseTensor):
        raise TypeError(f"{name}(): A must be a matrix of gradcore or scipy.sparse, not {type(A).__name__}")
    if len(A.sizes) != 2 or A.sizes[0] != A.sizes[1]:
        raise RuntimeError(f"{name}: A must be a square matrix, but has the shape {list(A.sizes)}")
    return A


def _dense_matrix(A: Tensor) -> SparseTensor:
    """Convert a dense matrix to a sparse one that stores all elements."""
    rows, cols = A.shape
    ends = functional.as_tensor([i * cols for i in range(rows + 1)], device=A.device)
    inner = functional.as_tensor(list(range(cols)), device=A.device).repeat(rows)
    return sparse(CSR, A.shape, (ends, inner), A.reshape(-1))


def _right(A: SparseTensor, b: Any, name: str) -> Any:
    b = functional.as_tensor(b, device=A.device) if not isinstance(b, Tensor) else b
    if b.ndim not in (1, 2) or b.shape[0] != A.sizes[0]:
        raise RuntimeError(f"{name}: b has the shape {list(b.shape)}, which does not fit {list(A.sizes)}")
    if not (b.is_floating_point() or b.is_complex()):
        raise RuntimeError(f"{name}: b must have a floating-point or complex dtype, but has {b.dtype}")
    return b


def _solve(A: Any, b: Any, name: str, method: Iteration | None) -> tuple[Tensor, int]:
    A = _matrix(A, name)
    b = _right(A, b, name)
    dtype = dtypes.promote_types(A.dtype, b.dtype)
    x, info = functional.sparse_solve(elements(A).to(dtype), b.to(dtype), A.pattern, False, method, False)
    return x, int(info)


def spsolve(A: Any, b: Any) -> Tensor:
    """Solve ``A @ x = b`` by an LU factorisation, which backward uses again.

    Parameters
    ----------
    A : Tensor
        A square sparse matrix of any layout; its values are differentiable.
    b : Tensor
        A vector, or a matrix whose columns are right sides; it is differentiable.

    Raises
    ------
    RuntimeError
        If the matrix is singular.

    Examples
    --------
    >>> import gradcore as gc
    >>> A = gc.tensor([[2.0, 1.0], [0.0, 4.0]]).to_sparse_csr()
    >>> gc.sparse.spsolve(A, gc.tensor([4.0, 8.0]))
    tensor([1., 2.])
    """
    return _solve(A, b, "spsolve", None)[0]


def iterative(name: str, title: str, extra: str = "") -> Any:
    """Create the function for an iterative method of `scipy.sparse.linalg`, with its docstring."""

    def solve(
        A: Any,
        b: Any,
        x0: Any = None,
        *,
        rtol: float = 1e-5,
        atol: float = 0.0,
        maxiter: int | None = None,
        M: Any = None,
        **settings: Any,
    ) -> tuple[Tensor, int]:
        first, M = (t.detach().host() if isinstance(t, Tensor) else t for t in (x0, M))
        settings["rtol"] = rtol
        if name != "minres":
            settings["atol"] = atol
        if maxiter is not None:
            settings["maxiter"] = maxiter
        method = Iteration(name, settings, first, M)
        return _solve(A, b, name, method)

    solve.__name__ = solve.__qualname__ = name
    solve.__doc__ = f"""Solve ``A @ x = b`` by {title}. Return `x`, and 0 if the method converged, as SciPy does.

    Backward solves the adjoint system by the same method, to the same tolerance, and raises where that does not
    converge.

    Parameters
    ----------
    A : Tensor
        A square matrix, sparse or dense{extra}.
    b : Tensor
        A vector, or a matrix of right sides.
    x0 : Tensor, optional
        Where to start, without gradients.
    rtol, atol, maxiter
        When to stop: at ``norm(b - A @ x) <= max(rtol * norm(b), atol)``.
    M : matrix, optional
        The preconditioner: an array, a sparse matrix or a `scipy.sparse.linalg.LinearOperator`.

    Returns
    -------
    Tensor, int
        The solution, and 0, or the number of iterations made without convergence.

    Examples
    --------
    >>> import gradcore as gc
    >>> A = gc.tensor([[4.0, 1.0], [1.0, 3.0]]).to_sparse_csr()
    >>> x, info = gc.sparse.{name}(A, gc.tensor([6.0, 7.0]))
    >>> gc.allclose(x, gc.tensor([1.0, 2.0])), info
    (True, 0)
    """
    return solve


cg = iterative("cg", "conjugate gradients", ", Hermitian and positive definite")
gmres = iterative("gmres", "minimal residuals (GMRES)")
bicgstab = iterative("bicgstab", "stabilised biconjugate gradients")


def lobpcg(
    A: Any, X: Any, *, M: Any = None, tol: float | None = None, maxiter: int | None = None, largest: bool = True
) -> tuple[Tensor, Tensor]:
    """Compute some eigenvalues and eigenvectors of a symmetric matrix, as SciPy's `lobpcg` without constraints.

    The gradient is symmetric, and is that of exact eigenpairs: eigenvalues must be distinct, and `tol` small.

    Parameters
    ----------
    A : Tensor
        A symmetric matrix, sparse or dense.
    X : Tensor
        The initial guess: one column for each eigenvector. It has no derivative.
    M : matrix, optional
        The preconditioner.
    tol, maxiter
        The tolerance and the maximum number of iterations.
    largest : bool
        Whether to compute the largest eigenvalues, rather than the smallest.

    Returns
    -------
    Tensor, Tensor
        The eigenvalues, and the eigenvectors as columns.

    Examples
    --------
    >>> import gradcore as gc
    >>> A = gc.diag(gc.arange(1.0, 31.0)).to_sparse_csr()
    >>> w, V = gc.sparse.lobpcg(A, gc.randn(30, 2), maxiter=200)
    >>> w.shape, V.shape
    (torch.Size([2]), torch.Size([30, 2]))
    """
    A = _matrix(A, "lobpcg")
    if elements(A).is_complex():
        raise RuntimeError("lobpcg: complex matrices have no derivatives here")
    M = M.detach().host() if isinstance(M, Tensor) else M
    settings = {"M": M, "tol": tol, "maxiter": maxiter, "largest": largest}
    start = functional.as_tensor(X).detach().to(A.dtype)
    return functional.sparse_eigenpairs(elements(A), start, A.pattern, settings)  # type: ignore[no-any-return]
