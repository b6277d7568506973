"""The package's kernels of rows, channels, windows and segments, executed on the host in every dtype.

They are called as the CUDA backend calls them, on the strict device's arrays, and compared with the kernels of the CPU.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.backends.cupy import rows as cuda_rows
from gradcore.backends.cupy.kernels import C_NAMES, rows_of
from gradcore.backends.numpy.backend import NumpyBackend
from gradcore.backends.random import philox
from tests.cuda.host import needs_compiler
from tests.strict.device import COUNTS, StrictArray

F = gc.nn.functional
PLAIN = NumpyBackend()
DTYPES = list(C_NAMES)
TOLERANCES = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 2e-5, "float64": 1e-12}
LENGTHS = [1, 2, 31, 32, 33, 200, 256, 257, 1000, 5000]


@pytest.fixture(autouse=True)
def _compiler() -> None:
    needs_compiler()


@pytest.fixture
def backend(strict: str) -> Any:
    return gc.zeros(1, device=strict).device.backend


def drawn(dtype: str, *shape: int, seed: int = 0) -> Any:
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    return np.random.default_rng(seed).uniform(-2, 2, shape).astype(getattr(gc, dtype).numpy)


def compare(backend: Any, name: str, arrays: tuple[Any, ...], *settings: Any) -> None:
    """Compare a kernel of the CUDA backend with the CPU's in double precision."""
    there = [None if a is None else backend.from_host(a) for a in arrays]
    wide = [a if a is None or a.dtype.kind in "iu" else a.astype(np.float64) for a in arrays]
    with np.errstate(all="ignore"):
        found = getattr(backend, name)(*there, *settings)
        expected = getattr(PLAIN, name)(*wide, *settings)
    for one, other in zip(*(r if isinstance(r, tuple) else (r,) for r in (found, expected)), strict=True):
        if other is None:
            assert one is None
            continue
        dtype = next(a.dtype for a in arrays if a is not None and a.dtype.kind not in "iu")
        assert one.dtype in (dtype, np.int64, np.dtype("float32" if dtype.itemsize == 2 else dtype))  # statistics
        assert one.shape == other.shape
        tolerance = TOLERANCES[dtype.name]
        scale = max(1.0, float(np.nanmax(np.abs(np.where(np.isfinite(other), other, 0)), initial=0)))
        np.testing.assert_allclose(one._a.astype(np.float64), other, rtol=tolerance, atol=tolerance * scale)


# -- rows ------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["softmax_along", "log_softmax_along"])
def test_softmax_of_rows_of_any_length(backend: Any, name: str, dtype: str) -> None:
    for n in LENGTHS:
        compare(backend, name, (drawn(dtype, 3, n),), 1)
    for n in (1, 3, 40):
        compare(backend, name, (drawn(dtype, 2, n, 5),), 1)
        compare(backend, name, (drawn(dtype, n, 7),), 0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["softmax_product", "log_softmax_transposed"])
def test_softmax_backward(backend: Any, name: str, dtype: str) -> None:
    forward = "softmax_along" if name == "softmax_product" else "log_softmax_along"
    for shape, dim in (((9, 5), 1), ((3, 300), 1), ((2, 6, 4), 1), ((2, 3, 4), -3)):
        y = getattr(PLAIN, forward)(drawn(dtype, *shape).astype(np.float32), dim).astype(getattr(gc, dtype).numpy)
        compare(backend, name, (drawn(dtype, *shape, seed=1), y), dim)


@pytest.mark.parametrize("shape", [(2, 4), (2, 400), (4, 2)])
def test_softmax_of_infinities(backend: Any, shape: tuple[int, ...]) -> None:
    x = drawn("float32", *shape)
    x[0, 1], x[1, 0] = -np.inf, 1e30
    for dim in (0, 1):
        compare(backend, "softmax_along", (x,), dim)
    x[0] = -np.inf
    with np.errstate(invalid="ignore"):
        assert np.isnan(backend.softmax_along(backend.from_host(x), 1)._a[0]).all()
        assert not np.isnan(backend.softmax_along(backend.from_host(x), 1)._a[1]).any()
    x[0, 0] = np.nan
    assert np.isnan(backend.log_softmax_along(backend.from_host(x), 1)._a[0]).all()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("affine", [True, False])
