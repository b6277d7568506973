"""NumPy's kernels in blocks of rows, and those with tables of places, give what the portable ones give."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from gradcore import get_num_threads, set_num_threads
from gradcore.backends.base import Backend
from gradcore.backends.numpy import attention as numpy_attention
from gradcore.backends.numpy import normalization as numpy_normalization
from gradcore.backends.numpy import row_blocks as numpy_rows
from gradcore.backends.numpy import softmax as numpy_softmax
from gradcore.backends.numpy.row_blocks import copy_rows
from gradcore.backends.registry import CPU


class Portable(Backend):
    """NumPy with the kernels that are written for any library."""

    type = "portable"


FAST, SLOW = CPU.backend, Portable(np, np.ndarray)
DTYPES = ["float32", "float64"]
TOLERANCE = {"float32": 2e-5, "float64": 1e-12}
#: Less than a block, several blocks, short rows, long rows, enough for threads.
SHAPES = [(7, 5), (30, 40), (700, 3), (5, 3000), (2, 20, 129), (70, 100)]


@pytest.fixture(autouse=True)
def _silent_and_threaded(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As operations run their kernels, but on two threads, and with small arrays taken for large ones."""
    limits: list[tuple[Any, dict[str, int]]] = [
        (numpy_rows, {"_BLOCK": 1024, "_ROWS": 2, "_SMALL": 64, "_MANY": 1024}),
        (numpy_softmax, {"_LARGE": 1, "_SEVERAL": 1}),
        (numpy_normalization, {"_LARGE": 1}),
        (numpy_attention, {"_PRODUCTS": 1, "_SCORES": 512, "_QUERIES": 8}),
    ]
    for module, values in limits:
        for name, value in values.items():
            assert hasattr(module, name)
            monkeypatch.setattr(module, name, value)
    before = get_num_threads()
    set_num_threads(2)
    with np.errstate(all="ignore"):
        yield
    set_num_threads(before)


