"""Reductions of narrow arrays by kernels agree with NumPy's functions in double precision."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.backends.compiled import calls, narrow
from gradcore.backends.numpy.backend import NumpyBackend
from tests.compiled.conftest import Ran

#: Shapes and dims: rows and columns of 1 to 60 elements, more columns and rows than are reduced at a time, remainders.
CASES = [
    ((5, 3), 1), ((16, 6, 6), 1), ((40, 40, 3), 1), ((40, 40, 3), 2), ((300, 1), 1), ((300, 7), 1), ((257, 31), 1),
    ((90, 2, 5), 1), ((90, 37, 5), 1), ((3, 100, 40), 1), ((9, 8, 31), 1), ((500, 20), 0), ((2, 3, 4, 5), 2),
    ((33, 16, 2), 1), ((7, 17, 63), 1), ((1, 9, 1), 1), ((4000, 9, 3), 1),
]  # fmt: skip
SPECIAL = [np.inf, -np.inf, np.nan, 0.0, -0.0, 3e38, -3e38, 1e-45]


@pytest.fixture(autouse=True)
def _small_is_large(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("_LEAST", "_LEAST_INDICES", "_LEAST_LOGSUMEXP", "_COLUMNS"):
        monkeypatch.setattr(narrow, name, 1)
    with np.errstate(all="ignore"):
        yield


@pytest.fixture(params=[1, 2])
def _threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(calls, "WORTH_A_THREAD", 256)
    monkeypatch.setattr(narrow, "WORTH_A_THREAD", 256)
    before = gc.get_num_threads()
    gc.set_num_threads(request.param)
    yield
    gc.set_num_threads(before)


def draw(shape: tuple[int, ...], char: str, special: bool = False) -> Any:
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape).astype(char)
    if special:
        places = rng.random(shape) < 0.1
        x[places] = rng.choice(SPECIAL, places.sum())
    return x


def expect(ran: Ran, name: str, char: str, *further: tuple[str, str]) -> None:
    assert ran == [(name, char), *further]
    ran.clear()


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("char", "fd")
@pytest.mark.parametrize(("shape", "dim"), CASES)
def test_sums_and_logsumexp(compiled: Any, ran: Ran, shape: tuple[int, ...], dim: int, char: str) -> None:
    x, keepdim = draw(shape, char), len(shape) == 3
    tiny = np.finfo(char).eps
    exact = x.astype(np.longdouble)
    if dim and dim < x.ndim - 1 and shape[-1] > 1:
        found = compiled.sum_over(x, (dim,), keepdim)
        expect(ran, "narrow_sums", char)
        bound = 4 * tiny * abs(exact).sum(dim, keepdims=keepdim)
        assert (abs(found - exact.sum(dim, keepdims=keepdim)) <= bound).all()
    found = compiled.logsumexp_over(x, (dim,), keepdim)
    expect(ran, "narrow_logsumexp", char)
    top = exact.max(dim, keepdims=True)
    expected = np.log(np.exp(exact - top).sum(dim, keepdims=True)) + top
    np.testing.assert_allclose(found, expected if keepdim else expected.squeeze(dim), rtol=4 * tiny, atol=4 * tiny)
    assert found.dtype == x.dtype


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("char", "fd")
@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize(("shape", "dim"), CASES)
def test_extrema_and_their_indices(
    compiled: Any, ran: Ran, shape: tuple[int, ...], dim: int, char: str, special: bool
) -> None:
    x = draw(shape, char, special)
    if shape[dim] > 4:  # equal elements: the first one is found
        x[..., -1] = x[..., 0]
    for name, short in (("max", "maxima"), ("min", "minima")):
        found = getattr(compiled, f"{name}_over")(x, (dim,), True)
        expect(ran, f"narrow_{short}", char)
        np.testing.assert_array_equal(found, getattr(x, name)(axis=dim, keepdims=True))
        index = getattr(compiled, f"arg{name}_along")(x, dim)
        expect(ran, f"narrow_arg{name}", char)
        np.testing.assert_array_equal(index, getattr(x, f"arg{name}")(axis=dim))
        assert index.dtype == np.int64
        values, index = getattr(compiled, f"{name}_along")(x, dim, True)
        expect(ran, f"narrow_arg{name}", char, ("gather_along", str(x.itemsize)))
        np.testing.assert_array_equal(values, getattr(x, name)(axis=dim, keepdims=True))
        np.testing.assert_array_equal(index.squeeze(dim), getattr(x, f"arg{name}")(axis=dim))


@pytest.mark.parametrize("char", "fd")
@pytest.mark.parametrize(("shape", "dim"), [((30, 6, 6), 1), ((200, 5), 1), ((50, 20), 0)])
def test_logsumexp_of_infinities_and_nan(compiled: Any, ran: Ran, shape: tuple[int, ...], dim: int, char: str) -> None:
    x = draw(shape, char, special=True)
    x[0] = -np.inf
    found = compiled.logsumexp_over(x, (dim,), False)
    expect(ran, "narrow_logsumexp", char)
    expected = np.logaddexp.reduce(x.astype(np.longdouble), dim)
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(found, expected.astype(char), rtol=1e-6)


def test_logsumexp_keeps_the_digits_of_small_results(compiled: Any, ran: Ran) -> None:
    x = np.array([[0.0, -18.0, -18.0]] * 40, np.float32)
    found = compiled.logsumexp_over(x, (1,), False)
    expect(ran, "narrow_logsumexp", "f")
    np.testing.assert_allclose(found, np.log1p(2 * np.exp(-18.0)), rtol=1e-6)


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("char", "fd")
@pytest.mark.parametrize(
    ("shape", "dim"), [((1, 8), 0), ((2, 3, 9), 1), ((3, 17, 4, 5), 1), ((40, 300), 0), ((2, 9, 1, 513), 1)]
)
def test_softmax_of_columns(compiled: Any, ran: Ran, shape: tuple[int, ...], dim: int, char: str) -> None:
    x, t, y = draw(shape, char), draw(shape, char)[::-1].copy(), draw(shape, char) / 2
    limit = {"rtol": 8 * np.finfo(char).eps, "atol": 8 * np.finfo(char).eps}
    exact, exact_t, exact_y = (a.astype(np.longdouble) for a in (x, t, y))
    top = exact.max(dim, keepdims=True)
    powers = np.exp(exact - top)
    total = powers.sum(dim, keepdims=True)
    dot = (exact_t * exact_y).sum(dim, keepdims=True)
    for method, arrays, kernel, expected in (
        ("softmax_along", (x,), "softmax", powers / total),
        ("log_softmax_along", (x,), "log_softmax", exact - top - np.log(total)),
        ("softmax_product", (t, y), "softmax_backward", (exact_t - dot) * exact_y),
        (
            "log_softmax_transposed", (t, -abs(y)), "log_softmax_backward",
            exact_t - np.exp(-abs(exact_y)) * exact_t.sum(dim, keepdims=True),
        ),
    ):  # fmt: skip
        found = getattr(compiled, method)(*arrays, dim)
        expect(ran, f"{kernel}_columns", char)
        np.testing.assert_allclose(found, expected, **limit)
        assert found.dtype == x.dtype
    found_powers, found_top, found_total = compiled.exponentials_along(x, dim)
    expect(ran, "exponential_columns", char)
    np.testing.assert_allclose(found_powers, powers, **limit)
    np.testing.assert_array_equal(found_top, top)
    np.testing.assert_allclose(found_total, total, **limit)


@pytest.mark.parametrize("char", "fd")
@pytest.mark.parametrize("kernel", ["softmax_along", "log_softmax_along"])
def test_softmax_of_columns_with_infinities_and_nan(compiled: Any, char: str, kernel: str) -> None:
    """Rows of the same numbers, which other kernels compute, agree."""
    x = draw((30, 40), char, special=True)
    x[:, 3], x[:, 4] = -np.inf, 2
    rows = getattr(NumpyBackend(), kernel)(np.ascontiguousarray(x.T), 1)
    np.testing.assert_allclose(getattr(compiled, kernel)(x, 0).T, rows, rtol=1e-5, atol=1e-6)


def test_other_arrays_are_left_to_numpy(compiled: Any, ran: Ran) -> None:
    x = draw((30, 6, 6), "f")
    memory = np.zeros(x.nbytes + 8, "u1")
    start = -memory.ctypes.data % 4 + 1  # which is not aligned
    shifted = memory[start : start + x.nbytes].view("f4").reshape(x.shape)
    for other in (x[::2], x.swapaxes(1, 2), x.astype("f2"), x.astype("i4"), x.astype("c8"), shifted, x[:0]):
        np.testing.assert_allclose(
            compiled.sum_over(other, (1,)), other.sum(1, dtype=other.dtype.char.replace("i", "l")), rtol=0.02, atol=0.02
        )
    for other in (x[::2], x.swapaxes(1, 2), x.astype("i4"), shifted):
        np.testing.assert_array_equal(compiled.max_over(other, (1,)), other.max(1))
        np.testing.assert_array_equal(compiled.argmin_along(other, 1), other.argmin(1))
    np.testing.assert_array_equal(compiled.max_over(x, (0, 2)), x.max((0, 2)))
    np.testing.assert_allclose(compiled.sum_over(x, (1,), False, gc.float64), x.sum(1, dtype="f8"))
    assert ran == []
    with pytest.raises(ValueError, match="zero-size"):
        compiled.max_over(x[:, :0], (1,))


def test_softmax_of_other_arrays_is_left_to_numpy(compiled: Any, ran: Ran) -> None:
    x = draw((30, 6, 9), "f")
    for other in (x[::2], x.swapaxes(1, 2), x.astype("c8"), x[:, :, :7].copy()):
        np.testing.assert_allclose(np.sum(compiled.softmax_along(other, 1), 1), 1, rtol=1e-5)
    expected = x * (x - (x * x).sum(1, dtype="f8", keepdims=True))
    np.testing.assert_allclose(compiled.softmax_product(x.astype("f8"), x, 1), expected, rtol=1e-4, atol=1e-6)
    assert not [name for name, _ in ran if name.endswith("_columns")]


def test_longer_dims_are_left_to_numpy(compiled: Any, ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels do not number more than 2**31 - 1 elements along a dim."""
    monkeypatch.setattr(narrow, "_LONGEST", 5)
    x = draw((30, 6, 4), "f")
    np.testing.assert_allclose(compiled.sum_over(x, (1,)), x.sum(1), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(compiled.max_over(x, (1,)), x.max(1))
    np.testing.assert_array_equal(compiled.argmin_along(x, 1), x.argmin(1))
    compiled.logsumexp_over(x, (1,), False)
    assert not {name for name, _ in ran if name.startswith("narrow")}
