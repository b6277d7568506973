"""Kernels over windows against plain loops, on NumPy and on arrays with CuPy's manners."""

import itertools
import random
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest

from gradcore.backends.portable import sliding
from gradcore.backends.portable.separable import Taps, fold, spread
from tests.backends.portable_kernels import portable


def _on_numpy():
    def frozen(array):
        array = np.array(array)
        array.flags.writeable = False  # kernels never write to their arguments
        return array

    return SimpleNamespace(xp=np, put=frozen, get=np.asarray)


def _on_strict():
    from tests.strict.device import StrictArray, StrictNamespace

    def frozen(array):
        array = np.array(array)
        array.flags.writeable = False
        return StrictArray(array, 0)

    return SimpleNamespace(xp=StrictNamespace("", np), put=frozen, get=lambda array: array._a)


@pytest.fixture(params=[_on_numpy, _on_strict], ids=["numpy", "strict"])
def on(request):
    """Return an array module `xp`, with `put` to make (read-only) arrays of it and `get` to convert them back."""
    return request.param()


def _pairs(sizes, kernel, outputs, stride, padding, dilation):
    """Output position, tap and input position of everything inside the input."""
    for t in np.ndindex(*outputs):
        for k in np.ndindex(*kernel):
            place = tuple(a * s + b * d - p for a, b, s, d, p in zip(t, k, stride, dilation, padding, strict=True))
            if all(0 <= h < size for h, size in zip(place, sizes, strict=True)):
                yield t, k, place


# -- convolution --------------------------------------------------------------------------------------------


def _naive_convolution(x, w, grad, stride, padding, dilation, groups):
    """Compute the output and both gradients by loops."""
    out, dx, dw = np.zeros_like(grad), np.zeros_like(x), np.zeros_like(w)
    per_group = w.shape[0] // groups
    for t, k, h in _pairs(x.shape[2:], w.shape[2:], grad.shape[2:], stride, padding, dilation):
        for o in range(w.shape[0]):
            channels = slice(o // per_group * w.shape[1], (o // per_group + 1) * w.shape[1])
            source, weight = (slice(None), channels, *h), (o, slice(None), *k)
            g = grad[(slice(None), o, *t)]
            out[(slice(None), o, *t)] += x[source] @ w[weight]
            dx[source] += g[:, None] * w[weight]
            dw[weight] += g @ x[source]
    return out, dx, dw


def _convolution_case(seed):
    draw = random.Random(seed)
    dims = draw.choice([1, 2, 2, 3])
    groups, channels, outputs = draw.choice([(1, 1, 2), (1, 9, 1), (2, 2, 3), (3, 1, 1), (1, 3, 4)])
    kernel, stride, padding, dilation = (
        tuple(draw.randint(*bounds) for _ in range(dims)) for bounds in [(1, 3), (1, 3), (0, 2), (1, 3)]
    )
    least = [max(1, d * (k - 1) + 1 - 2 * p) for k, p, d in zip(kernel, padding, dilation, strict=True)]
    sizes = [n + draw.randint(0, 6 if dims < 3 else 3) for n in least]
    rng = np.random.default_rng(seed)
    dtype = draw.choice([np.float64, np.float64, np.complex128])
    x, w = (
        (rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if dtype == np.complex128 else 0)).astype(dtype)
        for shape in [(draw.randint(1, 3), groups * channels, *sizes), (groups * outputs, channels, *kernel)]
    )
    spatial = tuple(map(sliding.conv_output_size, sizes, kernel, stride, padding, dilation))
    grad = rng.standard_normal((x.shape[0], w.shape[0], *spatial)).astype(dtype)
    return x, w, grad, (stride, padding, dilation, groups)


