"""Piecewise polynomials, and functions that the interpolators share."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from gradcore import functional as F
from gradcore.core.typing import AnyTensor
from gradcore.numpy.conversion import axis_of, common
from gradcore.scipy.conversion import like
from gradcore.tensor import Tensor

__all__ = ["PPoly", "increasing", "intervals", "move_query_dims", "per_sample", "stack_points"]


def increasing(x: AnyTensor) -> None:
    """Raise a ValueError unless the breakpoints `x` are a strictly increasing vector."""
    if x.ndim != 1 or bool(F.any(F.diff(x.detach()) <= 0)):
        raise ValueError("`x` must be strictly increasing sequence.")


def intervals(x: AnyTensor, points: AnyTensor, first: int, last: int) -> AnyTensor:
    """Return the index of the interval of `x` that contains each point, clipped to `first` and `last`."""
    result = F.searchsorted(x.detach(), points.detach(), right=True) - 1
    return F.clamp(result, first, last)


def per_sample(x: AnyTensor, ndim: int) -> AnyTensor:
    """Append `ndim` dims of size one to `x`, so that it broadcasts with values that have `ndim` further dims."""
    return F.reshape(x, (*x.shape, *(1,) * ndim))


def move_query_dims(values: AnyTensor, queries: int, axis: int) -> AnyTensor:
    """Move the `queries` leading dims of `values`, those of the evaluation points, to the interpolated axis."""
    return F.movedim(values, tuple(range(queries)), tuple(range(axis, axis + queries)))


def stack_points(xi: Any, of: AnyTensor, dims: int) -> AnyTensor:
    """Return the points `xi` in shape ``(..., dims)``, on the device and in the dtype of `of`.

    As in SciPy, a tuple contains coordinates that broadcast, and a vector contains points one after the other.
    """
    if isinstance(xi, tuple):
        points = F.stack(list(F.broadcast_tensors(*(like(x, of) for x in xi))), -1)
    else:
        points = like(xi, of)
        if points.ndim == 1 and points.shape[0] % dims == 0:
            points = F.reshape(points, (-1, dims))
    if not points.ndim or points.shape[-1] != dims:
        raise ValueError(f"points need {dims} coordinates along the last dim, but xi has shape {tuple(points.shape)}")
    return points


class PPoly:
    """A piecewise polynomial, differentiable with respect to coefficients, breakpoints and evaluation points.

    Parameters
    ----------
    c : array_like
        Of shape ``(k, m, ...)``: for each of the `m` intervals, the coefficients of ``(t - x[i]) ** (k - 1)`` down to
        the constant.
    x : array_like
        The ``m + 1`` breakpoints, increasing.
    extrapolate : bool or "periodic", optional
        Whether the outer polynomials are used beyond the breakpoints; otherwise the value there is NaN.
    axis : int
        The dim of the interpolated values.

    Examples
    --------
    >>> from gradcore.scipy import interpolate
    >>> parabola = interpolate.PPoly([[1.0], [0.0], [2.0]], [0.0, 3.0])
    >>> parabola(2.0), parabola.derivative()(2.0), parabola.integrate(0, 3)
    (tensor(6., dtype=torch.float64), tensor(4., dtype=torch.float64), tensor(15., dtype=torch.float64))
    """

    def __init__(self, c: Any, x: Any, extrapolate: Any = None, axis: int = 0) -> None:
        self.c, self.x = common(c, x)
        self.x = F.real(self.x) if F.is_complex(self.x) else self.x
        increasing(self.x)
        if self.c.ndim < 2 or self.c.shape[1] != self.x.shape[0] - 1:
            raise ValueError("number of coefficients != len(x)-1")
        self.extrapolate = True if extrapolate is None else extrapolate
        self.axis = axis_of(axis, self.c.ndim - 1)

    @classmethod
    def construct_fast(cls, c: Any, x: Any, extrapolate: Any = None, axis: int = 0) -> Self:
        """Return a piecewise polynomial of tensors, without checks."""
        self = object.__new__(cls)
        self.c, self.x, self.axis = c, x, axis
        self.extrapolate = True if extrapolate is None else extrapolate
        return self

    def __call__(self, x: Any, nu: int = 0, extrapolate: Any = None) -> AnyTensor:
        """Evaluate the polynomial or, with `nu`, its derivative of that order (its antiderivative if negative)."""
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        if nu:
            return self.derivative(nu)(x, 0, extrapolate)
        points = like(x, self.x)
        if extrapolate == "periodic":
            points = self.x[0] + F.remainder(points - self.x[0], self.x[-1] - self.x[0])
        at = intervals(self.x, points, 0, self.c.shape[1] - 1)
        value_ndim = self.c.ndim - 2
        s, total = per_sample(points - self.x[at], value_ndim), self.c[0][at]
        for i in range(1, self.c.shape[0]):
            total = total * s + self.c[i][at]
        if self.c.shape[0] == 1:
            total = total + 0 * s
        if not extrapolate:
            outside = (points < self.x[0]) | (points > self.x[-1])
            total = F.where(per_sample(outside, value_ndim), F.full_like(total, np.nan), total)
        return move_query_dims(total, points.ndim, self.axis)

    def _new(self, c: AnyTensor, extrapolate: Any) -> PPoly:
        return PPoly.construct_fast(c, self.x, extrapolate, self.axis)

    def derivative(self, nu: int = 1) -> PPoly:
        """Return the derivative, a piecewise polynomial of lower degree."""
        if nu < 0:
            return self.antiderivative(-nu)
        c = self.c
        for _ in range(nu):
            degree = c.shape[0] - 1
            powers = like(np.arange(degree, 0, -1.0), c)
            c = c[:-1] * per_sample(powers, c.ndim - 1) if degree else F.zeros_like(c)
        return self._new(c, self.extrapolate)

    def antiderivative(self, nu: int = 1) -> PPoly:
        """Return the antiderivative, which is continuous, and zero at the first breakpoint."""
        if nu <= 0:
            return self.derivative(-nu)
        c = self.c
        h = per_sample(F.diff(self.x), c.ndim - 2)
        for _ in range(nu):
            terms = c / per_sample(like(np.arange(c.shape[0], 0, -1.0), c), c.ndim - 1)
            total = terms[0]
            for i in range(1, terms.shape[0]):
                total = total * h + terms[i]
            sums = F.cumsum(total * h, 0)
            constants = F.cat([F.zeros_like(sums[:1]), sums[:-1]], 0)
            c = F.cat([terms, F.unsqueeze(constants, 0)], 0)
        return self._new(c, False if self.extrapolate == "periodic" else self.extrapolate)

    def integrate(self, a: Any, b: Any, extrapolate: Any = None) -> AnyTensor:
        """Return the integral from `a` to `b`, differentiable with respect to `a` and `b` too."""
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        total = self.antiderivative()
        start, end = like(a, self.x), like(b, self.x)
        if extrapolate != "periodic":
            return total(end, 0, extrapolate) - total(start, 0, extrapolate)
        low, period = self.x[0], self.x[-1] - self.x[0]
        full_integral = total(self.x[-1])
        return sum(
            sign * (F.floor((t - low) / period) * full_integral + total(low + F.remainder(t - low, period)))
            for t, sign in ((end, 1.0), (start, -1.0))
        )


def prepare_data(x: Any, y: Any, axis: int) -> tuple[Tensor, Tensor, int]:
    """Check the data, and return the points, the values with `axis` moved first, and `axis` counted from the front."""
    points, values = common(x, y)
    points = F.real(points) if F.is_complex(points) else points
    axis = axis_of(axis, values.ndim)
    values = F.movedim(values, axis, 0)
    increasing(points)
    if points.shape[0] < 2:
        raise ValueError("`x` must contain at least 2 elements.")
    if points.shape[0] != values.shape[0]:
        raise ValueError(f"The length of `y` along `axis`={axis} doesn't match the length of `x`")
    return points, values, axis
