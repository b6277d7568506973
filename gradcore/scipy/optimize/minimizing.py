"""``minimize``, ``minimize_scalar`` and ``least_squares``: SciPy's methods with exact derivatives.

The solution is differentiated by the implicit function theorem; active bounds and constraints are assumed to stay so.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from gradcore import functional as F
from gradcore.autograd.grad_mode import no_grad
from gradcore.core.typing import AnyArray, AnyTensor
from gradcore.func import grad, vjp
from gradcore.numpy.conversion import inexact, tensor_of
from gradcore.scipy.implicit import solution
from gradcore.scipy.optimize.unknowns import Unknowns
from gradcore.scipy.required import scipy_module

__all__ = ["curve_fit", "least_squares", "minimize", "minimize_scalar", "nnls"]

_WITHOUT_GRADIENT = {"nelder-mead", "powell", "cobyla", "cobyqa"}
_WITH_PRODUCTS = {"newton-cg", "trust-ncg", "trust-krylov", "trust-constr"}
_WITH_HESSIAN = {"dogleg", "trust-exact"}


def minimize(
    fun: Callable[..., Any],
    x0: Any,
    args: Any = (),
    method: Any = None,
    jac: Any = None,
    hess: Any = None,
    hessp: Any = None,
    bounds: Any = None,
    constraints: Any = (),
    tol: float | None = None,
    callback: Any = None,
    options: Any = None,
) -> Any:
    """Minimise a function by SciPy's methods, with exact gradients and, if the method uses them, Hessian products.

    Parameters
    ----------
    fun : callable
        The objective: takes the unknowns and `args`, and returns one number.
    x0 : array_like or nested containers of tensors
        The initial guess, which has no derivative. The unknowns passed to ``fun`` and the result's ``x`` have its
        structure.
    args : tuple
    method : str
        Any method of SciPy.
    jac, hess, hessp : None
        Derivatives are computed exactly; functions for them are refused.
    bounds, constraints
        As in SciPy. Functions of constraints take the unknowns, and their Jacobians are exact as well.
    tol, callback, options
        As in SciPy.

    Returns
    -------
    scipy.optimize.OptimizeResult
        SciPy's result, in which ``x`` and ``fun`` are tensors. They are differentiable with respect to `args` and the
        tensors that the objective and active constraints close over. The derivatives are those of the minimum itself,
        independent of the method; they solve a system with the Hessian there.

    Examples
    --------
    >>> import gradcore as gc
    >>> from gradcore.scipy import optimize
    >>> a = gc.tensor([1.0, 3.0], dtype=gc.float64, requires_grad=True)
    >>> found = optimize.minimize(lambda x: ((x - a) ** 2).sum() + x.prod(), [0.0, 0.0], method="BFGS")
    >>> found.x.detach()
    tensor([-0.6667,  3.3333], dtype=torch.float64)
    >>> gc.autograd.grad(found.x.sum(), a)[0]
    tensor([0.6667, 0.6667], dtype=torch.float64)
    """
    if any(each is not None for each in (jac, hess, hessp)):
        raise TypeError("minimize() of tensors has exact derivatives: leave jac, hess and hessp out")
    unknowns = Unknowns(x0, args)
    f = unknowns.scalar(fun)
    name = method.lower() if isinstance(method, str) else method
    derivatives: dict[str, Any] = {}
    if name in _WITH_PRODUCTS:
        derivatives["hessp"] = unknowns.hessian_product(f)
    if name in _WITH_HESSIAN:
        derivatives["hess"] = unknowns.hessian(f)
    if name in _WITHOUT_GRADIENT:
        objective = lambda x: float(unknowns.wrap_for_host(f)(x))  # noqa: E731
    else:
        objective, derivatives["jac"] = unknowns.value_and_gradient(f), True
    active = _Constraints(constraints, unknowns)
    result = scipy_module("optimize").minimize(
        objective, unknowns.start, method=method, bounds=bounds, constraints=active.for_scipy, tol=tol,
        callback=_callback(callback, unknowns), options=options, **derivatives,
    )  # fmt: skip
    x = _stationary(f, unknowns, result, _mask_fixed(bounds, result.x), active)
    result.x, result.fun = unknowns.nest(x), f(x)
    return result


def _callback(callback: Any, unknowns: Unknowns) -> Any:
    if callback is None or list(inspect.signature(callback).parameters) == ["intermediate_result"]:
        return callback
    return lambda x, *rest: callback(unknowns.nest(unknowns.tensor(x)), *rest)


def _mask_fixed(bounds: Any, x: AnyArray) -> AnyArray:
    """Return the mask of the elements of `x` that lie on a bound."""
    if bounds is None:
        return np.zeros(len(x), bool)
    if hasattr(bounds, "lb"):
        low, high = bounds.lb, bounds.ub
    else:
        low, high = zip(*((-np.inf if a is None else a, np.inf if b is None else b) for a, b in bounds), strict=True)
    close = 1e-8 * np.maximum(1.0, np.abs(x))
    return np.asarray((x - np.asarray(low, float) <= close) | (np.asarray(high, float) - x <= close))


class _Constraints:
    """The constraints of a problem: converted for SciPy, with exact Jacobians, and the active ones as a function."""

    def __init__(self, constraints: Any, unknowns: Unknowns) -> None:
        constraint_list = (
            [constraints] if isinstance(constraints, dict) or hasattr(constraints, "lb") else list(constraints)
        )
        self.unknowns = unknowns
        #: Function of a vector, lower and upper limits.
        self.parts: list[tuple[Callable[[AnyTensor], AnyTensor], Any, Any]] = []
        self.for_scipy: Any = [self._prepare_constraint(each) for each in constraint_list] or ()

    def _prepare_constraint(self, constraint: Any) -> Any:
        unknowns = self.unknowns
        if isinstance(constraint, dict):
            arguments = Unknowns.__new__(Unknowns)
            arguments.__dict__.update(unknowns.__dict__, args=tuple(constraint.get("args", ())))
            f = arguments.numbers(constraint["fun"])
            self.parts.append((f, 0.0, 0.0 if constraint["type"] == "eq" else np.inf))
            return {"type": constraint["type"], "fun": unknowns.wrap_for_host(f), "jac": unknowns.jacobian(f)}
        if hasattr(constraint, "A"):
            A = constraint.A.toarray() if hasattr(constraint.A, "toarray") else np.atleast_2d(constraint.A)
            self.parts.append(
                (lambda x: F.matmul(F.to(F.as_tensor(A, device=x.device), x.dtype), x), constraint.lb, constraint.ub)
            )
            return constraint
        arguments = Unknowns.__new__(Unknowns)
        arguments.__dict__.update(unknowns.__dict__, args=())
        f = arguments.numbers(constraint.fun)
        self.parts.append((f, constraint.lb, constraint.ub))
        return scipy_module("optimize").NonlinearConstraint(
            unknowns.wrap_for_host(f),
            constraint.lb,
            constraint.ub,
            jac=unknowns.jacobian(f),
            keep_feasible=constraint.keep_feasible,
        )

    def active(self, x: AnyTensor) -> Callable[[AnyTensor], list[AnyTensor]] | None:
        """Return a function of the vector: the active constraints' values less their limits. None if none is active."""
        active_parts = []
        for f, low, high in self.parts:
            with no_grad():
                values = f(x).host()
            close = 1e-6 * np.maximum(1.0, np.abs(values))
            at_low, at_high = np.abs(values - low) <= close, np.abs(values - high) <= close
            mask = at_low | at_high
            if mask.any():
                limits = np.where(at_low, np.broadcast_to(low, mask.shape), np.broadcast_to(high, mask.shape))
                active_parts.append((f, np.flatnonzero(mask), self.unknowns.tensor(limits[mask])))
        if not active_parts:
            return None
        return lambda x: [f(x)[F.as_tensor(i, device=x.device)] - limits for f, i, limits in active_parts]


