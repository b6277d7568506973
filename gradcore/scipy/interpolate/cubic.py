"""Cubic interpolants in one dimension: splines, and interpolants that preserve the shape of the data."""

from __future__ import annotations

from typing import Any

from gradcore import functional as F
from gradcore.core.typing import AnyTensor
from gradcore.scipy.conversion import like
from gradcore.scipy.interpolate.piecewise import PPoly, per_sample, prepare_data
from gradcore.tensor import Tensor

__all__ = ["Akima1DInterpolator", "CubicHermiteSpline", "CubicSpline", "PchipInterpolator"]


class CubicHermiteSpline(PPoly):
    """The piecewise cubic polynomial with given values and slopes, differentiable with respect to `x`, `y` and `dydx`.

    Parameters
    ----------
    x, y, dydx : array_like
        Points, values, and slopes in the shape of the values.
    axis : int
        The dim of `y` along which it is interpolated.
    extrapolate : bool or "periodic", optional

    Examples
    --------
    >>> from gradcore.scipy import interpolate
    >>> interpolate.CubicHermiteSpline([0.0, 1.0], [0.0, 1.0], [0.0, 0.0])(0.25)
    tensor(0.1562, dtype=torch.float64)
    """

    def __init__(self, x: Any, y: Any, dydx: Any, axis: int = 0, extrapolate: Any = None) -> None:
        points, values, axis = prepare_data(x, y, axis)
        self._set(points, values, F.movedim(like(dydx, values), axis, 0), axis, extrapolate)

    def _set(self, x: AnyTensor, y: AnyTensor, slopes: AnyTensor, axis: int, extrapolate: Any) -> None:
        if slopes.shape != y.shape:
            raise ValueError("The shapes of `y` and `dydx` must be identical.")
        h = per_sample(F.diff(x), y.ndim - 1)
        secants = F.diff(y, 1, 0) / h
        bend = (slopes[:-1] + slopes[1:] - 2 * secants) / h
        self.x, self.axis = x, axis
        self.c = F.stack([bend / h, (secants - slopes[:-1]) / h - bend, slopes[:-1], y[:-1]])
        self.extrapolate = True if extrapolate is None else extrapolate


class PchipInterpolator(CubicHermiteSpline):
    """The cubic interpolant that is monotonic where the data are, differentiable with respect to `x` and `y`.

    Parameters
    ----------
    x, y : array_like
        Points and real values.
    axis : int
    extrapolate : bool or "periodic", optional

    Examples
    --------
    >>> from gradcore.scipy import interpolate
    >>> interpolate.PchipInterpolator([0.0, 1.0, 2.0], [0.0, 0.0, 1.0])([0.5, 1.5])
    tensor([0.0000, 0.3125], dtype=torch.float64)
    """

    def __init__(self, x: Any, y: Any, axis: int = 0, extrapolate: Any = None) -> None:
        points, values, axis = prepare_data(x, y, axis)
        _refuse_complex(values, type(self).__name__)
        h = per_sample(F.diff(points), values.ndim - 1)
        m = F.diff(values, 1, 0) / h
        if points.shape[0] == 2:
            slopes = F.cat([m, m], 0)
        else:
            left, right = m[:-1], m[1:]
            bent = left * right <= 0
            safe_left, safe_right = (F.where(bent, F.full_like(s, 1.0), s) for s in (left, right))
            w1, w2 = 2 * h[1:] + h[:-1], h[1:] + 2 * h[:-1]
            inner = F.where(bent, F.zeros_like(left), (w1 + w2) / (w1 / safe_left + w2 / safe_right))
            ends = [_end_slope(h[0], h[1], m[0], m[1]), _end_slope(h[-1], h[-2], m[-1], m[-2])]
            slopes = F.cat([ends[0][None], inner, ends[1][None]], 0)
        self._set(points, values, slopes, axis, extrapolate)


def _end_slope(h0: AnyTensor, h1: AnyTensor, m0: AnyTensor, m1: AnyTensor) -> AnyTensor:
    """Return the end slope of the parabola through three points, limited so that the interpolant stays monotonic."""
    slope = ((2 * h0 + h1) * m0 - h0 * m1) / (h0 + h1)
    steep = (F.sign(m0) != F.sign(m1)) & (F.abs(slope) > 3 * F.abs(m0))
    return F.where(F.sign(slope) != F.sign(m0), F.zeros_like(slope), F.where(steep, 3 * m0, slope))


def _refuse_complex(values: Tensor, name: str) -> None:
    if F.is_complex(values):
        raise ValueError(f"`{name}` only works with real values for `y`.")


