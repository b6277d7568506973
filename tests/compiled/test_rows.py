"""Kernels of rows and of channels give what the portable ones give, within the bounds of docs/compiled-kernels.md."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore import get_num_threads, set_num_threads
from gradcore.backends.base import Backend
from gradcore.backends.compiled import narrow, rows
from gradcore.backends.numpy.backend import NumpyBackend
from gradcore.core.dtypes import float32, float64
from tests.backends.test_numpy_rows import Portable, agree, draw

SLOW = Portable(np, np.ndarray)
NUMPY = NumpyBackend()
DTYPES = ["float32", "float64"]
#: Of the largest number of a result.
TOLERANCE = {"float32": 1e-5, "float64": 1e-13}
SHAPES = [(7, 5), (1, 5000), (30, 40), (700, 3), (5, 3000), (2, 20, 129), (9, 1)]
CHANNELS = [(4, 6, 9, 9), (3, 4, 20), (2, 8, 3, 4, 5), (7, 2, 3, 1), (1, 4, 65)]


@pytest.fixture(autouse=True)
def _threaded(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """On two threads, and with small arrays and short rows taken for large ones."""
    monkeypatch.setattr(rows, "_LARGE", 1)
    for name in ("_LEAST", "_LEAST_LOGSUMEXP"):
        monkeypatch.setattr(narrow, name, 1 << 40)  # other kernels would take short rows
    monkeypatch.setattr(rows, "_WORTH_A_THREAD", 512)
    before = get_num_threads()
    set_num_threads(2)
    yield
    set_num_threads(before)


@pytest.fixture
def ran(compiled: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that collects the names of the kernels that run."""
    names: list[str] = []
    find = rows.CompiledRows._function

    def noting(self: Any, name: str, *rest: Any) -> Any:
        names.append(name)
        return find(self, name, *rest)

    monkeypatch.setattr(rows.CompiledRows, "_function", noting)
    return names


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [1, 30, 1000])
def test_softmax(compiled: Any, ran: list[str], shape: tuple[int, ...], dtype: str, scale: float) -> None:
    x, t = draw(shape, dtype) * np.dtype(dtype).type(scale), draw(shape, dtype, 1)
    for name, back in (("softmax_along", "softmax_product"), ("log_softmax_along", "log_softmax_transposed")):
        y = getattr(SLOW, name)(x, x.ndim - 1)
        agree(getattr(compiled, name)(x, -1), y, TOLERANCE[dtype])
        agree(getattr(compiled, back)(t, y, x.ndim - 1), getattr(SLOW, back)(t, y, x.ndim - 1), TOLERANCE[dtype])
    assert ran == ["softmax", "softmax_backward", "log_softmax", "log_softmax_backward"]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("width", [3, 50])
def test_softmax_of_special_numbers(compiled: Any, value: float, width: int) -> None:
    x = draw((40, width), "float32")
    x[::2, width // 2], x[1], x[3, :2] = value, value, np.inf
    for name in ("softmax_along", "log_softmax_along"):
        agree(getattr(compiled, name)(x, 1), getattr(SLOW, name)(x, 1), 1e-5)
    target = np.arange(40) % width
    _, *losses_and_totals = compiled.cross_entropy_rows(x, target)
    _, *expected = NUMPY.cross_entropy_rows(x, target)
    agree(losses_and_totals, expected, 1e-5)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [1, 30, 1000])
def test_logsumexp(compiled: Any, ran: list[str], shape: tuple[int, ...], dtype: str, scale: float) -> None:
    x = draw(shape, dtype) * np.dtype(dtype).type(scale)
    last = x.ndim - 1
    exact = np.logaddexp.reduce(x.astype(np.longdouble), last)
    for keepdim in (False, True):
        found = compiled.logsumexp_over(x, (last,), keepdim)
        assert found.dtype == x.dtype
        agree(found, (exact[..., None] if keepdim else exact).astype(dtype), TOLERANCE[dtype])
    is_shared = shape[0] == 1 and x.size >= 1024  # by threads that compute its parts
    assert ran.count("logsumexp") == 2 * (not is_shared)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [3, 50, 3000])