#: Largest gradient of the Lagrangian, relative to the objective's value, at which a point counts as a minimum.
_STATIONARY = 1e-4


def _stationary(f: Any, unknowns: Unknowns, result: Any, fixed: AnyArray, constraints: _Constraints) -> AnyTensor:
    """Return the minimum as a differentiable function of the tensors that the objective and active constraints read.

    It is the point where the gradient of the Lagrangian is zero.
    """
    value = unknowns.tensor(result.x)
    n, free = len(result.x), F.as_tensor(~fixed, device=value.device)
    active = constraints.active(value)

    def objective_and_constraints(x: AnyTensor) -> Any:
        return f(x), ([] if active is None else active(x))

    def residual(both: Any, z: AnyTensor) -> AnyTensor:
        x, multipliers = z[:n], z[n:]
        slope = grad(lambda x: both(x)[0])(x)
        if active is None:
            return F.where(free, slope, x - value)
        limits, pull = vjp(lambda x: F.cat(both(x)[1]), x)
        return F.cat([F.where(free, slope - pull(multipliers)[0], x - value), limits])

    start = value
    if active is not None:
        with no_grad():
            slope = F.to(F.as_tensor(unknowns.gradient(f)(result.x), device=value.device), value.dtype)
            rows = F.as_tensor(unknowns.jacobian(lambda x: F.cat(active(x)))(result.x), device=value.device)
            rows = F.to(rows, value.dtype) * free
            start = F.cat([value, F.linalg_lstsq(rows.mT, (slope * free)[:, None]).solution[:, 0]])
    x = solution(objective_and_constraints, start, residual, value)[:n]
    if x.requires_grad and not result.success:
        # A solver that cannot reach its tolerance in floating point fails near the minimum, with a message that depends
        # on the last bit. Derivatives only need the gradient of the Lagrangian to be zero, so that is checked instead.
        gradient = residual(objective_and_constraints, start).detach().host()
        if not np.all(np.abs(gradient) <= _STATIONARY * max(1.0, abs(float(result.fun)))):
            warnings.warn(
                f"the solver did not converge ({result.message}); derivatives assume a minimum",
                RuntimeWarning, stacklevel=3,
            )  # fmt: skip
    return x


