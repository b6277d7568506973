"""`gradcore.scipy.ndimage` against SciPy, and its derivatives."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import scipy.ndimage

import gradcore as gc
from gradcore.scipy import ndimage
from tests.references import IS_NEWEST
from tests.scipy_functions.comparing import check_derivatives, check_values, expressions

MODES = ("reflect", "constant", "nearest", "mirror", "wrap", "grid-mirror", "grid-constant", "grid-wrap")


def arrays() -> dict[str, Any]:
    rng = np.random.default_rng(3)
    return {
        "A": rng.uniform(-1, 1, (7, 9)),
        "B": rng.uniform(-1, 1, (4, 5, 3)),
        "V": rng.uniform(-1, 1, 12),
        "C": rng.uniform(-1, 1, (5, 6)) + 1j * rng.uniform(-1, 1, (5, 6)),
        "F": rng.uniform(-1, 1, (6, 5)).astype(np.float32),
        "I": rng.integers(0, 200, (5, 6)),
        "U": rng.integers(0, 200, (5, 6)).astype(np.uint8),
        "W": rng.uniform(-1, 1, (3, 2)),
        "K": rng.uniform(-1, 1, 4),
        "X": rng.uniform(-2.9, 10.1, (2, 3, 4)),
        "Y": rng.uniform(0.1, 4.9, (2, 6)),
        "M": np.array([[0.9, 0.23], [-0.31, 1.07]]),
        "D": np.array([0.83, 1.13]),
        "H": np.array([[0.9, 0.2, 0.3], [-0.3, 1.1, 0.7]]),
        "O": np.array([0.37, -0.61]),
        "S": np.array(1.1),
        "R": np.array(27.3),
        "Z": rng.permutation(63).reshape(7, 9) / 20.0,
    }


FILTERS = """
correlate1d: A, K; A, K, 0, origin=1; F, [1, 2, 3]; I, [1, 2, 1]; C, K; A, [0.5]; U, [0.5, 0.2, 0.1], output=float
convolve1d: A, K, mode="wrap"; A, K, 0, origin=-1; A, [1.0, 2, 3], mode="mirror"; C, [1j, 2, 1]
correlate: A, W; A, [[1j, 2], [3, 1]]; A, W, mode="constant", cval=1.5; B, W, axes=(0, 2); A, W, origin=(1, -1)
correlate: C, W; F, [[1.0, 2.0]]; I, [[1, 2], [0, 1]]
convolve: A, W; A, W, mode="nearest", origin=(-1, 0); B, W, axes=(2, 1); C, W; A, W, output=np.float32
convolve: A, [[1j, 2], [3, 1]]
gaussian_filter1d: A, 1.2; A, S, 0; A, S, order=1; A, 0.7, order=2, mode="wrap"; A, 0.8, order=3; F, 2.0
gaussian_filter1d: A, 1.0, radius=2; A, 1, truncate=2.0
gaussian_filter: A, 1.1; A, S; A, (0.5, 1.5), order=(0, 1); B, 1.0, axes=(0, 1), mode="constant", cval=2.0; I, 1.0
gaussian_filter: A, 0; F, 1.3, radius=(2, 3); C, 0.9; A, [1, 2], mode=["wrap", "nearest"]
uniform_filter1d: A, 3; A, 4, 0, origin=1; I, 3
uniform_filter: A; A, (2, 3), mode="mirror"; B, 2, axes=(1,); I, 3; A, 3, origin=(0, 1)
sobel: A; A, 0, mode="wrap"; I
prewitt: A; B, 1, mode="constant"; F
laplace: A; B, mode="nearest"; A, axes=(1,); I
gaussian_laplace: A, 1.0; A, S; A, (0.5, 1.0), mode="wrap"
gaussian_gradient_magnitude: A, 1.0; A, S; F, 0.8
"""

RANKS = """
minimum_filter: Z, 3; Z, (2, 3), mode="constant", cval=1.0; Z, footprint=[[1, 0], [1, 1]]; I, 2; Z, 3, axes=(1,); F, 3
maximum_filter: Z, 3; Z, (3, 2), mode="wrap", origin=(0, -1); U, 3
median_filter: Z, 3; Z, (2, 3), mode="mirror"; F, 3
percentile_filter: Z, 30, 3; Z, -20, (3, 2), mode="nearest"; Z, 100, 2
rank_filter: Z, 1, 3; Z, -2, footprint=[[1, 1, 0], [0, 1, 1]]; I, 2, 3
minimum_filter1d: Z, 3; Z, 4, 0, mode="wrap"
maximum_filter1d: Z, 3, 0; Z, 2, origin=-1
"""

SPLINES = """
spline_filter1d: A; A, 5, 0; A, 4, mode="grid-wrap"; F, 2; C, 3, 0, output=complex; A, 1; A, 3, output=np.float32
spline_filter: A; A, 2, mode="grid-wrap"; C, output=complex; F
map_coordinates: A, X; A, Y, order=1; F, X, mode="nearest"; I, Y, order=1; C, Y, cval=1.0; U, X, mode="mirror"
map_coordinates: A, X, mode="constant", cval=np.nan, order=1; A, X, prefilter=False
affine_transform: A, M; A, M, O, mode="mirror"; A, D, O, order=2, mode="reflect"; A, H, mode="nearest"
affine_transform: B, [0.9, 1.1, 1.3], 0.2, mode="wrap"; A, M, O, output_shape=(3, 4), mode="grid-wrap"; F, M, 0.3
affine_transform: C, M, O, cval=1.0; I, M, order=1
shift: A, O; A, 0.7, mode="wrap"; A, O, order=1, cval=2.0; C, 0.4, mode="nearest"; I, 1.3
shift: A, (1, -2), mode="grid-constant", cval=1.0
zoom: A, 1.7; A, (0.6, 2), order=1, mode="nearest"; A, 2, grid_mode=True, mode="grid-constant"; F, 0.5; I, 1.5
zoom: C, 1.3, mode="mirror"; B, 1.5, order=0
rotate: A, 33.0; A, R, reshape=False; A, 90; B, 20, axes=(2, 0), mode="nearest", order=1; F, -50, mode="mirror"
rotate: A, 12.5, cval=3.0
"""

CALLS = FILTERS + RANKS + SPLINES


@pytest.mark.parametrize("expression", expressions(CALLS))
def test_values(expression: str) -> None:
    check_values(expression, "ndimage", arrays(), 1e-8)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("function", ["correlate(A, W, mode=MODE, cval=0.7)", "median_filter(Z, (3, 2), mode=MODE)"])
def test_modes_of_filters(function: str, mode: str) -> None:
    check_values(function.replace("MODE", repr(mode)), "ndimage", arrays())
    check_derivatives(function.replace("MODE", repr(mode)), "ndimage", arrays(), second=False)


@pytest.mark.parametrize(("order", "mode"), list(itertools.product(range(6), MODES)))
def test_orders_and_modes_of_splines(order: int, mode: str) -> None:
    """Of rows long enough for SciPy's sums over reflected elements, which it cuts."""
    rng = np.random.default_rng(order)
    given = {"L": rng.uniform(-1, 1, 25), "P": rng.uniform(-9, 34, (1, 40))}
    check_values(f"map_coordinates(L, P, order={order}, mode={mode!r}, cval=0.6)", "ndimage", given, 1e-7)
    check_values(f"shift(L, 1.37, order={order}, mode={mode!r}, cval=0.6)", "ndimage", given, 1e-7)
    if order:
        check_derivatives(f"map_coordinates(L, P, order={order}, mode={mode!r})", "ndimage", given, second=order > 2)


