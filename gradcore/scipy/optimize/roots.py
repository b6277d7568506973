"""Roots and fixed points, computed by SciPy's methods and differentiated by the implicit function theorem."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradcore import functional as F
from gradcore.core.typing import AnyTensor
from gradcore.func import grad
from gradcore.numpy.conversion import tensor_of
from gradcore.scipy.implicit import solution
from gradcore.scipy.optimize.unknowns import Unknowns
from gradcore.scipy.required import scipy_module

__all__ = [
    "bisect", "brenth", "brentq", "fixed_point", "fsolve", "linear_sum_assignment", "newton", "ridder", "root",
    "root_scalar", "toms748",
]  # fmt: skip


def root(
    fun: Callable[..., Any],
    x0: Any,
    args: Any = (),
    method: str = "hybr",
    jac: Any = None,
    tol: float | None = None,
    callback: Any = None,
    options: Any = None,
) -> Any:
    """Find a root of a vector function by SciPy's methods, with exact Jacobians.

    Parameters
    ----------
    fun : callable
        Takes the unknowns and `args`, and returns as many numbers as there are unknowns.
    x0 : array_like or nested containers of tensors
        The initial guess, which has no derivative. The unknowns passed to ``fun`` and the result's ``x`` have its
        structure.
    args : tuple
    method : str
        Any method of SciPy.

    Returns
    -------
    scipy.optimize.OptimizeResult
        SciPy's result, in which ``x`` is a tensor. It is differentiable, to every order, with respect to `args` and the
        tensors that `fun` closes over. ``fun`` holds the residuals, without a history.

    Examples
    --------
    >>> import gradcore as gc
    >>> from gradcore.scipy import optimize
    >>> a = gc.tensor([4.0, 9.0], dtype=gc.float64, requires_grad=True)
    >>> found = optimize.root(lambda x: x**2 - a, [1.0, 1.0])
    >>> gc.autograd.grad(found.x.sum(), a)[0]
    tensor([0.2500, 0.1667], dtype=torch.float64)
    """
    if jac not in (None, False):
        raise TypeError("root() of tensors has exact Jacobians: leave jac out")
    unknowns = Unknowns(x0, args)
    f = unknowns.numbers(fun)
    exact = {"jac": unknowns.jacobian(f)} if method in ("hybr", "lm") else {}
    if callback is not None:
        original_callback = callback
        callback = lambda x, *rest: original_callback(unknowns.nest(unknowns.tensor(x)), *rest)  # noqa: E731
    result = scipy_module("optimize").root(
        unknowns.wrap_for_host(f), unknowns.start, method=method, tol=tol, callback=callback, options=options, **exact
    )
    result.x = unknowns.nest(solution(f, unknowns.tensor(np.asarray(result.x))))
    result.fun = unknowns.tensor(np.asarray(result.fun))
    return result


def fixed_point(
    func: Callable[..., Any],
    x0: Any,
    args: Any = (),
    xtol: float = 1e-8,
    maxiter: int = 500,
    method: str = "del2",
) -> Any:
    """Find a fixed point of a function; it is differentiable as in `root`.

    Examples
    --------
    >>> import gradcore as gc
    >>> from gradcore.scipy import optimize
    >>> a = gc.tensor(0.5, dtype=gc.float64, requires_grad=True)
    >>> x = optimize.fixed_point(lambda x: gc.cos(a * x), 1.0)
    >>> x.detach()
    tensor(0.9004, dtype=torch.float64)
    >>> gc.autograd.grad(x, a)[0]
    tensor(-0.3218, dtype=torch.float64)
    """
    unknowns = Unknowns(x0, args)
    f = unknowns.numbers(func)
    point = scipy_module("optimize").fixed_point(unknowns.wrap_for_host(f), unknowns.start, (), xtol, maxiter, method)
    return unknowns.nest(solution(lambda x: x - f(x), unknowns.tensor(point)))


def _scalar_function(f: Any, args: Any, like: Any = 0.0) -> tuple[Unknowns, Any]:
    unknowns = Unknowns(0.0 if like is None else like, args)
    return unknowns, unknowns.scalar(f)


def _number(unknowns: Unknowns, f: Any) -> Callable[[float], float]:
    on_host = unknowns.wrap_for_host(f)
    return lambda x: float(on_host(np.array([x])))


def _slopes(unknowns: Unknowns, f: Any) -> tuple[Any, Any]:
    """Return the first and second derivative of a function of one number, as functions for SciPy."""
    first = lambda x: F.reshape(grad(f)(x), ())  # noqa: E731
    return _number(unknowns, first), _number(unknowns, lambda x: F.reshape(grad(first)(x), ()))


def _root_of(unknowns: Unknowns, f: Any, value: float) -> AnyTensor:
    return unknowns.nest(solution(lambda x: F.reshape(f(x), (1,)), unknowns.tensor(np.array([value]))))


def fsolve(
    func: Callable[..., Any],
    x0: Any,
    args: Any = (),
    *,
    xtol: float = 1.49012e-8,
    maxfev: int = 0,
) -> Any:
    """Find a root of a vector function by Powell's hybrid method; differentiable as in `root`.

    Raises
    ------
    RuntimeError
        If no root was found. SciPy only warns, but a point that is no root has no derivatives.

    Examples
    --------
    >>> import gradcore as gc
    >>> from gradcore.scipy import optimize
    >>> a = gc.tensor([4.0, 9.0], dtype=gc.float64, requires_grad=True)
    >>> optimize.fsolve(lambda x: x**2 - a, [1.0, 1.0]).sum().backward()
    >>> a.grad
    tensor([0.2500, 0.1667], dtype=torch.float64)
    """
    result = root(func, x0, args, "hybr", options={"xtol": xtol, "maxfev": maxfev})
    if not result.success:
        raise RuntimeError(f"fsolve: {result.message}")
    return result.x


def root_scalar(
    f: Callable[..., Any],
    args: Any = (),
    method: str | None = None,
    bracket: Any = None,
    fprime: Any = None,
    fprime2: Any = None,
    x0: Any = None,
    x1: Any = None,
    xtol: float | None = None,
    rtol: float | None = None,
    maxiter: int | None = None,
    options: Any = None,
) -> Any:
    """Find a root of a function of one number by SciPy's methods; Newton's and Halley's use exact derivatives.

    Returns
    -------
    scipy.optimize.RootResults
        SciPy's result, in which ``root`` is a tensor that is differentiable as in `root`.

    Examples
    --------
    >>> import gradcore as gc
    >>> from gradcore.scipy import optimize
    >>> a = gc.tensor(2.0, dtype=gc.float64, requires_grad=True)
    >>> found = optimize.root_scalar(lambda x: x**3 - a, bracket=(0, 2))
    >>> gc.autograd.grad(found.root, a)[0]
    tensor(0.2100, dtype=torch.float64)
    """
    if callable(fprime) or callable(fprime2):
        raise TypeError("root_scalar() of tensors has exact derivatives: leave fprime and fprime2 out")
    unknowns, function = _scalar_function(f, args, x0)
    derivatives: dict[str, Any] = {}
    if bracket is None and x1 is None and method is None and x0 is not None:
        method = "newton"
    if method in ("newton", "halley"):
        first, second = _slopes(unknowns, function)
        derivatives = {"fprime": first} | ({"fprime2": second} if method == "halley" else {})
    result = scipy_module("optimize").root_scalar(
        _number(unknowns, function), (), method, bracket, x0=None if x0 is None else float(x0),
        x1=None if x1 is None else float(x1), xtol=xtol, rtol=rtol, maxiter=maxiter, options=options, **derivatives,
    )  # fmt: skip
    result.root = _root_of(unknowns, function, result.root)
    return result


def newton(
    func: Callable[..., Any],
    x0: Any,
    fprime: Any = None,
    args: Any = (),
    tol: float = 1.48e-8,
    maxiter: int = 50,
    fprime2: Any = None,
    x1: Any = None,
    rtol: float = 0.0,
    full_output: bool = False,
    disp: bool = True,
) -> Any:
    """Find a root of a function of one number by Newton's method, or by the secant method if `x1` is given.

    Newton's method uses exact derivatives. The root is differentiable as in `root`.

    Examples
    --------
    >>> from gradcore.scipy import optimize
    >>> optimize.newton(lambda x: x**2 - 2, 1.0)
    tensor(1.4142, dtype=torch.float64)
    """
    if callable(fprime) or callable(fprime2):
        raise TypeError("newton() of tensors has exact derivatives: leave fprime and fprime2 out")
    unknowns, function = _scalar_function(func, args, x0)
    if unknowns.start.size != 1:
        raise TypeError("newton() of tensors finds the root of one number; use root() for several")
    slope = None if x1 is not None else _slopes(unknowns, function)[0]
    result = scipy_module("optimize").newton(
        _number(unknowns, function),
        float(unknowns.start[0]),
        slope,
        (),
        tol,
        maxiter,
        None,
        x1,
        rtol,
        full_output,
        disp,
    )
    value = _root_of(unknowns, function, result[0] if full_output else result)
    return (value, result[1]) if full_output else value


def _wrap_bracketing(name: str) -> Callable[..., Any]:
    def find(
        f: Callable[..., Any],
        a: float,
        b: float,
        args: Any = (),
        xtol: float = 2e-12,
        rtol: float = 4 * float(np.finfo(float).eps),
        maxiter: int = 100,
        full_output: bool = False,
        disp: bool = True,
    ) -> Any:
        unknowns, function = _scalar_function(f, args)
        result = getattr(scipy_module("optimize"), name)(
            _number(unknowns, function), float(a), float(b), xtol=xtol, rtol=rtol, maxiter=maxiter,
            full_output=full_output, disp=disp,
        )  # fmt: skip
        value = _root_of(unknowns, function, result[0] if full_output else result)
        return (value, result[1]) if full_output else value

    find.__name__ = find.__qualname__ = name
    find.__doc__ = f"""Find a root between two numbers by SciPy's ``{name}``, with derivatives as those of `root`.

    Examples
    --------
    >>> from gradcore.scipy import optimize
    >>> optimize.{name}(lambda x: x**2 - 2, 0, 2)
    tensor(1.4142, dtype=torch.float64)
    """
    return find


bisect, brenth, brentq, ridder, toms748 = map(_wrap_bracketing, ("bisect", "brenth", "brentq", "ridder", "toms748"))


def linear_sum_assignment(cost_matrix: Any, maximize: bool = False) -> tuple[AnyTensor, AnyTensor]:
    """Return the row and column indices of an assignment of minimal cost; they have no derivative.

    Examples
    --------
    >>> from gradcore.scipy import optimize
    >>> optimize.linear_sum_assignment([[4.0, 1.0], [2.0, 3.0]])
    (tensor([0, 1]), tensor([1, 0]))
    """
    cost = tensor_of(cost_matrix)
    rows, columns = scipy_module("optimize").linear_sum_assignment(cost.detach().host(), maximize)
    return F.as_tensor(rows, device=cost.device), F.as_tensor(columns, device=cost.device)