def minimize_scalar(
    fun: Callable[..., Any],
    bracket: Any = None,
    bounds: Any = None,
    args: Any = (),
    method: Any = None,
    tol: float | None = None,
    options: Any = None,
) -> Any:
    """Minimise a function of one number by SciPy's methods; ``x`` and ``fun`` are differentiable as in `minimize`.

    Examples
    --------
    >>> import gradcore as gc
    >>> from gradcore.scipy import optimize
    >>> a = gc.tensor(2.0, dtype=gc.float64, requires_grad=True)
    >>> found = optimize.minimize_scalar(lambda x: (x - a) ** 2 + x)
    >>> gc.autograd.grad(found.x, a)[0]
    tensor(1., dtype=torch.float64)
    """
    unknowns = Unknowns(0.0, args)
    f = unknowns.scalar(fun)
    value = unknowns.wrap_for_host(f)
    result = scipy_module("optimize").minimize_scalar(
        lambda x: float(value(np.array([x]))), bracket, bounds, (), method, tol, options
    )
    result.x = np.atleast_1d(result.x)
    x = _stationary(
        f, unknowns, result, _mask_fixed(None if bounds is None else [bounds], result.x), _Constraints((), unknowns)
    )
    result.x, result.fun = unknowns.nest(x), f(x)
    return result


# -- least squares ----------------------------------------------------------------------------------------------------