def test_layer_norm(backend: Any, dtype: str, affine: bool) -> None:
    for shape, ndims in (((5, 7), 1), ((3, 300), 1), ((2, 3, 4, 5), 2), ((100, 3), 1), ((1, 1), 1)):
        last = shape[-ndims:]
        x, weight, bias = drawn(dtype, *shape), drawn(dtype, *last, seed=1), drawn(dtype, *last, seed=2)
        parameters = (weight, bias) if affine else (None, None)
        compare(backend, "native_layer_norm", (x, *parameters), ndims, 0.1)
        wide = PLAIN.native_layer_norm(x.astype(np.float64), None, None, ndims, 0.1)
        mean, var = (a.astype(x.dtype) for a in wide[1:])
        for extra in ((None, None), (drawn(dtype, *mean.shape), drawn(dtype, *mean.shape, seed=5))):
            arrays = (drawn(dtype, *shape, seed=3), *extra, x, parameters[0], mean, var)
            for needs in ((True, affine, affine), (False, affine, affine), (True, False, False)):
                compare(backend, "layer_norm_backward", arrays, 0.1, needs, ndims)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("affine", [True, False])
def test_rms_norm(backend: Any, dtype: str, affine: bool) -> None:
    for shape, ndims in (((5, 7), 1), ((3, 300), 1), ((2, 3, 4, 5), 2), ((100, 3), 1), ((1, 1), 1), ((6,), 1)):
        last = shape[len(shape) - ndims :]
        x, weight = drawn(dtype, *shape), drawn(dtype, *last, seed=1) if affine else None
        compare(backend, "fused_rms_norm", (x, weight), ndims, 0.1)
        scale = PLAIN.fused_rms_norm(x.astype(np.float64), None, ndims, 0.1)[1].astype(x.dtype)
        for extra in (None, drawn(dtype, *scale.shape, seed=4)):
            arrays = (drawn(dtype, *shape, seed=3), extra, x, weight, scale)
            for needs in ((True, affine), (False, affine), (True, False)):
                compare(backend, "rms_norm_backward", arrays, ndims, needs)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", DTYPES)
def test_biases(backend: Any, dtype: str) -> None:
    for shape in ((1, 1), (3, 5), (33, 70), (2, 40, 33), (1024, 2), (1025, 2)):
        x, bias = drawn(dtype, *shape), drawn(dtype, 4, seed=1)
        compare(backend, "sum_rows", (x,))
        compare(backend, "sum_rows", (x.swapaxes(0, -1),))
        compare(backend, "linear", (x, drawn(dtype, 4, shape[-1], seed=2), bias))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("affine", [True, False])
def test_group_norm(backend: Any, dtype: str, affine: bool) -> None:
    for shape, groups in (((2, 6, 5), 3), ((3, 4), 2), ((2, 4, 9, 10), 1), ((1, 2, 3), 2)):
        x, weight, bias = drawn(dtype, *shape), drawn(dtype, shape[1], seed=1), drawn(dtype, shape[1], seed=2)
        parameters = (weight, bias) if affine else (None, None)
        compare(backend, "native_group_norm", (x, *parameters), groups, 0.1)
        wide = PLAIN.native_group_norm(x.astype(np.float64), None, None, groups, 0.1)
        mean, var = (a.astype(x.dtype) for a in wide[1:])
        for extra in ((None, None), (drawn(dtype, *mean.shape), drawn(dtype, *mean.shape, seed=5))):
            arrays = (drawn(dtype, *shape, seed=3), *extra, x, parameters[0], mean, var)
            compare(backend, "group_norm_backward", arrays, 0.1, (True, affine, affine), groups)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("affine", [True, False])
