"""Integrals of functions: Gaussian rules of fixed order, and adaptive rules, whose nodes are constants in backward."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from gradcore import functional as F
from gradcore.autograd.grad_mode import no_grad
from gradcore.core.typing import AnyTensor
from gradcore.numpy.conversion import inexact, promote, tensor_of
from gradcore.tensor import Tensor

__all__ = ["dblquad", "fixed_quad", "quad", "quad_vec"]


def fixed_quad(func: Callable[..., Any], a: Any, b: Any, args: Any = (), n: int = 5) -> tuple[AnyTensor, None]:
    """Integrate a function by Gaussian quadrature of order `n`.

    The integral is differentiable with respect to `a`, `b`, `args` and the tensors that `func` closes over.

    Parameters
    ----------
    func : callable
        Takes a vector of points, and returns values along the last dim.
    a, b : float or Tensor
    args : tuple
        Further arguments of `func`.
    n : int

    Returns
    -------
    tuple
        The integral, and None as in SciPy.

    Examples
    --------
    >>> from gradcore.scipy import integrate
    >>> round(integrate.fixed_quad(lambda x: x**2, 0.0, 3.0)[0].item(), 6)
    9.0
    """
    nodes, weights = np.polynomial.legendre.leggauss(n)
    start, end = _limits(a, b)
    if bool(F.isinf(start)) or bool(F.isinf(end)):
        raise ValueError("Gaussian quadrature is only available for finite limits.")
    x, w = _like(nodes, start), _like(weights, start)
    return (end - start) / 2 * F.sum(w * func((end - start) * (x + 1) / 2 + start, *args), -1), None


def _limits(a: Any, b: Any) -> list[Tensor]:
    return [inexact(t) for t in promote(tensor_of(a), tensor_of(b))]


def _like(array: Any, t: Tensor) -> AnyTensor:
    return F.to(F.as_tensor(array, device=t.device), t.dtype)


#: The Gauss-Kronrod rule of 21 points: its non-negative nodes, with both kinds of weights.
_NODES = np.array([
    0.995657163025808080735527280689003, 0.973906528517171720077964012084452, 0.930157491355708226001207180059508,
    0.865063366688984510732096688423493, 0.780817726586416897063717578345042, 0.679409568299024406234327365114874,
    0.562757134668604683339000099272694, 0.433395394129247190799265943165784, 0.294392862701460198131126603103866,
    0.14887433898163121088482600112972, 0.0,
])  # fmt: skip
_KRONROD = np.array([
    0.011694638867371874278064396062192, 0.03255816230796472747881897245939, 0.05475589657435199603138130024458,
    0.07503967481091995276704314091619, 0.093125454583697605535065465083366, 0.109387158802297641899210590325805,
    0.123491976262065851077958109585166, 0.134709217311473325928054001771707, 0.142775938577060080797094273138717,
    0.147739104901338491374841515972068, 0.149445554002916905664936468389821,
])  # fmt: skip
_GAUSS = np.array([
    0.066671344308688137593568809893332, 0.149451349150580593145863396957658, 0.219086362515982043995534934228163,
    0.269266719309996355091226921569469, 0.295524224714752870173815619188769,
])  # fmt: skip


def _rule() -> tuple[Any, Any, Any]:
    """Return the nodes in [0, 1], the weights of Kronrod's rule, and those of Gauss's rule."""
    nodes = np.concatenate([-_NODES[:-1], _NODES[::-1]])
    kronrod = np.concatenate([_KRONROD[:-1], _KRONROD[::-1]])
    gauss = np.zeros(21)
    gauss[1:10:2] = _GAUSS
    gauss[11:20:2] = _GAUSS[::-1]
    return (nodes + 1) / 2, kronrod / 2, gauss / 2


def _map_to_unit_interval(func: Callable[[Any], Any], a: AnyTensor, b: AnyTensor) -> Callable[[float], Any]:
    """Return the integrand after a substitution that maps the interval to [0, 1].

    The substitution is affine for finite limits, and rational for infinite ones.
    """
    low, high = a.item(), b.item()

    def finite(s: float) -> Any:
        return (b - a) * func(a + (b - a) * s)

    def upwards(s: float) -> Any:
        return func(a + s / (1 - s)) / (1 - s) ** 2

    def downwards(s: float) -> Any:
        return func(b - s / (1 - s)) / (1 - s) ** 2

    def substitute(s: float) -> Any:
        x, slope = (2 * s - 1) / (s * (1 - s)), (2 * s * s - 2 * s + 1) / (s * (1 - s)) ** 2
        return func(F.full_like(a.detach(), x)) * slope

    if np.isfinite(low) and np.isfinite(high):
        return finite
    if low == high:
        return lambda s: F.zeros_like(func(F.zeros_like(a)))
    if low > high:
        swapped = _map_to_unit_interval(func, b, a)
        return lambda s: -swapped(s)
    if np.isfinite(low):
        return upwards
    return downwards if np.isfinite(high) else substitute


def _adaptive(
    integrand: Callable[[float], Any], epsabs: float, epsrel: float, limit: int, breaks: list[float]
) -> tuple[AnyTensor, float, int, list[tuple[float, float]]]:
    """Compute the integral over [0, 1], its error, the number of intervals and the intervals.

    The intervals are chosen without recording; then the integrand is evaluated on them once more with its history.
    """
    nodes, kronrod, gauss = _rule()

    def values(low: float, high: float) -> AnyTensor:
        return F.stack([_value(integrand(low + (high - low) * s)) for s in nodes])

    def integral(values: AnyTensor, weights: Any) -> AnyTensor:
        return F.tensordot(
            _like(weights, F.real(values) if F.is_complex(values) else values).to(values.dtype), values, 1
        )

    def estimate(low: float, high: float) -> tuple[float, AnyTensor, float, float]:
        samples = values(low, high)
        fine = integral(samples, kronrod) * (high - low)
        error = F.amax(F.abs(fine - integral(samples, gauss) * (high - low))).item()
        return error, fine, low, high

    edges = [0.0, *sorted(breaks), 1.0]
    with no_grad():
        parts = [estimate(low, high) for low, high in pairwise(edges)]
        while len(parts) < limit:
            total = sum(part[1] for part in parts)
            error = sum(part[0] for part in parts)
            if error <= max(epsabs, epsrel * F.amax(F.abs(total)).item()):
                break
            worst = max(range(len(parts)), key=lambda i: parts[i][0])
            _, _, low, high = parts.pop(worst)
            middle = (low + high) / 2
            if not low < middle < high:
                break
            parts += [estimate(low, middle), estimate(middle, high)]
    error = sum(part[0] for part in parts)
    intervals = sorted((low, high) for _, _, low, high in parts)
    result = sum(integral(values(low, high), kronrod) * (high - low) for low, high in intervals)
    return result, error, len(parts), intervals


def _value(value: Any) -> AnyTensor:
    return inexact(tensor_of(value))


def quad(
    func: Callable[..., Any],
    a: Any,
    b: Any,
    args: Any = (),
    full_output: int = 0,
    epsabs: float = 1.49e-8,
    epsrel: float = 1.49e-8,
    limit: int = 50,
    points: Any = None,
    weight: Any = None,
    **others: Any,
) -> tuple[Any, ...]:
    """Integrate a function adaptively by the Gauss-Kronrod rule of 21 points.

    The integral is differentiable with respect to `a`, `b`, `args` and the tensors that `func` closes over. The
    intervals are constants in the derivatives.

    Parameters
    ----------
    func : callable
        Takes a 0-dim tensor, and then `args`.
    a, b : float or Tensor
        The limits, which may be infinite.
    args : tuple
    full_output : int
        Whether to return a dict with the number of evaluations and of intervals as well.
    epsabs, epsrel : float
        Absolute and relative tolerance.
    limit : int
        The maximum number of intervals.
    points : sequence of float, optional
        Points between finite limits at which the function is not smooth.

    Returns
    -------
    tuple
        The integral and an estimate of its error.

    Examples
    --------
    >>> import gradcore
    >>> from gradcore.scipy import integrate
    >>> rate = gradcore.tensor(2.0, dtype=gradcore.float64, requires_grad=True)
    >>> value, error = integrate.quad(lambda x: gradcore.exp(-rate * x), 0, float("inf"))
    >>> gradcore.autograd.grad(value, rate)[0]
    tensor(-0.2500, dtype=torch.float64)
    """
    if weight is not None or others:
        raise TypeError("quad() of tensors takes no weight functions; multiply the integrand with them")
    return _integrate(func, a, b, args, bool(full_output), epsabs, epsrel, limit, points)


def _integrate(
    func: Any, a: Any, b: Any, args: Any, full_output: bool, epsabs: float, epsrel: float, limit: int, points: Any
) -> tuple[Any, ...]:
    start, end = _limits(a, b)
    args = args if isinstance(args, tuple) else (args,)
    breaks: list[float] = []
    if points is not None:
        low, high = start.item(), end.item()
        if not np.isfinite([low, high]).all():
            raise ValueError("Infinity inputs cannot be used with break points.")
        breaks = [(float(p) - low) / (high - low) for p in points]
    integrand = _map_to_unit_interval(lambda x: func(x, *args), start, end)
    value, error, intervals, _ = _adaptive(integrand, epsabs, epsrel, limit, breaks)
    if full_output:
        return value, error, {"neval": 21 * (2 * intervals - 1), "last": intervals}
    return value, error


def quad_vec(
    f: Callable[..., Any],
    a: Any,
    b: Any,
    epsabs: float = 1e-200,
    epsrel: float = 1e-8,
    norm: str = "max",
    cache_size: float = 100e6,
    limit: int = 10000,
    workers: int = 1,
    points: Any = None,
    quadrature: Any = None,
    full_output: bool = False,
    *,
    args: Any = (),
) -> tuple[Any, ...]:
    """Integrate a function whose values are tensors adaptively; see `quad`. The error is the largest over the elements.

    Examples
    --------
    >>> import gradcore
    >>> from gradcore.scipy import integrate
    >>> integrate.quad_vec(lambda x: gradcore.stack([x, x**2]), 0, 1)[0]
    tensor([0.5000, 0.3333], dtype=torch.float64)
    """
    if norm != "max" or quadrature not in (None, "gk21"):
        raise TypeError("quad_vec() of tensors is implemented for norm='max' and quadrature='gk21' only")
    return _integrate(f, a, b, args, full_output, epsabs, epsrel, limit, points)


def dblquad(
    func: Callable[..., Any],
    a: Any,
    b: Any,
    gfun: Any,
    hfun: Any,
    args: Any = (),
    epsabs: float = 1.49e-8,
    epsrel: float = 1.49e-8,
) -> tuple[AnyTensor, float]:
    """Integrate ``func(y, x)`` over x from `a` to `b` and y from ``gfun(x)`` to ``hfun(x)``; see `quad`.

    Examples
    --------
    >>> from gradcore.scipy import integrate
    >>> integrate.dblquad(lambda y, x: x * y, 0, 1, 0, lambda x: x)[0]
    tensor(0.1250, dtype=torch.float64)
    """

    def inner(x: AnyTensor) -> AnyTensor:
        low, high = (g(x) if callable(g) else g for g in (gfun, hfun))
        return quad(lambda y: func(y, x, *args), low, high, epsabs=epsabs, epsrel=epsrel)[0]

    value, error = quad(inner, a, b, epsabs=epsabs, epsrel=epsrel)
    return value, error
