"""NumPy's faster kernels for reductions and sorting give what the portable ones give."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from gradcore import get_num_threads, set_num_threads
from gradcore.backends.base import Backend
from gradcore.backends.numpy import reductions
from gradcore.backends.registry import CPU

FAST = CPU.backend
SHAPES = [(20000,), (100, 200), (40, 40, 17), (9000, 3), (3, 9000), (300, 70), (2, 5000, 4)]
TOLERANCES = {"float32": 1e-4, "float64": 1e-11}


@pytest.fixture(autouse=True)
def _silent() -> Iterator[None]:
    """As operations run their kernels."""
    with np.errstate(all="ignore"):
        yield


class Portable(Backend):
    """NumPy with the kernels that are written for any library."""

    type = "portable"


SLOW = Portable(np, np.ndarray)


def draw(shape: tuple[int, ...], dtype: str, order: str = "C", kind: str = "plain") -> Any:
    rng = np.random.default_rng(len(shape))
    x = rng.standard_normal(shape)
    if kind == "ties":
        x = np.round(2 * x)
    if dtype.startswith(("int", "uint")):
        x = np.abs(x) * (1e18 if dtype == "int64" and kind == "plain" else 40)
    if kind == "special":
        for value in (np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0):
            x[rng.random(shape) < 0.02] = value
    return np.asarray(x.astype(dtype), order=order)


def agree(fast: Any, slow: Any, tolerance: float = 0) -> None:
    if isinstance(fast, tuple):
        for f, s in zip(fast, slow, strict=True):
            agree(f, s, tolerance)
        return
    fast, slow = np.asarray(fast), np.asarray(slow)
    assert (fast.shape, fast.dtype) == (slow.shape, slow.dtype)
    np.testing.assert_allclose(fast, slow, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128", "int32", "bool"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sums_and_products(shape: tuple[int, ...], dtype: str, order: str) -> None:
    x = draw(shape, dtype, order)
    near_one = (1 + x * 0.001).astype(dtype)
    tolerance = TOLERANCES.get(dtype, 1e-10 if dtype == "complex128" else 0)
    dims = [None, (), *((d,) for d in range(x.ndim)), *([(0, 1), (0, 2), (2, 1)] if x.ndim == 3 else [])]
    for dim in dims:
        for keepdim in (False, True):
            scale = 1 if tolerance == 0 else np.sqrt(x.size)
            agree(FAST.sum_over(x, dim, keepdim), SLOW.sum_over(x, dim, keepdim), tolerance * scale)
            if dim is None or len(dim) < 2:
                agree(FAST.prod_over(near_one, dim, keepdim), SLOW.prod_over(near_one, dim, keepdim), tolerance * 10)


@pytest.mark.parametrize("n", [1000, 65_537])
@pytest.mark.parametrize("dim", [0, 1])
def test_sums_in_float32_are_accurate(n: int, dim: int) -> None:
    """Off by few units in the last place of the sum of magnitudes, also where all numbers have one sign."""
    x = np.random.default_rng(n).random((n, 16) if dim == 0 else (16, n)).astype(np.float32)
    exact = x.sum(dim, dtype=np.float64)
    assert np.abs(FAST.sum_over(x, (dim,)) - exact).max() < 32 * 2**-24 * exact.max()
    assert abs(FAST.sum_over(x) - exact.sum()) < 16 * 2**-24 * exact.sum()


@pytest.mark.parametrize("shape", [(8191, 5), (100_003, 5), (2, 8191, 5)], ids=str)
def test_rounding_errors_of_equal_rows_do_not_add_up(shape: tuple[int, ...]) -> None:
    """Partial sums of equal numbers are all rounded in one direction, as long as they have one exponent."""
    x = np.full(shape, 0.1, np.float32)
    exact = x.sum(-2, dtype=np.float64)
    assert np.abs(FAST.sum_over(x, (x.ndim - 2,)) - exact).max() < 2e-5 * exact.max()
    rows = x.reshape(-1, 5)
    weighted = FAST.sum_of_rows(np.ones(len(rows), np.float32), rows)
    np.testing.assert_allclose(weighted, rows.sum(0, dtype=np.float64), rtol=2e-5)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("dim", [0, 1])
def test_what_is_not_finite_stays_in_its_row(value: float, dim: int) -> None:
    x = np.ones((128, 128), np.float32)
    x[3, 70] = value
    for fast, slow in (
        (FAST.sum_over(x, (dim,)), SLOW.sum_over(x, (dim,))),
        (FAST.cumsum_along(x, dim), SLOW.cumsum_along(x, dim)),
        (FAST.cumsum_along(x, dim, True), SLOW.cumsum_along(x, dim, True)),
        (FAST.softmax_along(x, dim), SLOW.softmax_along(x, dim)),
    ):
        agree(fast, slow, 1e-6)


@pytest.mark.parametrize("kind", ["plain", "special"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_along_a_dim(shape: tuple[int, ...], dtype: str, kind: str) -> None:
    x = draw(shape, dtype, kind=kind)
    tolerance = TOLERANCES[dtype]
    for dim in range(x.ndim):
        for keepdim in (False, True):
            agree(FAST.max_along(x, dim, keepdim), SLOW.max_along(x, dim, keepdim))
            agree(FAST.min_along(x, dim, keepdim), SLOW.min_along(x, dim, keepdim))
        agree(FAST.cummax_along(x, dim), SLOW.cummax_along(x, dim))
        agree(FAST.softmax_along(x, dim), SLOW.softmax_along(x, dim), tolerance)
        agree(FAST.softmax_along(x * 90, dim), SLOW.softmax_along(x * 90, dim), tolerance)
        agree(FAST.dot_over(x, x, dim), SLOW.dot_over(x, x, dim), tolerance)
        agree(FAST.logcumsumexp_along(x, dim), SLOW.logcumsumexp_along(x, dim), tolerance)
        for reverse in (False, True):
            fast, slow = FAST.cumsum_along(x, dim, reverse), SLOW.cumsum_along(x, dim, reverse)
            agree(fast, slow, tolerance * np.sqrt(shape[dim]))
            if kind == "plain":
                factor = x * x.dtype.type(0.2)
                agree(FAST.scan_along(factor, x, dim, reverse), SLOW.scan_along(factor, x, dim, reverse), tolerance)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "int32", "bool"])
@pytest.mark.parametrize("kind", ["plain", "special"])
def test_reductions_of_narrow_rows(kind: str, dtype: str, order: str) -> None:
    """Many short rows, which are reduced by columns; for sums up to the rounding of a few additions."""
    for width in (1, 2, 3, 8, 12, 13, 32, 33):
        for shape in ((200, width), (3, 40, width), (2, width)):
            x = draw(shape, dtype, order, kind if np.dtype(dtype).kind in "fc" else "plain")
            for dims, keepdim in (((x.ndim - 1,), False), ((-1,), True), ((0,), True), (None, False)):
                agree(FAST.sum_over(x, dims, keepdim), SLOW.sum_over(x, dims, keepdim), 4e-6 * width)
                if np.dtype(dtype).kind != "c":
                    agree(FAST.max_over(x, dims, keepdim), SLOW.max_over(x, dims, keepdim))
                    agree(FAST.min_over(x, dims, keepdim), SLOW.min_over(x, dims, keepdim))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "bool"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_extrema_that_tie(shape: tuple[int, ...], dtype: str) -> None:
    """The index is that of the first one, and running extrema have that of the last one."""
    x = draw(shape, dtype, kind="ties")
    for dim in range(x.ndim):
        for name in ("max_along", "min_along", "argmax_along", "argmin_along", "cummax_along", "cummin_along"):
            agree(getattr(FAST, name)(x, dim), getattr(SLOW, name)(x, dim))


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_running_products(shape: tuple[int, ...], dtype: str) -> None:
    """In the same order, so also where they overflow on the way."""
    x = draw(shape, dtype, kind="ties") * 3
    for dim in range(x.ndim):
        agree(FAST.cumprod_along(x, dim), SLOW.cumprod_along(x, dim), 1e-5)


DTYPES_AND_KINDS = [
    *(
        (dtype, kind)
        for dtype in ("float32", "float64", "int64", "int32", "uint8", "bool")
        for kind in ("plain", "ties")
    ),
    ("float32", "special"),
    ("float64", "special"),
]


@pytest.mark.parametrize(("dtype", "kind"), DTYPES_AND_KINDS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_order(shape: tuple[int, ...], dtype: str, kind: str) -> None:
    for x in (draw(shape, dtype, "C", kind), draw(shape, dtype, "F", kind)):
        for dim in range(x.ndim):
            for down in (False, True):
                agree(FAST.sort_along(x, dim, down), SLOW.sort_along(x, dim, down))
                if dtype != "bool":
                    for k in {0, 1, min(5, x.shape[dim]), x.shape[dim] // 5}:
                        values, index = FAST.topk_along(x, dim, k, down)
                        agree(values, SLOW.topk_along(x, dim, k, down)[0])
                        agree(np.take_along_axis(x, index, dim), values)
                        assert (np.diff(np.sort(index, axis=dim), axis=dim) > 0).all()
            middle = (x.shape[dim] + 1) // 2
            agree(FAST.kthvalue_along(x, dim, middle), SLOW.kthvalue_along(x, dim, middle))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", [(1_000_000,), (300, 1000), (7, 33_333)])
def test_large_cumulative_sums_in_threads(shape: tuple[int, ...], reverse: bool) -> None:
    x = np.random.default_rng(0).uniform(0, 1, shape).astype("float32")
    expected = x.astype("float64")
    expected = expected[..., ::-1].cumsum(-1)[..., ::-1] if reverse else expected.cumsum(-1)
    before, results = get_num_threads(), []
    try:
        for number in (1, 2):
            set_num_threads(number)
            results.append(reductions._cumsum_by_blocks(x, reverse))
    finally:
        set_num_threads(before)
    np.testing.assert_allclose(results[0], expected, rtol=1e-5)
    assert np.array_equal(*results)


@pytest.mark.parametrize("largest", [True, False])
def test_largest_of_many_rows_in_threads(largest: bool) -> None:
    x = np.random.default_rng(0).standard_normal((600, 900)).astype("float32")
    before = get_num_threads()
    set_num_threads(2)
    try:
        values, index = FAST.topk_along(x, 1, 9, largest)
    finally:
        set_num_threads(before)
    order = np.sort(x, axis=1)
    assert np.array_equal(values, order[:, :-10:-1] if largest else order[:, :9])
    assert np.array_equal(np.take_along_axis(x, index, 1), values)
