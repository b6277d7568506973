"""Interpolation of scattered data: radial basis functions, triangles, nearest neighbours."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from gradcore import functional as F
from gradcore.core.typing import AnyTensor
from gradcore.numpy.conversion import common
from gradcore.scipy.conversion import floating, like, on_device
from gradcore.scipy.interpolate.piecewise import per_sample, stack_points
from gradcore.scipy.required import scipy_module

__all__ = ["LinearNDInterpolator", "NearestNDInterpolator", "RBFInterpolator", "griddata"]

#: Kernels as functions of the squared distance, and their values at zero.
_KERNELS: dict[str, tuple[Callable[[AnyTensor], AnyTensor], float]] = {
    "linear": (lambda s: -F.sqrt(s), 0.0),
    "thin_plate_spline": (lambda s: s * F.log(s) / 2, 0.0),
    "cubic": (lambda s: s * F.sqrt(s), 0.0),
    "quintic": (lambda s: -(s**2) * F.sqrt(s), 0.0),
    "multiquadric": (lambda s: -F.sqrt(1 + s), -1.0),
    "inverse_multiquadric": (lambda s: F.rsqrt(1 + s), 1.0),
    "inverse_quadratic": (lambda s: 1 / (1 + s), 1.0),
    "gaussian": (lambda s: F.exp(-s), 1.0),
}
_SMOOTH = {"multiquadric", "inverse_multiquadric", "inverse_quadratic", "gaussian"}
_LEAST_DEGREE = {"multiquadric": 0, "linear": 0, "thin_plate_spline": 1, "cubic": 1, "quintic": 2}


class RBFInterpolator:
    """Interpolator of scattered data by radial basis functions and a polynomial.

    It is differentiable with respect to `y`, `d`, `smoothing`, `epsilon` and the evaluation points.

    Parameters
    ----------
    y, d : array_like
        Points, ``(n, dims)``, and values, ``(n, ...)``.
    neighbors : None
        Not supported: all points are used.
    smoothing : float or array_like
        0 for interpolation; larger values give smoother functions that do not pass through the data.
    kernel : str
        The name of the kernel, as in SciPy.
    epsilon : float, optional
        The scale of distances; needed for kernels other than ``"linear"``, ``"thin_plate_spline"``, ``"cubic"`` and
        ``"quintic"``.
    degree : int, optional
        The degree of the polynomial; -1 for none.

    Examples
    --------
    >>> from gradcore.scipy import interpolate
    >>> plane = interpolate.RBFInterpolator([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [0.0, 1.0, 2.0, 3.0])
    >>> plane([[0.5, 0.5]])
    tensor([1.5000], dtype=torch.float64)
    """

    def __init__(
        self, y: Any, d: Any, neighbors: Any = None, smoothing: Any = 0.0, kernel: str = "thin_plate_spline",
        epsilon: Any = None, degree: int | None = None,
    ) -> None:  # fmt: skip
        if neighbors is not None:
            raise TypeError("RBFInterpolator() of tensors uses all points: leave neighbors out")
        kernel = kernel.lower()
        if kernel not in _KERNELS:
            raise ValueError(f"`kernel` must be one of {set(_KERNELS)}.")
        if epsilon is None and kernel in _SMOOTH:
            raise ValueError("`epsilon` must be specified if `kernel` is not one of the scale-invariant ones.")
        self.y, self.d = floating(y), floating(d)
        self.y = like(self.y, F.real(self.d) if F.is_complex(self.d) else self.d)
        if self.y.ndim != 2 or self.d.shape[0] != self.y.shape[0]:
            raise ValueError("`y` must be a 2-dimensional array, with as many rows as `d`.")
        self.epsilon, self.kernel = 1.0 if epsilon is None else epsilon, kernel
        degree = max(_LEAST_DEGREE.get(kernel, -1), 0) if degree is None else int(degree)
        dims, n = self.y.shape[1], self.y.shape[0]
        self.powers = [p for k in range(degree + 1) for p in combinations_with_replacement(range(dims), k)]
        low, high = F.amin(self.y.detach(), 0), F.amax(self.y.detach(), 0)
        self._shift = (low + high) / 2
        self._scale = F.where(high == low, F.full_like(low, 1.0), (high - low) / 2)
        P = self._monomials(self.y)
        smooth = F.broadcast_to(like(smoothing, self.y), (n,))
        zeros = F.zeros((len(self.powers),) * 2, dtype=P.dtype, device=P.device)
        A = F.cat([F.cat([self._radial(self.y) + F.diag(smooth), P], 1), F.cat([P.mT, zeros], 1)], 0)
        values = F.reshape(self.d, (n, -1))
        right = F.pad(values, (0, 0, 0, len(self.powers)))
        self._coefficients = F.linalg_solve(F.to(A, right.dtype), right)

    def _monomials(self, x: AnyTensor) -> AnyTensor:
        scaled = (x - self._shift) / self._scale
        columns = []
        for powers in self.powers:
            column = F.full_like(x[:, 0], 1.0)
            for i in powers:
                column = column * scaled[:, i]
            columns.append(column)
        return F.stack(columns, 1) if columns else x[:, :0]

    def _radial(self, x: AnyTensor) -> AnyTensor:
        """Return the kernel for all pairs of rows of `x` and data points; its derivative is zero for equal points."""
        function, at_zero = _KERNELS[self.kernel]
        squares = F.sum(((x[:, None] - self.y[None]) * self.epsilon) ** 2, -1)
        if self.kernel in _SMOOTH:
            return function(squares)
        coincide = squares == 0
        result = function(F.where(coincide, F.full_like(squares, 1.0), squares))
        return F.where(coincide, F.full_like(result, at_zero), result)

    def __call__(self, x: Any) -> AnyTensor:
        """Return the values at points of shape ``(m, dims)``."""
        points = like(x, self.y)
        if points.ndim != 2 or points.shape[1] != self.y.shape[1]:
            raise ValueError(f"Expected the second axis of `x` to have length {self.y.shape[1]}.")
        rows = F.cat([self._radial(points), self._monomials(points)], 1)
        result = F.matmul(F.to(rows, self._coefficients.dtype), self._coefficients)
        return F.reshape(result, (points.shape[0], *self.d.shape[1:]))


class LinearNDInterpolator:
    """Piecewise linear interpolator of scattered data on a triangulation.

    It is differentiable with respect to `points`, `values` and the evaluation points; the triangulation is constant.

    Parameters
    ----------
    points, values : array_like
        Arrays of shapes ``(n, dims)`` and ``(n, ...)``.
    fill_value : float
        The value outside of the triangles.
    rescale : bool
        Whether the points are scaled to the unit cube before they are triangulated.

    Examples
    --------
    >>> from gradcore.scipy import interpolate
    >>> plane = interpolate.LinearNDInterpolator([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [0.0, 1.0, 2.0])
    >>> plane([[0.25, 0.25]])
    tensor([0.7500], dtype=torch.float64)
    """

    def __init__(self, points: Any, values: Any, fill_value: Any = np.nan, rescale: bool = False) -> None:
        self.points, self.values = common(points, values)
        self.points = F.real(self.points) if F.is_complex(self.points) else self.points
        self.fill_value = fill_value
        numbers = np.asarray(self.points.detach().host(), float)
        self._center, self._size = 0.0, 1.0
        if rescale:
            self._center, self._size = numbers.mean(0), np.ptp(numbers, 0)
        self._triangles = scipy_module("spatial").Delaunay((numbers - self._center) / self._size)

    def __call__(self, *xi: Any) -> AnyTensor:
        """Return the values at points of shape ``(..., dims)``, or one argument for each dim."""
        points = stack_points(xi[0] if len(xi) == 1 else xi, self.points, self.points.shape[1])
        flat = F.reshape(points, (-1, points.shape[-1]))
        host_points = np.asarray(flat.detach().host(), float)
        simplices = self._triangles.find_simplex((host_points - self._center) / self._size)
        corners = self.points[on_device(self._triangles.simplices[simplices], flat)]
        values = self.values[on_device(self._triangles.simplices[simplices], flat)]
        sides = corners[:, 1:] - corners[:, :1]
        weights = F.linalg_solve(sides.mT, (flat - corners[:, 0])[..., None])[..., 0]
        weights = F.cat([1 - F.sum(weights, -1, True), weights], -1)
        value_ndim = self.values.ndim - 1
        total = F.sum(per_sample(weights, value_ndim) * values, 1)
        outside = per_sample(on_device(simplices < 0, flat), value_ndim)
        total = F.where(outside, F.full_like(total, self.fill_value), total)
        return F.reshape(total, (*points.shape[:-1], *self.values.shape[1:]))


class NearestNDInterpolator:
    """Nearest-neighbour interpolator of scattered data, differentiable with respect to the values only.

    Examples
    --------
    >>> from gradcore.scipy import interpolate
    >>> interpolate.NearestNDInterpolator([[0.0, 0.0], [1.0, 1.0]], [1.0, 2.0])([[0.9, 0.8]])
    tensor([2.], dtype=torch.float64)
    """

    def __init__(self, x: Any, y: Any, rescale: bool = False) -> None:
        self.points, self.values = common(x, y)
        numbers = np.asarray(self.points.detach().host(), float)
        self._center, self._size = (numbers.mean(0), np.ptp(numbers, 0)) if rescale else (0.0, 1.0)  # type: ignore[var-annotated]
        self._tree = scipy_module("spatial").cKDTree((numbers - self._center) / self._size)

    def __call__(self, *xi: Any) -> AnyTensor:
        """Return the values at points of shape ``(..., dims)``, or one argument for each dim."""
        points = stack_points(xi[0] if len(xi) == 1 else xi, self.points, self.points.shape[1])
        _, index = self._tree.query((np.asarray(points.detach().host(), float) - self._center) / self._size)
        return self.values[on_device(index, points)]


def griddata(
    points: Any, values: Any, xi: Any, method: str = "linear", fill_value: Any = np.nan, rescale: bool = False
) -> AnyTensor:
    """Interpolate scattered data at `xi`, linearly on a triangulation or by the nearest point.

    Examples
    --------
    >>> from gradcore.scipy import interpolate
    >>> interpolate.griddata([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [0.0, 1.0, 2.0], [[0.5, 0.25]])
    tensor([1.], dtype=torch.float64)
    """
    if method == "linear":
        return LinearNDInterpolator(points, values, fill_value, rescale)(xi)
    if method == "nearest":
        return NearestNDInterpolator(points, values, rescale)(xi)
    raise ValueError(f"griddata() of tensors has the methods linear and nearest, not {method!r}; use RBFInterpolator")
