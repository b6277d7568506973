"""Integrals of samples, differentiable in samples, points and spacing: ``trapezoid``, ``simpson``, ``romb``, ..."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from gradcore import functional as F
from gradcore.core.typing import AnyTensor
from gradcore.numpy.conversion import axis_of, common, inexact, tensor_of
from gradcore.scipy.required import scipy_module

__all__ = ["cumulative_simpson", "cumulative_trapezoid", "newton_cotes", "romb", "simpson", "trapezoid"]


def _samples(y: Any, x: Any, dx: Any, axis: int) -> tuple[AnyTensor, AnyTensor]:
    """Return the samples with `axis` moved last, and the distances between their points along that dim."""
    if x is None:
        values = F.movedim(inexact(tensor_of(y)), axis, -1)
        step = tensor_of(dx) if hasattr(dx, "shape") or isinstance(dx, (list, tuple)) else dx
        n = max(values.shape[-1] - 1, 0)
        if hasattr(step, "ndim") and step.ndim:
            return values, F.movedim(step, axis, -1) if step.ndim > 1 else step
        real = F.real(values) if F.is_complex(values) else values
        return values, F.full((n,), 1.0, dtype=real.dtype, device=real.device) * step
    values, points = common(y, x)
    axis = axis_of(axis, values.ndim)
    if points.ndim == 1:
        if points.shape[0] != values.shape[axis]:
            raise ValueError("If given, length of x along axis must be the same as y.")
    elif points.ndim != values.ndim:
        raise ValueError("If given, shape of x must be 1-D or the same as y.")
    else:
        points = F.movedim(points, axis, -1)
    return F.movedim(values, axis, -1), F.diff(F.real(points) if F.is_complex(points) else points, 1, -1)


def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> AnyTensor:
    """Integrate samples along an axis by the trapezoidal rule.

    Parameters
    ----------
    y : array_like
    x : array_like, optional
        The points of the samples.
    dx : float
        The distance between the points if `x` is not given.
    axis : int

    Returns
    -------
    Tensor
        The integrals. They are differentiable with respect to `y`, `x` and `dx`.

    Examples
    --------
    >>> from gradcore.scipy import integrate
    >>> integrate.trapezoid([1.0, 2.0, 3.0], dx=2)
    tensor(8., dtype=torch.float64)
    """
    values, steps = _samples(y, x, dx, axis)
    return F.sum(steps * (values[..., 1:] + values[..., :-1]), -1) / 2


def cumulative_trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1, initial: Any = None) -> AnyTensor:
    """Integrate samples cumulatively by the trapezoidal rule; ``initial=0`` puts a zero before the integrals.

    Examples
    --------
    >>> from gradcore.scipy import integrate
    >>> integrate.cumulative_trapezoid([1.0, 2.0, 3.0], initial=0)
    tensor([0.0000, 1.5000, 4.0000], dtype=torch.float64)
    """
    if initial is not None and initial != 0:
        raise ValueError("`initial` must be `None` or `0`.")
    values, steps = _samples(y, x, dx, axis)
    if not values.shape[-1]:
        raise ValueError("At least one point is required along `axis`.")
    integrals = F.cumsum(steps * (values[..., 1:] + values[..., :-1]) / 2, -1)
    return F.movedim(integrals if initial is None else F.pad(integrals, (1, 0)), -1, axis)


def _quotient(a: AnyTensor, b: AnyTensor) -> AnyTensor:
    """Return ``a / b``, or 0 for intervals without a width."""
    return F.where(b == 0, 0.0, a / F.where(b == 0, 1.0, b))


def _panels(values: AnyTensor, steps: AnyTensor) -> AnyTensor:
    """Integrate the parabola through each three consecutive points from the first to the second point."""
    first, second = steps[..., :-1], steps[..., 1:]
    y0, y1, y2 = values[..., :-2], values[..., 1:-1], values[..., 2:]
    share, ratio = _quotient(first, first + second), _quotient(first, second)
    return first / 6 * ((3 - share) * y0 + (3 + share * ratio + share) * y1 - share * ratio * y2)


def _expand_steps(steps: AnyTensor, n: int) -> AnyTensor:
    return F.broadcast_to(steps, (*steps.shape[:-1], n))


def simpson(y: Any, x: Any = None, *, dx: Any = 1.0, axis: int = -1) -> AnyTensor:
    """Integrate samples along an axis by Simpson's rule; the last interval of an even number by Cartwright's.

    Examples
    --------
    >>> from gradcore.scipy import integrate
    >>> integrate.simpson([0.0, 1.0, 4.0], x=[0.0, 1.0, 2.0])
    tensor(2.6667, dtype=torch.float64)
    """
    values, steps = _samples(y, x, dx, axis)
    n = values.shape[-1]
    if n < 3:
        return F.sum(steps * (values[..., 1:] + values[..., :-1]), -1) / 2
    steps = _expand_steps(steps, n - 1)
    odd = n - 1 + n % 2  # the points of whole pairs of intervals
    h0, h1 = steps[..., 0 : odd - 1 : 2], steps[..., 1 : odd - 1 : 2]
    double_width = h0 + h1
    result = F.sum(
        double_width / 6 * (
            values[..., 0 : odd - 2 : 2] * (2 - _quotient(h1, h0))
            + values[..., 1 : odd - 1 : 2] * (double_width * _quotient(double_width, h0 * h1))
            + values[..., 2:odd:2] * (2 - _quotient(h0, h1))
        ), -1
    )  # fmt: skip
    if odd == n:
        return result
    return result + _panels(F.flip(values[..., -3:], (-1,)), F.flip(steps[..., -2:], (-1,)))[..., 0]


def cumulative_simpson(y: Any, *, x: Any = None, dx: Any = 1.0, axis: int = -1, initial: Any = None) -> AnyTensor:
    """Integrate samples cumulatively by Simpson's rule; `initial` is put before the integrals and added to them.

    Examples
    --------
    >>> from gradcore.scipy import integrate
    >>> integrate.cumulative_simpson([0.0, 1.0, 4.0], initial=0)
    tensor([0.0000, 0.3333, 2.6667], dtype=torch.float64)
    """
    values, steps = _samples(y, x, dx, axis)
    if x is not None and F.holds_anywhere(steps <= 0):
        raise ValueError("Input x must be strictly increasing.")
    n = values.shape[-1]
    if n < 3:
        integrals = steps * (values[..., 1:] + values[..., :-1]) / 2
    else:
        steps = _expand_steps(steps, n - 1)
        forward = _panels(values, steps)
        backward = F.flip(_panels(F.flip(values, (-1,)), F.flip(steps, (-1,))), (-1,))
        pairs = F.flatten(F.stack([forward[..., ::2], backward[..., ::2]], -1), -2)
        integrals = pairs if n % 2 else F.cat([pairs, backward[..., -1:]], -1)
    result = F.cumsum(integrals, -1)
    if initial is not None:
        start = F.movedim(tensor_of(initial, result.dtype), axis, -1) if getattr(initial, "ndim", 0) else initial
        first = F.zeros_like(values[..., :1]) + start
        result = F.cat([first, result + start], -1)
    return F.movedim(result, -1, axis)


def romb(y: Any, dx: Any = 1.0, axis: int = -1, show: bool = False) -> AnyTensor:
    """Integrate ``2**k + 1`` equally spaced samples by Romberg's method.

    Examples
    --------
    >>> from gradcore.scipy import integrate
    >>> integrate.romb([0.0, 1.0, 4.0])
    tensor(2.6667, dtype=torch.float64)
    """
    if show:
        raise TypeError("romb(show=True) is not implemented for tensors; leave show out")
    values = F.movedim(inexact(tensor_of(y)), axis, -1)
    intervals = values.shape[-1] - 1
    if intervals < 1 or intervals & (intervals - 1):
        raise ValueError("Number of samples must be one plus a non-negative power of 2.")
    column, stride = [], intervals
    while stride:
        samples = values[..., ::stride]
        column.append((F.sum(samples, -1) - (samples[..., 0] + samples[..., -1]) / 2) * (stride * dx))
        stride //= 2
    for order in range(1, len(column)):
        weight = 4.0**order
        column = [(weight * b - a) / (weight - 1) for a, b in pairwise(column)]
    return column[0]


def newton_cotes(rn: Any, equal: int = 0) -> Any:
    """Return the weights and the error coefficient of a Newton-Cotes rule, which have no derivatives.

    Examples
    --------
    >>> from gradcore.scipy import integrate
    >>> weights, _ = integrate.newton_cotes(2)
    >>> weights
    tensor([0.3333, 1.3333, 0.3333], dtype=torch.float64)
    """
    weights, error = scipy_module("integrate").newton_cotes(rn, equal)
    return tensor_of(weights), error
