"""Linear operators, which define a matrix by its products with vectors, and solutions of systems with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradcore import functional as F
from gradcore.autograd.function import Function
from gradcore.autograd.grad_mode import no_grad
from gradcore.core.typing import AnyTensor
from gradcore.func import jvp, vjp
from gradcore.scipy.closures import capture
from gradcore.scipy.conversion import floating, like
from gradcore.scipy.required import scipy_module
from gradcore.sparse.tensor import COO, SparseTensor
from gradcore.tensor import Tensor

__all__ = ["LinearOperator", "aslinearoperator", "operator_solved"]


class LinearOperator:
    """A matrix that is defined by a function for its products with vectors.

    Solutions are differentiable with respect to the tensors that the functions close over.

    Parameters
    ----------
    shape : (int, int)
    matvec : callable
        Takes a vector, and returns the product of the matrix with it; both are tensors.
    rmatvec : callable, optional
        Returns the product of the conjugate transposed matrix with a vector; computed by reverse mode by default.
    dtype : dtype, optional

    Examples
    --------
    >>> import gradcore as gc
    >>> from gradcore.scipy.sparse.linalg import LinearOperator, cg
    >>> k = gc.tensor(3.0, requires_grad=True)
    >>> x, info = cg(LinearOperator((2, 2), matvec=lambda v: k * v), gc.tensor([3.0, 6.0]))
    >>> x.sum().backward()
    >>> x.detach(), k.grad
    (tensor([1., 2.]), tensor(-1.))
    """

    ndim = 2

    def __init__(
        self, shape: Any, matvec: Callable[..., Any], rmatvec: Callable[..., Any] | None = None, dtype: Any = None
    ) -> None:
        self.shape, self.dtype = tuple(map(int, shape)), dtype
        self._matvec, self._rmatvec = matvec, rmatvec

    def __repr__(self) -> str:
        return f"<{self.shape[0]}x{self.shape[1]} LinearOperator of gradcore>"

    def matvec(self, x: Any) -> AnyTensor:
        """Return the product with a vector."""
        if tuple(x.shape) not in ((self.shape[1],), (self.shape[1], 1)):
            raise ValueError("dimension mismatch")
        return F.reshape(self._matvec(F.reshape(x, (-1,))), (self.shape[0], *x.shape[1:]))

    def rmatvec(self, x: Any) -> AnyTensor:
        """Return the product of the conjugate transposed matrix with a vector."""
        if tuple(x.shape) not in ((self.shape[0],), (self.shape[0], 1)):
            raise ValueError("dimension mismatch")
        flat = F.reshape(x, (-1,))
        if self._rmatvec is not None:
            result = self._rmatvec(flat)
        else:
            result = vjp(self._matvec, F.new_zeros(flat, (self.shape[1],)))[1](flat)[0]
        return F.reshape(result, (self.shape[1], *x.shape[1:]))

    def matmat(self, X: Any) -> AnyTensor:
        """Return the product with the columns of a matrix."""
        return F.stack([self.matvec(column) for column in F.unbind(X, 1)], 1)

    def dot(self, x: Any) -> AnyTensor:
        """Return the product with a vector or a matrix."""
        return self.matvec(x) if x.ndim == 1 or x.shape[1:] == (1,) else self.matmat(x)

    __matmul__ = __call__ = dot

    def adjoint(self) -> LinearOperator:
        """Return the conjugate transposed matrix as an operator."""
        return LinearOperator(self.shape[::-1], self.rmatvec, self.matvec, self.dtype)

    H = property(adjoint, doc="The operator of the conjugate transposed matrix.")


def aslinearoperator(A: Any) -> LinearOperator:
    """Convert a dense or sparse matrix to a linear operator.

    Examples
    --------
    >>> import gradcore as gc
    >>> from gradcore.scipy.sparse.linalg import aslinearoperator
    >>> aslinearoperator(gc.eye(2)).rmatvec(gc.ones(2))
    tensor([1., 1.])
    """
    if isinstance(A, LinearOperator):
        return A
    if not isinstance(A, Tensor):
        A = floating(A)
    if isinstance(A, SparseTensor) and A.layout is COO:
        A = A.coalesce()  # so that all products read the same values
    return LinearOperator(A.shape, lambda x: A @ x, lambda x: A.mH @ x, A.dtype)


class _Method:
    """An iterative solver of SciPy with its settings."""

    def __init__(self, name: str, settings: dict[str, Any], x0: Any, M: Any) -> None:
        self.name, self.settings, self.x0, self.M, self.info = name, settings, x0, M, 0

    def adjoint(self) -> _Method:
        """Return the solver for the adjoint system: it starts from zero, with the adjoint preconditioner."""
        settings = {name: value for name, value in self.settings.items() if name != "callback"}
        return _Method(self.name, settings, None, None if self.M is None else self.M.H)

    def run(self, product: Callable[..., Any], adjoint: Callable[..., Any], b: AnyTensor) -> AnyTensor:
        """Solve on the host, without recording, and set `info` to SciPy's convergence code."""
        module = scipy_module("sparse.linalg")

        def wrap_for_host(function: Callable[..., Any]) -> Callable[..., Any]:
            return lambda v: function(like(v.reshape(-1), b)).detach().host()

        n = b.shape[0]
        operator = module.LinearOperator((n, n), wrap_for_host(product), wrap_for_host(adjoint), dtype=b.dtype.numpy)
        solution, self.info = getattr(module, self.name)(
            operator, b.detach().host(), self.x0, M=self.M, **self.settings
        )
        return like(np.asarray(solution), b)