def test_batch_norm(backend: Any, dtype: str, affine: bool) -> None:
    for shape in ((5, 3), (4, 3, 6), (2, 5, 30, 20)):
        x, weight, bias = drawn(dtype, *shape), drawn(dtype, shape[1], seed=1), drawn(dtype, shape[1], seed=2)
        parameters = (weight, bias) if affine else (None, None)
        compare(backend, "native_batch_norm", (x, *parameters), 0.1)
        mean, var = (a.astype(x.dtype) for a in PLAIN.native_batch_norm(x, None, None, 0.1)[1:])
        compare(backend, "batch_norm_given", (x, mean, var, *parameters), 0.1)
        for extra in ((None, None), (drawn(dtype, shape[1]), drawn(dtype, shape[1], seed=5))):
            arrays = (drawn(dtype, *shape, seed=3), *extra, x, parameters[0], mean, var)
            compare(backend, "batch_norm_backward", arrays, 0.1, (True, affine, affine))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weighted", [True, False])
def test_cross_entropy(backend: Any, dtype: str, reduction: str, weighted: bool) -> None:
    rng = np.random.default_rng(0)
    for shape in ((6, 5), (3, 400), (2, 5, 3, 2), (5,), (1, 3)):
        classes, of_targets = shape[min(len(shape), 2) - 1], (*shape[:1], *shape[2:]) if len(shape) > 1 else ()
        x, target = drawn(dtype, *shape), rng.integers(0, classes, of_targets)
        if target.size > 1:
            target.flat[1] = 2  # ignored
        weight = drawn(dtype, classes, seed=1) ** 2 if weighted else None
        compare(backend, "softmax_nll", (x, target, weight), reduction, 2)
        with np.errstate(all="ignore"):
            loss, total_weight, powers, total = PLAIN.softmax_nll(x, target, weight, reduction, 2)
        grad = drawn(dtype, *np.shape(loss), seed=2)
        statistics = [np.asarray(a, x.dtype) for a in (total_weight, powers, total)]
        compare(backend, "softmax_nll_backward", (grad, None, None, target, weight, *statistics), reduction, 2)
    assert not COUNTS["to host"] + COUNTS["sync"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("rows_of_a_block", [1 << 14, 3])
def test_negative_log_likelihood(
    backend: Any, dtype: str, reduction: str, rows_of_a_block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compare one block, which reduces the losses itself, and several with NumPy's kernels."""
    monkeypatch.setattr(cuda_rows, "_ROWS_OF_A_BLOCK", rows_of_a_block)
    rng = np.random.default_rng(0)
    for shape, weighted in itertools.product(((6, 5), (300, 4), (2, 5, 3, 2), (5,), (1, 3)), (True, False)):
        classes, of_targets = shape[min(len(shape), 2) - 1], (*shape[:1], *shape[2:]) if len(shape) > 1 else ()
        x, target = drawn(dtype, *shape), rng.integers(0, classes, of_targets)
        if target.size > 1:
            target.flat[1] = 2  # ignored
        weight = drawn(dtype, classes, seed=1) ** 2 if weighted else None
        compare(backend, "nll", (x, target, weight), reduction, 2)
        with np.errstate(all="ignore"):
            loss, total_weight = (np.asarray(a, dtype) for a in PLAIN.nll(x, target, weight, reduction, 2))
        grad = drawn(dtype, *loss.shape, seed=2)
        there = [None if a is None else backend.from_host(a) for a in (grad, target, weight, total_weight)]
        wide = [
            a if a is None or a.dtype.kind == "i" else a.astype(float) for a in (grad, target, weight, total_weight)
        ]
        found = backend.nll_backward(there[0], shape, *there[1:], reduction, 2)._a
        with np.errstate(all="ignore"):
            wanted = PLAIN.nll_backward(wide[0], shape, *wide[1:], reduction, 2)
        assert found.dtype == dtype
        np.testing.assert_allclose(found.astype(float), wanted, rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype])
    assert not COUNTS["to host"] + COUNTS["sync"]


@pytest.mark.parametrize("loss", [F.cross_entropy, F.nll_loss])
def test_losses_find_what_is_no_class(strict: str, loss: Any) -> None:
    x = gc.full((4, 3), -1.0, device=strict)
    wanted = np.log(3) if loss is F.cross_entropy else 1.0
    assert loss(x, gc.tensor([0, 1, 2, -100]).to(strict)).item() == pytest.approx(wanted)
    loss(x, gc.tensor([0, 7, 2, -5]).to(strict))
    with pytest.raises(IndexError, match="Target 7 is out of bounds"):
        x.sum().item()


# -- windows ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_resizing(backend: Any, dtype: str) -> None:
    for shape, size, *settings in (
        ((2, 3, 5), (9,), (None,), "linear", False, False),
        ((1, 2, 6, 5), (4, 11), (None, 2.2), "bicubic", False, False),
        ((1, 2, 90, 7), (2, 3), (None, None), "bilinear", False, True),
        ((2, 1, 3, 4, 5), (5, 4, 2), (None, None, None), "nearest-exact", False, False),
    ):
        compare(backend, "resample", (drawn(dtype, *shape),), size, *settings)
        compare(backend, "resample_backward", (drawn(dtype, *shape[:2], *size),), shape[2:], *settings)


POOLS = [
    ((2, 3, 9), (3,), (2,), (1,), (1,)), ((2, 3, 7, 8), (3, 2), (2, 1), (1, 0), (1, 2)),
    ((1, 2, 5, 6, 4), (2, 3, 2), (2, 2, 1), (0, 1, 1), (1, 1, 1)), ((3, 8), (2,), (2,), (0,), (1,)),
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", POOLS, ids=str)
@pytest.mark.parametrize("ceil", [True, False])
def test_pooling(backend: Any, dtype: str, case: Any, ceil: bool) -> None:
    shape, kernel, stride, padding, dilation = case
    x = drawn(dtype, *shape)
    x.reshape(-1)[3:6] = 1  # equal maxima
    compare(backend, "max_pool", (x,), kernel, stride, padding, dilation, ceil)
    for with_padding, divisor in ((True, None), (False, None), (True, 5)):
        settings = (kernel, stride, padding, ceil, with_padding, divisor)
        compare(backend, "avg_pool", (x,), *settings)
        grad = drawn(dtype, *PLAIN.avg_pool(x.astype(np.float32), *settings).shape, seed=1)
        compare(backend, "avg_pool_spread", (grad,), shape[len(shape) - len(kernel) :], *settings)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", [*POOLS, ((2, 9, 9), (3, 3), (1, 1), (1, 1), (1, 1))], ids=str)
@pytest.mark.parametrize("ceil", [True, False])
def test_gradients_of_maxima(backend: Any, dtype: str, case: Any, ceil: bool) -> None:
    """With windows that are known, and with indices that could be anywhere."""
    shape, *windows = case
    x = drawn(dtype, *shape)
    indices = PLAIN.max_pool(x.astype(np.float64), *windows, ceil)[1]
    grad, size = drawn(dtype, *indices.shape, seed=1), shape[len(shape) - len(windows[0]) :]
    for known in ((), tuple(n for setting in windows for n in setting)):
        compare(backend, "max_pool_spread", (grad, indices), size, known)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "size"), [((2, 3, 7), (3,)), ((2, 6, 7), (3, 7)), ((1, 2, 5, 4, 6), (2, 4, 5)), ((3, 2), (5,))], ids=str
)
def test_adaptive_pooling(backend: Any, dtype: str, shape: Any, size: Any) -> None:
    x = drawn(dtype, *shape)
    x.reshape(-1)[1:3] = 1
    compare(backend, "adaptive_max_pool", (x,), size)
    compare(backend, "adaptive_avg_pool", (x,), size)
    indices = PLAIN.adaptive_max_pool(x.astype(np.float64), size)[1]
    grad, full = drawn(dtype, *indices.shape, seed=1), shape[len(shape) - len(size) :]
    compare(backend, "adaptive_avg_pool_spread", (grad,), full)
    for known in ((), size):
        compare(backend, "max_pool_spread", (grad, indices), full, known)