class Akima1DInterpolator(CubicHermiteSpline):
    """Akima's interpolant, whose slopes depend on neighbouring values only; differentiable with respect to `x` and `y`.

    Parameters
    ----------
    x, y : array_like
        Points and real values.
    axis : int
    method : {"akima", "makima"}
        ``"makima"`` is the modified method, which overshoots less at steps.
    extrapolate : bool or "periodic", optional
        False by default.

    Examples
    --------
    >>> from gradcore.scipy import interpolate
    >>> interpolate.Akima1DInterpolator([0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 4.0, 9.0])(1.5)
    tensor(2.2500, dtype=torch.float64)
    """

    def __init__(
        self, x: Any, y: Any, axis: int = 0, *, method: str = "akima", extrapolate: bool | None = None
    ) -> None:
        if method not in ("akima", "makima"):
            raise NotImplementedError(f"`method`={method} is unsupported.")
        points, values, axis = prepare_data(x, y, axis)
        _refuse_complex(values, "Akima1DInterpolator")
        m = F.diff(values, 1, 0) / per_sample(F.diff(points), values.ndim - 1)
        if points.shape[0] == 2:
            slopes = F.cat([m, m], 0)
        else:
            leading = [3 * m[0] - 2 * m[1], 2 * m[0] - m[1]]
            trailing = [2 * m[-1] - m[-2], 3 * m[-1] - 2 * m[-2]]
            m = F.cat([F.stack(leading), m, F.stack(trailing)], 0)
            change = F.abs(F.diff(m, 1, 0))
            if method == "makima":
                change = change + F.abs(m[1:] + m[:-1]) / 2
            first, second = change[2:], change[:-2]
            total_change = first + second
            is_defined = total_change > 1e-9 * F.amax(total_change.detach())
            share = second / F.where(is_defined, total_change, F.full_like(total_change, 1.0))
            slopes = F.where(is_defined, m[1:-2] + share * (m[2:-1] - m[1:-2]), (m[3:] + m[:-3]) / 2)
        self._set(points, values, slopes, axis, False if extrapolate is None else extrapolate)


class CubicSpline(CubicHermiteSpline):
    """The interpolating cubic spline, whose second derivative is continuous.

    Parameters
    ----------
    x, y : array_like
        Points and values. The spline is differentiable with respect to both, and to the values in `bc_type`.
    axis : int
        The dim of `y` along which it is interpolated.
    bc_type : str or pair
        The conditions at the ends: ``"not-a-knot"``, ``"periodic"``, ``"clamped"``, ``"natural"``, or pairs
        ``(order, value)`` that prescribe a derivative.
    extrapolate : bool or "periodic", optional

    Examples
    --------
    >>> import gradcore as gc
    >>> from gradcore.scipy import interpolate
    >>> y = gc.tensor([0.0, 1.0, 0.0, 1.0], dtype=gc.float64, requires_grad=True)
    >>> spline = interpolate.CubicSpline([0.0, 1.0, 2.0, 3.0], y, bc_type="natural")
    >>> gc.autograd.grad(spline(1.5), y)[0]
    tensor([-0.0750,  0.5750,  0.5750, -0.0750], dtype=torch.float64)
    """

    def __init__(self, x: Any, y: Any, axis: int = 0, bc_type: Any = "not-a-knot", extrapolate: Any = None) -> None:
        points, values, axis = prepare_data(x, y, axis)
        start, end = _conditions(bc_type, values, axis)
        if extrapolate is None:
            extrapolate = "periodic" if start == "periodic" else True
        value_shape = values.shape[1:]
        flat = F.reshape(values, (values.shape[0], -1))
        slopes = F.reshape(_spline_slopes(points, flat, start, end), (-1, *value_shape))
        self._set(points, F.to(values, slopes.dtype), slopes, axis, extrapolate)


def _conditions(bc_type: Any, values: Tensor, axis: int) -> list[Any]:
    """Return the boundary condition at each end: a name, or a pair of the order and the values of a derivative."""
    if isinstance(bc_type, str):
        bc_type = (bc_type, bc_type)
    elif len(bc_type) != 2:
        raise ValueError("`bc_type` must contain 2 elements to specify start and end conditions.")
    elif any(isinstance(each, str) and each == "periodic" for each in bc_type):
        raise ValueError(
            "'periodic' `bc_type` is defined for both curve ends and cannot be used with other conditions."
        )
    if bc_type[0] == "periodic" and not bool(F.allclose(values[0], values[-1], rtol=1e-15, atol=1e-15)):
        raise ValueError(
            f"The first and last `y` point along axis {axis} must be identical (within machine precision) when "
            "bc_type='periodic'."
        )
    results: list[Any] = []
    for each in bc_type:
        if isinstance(each, str):
            if each not in ("clamped", "natural", "not-a-knot", "periodic"):
                raise ValueError(f"bc_type={each} is not allowed.")
            order = {"clamped": 1, "natural": 2}.get(each)
            results.append(each if order is None else (order, F.zeros_like(F.reshape(values[0], (-1,)))))
        else:
            order, value = each
            if order not in (1, 2):
                raise ValueError("The specified derivative order must be 1 or 2.")
            slope = like(value, values)
            if slope.shape != values.shape[1:]:
                raise ValueError(
                    f"`deriv_value` shape {tuple(slope.shape)} is not the expected one {tuple(values.shape[1:])}."
                )
            results.append((order, F.reshape(slope, (-1,))))
    return results


