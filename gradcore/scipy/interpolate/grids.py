"""Interpolation on rectangular grids: ``interp1d`` in one dimension, tensor products of B-splines in several."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from gradcore import functional as F
from gradcore.core.typing import AnyTensor
from gradcore.numpy.conversion import axis_of, common
from gradcore.scipy.conversion import floating, like
from gradcore.scipy.interpolate.bsplines import BSpline, basis, make_interp_spline
from gradcore.scipy.interpolate.piecewise import increasing, intervals, move_query_dims, per_sample, stack_points

__all__ = ["RegularGridInterpolator", "interp1d", "interpn"]

_DEGREES = {"linear": 1, "slinear": 1, "cubic": 3, "quintic": 5}


class RegularGridInterpolator:
    """Interpolator of values on a rectangular grid, differentiable with respect to values, grid and evaluation points.

    Parameters
    ----------
    points : tuple of array_like
        The coordinates of the grid along each dim, increasing or decreasing.
    values : array_like
        The values on the grid, possibly with further dims behind those of the grid.
    method : {"linear", "nearest", "slinear", "cubic", "quintic", "pchip"}
        The kind of spline. ``"nearest"`` is differentiable with respect to the values only.
    bounds_error : bool
        Whether points outside of the grid raise a ValueError.
    fill_value : float, optional
        The value outside of the grid; None extrapolates.

    Examples
    --------
    >>> from gradcore.scipy import interpolate
    >>> plane = interpolate.RegularGridInterpolator(([0.0, 1.0], [0.0, 1.0]), [[0.0, 1.0], [2.0, 3.0]])
    >>> plane([[0.5, 0.5], [1.0, 0.0]])
    tensor([1.5000, 2.0000], dtype=torch.float64)
    """

    def __init__(
        self, points: Any, values: Any, method: str = "linear", bounds_error: bool = True, fill_value: Any = np.nan,
        **solvers: Any,
    ) -> None:  # fmt: skip
        if any(each is not None for each in solvers.values()):
            raise TypeError("RegularGridInterpolator() of tensors solves banded systems: leave solver out")
        self.values = floating(values)
        if len(points) > self.values.ndim:
            raise ValueError(f"There are {len(points)} point arrays, but values has {self.values.ndim} dimensions")
        grid = []
        for i, each in enumerate(points):
            axis = like(each, F.real(self.values) if F.is_complex(self.values) else self.values)
            if axis.shape[0] > 1 and bool(axis.detach()[0] > axis.detach()[-1]):
                axis, self.values = F.flip(axis, (0,)), F.flip(self.values, (i,))
            increasing(axis)
            if axis.shape[0] != self.values.shape[i]:
                raise ValueError(f"There are {axis.shape[0]} points and {self.values.shape[i]} values on dimension {i}")
            grid.append(axis)
        self.grid, self.method, self.bounds_error, self.fill_value = tuple(grid), method, bounds_error, fill_value

    def __call__(self, xi: Any, method: str | None = None, *, nu: Any = None) -> AnyTensor:
        """Interpolate at `xi`: points of shape ``(..., number of dims)``, or a tuple of coordinates that broadcast."""
        method = self.method if method is None else method
        if nu is not None:
            raise TypeError("RegularGridInterpolator() of tensors does not take nu; differentiate the result instead")
        d = len(self.grid)
        points = stack_points(xi, self.grid[0], d)
        shape = points.shape[:-1]
        flat = F.reshape(points, (-1, d))
        outside = F.any(F.stack([(flat[:, i] < g[0]) | (flat[:, i] > g[-1]) for i, g in enumerate(self.grid)]), 0)
        if self.bounds_error and bool(F.any(outside)):
            raise ValueError("One of the requested xi is out of bounds")
        result = self._evaluate(flat, method)
        if not self.bounds_error and self.fill_value is not None:
            result = F.where(per_sample(outside, result.ndim - 1), F.full_like(result, self.fill_value), result)
        return F.reshape(result, (*shape, *self.values.shape[d:]))

    def _evaluate(self, x: AnyTensor, method: str) -> AnyTensor:
        if method == "nearest":
            index = []
            for i, g in enumerate(self.grid):
                at = intervals(g, x[:, i], 0, g.shape[0] - 2)
                fraction = (x[:, i] - g[at]) / (g[at + 1] - g[at])
                index.append(F.where(fraction <= 0.5, at, at + 1))
            return self.values[tuple(index)]
        if method == "pchip":
            return self._interpolate_by_pchip(x)
        if method not in _DEGREES:
            raise ValueError(f"Method '{method}' is not defined")
        k, coefficients = _DEGREES[method], self.values
        weights, first = [], []
        for i, g in enumerate(self.grid):
            if g.shape[0] <= k:
                raise ValueError(
                    f"There are {g.shape[0]} points in dimension {i}, but method {method} requires at least {k + 1} "
                    "points per dimension."
                )
            spline = make_interp_spline(g, coefficients, k, axis=i)
            coefficients = F.movedim(spline.c, 0, i)
            values, at = basis(spline.t, x[:, i], k)
            weights.append(values)
            first.append(at - k)
        value_ndim, total = self.values.ndim - len(self.grid), 0
        for corner in itertools.product(range(k + 1), repeat=len(self.grid)):
            weight = 1
            for w, j in zip(weights, corner, strict=True):
                weight = weight * w[:, j]
            at = tuple(f + j for f, j in zip(first, corner, strict=True))
            total = total + per_sample(weight, value_ndim) * coefficients[at]
        return total

    def _interpolate_by_pchip(self, x: AnyTensor) -> AnyTensor:
        """Interpolate by PCHIP along one dim after the other, from the last to the first, for each query separately."""
        from gradcore.scipy.interpolate.cubic import PchipInterpolator

        def line(values: AnyTensor, grid: tuple[AnyTensor, ...], point: AnyTensor) -> AnyTensor:
            for g, p in zip(reversed(grid), reversed(list(point)), strict=True):
                values = PchipInterpolator(g, values, len(grid) - 1)(p)
                grid = grid[:-1]
            return values

        return F.stack([line(self.values, self.grid, list(point)) for point in x])


def interpn(
    points: Any, values: Any, xi: Any, method: str = "linear", bounds_error: bool = True, fill_value: Any = np.nan
) -> AnyTensor:
    """Interpolate values on a grid at `xi`; see `RegularGridInterpolator`.

    Examples
    --------
    >>> from gradcore.scipy import interpolate
    >>> interpolate.interpn(([0.0, 1.0],), [0.0, 2.0], [[0.25]])
    tensor([0.5000], dtype=torch.float64)
    """
    interpolator = RegularGridInterpolator(points, values, method, bounds_error, fill_value)
    return interpolator(stack_points(xi, interpolator.grid[0], len(interpolator.grid)))


class interp1d:
    """Interpolator of samples in one dimension, differentiable with respect to `x`, `y` and evaluation points.

    Parameters
    ----------
    x, y : array_like
        Points, in any order unless `assume_sorted`, and values.
    kind : str or int
        ``"linear"``, ``"nearest"``, ``"nearest-up"``, ``"previous"``, ``"next"``, ``"zero"``, ``"slinear"``,
        ``"quadratic"``, ``"cubic"``, or the degree of a spline.
    axis : int
        The dim of `y` along which it is interpolated.
    bounds_error : bool, optional
        Whether points outside of `x` raise a ValueError; by default they do unless there is a `fill_value`.
    fill_value : float, pair of float or "extrapolate"
        The value outside of `x`, or the values below and above it.

    Examples
    --------
    >>> from gradcore.scipy import interpolate
    >>> interpolate.interp1d([0.0, 1.0, 3.0], [0.0, 2.0, 0.0])([0.5, 2.0])
    tensor([1., 1.], dtype=torch.float64)
    """

    def __init__(
        self, x: Any, y: Any, kind: Any = "linear", axis: int = -1, copy: bool = True, bounds_error: Any = None,
        fill_value: Any = np.nan, assume_sorted: bool = False,
    ) -> None:  # fmt: skip
        self.x, values = common(x, y)
        self.axis = axis_of(axis, values.ndim)
        self.y = F.movedim(values, self.axis, 0)
        if not assume_sorted:
            order = F.argsort(self.x.detach())
            self.x, self.y = self.x[order], self.y[order]
        self.fill_value, self.kind = fill_value, kind
        self._missing = kind if kind in ("previous", "next") else None
        extrapolated = isinstance(fill_value, str) and fill_value == "extrapolate"
        plain = isinstance(fill_value, float) and np.isnan(fill_value)
        self.bounds_error = (plain and not extrapolated) if bounds_error is None else bounds_error
        degree = {"zero": 0, "linear": 1, "slinear": 1, "quadratic": 2, "cubic": 3}.get(kind, kind)
        self._spline: BSpline | None = None
        if kind == "zero":
            self.kind = "previous"
        elif isinstance(degree, int):
            self._spline = make_interp_spline(self.x, self.y, degree, check_finite=False)
        elif kind not in ("nearest", "nearest-up", "previous", "next"):
            raise NotImplementedError(f"{kind} is unsupported: Use fitpack routines for other types.")

    def __call__(self, x: Any) -> AnyTensor:
        """Return the values at points of any shape."""
        points = like(x, self.x)
        below, above = points < self.x[0], points > self.x[-1]
        if self.bounds_error and bool(F.any(below | above)):
            side = "below" if bool(F.any(below)) else "above"
            raise ValueError(f"A value in x_new is {side} the interpolation range.")
        result = self._step(points) if self._spline is None else self._spline(points)
        if not isinstance(self.fill_value, str):
            low, high = self.fill_value if isinstance(self.fill_value, tuple) else (self.fill_value,) * 2
            filled = [(below, low), (above, high)]
        else:  # there is no previous value on the left, and no next one on the right
            filled = [({"previous": below, "next": above}[self._missing], math.nan)] if self._missing else []
        for outside, value in filled:
            mask = per_sample(outside, self.y.ndim - 1)
            result = F.where(mask, F.broadcast_to(like(value, result), result.shape), result)
        return move_query_dims(result, points.ndim, self.axis)

    def _step(self, points: AnyTensor) -> AnyTensor:
        n, fixed, at = self.x.shape[0], self.x.detach(), points.detach()
        if self.kind == "previous":
            index = F.searchsorted(fixed, at, right=True) - 1
        elif self.kind == "next":
            index = F.searchsorted(fixed, at)
        else:
            middles = (fixed[1:] + fixed[:-1]) / 2
            index = F.searchsorted(middles, at, right=self.kind == "nearest-up")
        return self.y[F.clamp(index, 0, n - 1)]
