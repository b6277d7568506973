"""``gradcore.scipy.interpolate`` against SciPy, and derivatives by values, points and queries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.autograd import gradcheck, gradgradcheck
from gradcore.scipy import interpolate
from tests.references import IS_NEWEST

scipy_interpolate = pytest.importorskip("scipy.interpolate")

RANDOM = np.random.default_rng(5)
X = np.cumsum(RANDOM.uniform(0.5, 1.5, 7))
Y = RANDOM.normal(size=(7, 2))
LOOP = np.concatenate([Y[:-1], Y[:1]])
INSIDE = RANDOM.uniform(X[0], X[-1], (2, 3))
AROUND = np.array([X[0] - 0.3, X[2], X[-1], X[-1] + 0.7])
KNOTS = np.r_[[X[0]] * 4, X[2:-2], [X[-1]] * 4]

#: Calls of what interpolates in one dimension: name, values, settings.
LINES: list[tuple[str, Any, dict[str, Any]]] = [
    *[("CubicSpline", Y, {"bc_type": bc}) for bc in ("not-a-knot", "clamped", "natural")],
    ("CubicSpline", LOOP, {"bc_type": "periodic"}),
    ("CubicSpline", Y, {"bc_type": ((1, [0.5, 1.0]), (2, [0.1, -1.0]))}),
    ("CubicSpline", Y.T, {"axis": 1, "extrapolate": False}),
    ("CubicSpline", Y[:, 0] + 1j * Y[:, 1], {}),
    ("PchipInterpolator", Y, {}),
    ("PchipInterpolator", Y.T, {"axis": -1, "extrapolate": False}),
    ("Akima1DInterpolator", Y, {"extrapolate": True}),
    ("Akima1DInterpolator", Y, {"method": "makima"}),
    *[("make_interp_spline", Y, {"k": k}) for k in (0, 1, 2, 3)],
    ("make_interp_spline", Y.T, {"axis": 1, "bc_type": "natural"}),
    ("make_interp_spline", Y, {"bc_type": ([(1, [0.0, 1.0])], [(2, [0.5, 0.0])])}),
    ("make_interp_spline", Y, {"k": 5, "bc_type": ([(1, np.zeros(2)), (2, np.ones(2))], [(1, np.ones(2)), (3, Y[0])])}),
    ("make_lsq_spline", Y, {"t": np.r_[[X[0]] * 4, X[3], [X[-1]] * 4]}),
    ("interp1d", Y, {"axis": 0, "fill_value": "extrapolate"}),
    ("interp1d", Y, {"axis": 0, "bounds_error": False, "fill_value": (1.0, 2.0)}),
    *[("interp1d", Y, {"axis": 0, "kind": kind, "fill_value": "extrapolate"})
      for kind in ("linear", "nearest", "nearest-up", "previous", "next", "zero")],
    *[("interp1d", Y[:, 0], {"kind": kind, "bounds_error": False})
      for kind in ("nearest", "nearest-up", "previous", "next", "zero", "quadratic", "cubic", 4)],
]  # fmt: skip
STEPS = ("nearest", "nearest-up", "previous", "next", "zero")


def tensors(settings: dict[str, Any]) -> dict[str, Any]:
    return {k: gc.tensor(v) if isinstance(v, np.ndarray) else v for k, v in settings.items()}


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("name", "y", "settings"), LINES)
def test_lines(name: str, y: Any, settings: dict[str, Any]) -> None:
    ours, theirs = getattr(interpolate, name), getattr(scipy_interpolate, name)
    strided = gc.tensor(np.repeat(y, 2, -1))[..., ::2]
    found, wanted = ours(gc.tensor(X), strided, **tensors(settings)), theirs(X, y, **settings)
    for at in (INSIDE, AROUND, X[3], 0.5 * (X[0] + X[1])):
        np.testing.assert_allclose(found(at).numpy(), wanted(at), rtol=1e-9, atol=1e-9)
    k = getattr(found, "k", 3)
    if name != "interp1d":
        for nu in range(1, min(k, 2) + 1):
            np.testing.assert_allclose(
                found.derivative(nu)(AROUND), wanted.derivative(nu)(AROUND), rtol=1e-8, atol=1e-8
            )
            np.testing.assert_allclose(found(INSIDE, nu), wanted(INSIDE, nu), rtol=1e-8, atol=1e-8)
        inner = slice(0, 4) if found.extrapolate is True or found.extrapolate == "periodic" else slice(1, 3)
        np.testing.assert_allclose(
            found.antiderivative()(AROUND[inner]), wanted.antiderivative()(AROUND[inner]), rtol=1e-8, atol=1e-8
        )
        for limits in ((X[1] + 0.1, X[-1] - 0.2), (X[4], X[0]), (X[0] - 0.2, X[-1] + 1.5)):
            np.testing.assert_allclose(found.integrate(*limits), wanted.integrate(*limits), rtol=1e-8, atol=1e-8)

    leaves = [gc.tensor(v, requires_grad=True) for v in (X, y, INSIDE[0])]
    order = getattr(found, "k", settings.get("kind", 3))

    def call(x: Any, y: Any, at: Any) -> Any:
        if settings.get("bc_type") == "periodic":
            y = gc.cat([y[:-1], y[:1]])
        return ours(x, y, **tensors(settings))(at)

    if order in STEPS or order == 0:  # steps have derivatives by values
        fixed = leaves[0].detach()
        assert gradcheck(lambda y: call(fixed, y, leaves[2].detach()), leaves[1], fast_mode=True)
        return
    assert gradcheck(call, leaves, fast_mode=True, check_forward_ad=True, atol=1e-4)
    if order == 3 or not isinstance(order, int):
        assert gradgradcheck(call, leaves, fast_mode=True, atol=1e-3, rtol=1e-2)


def test_given_polynomials() -> None:
    c, t = RANDOM.normal(size=(4, 6, 2)), KNOTS
    slopes = RANDOM.normal(size=Y.shape)
    pairs: list[tuple[Any, Any]] = [
        (interpolate.PPoly(c, X), scipy_interpolate.PPoly(c, X)),
        (interpolate.PPoly(c, X, "periodic"), scipy_interpolate.PPoly(c, X, "periodic")),
        (interpolate.CubicHermiteSpline(X, Y, slopes), scipy_interpolate.CubicHermiteSpline(X, Y, slopes)),
        (interpolate.BSpline(t, Y, 3), scipy_interpolate.BSpline(t, Y, 3)),
        (interpolate.BSpline(t, Y, 3, "periodic"), scipy_interpolate.BSpline(t, Y, 3, "periodic")),
        (interpolate.BSpline(t, Y, 3, False), scipy_interpolate.BSpline(t, Y, 3, False)),
    ]
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours(AROUND), theirs(AROUND), rtol=1e-10)
        np.testing.assert_allclose(ours.integrate(X[0] - 0.3, X[-1] + 9.0), theirs.integrate(X[0] - 0.3, X[-1] + 9.0))
        np.testing.assert_allclose(ours(X[2:4], 1), theirs(X[2:4], 1), rtol=1e-9)
    knots = np.linspace(X[0] - 3, X[-1] + 3, 11)
    leaves = [gc.tensor(v, requires_grad=True) for v in (knots, Y, INSIDE[0])]
    inner = lambda t, c, at: interpolate.BSpline(t, c, 3)(at)  # noqa: E731
    assert gradcheck(inner, leaves, fast_mode=True, check_forward_ad=True)
    for n in (2, 3, 4):
        for bc in ("not-a-knot", "natural", "clamped", "periodic"):
            y = np.concatenate([Y[: n - 1], Y[:1]]) if bc == "periodic" else Y[:n]
            ours, theirs = (m.CubicSpline(X[:n], y, bc_type=bc) for m in (interpolate, scipy_interpolate))
            np.testing.assert_allclose(ours(AROUND), theirs(AROUND), rtol=1e-9, atol=1e-10)
        for name in ("PchipInterpolator", *["Akima1DInterpolator"] * IS_NEWEST):  # as SciPy 1.17 treats 2 points
            ours, theirs = (getattr(m, name)(X[:n], Y[:n]) for m in (interpolate, scipy_interpolate))
            np.testing.assert_allclose(ours(X[:2] + 0.1), theirs(X[:2] + 0.1), rtol=1e-9)


GRID = (X[:6], np.linspace(0, 1, 6), -np.linspace(0, 2, 4))
VALUES = RANDOM.normal(size=(6, 6, 4, 2))
POINTS = np.stack([RANDOM.uniform(g.min(), g.max(), 5) for g in GRID], -1)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("method", ["linear", "nearest", "slinear", "cubic", "quintic", "pchip"])
def test_grids(method: str) -> None:
    grid, values, points = (GRID, VALUES, POINTS) if method != "quintic" else (GRID[:2], VALUES[:, :, 0], POINTS[:, :2])
    if method == "pchip":
        values = values[..., 0]  # SciPy's takes real numbers alone
    theirs = scipy_interpolate.RegularGridInterpolator(grid, values, method, bounds_error=False)
    ours = interpolate.RegularGridInterpolator(grid, gc.tensor(values), method, bounds_error=False)
    outside = points + np.array([20.0, *[0.0] * (len(grid) - 1)])
    exact = {"rtol": 1e-8, "atol": 1e-9}
    loose = {"rtol": 1e-2, "atol": 1e-3} if method in ("cubic", "quintic") else exact  # SciPy's solver iterates
    np.testing.assert_allclose(ours(points), theirs(points), **loose)
    nodes = np.stack([g[1:3] for g in grid], -1)
    np.testing.assert_allclose(ours(nodes), values[(np.arange(1, 3),) * len(grid)], **exact)
    assert ours(outside).isnan().all()
    extended = [
        m.RegularGridInterpolator(grid, values, method, False, None)(points * 1.01 + 0.01)
        for m in (interpolate, scipy_interpolate)
    ]
    np.testing.assert_allclose(*extended, **loose)
    leaves = [gc.tensor(v, requires_grad=True) for v in (values, points[:2], grid[0])]

    def call(values: Any, at: Any, first: Any) -> Any:
        return interpolate.interpn((first, *grid[1:]), values, at, method)

    if method == "nearest":
        assert gradcheck(lambda v: call(v, points, grid[0]), leaves[0], fast_mode=True)
    else:
        assert gradcheck(call, leaves, fast_mode=True, check_forward_ad=method != "pchip", atol=1e-4)
    if method == "linear":
        assert gradgradcheck(call, leaves, fast_mode=True, atol=1e-4)
        with pytest.raises(ValueError, match="out of bounds"):
            call(values, outside, grid[0])


PLANE = RANDOM.uniform(size=(9, 2))
HEIGHTS = RANDOM.normal(size=(9, 2))
QUERIES = PLANE[:4] * 0.3 + PLANE[1:5] * 0.3 + PLANE[2:6] * 0.4


@pytest.mark.parametrize(
    "settings",
    [
        {}, {"kernel": "linear"}, {"kernel": "cubic", "smoothing": 0.1}, {"kernel": "quintic"}, {"degree": 2},
        *({"kernel": k, "epsilon": 2.0} for k in ("multiquadric", "inverse_multiquadric")),
        *({"kernel": k, "epsilon": 2.0} for k in ("inverse_quadratic", "gaussian")),
    ],
)  # fmt: skip
def test_radial_functions(settings: dict[str, Any]) -> None:
    ours, theirs = (m.RBFInterpolator(PLANE, HEIGHTS, **settings) for m in (interpolate, scipy_interpolate))
    for at in (QUERIES, PLANE):
        np.testing.assert_allclose(ours(at), theirs(at), rtol=1e-6, atol=1e-8)
    leaves = [gc.tensor(v, requires_grad=True) for v in (PLANE, HEIGHTS, QUERIES)]
    call = lambda y, d, x: interpolate.RBFInterpolator(y, d, **settings)(x)  # noqa: E731
    assert gradcheck(call, leaves, fast_mode=True, check_forward_ad=True, atol=1e-4)


@pytest.mark.parametrize("method", ["linear", "nearest"])
@pytest.mark.parametrize("rescale", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_scattered(method: str, rescale: bool) -> None:
    queries = np.vstack([QUERIES, [[5.0, 5.0]]])
    ours, theirs = (
        m.griddata(PLANE, HEIGHTS, queries, method, rescale=rescale) for m in (interpolate, scipy_interpolate)
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)
    pair = (queries[:, 0], queries[:, 1])
    np.testing.assert_allclose(interpolate.griddata(PLANE, HEIGHTS, pair, method, rescale=rescale), theirs, rtol=1e-9)
    leaves = [gc.tensor(v, requires_grad=True) for v in (PLANE, HEIGHTS, QUERIES)]
    if method == "linear":
        call: Callable[..., Any] = lambda p, v, x: interpolate.griddata(p, v, x)  # noqa: E731
        assert gradcheck(call, leaves, fast_mode=True, check_forward_ad=True)
        assert gradgradcheck(call, leaves, fast_mode=True, atol=1e-4)
    else:
        assert gradcheck(lambda v: interpolate.griddata(PLANE, v, QUERIES, "nearest"), leaves[1], fast_mode=True)


INTERPOLATORS = {
    "grid": lambda m, p, v: m.RegularGridInterpolator((np.arange(4.0), np.arange(3.0)), v.reshape(4, 3)),
    "triangles": lambda m, p, v: m.LinearNDInterpolator(p, v),
    "nearest": lambda m, p, v: m.NearestNDInterpolator(p, v),
    "griddata": lambda m, p, v: lambda xi: m.griddata(p, v, xi),
    "interpn": lambda m, p, v: lambda xi: m.interpn((np.arange(4.0), np.arange(3.0)), v.reshape(4, 3), xi),
}  # fmt: skip
POINT_QUERIES = (
    [0.6, 1.2], [[0.6, 1.2]], (0.6, 1.2), [0.6, 1.2, 1.0, 0.4], ([0.6, 1.0], 1.2), np.full((2, 3, 2), 0.7),
    (np.array([[0.6], [1.0]]), np.array([0.2, 0.5, 1.0])), [0.5, 0.6, 0.7], [[0.5, 0.6, 0.7]], (0.5, 0.6, 0.7),
)  # fmt: skip


@pytest.mark.parametrize("query", POINT_QUERIES, ids=range(len(POINT_QUERIES)))
@pytest.mark.parametrize("name", INTERPOLATORS)
def test_queries_have_the_shapes_of_scipy(name: str, query: Any) -> None:
    random = np.random.default_rng(3)
    corners = [[0.0, 0.0], [0.0, 2.0], [2.0, 0.0], [2.0, 2.0]]
    points, values = np.r_[corners, random.random((8, 2)) * 2], random.random(12)
    ours, theirs = (INTERPOLATORS[name](m, points, values) for m in (interpolate, scipy_interpolate))
    try:
        wanted = theirs(query)
    except ValueError:
        with pytest.raises(ValueError, match="need 2 coordinates"):
            ours(query)
    else:
        assert tuple(ours(query).shape) == np.shape(wanted)
        np.testing.assert_allclose(ours(query).numpy(), wanted, rtol=1e-9)


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="strictly increasing"):
        interpolate.CubicSpline([0.0, 0.0, 1.0], [0.0, 1.0, 2.0])
    with pytest.raises(ValueError, match="must be identical"):
        interpolate.CubicSpline(X, Y, bc_type="periodic")
    with pytest.raises(ValueError, match="real values"):
        interpolate.PchipInterpolator(X, Y + 1j)
    with pytest.raises(NotImplementedError, match="CubicSpline"):
        interpolate.make_interp_spline(X, LOOP, bc_type="periodic")
    with pytest.raises(TypeError, match="neighbors"):
        interpolate.RBFInterpolator(PLANE, HEIGHTS, neighbors=3)
    with pytest.raises(ValueError, match="above the interpolation range"):
        interpolate.interp1d(X, Y, axis=0)(X[-1] + 1)
    with pytest.raises(ValueError, match="griddata"):
        interpolate.griddata(PLANE, HEIGHTS, QUERIES, "cubic")


@pytest.mark.parametrize("k", [1, 3, 5])
def test_splines_as_knots_coefficients_and_degree(k: int) -> None:
    x, at = np.array([0.0, 0.5, 1.2, 2.0, 2.7, 3.5, 4.0]), np.linspace(0.13, 3.8, 7)
    y = gc.tensor(np.sin(x), requires_grad=True)
    for der in (0, 1):
        found = interpolate.splev(at, interpolate.splrep(x, y, k=k), der)
        expected = scipy_interpolate.splev(at, scipy_interpolate.splrep(x, np.sin(x), k=k), der)
        np.testing.assert_allclose(found.detach(), expected, atol=1e-9)
    points = gc.tensor(at, requires_grad=True)
    assert gradcheck(lambda y, at: interpolate.splev(at, interpolate.splrep(x, y, k=k)), (y, points))
    theirs = scipy_interpolate.splrep(x, np.sin(x), k=k)
    np.testing.assert_allclose(interpolate.splev(at, theirs), scipy_interpolate.splev(at, theirs), atol=1e-9)
    with pytest.raises(TypeError, match="make_lsq_spline"):
        interpolate.splrep(x, y, s=1.0)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_splines_under_their_older_names(k: int) -> None:
    y, points = Y[:, 0], np.concatenate([AROUND, INSIDE.reshape(-1)])
    knots = X[2:3] + 0.1
    for theirs, ours in (
        (scipy_interpolate.UnivariateSpline(X, y, k=k, s=0), interpolate.UnivariateSpline(X, y, k=k, s=0)),
        (
            scipy_interpolate.LSQUnivariateSpline(X, y, knots, k=min(k, 3)),
            interpolate.LSQUnivariateSpline(X, y, knots, k=min(k, 3)),
        ),
    ):
        for ext in ("extrapolate", "zeros", "const"):
            np.testing.assert_allclose(ours(points, ext=ext), theirs(points, ext=ext), 1e-9, 1e-9)
        with pytest.raises(ValueError):
            ours(points, ext="raise")
        np.testing.assert_allclose(ours.integral(X[1] - 9, X[4]), theirs.integral(X[1] - 9, X[4]))
        np.testing.assert_allclose(ours.get_knots(), theirs.get_knots())
        np.testing.assert_allclose(ours.get_coeffs(), theirs.get_coeffs(), 1e-9, 1e-9)
        np.testing.assert_allclose(ours.get_residual(), theirs.get_residual(), 1e-9, 1e-9)
        np.testing.assert_allclose(ours.antiderivative()(points), theirs.antiderivative()(points), 1e-9, 1e-9)
        np.testing.assert_allclose(ours(points, 1), theirs(points, 1), 1e-8, 1e-8)
    with pytest.raises(TypeError, match="chooses knots"):
        interpolate.UnivariateSpline(X, y)
    x, values = (gc.tensor(a, requires_grad=True) for a in (X, y))
    for spline in (
        lambda x, y: interpolate.InterpolatedUnivariateSpline(x, y, k=k),
        lambda x, y: interpolate.LSQUnivariateSpline(x, y, knots, k=min(k, 3)),
    ):
        assert gradcheck(
            lambda x, y, spline=spline: spline(x, y)(INSIDE[0]), (x, values), check_forward_ad=True, fast_mode=True
        )
