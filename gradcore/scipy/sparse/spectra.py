"""Some eigenvalues, some singular values and least-squares solutions of large matrices, by SciPy's iterative methods.

Each result is the root of a residual whose Jacobian is symmetric. So derivatives of every order solve systems by matrix
products only, without building a matrix, and do not depend on how SciPy computed the result.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gradcore import functional as F
from gradcore.autograd.grad_mode import no_grad
from gradcore.core.typing import AnyArray, AnyTensor, ArrayLike
from gradcore.scipy.closures import capture
from gradcore.scipy.conversion import floating, like
from gradcore.scipy.implicit import root_at
from gradcore.scipy.required import scipy_module
from gradcore.scipy.sparse.operators import LinearOperator, aslinearoperator, operator_solved
from gradcore.tensor import Tensor

__all__ = ["eigsh", "lsqr", "svds"]

#: Largest residual of a linear system, relative to its right side, at which its solution is accepted.
_TOLERANCE = {4: 1e-3, 8: 1e-7}


def _symmetric_solved(product: Callable[..., AnyTensor], y: AnyTensor, name: str, reason: str) -> AnyTensor:
    """Solve a system with a symmetric operator, or raise a RuntimeError that gives `reason` if it has no solution."""
    size = y.shape[0]
    settings = {"rtol": 4 * float(np.finfo(y.dtype.numpy).eps), "maxiter": 50 * size}
    x, _ = operator_solved("minres", LinearOperator((size, size), matvec=product), y, None, None, settings)
    residual_norm = F.linalg_vector_norm((product(x) - y).detach())
    if not float(residual_norm) <= _TOLERANCE[y.dtype.itemsize] * float(F.linalg_vector_norm(y.detach())):
        raise RuntimeError(f"{name}: the result has no derivative, or the system for it did not converge: {reason}")
    return x


def _operator(A: LinearOperator | AnyTensor, name: str) -> tuple[LinearOperator, AnyTensor]:
    """Convert `A` to an operator, and return it with a 0-dim tensor of its dtype and device."""
    operator = aslinearoperator(A)
    example = A.detach() if isinstance(A, Tensor) else floating(0.0)
    if not isinstance(A, Tensor) and operator.dtype is not None:
        example = F.to(example, operator.dtype)
    example = F.zeros((), dtype=example.dtype, device=example.device)
    if example.dtype.is_complex:
        raise TypeError(f"{name}() takes real matrices; use gradcore.linalg.eigh() or svd() of dense complex ones")
    return operator, floating(example)


def _host_operator(
    product: Callable[..., AnyTensor], adjoint: Callable[..., AnyTensor], shape: tuple[int, ...], example: AnyTensor
) -> AnyArray:
    """Convert functions for products of tensors to a SciPy operator on arrays."""

    def wrap_for_host(function: Callable[..., AnyTensor]) -> Callable[..., AnyTensor]:
        return lambda v: function(like(np.asarray(v).reshape(-1), example)).detach().host()

    module = scipy_module("sparse.linalg")
    return module.LinearOperator(shape, wrap_for_host(product), wrap_for_host(adjoint), dtype=example.dtype.numpy)


def _start(v0: ArrayLike, size: int, example: AnyTensor) -> AnyArray:
    """Return ARPACK's starting vector: `v0`, or a fixed vector, so that results do not vary between calls."""
    if v0 is not None:
        return v0.detach().host() if isinstance(v0, Tensor) else v0
    return np.random.default_rng(0).standard_normal(size).astype(example.dtype.numpy)


def _eigenpair(product: Callable[..., AnyTensor], vector: AnyTensor, value: AnyTensor, name: str) -> AnyTensor:
    """Return an eigenvector of a symmetric operator with the eigenvalue appended, as a differentiable function."""
    call, captured = capture(product, vector)
    solution = F.cat([vector, F.reshape(value, (1,))])
    if not captured:
        return solution
    length = float(F.sum(vector * vector))

    def residual(parameters: list[AnyTensor], x: AnyTensor) -> AnyTensor:
        v = x[:-1]
        return F.cat([call(parameters, v) - x[-1] * v, (length - F.sum(v * v)).reshape(1) / 2])

    def linear(parameters: list[AnyTensor], x: AnyTensor, y: AnyTensor) -> AnyTensor:
        def jacobian(t: AnyTensor) -> AnyTensor:
            return F.cat(
                [call(parameters, t[:-1]) - x[-1] * t[:-1] - x[:-1] * t[-1], -F.sum(x[:-1] * t[:-1]).reshape(1)]
            )

        return _symmetric_solved(jacobian, y, name, "the vectors of equal values are any basis of their subspace")

    return root_at(residual, solution, *captured, linear=linear)


