"""B-splines, and interpolating and least-squares splines of any degree."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcore import functional as F
from gradcore.core.typing import AnyTensor
from gradcore.numpy.conversion import axis_of, common, tensor_of
from gradcore.scipy.conversion import floating, like, on_device
from gradcore.scipy.interpolate.piecewise import increasing, intervals, move_query_dims, per_sample

__all__ = ["BSpline", "basis", "make_interp_spline", "make_lsq_spline", "splev", "splrep"]


def basis(t: AnyTensor, x: AnyTensor, k: int, extrapolate: Any = True) -> tuple[AnyTensor, AnyTensor]:
    """Return the ``k + 1`` B-splines that are nonzero at each point, in the last dim, and the index of the last one."""
    at = intervals(t, x, k, t.shape[0] - k - 2)
    values = [F.full_like(x, 1.0)]
    for j in range(1, k + 1):
        saved, new = F.zeros_like(x), []
        for r in range(j):
            right, left = t[at + r + 1] - x, x - t[at + r + 1 - j]
            width = right + left
            ratio = values[r] / F.where(width == 0, F.full_like(width, 1.0), width)
            new.append(saved + right * ratio)
            saved = left * ratio
        values = [*new, saved]
    return F.stack(values, -1), at


class BSpline:
    """A spline as a sum of B-splines, differentiable with respect to coefficients, knots and evaluation points.

    Parameters
    ----------
    t, c : array_like
        Knots and coefficients.
    k : int
        The degree.
    extrapolate : bool or "periodic"
    axis : int
        The dim of the interpolated values.

    Examples
    --------
    >>> from gradcore.scipy import interpolate
    >>> spline = interpolate.BSpline([0, 0, 1, 2, 2], [0.0, 1.0, 0.0], 1)
    >>> spline([0.5, 1.5]), spline.integrate(0, 2)
    (tensor([0.5000, 0.5000], dtype=torch.float64), tensor(1., dtype=torch.float64))
    """

    def __init__(self, t: Any, c: Any, k: int, extrapolate: Any = True, axis: int = 0) -> None:
        knots, coefficients = common(t, c)
        self.axis = axis_of(axis, coefficients.ndim)
        self.t = F.real(knots) if F.is_complex(knots) else knots
        self.c, self.k, self.extrapolate = F.movedim(coefficients, self.axis, 0), int(k), extrapolate
        n = self.t.shape[0] - self.k - 1
        if self.t.ndim != 1 or n < self.k + 1 or bool(F.any(F.diff(self.t.detach()) < 0)):
            raise ValueError(f"Need at least {2 * k + 2} knots for degree {k}, in a non-decreasing order")
        if self.c.shape[0] < n:
            raise ValueError("Knots, coefficients and degree are inconsistent.")

    @property
    def tck(self) -> tuple[AnyTensor, AnyTensor, int]:
        """The tuple of knots, coefficients and degree."""
        return self.t, self.c, self.k

    def __call__(self, x: Any, nu: int = 0, extrapolate: Any = None) -> AnyTensor:
        """Evaluate the spline or, with `nu`, one of its derivatives."""
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        if nu:
            return self.derivative(nu)(x, 0, extrapolate)
        points, k = like(x, self.t), self.k
        low, high = self.t[k], self.t[self.t.shape[0] - k - 1]
        if extrapolate == "periodic":
            points = low + F.remainder(points - low, high - low)
        values, at = basis(self.t, points, k)
        value_ndim = self.c.ndim - 1
        total = sum(per_sample(values[..., j], value_ndim) * self.c[at - k + j] for j in range(k + 1))
        if not extrapolate:
            outside = per_sample((points < low) | (points > high), value_ndim)
            total = F.where(outside, F.full_like(total, np.nan), total)
        return move_query_dims(total, points.ndim, self.axis)

    def _new(self, t: AnyTensor, c: AnyTensor, k: int, extrapolate: Any) -> BSpline:
        result = object.__new__(BSpline)
        result.t, result.c, result.k, result.extrapolate, result.axis = t, c, k, extrapolate, self.axis
        return result

    def derivative(self, nu: int = 1) -> BSpline:
        """Return the derivative, a spline of lower degree."""
        if nu < 0:
            return self.antiderivative(-nu)
        t, c, k = self.t, self.c, self.k
        if nu > k:
            raise ValueError(f"Order of derivative (n = {nu}) must be <= order of spline (k = {k})")
        c = c[: t.shape[0] - k - 1]
        for _ in range(nu):
            width = t[k + 1 : -1] - t[1 : -k - 1]
            safe = F.where(width == 0, F.full_like(width, 1.0), width)
            c = F.diff(c, 1, 0) * per_sample(k / safe, c.ndim - 1)
            t, k = t[1:-1], k - 1
        return self._new(t, c, k, self.extrapolate)

    def antiderivative(self, nu: int = 1) -> BSpline:
        """Return the antiderivative, a spline of higher degree, zero at the first knot."""
        if nu <= 0:
            return self.derivative(-nu)
        t, c, k = self.t, self.c, self.k
        c = c[: t.shape[0] - k - 1]
        for _ in range(nu):
            width = t[k + 1 :] - t[: -k - 1]
            sums = F.cumsum(c * per_sample(width, c.ndim - 1), 0) / (k + 1)
            c = F.cat([F.zeros_like(sums[:1]), sums], 0)
            t, k = F.cat([t[:1], t, t[-1:]]), k + 1
        return self._new(t, c, k, False if self.extrapolate == "periodic" else self.extrapolate)

    def integrate(self, a: Any, b: Any, extrapolate: Any = None) -> AnyTensor:
        """Return the integral from `a` to `b`; without extrapolation, the spline is zero outside the knots."""
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        total, k = self.antiderivative(), self.k
        low, high = self.t[k], self.t[self.t.shape[0] - k - 1]
        start, end = like(a, self.t), like(b, self.t)
        if extrapolate == "periodic":
            period, integral = high - low, total(high) - total(low)
            return sum(
                sign * (F.floor((x - low) / period) * integral + total(low + F.remainder(x - low, period)))
                for x, sign in ((end, 1.0), (start, -1.0))
            )
        if not extrapolate:
            start, end = F.clamp(start, low, high), F.clamp(end, low, high)
        return total(end, 0, True) - total(start, 0, True)


def _knots(x: AnyTensor, k: int, with_slopes: bool) -> AnyTensor:
    """Return the knots of a spline through the points `x`.

    Unless derivatives are prescribed at the ends (`with_slopes`), knots near the ends are left out, and those of even
    degree lie halfway between the points.
    """
    first, last = x[:1], x[-1:]
    if with_slopes:
        return F.cat([*[first] * k, x, *[last] * k])
    inner, skip = (x, (k + 1) // 2) if k % 2 else ((x[1:] + x[:-1]) / 2, k // 2)
    return F.cat([*[first] * (k + 1), inner[skip : inner.shape[0] - skip], *[last] * (k + 1)])


def _parse_condition(condition: Any, values: AnyTensor) -> list[tuple[int, AnyTensor]]:
    """Return the orders and values of the derivatives that a boundary condition prescribes at an end."""
    if condition is None:
        return []
    if isinstance(condition, str):
        orders = {"clamped": 1, "natural": 2}
        if condition not in orders:
            raise ValueError(f"Unknown boundary condition : {condition}")
        return [(orders[condition], F.zeros_like(values[0]))]
    return [(int(order), F.broadcast_to(like(value, values), values[0].shape)) for order, value in condition]


def make_interp_spline(
    x: Any, y: Any, k: int = 3, t: Any = None, bc_type: Any = None, axis: int = 0, check_finite: bool = True
) -> BSpline:
    """Return the spline of degree `k` through data, differentiable with respect to `x`, `y`, `t` and boundary values.

    Parameters
    ----------
    x, y : array_like
        Points, increasing, and values.
    k : int
        The degree.
    t : array_like, optional
        Knots.
    bc_type : str or pair, optional
        ``"clamped"``, ``"natural"``, ``"not-a-knot"``, or for each end None or a list of pairs ``(order, value)`` of
        derivatives.
    axis : int

    Examples
    --------
    >>> from gradcore.scipy import interpolate
    >>> spline = interpolate.make_interp_spline([0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 8.0, 27.0])
    >>> spline(1.5)
    tensor(3.3750, dtype=torch.float64)
    """
    points, values = common(x, y)
    points, axis = (F.real(points) if F.is_complex(points) else points), axis_of(axis, values.ndim)
    values = F.movedim(values, axis, 0)
    increasing(points)
    if points.shape[0] != values.shape[0]:
        raise ValueError(f"Shapes of x {tuple(points.shape)} and y {tuple(values.shape)} are incompatible")
    if check_finite and not bool(F.all(F.isfinite(values.detach()))):
        raise ValueError("array must not contain infs or NaNs")
    if isinstance(bc_type, str) and bc_type == "periodic":
        raise NotImplementedError(
            "make_interp_spline(bc_type='periodic') is not implemented; use CubicSpline(x, y, bc_type='periodic')"
        )
    pair = (
        (None, None) if bc_type in (None, "not-a-knot") else (bc_type, bc_type) if isinstance(bc_type, str) else bc_type
    )
    left, right = (_parse_condition(each, values) for each in pair)
    if k == 0:
        result = BSpline(F.cat([points, points[-1:]]), values, 0)
    else:
        knots = _knots(points, k, bool(left or right)) if t is None else like(t, points)
        if k == 1 and t is None:
            knots = F.cat([points[:1], points, points[-1:]])
        count = knots.shape[0] - k - 1
        if count - points.shape[0] != len(left) + len(right):
            raise ValueError(
                f"The number of derivatives at boundaries does not match: expected {count - points.shape[0]}, got "
                f"{len(left)}+{len(right)}"
            )
        result = BSpline(knots, _coefficients(points, values, knots, k, left, right), k)
    result.axis = axis
    return result


def _coefficients(x: AnyTensor, y: AnyTensor, t: AnyTensor, k: int, left: list[Any], right: list[Any]) -> AnyTensor:
    """Return the B-spline coefficients of the interpolating spline, by solving a banded system."""
    count, n = t.shape[0] - k - 1, x.shape[0]
    rows, at = basis(t, x, k)
    lines = [rows]
    columns = [at.host()[:, None] + np.arange(-k, 1)]
    order = [np.arange(n) + len(left)]
    for conditions, end, first, shift in ((left, x[0], 0, 0), (right, x[-1], count - k - 1, count - len(right))):
        for i, (nu, _) in enumerate(conditions):
            identity = F.diag(F.full_like(t[:count], 1.0))
            lines.append(BSpline(t, identity, k)(end, nu)[None, first : first + k + 1])
            columns.append(first + np.arange(k + 1)[None])
            order.append(np.array([i + shift]))
    entries = F.cat(lines, 0)
    column, row = np.concatenate(columns), np.concatenate(order)[:, None]
    index = (k + row - column).clip(0, 2 * k), column
    ab = F.zeros((2 * k + 1, count), dtype=entries.dtype, device=entries.device)
    ab = F.index_put(ab, tuple(on_device(np.array(np.broadcast_to(i, column.shape)), x) for i in index), entries, True)
    sides = [F.stack([v for _, v in each]) for each in (left, right) if each]
    b = F.cat([*(sides[:1] if left else []), y, *(sides[-1:] if right else [])], 0)
    flat = F.reshape(b, (count, -1))
    return F.reshape(F.banded_solved(F.to(ab, flat.dtype), flat, k, k), b.shape)


def make_lsq_spline(
    x: Any, y: Any, t: Any, k: int = 3, w: Any = None, axis: int = 0, check_finite: bool = True, *, method: str = "qr"
) -> BSpline:
    """Return the least-squares spline with the knots `t`, differentiable with respect to `x`, `y`, `t` and `w`.

    Examples
    --------
    >>> from gradcore.scipy import interpolate
    >>> line = interpolate.make_lsq_spline([0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 2.0, 3.0], [0, 0, 3, 3], k=1)
    >>> line(1.5)
    tensor(1.5000, dtype=torch.float64)
    """
    points, values, knots = common(x, y, t)
    axis = axis_of(axis, values.ndim)
    values = F.movedim(values, axis, 0)
    count = knots.shape[0] - k - 1
    design = BSpline(knots, F.diag(F.full_like(F.real(knots) if F.is_complex(knots) else knots, 1.0)[:count]), k)(
        points
    )
    flat = F.reshape(values, (values.shape[0], -1))
    if w is not None:
        weights = floating(w)[:, None]
        design, flat = design * weights, flat * weights
    c = F.reshape(F.matmul(F.linalg_pinv(F.to(design, flat.dtype)), flat), (count, *values.shape[1:]))
    result = BSpline(knots, c, k)
    result.axis = axis
    return result


def splrep(x: Any, y: Any, *, k: int = 3, s: float = 0.0) -> tuple[Any, Any, int]:
    """Return knots, coefficients and degree of the interpolating spline, as `scipy.interpolate.splrep`.

    The coefficients are differentiable with respect to `x` and `y`.

    Raises
    ------
    TypeError
        For a smoothing spline (`s` > 0), whose choice of knots has no derivative. Use `make_lsq_spline` with knots.

    Examples
    --------
    >>> from gradcore.scipy import interpolate
    >>> tck = interpolate.splrep([0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 4.0, 9.0])
    >>> interpolate.splev([1.5], tck).round(decimals=4)
    tensor([2.2500], dtype=torch.float64)
    """
    if s:
        raise TypeError("splrep(s > 0) chooses knots, which has no derivative: use make_lsq_spline() with knots")
    spline = make_interp_spline(x, y, k)
    return spline.t, F.cat([spline.c, F.zeros_like(spline.c[:1]).expand(k + 1)]), k


def splev(x: Any, tck: Any, der: int = 0) -> AnyTensor:
    """Evaluate a spline, or its derivative of order `der`, at `x`, as `scipy.interpolate.splev`.

    `tck` is a result of `splrep`, or a spline object such as a `BSpline`.

    Examples
    --------
    >>> from gradcore.scipy import interpolate
    >>> spline = interpolate.splrep(gc.arange(5.0), gc.arange(5.0) ** 2, s=0)
    >>> interpolate.splev(gc.tensor(1.5), spline)
    tensor(2.2500)
    """
    if isinstance(tck, (tuple, list)):
        t, c, k = tck
        tck = BSpline(t, tensor_of(c)[: tensor_of(t).shape[0] - k - 1], k)
    return tck(x, der)