def _check_convolution(on, x, w, grad, settings):
    out, dx, dw = _naive_convolution(x, w, grad, *settings)
    a, b, g = on.put(x), on.put(w), on.put(grad)
    np.testing.assert_allclose(on.get(portable(on.xp).conv(a, b, *settings)), out, atol=1e-12)
    result = portable(on.xp).conv_input(g, b, x.shape[2:], *settings)
    np.testing.assert_allclose(on.get(result), dx, atol=1e-12)
    result = portable(on.xp).conv_weight(a, g, w.shape[2:], *settings)
    np.testing.assert_allclose(on.get(result), dw, atol=1e-12)


@pytest.mark.parametrize("seed", range(40))
def test_convolution(on, seed):
    _check_convolution(on, *_convolution_case(seed))


@pytest.mark.parametrize("seed", range(40, 55))
def test_convolution_in_small_blocks(on, seed, monkeypatch):
    monkeypatch.setattr(sliding, "_COLUMNS", 7)
    monkeypatch.setattr(sliding, "_LEAST", 0)
    monkeypatch.setattr(sliding, "_GPU_BLOCK", 2000)
    _check_convolution(on, *_convolution_case(seed))


@pytest.mark.slow
def test_rows_that_would_collide_in_the_cache(on):
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 1, 16, 18)), rng.standard_normal((70, 1, 3, 3))
    grad = rng.standard_normal((2, 70, 16, 16))
    _check_convolution(on, x, w, grad, ((1, 1), (1, 0), (1, 1), 1))


def test_convolution_of_views(on):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((9, 7, 2, 3)).transpose(3, 2, 0, 1)
    w = rng.standard_normal((3, 3, 4, 2))[::-1, ::-1].transpose(2, 3, 0, 1)
    grad = np.broadcast_to(rng.standard_normal((3, 1, 1, 1)), (3, 4, 7, 5))
    settings = (1, 1), (0, 0), (1, 1), 1
    out, dx, dw = _naive_convolution(x, w, np.array(grad), *settings)
    np.testing.assert_allclose(portable(np).conv(x, w, *settings), out, atol=1e-12)
    np.testing.assert_allclose(portable(np).conv_input(grad, w, (9, 7), *settings), dx, atol=1e-12)
    np.testing.assert_allclose(portable(np).conv_weight(x, grad, (3, 3), *settings), dw, atol=1e-12)


@pytest.mark.parametrize(
    ("batch", "channels", "outputs", "size"), [(0, 2, 3, 5), (2, 2, 0, 5), (2, 0, 3, 5), (2, 2, 3, 2)]
)
def test_convolution_of_nothing(on, batch, channels, outputs, size):
    settings = (1,), (0,), (1,), 1
    x, w = np.ones((batch, channels, size)), np.ones((outputs, channels, 3))
    grad = np.ones((batch, outputs, size - 2))
    _check_convolution(on, x, w, grad, settings)


def test_infinite_inputs_stay_in_their_windows(on):
    """Rows are read in one run; what lies between them must not reach a result."""
    x, w = np.ones((1, 1, 4, 6)), np.ones((2, 1, 1, 3))
    x[0, 0, 1, 0] = np.inf  # only ever under the first tap
    grad = np.ones((1, 2, 4, 4))
    settings = (1, 1), (0, 0), (1, 1), 1
    with np.errstate(invalid="ignore"):
        out = on.get(portable(on.xp).conv(on.put(x), on.put(w), *settings))
        dw = on.get(portable(on.xp).conv_weight(on.put(x), on.put(grad), (1, 3), *settings))
    np.testing.assert_array_equal(np.isinf(out[0, 0]), np.arange(16).reshape(4, 4) == 4)
    np.testing.assert_array_equal(dw[0, 0, 0], [np.inf, 16, 16])


def test_infinite_inputs_in_many_blocks(on):
    x, grad = np.ones((200, 1, 4, 6)), np.ones((200, 2, 4, 4))
    x[150, 0, 1, 0] = np.inf
    with np.errstate(invalid="ignore"):
        dw = portable(on.xp).conv_weight(on.put(x), on.put(grad), (1, 3), (1, 1), (0, 0), (1, 1), 1)
    np.testing.assert_array_equal(on.get(dw)[1, 0, 0], [np.inf, 3200, 3200])