def draw(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def agree(fast: Any, slow: Any, tolerance: float = 0.0) -> None:
    if isinstance(fast, tuple):
        for f, s in zip(fast, slow, strict=True):
            agree(f, s, tolerance)
        return
    if fast is None or slow is None:
        assert fast is slow
        return
    fast, slow = np.asarray(fast), np.asarray(slow)
    assert (fast.shape, fast.dtype) == (slow.shape, slow.dtype)
    finite = slow[np.isfinite(slow)]
    size = float(np.abs(finite).max()) if finite.size else 1.0
    np.testing.assert_allclose(fast, slow, rtol=tolerance, atol=tolerance * min(1.0, size))


# -- softmax ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [1, 30, 1000])
def test_softmax(shape: tuple[int, ...], dtype: str, scale: float) -> None:
    x, t = draw(shape, dtype) * np.dtype(dtype).type(scale), draw(shape, dtype, 1)
    dim = x.ndim - 1
    for name, back in (("softmax_along", "softmax_product"), ("log_softmax_along", "log_softmax_transposed")):
        y = getattr(SLOW, name)(x, dim)
        agree(getattr(FAST, name)(x, dim), y, TOLERANCE[dtype])
        agree(getattr(FAST, back)(t, y, dim), getattr(SLOW, back)(t, y, dim), TOLERANCE[dtype])
        agree(getattr(FAST, back)(np.broadcast_to(t[:1], shape), y, dim), getattr(SLOW, back)(t[:1], y, dim), 1e-4)


@pytest.mark.parametrize("name", ["softmax_along", "log_softmax_along"])
@pytest.mark.parametrize("row", [[np.inf, 1, 2], [-np.inf] * 3, [-np.inf, 0, 1], [np.nan, 0, 1], [3e38, -3e38, 0]])
def test_softmax_of_what_is_not_finite_stays_in_its_row(name: str, row: list[float]) -> None:
    x = np.tile(draw((1, 3), "float32"), (3000, 1))
    x[1234] = row
    agree(getattr(FAST, name)(x, 1), getattr(SLOW, name)(x, 1), 1e-5)


@pytest.mark.parametrize("width", [3, 100, 3000])
@pytest.mark.parametrize("offset", [-100, -3, 0, 3, 9, 100])
def test_errors_of_softmax(width: int, offset: float) -> None:
    """Relative to the largest of a row within 16 units of 2**-24; of the logarithm, absolutely, as many of its size."""
    x = draw((200, width), "float32") + np.float32(offset)
    exact = SLOW.log_softmax_along(x.astype("float64"), 1)
    error = np.abs(FAST.softmax_along(x, 1) - np.exp(exact)) / np.exp(exact).max(1, keepdims=True)
    assert error.max() < 16 * 2**-24
    assert (np.abs(FAST.log_softmax_along(x, 1) - exact) / np.maximum(1, np.abs(exact))).max() < 8 * 2**-24


# -- class targets ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(6, 3), (2000, 10), (30, 70), (4, 3, 5)], ids=str)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ignore", [-100, 1])
def test_class_targets(shape: tuple[int, ...], dtype: str, reduction: str, weighted: bool, ignore: int) -> None:
    x = draw(shape, dtype) * 3
    target = np.random.default_rng(1).integers(0, shape[1], (shape[0], *shape[2:]))
    if ignore < 0:
        target.reshape(-1)[: int(weighted)] = ignore  # outside of the classes, but not wrong
    weight = np.abs(draw((shape[1],), dtype)) if weighted else None
    settings = (target, weight, reduction, ignore)
    tolerance = TOLERANCE[dtype]
    agree(tuple(FAST.nll(x, *settings)), tuple(SLOW.nll(x, *settings)), tolerance)
    found, expected = FAST.softmax_nll(x, *settings), SLOW.softmax_nll(x, *settings)
    agree(tuple(found), tuple(expected), tolerance)
    grad = np.ones(expected[0].shape, dtype) * 0.5
    saved = (target, weight, expected[1], expected[2], expected[3], reduction, ignore)
    agree(
        FAST.softmax_nll_backward(grad, None, None, *saved),
        SLOW.softmax_nll_backward(grad, None, None, *saved),
        tolerance,
    )
    values = draw(target.shape, dtype)
    agree(FAST.class_spread(values, target, shape[1], ignore), SLOW.class_spread(values, target, shape[1], ignore))


def test_cross_entropy_is_precise_where_it_is_small() -> None:
    x = np.zeros((1000, 50), "float32")
    x[:, 7] = np.linspace(5, 20, 1000)
    losses = FAST.softmax_nll(x, np.full(1000, 7), None, "none", -100)[0]
    exact = np.log1p(49 * np.exp(-x[:, 7].astype("float64")))
    assert np.abs(losses - exact).max() < 8 * 2**-24


def test_a_target_out_of_bounds_is_refused() -> None:
    with pytest.raises(IndexError, match="Target 3 is out of bounds"):
        FAST.softmax_nll(draw((2, 3), "float32"), np.array([0, 3]), None, "mean", -100)


# -- normalization ----------------------------------------------------------------------------------------------------

NEEDS = [(True, True, True), (False, True, True), (True, False, False)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("needs", NEEDS, ids=str)
@pytest.mark.parametrize("shape", [(4, 6), (70, 90), (11, 3000), (70, 10, 8)], ids=str)
def test_layer_norm(shape: tuple[int, ...], dtype: str, affine: bool, needs: tuple[bool, ...]) -> None:
    x, grad = draw(shape, dtype) + 1, draw(shape, dtype, 1)
    for ndims in range(1, len(shape)):
        weight, bias = (draw(shape[-ndims:], dtype, i) for i in (2, 3)) if affine else (None, None)
        found, expected = (F.native_layer_norm(x, weight, bias, ndims, 1e-5) for F in (FAST, SLOW))
        agree(found, expected, TOLERANCE[dtype])
        saved = (x, weight, *expected[1:], 1e-5, needs, ndims)
        agree(*(F.layer_norm_backward(grad, None, None, *saved) for F in (FAST, SLOW)), 10 * TOLERANCE[dtype])


def test_variances_of_numbers_far_from_zero() -> None:
    x = draw((16, 4096), "float32") + np.float32(1000)
    exact = x.astype("float64").var(1)
    assert np.abs(FAST.native_layer_norm(x, None, None, 1, 0.0)[2][:, 0] / exact - 1).max() < 1e-5


# -- attention --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("queries", "keys"), [(5, 3), (20, 50), (50, 20), (16, 16), (1, 1)])
@pytest.mark.parametrize("masked", ["no", "causal", "added", "hidden rows"])
@pytest.mark.parametrize("scale", [0.2, 40.0])
def test_attention(dtype: str, queries: int, keys: int, masked: str, scale: float) -> None:
    arrays = [draw((3, 4, n, 8), dtype, n) for n in (queries, keys)]
    value = draw((3, 4, keys, 6), dtype, 9)
    mask = None
    if masked in ("added", "hidden rows"):
        mask = draw((1, queries, keys), dtype, 10)
        mask[:, ::2] = -np.inf if masked == "hidden rows" else 0
    settings = (*arrays, value, mask, scale, masked == "causal")
    expected = SLOW.attention(*settings)
    agree(tuple(FAST.attention(*settings)), tuple(expected), 10 * TOLERANCE[dtype])
    grad = draw((3, 4, queries, 6), dtype, 11)
    for needs in ((True, True, True, False), (False, True, False, False), (False, False, True, False)):
        saved = (grad, None, *arrays, value, expected[1], scale, masked == "causal", needs)
        agree(FAST.attention_backward(*saved), SLOW.attention_backward(*saved), 100 * TOLERANCE[dtype])


# -- places -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(16, 33), (1024, 512), (1000, 300), (0, 3), (3, 0)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_transposed(shape: tuple[int, int], dtype: str) -> None:
    x = draw(shape, dtype)
    y = copy_rows(x.T)
    assert y.flags.c_contiguous
    agree(y, np.ascontiguousarray(x.T))


# -- small windows ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["plain", "ties", "infinite", "nan"])
@pytest.mark.parametrize("settings", [((2,), (2,), (0,), False), ((3,), (2,), (1,), False), ((3,), (2,), (1,), True)])
@pytest.mark.parametrize("sizes", [(9,), (8, 7), (5, 4, 6)], ids=str)
def test_pooling_of_small_arrays(sizes: tuple[int, ...], settings: Any, kind: str) -> None:
    x = draw((2, 3, *sizes), "float32")
    if kind == "ties":
        x = np.round(x)
    elif kind != "plain":
        x[np.random.default_rng(1).random(x.shape) < 0.1] = np.inf if kind == "infinite" else np.nan
    n = len(sizes)
    kernel, stride, padding = (each * n for each in settings[:3])
    for dilation in (1, 2):
        window = (kernel, stride, padding, (dilation,) * n, settings[3])
        found, expected = FAST.max_pool(x, *window), SLOW.max_pool(x, *window)
        agree(tuple(found), tuple(expected))
    for include in (False, True):
        window = (kernel, stride, padding, settings[3], include, None)
        means = SLOW.avg_pool(x, *window)
        agree(FAST.avg_pool(x, *window), means, 1e-6)
        agree(*(F.avg_pool_spread(means, sizes, *window) for F in (FAST, SLOW)), 1e-6)


# -- distinct elements ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "uint8", "int8", "bool"])
@pytest.mark.parametrize("high", [100, 10**6, 2**40])
def test_unique(dtype: str, high: int) -> None:
    x = np.random.default_rng(high).integers(-high // 3, high, (100, 60)).astype(dtype)
    for inverse in (True, False):
        if dtype == "float32" and not inverse:  # there is no order among several NaN
            x[3, 4:7] = np.nan
        for counts in (False, True):
            agree(FAST.unique_of(x, inverse, counts, None), SLOW.unique_of(x, inverse, counts, None))
