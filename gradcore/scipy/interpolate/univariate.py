"""Splines of one variable with the names and arguments of SciPy's FITPACK classes."""

from __future__ import annotations

from collections.abc import Sequence

from gradcore import functional as F
from gradcore.core.typing import AnyTensor, ArrayLike
from gradcore.numpy.conversion import tensor_of
from gradcore.scipy.conversion import floating
from gradcore.scipy.interpolate.bsplines import BSpline, make_interp_spline, make_lsq_spline

__all__ = ["InterpolatedUnivariateSpline", "LSQUnivariateSpline", "UnivariateSpline"]

_MODES = ("extrapolate", "zeros", "raise", "const")


def _mode(ext: int | str) -> int:
    """Return the number of the extrapolation mode `ext`, a name or a number."""
    number = _MODES.index(ext) if ext in _MODES else ext
    if number not in range(4):
        raise ValueError(f"Unknown extrapolation mode {ext}.")
    return int(number)


class UnivariateSpline:
    """The interpolating spline, differentiable with respect to `x`, `y` and the evaluation points.

    Parameters
    ----------
    x, y : array_like
        Points in increasing order, and values.
    w, bbox : None
        Weights do not change an interpolating spline. A `bbox` other than the data's range is refused.
    k : int
        The degree, from 1 to 5.
    s : float
        Must be 0. Any other value, SciPy's default included, chooses knots from the data. This choice has no
        derivative, so it raises a TypeError.
    ext : int or str
        The mode outside of the data: 0 or ``"extrapolate"``, 1 or ``"zeros"``, 2 or ``"raise"``, 3 or ``"const"``.

    Examples
    --------
    >>> from gradcore.scipy import interpolate
    >>> spline = interpolate.UnivariateSpline([0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 4.0, 9.0], s=0)
    >>> spline(1.25), spline.derivative()(2.25)
    (tensor(1.5625, dtype=torch.float64), tensor(4.5000, dtype=torch.float64))
    """

    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike,
        w: ArrayLike = None,
        bbox: Sequence[float | None] = (None, None),
        k: int = 3,
        s: float | None = None,
        ext: int | str = 0,
    ) -> None:
        if s is None or s:
            raise TypeError(
                "UnivariateSpline(s > 0), the default, chooses knots, which has no derivative: use s=0, or "
                "LSQUnivariateSpline() with knots"
            )
        self._set(make_interp_spline(x, y, k), x, y, w, bbox, ext)

    def _set(
        self, spline: BSpline, x: ArrayLike, y: ArrayLike, w: ArrayLike, bbox: Sequence[float | None], ext: int | str
    ) -> None:
        if any(end is not None for end in bbox):
            raise TypeError(f"{type(self).__name__}(bbox=...) is not implemented: the ends are those of x")
        self._spline, self.ext = spline, _mode(ext)
        self._data = floating(x), tensor_of(y), w

    def __call__(self, x: ArrayLike, nu: int = 0, ext: int | str | None = None) -> AnyTensor:
        """Evaluate the spline, or its derivative of order `nu`, at `x`."""
        mode = self.ext if ext is None else _mode(ext)
        points = floating(x)
        first, last = self._spline.t[self._spline.k], self._spline.t[-self._spline.k - 1]
        outside = (points < first) | (points > last)
        if mode == 0:
            return self._spline(points, nu)
        if mode == 2 and bool(outside.any()):
            raise ValueError("A value in x is outside of the data (ext=2).")
        inside = F.minimum(F.maximum(points, first), last)
        values = self._spline(inside if mode == 3 else F.where(outside, first, points), nu)
        return F.where(outside, F.zeros_like(values), values) if mode == 1 or (mode == 3 and nu) else values

    def _with(self, spline: BSpline) -> UnivariateSpline:
        result = object.__new__(UnivariateSpline)
        result._spline, result.ext, result._data = spline, self.ext, self._data
        return result

    def derivative(self, n: int = 1) -> UnivariateSpline:
        """Return the derivative of order `n` as a spline."""
        return self._with(self._spline.derivative(n))

    def antiderivative(self, n: int = 1) -> UnivariateSpline:
        """Return the antiderivative of order `n`, which is zero at the first point, as a spline."""
        return self._with(self._spline.antiderivative(n))

    def derivatives(self, x: ArrayLike) -> AnyTensor:
        """Return a vector of the spline's value and all its derivatives at the point `x`."""
        return F.stack([self._spline(floating(x), nu) for nu in range(self._spline.k + 1)])

    def integral(self, a: ArrayLike, b: ArrayLike) -> AnyTensor:
        """Return the integral from `a` to `b`; the spline is zero outside of the data."""
        first, last = self._spline.t[self._spline.k], self._spline.t[-self._spline.k - 1]
        low, high = (F.minimum(F.maximum(floating(end), first), last) for end in (a, b))
        return self._spline.integrate(low, high)

    def get_knots(self) -> AnyTensor:
        """Return the knots without repetition."""
        k = self._spline.k
        return self._spline.t[k : self._spline.t.shape[0] - k]

    def get_coeffs(self) -> AnyTensor:
        """Return the coefficients of the B-splines."""
        return self._spline.c

    def get_residual(self) -> AnyTensor:
        """Return the weighted sum of squared residuals."""
        x, y, w = self._data
        residuals = y - self._spline(x)
        return F.sum(residuals * residuals if w is None else (floating(w) * residuals) ** 2)


class InterpolatedUnivariateSpline(UnivariateSpline):
    """The interpolating spline: `UnivariateSpline` with ``s=0``.

    Examples
    --------
    >>> from gradcore.scipy import interpolate
    >>> spline = interpolate.InterpolatedUnivariateSpline(gc.arange(5.0), gc.arange(5.0) ** 2)
    >>> spline(gc.tensor(1.5))
    tensor(2.2500)
    """

    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike,
        w: ArrayLike = None,
        bbox: Sequence[float | None] = (None, None),
        k: int = 3,
        ext: int | str = 0,
        check_finite: bool = False,
    ) -> None:
        super().__init__(x, y, w, bbox, k, 0, ext)


class LSQUnivariateSpline(UnivariateSpline):
    """The least-squares spline with given inner knots, differentiable with respect to `x`, `y`, `t` and `w`.

    Parameters
    ----------
    x, y : array_like
        Points in increasing order, and values.
    t : array_like
        Knots between the first and the last point.
    w : array_like, optional
        Weights.
    bbox : None
        A range other than the data's is refused.
    k : int
        The degree.
    ext : int or str
        See `UnivariateSpline`.

    Examples
    --------
    >>> from gradcore.scipy import interpolate
    >>> spline = interpolate.LSQUnivariateSpline([0.0, 1.0, 2.0, 3.0, 4.0], [0.0, 1.0, 2.0, 3.0, 4.0], [2.0], k=1)
    >>> spline(2.5).round(decimals=4)
    tensor(2.5000, dtype=torch.float64)
    """

    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike,
        t: ArrayLike,
        w: ArrayLike = None,
        bbox: Sequence[float | None] = (None, None),
        k: int = 3,
        ext: int | str = 0,
        check_finite: bool = False,
    ) -> None:
        points = floating(x)
        knots = F.cat([points[:1].expand(k + 1), F.to(floating(t), points.dtype), points[-1:].expand(k + 1)])
        self._set(make_lsq_spline(points, y, knots, k, w), x, y, w, bbox, ext)
