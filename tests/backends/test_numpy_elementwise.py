"""The kernels that replace NumPy's own functions give what those give."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.backends.registry import CPU

F = CPU.backend
SPECIAL = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-40, -1e-40, 3e38, -1.0, 1.0, 0.5, 7.25]
MANY = 5000


@pytest.fixture(autouse=True)
def _silent() -> Any:
    with np.errstate(all="ignore"):
        yield


def numbers(seed: int, dtype: str, shape: tuple[int, ...] = (MANY,), scale: float = 5) -> Any:
    """Random numbers, all special ones among them."""
    x = (np.random.default_rng(seed).standard_normal(shape) * scale).astype(dtype)
    if x.dtype.kind == "f" and x.size > 2 * len(SPECIAL) ** 2:
        x.reshape(-1)[: len(SPECIAL) ** 2] = (np.tile if seed % 2 else np.repeat)(SPECIAL, len(SPECIAL))
    return x


def assert_same_bits(found: Any, expected: Any) -> None:
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(np.ascontiguousarray(found).view("u1"), np.ascontiguousarray(expected).view("u1"))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "c16", "?", "u1", "i4", "i8"])
@pytest.mark.parametrize("rows", [2, 1500], ids=["few", "many"])
def test_where(dtype: str, rows: int) -> None:
    """Exactly what NumPy selects, for arrays and numbers, broadcast and strided."""
    condition = np.random.default_rng(0).random((rows, 4)) < 0.5
    x, y = numbers(1, dtype, (rows, 4)), numbers(2, dtype, (rows, 4))
    zero, one = np.zeros((), dtype), np.ones((), dtype)
    calls = [(condition, a, b) for a, b in itertools.product((x, x[:1], zero, one), (y, y[:, :1], zero, one))]
    calls += [
        (condition.T, x.T, y.T),
        (condition[:, ::2], x[:, ::2], y[:, 1::2]),
        (condition[:, :1], x, y),
        (condition, x[0, 0], y),
    ]
    for c, a, b in calls:
        assert_same_bits(F.where(c, a, b), np.where(c, a, b))
    if x.dtype.kind in "fc":
        for c, a, b in [
            (condition, x, 0),
            (condition, 0, y),
            (condition, x, 0.5),
            (condition, -0.0, y),
            (condition, x, -0.0),
        ]:
            assert_same_bits(F.where(c, a, b), np.where(c, a, b))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", ["copysign", "floor_divide", "remainder", "fmod"])
def test_exact_functions(name: str, dtype: str) -> None:
    x, y = numbers(1, dtype), numbers(2, dtype)
    for a, b in [(x, y), (x[::3], y[::3]), (x.reshape(-1, 50), y[:50]), (x, y[7]), (x, np.asarray(2.5, dtype))]:
        b = np.asarray(b)
        np.testing.assert_array_equal(getattr(F, name)(a, b), getattr(np, name)(a, b))


@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod"])
@pytest.mark.parametrize("many", [1, MANY])
def test_quotients_of_zeros_multiples_and_infinities(name: str, many: int) -> None:
    rows = [(-90, -0.75), (-90, 0.75), (90, -0.75), (0, 2), (-0.0, 2), (-0.0, -2), (7.5, -2.5)]
    for pairs in (rows, [*rows, (3, np.inf), (-3, np.inf), (5, -np.inf), (-0.0, -np.inf)]):
        x, y = np.array(pairs * many, "f4").T.copy()
        assert_same_bits(getattr(F, name)(x, y), getattr(np, name)(x, y))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_rounded_functions(dtype: str) -> None:
    """Within two units in the last place."""
    x, y = numbers(1, dtype), numbers(2, dtype)
    tolerance = 2 * np.finfo(dtype).eps
    np.testing.assert_allclose(F.hypot(x, y), np.hypot(x, y), rtol=tolerance)
    np.testing.assert_allclose(F.hypot(x.reshape(-1, 50), y[:50]), np.hypot(x.reshape(-1, 50), y[:50]), rtol=tolerance)
    np.testing.assert_array_equal(F.pow(x, 0.5), np.sqrt(x))  # as PyTorch: NaN for minus infinity
    for exponent in (0, 1, 2, 3, 4, 5, -1, -2, -3, 6.0, 2.5, -1.5):
        expected = np.power(x, np.asarray(exponent, dtype))
        np.testing.assert_allclose(F.pow(x, exponent), expected, rtol=tolerance, err_msg=f"x ** {exponent}")


@pytest.mark.parametrize("dtype", ["f4", "f8", "i8"])
def test_bounds(dtype: str) -> None:
    x = numbers(1, dtype)
    np.testing.assert_array_equal(F.relu(x), np.maximum(x, 0))
    for low, high in [(-1, 2), (None, 2), (-1, None), (2, -1)]:
        expected = x if low is None else np.maximum(x, low)
        np.testing.assert_array_equal(F.clamp(x, low, high), expected if high is None else np.minimum(expected, high))
    np.testing.assert_array_equal(F.clamp(x, x[::-1], None), np.maximum(x, x[::-1]))


def test_erf() -> None:
    """In float32 the kernel for many elements is within 4 units in the last place."""
    near = np.concatenate([np.linspace(-6, 6, 400_001), np.geomspace(1e-44, 1, 100_000)]).astype("f4")
    expected = np.array([math.erf(v) for v in near[::50]])
    error = np.abs(F.erf(near)[::50] - expected) / np.spacing(np.maximum(np.abs(expected), 1e-44).astype("f4"))
    assert error.max() < 4
    np.testing.assert_array_equal(
        F.erf(np.array([math.nan, math.inf, -math.inf, -0.0] * MANY, "f4"))[:3], [math.nan, 1, -1]
    )


def test_gelu() -> None:
    """In float32 the kernels for many elements are as near to the function as the declared bodies are."""
    x = np.concatenate([np.linspace(-20, 20, 20_001), [100, -100, 1e30, -1e30]]).astype("f4")
    for name in ("gelu", "gelu_slope", "tanh_gelu_slope"):
        kernel = getattr(F, name)
        np.testing.assert_allclose(kernel(x), kernel(x.astype("f8")), rtol=1e-6, atol=5e-7)


@pytest.mark.parametrize("dtype", ["e", "f", "d"])
def test_slopes_of_gelu_far_from_zero(dtype: str) -> None:
    """They are one and zero, and their own derivatives zero."""
    largest = np.finfo(dtype).max
    x = gc.tensor(np.array([20, 1e3, 6e4, largest, np.inf, -20, -1e3, -6e4, -largest, -np.inf, np.nan], dtype))
    slope = gc.func.grad(lambda v: gc.nn.functional.gelu(v, approximate="tanh").sum())
    np.testing.assert_allclose(slope(x).numpy()[:10], [1.0] * 5 + [0.0] * 5, rtol=0, atol=1e-200)
    np.testing.assert_allclose(gc.func.grad(lambda v: slope(v).sum())(x).numpy()[:10], 0, atol=1e-200)
    assert gc.isnan(slope(x)).tolist() == [False] * 10 + [True]


def test_zero_divisors() -> None:
    for name in ("floor_divide", "remainder", "fmod"):
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            getattr(F, name)(np.ones(3, int), np.array([1, 0, 1]))
