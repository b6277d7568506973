"""Kernels of a single pass (conversions, reductions, indices, order) give what NumPy's functions give."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.backends.base import Backend
from gradcore.backends.compiled import calls, conversions, indexing, reductions, rows, sorting
from gradcore.backends.numpy.reductions import MAXIMA, MINIMA, PRODUCTS, SQUARES, SUMS
from gradcore.backends.portable.elementwise import Elementwise
from gradcore.errors import OutOfBoundsError
from tests.backends.test_numpy_reductions import agree, draw
from tests.compiled.conftest import Ran

ml_dtypes = pytest.importorskip("ml_dtypes")


class Portable(Backend):
    """NumPy with the kernels that are written for any library."""

    type = "portable"


SLOW = Portable(np, np.ndarray)
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
EVERY = ["bool", "uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "bfloat16",
         "float32", "float64", "complex64", "complex128"]  # fmt: skip
SHAPES = [(5000,), (40, 37), (6, 50, 11), (700, 3), (2, 1, 33)]
SPECIAL = [
    0.0,
    -0.0,
    np.inf,
    -np.inf,
    np.nan,
    1e-45,
    1e-40,
    6e-8,
    3e-8,
    2.98e-8,
    65504,
    65519.99,
    65520,
    7e4,
    3e38,
    1.0,
]


@pytest.fixture(autouse=True)
def _small_is_large(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(reductions, "_LARGE_ROWS", 1)
    for module in (conversions, indexing, rows, sorting):
        monkeypatch.setattr(module, "_LARGE", 1)
    monkeypatch.setattr(sorting, "_LENGTH", 2)
    monkeypatch.setattr(reductions, "_BLOCK", 256)
    monkeypatch.setattr(calls, "WORTH_A_THREAD", 256)
    with np.errstate(all="ignore"):
        yield


def dtype_of(name: str) -> Any:
    return BFLOAT16 if name == "bfloat16" else np.dtype(name)


def numbers(shape: tuple[int, ...], name: str, seed: int = 0) -> Any:
    """Random numbers of a dtype, all of them whole and small, so that sums are exact in any order."""
    x = np.random.default_rng(seed).integers(0 if name[0] in "ub" else -9, 9, shape)
    return (x + 1j * (5 - x) if name.startswith("complex") else x).astype(dtype_of(name))


# -- conversions --------------------------------------------------------------------------------------------------


def same_numbers(found: Any, expected: Any) -> None:
    """Equal bits, but for those of NaN."""
    assert (found.dtype, found.shape, found.strides) == (expected.dtype, expected.shape, expected.strides)
    bits = {2: np.uint16, 4: np.uint32, 8: np.uint64}[found.itemsize]
    nan = np.isnan(expected.astype(np.float64))
    np.testing.assert_array_equal(np.isnan(found.astype(np.float64)), nan)
    np.testing.assert_array_equal(found.view(bits)[~nan], expected.view(bits)[~nan])


@pytest.mark.parametrize("target", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("source", ["float16", "bfloat16"])
def test_every_half_is_converted(compiled: Any, ran: Ran, source: str, target: str) -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(dtype_of(source))
    same_numbers(compiled.astype(x, dtype_of(target)), x.astype(dtype_of(target)))
    assert [name for name, _ in ran] == ["converted"] * (source != target)


@pytest.mark.parametrize(
    ("source", "target"), [("float32", "float16"), ("float32", "bfloat16"), ("float64", "bfloat16")]
)
def test_floats_are_rounded_to_halves(compiled: Any, ran: Ran, source: str, target: str) -> None:
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 1 << 32, 300_000, dtype=np.uint32).view(np.float32)
    moderate = (rng.standard_normal(100_000) * 10.0 ** rng.integers(-9, 6, 100_000)).astype(np.float32)
    halves = np.arange(1 << 16, dtype=np.uint16).view(dtype_of(target)).astype(np.float64)
    between = ((halves[1:] + halves[:-1]) / 2).astype(np.float32)  # ties, and their neighbours
    special = np.array(SPECIAL, np.float32)
    every = [bits, moderate, between, np.nextafter(between, np.float32(9e9)), np.nextafter(between, np.float32(0))]
    x = np.concatenate([*every, special, -special]).astype(source)
    same_numbers(compiled.astype(x, dtype_of(target)), x.astype(dtype_of(target)))
    for part in (x[:9], x[:0], x[3:10_003].reshape(100, 100).T, x[::2], x[:1].reshape(())):
        same_numbers(compiled.astype(part, dtype_of(target)), part.astype(dtype_of(target)))
    assert {name for name, _ in ran} == {"converted"}


def test_float64_is_rounded_to_float16_once(compiled: Any) -> None:
    x = np.full(3000, 1 + 2**-11 + 2**-40)
    np.testing.assert_array_equal(compiled.astype(x, np.dtype("f2")), x.astype("f2"))


# -- reductions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("special", [False, True])
def test_reductions(compiled: Any, ran: Ran, shape: tuple[int, ...], dtype: str, special: bool) -> None:
    x = draw(shape, dtype, kind="special" if special else "plain")
    tolerance = {"float32": 1e-5, "float64": 1e-13}[dtype]
    for start in range(x.ndim):
        for stop in range(start + 1, x.ndim + 1):
            dims = tuple(range(start, stop))
            exact = x.astype(np.longdouble)
            agree(compiled.reduce_run(MAXIMA, x, start, stop), x.max(dims))
            agree(compiled.reduce_run(MINIMA, x, start, stop), x.min(dims))
            squares = (exact * exact).sum(dims).astype(dtype)
            agree(compiled.reduce_run(SQUARES, x, start, stop), squares, tolerance)
            sums, sizes = exact.sum(dims).astype(dtype), np.abs(exact).sum(dims).astype(dtype)
            found, known = compiled.reduce_run(SUMS, x, start, stop), np.isfinite(sizes)
            agree(np.where(known, found, 0), np.where(known, sums, 0), tolerance * max(sizes[known].max(initial=1), 1))
            agree(np.where(known, 0, found), np.where(known, 0, sums))
            near = 1 + x * x.dtype.type(0.001)
            agree(compiled.reduce_run(PRODUCTS, near, start, stop), near.prod(dims), tolerance * 100)
    if shape[-1] >= reductions._WIDTH:
        assert {"row_sums", "row_squares", "row_products", "row_maxima", "row_minima"} <= {name for name, _ in ran}


@pytest.mark.parametrize("shape", [(300, 257), (2, 40_000), (70_001, 1), (1031, 64), (9000, 8), (257, 301)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.usefixtures("two_threads")
def test_sums_of_products_of_rows_and_columns(compiled: Any, ran: Ran, shape: tuple[int, int], dtype: str) -> None:
    x, y = numbers(shape, dtype), numbers(shape, dtype, 1)
    row, column = y[0].copy(), y[:, 0].copy()
    agree(compiled.row_dots(x, y), (x * y).sum(1))
    agree(compiled.column_dots(x, y), (x * y).sum(0))
    agree(compiled.times_vector(x, row), (x * row).sum(1))
    agree(compiled.sum_of_rows(column, x), (x * column[:, None]).sum(0))
    agree(compiled.sum_over(x, (0,)), x.sum(0))
    agree(compiled.sum_over(x, (1,)), x.sum(1))
    if shape[1] >= reductions._WIDE:
        assert ("row_dots", x.dtype.char) in ran
    assert (("column_dots", "f") in ran) == (dtype == "float32")


LAYOUTS: list[Any] = [
    lambda x: x, lambda x: x.T, lambda x: x[:, :, ::2], lambda x: x[::-1], lambda x: x.transpose(1, 0, 2),
    lambda x: x.transpose(2, 0, 1), lambda x: x[:, :, ::-1], lambda x: np.broadcast_to(x[:1], x.shape),
    lambda x: np.broadcast_to(x[:, :1], x.shape), lambda x: np.broadcast_to(x[:, :, :1], x.shape),
    lambda x: np.broadcast_to(x[1, 2, 3], x.shape),
]  # fmt: skip


@pytest.mark.parametrize("dtype", EVERY)
@pytest.mark.usefixtures("two_threads")
def test_copies(compiled: Any, dtype: str) -> None:
    x = numbers((300, 7, 120), dtype)
    for layout in LAYOUTS:
        source = layout(x)
        for order in "KC":
            found, expected = compiled.copy_elements(source, order), Elementwise.copy_elements(compiled, source, order)
            assert (found.dtype, found.strides) == (expected.dtype, expected.strides)
            assert not np.shares_memory(found, source)
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("special", [False, True])
def test_reductions_of_halves(
    compiled: Any, ran: Ran, dtype: str, special: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reductions, "_BLOCK", 1 << 13)  # blocks of more than eight rows
    for shape in (*SHAPES, (20_011,), (9, 40, 5, 7), (53, 517)):
        x = numbers(shape, dtype)
        if special:
            x.reshape(-1)[:: -(-x.size // len(SPECIAL))] = SPECIAL[: -(-x.size // -(-x.size // len(SPECIAL)))]
        dims: list[Any] = [None, 0, -1, tuple(range(x.ndim)), (0, x.ndim - 1)[: x.ndim]]
        for given, keepdim in ((x, False), (x.T, False), (x[1:], True)):
            exact = given.astype(np.float64)
            for dim in dims:
                axis = tuple(dict.fromkeys(d % x.ndim for d in dim)) if isinstance(dim, tuple) else dim
                settings = axis, keepdim
                agree(compiled.sum_of_halves(given, *settings), exact.sum(axis, None, None, keepdim).astype("f4"))
                mean = exact.mean(axis, None, None, keepdim).astype("f4")
                agree(compiled.mean_of_halves(given, *settings), mean, 1e-6)
                over = () if axis is None else axis, keepdim
                agree(compiled.amax_of_halves(given, *over), exact.max(axis, None, keepdim).astype("f4"))
                agree(compiled.amin_of_halves(given, *over), exact.min(axis, None, keepdim).astype("f4"))
            agree(compiled.max_all_of_halves(given), exact.max().astype("f4"))
            agree(compiled.min_all_of_halves(given), exact.min().astype("f4"))
    assert {"row_sums", "column_sums", "row_maxima", "row_minima"} <= {name for name, _ in ran}


def test_sums_of_halves_are_rounded_once(compiled: Any, ran: Ran) -> None:
    x = gc.full((300, 400), 0.1, dtype=gc.float16, device="compiled", requires_grad=True)
    total = x.sum()
    assert total.dtype is gc.float16
    assert total.item() == np.float16(300 * 400 * float(np.float16(0.1)))
    total.backward()
    assert x.grad is not None
    assert x.grad.dtype is gc.float16
    assert bool((x.grad == 1).all())
    assert x.detach().mean((0, 1)).item() == np.float16(0.1)
    assert x.detach().max().item() == np.float16(0.1)
    assert x.detach().sum(1, dtype=gc.float64).dtype is gc.float64
    assert x.detach().sum(0, dtype=gc.bfloat16).dtype is gc.bfloat16
    with pytest.raises(IndexError):
        x.sum(2)
    assert {name for name, _ in ran} >= {"row_sums", "row_maxima"}


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int16", "int32", "int64"])
def test_sums_of_integers_are_exact(compiled: Any, ran: Ran, dtype: str) -> None:
    for shape in (*SHAPES, (70_000,), (3, 40_000)):
        info = None if dtype == "bool" else np.iinfo(dtype)
        for x in (
            np.ones(shape, dtype),
            np.full(shape, True if info is None else info.min, dtype),
            numbers(shape, dtype),
        ):
            for dims in (None, (x.ndim - 1,), (0,)):
                agree(compiled.sum_over(x, dims), np.add.reduce(x, dims, np.int64))
    assert {name for name, _ in ran} == {"row_sums"}


@pytest.mark.parametrize("shape", [(1,), (7,), (31,), (33,), (5, 40), (300, 257), (70_001,)], ids=str)
def test_bools_of_any_byte_count_as_one(compiled: Any, ran: Ran, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).integers(0, 256, shape).astype("u1").view("?")
    x.reshape(-1)[:1].view("u1")[:] = 255
    truth = x.view("u1") != 0
    for dims in (None, (x.ndim - 1,), (0,)):
        agree(compiled.sum_over(x, dims), np.add.reduce(truth, dims, np.int64))
    agree(compiled.sum(x), np.add.reduce(truth, None, np.int64))
    assert ("row_sums", "t") in ran


@pytest.mark.parametrize("place", [0, 31, 32, 4999])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_nan_is_found_wherever_it_is(compiled: Any, dtype: str, place: int) -> None:
    x = np.zeros(5000, dtype)
    x[place] = np.nan
    assert all(np.isnan(compiled.reduce_run(kind, x, 0, 1)) for kind in (MAXIMA, MINIMA, SUMS, PRODUCTS))


@pytest.mark.parametrize("dims", [None, (0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (-1,)], ids=str)
@pytest.mark.parametrize("keepdim", [False, True])
def test_dims_of_reductions(compiled: Any, dims: Any, keepdim: bool) -> None:
    for x in (
        draw((40, 50, 60), "float64"),
        draw((60, 50, 40), "float64").T,
        draw((40, 60, 50), "float64").swapaxes(1, 2),
    ):
        for name in ("max_over", "min_over", "prod_over"):
            agree(getattr(compiled, name)(x, dims, keepdim), getattr(SLOW, name)(x, dims, keepdim), 1e-9)
        agree(compiled.squares_over(x, dims, keepdim), SLOW.squares_over(x, dims, keepdim), 1e-12)


@pytest.mark.parametrize("shape", [(7, 5), (1, 5000), (30, 40), (2, 20, 129), (9, 1)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["plain", "ties", "special"])
def test_running_products_and_extrema(compiled: Any, ran: Ran, shape: tuple[int, ...], dtype: str, kind: str) -> None:
    x = draw(shape, dtype, kind=kind)
    agree(compiled.cumprod_along(x, x.ndim - 1), np.cumprod(x, -1))
    for name in ("cummax_along", "cummin_along"):
        agree(getattr(compiled, name)(x, x.ndim - 1), getattr(SLOW, name)(x, x.ndim - 1))
    assert [name for name, _ in ran] == ["cumulative_product", *["cumulative_extremum"] * 2]


# -- indices ------------------------------------------------------------------------------------------------------


def indices(shape: Any, size: int, dtype: str = "int64", low: int = 0) -> Any:
    return np.random.default_rng(1).integers(low, size, shape).astype(dtype)


@pytest.mark.parametrize("dtype", EVERY)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_slices_are_read_and_added(compiled: Any, ran: Ran, shape: tuple[int, ...], dtype: str) -> None:
    x = numbers(shape, dtype)
    for dim, size in enumerate(shape):
        for kind in ("int64", "int32"):
            for where in ((30,), (4, 5), (0,), (), (700,)):
                index = indices(where, size, kind, -size)
                agree(compiled.taken_along(x, dim, index, True), x.take(index, dim))
                agree(compiled.taken_along(x, dim, index % size), x.take(index, dim))
                key = (None,) * dim + (index,)
                grad = numbers(x.take(index, dim).shape, dtype, 2)
                agree(compiled.index_backward(grad, shape, key), SLOW.index_backward(grad, shape, key))
                agree(compiled.index_write(x, grad, key, True), SLOW.index_write(x, grad, key, True))
    assert "take_slices" in {name for name, _ in ran}
    adds = dtype != "bool"
    assert dtype == "bfloat16" or ("add_slices" in {name for name, _ in ran}) == adds


@pytest.mark.parametrize("dtype", EVERY)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_each_element_has_an_index(compiled: Any, ran: Ran, shape: tuple[int, ...], dtype: str) -> None:
    x = numbers(shape, dtype)
    for dim, size in enumerate(shape):
        for count in (1, 9, size):
            chosen = (*shape[:dim], count, *shape[dim + 1 :])
            index, src = indices(chosen, size), numbers(chosen, dtype, 3)
            agree(compiled.gather_along(x, dim, index), SLOW.gather_along(x, dim, index))
            for values in (src, x.dtype.type(1)):
                agree(compiled.scatter_along(x, dim, index, values), SLOW.scatter_along(x, dim, index, values))
            agree(compiled.added_along(x.copy(), dim, index, src), SLOW.added_along(x.copy(), dim, index, src))
            part = tuple(slice(max(n - 1, 1)) for n in chosen)  # smaller than the others: left to NumPy
            agree(compiled.gather_along(x, dim, index[part]), SLOW.gather_along(x, dim, index[part]))
    assert {"gather_along", "scatter_along"} <= {name for name, _ in ran}


@pytest.mark.parametrize("seed", range(20))
def test_indices_of_any_small_arrays(compiled: Any, seed: int) -> None:
    """The kernels get arrays of every size, and check shapes and layouts themselves."""
    rng = np.random.default_rng(seed)
    for _ in range(40):
        compare_small_arrays(compiled, rng)


def compare_small_arrays(compiled: Any, rng: np.random.Generator) -> None:
    """Compare all kernels of indices on random arrays of at most three dims and four elements along each."""
    ndim = int(rng.integers(0, 4))
    shape = tuple(rng.integers(0, 5, ndim).tolist())
    dtype = EVERY[rng.integers(len(EVERY))]
    x, dim = numbers(shape, dtype), int(rng.integers(max(ndim, 1)))
    x = [x, np.asfortranarray(x), x[::-1] if ndim else x, x.swapaxes(0, -1) if ndim else x][rng.integers(4)]
    size, low = (x.shape or (1,))[dim], int(rng.integers(2))
    high = max(size + int(rng.integers(-1, 2)), 1)
    counts = [int(rng.integers(0, n + 1)) if d != dim else int(rng.integers(0, 5)) for d, n in enumerate(x.shape)]
    index = rng.integers(-low, high, counts).astype(rng.choice(["int64", "int32"]))
    src = numbers(tuple(n + int(rng.integers(2)) for n in index.shape), dtype, 1)
    row = rng.integers(-low, high, int(rng.integers(0, 4)))
    values = numbers((*x.shape[:dim], row.size, *x.shape[dim + 1 :]), dtype, 2)
    key = (None,) * dim + (row,)
    same_outcome(lambda K: K.gather_along(x, dim, index), compiled)
    same_outcome(lambda K: K.scatter_along(x, dim, index, src), compiled)
    same_outcome(lambda K: K.scatter_along(x, dim, index, x.dtype.type(1)), compiled)
    same_outcome(lambda K: K.check_bounds(index, size, dim, -low * size), compiled)
    if dtype != "bool":
        same_outcome(lambda K: K.added_along(np.array(x), dim, index, src), compiled)
    if ndim:
        same_outcome(lambda K: K.taken_along(x, dim, row), compiled)
        same_outcome(lambda K: K.index_write(x, values, key, True), compiled)
        same_outcome(lambda K: K.index_backward(values, x.shape, key), compiled)


def same_outcome(call: Any, compiled: Any) -> None:
    """Check that the compiled and the portable kernels return the same array, or that both refuse the arguments."""
    outcomes = []
    for backend in (compiled, SLOW):
        try:
            outcomes.append(call(backend))
        except (IndexError, ValueError, RuntimeError) as error:
            outcomes.append(error)
    found, expected = outcomes
    if isinstance(expected, Exception):
        assert isinstance(found, IndexError) == isinstance(expected, IndexError), (found, expected)
        if isinstance(found, OutOfBoundsError) and isinstance(expected, OutOfBoundsError):
            assert str(found) == str(expected)
    elif expected is None:
        assert found is None
    else:
        agree(found, expected)


@pytest.mark.parametrize("dtype", EVERY)
def test_rows_are_reversed(compiled: Any, ran: Ran, dtype: str) -> None:
    x = numbers((7, 37), dtype)
    for array in (x, x[0], x.T, x[:, ::2], x[:0], x[:, :3]):
        for dims in ((array.ndim - 1,), (0,), tuple(range(array.ndim))):
            agree(compiled.reverse_dims(array, dims), np.flip(array, dims))
    assert ("reverse_rows", str(x.itemsize)) in ran


@pytest.mark.parametrize("change", [lambda x: x.T, lambda x: x[::2, ::-1], lambda x: np.broadcast_to(x[:1], x.shape)])
def test_any_layout(compiled: Any, change: Any) -> None:
    x, src = change(draw((40, 50), "float64")), change(draw((40, 50), "float64", kind="ties"))
    for dim in (0, 1):
        index = np.asfortranarray(indices(x.shape, x.shape[dim]))
        agree(compiled.gather_along(x, dim, index), SLOW.gather_along(x, dim, index))
        agree(compiled.scatter_along(x, dim, index, src), SLOW.scatter_along(x, dim, index, src))
        agree(compiled.added_along(np.array(x), dim, index, src), SLOW.added_along(np.array(x), dim, index, src), 1e-12)
        agree(compiled.taken_along(x, dim, index[0] % x.shape[dim]), x.take(index[0] % x.shape[dim], dim))
        agree(compiled.sort_along(x, dim), SLOW.sort_along(x, dim))
        agree(compiled.cumprod_along(x, dim), SLOW.cumprod_along(x, dim), 1e-12)


def test_threads_share_slices_of_any_dim(compiled: Any, ran: Ran, two_threads: None) -> None:
    x = draw((60, 40, 5), "float32")
    for dim in (0, 1):
        index = indices((200,), x.shape[dim], low=-x.shape[dim])
        agree(compiled.taken_along(x, dim, index, True), x.take(index, dim))
        assert ran == [("take_slices", "4")]
        gc.set_num_threads(1)
        agree(compiled.taken_along(x, dim, index, True), x.take(index, dim))
        assert ran == [("take_slices", "4")] * 2
        gc.set_num_threads(2)
        ran.clear()


@pytest.mark.parametrize("dtype", ["bool", "float16", "float32", "complex128"])
@pytest.mark.parametrize("shape", [(5000, 7), (9001,), (3,), (), (0, 4)], ids=str)
def test_threads_write_zeros(compiled: Any, two_threads: None, shape: tuple[int, ...], dtype: str) -> None:
    used = [np.ones(shape, dtype) for _ in range(3)]  # memory that the next arrays get
    del used
    for _ in range(3):
        found = compiled.allocate_zeros(shape, dtype)
        assert (found.shape, found.dtype) == (shape, np.dtype(dtype))
        assert not found.any()
        found[...] = 1


@pytest.mark.parametrize("wrong", [50, -51, 1 << 40, -(1 << 62)])
@pytest.mark.parametrize("dim", [0, 1])
def test_indices_out_of_bounds_are_errors_and_write_nothing(compiled: Any, wrong: int, dim: int) -> None:
    x, index, row = np.ones((50, 50)), indices((50, 50), 50), indices((50,), 50)
    index[20, 30] = row[30] = wrong
    message = f"index {wrong} is out of bounds for dimension {dim} with size 50"
    for call in (
        lambda: compiled.gather_along(x, dim, index),
        lambda: compiled.scatter_along(x, dim, index, x),
        lambda: compiled.added_along(x.copy(), dim, index, x),
        lambda: compiled.taken_along(x, dim, row),
        lambda: compiled.index(x, (None,) * dim + (row,)),
        lambda: compiled.index_into(x, x, (None,) * dim + (row,), True),
    ):
        with pytest.raises((OutOfBoundsError, IndexError), match=message):
            call()
    assert (x == 1).all()
    index[20, 30] = -1  # which only indexing by tuples takes for the last one
    for call in (lambda: compiled.gather_along(x, dim, index), lambda: compiled.scatter_along(x, dim, index, x)):
        with pytest.raises(OutOfBoundsError, match="index -1 is out of bounds"):
            call()


# -- order --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [name for name in EVERY if name not in ("bfloat16", "complex64", "complex128")])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", ["plain", "ties", "special"])
def test_order(compiled: Any, ran: Ran, shape: tuple[int, ...], dtype: str, kind: str) -> None:
    """Stable, with NaN at the end, and zeros of both signs equal."""
    x = draw(shape, "float64", kind=kind).astype(dtype_of(dtype))
    for dim in range(x.ndim):
        for descending in (False, True):
            agree(compiled.argsort_along(x, dim, descending), SLOW.argsort_along(x, dim, descending))
            agree(compiled.sort_along(x, dim, descending), SLOW.sort_along(x, dim, descending))
    sorted_by = {name for name, _ in ran} - {"gather_along"}
    assert bool(sorted_by) == (dtype != "uint64")


def test_order_of_large_integers(compiled: Any) -> None:
    x = np.random.default_rng(0).integers(-(1 << 63), (1 << 63) - 1, 20_000)
    x[::7], x[::11] = np.iinfo("i8").min, np.iinfo("i8").max
    agree(compiled.sort_along(x, 0), SLOW.sort_along(x, 0))
    agree(compiled.sort_along(x, 0, True), SLOW.sort_along(x, 0, True))
