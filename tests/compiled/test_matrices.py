"""Factors and inverses of small matrices are LAPACK's, whichever way these lie, and also where there are none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore import set_num_threads
from gradcore.backends.compiled import calls
from gradcore.backends.numpy.backend import NumpyBackend
from tests.compiled.conftest import Ran

PLAIN = NumpyBackend()
SIZES = [1, 2, 3, 4, 5, 8, 9, 16, 17, 31, 32]
LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "rows": lambda x: x,
    "columns": lambda x: np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2),
    "every second": lambda x: np.repeat(x, 2, 0)[::2],
    "two dims of a batch": lambda x: x.reshape(3, -1, *x.shape[1:]),
}


def draw(n: int, dtype: str, count: int = 12) -> Any:
    return np.random.default_rng(n).standard_normal((count, n, n)).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_inverses(compiled: Any, ran: Ran, layout: str, dtype: str) -> None:
    for n in SIZES:
        a = LAYOUTS[layout](draw(n, dtype))
        found, info = compiled.invert(a)
        expected, expected_info = PLAIN.invert(a)
        assert (found.dtype, found.shape, found.strides) == (expected.dtype, expected.shape, expected.strides)
        assert (info.dtype, info.shape, info.any()) == (expected_info.dtype, expected_info.shape, False)
        error = abs(found - expected).max((-1, -2)) / abs(expected).max((-1, -2))
        assert (error <= np.linalg.cond(a.astype("f8")) * n * 2**-52 + (2**-23 if dtype == "float32" else 0)).all()
    assert ran == [("inverses", "f" if dtype == "float32" else "d")] * len(SIZES)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_factors(compiled: Any, ran: Ran, layout: str, dtype: str) -> None:
    for n in SIZES:
        a = LAYOUTS[layout](draw(n, dtype))
        lu, pivots, info = compiled.factor_lu(a)
        expected = PLAIN.factor_lu(a)
        assert all(
            (x.dtype, x.shape, x.strides) == (y.dtype, y.shape, y.strides)
            for x, y in zip((lu, pivots, info), expected, strict=True)
        )
        np.testing.assert_array_equal(pivots, expected[1])
        lower, upper = np.tril(lu, -1) + np.eye(n), np.triu(lu)
        rows = np.broadcast_to(np.arange(n), a.shape[:-1]).copy()
        for place in np.ndindex(a.shape[:-2]):
            for k, top in enumerate(pivots[place] - 1):
                rows[place][[k, top]] = rows[place][[top, k]]
        exchanged = np.take_along_axis(a, rows[..., None], -2)
        assert abs(lower @ upper - exchanged).max() <= 8 * n * np.finfo(dtype).eps * abs(upper).max()
    assert ran == [("lu_factors", "f" if dtype == "float32" else "d")] * len(SIZES)


@pytest.mark.parametrize("kernel", ["invert", "factor_lu"])
@pytest.mark.parametrize("value", [0.0, np.inf, -np.inf, np.nan])
def test_what_has_no_inverse_is_lapacks(compiled: Any, kernel: str, value: float) -> None:
    for n in (1, 3, 8, 20):
        a = draw(n, "float64", 6)
        a[4, n // 2] = value
        found, expected = getattr(compiled, kernel)(a), getattr(PLAIN, kernel)(a)
        np.testing.assert_array_equal(found[-1], expected[-1])
        for x, y in zip(found, expected, strict=True):
            np.testing.assert_allclose(np.delete(x, 4, 0), np.delete(y, 4, 0), 1e-9)
        if kernel == "factor_lu":  # the elements of an inverse that does not exist are undefined
            np.testing.assert_array_equal(found[0][4], expected[0][4])


def test_several_threads(compiled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "WORTH_A_THREAD", 256)
    a, before = draw(8, "float32", 1000), gc.get_num_threads()
    results = []
    for number in (1, 2, 3):
        set_num_threads(number)
        results.append((*compiled.invert(a), *compiled.factor_lu(a)))
    set_num_threads(before)
    for other in results[1:]:
        for x, y in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(x, y)


def test_operations_use_them(compiled: Any, ran: Ran) -> None:
    a = gc.tensor(draw(5, "float64"), device="compiled", requires_grad=True)
    plain = gc.tensor(draw(5, "float64"), requires_grad=True)
    for x in (a, plain):
        (gc.linalg.inv(x).sum() + gc.linalg.lu_factor(x)[0].sum()).backward()
    np.testing.assert_allclose(a.grad.cpu().numpy(), plain.grad.numpy(), 1e-9, 1e-9)
    assert {name for name, _ in ran} >= {"inverses", "lu_factors"}


@pytest.mark.parametrize("shape", [(3, 4, 4), (4, 4), (0, 4, 4), (5, 0, 0), (5, 3, 4)])
def test_others_are_left_to_lapack(compiled: Any, ran: Ran, shape: tuple[int, ...]) -> None:
    a = np.random.default_rng(0).standard_normal(shape)
    for found, expected in zip(compiled.factor_lu(a), PLAIN.factor_lu(a), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert not ran