def eigsh(
    A: LinearOperator | AnyTensor,
    k: int = 6,
    M: ArrayLike = None,
    sigma: float | None = None,
    which: str = "LM",
    v0: ArrayLike = None,
    ncv: int | None = None,
    maxiter: int | None = None,
    tol: float = 0,
    return_eigenvectors: bool = True,
) -> AnyTensor | tuple[AnyTensor, ...]:
    """Return some eigenvalues and eigenvectors of a real symmetric matrix, as `scipy.sparse.linalg.eigsh`.

    Parameters
    ----------
    A : Tensor or LinearOperator
        A sparse or dense matrix, or an operator, of which only products are computed. The result is differentiable with
        respect to it, or to the tensors that the operator reads, in directions that keep it symmetric.
    k : int
        The number of eigenvalues.
    M, sigma : None
        Generalized problems and shifts are refused.
    which : {'LM', 'SM', 'LA', 'SA', 'BE'}
        Eigenvalues to compute: those of largest or smallest magnitude, largest or smallest value, or from both ends.
    v0 : Tensor, optional
        The starting vector, which has no derivative; by default a fixed one, so that signs do not vary between calls.
    ncv, maxiter, tol
        As in SciPy.
    return_eigenvectors : bool
        Whether to return the vectors as well.

    Returns
    -------
    w : Tensor
    v : Tensor
        The eigenvectors as columns, if `return_eigenvectors`.

    Raises
    ------
    RuntimeError
        In backward, if the loss depends on eigenvectors of equal eigenvalues.

    Notes
    -----
    An eigenpair is the root of ``A @ v - w * v`` and of ``1 - v @ v``. Its derivatives follow from the implicit
    function theorem [1]_ and solve systems with these equations' Jacobian by MINRES.

    .. [1] J. R. Magnus, "On differentiating eigenvalues and eigenvectors", Econometric Theory 1 (1985), 179-191.

    Examples
    --------
    >>> import gradcore as gc
    >>> from gradcore.scipy.sparse import linalg
    >>> A = gc.tensor([[2.0, 1.0, 0.0], [1.0, 2.0, 0.0], [0.0, 0.0, 1.5]], dtype=gc.float64, requires_grad=True)
    >>> w = linalg.eigsh(A, k=1, return_eigenvectors=False)
    >>> w.round(decimals=4).detach(), gc.autograd.grad(w.sum(), A)[0].round(decimals=4).abs()
    (tensor([3.], dtype=torch.float64), tensor([[0.5000, 0.5000, 0.0000],
            [0.5000, 0.5000, 0.0000],
            [0.0000, 0.0000, 0.0000]], dtype=torch.float64))
    """
    if M is not None or sigma is not None:
        raise TypeError(
            "eigsh() of tensors takes neither M nor sigma: pass the operator of the equivalent standard problem"
        )
    operator, example = _operator(A, "eigsh")
    if operator.shape[0] != operator.shape[1]:
        raise ValueError(f"expected square matrix (shape={operator.shape})")
    module = scipy_module("sparse.linalg")
    host = _host_operator(operator.matvec, operator.matvec, operator.shape, example)
    start = _start(v0, operator.shape[0], example)
    values, vectors = module.eigsh(host, k, which=which, v0=start, ncv=ncv, maxiter=maxiter, tol=tol)
    order = np.argsort(values)
    pairs = [
        _eigenpair(
            operator.matvec, like(np.ascontiguousarray(vectors[:, i]), example), like(values[i], example), "eigsh"
        )
        for i in order
    ]
    w = F.stack([pair[-1] for pair in pairs])
    return (w, F.stack([pair[:-1] for pair in pairs], 1)) if return_eigenvectors else w


def svds(
    A: LinearOperator | AnyTensor,
    k: int = 6,
    ncv: int | None = None,
    tol: float = 0,
    which: str = "LM",
    v0: ArrayLike = None,
    maxiter: int | None = None,
    return_singular_vectors: bool | str = True,
) -> AnyTensor | tuple[AnyTensor, ...]:
    """Return the largest or the smallest singular values and their vectors, as `scipy.sparse.linalg.svds`.

    Parameters
    ----------
    A : Tensor or LinearOperator
        A sparse or dense real matrix, or an operator, of which only products are computed. The result is differentiable
        with respect to it, or to the tensors that the operator reads.
    k : int
        The number of singular values.
    ncv, tol, maxiter
        As in SciPy.
    which : {'LM', 'SM'}
        Whether the largest or the smallest singular values are returned.
    v0 : Tensor, optional
        The starting vector, which has no derivative; by default a fixed one.
    return_singular_vectors : bool
        Whether to return the vectors as well.

    Returns
    -------
    u, s, vh : Tensor
        Singular vectors and values, in ascending order of the values; or `s` alone.

    Raises
    ------
    RuntimeError
        In backward, if the loss depends on singular vectors of equal or zero singular values.

    Examples
    --------
    >>> import gradcore as gc
    >>> from gradcore.scipy.sparse import linalg
    >>> A = gc.tensor([[3.0, 0.0], [0.0, 2.0], [0.0, 0.0]], dtype=gc.float64)
    >>> linalg.svds(A, k=1)[1].round(decimals=4)
    tensor([3.], dtype=torch.float64)
    """
    operator, example = _operator(A, "svds")
    m, n = operator.shape
    module = scipy_module("sparse.linalg")
    host = _host_operator(operator.matvec, operator.rmatvec, operator.shape, example)
    start = _start(v0, min(m, n), example)
    left, values, right = module.svds(host, k, ncv=ncv, tol=tol, which=which, v0=start, maxiter=maxiter)

    def multiply_both(x: AnyTensor) -> AnyTensor:
        return F.cat([operator.matvec(x[m:]), operator.rmatvec(x[:m])])

    order = np.argsort(values)
    pairs = [
        _eigenpair(
            multiply_both, like(np.concatenate([left[:, i], right[i]]), example), like(values[i], example), "svds"
        )
        for i in order
    ]
    s = F.stack([pair[-1] for pair in pairs])
    if return_singular_vectors is False:
        return s
    return F.stack([pair[:m] for pair in pairs], 1), s, F.stack([pair[m:-1] for pair in pairs])