#: SciPy's robust losses, as functions of the squared residuals.
_LOSSES: dict[str, Callable[[AnyTensor], AnyTensor]] = {
    "linear": lambda z: z,
    "soft_l1": lambda z: 2 * ((1 + z) ** 0.5 - 1),
    "huber": lambda z: F.where(z <= 1, z, 2 * F.maximum(z, F.full_like(z, 1.0)) ** 0.5 - 1),
    "cauchy": lambda z: F.log1p(z),
    "arctan": lambda z: F.atan(z),
}


def least_squares(
    fun: Callable[..., Any],
    x0: Any,
    jac: str = "2-point",
    bounds: Any = (-np.inf, np.inf),
    method: str = "trf",
    ftol: float | None = 1e-8,
    xtol: float | None = 1e-8,
    gtol: float | None = 1e-8,
    x_scale: Any = None,
    loss: str = "linear",
    f_scale: float = 1.0,
    diff_step: Any = None,
    tr_solver: Any = None,
    tr_options: Any = None,
    jac_sparsity: Any = None,
    max_nfev: Any = None,
    verbose: int = 0,
    args: Any = (),
    kwargs: Any = None,
    **further: Any,
) -> Any:
    """Minimise a sum of squares by SciPy's methods, with exact Jacobians.

    Parameters
    ----------
    fun : callable
        Takes the unknowns and `args`, and returns the residuals.
    x0 : array_like or nested containers of tensors
        The starting point, see `minimize`.
    jac : str
        Accepted as in SciPy, and ignored: Jacobians are exact.
    loss : {"linear", "soft_l1", "huber", "cauchy", "arctan"}

    Returns
    -------
    scipy.optimize.OptimizeResult
        SciPy's result, in which ``x``, ``cost`` and ``fun`` are tensors that are differentiable as in `minimize`.
        Unknowns on a bound are constants.

    Examples
    --------
    >>> import gradcore as gc
    >>> from gradcore.scipy import optimize
    >>> data = gc.tensor([1.0, 2.0, 4.0], dtype=gc.float64, requires_grad=True)
    >>> found = optimize.least_squares(lambda x: x[0] - data, [0.0])
    >>> gc.autograd.grad(found.x[0], data)[0]
    tensor([0.3333, 0.3333, 0.3333], dtype=torch.float64)
    """
    if callable(jac) or callable(loss):
        raise TypeError(
            "least_squares() of tensors has exact Jacobians: leave jac out, and choose the loss by its name"
        )
    unknowns = Unknowns(x0, args)
    f = unknowns.numbers(lambda x, *args: fun(x, *args, **(kwargs or {})))
    settings = {
        "bounds": bounds, "method": method, "ftol": ftol, "xtol": xtol, "gtol": gtol, "loss": loss, "f_scale": f_scale,
        "tr_solver": tr_solver, "tr_options": tr_options or {}, "jac_sparsity": jac_sparsity, "max_nfev": max_nfev,
        "verbose": verbose, **further,
    }  # fmt: skip
    if x_scale is not None:
        settings["x_scale"] = x_scale
    result = scipy_module("optimize").least_squares(
        unknowns.wrap_for_host(f), unknowns.start, jac=unknowns.jacobian(f), **settings
    )

    def cost(x: AnyTensor) -> AnyTensor:
        return F.sum(_LOSSES[loss]((f(x) / f_scale) ** 2)) * (f_scale**2 / 2)

    x = _stationary(cost, unknowns, result, np.asarray(result.active_mask) != 0, _Constraints((), unknowns))
    result.x, result.fun, result.cost = unknowns.nest(x), f(x), cost(x)
    return result