class _OperatorSolved(Function):
    """Solution of a system, differentiable with respect to the right side and the tensors that the operator reads."""

    @staticmethod
    def forward(ctx: Any, method: _Method, call: Any, strict: bool, b: Any, *captured: Any) -> Any:
        def adjoint(y: AnyTensor) -> Any:
            return vjp(lambda v: call(captured, v), F.zeros_like(y))[1](y)[0]

        x = method.run(lambda v: call(captured, v), adjoint, b)
        if strict and method.info:
            raise RuntimeError(f"{method.name} did not converge for the gradient (info={method.info})")
        ctx.method, ctx.call = method, call
        ctx.save_for_backward(x, *captured)
        ctx.save_for_forward(x, *captured)
        return x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x, *captured), call = ctx.saved_tensors, ctx.call

        def adjoint(values: Any, y: AnyTensor) -> Any:
            return vjp(lambda v: call(values, v), F.zeros_like(y))[1](y)[0]

        by_b = _OperatorSolved.apply(ctx.method.adjoint(), adjoint, True, grad, *captured)
        if not captured:
            return None, None, None, by_b
        _, pull = vjp(lambda *values: call(values, x), *captured)
        return None, None, None, by_b, *pull(-by_b)

    @staticmethod
    def jvp(ctx: Any, _method: Any, _call: Any, _strict: Any, b_t: Any, *tangents: Any) -> Any:
        (x, *captured), call = ctx.saved_tensors, ctx.call
        change = F.zeros_like(x) if b_t is None else b_t
        known_tangents = [(i, t) for i, t in enumerate(tangents) if t is not None]
        if known_tangents:

            def at(*values: Any) -> Any:
                changed = dict(zip((i for i, _ in known_tangents), values, strict=True))
                return call([changed.get(i, c) for i, c in enumerate(captured)], x)

            change = (
                change - jvp(at, tuple(captured[i] for i, _ in known_tangents), tuple(t for _, t in known_tangents))[1]
            )
        return _OperatorSolved.apply(ctx.method.adjoint().adjoint(), call, True, change, *captured)


def operator_solved(
    name: str, A: LinearOperator, b: Any, x0: Any, M: Any, settings: dict[str, Any]
) -> tuple[AnyTensor, int]:
    """Solve ``A @ x = b`` by an iterative method of SciPy, and return the solution and SciPy's convergence code."""
    right = floating(b)
    if A.shape != (right.shape[0],) * 2 or right.ndim > 2 or right.shape[1:] not in ((), (1,)):
        raise ValueError(f"shapes of A {A.shape} and b {tuple(right.shape)} are incompatible")
    flat = F.reshape(right, (-1,))
    call, captured = capture(A.matvec, flat.detach())
    start = x0.detach().host() if isinstance(x0, Tensor) else x0
    method = _Method(name, settings, start, _preconditioner(M, flat))
    x = _OperatorSolved.apply(method, call, False, flat, *captured)
    return F.reshape(x, right.shape), method.info


def _preconditioner(M: Any, b: AnyTensor) -> Any:
    """Convert a preconditioner to a SciPy operator, without a history."""
    module = scipy_module("sparse.linalg")
    if M is None:
        return None
    if isinstance(M, LinearOperator):

        def wrap_for_host(product: Callable[..., Any]) -> Callable[..., Any]:
            def call(v: Any) -> Any:
                with no_grad():
                    return product(like(v.reshape(-1), b)).host()

            return call

        return module.LinearOperator(M.shape, wrap_for_host(M.matvec), wrap_for_host(M.rmatvec), dtype=b.dtype.numpy)
    return module.aslinearoperator(M.detach().host() if isinstance(M, Tensor) else M)
