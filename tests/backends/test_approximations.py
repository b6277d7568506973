"""Special functions of the CPU are as accurate as they say, for all arguments."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from gradcore.backends.portable import approximations
from gradcore.backends.registry import CPU

special = pytest.importorskip("scipy.special")
F = CPU.backend
EDGES = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, math.inf, -math.inf, math.nan, 1e-45, -1e-45, 1e-30, 9.2, 10.05, 30.0, -30.0]


@pytest.fixture(autouse=True)
def _silent() -> Any:
    with np.errstate(all="ignore"):
        yield


def arguments(name: str, dtype: str) -> Any:
    random = np.random.default_rng(0)
    tiny = 10.0 ** random.uniform(-37, 0, 20_000) * random.choice([-1, 1], 20_000)
    if name == "erfinv":
        near_one = (1 - 10.0 ** random.uniform(-7, 0, 20_000)) * random.choice([-1, 1], 20_000)
        parts = tiny, near_one, random.uniform(-1, 1, 100_000)
    else:
        parts = tiny, random.standard_normal(100_000) * 2, random.uniform(-11, 11, 100_000)
    return np.concatenate([*parts, EDGES]).astype(dtype)


@pytest.mark.parametrize(
    ("name", "dtype", "units"), [("erf", "f4", 4), ("erf", "f8", 6), ("erfc", "f4", 7), ("erfinv", "f4", 5)]
)
def test_accuracy(name: str, dtype: str, units: int) -> None:
    x = arguments(name, dtype)
    found, expected = getattr(F, name)(x), getattr(special, name)(x.astype("f8"))
    assert found.dtype == dtype
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(found[~finite], expected[~finite].astype(dtype))
    unit = np.spacing(np.maximum(np.abs(expected), 1e-38).astype(dtype)).astype("f8")
    assert (np.abs(found - expected) / unit)[finite].max() <= units


@pytest.mark.parametrize(("name", "dtype"), [(n, c) for n, chars in approximations.DTYPES.items() for c in chars])
def test_few_and_many_elements_agree_at_the_edges(name: str, dtype: str) -> None:
    few = np.array(EDGES, dtype)
    many = getattr(F, name)(np.tile(few, 1000)).reshape(1000, -1)
    expected = getattr(special, name)(few)
    np.testing.assert_allclose(many, np.tile(expected, (1000, 1)), rtol=1e-6, atol=1e-37)
    assert (np.signbit(many[0]) == np.signbit(few))[:2].all() or name == "erfc"


def test_other_dtypes_are_left_to_scipy() -> None:
    x = np.linspace(-0.9, 0.9, 5000)
    np.testing.assert_array_equal(F.erfc(x), special.erfc(x))
    np.testing.assert_array_equal(F.erfinv(x), special.erfinv(x))