@pytest.mark.parametrize("mode", ["mirror", "reflect", "grid-wrap"])
@pytest.mark.parametrize("order", [2, 3, 4, 5])
def test_coefficients_are_those_of_the_spline_through_the_samples(order: int, mode: str) -> None:
    x = gc.tensor(np.random.default_rng(order).uniform(-1, 1, (3, 50)))
    for n in (2, 5, 50):
        found = ndimage.spline_filter(x[:, :n], order, mode=mode)
        places = np.stack(np.meshgrid(np.arange(3.0), np.arange(n * 1.0), indexing="ij"))
        again = ndimage.map_coordinates(found, places, order=order, mode=mode, prefilter=False)
        assert gc.allclose(again, x[:, :n])


def _float(expression: str) -> bool:
    return expression[expression.index("(") + 1] not in "FIU" and "np.float32" not in expression


#: Without derivatives by design, or piecewise constant.
_STEPS = ("order=0", "A, 0)")


@pytest.mark.parametrize(
    "expression", [e for e in expressions(FILTERS + RANKS + SPLINES) if _float(e) and not any(s in e for s in _STEPS)]
)
def test_derivatives(expression: str) -> None:
    given = arrays()
    if "cval=np.nan" in expression:
        given["X"] = given["Y"]
    check_derivatives(expression, "ndimage", given, second="order=1" not in expression)


def test_derivatives_by_coordinates_are_those_of_the_spline() -> None:
    """Of a polynomial of degree 3, which splines of order 3 and more are exact for, far from the edges."""
    t = gc.arange(60, dtype=gc.float64)
    x = gc.tensor([[29.3, 30.0]], dtype=gc.float64, requires_grad=True)
    for order in (3, 4, 5):
        y = ndimage.map_coordinates((t - 30) ** 3, x, order=order, mode="mirror")
        (slope,) = gc.autograd.grad(y.sum(), x, create_graph=True)
        (bend,) = gc.autograd.grad(slope.sum(), x)
        assert gc.allclose(slope, 3 * (x - 30) ** 2, atol=1e-4)
        assert gc.allclose(bend, 6 * (x - 30), atol=1e-3)