def _spline_slopes(x: AnyTensor, y: AnyTensor, start: Any, end: Any) -> AnyTensor:
    """Return the slopes at the points for values in columns.

    They solve a tridiagonal system, which states that the second derivative is continuous.
    """
    n, h = x.shape[0], F.diff(x)
    column = h[:, None]
    secants = F.diff(y, 1, 0) / column
    if n == 2:
        start, end = ((1, secants[0]) if each in ("not-a-knot", "periodic") else each for each in (start, end))
    if n == 3 and start == "not-a-knot" and end == "not-a-knot":  # a parabola
        middle = (column[1] * secants[0] + column[0] * secants[1]) / (column[0] + column[1])
        return F.stack([2 * secants[0] - middle, middle, 2 * secants[1] - middle])
    if start == "periodic":
        return _periodic_slopes(h, secants)
    diagonal, right = 2 * (h[:-1] + h[1:]), 3 * (column[1:] * secants[:-1] + column[:-1] * secants[1:])
    d0, o0, r0 = _end_row(start, h, column, secants, 0, 1, 1.0)
    d1, o1, r1 = _end_row(end, h, column, secants, -1, -2, -1.0)
    zero = F.zeros_like(h[:1])
    ab = F.stack([
        F.cat([zero, o0[None], h[:-1]]), F.cat([d0[None], diagonal, d1[None]]), F.cat([h[1:], o1[None], zero]),
    ])  # fmt: skip
    b = F.cat([r0[None], right, r1[None]], 0)
    return F.banded_solved(F.to(ab, b.dtype), b, 1, 1)


def _end_row(
    condition: Any, h: AnyTensor, column: AnyTensor, secants: AnyTensor, first: int, second: int, sign: float
) -> tuple[AnyTensor, AnyTensor, AnyTensor]:
    """Return the equation of an end condition: its diagonal element, its off-diagonal element and its right side."""
    h0 = h[first]
    if isinstance(condition, str):  # not-a-knot
        h1, two_steps = h[second], h[first] + h[second]
        right = (
            (column[first] + 2 * two_steps) * column[second] * secants[first] + column[first] ** 2 * secants[second]
        ) / two_steps
        return h1, two_steps, right
    order, value = condition
    if order == 1:
        return F.full_like(h0, 1.0), F.zeros_like(h0), value
    return 2 * h0, h0, 3 * column[first] * secants[first] - sign * value * column[first] ** 2 / 2


def _periodic_slopes(h: AnyTensor, secants: AnyTensor) -> AnyTensor:
    """Return the slopes of a periodic spline.

    They solve a cyclic tridiagonal system: a tridiagonal one with a rank-one correction (Sherman-Morrison).
    """
    column, previous, m = h[:, None], F.roll(h, 1, 0), h.shape[0]
    right = 3 * (column * F.roll(secants, 1, 0) + previous[:, None] * secants)
    if m < 3:
        matrix = F.diag(2 * (h + previous)) + F.flip(F.diag(F.flip(h + previous, (0,))), (1,))
        slopes = F.linalg_solve(F.to(matrix, right.dtype), right) if m == 2 else secants
        return F.cat([slopes, slopes[:1]], 0)
    corner, zero = h[0], F.zeros_like(h[:1])
    low, high = previous[-1], h[0]  # the elements in the corners: of the last row and of the first
    diagonal = 2 * (h + previous)
    gamma = -diagonal[:1]
    diagonal = F.cat([diagonal[:1] - gamma, diagonal[1:-1], diagonal[-1:] - low * high / gamma])
    ab = F.stack([F.cat([zero, previous[:-1]]), diagonal, F.cat([h[1:], zero])])
    vector = F.cat([gamma, F.zeros_like(h[1:-1]), low[None]])[:, None]
    solutions = F.banded_solved(F.to(ab, right.dtype), F.cat([right, F.to(vector, right.dtype)], 1), 1, 1)
    solved, correction = solutions[:, :-1], solutions[:, -1:]
    ratio = corner / gamma
    slopes = solved - correction * (solved[:1] + ratio * solved[-1:]) / (1 + correction[:1] + ratio * correction[-1:])
    return F.cat([slopes, slopes[:1]], 0)
