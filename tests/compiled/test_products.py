"""Products by the library's kernels and in its threads are those of NumPy, however operands lie in memory."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradcore import get_num_threads, set_num_threads
from gradcore.backends.compiled import products
from gradcore.backends.numpy import matmul
from gradcore.backends.numpy.openblas import NUMPY

TOLERANCE = {"float32": 1e-5, "float64": 1e-13}
SHAPES = [(64, 64, 64), (300, 50, 7), (5, 70, 900), (1, 128, 512), (512, 128, 1), (33, 129, 257), (3, 3, 3)]
LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "rows": lambda x: x,
    "columns": lambda x: np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2),
    "part of rows": lambda x: np.concatenate([x, x], -1)[..., : x.shape[-1]],
    "every second": lambda x: np.repeat(x, 2, -1)[..., ::2],
    "reversed": lambda x: np.ascontiguousarray(x[..., ::-1, :])[..., ::-1, :],
}


@pytest.fixture(autouse=True, params=[2, 3], ids="{} threads".format)
def _threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for module in (products, matmul):
        monkeypatch.setattr(module, "MANY", 1)
    monkeypatch.setattr(products, "_WORTH_A_THREAD", 1)
    before = get_num_threads()
    set_num_threads(request.param)
    yield
    set_num_threads(before)


@pytest.fixture
def calls(compiled: Any, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return a list that collects whether each call of the library's functions has multiplied."""
    if NUMPY.function("sgemm") is None:
        pytest.skip("NumPy has another BLAS")
    found: list[bool] = []

    def noting(function: Callable[..., bool]) -> Callable[..., bool]:
        def call(*arguments: Any) -> bool:
            found.append(function(*arguments))
            return found[-1]

        return call

    functions = {char: noting(function) for char, function in compiled._multiply.items()}
    monkeypatch.setitem(vars(compiled), "_multiply", functions)
    return found


def draw(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


@functools.cache
def operands(lead: tuple[int, ...], rows: int, inner: int, columns: int, dtype: str) -> tuple[Any, Any, Any]:
    """Arrays, and their product, which takes longer than all that is compared with it."""
    a, b = draw((*lead, rows, inner), dtype), draw((*lead, inner, columns), dtype, 1)
    return a, b, np.matmul(a.astype("longdouble"), b.astype("longdouble"))


def agree(found: Any, a: Any, b: Any, expected: Any = None) -> None:
    if expected is None:
        expected = np.matmul(a.astype("longdouble"), b.astype("longdouble"))
    assert (found.dtype, found.shape) == (a.dtype, expected.shape)
    assert abs(found - expected).max(initial=0) <= TOLERANCE[a.dtype.name] * a.shape[-1] ** 0.5


@pytest.mark.sampled(24)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("lead", [(), (3,), (2, 5), (17,)], ids=str)
@pytest.mark.parametrize("second", LAYOUTS)
@pytest.mark.parametrize("first", LAYOUTS)
def test_layouts(compiled: Any, calls: list[bool], first: str, second: str, lead: tuple[int, ...], dtype: str) -> None:
    for rows, inner, columns in SHAPES:
        a, b, expected = operands(lead, rows, inner, columns, dtype)
        a, b = LAYOUTS[first](a), LAYOUTS[second](b)
        agree(compiled.matmul(a, b), a, b, expected)
    assert calls
    if {first, second} <= {"rows", "columns", "part of rows"}:
        assert all(calls)


def kernel_operands(seed: int) -> tuple[Any, Any]:
    """Draw operands that the library's own kernel multiplies: tiles, panels and depths of which some are not full."""
    random = np.random.default_rng(seed)
    dtype = "float32" if random.random() < 0.6 else "float64"
    kinds = [
        ("rows", "rows"),
        ("rows", "columns"),
        ("part of rows", "part of rows"),
        ("columns", "rows"),
        ("rows", "rows"),
    ]
    has_few_rows = seed % len(kinds) == len(kinds) - 1
    rows, inner, columns = 0, 0, 0
    while not 1 << 20 <= rows * inner * columns <= 1 << 22:
        rows, inner = int(random.integers(*((4, 16) if has_few_rows else (16, 150)))), int(random.integers(16, 700))
        columns = 32 * int(random.integers(1, 9 if has_few_rows else 20)) - int(random.integers(0, 3))
    first, second = kinds[seed % len(kinds)]
    lead = (int(random.integers(1, 4)),) if random.random() < 0.3 else ()
    return LAYOUTS[first](draw((*lead, rows, inner), dtype)), LAYOUTS[second](draw((*lead, inner, columns), dtype, 1))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(24))
def test_kernel_for_any_number_of_threads(compiled: Any, calls: list[bool], seed: int) -> None:
    a, b = kernel_operands(seed)
    number, results = get_num_threads(), []
    for threads in (1, number):
        set_num_threads(threads)
        results.append(compiled.matmul(a, b))
    agree(results[0], a, b, a.astype("float64") @ b.astype("float64"))
    if Path(compiled.library._name).name.startswith(("avx2-", "avx512-")):  # others may be built without the kernel
        assert calls == [True, True]
        np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("first", ["rows", "columns"])
