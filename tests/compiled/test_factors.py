"""Factors of matrices of middle size, and solutions from them, are LAPACK's, whichever way these lie."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.backends.compiled.factors import _LEAST, _MOST, _MOST_SOLVED
from gradcore.backends.numpy.backend import NumpyBackend
from tests.compiled.conftest import Ran

PLAIN = NumpyBackend()
DTYPES = ["float32", "float64"]
#: Numbers of rows around those of tiles and panels of all instruction sets.
SIZES = [_LEAST, 47, 64, 97]
LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "rows": lambda x: x,
    "columns": lambda x: np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2),
    "every second": lambda x: np.repeat(np.repeat(x, 2, -1), 2, -2)[..., ::2, ::2],
    "backwards": lambda x: np.ascontiguousarray(x[..., ::-1, ::-1])[..., ::-1, ::-1],
}


def draw(*shape: int, dtype: str) -> Any:
    return np.random.default_rng(shape).standard_normal(shape).astype(dtype)


def draw_positive(n: int, dtype: str) -> Any:
    a = draw(n, n, dtype=dtype)
    return a @ a.T / n + np.eye(n, dtype=dtype)


def draw_triangle(n: int, dtype: str, upper: bool, unit: bool, batch: tuple[int, ...] = ()) -> tuple[Any, Any]:
    """Return a triangle, and the same with NaN where it must not be read."""
    x = draw(*batch, n, n, dtype=dtype) / n + 2 * np.eye(n, dtype=dtype)
    strict, keep = (1, np.triu) if upper else (-1, np.tril)
    full = keep(x, strict) + np.eye(n, dtype=dtype) if unit else keep(x)
    return full, np.where(keep(np.ones((n, n), bool), strict if unit else 0), full, np.nan).astype(dtype)


def measure_error(found: Any, exact: Any) -> float:
    return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))


def is_accurate(found: Any, plain: Any, exact: Any) -> bool:
    """Return whether errors are at most a few times those of LAPACK."""
    return measure_error(found, exact) <= 4 * measure_error(plain, exact) + np.finfo(found.dtype).eps


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_factors(compiled: Any, ran: Ran, layout: str, dtype: str) -> None:
    for n in SIZES:
        a = LAYOUTS[layout](draw(n, n, dtype=dtype))
        for of in a, np.stack([a, a[::-1]])[:, None]:
            found, expected = compiled.factor_lu(of), PLAIN.factor_lu(of)
            assert all(
                (x.dtype, x.shape, x.strides) == (y.dtype, y.shape, y.strides)
                for x, y in zip(found, expected, strict=True)
            )
            np.testing.assert_array_equal(found[1], expected[1])
            assert measure_error(found[0], expected[0]) <= 300 * np.finfo(dtype).eps
        positive = draw_positive(n, dtype)
        lower = LAYOUTS[layout](np.where(np.tri(n, dtype=bool), positive, np.nan).astype(dtype))
        for of, whole in (lower, positive), (np.stack([lower] * 2)[:, None], np.stack([positive] * 2)[:, None]):
            found, expected = compiled.factor_cholesky(of), PLAIN.factor_cholesky(of)
            assert all((x.dtype, x.shape) == (y.dtype, y.shape) for x, y in zip(found, expected, strict=True))
            assert is_accurate(found[0], expected[0], np.linalg.cholesky(whole.astype("f8")))
            assert not found[1].any()
            assert not np.triu(found[0], 1).any()
    char = np.dtype(dtype).char
    assert ran == [(f"gradcore_factor_{name}", char) for _ in SIZES for name in ("lu", "lu", "cholesky", "cholesky")]


@pytest.mark.parametrize("dtype", DTYPES)
def test_solutions_from_factors(compiled: Any, ran: Ran, dtype: str) -> None:
    calls = 0
    for n in SIZES:
        a = draw(n, n, dtype=dtype)
        lu, pivots, _ = PLAIN.factor_lu(a)
        for columns, adjoint in itertools.product((1, 8, 17, 40), (False, True)):
            b = draw(n, columns, dtype=dtype)
            exact = np.linalg.solve((a.T if adjoint else a).astype("f8"), b)
            plain = PLAIN.solve_lu(lu, pivots, b, adjoint)
            for layout in LAYOUTS.values():
                assert is_accurate(compiled.solve_lu(lu, pivots, layout(b), adjoint), plain, exact)
                calls += 1
    assert ran == [("gradcore_solve_lu", np.dtype(dtype).char)] * calls


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("upper", [False, True])
def test_triangles(compiled: Any, ran: Ran, upper: bool, unit: bool, dtype: str) -> None:
    calls = 0
    for n in (1, 2, 7, *SIZES):
        full, a = draw_triangle(n, dtype, upper, unit)
        for columns in (1, 8, 17, 40):
            b = draw(n, columns, dtype=dtype)
            exact, plain = np.linalg.solve(full.astype("f8"), b), PLAIN.solve_triangle(a, b, upper, unit)
            for of_a, of_b in zip(LAYOUTS.values(), (*list(LAYOUTS.values())[1:], LAYOUTS["rows"]), strict=True):
                found = compiled.solve_triangle(of_a(a), of_b(b), upper, unit)
                assert (found.dtype, found.shape) == (b.dtype, b.shape)
                assert is_accurate(found, plain, exact)
                calls += 1
    assert ran == [("gradcore_solve_triangle", np.dtype(dtype).char)] * calls


def test_batches_are_broadcast(compiled: Any, ran: Ran) -> None:
    full, a = draw_triangle(40, "float64", True, False, (3, 1))
    b = draw(2, 40, 20, dtype="float64")
    np.testing.assert_allclose(compiled.solve_triangle(a, b, True), np.linalg.solve(full, b), 1e-9)
    factors = PLAIN.factor_lu(draw(2, 1, 40, 40, dtype="float64"))
    np.testing.assert_allclose(compiled.solve_lu(*factors[:2], b), PLAIN.solve_lu(*factors[:2], b), 1e-9)
    factors = PLAIN.factor_lu(draw(40, 40, dtype="float64"))
    np.testing.assert_allclose(compiled.solve_lu(*factors[:2], b), PLAIN.solve_lu(*factors[:2], b), 1e-9)
    assert [name for name, _ in ran] == ["gradcore_solve_triangle", "gradcore_solve_lu", "gradcore_solve_lu"]


@pytest.mark.parametrize("value", [0.0, np.inf, -np.inf, np.nan])
def test_what_has_no_factors_is_lapacks(compiled: Any, value: float) -> None:
    for n in (40, 70):
        a = draw(n, n, dtype="float64")
        a[n // 2] = value
        for found, expected in zip(compiled.factor_lu(a), PLAIN.factor_lu(a), strict=True):
            np.testing.assert_array_equal(found, expected)
        a = draw_positive(n, "float64")
        a[n // 2, : n // 2 + 1] = value or -1.0
        for found, expected in zip(compiled.factor_cholesky(a), PLAIN.factor_cholesky(a), strict=True):
            np.testing.assert_array_equal(found, expected)


def test_tiny_pivots(compiled: Any) -> None:
    """Reciprocals of subnormal pivots are infinite, so columns are divided."""
    a = draw(40, 40, dtype="float32")
    a[:, 0] *= np.float32(1e-40)
    lu, pivots, info = compiled.factor_lu(a)
    top = abs(a[:, 0]).argmax()
    assert (pivots[0], int(info)) == (top + 1, 0)
    a[[0, top]] = a[[top, 0]]
    np.testing.assert_allclose(np.sort(lu[1:, 0]), np.sort(a[1:, 0] / a[0, 0]), 1e-6)


def test_pivots_that_are_no_rows(compiled: Any) -> None:
    """They are not followed; LAPACK is called with them as before."""
    lu, pivots, _ = PLAIN.factor_lu(draw(40, 40, dtype="float64"))
    b, out, solve = draw(40, 2, dtype="float64"), np.zeros((40, 2)), compiled._function("gradcore_solve_lu", "d")
    for wrong in (0, 41, -1, 2**31 - 1):
        pivots[7] = wrong
        assert solve(1, False, lu, pivots, b, out) is False
    assert not out.any()


def test_several_threads(compiled: Any) -> None:
    a, b, before = draw(6, 64, 64, dtype="float32"), draw(6, 64, 600, dtype="float32"), gc.get_num_threads()
    results = []
    for number in (1, 2, 3):
        gc.set_num_threads(number)
        lu, pivots, _ = compiled.factor_lu(a)
        positive = a @ a.swapaxes(-1, -2) + np.eye(64, dtype="f4")
        factor = compiled.factor_cholesky(positive)[0]
        results.append(
            (lu, pivots, compiled.solve_lu(lu, pivots, b), factor, compiled.solve_triangle(factor, b, False))
        )
    gc.set_num_threads(before)
    for other in results[1:]:
        for x, y in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(x, y)


def test_operations_use_them(compiled: Any, ran: Ran) -> None:
    a, b = draw_positive(48, "float64"), draw(48, 5, dtype="float64")
    gradients = []
    for device in ("compiled", "cpu"):
        x = gc.tensor(a, device=device, requires_grad=True)
        y = gc.tensor(b, device=device, requires_grad=True)
        out = gc.linalg.solve(x, y).square().sum() + gc.linalg.cholesky(x).diagonal().log().sum()
        grads = gc.autograd.grad(out, (x, y), create_graph=True)
        second = gc.autograd.grad(sum(g.square().sum() for g in grads), (x, y))
        gradients.append([g.detach().cpu().numpy() for g in (*grads, *second)])
        if device == "compiled":
            assert {name for name, _ in ran} >= {
                "gradcore_factor_lu", "gradcore_solve_lu", "gradcore_factor_cholesky", "gradcore_solve_triangle"
            }  # fmt: skip
    for found, expected in zip(*gradients, strict=True):
        np.testing.assert_allclose(found, expected, 1e-8, 1e-8)


@pytest.mark.parametrize("shape", [(_LEAST - 1, _LEAST - 1), (_MOST + 1, _MOST + 1), (40, 50), (0, 40, 40)])
def test_others_are_left_to_lapack(compiled: Any, ran: Ran, shape: tuple[int, ...]) -> None:
    a = np.random.default_rng(0).standard_normal(shape)
    for found, expected in zip(compiled.factor_lu(a), PLAIN.factor_lu(a), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert not ran


def test_complex_and_large_triangles_are_left_to_blas(compiled: Any, ran: Ran) -> None:
    large, complex_one = np.eye(_MOST_SOLVED + 1), np.eye(3) * 1j
    for a in (large, complex_one):
        np.testing.assert_array_equal(compiled.solve_triangle(a, a, True), PLAIN.solve_triangle(a, a, True))
    assert not ran


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["distinct", "equal", "equal with a rotation", "equal with other gradients", "NaN"])
def test_gaps_of_values(compiled: Any, ran: Ran, kind: str, dtype: str) -> None:
    calls = 0
    for batch in ((), (2, 3)):
        for n in (1, 2, 5, 17, 40):
            x, scale = (draw(*batch, n, n, dtype=dtype) + 3 for _ in range(2))
            values, gradients = (np.sort(draw(*batch, n, dtype=dtype) + k) for k in range(2))
            if kind != "distinct":
                values[..., n // 2 :] = values[..., n // 2, None]
                gradients[..., n // 2 :] = gradients[..., n // 2, None]
                x[..., n // 2 :, n // 2 :] = 1
            if kind == "equal with a rotation":
                x[..., -1, n // 2] = 2
            elif kind == "equal with other gradients":
                gradients[..., -1] += 1
            elif kind == "NaN":
                values[..., 0] = np.nan
            for of_values, skews in itertools.product((None, gradients), (False, True)):
                found = compiled.divide_by_gaps(x, values, scale, of_values, skews)
                expected = PLAIN.divide_by_gaps(x, values, scale, of_values, skews)
                np.testing.assert_array_equal(found, expected)
                assert found.dtype == expected.dtype
                calls += 1
    assert ran == [("gradcore_divide_by_gaps", np.dtype(dtype).char)] * calls


@pytest.mark.parametrize("dtype", DTYPES)
def test_gaps_where_the_gradients_of_values_are_a_view(compiled: Any, ran: Ran, dtype: str) -> None:
    x, ones = draw(2, 6, 6, dtype=dtype), np.broadcast_to(np.ones(1, dtype), (2, 6))
    values = np.sort(draw(2, 12, dtype=dtype))[:, ::2]
    found = compiled.divide_by_gaps(x, values, x, ones, True)
    np.testing.assert_array_equal(found, PLAIN.divide_by_gaps(x, values, x, ones, True))
    assert ran == [("gradcore_divide_by_gaps", np.dtype(dtype).char)]


def test_gaps_of_strided_and_complex_matrices(compiled: Any, ran: Ran) -> None:
    x, values = draw(6, 6, dtype="float64"), np.arange(6.0)
    for other in (x.T, x + 1j):
        found = compiled.divide_by_gaps(other, values, other, None, True)
        np.testing.assert_array_equal(found, PLAIN.divide_by_gaps(other, values, other, None, True))
    assert not ran