def test_logsumexp_of_special_numbers(compiled: Any, ran: list[str], dtype: str, width: int) -> None:
    infinity, special = np.inf, [np.nan, np.inf, -np.inf, np.finfo(dtype).max, np.finfo(dtype).min]
    rows = [draw((1, width), dtype)[0] for _ in range(len(special) ** 2 + 3)]
    for row, (a, b) in zip(rows, itertools.product(special, special), strict=False):
        row[width // 2], row[-1] = a, b
    rows[-3][:], rows[-2][:], rows[-1][:] = -infinity, infinity, np.nan
    x = np.array(rows)
    with np.errstate(all="ignore"):
        expected = SLOW.logsumexp_over(x, (1,), False)
    np.testing.assert_allclose(compiled.logsumexp_over(x, (1,), False), expected, TOLERANCE[dtype])
    assert ran == ["logsumexp"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("weighted", [False, True])
def test_cross_entropy(compiled: Any, ran: list[str], dtype: str, reduction: str, weighted: bool) -> None:
    x, target = draw((300, 20), dtype, 3) * 5, np.random.default_rng(4).integers(0, 20, 300)
    weight = np.abs(draw((20,), dtype, 5)) if weighted else None
    found = compiled.softmax_nll(x, target, weight, reduction, -100)
    expected = SLOW.softmax_nll(x, target, weight, reduction, -100)
    agree(found[:2], expected[:2], TOLERANCE[dtype])
    grad = draw(found[0].shape, dtype, 6)
    rest = None, None, target, weight, *expected[1:], reduction, -100
    agree(compiled.softmax_nll_backward(grad, *rest), SLOW.softmax_nll_backward(grad, *rest), TOLERANCE[dtype])
    of_rows = [name for name in ran if name != "find_outside"]  # the check of the targets
    assert of_rows == ["cross_entropy_rows"] + ["cross_entropy_rows_backward"] * (not weighted)


@pytest.mark.parametrize("width", [1, 2, 10, 17, 300])
@pytest.mark.parametrize("target_dtype", ["int64", "uint8"])
def test_cross_entropy_of_rows_of_any_width(compiled: Any, width: int, target_dtype: str) -> None:
    x = draw((33, width), "float32", 1) * 20
    target = (np.arange(66) * 7 % min(width, 256)).astype(target_dtype)[::2]
    for a, b in zip(
        compiled.cross_entropy_rows(x, target), NUMPY.cross_entropy_rows(x.astype("float64"), target), strict=True
    ):
        assert a.dtype == x.dtype
        agree(a.astype("float64"), b, TOLERANCE["float32"])


@pytest.mark.parametrize("classes", [-1, 20, 2**40])
def test_targets_that_changed_after_the_forward_pass_are_refused(compiled: Any, classes: int) -> None:
    x, target = gc.tensor(draw((30, 20), "float32"), requires_grad=True), np.zeros(30, "int64")
    loss = gc.nn.functional.cross_entropy(x, gc.from_numpy(target))
    target[7] = classes  # no version counts this
    with pytest.raises(IndexError):
        loss.backward()


def test_cross_entropy_is_precise_where_it_is_small(compiled: Any) -> None:
    x = np.zeros((1000, 50), "float32")
    x[:, 7] = np.linspace(5, 20, 1000)
    losses = compiled.softmax_nll(x, np.full(1000, 7), None, "none", -100)[0]
    exact = np.log1p(49 * np.exp(-x[:, 7].astype("float64")))
    assert np.abs(losses - exact).max() < 8 * 2**-24


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_cumulative_sums(compiled: Any, ran: list[str], shape: tuple[int, ...], reverse: bool, dtype: str) -> None:
    x = draw(shape, dtype)
    found = compiled.cumsum_along(x, x.ndim - 1, reverse)
    step = -1 if reverse else 1
    exact = np.cumsum(x[..., ::step].astype(np.longdouble), x.ndim - 1)[..., ::step]
    agree(found, exact.astype(dtype), TOLERANCE[dtype])  # NumPy's own are less exact
    assert ran == ["cumulative_sum"]


def test_cumulative_sums_of_another_dtype(compiled: Any, ran: list[str]) -> None:
    x = draw((20, 30), "float32")
    agree(compiled.cumsum_along(x, 1, False, float64), np.cumsum(x, 1, "f8"))
    assert not ran
    agree(compiled.cumsum_along(x, 1, False, float32), np.cumsum(x, 1), 1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("ndims", [1, 2])
@pytest.mark.parametrize("needs", list(itertools.product([True, False], repeat=3)), ids=str)
@pytest.mark.parametrize("affine", [True, False])
def test_layer_norm(
    compiled: Any, ran: list[str], dtype: str, ndims: int, needs: tuple[bool, ...], affine: bool
) -> None:
    x, grad = draw((30, 6, 50), dtype) + 3, draw((30, 6, 50), dtype, 1)
    weight, bias = (draw(x.shape[3 - ndims :], dtype, seed) if affine else None for seed in (2, 3))
    found = compiled.native_layer_norm(x, weight, bias, ndims, 1e-5)
    expected = SLOW.native_layer_norm(x, weight, bias, ndims, 1e-5)
    agree(found, expected, TOLERANCE[dtype])
    rest = None, None, x, weight, *expected[1:], 1e-5, needs, ndims
    agree(compiled.layer_norm_backward(grad, *rest), SLOW.layer_norm_backward(grad, *rest), TOLERANCE[dtype])
    assert set(ran) == {"layer_norm", "layer_norm_backward"}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", CHANNELS, ids=str)
@pytest.mark.parametrize("needs", list(itertools.product([True, False], repeat=3)), ids=str)
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("kind", ["batch", "group"])
def test_normalization_of_channels(
    compiled: Any, ran: list[str], dtype: str, shape: tuple[int, ...], needs: tuple[bool, ...], affine: bool, kind: str
) -> None:
    x, grad = draw(shape, dtype) + 3, draw(shape, dtype, 1)
    weight, bias = (draw(shape[1:2], dtype, seed) if affine else None for seed in (2, 3))
    groups = () if kind == "batch" else (2,)

    def both(backend: Backend) -> tuple[Any, Any]:
        forward = getattr(backend, f"native_{kind}_norm")(x, weight, bias, *groups, 1e-5)
        back = getattr(backend, f"{kind}_norm_backward")
        return forward, back(grad, None, None, x, weight, *forward[1:], 1e-5, needs, *groups)

    for found, expected in zip(both(compiled), both(SLOW), strict=True):
        agree(found, expected, TOLERANCE[dtype] * 4)
    name = "batch_norm_images" if kind == "batch" else "group_norm"
    assert {name, f"{name}_backward"} == set(ran)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (300, 64), (17, 65), (40, 200)], ids=str)
@pytest.mark.parametrize("needs", [(True, True, True), (False, True, False), (True, False, True)], ids=str)
@pytest.mark.parametrize("affine", [True, False])
def test_batch_norm_of_columns(
    compiled: Any, ran: list[str], dtype: str, shape: tuple[int, int], needs: tuple[bool, ...], affine: bool
) -> None:
    x, grad = draw(shape, dtype) + 3, draw(shape[::-1], dtype, 1).T
    weight, bias = (draw(shape[1:2], dtype, seed) if affine else None for seed in (2, 3))
    forward = compiled.native_batch_norm(x, weight, bias, 1e-2)
    agree(forward, SLOW.native_batch_norm(x, weight, bias, 1e-2), TOLERANCE[dtype] * 4)
    rest = None, None, x, weight, *forward[1:], 1e-2, needs
    agree(compiled.batch_norm_backward(grad, *rest), SLOW.batch_norm_backward(grad, *rest), TOLERANCE[dtype] * 4)
    assert ran == ["batch_norm_columns", "batch_norm_columns_backward"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [32, 33, 127])
@pytest.mark.parametrize("scale", [1, 1000])
def test_softmax_of_queries_without_keys(compiled: Any, ran: list[str], dtype: str, width: int, scale: int) -> None:
    x = draw((2, 3, 50, width), dtype) * np.dtype(dtype).type(scale)
    x[:, :, ::7], x[0, 0, 3, 5:], x[1, 2, 4, 0] = -np.inf, -np.inf, np.inf
    x[0, 1, 1, -1], x[0, 1, 7, 0], x[1, 1, 14] = np.nan, np.nan, np.nan
    expected = SLOW._softmax_in_place(x.copy())
    found = compiled._softmax_in_place(x)
    agree(found, expected, TOLERANCE[dtype])
    assert (found[0, 0, ::7] == 0).all()
    assert np.isnan(found[0, 1, [1, 7]]).all()
    assert ran == ["softmax_or_zero"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("affine", [True, False])
def test_normalization_with_given_statistics(compiled: Any, ran: list[str], dtype: str, affine: bool) -> None:
    x, mean, var = draw((4, 6, 9, 9), dtype), draw((6,), dtype, 1), np.abs(draw((6,), dtype, 2)) + 1
    weight, bias = (draw((6,), dtype, seed) if affine else None for seed in (3, 4))
    found, expected = (b.batch_norm_given(x, mean, var, weight, bias, 1e-5) for b in (compiled, SLOW))
    agree(found, expected, TOLERANCE[dtype])
    assert ran == ["plane_line"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(7, 33), (3, 5, 2), (40, 1), (1000,)])
def test_squared_distances_of_rows(compiled: Any, dtype: str, shape: tuple[int, ...]) -> None:
    x = draw(shape, dtype)
    arguments = x, x.mean(-1, keepdims=True), (len(shape) - 1,)
    assert compiled._squared_distances_of_rows(*arguments) is not None
    found, expected = (b.squared_distances_over(*arguments) for b in (compiled, SLOW))
    agree(found, expected, TOLERANCE[dtype])


@pytest.mark.parametrize(
    "change", [lambda x: x[::2, :, ::-1], lambda x: x.transpose(1, 0, 2)], ids=["part", "permuted"]
)
def test_any_layout(compiled: Any, change: Any) -> None:
    x, t = change(draw((30, 8, 50), "float32")), change(draw((30, 8, 50), "float32", 1))
    agree(compiled.softmax_along(x, 2), SLOW.softmax_along(x, 2), 1e-5)
    agree(compiled.softmax_product(t, x, 2), SLOW.softmax_product(t, x, 2), 1e-5)
    found, expected = (b.native_layer_norm(x, None, None, 1, 1e-5) for b in (compiled, SLOW))
    agree(found, expected, 1e-5)
    rest = None, None, x, None, *expected[1:], 1e-5, (True, True, True), 1
    agree(compiled.layer_norm_backward(t, *rest), SLOW.layer_norm_backward(t, *rest), 1e-5)


@pytest.mark.parametrize("dtype", ["float16", "complex64", "int64"])
def test_other_dtypes_are_left_to_numpy(compiled: Any, ran: list[str], dtype: str) -> None:
    x = (draw((30, 40), "float32") * 5).astype(dtype)
    np.testing.assert_array_equal(compiled.cumsum_along(x, 1), SLOW.cumsum_along(x, 1))
    assert not ran


@pytest.mark.parametrize("shape", [(0, 5), (5, 0)], ids=str)
def test_empty(compiled: Any, ran: list[str], shape: tuple[int, ...]) -> None:
    x = np.empty(shape, "f4")
    assert compiled.log_softmax_along(np.empty((0, 5), "f4"), 1).shape == (0, 5)
    assert compiled.cumsum_along(x, 1).shape == shape
    assert not ran


def test_other_dims_are_left_to_numpy(compiled: Any, ran: list[str]) -> None:
    x = draw((30, 40), "float32")
    agree(compiled.cumsum_along(x, 0), SLOW.cumsum_along(x, 0), 1e-5)
    assert not ran


@pytest.mark.parametrize("layout", ["unaligned", "transposed", "strided", "repeated"])
@pytest.mark.parametrize("shape", [(3, 5), (30, 40)], ids=str)
def test_other_layouts_are_copied(compiled: Any, ran: list[str], layout: str, shape: tuple[int, int]) -> None:
    x = draw(shape, "float32")
    views = {
        "unaligned": np.frombuffer(b"\0" + x.tobytes(), "f4", x.size, 1).reshape(shape),
        "transposed": draw(shape[::-1], "float32").T,
        "strided": draw((shape[0], 2 * shape[1]), "float32")[:, ::-2],
        "repeated": np.broadcast_to(x[:1], shape),
    }
    x = views[layout]
    agree(compiled.softmax_along(x, 1), SLOW.softmax_along(x, 1), 1e-5)
    found, expected = (b.native_layer_norm(x, x[0], None, 1, 1e-5) for b in (compiled, SLOW))
    agree(found, expected, 1e-4)
    assert ran == ["softmax", "layer_norm"]


@pytest.mark.parametrize(("name", "width"), [("softmax", 600), ("log_softmax", 200), ("layer_norm", 50)])
def test_many_short_rows_are_left_to_numpy(
    compiled: Any, ran: list[str], monkeypatch: pytest.MonkeyPatch, name: str, width: int
) -> None:
    monkeypatch.undo()
    for n, size, expected in ((10, 40_000, []), (10, 4_000, [name]), (width, 40_000, [name])):
        x = gc.ones(size // n, n, device="compiled")
        with pytest.MonkeyPatch.context() as patch:
            found: list[str] = []
            find = rows.CompiledRows._function
            patch.setattr(
                rows.CompiledRows, "_function", lambda *call, f=find, to=found: to.append(call[1]) or f(*call)
            )
            gc.nn.functional.layer_norm(x, (n,)) if name == "layer_norm" else getattr(x, name)(1)
        assert found == expected


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reverse", [False, True])
def test_recurrences(compiled: Any, ran: list[str], shape: tuple[int, ...], dtype: str, reverse: bool) -> None:
    factor, term = np.tanh(draw(shape, dtype)), draw(shape, dtype, 1)
    factor[..., 0 if not reverse else -1] = np.inf  # which is not read
    found, expected = compiled.scan_along(factor, term, len(shape) - 1, reverse), np.zeros(shape)
    value = np.zeros(shape[:-1])
    for k in range(shape[-1]):
        i = shape[-1] - 1 - k if reverse else k
        value = expected[..., i] = (factor[..., i].astype("f8") * value if k else 0) + term[..., i]
    agree(found, expected.astype(dtype), TOLERANCE[dtype])
    assert ran == ["scan"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(1, 5), (7, 3), (300, 40)], ids=str)
def test_unaligned_arguments(compiled: Any, shape: tuple[int, int], dtype: str) -> None:
    """Kernels read copies of arrays whose elements are not aligned, as parts of buffers and files may be."""
    rng = np.random.default_rng(0)
    x, grad = (rng.standard_normal(shape).astype(dtype) for _ in range(2))
    weight, bias = (rng.standard_normal(shape[1]).astype(dtype) for _ in range(2))
    classes = rng.integers(0, shape[1], shape[0])
    powers, _, total = compiled.cross_entropy_rows(x, classes)
    mean, var = compiled.native_batch_norm(x, None, None, 1e-5)[1:]
    norm = grad, None, None, x, weight, mean, var, 1e-5, (True, True, True), 0
    calls: list[tuple[str, tuple[Any, ...]]] = [
        ("cross_entropy_rows", (x, classes)),
        ("cross_entropy_rows_backward", (grad[:, 0].copy(), classes, powers, total[:, None])),
        ("native_batch_norm", (x, weight, bias, 1e-5)),
        ("batch_norm_backward", norm),
        ("softmax", (x, 1)),
        ("sort_along", (x, 1)),
    ]
    for name, arguments in calls:
        apart = [_without_alignment(a) if isinstance(a, np.ndarray) else a for a in arguments]
        found, expected = (getattr(compiled, name)(*each) for each in (apart, arguments))
        for a, b in zip(_as_tuple(found), _as_tuple(expected), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6, err_msg=name)


def _without_alignment(x: Any) -> Any:
    result = np.frombuffer(bytearray(b"\0" + x.tobytes()), x.dtype, x.size, 1).reshape(x.shape)
    assert not result.flags.aligned
    return result


def _as_tuple(x: Any) -> tuple[Any, ...]:
    return x if isinstance(x, tuple) else (x,)