def test_kernel_for_tiles_of_all_heights(compiled: Any, first: str, dtype: str) -> None:
    """Compare products whose last part, for three threads, has 1 to 16 rows, with a full and a partial last panel."""
    for rows, columns in itertools.product(range(33, 49), (32, 31)):
        a, b = LAYOUTS[first](draw((rows, 1100), dtype)), draw((1100, columns), dtype, 1)
        agree(compiled.matmul(a, b), a, b)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("first", ["rows", "columns", "part of rows"])
@pytest.mark.parametrize("shape", [(64, 784, 256), (24, 1001, 125), (60, 257, 128), (4, 2500, 160)])
def test_halves_of_a_large_second_operand(
    compiled: Any, calls: list[bool], shape: tuple[int, int, int], first: str, dtype: str
) -> None:
    """Each element is the same sum for any number of threads, which multiply halves of the rows of `b`."""
    rows, inner, columns = shape
    a, b = LAYOUTS[first](draw((rows, inner), dtype)), draw((inner, columns), dtype, 1)
    number, results = get_num_threads(), []
    for threads in (1, number, 8):
        set_num_threads(threads)
        results.append(compiled.matmul(a, b))
    agree(results[0], a, b)
    if not Path(compiled.library._name).name.startswith(("avx2-", "avx512-")) or (rows < 16 and first == "columns"):
        return
    assert calls == [True] * 3
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


@pytest.mark.parametrize("second", ["rows", "columns"])
def test_kernel_keeps_nan_and_infinity_in_their_rows_and_columns(compiled: Any, second: str) -> None:
    set_num_threads(1)
    a, b = draw((60, 300), "float32"), draw((300, 62), "float32", 1)
    expected = np.ones((60, 62), bool)
    a[17, 280], b[3, 61] = np.nan, np.inf
    expected[17], expected[:, 61] = False, False
    np.testing.assert_array_equal(np.isfinite(compiled.matmul(a, LAYOUTS[second](b))), expected)


def test_batches_in_any_order(compiled: Any, calls: list[bool]) -> None:
    a, b = (
        draw((4, 5, 40, 30), "float32").swapaxes(0, 1),
        np.broadcast_to(draw((5, 1, 30, 20), "float32"), (5, 4, 30, 20)),
    )
    agree(compiled._product(a, b), a, b)
    assert calls == [True]


@pytest.mark.parametrize("shapes", [((0, 5), (5, 7)), ((4, 5), (5, 0)), ((0, 4, 5), (0, 5, 6)), ((3, 0, 5), (3, 5, 6))])
def test_nothing_to_do(compiled: Any, monkeypatch: pytest.MonkeyPatch, shapes: Any) -> None:
    for module in (products, matmul):
        monkeypatch.setattr(module, "MANY", 0)
    a, b = (np.ones(shape, np.float32) for shape in shapes)
    assert compiled.matmul(a, b).shape == np.matmul(a, b).shape


def test_blas_is_alone_in_each_thread(compiled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if NUMPY.library is None:
        pytest.skip("NumPy has another BLAS")
    seen: list[int] = []
    read = NUMPY.library.read
    functions = {char: lambda *_: seen.append(read()) or True for char in "fd"}  # type: ignore[func-returns-value]
    monkeypatch.setitem(vars(compiled), "_multiply", functions)
    before = read()
    compiled.matmul(np.ones((40, 40)), np.ones((40, 40)))
    assert seen == [1]
    assert read() == before


def test_what_is_left_to_numpy(compiled: Any, calls: list[bool]) -> None:
    ones = {dtype: np.ones((30, 30), dtype) for dtype in ("float32", "float64", "complex64", "float16")}
    for dtype in ("complex64", "float16"):
        assert (compiled.matmul(ones[dtype], ones[dtype]) == 30).all()
    for a, b in ((ones["float64"], ones["float64"][0]), (np.ones((30, 1)), np.ones((1, 30)))):
        np.testing.assert_array_equal(compiled.matmul(a, b), a @ b)
    set_num_threads(1)
    compiled.matmul(ones["float32"], ones["float32"])
    assert not any(calls)
    set_num_threads(2)
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        compiled.matmul(np.ones((30, 20)), np.ones((30, 20)))
    assert (compiled.matmul(ones["float32"], ones["float64"]) == 30).all()


def test_without_openblas(compiled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NUMPY, "library", None)
    monkeypatch.delitem(vars(compiled), "_multiply", raising=False)
    a, b = draw((40, 50), "float64"), draw((50, 60), "float64")
    agree(compiled.matmul(a, b), a, b)
    assert compiled._multiply == {}
    monkeypatch.delitem(vars(compiled), "_multiply")
