"""Triangles, places of what is not zero, and conversions to bool: as NumPy's functions have them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.backends.numpy.backend import NumpyBackend

FAST = NumpyBackend()
SHAPES = [(64, 64), (70, 130), (130, 70), (3, 65, 90), (9000,), (2, 3, 4, 500)]


def draw(shape: tuple[int, ...], dtype: str) -> Any:
    """Numbers of which a third are zeros, some of them negative."""
    random = np.random.default_rng(0)
    x = random.standard_normal(shape) * 5 * random.choice([1, -0.0, 1], shape)
    return x.astype(dtype)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "?", "c8"])
@pytest.mark.parametrize(
    "shape", [*(s for s in SHAPES if len(s) in (2, 3)), (5, 8), (2, 1), (2, 9, 700), (5000, 1)], ids=str
)
def test_triangles(shape: tuple[int, ...], dtype: str) -> None:
    x = draw(shape, dtype)
    x[..., 0, -1] = x[..., -1, 0] = np.asarray(np.nan).astype(dtype) if dtype in ("f4", "f8") else 1
    for given in (x, np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)):
        for diagonal in (0, 1, -1, 33, -40, 70, -70, 500, -500, 10**12, -(10**12)):
            for name in ("tril", "triu"):
                clipped = min(max(diagonal, -(10**4)), 10**4)  # NumPy reads 32 bits
                found, expected = getattr(FAST, name)(given, diagonal), getattr(np, name)(given, clipped)
                np.testing.assert_array_equal(found, expected)
                assert found.dtype == expected.dtype
                assert found.flags.c_contiguous


@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "?", "c8"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_places(shape: tuple[int, ...], dtype: str) -> None:
    x = draw(shape, dtype)
    for given in (x, x.T, x[..., ::-1]):
        found = FAST.nonzero_rows(given)
        np.testing.assert_array_equal(found, np.argwhere(given))
        assert found.dtype == np.int64
        assert found.flags.c_contiguous


@pytest.mark.parametrize("dtype", [gc.float16, gc.bfloat16, gc.float32, gc.float64], ids=str)
def test_conversion_to_bool(dtype: Any) -> None:
    special = [0.0, -0.0, float("nan"), float("inf"), -float("inf"), 2.0**-24, -(2.0**-24)]
    x = gc.tensor(special * 1000, dtype=dtype)
    for given in (x, x[::2], x.reshape(1000, 7).t()):
        found = given.bool()
        assert found.tolist() == (given.double() != 0).tolist()
        assert found.stride() == (given.double() != 0).stride()


@pytest.mark.parametrize("largest", [True, False])
def test_extrema_of_vectors_by_a_sample(largest: bool) -> None:
    """Of samples that say much, little, or something wrong about the vector."""
    n, random = 50_000, np.random.default_rng(1)
    vectors = [
        random.standard_normal(n), random.integers(0, 50, n), np.arange(n), np.arange(n)[::-1].copy(), np.zeros(n),
        np.tile(np.arange(12.0), n // 12 + 1)[:n], np.where(np.arange(n) % 12, 1.0, np.arange(n)),
        np.where(np.arange(n) % 12, np.arange(n), -1.0),
    ]  # fmt: skip
    for v in vectors:
        for k in (17, 300, 5000):
            values, index = FAST.topk_along(v, 0, k, largest)
            order = np.argsort(-v if largest else v, kind="stable")[:k]
            np.testing.assert_array_equal(index, order)
            np.testing.assert_array_equal(values, v[order])