def lsqr(
    A: LinearOperator | AnyTensor,
    b: ArrayLike,
    damp: float = 0.0,
    atol: float = 1e-6,
    btol: float = 1e-6,
    conlim: float = 1e8,
    iter_lim: int | None = None,
    x0: ArrayLike = None,
) -> tuple[AnyTensor, ...]:
    """Return the least-squares solution of ``A @ x = b``, as `scipy.sparse.linalg.lsqr`.

    Parameters
    ----------
    A : Tensor or LinearOperator
        A sparse or dense real matrix of full rank, or an operator, of which only products are computed. The solution is
        differentiable with respect to it, or to the tensors that the operator reads.
    b : Tensor
        The right side, which is differentiable.
    damp : float
        The damping factor: ``damp**2 * |x|**2`` is added to the sum of squares.
    atol, btol, conlim, iter_lim
        The stopping criteria, as in SciPy. Derivatives are computed for the exact solution.
    x0 : Tensor, optional
        The starting vector, which has no derivative. It would select one of several solutions, so it is refused if `A`
        has more columns than rows.

    Returns
    -------
    x : Tensor
        The solution; without `damp`, the solution of smallest norm.
    istop, itn, r1norm, r2norm, anorm, acond, arnorm, xnorm, var
        SciPy's further results, without a history.

    Raises
    ------
    RuntimeError
        In backward, if `A` is rank-deficient and the loss depends on a component of ``x`` that `A` does not determine.

    Examples
    --------
    >>> import gradcore as gc
    >>> from gradcore.scipy.sparse import linalg
    >>> A = gc.tensor([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]], dtype=gc.float64)
    >>> linalg.lsqr(A, gc.tensor([3.0, 4.0, 5.0], dtype=gc.float64))[0].round(decimals=4)
    tensor([3., 2.], dtype=torch.float64)
    """
    operator, example = _operator(A, "lsqr")
    right = F.to(floating(b), example.dtype)
    m, n = operator.shape
    is_wide = n > m and not damp
    if is_wide and x0 is not None:
        raise TypeError("lsqr(x0=...) of tensors needs at least as many rows as columns, or damp")
    host = _host_operator(operator.matvec, operator.rmatvec, operator.shape, example)
    start = x0.detach().host() if isinstance(x0, Tensor) else x0
    module = scipy_module("sparse.linalg")
    solution, *statistics = module.lsqr(
        host, right.detach().host(), damp, atol, btol, conlim, iter_lim, False, False, start
    )
    x = like(solution, example)

    # The unknowns are the solution with the residual of `b`, or the solution with the multipliers of its equations.
    def equations(z: AnyTensor) -> AnyTensor:
        first, second = z[:m], z[m:]
        if is_wide:
            return F.cat([operator.matvec(second) - right, operator.rmatvec(first) - second])
        return F.cat([first + operator.matvec(second) - right, operator.rmatvec(first) - damp**2 * second])

    call, captured = capture(equations, F.cat([F.zeros_like(right.detach()), x]))
    if not captured:
        return (x, *statistics)

    def linear(parameters: list[AnyTensor], z: AnyTensor, y: AnyTensor) -> AnyTensor:
        constant = call(parameters, F.zeros_like(z))
        return _symmetric_solved(lambda t: call(parameters, t) - constant, y, "lsqr", "the matrix may lack full rank")

    with no_grad():
        if is_wide:
            first = like(module.lsqr(host.H, solution, 0.0, 0.0, 0.0, 0.0)[0], example)
        else:
            first = (right - operator.matvec(x)).detach()
    return (root_at(call, F.cat([first, x]), *captured, linear=linear)[m:], *statistics)
