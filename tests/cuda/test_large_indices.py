"""Kernels on arrays of more than 2**31 or 2**32 elements, whose last block runs: indices and offsets have 64 bits.

The arrays are memory that is promised: a page that nobody writes to takes no room, and a block touches few. Kernels
whose indices are cut to 31 or 32 bits show that the tests would notice.
"""

from __future__ import annotations

import math
import mmap
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import gradcore as gc
from gradcore.backends.codegen.emit_cuda import CudaTracer, emit
from gradcore.backends.codegen.schedule import Input
from gradcore.backends.codegen.trace import trace
from gradcore.backends.cupy import windows
from gradcore.backends.cupy.backend import CupyBackend
from gradcore.backends.portable.attention import Block, Heads
from gradcore.backends.random import philox
from tests.cuda.host import CUDA, HostLibrary, HostModule, needs_compiler
from tests.strict.device import StrictArray

pytestmark = pytest.mark.slow

BEYOND = 1 << 31
both = pytest.mark.parametrize("beyond", [BEYOND, BEYOND << 1], ids=["2**31", "2**32"])
#: Elements that all threads of the largest grid of `elements` go over in one round.
ROUND = (1 << 16) * 256


@pytest.fixture
def backend(strict: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    needs_compiler()
    monkeypatch.setenv("GRADCORE_TEST_BLOCKS", "1")
    backend = gc.zeros(1, device=strict).device.backend
    for name in ("empty", "zeros"):  # the first one, too, where no block writes
        monkeypatch.setattr(backend.xp, name, promised, raising=False)
    return backend


#: Memory of this process alone, pages of which are neither taken nor set aside before they are written to.
PROMISE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | (0x4000 if sys.platform == "linux" else 0)


def promised(shape: Any, dtype: Any = float, last: Any = ()) -> Any:
    """Zeros that end with these numbers."""
    shape, item = shape if isinstance(shape, tuple) else (shape,), np.dtype(dtype).itemsize
    size = math.prod(shape)
    a = np.frombuffer(mmap.mmap(-1, max(size * item, 1), PROMISE), dtype, size).reshape(shape)
    a.reshape(-1)[a.size - len(last) :] = last
    return StrictArray(a, 0)


def numbers(count: int, dtype: str = "float16", seed: int = 0) -> Any:
    return np.random.default_rng(seed).uniform(-2, 2, count).astype(dtype)


def peaked(count: int, dtype: str = "float16", seed: int = 0) -> Any:
    """Numbers of which the last ones have most of the softmax."""
    values = numbers(count, dtype, seed)
    values[-3:] = 11, 13, 12
    return values


def close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=2e-3, atol=2e-3)


def softmax(x: Any) -> Any:
    powers = np.exp(x.astype(np.float64) - x.max())
    return powers / powers.sum()