def curve_fit(
    f: Callable[..., Any],
    xdata: Any,
    ydata: Any,
    p0: Any = None,
    sigma: Any = None,
    absolute_sigma: bool = False,
    check_finite: bool = True,
    bounds: Any = (-np.inf, np.inf),
    method: str | None = None,
    **others: Any,
) -> tuple[AnyTensor, AnyTensor]:
    """Fit a function to data, and return its parameters and their covariance matrix.

    Both are differentiable with respect to `xdata`, `ydata`, `sigma` and the tensors that `f` closes over.

    Parameters
    ----------
    f : callable
        Takes `xdata` and then each parameter as an argument.
    xdata, ydata : array_like
    p0 : array_like, optional
        The initial guess; ones by default.
    sigma : array_like, optional
        The standard deviations of `ydata`, or their covariance matrix.
    absolute_sigma : bool
        Whether `sigma` is in absolute units, rather than relative weights.
    bounds : pair of array_like
    method : {"lm", "trf", "dogbox"}, optional

    Examples
    --------
    >>> import gradcore as gc
    >>> from gradcore.scipy import optimize
    >>> x = gc.linspace(0, 1, 5, dtype=gc.float64)
    >>> optimize.curve_fit(lambda x, a, b: a * gc.exp(b * x), x, 2 * gc.exp(-x))[0].round(decimals=4)
    tensor([ 2., -1.], dtype=torch.float64)
    """
    x, y = tensor_of(xdata), F.reshape(inexact(tensor_of(ydata)), (-1,))
    if check_finite and not bool(F.all(F.isfinite(y))):
        raise ValueError("array must not contain infs or NaNs")
    count = len(inspect.signature(f).parameters) - 1
    start = np.ones(count) if p0 is None else p0
    weights = None if sigma is None else inexact(tensor_of(sigma))
    factor = F.linalg_cholesky(weights) if weights is not None and weights.ndim == 2 else None

    def residuals(p: AnyTensor) -> AnyTensor:
        residuals = F.reshape(tensor_of(f(x, *(p[i] for i in range(p.shape[0])))), (-1,)) - y
        if factor is not None:
            return F.linalg_solve_triangular(factor, residuals[:, None], upper=False)[:, 0]
        return residuals if weights is None else residuals / weights

    bounded = np.any(np.isfinite(np.asarray(bounds[0], float))) or np.any(np.isfinite(np.asarray(bounds[1], float)))
    result = least_squares(residuals, start, bounds=bounds, method=method or ("trf" if bounded else "lm"), **others)
    if not result.success:
        raise RuntimeError(f"Optimal parameters not found: {result.message}")
    from gradcore.func import jacfwd

    rows = jacfwd(residuals)(result.x)
    covariance = F.linalg_pinv(F.matmul(rows.mT, rows))
    if not absolute_sigma:
        degrees = y.shape[0] - result.x.shape[0]
        covariance = covariance * (2 * result.cost / degrees if degrees > 0 else float("inf"))
    return result.x, covariance


def nnls(A: Any, b: Any, *, maxiter: int | None = None) -> tuple[AnyTensor, AnyTensor]:
    """Minimise ``|A @ x - b|`` for non-negative `x`, and return `x` and the norm of the residual.

    Both are differentiable with respect to `A` and `b`; elements of `x` that are zero are constants.

    Examples
    --------
    >>> from gradcore.scipy import optimize
    >>> optimize.nnls([[1.0, 0.0], [0.0, 1.0]], [2.0, -1.0])
    (tensor([2., 0.], dtype=torch.float64), tensor(1., dtype=torch.float64))
    """
    matrix, right = inexact(tensor_of(A)), inexact(tensor_of(b))
    solution_host, _ = scipy_module("optimize").nnls(matrix.detach().host(), right.detach().host(), maxiter=maxiter)
    index = F.as_tensor(np.flatnonzero(solution_host > 0), device=matrix.device)
    columns = matrix[:, index]
    x = (
        F.index_copy(F.zeros_like(matrix[0]), 0, index, F.matmul(F.linalg_pinv(columns), right))
        if len(index)
        else (F.zeros_like(matrix[0]))
    )
    return x, F.linalg_vector_norm(F.matmul(matrix, x) - right)
