"""Kernels of maximum pooling agree with NumPy's functions: maxima, their indices, and sums at indices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.backends.compiled.pooling import CompiledPooling
from gradcore.backends.portable.pooling import MaxPool, Pooling

#: Shapes, and kernel, stride, padding, dilation and whether sizes are rounded up.
CASES = [
    ((2, 3, 6, 8), ((2, 2), (2, 2), (0, 0), (1, 1), False)),
    ((40, 16, 28, 30), ((2, 2), (2, 2), (0, 0), (1, 1), False)),
    ((9, 14, 28), ((2, 2), (2, 2), (0, 0), (1, 1), False)),
    ((70, 2, 2), ((2, 2), (2, 2), (0, 0), (1, 1), False)),
    ((2, 4, 1042), ((2, 2), (2, 2), (0, 0), (1, 1), True)),
    ((3, 7, 8), ((2, 2), (2, 2), (0, 0), (1, 1), True)),
    ((3, 33, 47), ((3, 3), (2, 2), (1, 1), (1, 1), False)),
    ((3, 33, 47), ((3, 3), (2, 2), (1, 1), (1, 1), True)),
    ((2, 9, 70), ((2, 5), (1, 1), (1, 2), (1, 1), False)),
    ((2, 31, 29), ((3, 2), (2, 3), (1, 1), (2, 4), True)),
    ((1, 20, 41), ((1, 4), (3, 5), (0, 2), (1, 3), False)),
    ((5, 7, 5), ((7, 5), (1, 1), (0, 0), (1, 1), False)),
    ((1, 3, 4), ((2, 2), (1 << 40, 1 << 40), (0, 0), (1, 1), False)),
    ((4, 100), ((2,), (2,), (0,), (1,), False)),
    ((2, 3, 90), ((5,), (1,), (2,), (2,), False)),
    ((0, 3, 8, 8), ((2, 2), (2, 2), (0, 0), (1, 1), False)),
]
SPECIAL = [np.inf, -np.inf, np.nan, 0.0, -0.0, 1.0, 1.0]


@pytest.fixture(params=[1, 2], autouse=True)
def _threads(request: pytest.FixtureRequest) -> Iterator[None]:
    before = gc.get_num_threads()
    gc.set_num_threads(request.param)
    yield
    gc.set_num_threads(before)


def plain() -> Pooling:
    pooling = Pooling()
    pooling.xp = np
    return pooling


def draw(shape: tuple[int, ...], char: str, special: bool) -> Any:
    """Return numbers of which some are equal, in each window with `special` some that are not finite, too."""
    rng = np.random.default_rng(0)
    x = rng.integers(-9, 10, shape).astype(char)
    if special:
        places = rng.random(shape) < 0.3
        x[places] = rng.choice(SPECIAL, places.sum())
    return x


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("char", "fd")
@pytest.mark.parametrize(("shape", "settings"), CASES)
def test_maxima_and_indices(compiled: Any, shape: tuple[int, ...], settings: Any, char: str, special: bool) -> None:
    assert isinstance(compiled, CompiledPooling)
    x = draw(shape, char, special)
    found, expected = compiled.max_pool(x, *settings), plain().max_pool(x, MaxPool(*settings))
    for array, right in zip(found, expected, strict=True):
        assert array.dtype == right.dtype
        np.testing.assert_array_equal(array, right)
    turned = compiled.max_pool(x.swapaxes(-1, -2).copy().swapaxes(-1, -2), *settings)
    np.testing.assert_array_equal(turned[1], expected[1])


@pytest.mark.parametrize("char", "fd")
def test_windows_of_minus_infinity_have_an_index_of_their_own(compiled: Any, char: str) -> None:
    x = np.full((2, 6, 34), -np.inf, char)
    out, indices = compiled.max_pool(x, (3, 3), (2, 2), (1, 1), (1, 1), False)
    assert (out == -np.inf).all()
    np.testing.assert_array_equal(indices, plain().max_pool(np.zeros_like(x), (3, 3), (2, 2), (1, 1), (1, 1), False)[1])


@pytest.mark.parametrize("char", "fd")
@pytest.mark.parametrize("planes", [3, 900])
def test_sums_at_indices(compiled: Any, planes: int, char: str) -> None:
    rng = np.random.default_rng(0)
    x, indices = rng.integers(-9, 10, (planes, 7, 9)).astype(char), rng.integers(0, 80, (planes, 7, 9))
    expected = plain().max_pool_spread(x, indices, (8, 10))
    np.testing.assert_array_equal(compiled.max_pool_spread(x, indices, (8, 10)), expected)
    by_columns = x.swapaxes(1, 2).copy().swapaxes(1, 2)
    np.testing.assert_array_equal(compiled.max_pool_spread(by_columns, indices, (8, 10)), expected)


@pytest.mark.parametrize("planes", [3, 900])
def test_indices_beyond_the_planes_are_refused(compiled: Any, planes: int) -> None:
    x, indices = np.ones((planes, 7, 9), "f"), np.zeros((planes, 7, 9), np.int64)
    indices[-1, 3, 4] = 80
    with pytest.raises(IndexError):
        compiled.max_pool_spread(x, indices, (8, 10))