@both
@pytest.mark.parametrize("dims", [0, 2])
def test_large_generated_kernels(backend: Any, beyond: int, dims: int) -> None:
    """Dense operands by one index; a transposed one by the steps of two dims."""
    dtype = np.dtype("int8")
    operands = [(name, Input(dtype)) for name in "xy"]
    traced = trace("large", lambda F, x, y: [x * y + x], operands, CudaTracer(type(backend).bodies), [dtype])
    rows, columns = 3, (beyond + ROUND) // 3 + 1
    size = rows * columns if dims else beyond + ROUND
    x = promised((size,), "int8", numbers(64, "int8") + 3)
    out = StrictArray(np.empty(size, "int8"), 0)
    steps = [np.int64(n) for n in (rows, 1, columns, 1, columns)] if dims else []  # element (i, j) of x lies at i + j n
    kernel = HostLibrary([emit(traced, dims)])[traced.name]
    blocks = min(-(-size // 256), 1 << 16)
    kernel((blocks,), (256,), (np.int64(size), x, x, out, *steps))
    last = (size - 1) // ROUND * ROUND + (blocks - 1) * 256  # of the last block's numbers, where they begin
    begin = last - ROUND if last + 256 > size else last
    places = np.arange(begin, begin + 256)
    assert places[-1] > beyond - ROUND
    values = x._a[places // rows + places % rows * columns] if dims else x._a[places]
    np.testing.assert_array_equal(out._a[places], values * values + values)


@both
def test_large_softmax_of_rows(backend: Any, beyond: int) -> None:
    n, values = 1 << 15, peaked(1 << 15)
    y = backend.softmax_along(promised((beyond // n + 3, n), "float16", values), 1)._a
    close(y[-1], softmax(values))


@both
def test_large_softmax_of_columns(backend: Any, beyond: int) -> None:
    inner = beyond // 2 + ROUND
    x = promised((1, 2, inner), "float16", [])
    x._a[0, :, -1] = 1, 2
    close(backend.softmax_along(x, 1)._a[0, :, -1], softmax(np.array([1.0, 2.0])))


@both
def test_large_layer_norm(backend: Any, beyond: int) -> None:
    n, values = 1 << 15, numbers(1 << 15)
    y = backend.native_layer_norm(promised((beyond // n + 3, n), "float16", values), None, None, 1, 1e-5)[0]._a
    wide = values.astype(np.float64)
    close(y[-1], (wide - wide.mean()) / np.sqrt(wide.var() + 1e-5))


def test_large_layer_norm_backward(backend: Any) -> None:
    """The gradient by the last row, and those of the weights: sums of the last rows, the others are zeros."""
    n, (grads, values) = 1 << 15, (numbers(1 << 15, seed=seed) for seed in range(2))
    rows = BEYOND // n + 3
    grad, x = promised((rows, n), "float16", grads), promised((rows, n), "float16", values)
    wide, g = values.astype(np.float64), grads.astype(np.float64)
    mean, var = np.zeros((rows, 1), "float16"), np.ones((rows, 1), "float16")
    mean[-1], var[-1] = wide.mean(), wide.var()
    statistics = StrictArray(mean, 0), StrictArray(var, 0)
    weight = StrictArray(np.ones(n, "float16"), 0)
    arguments = grad, None, None, x, weight, *statistics, 1e-5, (True, True, True), 1
    to_x, to_weight, to_bias = (each._a for each in backend.layer_norm_backward(*arguments))
    c = (wide - wide.mean()) / np.sqrt(wide.var() + 1e-5)
    close(to_x[-1], (g - g.mean() - c * (g * c).mean()) / np.sqrt(wide.var() + 1e-5))
    close(to_weight[-64:], (g * c)[-64:])  # a block has so many columns
    close(to_bias[-64:], g[-64:])


@both
def test_large_rms_norm(backend: Any, beyond: int) -> None:
    n, (grads, values) = 1 << 15, (numbers(1 << 15, seed=seed) for seed in range(2))
    x = promised((beyond // n + 3, n), "float16", values)
    y, scale = backend.fused_rms_norm(x, None, 1, 1e-5)
    wide, g = values.astype(np.float64), grads.astype(np.float64)
    r = 1 / np.sqrt((wide * wide).mean() + 1e-5)
    close(y._a[-1], wide * r)
    grad, weight = promised(x.shape, "float16", grads), StrictArray(np.ones(n, "float16"), 0)
    to_x, to_weight = backend.rms_norm_backward(grad, None, x, weight, scale, 1, (True, True))
    close(to_x._a[-1], g * r - wide * (r**3) * (g * wide).mean())
    close(to_weight._a[-64:], (g * wide * r)[-64:])


@both
def test_large_group_norm(backend: Any, beyond: int) -> None:
    n, values = 1 << 15, numbers(1 << 15)
    x = promised((1, 2 * (beyond // n + 2), n // 2), "float16", values)
    channels = x.shape[1]
    weight, bias = promised((channels,), "float16", [2, 3]), promised((channels,), "float16", [4, 5])
    y, mean, var = (each._a for each in backend.native_group_norm(x, weight, bias, channels // 2, 1e-5))
    wide = values.astype(np.float64)
    c = ((wide - wide.mean()) / np.sqrt(wide.var() + 1e-5)).reshape(2, -1)
    close(y[0, -2:], c * [[2], [3]] + [[4], [5]])
    close(np.array([mean[0, -1], var[0, -1]]), [wide.mean(), wide.var()])


def test_large_batch_norm(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two images, the second of which lies beyond: moments of the last channel, and sums for its gradients."""
    monkeypatch.setattr(backend, "_scale_channels", lambda x, *rest: x, raising=False)  # a formula of elements
    points = 1 << 14
    shape = 2, BEYOND // points // 2 + 3, points
    x, grad = promised(shape, "float16", numbers(points)), promised(shape, "float16", numbers(points, seed=1))
    x._a[0, -1], grad._a[0, -1] = numbers(points, seed=2), numbers(points, seed=3)
    _, mean, var = backend.native_batch_norm(x, None, None, 1e-5)
    wide, g = (a._a[:, -1].astype(np.float64) for a in (x, grad))
    close(np.array([mean._a[-1], var._a[-1]]), [wide.mean(), wide.var()])
    mean, var = (StrictArray(a._a.astype("float16"), 0) for a in (mean, var))  # the kernel reads one dtype
    total, product = backend._channel_sums(grad, x, mean, var, 0, 1e-5)
    np.testing.assert_allclose(total._a[-1], g.sum(), rtol=1e-2)
    np.testing.assert_allclose(product._a[-1], (g * (wide - float(mean._a[-1]))).sum(), rtol=1e-2)


def test_large_cross_entropy(backend: Any) -> None:
    n, values = 1 << 15, peaked(1 << 15)
    shape = (BEYOND + ROUND) // n, n
    target = promised((shape[0],), "int64", [n - 2])
    found = backend.softmax_nll(promised(shape, "float16", values), target, None, "none", -100)
    losses, _, powers, total = found
    share = softmax(values)
    close(losses._a[-1], -np.log(share[-2]))
    close(powers._a[-1] / total._a[-1].astype(np.float64), share)
    grad = promised((shape[0],), "float16", [2])
    total._a[total._a == 0] = 1  # of the rows of other blocks
    settings = target, None, None, powers, total, "none", -100
    result = backend.softmax_nll_backward(grad, None, None, *settings)._a
    wanted = 2 * share
    wanted[-2] -= 2
    close(result[-1, -256:], wanted[-256:])


def test_large_cross_entropy_of_images(backend: Any) -> None:
    """Classes lie a plane of points apart."""
    points = BEYOND // 2 + ROUND
    x = promised((1, 2, points), "float16", [])
    x._a[0, :, -1] = 1, 2
    losses, _, powers, total = backend.softmax_nll(x, promised((1, points), "uint8", [1]), None, "none", -100)
    share = softmax(np.array([1.0, 2.0]))
    close(losses._a[0, -1], -np.log(share[1]))
    close(powers._a[0, :, -1] / total._a[0, 0, -1].astype(np.float64), share)


@both
def test_large_negative_log_likelihood(backend: Any, beyond: int) -> None:
    """Classes lie a plane of points apart, and the last point is beyond."""
    points = beyond // 2 + ROUND
    x, target = promised((1, 2, points), "float16", [3]), promised((1, points), "uint8", [1])
    loss, total_weight = backend.nll(x, target, None, "none", -100)
    assert loss._a[0, -1] == -3
    grad = promised((1, points), "float16", [2])
    assert backend.nll_backward(grad, x.shape, target, None, total_weight, "none", -100)._a[0, 1, -1] == -2


WINDOWS = (2, 2), (1, 1), (0, 0), (2, 2)  # kernel, dilation, padding, stride


@both
def test_large_windows_as_columns(backend: Any, beyond: int) -> None:
    height, width = 1 << 16, (beyond + ROUND) >> 16
    x = promised((1, 1, height, width), "float16", numbers(2 * width))
    columns = backend.im2col(x, *WINDOWS)._a
    np.testing.assert_array_equal(columns[0, -1, -256:], x._a[0, 0, -1, 1::2][-256:])


@both
def test_large_columns_as_windows(backend: Any, beyond: int) -> None:
    height, width = 1 << 16, (beyond + ROUND) >> 16
    columns = promised((1, 4, height * width // 4), "float16", numbers(128))
    columns._a[0, 2, -128:] = numbers(128, seed=1)
    image = backend.col2im(columns, (height, width), *WINDOWS)._a
    np.testing.assert_array_equal(image[0, 0, -1, -256:], columns._a[0, 2:, -128:].T.reshape(-1))


@both
@pytest.mark.parametrize("kind", ["max_pool", "avg_pool"])
def test_large_pooling(backend: Any, beyond: int, kind: str) -> None:
    x = promised((1, 1, 1 << 16, (beyond >> 16) + (1 << 10)), "float16", numbers(2))
    settings = (2, 2), (2, 2), (0, 0)
    window = x._a[0, 0, -2:, -2:].astype(np.float64)
    if kind == "avg_pool":
        found = backend.avg_pool(x, *settings, False, True, None)
        close(found._a[0, 0, -1, -1], window.mean())
        return
    found, indices = backend.max_pool(x, *settings, (1, 1), False)
    close(found._a[0, 0, -1, -1], window.max())
    assert indices._a[0, 0, -1, -1] > beyond


@both
@pytest.mark.parametrize("kind", ["max_pool", "avg_pool"])
def test_large_pooling_backward(backend: Any, beyond: int, kind: str) -> None:
    """The gradients by the last pixels, of which each belongs to one window."""
    size = 1 << 16, (beyond + ROUND) >> 16
    grad = promised((1, 1, size[0] // 2, size[1] // 2), "float16", numbers(128))
    wanted = np.zeros((128, 2))
    if kind == "avg_pool":
        found = backend.avg_pool_spread(grad, size, (2, 2), (2, 2), (0, 0), False, True, None)
        wanted += grad._a[0, 0, -1, -128:].astype(np.float64)[:, None] / 4
    else:
        last = size[0] * size[1] - 1 - 2 * np.arange(128)[::-1]
        indices = promised(grad.shape, "int64", last)
        found = backend.max_pool_spread(grad, indices, size, (2, 2, 2, 2, 0, 0, 1, 1))
        wanted[:, 1] = grad._a[0, 0, -1, -128:]
    close(found._a[0, 0, -1, -256:], wanted.reshape(-1))


@both
@pytest.mark.parametrize("kind", ["adaptive_max_pool", "adaptive_avg_pool"])
def test_large_adaptive_pooling(backend: Any, beyond: int, kind: str) -> None:
    size = 1 << 16, (beyond >> 16) + (1 << 10)
    x = promised((1, 1, *size), "float16", numbers(2))
    found = getattr(backend, kind)(x, (size[0] // 2, size[1] // 2))
    window = x._a[0, 0, -2:, -2:].astype(np.float64)
    if kind == "adaptive_avg_pool":
        close(found._a[0, 0, -1, -1], window.mean())
        spread = backend.adaptive_avg_pool_spread(found, size)._a
        close(spread[0, 0, -1, -2:], [window.mean() / 4] * 2)
        return
    close(found[0]._a[0, 0, -1, -1], window.max())
    assert found[1]._a[0, 0, -1, -1] > beyond


@pytest.mark.parametrize("name", ["attention_weights", "attention_gradients"])
@pytest.mark.parametrize("large", ["scores", "mask"])
def test_large_attention(backend: Any, name: str, large: str) -> None:
    """The last query of a block of many scores, or of a part of a mask of many numbers."""
    keys, values = 1 << 15, peaked(1 << 15, "float32")
    queries = BEYOND // keys + 3 if large == "mask" else 4
    rows = 2 if large == "mask" else BEYOND // keys + 3
    mask = promised((1, queries, keys), "float32", numbers(keys, "float32", seed=1)) if large == "mask" else None
    query = np.broadcast_to(np.zeros((), "float32"), (1, queries if large == "mask" else rows, 1))
    of = Heads(StrictArray(query, 0), None, None, mask, None, (1,))
    first = query.shape[1] - rows
    block = Block(slice(0, 1), slice(first, first + rows), slice(keys))
    scores = promised((1, rows, keys), "float32", values)
    added = values.astype(np.float64) + (0 if mask is None else mask._a[0, -1])
    share, logs = softmax(added), np.log(np.exp(added).sum())
    found = StrictArray(np.zeros((1, query.shape[1], 1), "float32"), 0)
    if name == "attention_weights":
        backend._rows(name, of, block, False, (scores,), (scores, found))
        close(scores._a[0, -1], share)
        close(found._a[0, -1, 0], logs)
        return
    found._a[0, -1] = logs
    of_weights = promised(scores.shape, "float32", numbers(keys, "float32", seed=2))
    t = of_weights._a[0, -1].astype(np.float64)
    backend._rows(name, of, block, False, (scores, of_weights), (found, scores, of_weights))
    close(scores._a[0, -1], share)
    close(of_weights._a[0, -1], share * (t - (t * share).sum()))


@both
@pytest.mark.parametrize("reduce", ["sum", "prod", "amax", "amin"])
def test_large_reductions_by_index(backend: Any, beyond: int, reduce: str) -> None:
    height, width = 1 << 10, (beyond + ROUND) >> 10
    rows, out = (promised((height, width), "float16", numbers(256, seed=seed)) for seed in range(2))
    values, before = rows._a[-1, -256:].astype(np.float64), out._a[-1, -256:].astype(np.float64)
    function = {"sum": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum}[reduce]
    found = backend._reduce_rows(reduce, out, StrictArray(np.arange(height), 0), rows)
    close(found._a[-1, -256:], function(before, values))


@both
@pytest.mark.parametrize("call", ["unscale", "clip"])
def test_large_lists(backend: Any, beyond: int, call: str) -> None:
    x = promised((beyond + 100,), "float16", numbers(50))
    before = x._a[-50:].astype(np.float64)
    with np.errstate(all="ignore"):
        if call == "unscale":
            found = StrictArray(np.zeros((), "float32"), 0)
            backend.unscale_list([x], StrictArray(np.full((), 0.5, "float32"), 0), found)
            close(x._a[-50:], before * 0.5)
        else:
            backend.clamp_list([x], 1.0)
            close(x._a[-50:], before.clip(-1, 1))


@both
def test_large_products(backend: Any, beyond: int) -> None:
    backend.capture.on = True
    try:
        # NumPy would multiply columns by rows, of which all elements would be computed.
        a, b = promised((1 << 16, 2), "int8", [3]), promised((2, (beyond >> 16) + 64), "int8", [5, 7])
        found = backend.mm(a, b)._a
    finally:
        backend.capture.on = False
    assert found.size > beyond
    np.testing.assert_array_equal(found[-1, -2:], [15, 21])


@both
@pytest.mark.parametrize(("dtype", "of_block"), [("float16", 8), ("float32", 8), ("float64", 4)])
def test_large_random_decisions(backend: Any, beyond: int, dtype: str, of_block: int) -> None:
    """Those of dropout: the last ones are those that the generator has so far along its stream."""
    size, key, kind = beyond + 8 * ROUND, 3, np.dtype(dtype)
    words = philox.WordStream(4, key, size // of_block - 1)  # a block has four words, each for one or two numbers
    found = CupyBackend._decisions(backend, size, kind, key, 0, 0.5)._a
    np.testing.assert_array_equal(found[-of_block:], philox.bernoulli(np, words, kind, 0.5)[:of_block])


@both
@pytest.mark.parametrize("dtype", ["float16", "float64"])
@pytest.mark.parametrize("distribution", [philox.uniform, philox.normal, philox.exponential], ids=lambda d: d.__name__)
def test_large_distributions(backend: Any, beyond: int, distribution: Any, dtype: str) -> None:
    size, kind = beyond + ROUND, np.dtype(dtype)
    of_block = 8 if dtype == "float16" else 4
    words = philox.WordStream(4, 3, size // of_block - 1)
    found = CupyBackend.random_numbers(backend, distribution, size, kind, 3, 0)._a
    np.testing.assert_array_equal(found[-of_block:].view(kind), distribution(np, words, kind)[:of_block])


@both
def test_large_random_words(backend: Any, beyond: int) -> None:
    size = beyond + ROUND
    found = CupyBackend.random_words(backend, size, 3, 0)._a
    np.testing.assert_array_equal(found[-4:], philox.words(4, 3, size // 4 - 1))


# -- that too few bits would be noticed -------------------------------------------------------------------------------


class Cut(NamedTuple):
    """A source in which an index has too few bits, and what is to notice."""

    test: Callable[..., None]
    file: str
    #: The function, and what it has once, with the index between two signs @.
    function: str
    line: str
    settings: dict[str, Any] | None = None

    def source(self, bits: int) -> str:
        before, function, after = (CUDA / f"{self.file}.cu").read_text().partition(f" {self.function}(")
        assert self.line.replace("@", "") in after
        _, index, _ = parts = self.line.split("@")
        cut = f"(({index}) & {(1 << bits) - 1}ll)"
        return before + function + after.replace("".join(parts), cut.join(parts[::2]), 1)


PRODUCTS, UNIFORM = {"reduce": "prod"}, {"distribution": philox.uniform, "dtype": "float64"}
CUTS = {
    "im2col, elements": Cut(test_large_windows_as_columns, "windows", "im2col", "Index rest = @i@;"),
    "im2col, reads": Cut(
        test_large_windows_as_columns, "windows", "im2col", "x[@((plane * a.size + i0) * b.size + i1) * c.size + i2@]"
    ),
    "im2col, writes": Cut(test_large_windows_as_columns, "windows", "im2col", "out[@i@]"),
    "col2im, columns": Cut(test_large_columns_as_windows, "windows", "col2im", "i2 = @i@ % c.size"),
    "col2im, rows": Cut(test_large_columns_as_windows, "windows", "col2im", "i1 = @i@ / c.size"),
    "col2im, reads": Cut(
        test_large_columns_as_windows, "windows", "col2im",
        "columns[@tap * windows + (o0 * b.outputs + o1) * c.outputs + o2@]",
    ),
    "col2im, writes": Cut(test_large_columns_as_windows, "windows", "col2im", "out[@i@]"),
    "by index, rows": Cut(test_large_reductions_by_index, "segments", "reduce", "first = @i@ / width", PRODUCTS),
    "by index, columns": Cut(test_large_reductions_by_index, "segments", "reduce", "column = @i@ % width", PRODUCTS),
    "by index, starts": Cut(
        test_large_reductions_by_index, "segments", "reduce", "(load(out[@index * width + column@]), total)", PRODUCTS
    ),
    "by index, reads": Cut(
        test_large_reductions_by_index, "segments", "reduce", "rows[@order[first] * width + column@]", PRODUCTS
    ),
    "by index, writes": Cut(
        test_large_reductions_by_index, "segments", "reduce", "out[@index * width + column@] = store", PRODUCTS
    ),
    "products, writes": Cut(test_large_products, "products", "product", "out[@(batch * m + r) * n + c@]"),
    "words, sizes": Cut(test_large_random_words, "philox", "fill", "words_needed = @n@ / per_word"),
    "words, writes": Cut(test_large_random_words, "philox", "fill", "element = @(word - offset) * per_word + part@"),
    "float64, writes": Cut(
        test_large_distributions, "philox", "fill", "element = @(word - offset) * per_word + part@", UNIFORM
    ),
}  # fmt: skip


@both
@pytest.mark.parametrize("name", CUTS)
def test_indices_of_too_few_bits_are_noticed(
    backend: Any, beyond: int, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut, modules = CUTS[name], dict[Any, Any]()
    text = cut.source(beyond.bit_length() - 1)

    def module(*, code: str, options: tuple[str, ...]) -> HostModule:
        return HostModule(code=text, options=options)

    monkeypatch.setattr(backend.xp, "RawModule", module, raising=False)
    monkeypatch.setitem(backend.__dict__, "_modules", modules)
    if cut.file == "philox":
        monkeypatch.setitem(backend.__dict__, "_philox", module(code="", options=("-std=c++17",)))
    with pytest.raises(AssertionError, match="Mismatched elements"):
        cut.test(backend, beyond, **(cut.settings or {}))
    assert modules or cut.file == "philox"


def test_32_bits_suffice_for_windows_or_are_not_used() -> None:
    """Places, what is computed of places, and numbers of elements of a window."""
    small = [1, 1, 1, 1, 0, 1] * 2 + [64, 32, 3, 2, 1, 1]
    assert windows._fits(1 << 20, small)
    assert not windows._fits(1 << 30, small)
    assert not windows._fits(1 << 20, [*small[:-1], 1 << 29])
    assert not windows._fits(1 << 20, [1000, 2, 2000, 1, 500, 1] * 3)
    assert windows._fits(1 << 20, [1, 1, 1, 1, 5000, 4000])
    assert not windows._fits(1 << 20, [1, 1, 1, 1, 50_000, 40_000])