def test_results_into_given_memory() -> None:
    x = gc.tensor(arrays()["A"], requires_grad=True)
    out = gc.zeros(7, 9, dtype=gc.float64)
    assert ndimage.gaussian_filter(x, 1.0, output=out) is out
    out.sum().backward()
    assert x.grad is not None
    array = np.zeros((7, 9))
    with pytest.raises(RuntimeError, match="requires grad"):
        ndimage.gaussian_filter(x, 1.0, output=array)
    ndimage.gaussian_filter(x.detach(), 1.0, output=array)
    np.testing.assert_allclose(array, scipy.ndimage.gaussian_filter(arrays()["A"], 1.0))
    with pytest.raises(RuntimeError, match="output shape not correct"):
        ndimage.sobel(x, output=gc.zeros(3, dtype=gc.float64))


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ("correlate(A, K)", RuntimeError),
        ("correlate1d(A, W)", RuntimeError),
        ("correlate1d(A, K, origin=3)", ValueError),
        ("correlate1d(A, K, mode='no')", RuntimeError),
        ("correlate1d(A, K, axis=2)", np.exceptions.AxisError),
        ("gaussian_filter(A, (1, 2, 3))", RuntimeError),
        ("gaussian_filter1d(A, 1.0, radius=-1)", ValueError),
        ("gaussian_filter(A, 1.0, order=-1)", ValueError),
        ("uniform_filter1d(A, 0)", RuntimeError),
        ("minimum_filter(A)", RuntimeError),
        ("percentile_filter(A, 200, 3)", RuntimeError),
        ("rank_filter(A, 9, 3)", RuntimeError),
        ("map_coordinates(A, V)", RuntimeError),
        ("map_coordinates(A, X[:1])", RuntimeError),
        ("map_coordinates(A, X, order=6)", RuntimeError),
        ("map_coordinates(A, X * 1j)", TypeError),
        ("spline_filter(A, 1)", RuntimeError),
        ("affine_transform(A, [[1.0]])", RuntimeError),
        ("shift(A, (1, 2, 3))", RuntimeError),
        ("rotate(V, 30)", ValueError),
        ("rotate(A, 30, axes=(0, 4))", ValueError),
        ("rotate(A, 30, axes=(0, 1, 2))", ValueError),
    ],
)
def test_errors_are_scipys(expression: str, error: type[Exception]) -> None:
    given = {**arrays(), "np": np}
    with pytest.raises(error) as theirs:
        eval(f"f.{expression}", {"f": scipy.ndimage, **given})
    tensors = {k: gc.tensor(v) if isinstance(v, np.ndarray) else v for k, v in given.items()}
    with pytest.raises(error) as ours:
        eval(f"f.{expression}", {"f": ndimage, **tensors})
    assert str(theirs.value)[:12] == str(ours.value)[:12]


def test_complex_results_are_not_made_real() -> None:
    x, weights = gc.tensor([1, 2, 3], dtype=gc.int8), np.array([1.0, 1j])
    for dtype in (np.float32, np.float64):
        with pytest.warns(UserWarning, match="promoting"):
            wanted = scipy.ndimage.correlate1d(x.numpy(), weights, output=dtype)
        found = ndimage.correlate1d(x, weights, output=dtype).numpy()
        assert found.dtype == wanted.dtype
        assert found.tolist() == wanted.tolist()
    with pytest.raises(RuntimeError, match="output must have complex dtype"):
        ndimage.correlate1d(x, weights, output=gc.zeros(3))


def test_samples_of_a_batch() -> None:
    x, by = gc.tensor(arrays()["A"]), gc.tensor(arrays()["O"])
    both = gc.vmap(lambda s: ndimage.shift(x, s, mode="mirror"))(gc.stack([by, 2 * by]))
    assert gc.allclose(both[1], ndimage.shift(x, 2 * by, mode="mirror"))
    rows = gc.vmap(lambda row: ndimage.gaussian_filter1d(row, 1.0))(x)
    assert gc.allclose(rows, ndimage.gaussian_filter1d(x, 1.0))


def test_what_is_missing_says_so() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'label': .*whole numbers"):
        ndimage.label  # noqa: B018
    left_out = set(scipy.ndimage.__all__) - set(ndimage.__all__)
    assert left_out == set(ndimage.LEFT_OUT) if IS_NEWEST else left_out <= set(ndimage.LEFT_OUT)


def test_functions_have_scipys_parameters() -> None:
    from inspect import signature

    for name in ndimage.__all__:
        theirs = signature(getattr(scipy.ndimage, name)).parameters
        ours = signature(getattr(ndimage, name)).parameters
        assert [(p.name, p.kind) for p in ours.values()] == [(p.name, p.kind) for p in theirs.values()], name
        assert all(repr(ours[n].default) == repr(theirs[n].default) for n in ours), name