def test_memory_of_a_convolution_is_bounded():
    x, w = np.ones((1, 16, 256, 256), np.float32), np.ones((16, 16, 3, 3), np.float32)
    tracemalloc.start()
    try:
        portable(np).conv(x, w, (1, 1), (1, 1), (1, 1), 1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * x.nbytes  # all columns at once would be 9 times the input


def test_output_sizes():
    assert sliding.conv_output_size(32, 3, 2, 1, 1) == 16
    assert sliding.conv_output_size(7, 3, 1, 0, 3) == 1
    assert sliding.pool_output_size(6, 3, 2, 0, ceil_mode=False) == 2
    assert sliding.pool_output_size(6, 3, 2, 0, ceil_mode=True) == 3
    # The last window would start in the padding behind the input.
    assert sliding.pool_output_size(3, 2, 2, 1, ceil_mode=True) == 2
    assert sliding.pool_output_size(4, 1, 3, 0, 1, ceil_mode=True) == 2


# -- pooling ------------------------------------------------------------------------------------------------


def _naive_max(values):
    """Value and index of `(index, value)` pairs: the first of equal maxima, the last NaN."""
    best, where = -np.inf, values[0][0]
    for index, value in values:
        if value > best or np.isnan(value):
            best, where = value, index
    return best, where


def _naive_pool(x, windows, outputs, function):
    """Apply `function` to the `(flat index, value)` pairs of every window."""
    results = {}
    for n, c in np.ndindex(*x.shape[:2]):
        for t in np.ndindex(*outputs):
            places = itertools.product(*(window[i] for window, i in zip(windows, t, strict=True)))
            pairs = [(int(np.ravel_multi_index(p, x.shape[2:])), x[(n, c, *p)]) for p in places]
            results[n, c, *t] = function(pairs)
    return results


def _pooling_case(seed):
    draw, rng = random.Random(seed), np.random.default_rng(seed)
    dims = draw.choice([1, 2, 2, 3])
    kernel, stride, dilation = (
        tuple(draw.randint(*bounds) for _ in range(dims)) for bounds in [(1, 4), (1, 4), (1, 2)]
    )
    padding = tuple(draw.randint(0, k // 2) for k in kernel)
    # Large enough for every window to have an input.
    sizes = tuple(d * (k - 1) + 1 + draw.randint(0, 5) for k, d in zip(kernel, dilation, strict=True))
    x = rng.standard_normal((2, 2, *sizes))
    kind = draw.choice(["distinct", "ties", "nan", "inf"])
    if kind == "ties":
        x = np.round(x)
    elif kind != "distinct":
        x[rng.random(x.shape) < 0.6] = np.nan if kind == "nan" else -np.inf
    return x, kernel, stride, padding, dilation, draw.random() < 0.5


def _windows(sizes, kernel, stride, padding, dilation, ceil_mode):
    """Return the inputs of each window along each dim."""
    return [
        [
            [h for h in range(t * s - p, t * s - p + d * (k - 1) + 1, d) if 0 <= h < size]
            for t in range(sliding.pool_output_size(size, k, s, p, d, ceil_mode))
        ]
        for size, k, s, p, d in zip(sizes, kernel, stride, padding, dilation, strict=True)
    ]


def _parts(sizes, outputs):
    return [
        [list(range(i * size // out, -(-(i + 1) * size // out))) for i in range(out)]
        for size, out in zip(sizes, outputs, strict=True)
    ]


def _check_maximum(on, x, windows, values, indices):
    outputs = tuple(map(len, windows))
    expected = _naive_pool(x, windows, outputs, _naive_max)
    assert values.shape == indices.shape == (*x.shape[:2], *outputs)
    assert on.get(indices).dtype == np.int64
    for place, (value, index) in expected.items():
        np.testing.assert_array_equal(on.get(values)[place], value)
        assert on.get(indices)[place] == index, place


@pytest.mark.parametrize("seed", range(40))
def test_max_pool(on, seed):
    x, *settings = _pooling_case(seed)
    values, indices = portable(on.xp).max_pool(on.put(x), *settings)
    _check_maximum(on, x, _windows(x.shape[2:], *settings), values, indices)


@pytest.mark.parametrize("seed", range(20))
def test_adaptive_pooling(on, seed):
    x = _pooling_case(seed)[0]
    draw = random.Random(seed)
    size = [draw.choice([1, n, draw.randint(1, 2 * n)]) for n in x.shape[2:]]
    values, indices = portable(on.xp).adaptive_max_pool(on.put(x), size)
    windows = _parts(x.shape[2:], size)
    _check_maximum(on, x, windows, values, indices)
    x = np.random.default_rng(seed).standard_normal(x.shape)
    means = on.get(portable(on.xp).adaptive_avg_pool(on.put(x), size))
    for place, mean in _naive_pool(x, windows, size, lambda pairs: np.mean([v for _, v in pairs])).items():
        np.testing.assert_allclose(means[place], mean, atol=1e-12)
    grad = np.random.default_rng(seed).standard_normal(means.shape)
    back = on.get(portable(on.xp).adaptive_avg_pool_spread(on.put(grad), x.shape[2:]))
    np.testing.assert_allclose((means * grad).sum(), (x * back).sum(), atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int32, np.uint8])
def test_max_pool_keeps_the_dtype(on, dtype):
    x = np.arange(24).reshape(1, 1, 4, 6).astype(dtype)
    values, indices = portable(on.xp).max_pool(on.put(x), (3, 3), (2, 2), (1, 1), (1, 1), False)
    assert values.dtype == dtype
    np.testing.assert_array_equal(on.get(values)[0, 0], [[7, 9, 11], [19, 21, 23]])
    np.testing.assert_array_equal(on.get(indices)[0, 0], [[7, 9, 11], [19, 21, 23]])


def test_windows_with_nothing_but_padding(on):
    values, indices = portable(on.xp).max_pool(on.put(np.ones((1, 1, 2))), (2,), (1,), (1,), (3,), False)
    np.testing.assert_array_equal(on.get(values), [[[-np.inf]]])
    assert 0 <= on.get(indices) < 2


def test_gradient_of_a_maximum(on):
    x, grad = np.array([[[1.0, 3.0, 2.0, 0.0]]]), np.array([[[1.0, 10.0, 100.0]]])
    _, indices = portable(on.xp).max_pool(on.put(x), (2,), (1,), (0,), (1,), False)
    back = portable(on.xp).max_pool_spread(on.put(grad), indices, (4,))
    np.testing.assert_array_equal(on.get(back), [[[0, 11, 100, 0]]])
    planes = np.arange(12.0).reshape(1, 3, 4)
    taken = portable(on.xp).max_pool_gather(on.put(planes), on.put([[[1, 3], [0, 0], [2, 1]]]), 1)
    np.testing.assert_array_equal(on.get(taken), [[[1, 3], [4, 4], [10, 9]]])


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize(("count_include_pad", "divisor"), [(True, None), (False, None), (True, 5)])
def test_avg_pool(on, seed, count_include_pad, divisor):
    x, kernel, stride, padding, _, ceil_mode = _pooling_case(seed)
    x = np.random.default_rng(seed).standard_normal(x.shape)
    ones = (1,) * len(kernel)
    windows = _windows(x.shape[2:], kernel, stride, padding, ones, ceil_mode)
    settings = (kernel, stride, padding, ceil_mode, count_include_pad, divisor)
    result = on.get(portable(on.xp).avg_pool(on.put(x), *settings))
    sums = _naive_pool(x, windows, result.shape[2:], lambda pairs: (sum(v for _, v in pairs), len(pairs)))
    for place, (total, inside) in sums.items():
        count = inside
        if divisor is not None:
            count = divisor
        elif count_include_pad:  # the padding counts, what ceil_mode adds behind it does not
            ends = zip(place[2:], x.shape[2:], kernel, stride, padding, strict=True)
            count = np.prod([min(t * s - p + k, size + p) - (t * s - p) for t, size, k, s, p in ends])
        np.testing.assert_allclose(result[place], total / count, atol=1e-12)
    grad = np.random.default_rng(seed + 1).standard_normal(result.shape)
    back = on.get(portable(on.xp).avg_pool_spread(on.put(grad), x.shape[2:], *settings))
    np.testing.assert_allclose((result * grad).sum(), (x * back).sum(), atol=1e-9)


def test_one_window_over_everything_is_one_reduction():
    assert Taps.of_windows(7, 7, 7, 0, 1, 1).total
    assert not Taps.of_windows(7, 6, 1, 0, 1, 1).total
    assert not Taps.of_windows(7, 4, 3, 0, 1, 2).total


def test_an_infinity_stays_in_its_window(on):
    x = np.ones((1, 1, 7))
    x[..., 3] = np.inf
    result = on.get(portable(on.xp).adaptive_avg_pool(on.put(x), (4,)))
    np.testing.assert_array_equal(result, [[[1, np.inf, np.inf, 1]]])


# -- sparse maps and resampling -----------------------------------------------------------------------------


def _matrix(taps):
    """Return the map as a dense matrix with one column for each input."""
    return fold(np, np.add, np.eye(taps.inputs), 0, taps)


@pytest.mark.parametrize("seed", range(20))
def test_folds_and_spreads_are_adjoint_along_every_dim(on, seed):
    draw, rng = random.Random(seed), np.random.default_rng(seed)
    size, outputs, count = draw.randint(1, 7), draw.randint(1, 7), draw.randint(1, 4)
    indices = rng.integers(-1, size, (outputs, count))
    weights = draw.choice([None, rng.standard_normal((outputs, count))])
    dense = np.zeros((outputs, size))
    for (t, k), index in np.ndenumerate(indices):
        if index >= 0:
            dense[t, index] += 1 if weights is None else weights[t, k]
    taps = Taps.of_table(size, indices, weights)
    np.testing.assert_allclose(_matrix(taps), dense, atol=1e-15)
    for dim in range(3):
        x, y = (rng.standard_normal([n if i == dim else 2 for i in range(3)]) for n in (size, outputs))
        expected = np.moveaxis(np.tensordot(dense, x, (1, dim)), 0, dim)
        np.testing.assert_allclose(on.get(fold(on.xp, on.xp.add, on.put(x), dim, taps)), expected, atol=1e-12)
        expected = np.moveaxis(np.tensordot(dense.T, y, (1, dim)), 0, dim)
        np.testing.assert_allclose(on.get(spread(on.xp, on.put(y), dim, taps)), expected, atol=1e-12)


def _resized(x, out, mode, *, scale=None, align_corners=False, antialias=False):
    """Resize a 1-D array; modes for images get a dimension of one row."""
    x = np.asarray(x, np.float64)
    if mode in ("bilinear", "bicubic", "lanczos"):
        size, scales, shape = (1, out), (None, scale), (1, 1, 1, -1)
    else:
        size, scales, shape = (out,), (scale,), (1, 1, -1)
    return portable(np).resample(x.reshape(shape), size, scales, mode, align_corners, antialias).reshape(-1)


def test_nearest():
    np.testing.assert_array_equal(_resized([1, 2, 3], 6, "nearest"), [1, 1, 2, 2, 3, 3])
    np.testing.assert_array_equal(_resized([1, 2, 3, 4, 5], 3, "nearest"), [1, 2, 4])
    np.testing.assert_array_equal(_resized([1, 2, 3, 4, 5], 3, "nearest-exact"), [1, 3, 5])


def test_linear():
    x = [0.0, 4.0, 8.0]
    np.testing.assert_allclose(_resized(x, 6, "linear"), [0, 1, 3, 5, 7, 8])
    np.testing.assert_allclose(_resized(x, 5, "linear", align_corners=True), [0, 2, 4, 6, 8])
    np.testing.assert_allclose(_resized(x, 1, "linear", align_corners=True), [0])
    # The scale factor itself, not the ratio of the sizes, gives the positions.
    np.testing.assert_allclose(_resized(x, 4, "linear", scale=1.5), [0, 2, 14 / 3, 22 / 3])


def test_cubic_weights():
    """At half-way points the weights of cubic convolution with parameter -0.75."""
    x = np.zeros(9)
    x[4] = 1
    result = _resized(x, 17, "bicubic", align_corners=True)
    np.testing.assert_allclose(result[4:13], [0, -0.09375, 0, 0.59375, 1, 0.59375, 0, -0.09375, 0], atol=1e-12)


def test_antialias_widens_the_filter():
    np.testing.assert_allclose(_resized(np.eye(6)[2], 3, "bilinear", antialias=True), [1 / 7, 3 / 8, 0], atol=1e-12)
    # Cubic convolution with parameter -0.5, not -0.75: twice as wide, half as high.
    expected = [0, 0, -0.01171875, 0.11328125, 0.43359375, -0.03515625, 0, 0]
    np.testing.assert_allclose(_resized(np.eye(16)[8], 8, "bicubic", antialias=True), expected, atol=1e-12)
    # Where the result is larger there is nothing to widen.
    x = np.random.default_rng(0).standard_normal(5)
    plain = _resized(x, 11, "bilinear")
    np.testing.assert_allclose(_resized(x, 11, "bilinear", antialias=True), plain, atol=1e-12)


MODES = [
    *(("nearest", False, False), ("nearest-exact", False, False)),
    *((mode, align, False) for mode in ("bilinear", "bicubic") for align in (False, True)),
    *((mode, False, True) for mode in ("bilinear", "bicubic", "lanczos")),
]


@pytest.mark.parametrize(("mode", "align_corners", "antialias"), MODES)
@pytest.mark.parametrize("size", [(1, 1), (3, 11), (8, 5), (10, 14)])
def test_resampling_keeps_constants_and_has_an_adjoint(on, mode, align_corners, antialias, size):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 3, 5, 7)), rng.standard_normal((2, 3, *size))
    settings = ((None, None), mode, align_corners, antialias)
    ones = portable(on.xp).resample(on.put(np.ones_like(x)), size, *settings)
    np.testing.assert_allclose(on.get(ones), np.ones(y.shape), atol=1e-12)
    forward = on.get(portable(on.xp).resample(on.put(x), size, *settings))
    back = on.get(portable(on.xp).resample_backward(on.put(y), x.shape[2:], *settings))
    np.testing.assert_allclose((forward * y).sum(), (x * back).sum(), atol=1e-10)
    single = portable(on.xp).resample(on.put(x.astype(np.float32)), size, *settings)
    assert single.dtype == np.float32
    np.testing.assert_allclose(on.get(single), forward, atol=1e-5)


def test_volumes_and_signals(on):
    x = np.arange(8.0).reshape(1, 1, 2, 2, 2)
    result = portable(on.xp).resample(on.put(x), (3, 3, 3), (None,) * 3, "trilinear", True)
    np.testing.assert_allclose(on.get(result)[0, 0, 1, 1, 1], 3.5)
    np.testing.assert_allclose(on.get(result)[0, 0, 0], [[0, 0.5, 1], [1, 1.5, 2], [2, 2.5, 3]])