def test_the_maximum_of_nan_is_the_last(backend: Any) -> None:
    x = drawn("float32", 1, 1, 6)
    x[..., 1], x[..., 3] = np.nan, np.nan
    out, indices = backend.max_pool(backend.from_host(x), (6,), (6,), (0,), (1,), False)
    assert np.isnan(out._a).all()
    assert indices._a.item() == PLAIN.max_pool(x, (6,), (6,), (0,), (1,), False)[1].item() == 3


@pytest.mark.parametrize("dtype", DTYPES)
def test_columns(backend: Any, dtype: str) -> None:
    for shape, settings in (
        ((2, 3, 5, 6), ((2, 3), (1, 1), (0, 1), (1, 2))), ((3, 6, 7), ((3, 2), (2, 1), (2, 0), (1, 1))),
    ):  # fmt: skip
        x = drawn(dtype, *shape)
        compare(backend, "im2col", (x,), *settings)
        columns = drawn(dtype, *PLAIN.im2col(x, *settings).shape, seed=1)
        compare(backend, "col2im", (columns,), shape[-2:], *settings)


# -- segments --------------------------------------------------------------------------------------------------


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_of_rows_by_index(backend: Any, dtype: str) -> None:
    rng = np.random.default_rng(0)
    for height, count, width in (
        (5, 40, 3),
        (1000, 50, 1),
        (3, 1, 7),
        (4, 1000, 33),
        (6, 70, 300),
        (9, 2100, 2),
        (4, 4200, 9),
    ):
        index = rng.integers(-height, height, count)
        rows = drawn(dtype, count, width)
        found = backend.sum_into_rows(height, backend.from_host(index), backend.from_host(rows))
        expected = PLAIN.sum_into_rows(height, index, rows.astype(np.float64))
        assert found.dtype == rows.dtype
        tolerance = TOLERANCES[dtype]
        np.testing.assert_allclose(found._a.astype(np.float64), expected, rtol=tolerance, atol=20 * tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
def test_reductions_by_index(backend: Any, dtype: str) -> None:
    rng = np.random.default_rng(0)
    for reduce, (height, count) in itertools.product(("prod", "amax", "amin"), ((7, 40), (1000, 50), (1, 300))):
        places, values, start = rng.integers(0, height, count), drawn(dtype, count), drawn(dtype, height, seed=1)
        values[count // 2] = np.nan
        before = COUNTS.total()
        arrays = [backend.from_host(a.copy()) for a in (start, places, values)]
        with np.errstate(all="ignore"):
            found = backend.reduce_at(*arrays, reduce)
            expected = PLAIN.reduce_at(start.astype(np.float64), places, values.astype(np.float64), reduce)
        assert COUNTS.total() - before == 3  # the arrays
        tolerance = TOLERANCES[dtype]
        np.testing.assert_allclose(found._a.astype(np.float64), expected, rtol=tolerance, atol=tolerance)


# -- random decisions ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_random_decisions_are_those_of_the_cpu(backend: Any, dtype: str) -> None:
    kind = drawn(dtype, 1).dtype
    key, counter = 0x0123456789ABCDEF_FEDCBA9876543210, 2**192 + 2**64 - 3
    places = [(key, 0), (key, 1), *((counter - 2, i) for i in range(4))]  # of a graph, of which two blocks are used
    for n in (0, 1, 7, 1001):
        for p in (0.0, 0.3, 0.5, 1.0, 1e-9):
            found = type(backend)._decisions(backend, n, kind, key, counter, p)
            words = philox.WordStream(philox.word_count(n, kind), key, counter)
            expected = philox.bernoulli(np, words, kind, p)[:n].tobytes()
            assert found._a.tobytes() == expected
            base = StrictArray(np.array([word >> 64 * i & 2**64 - 1 for word, i in places], np.uint64), 0)
            recorded = type(backend)._decisions(backend, n, kind, base, 2, p)
            assert recorded._a.tobytes() == expected


@pytest.mark.parametrize("dtype", DTYPES)
def test_dropout_decides_as_the_cpu(backend: Any, dtype: str) -> None:
    key, counter, p = 0x0123456789ABCDEF_FEDCBA9876543210, 2**192 + 2**64 - 3, 0.7
    for n in (1, 7, 8, 1001, 4096):
        x = drawn(dtype, n + 1)
        words = philox.WordStream(philox.word_count(n, np.dtype("float32")), key, counter)
        kept = philox.bernoulli(np, words, np.dtype("float32"), p)[:n].astype(bool)
        for part in (x[:n], x[1:]):  # the latter does not begin at a multiple of 16 bytes
            found, mask = type(backend).dropout(backend, StrictArray(part, 0), p, 1 / p, key, counter)
            assert (mask._a == kept).all()
            expected = part.astype(np.float64) * kept / p
            tolerance = TOLERANCES[dtype]
            np.testing.assert_allclose(found._a.astype(np.float64), expected, rtol=tolerance, atol=tolerance)


# -- through tensors -------------------------------------------------------------------------------------------

CALLS: dict[str, Callable[..., Any]] = {
    "softmax": lambda x: F.softmax(x, 1),
    "log_softmax": lambda x: F.log_softmax(x, 0),
    "layer_norm": lambda x: F.layer_norm(x, (6,)),
    "group_norm": lambda x: F.group_norm(x, 2),
    "rms_norm": lambda x: F.rms_norm(x, (6,)),
    "rms_norm of a strided input": lambda x: F.rms_norm(x.t(), (4,), eps=0.1),
    "avg_pool": lambda x: F.avg_pool1d(x[None], 2),
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", CALLS)
def test_half_precision_is_converted_inside(strict: str, name: str, dtype: str, monkeypatch: Any) -> None:
    """The kernels get float16 and bfloat16 as they are, in forward and backward; results are those of the CPU."""
    data = drawn(dtype, 4, 6)

    def run(device: str) -> list[Any]:
        x = gc.tensor(data, device=device, requires_grad=True)
        y = CALLS[name](x)
        (slope,) = gc.autograd.grad(y, x, gc.tensor(drawn(dtype, *y.shape, seed=1), device=device))
        return [y.detach().cpu(), slope.cpu()]

    here = run("cpu")
    backend = gc.zeros(1, device=strict).device.backend
    used = []
    original = type(backend).cuda_kernel
    monkeypatch.setattr(
        type(backend), "cuda_kernel", lambda self, *a, **k: (used.append(k.get("type")), original(self, *a, **k))[1]
    )
    for a, b in zip(here, run(strict), strict=True):
        assert b.dtype is a.dtype
        tolerance = 2 * TOLERANCES[dtype]
        np.testing.assert_allclose(b.double().numpy(), a.double().numpy(), rtol=tolerance, atol=tolerance)
    assert set(used) == {dtype}
    assert len(used) >= 2


@pytest.mark.parametrize(("rows", "width"), [(1, 1), (7, 32), (9, 256), (3, 257), (2, 10**6)])
def test_blocks_for_rows(rows: int, width: int) -> None:
    grid, block = rows_of(np.empty(0, np.float32), rows, width)
    assert block[0] % 32 == 0
    assert block[0] <= 1024
    assert grid[0] * (block[1] if len(block) > 1 else 1) >= rows
    assert len(block) == 1 or block[0] == 32  # several rows in a block: one warp each
