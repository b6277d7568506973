"""Convolution in products that BLAS does not pack: against plain loops, and for the shapes it is made for."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from gradcore import get_num_threads, set_num_threads
from gradcore.backends.numpy import convolution, small_gemm_convolution
from gradcore.backends.numpy.convolution import NumpyConvolution
from gradcore.backends.portable import convolution as portable_convolution
from tests.backends.portable_kernels import portable
from tests.backends.test_windows import _convolution_case, _naive_convolution

KERNELS = NumpyConvolution()
KERNELS.xp = np


@pytest.fixture(autouse=True)
def _two_threads():
    before = get_num_threads()
    set_num_threads(2)
    yield
    set_num_threads(before)


@pytest.fixture
def used(monkeypatch):
    """Fails where the portable kernels compute."""

    def refuse(*_):
        raise AssertionError("this is for the kernels of NumPy")

    monkeypatch.setattr(portable_convolution, "correlate", refuse)
    monkeypatch.setattr(portable_convolution, "weight_gradient", refuse)


def _results(x, w, grad, settings, kernels):
    return [
        kernels.conv(x, w, *settings),
        kernels.conv_input(grad, w, x.shape[2:], *settings),
        kernels.conv_weight(x, grad, w.shape[2:], *settings),
    ]


@pytest.mark.parametrize(("block", "most", "rows"), [(1 << 19, 10**6, 64), (3000, 300, 1), (1, 1, 1)])
@pytest.mark.parametrize("seed", range(24))
def test_against_plain_loops(seed, block, most, rows, monkeypatch):
    for name in ("_OUTPUTS", "_MORE_OUTPUTS", "_VALUES"):
        monkeypatch.setattr(convolution, name, 1)
    for name in ("_MANY", "_THREADED"):
        monkeypatch.setattr(convolution, name, 300)
    limits = {"_BLOCK": block, "_UNPACKED": most, "_ROWS": rows, "_COLUMNS": 1, "_PACKED_ROWS": 5}
    for name, value in limits.items():
        monkeypatch.setattr(small_gemm_convolution, name, value)
    x, w, grad, settings = _convolution_case(seed)
    x, w, grad = x.real, w.real, grad.real
    expected = _naive_convolution(x, w, grad, *settings)
    for found, right in zip(_results(x, w, grad, settings, KERNELS), expected, strict=True):
        np.testing.assert_allclose(found, right, atol=1e-12)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("shape", "weight", "settings"),
    [
        ((3, 16, 13, 11), (32, 16, 3, 3), ((1, 1), (1, 1), (1, 1), 1)),
        ((2, 16, 12, 13), (32, 8, 2, 3), ((1, 2), (0, 2), (1, 1), 2)),
        ((2, 16, 9, 10), (16, 16, 1, 3), ((1, 1), (0, 1), (1, 2), 1)),
        ((2, 16, 6, 7, 8), (16, 16, 3, 2, 3), ((1, 1, 1), (1, 0, 1), (1, 1, 1), 1)),
    ],
    ids=["two dims", "groups and a stride", "one row of taps", "three dims"],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.usefixtures("used")
def test_usual_shapes(shape, weight, settings, dtype):
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s).astype(dtype) for s in (shape, weight))
    grad = rng.standard_normal(KERNELS.conv(x, w, *settings).shape).astype(dtype)
    expected = _naive_convolution(*(a.astype("float64") for a in (x, w, grad)), *settings)
    for found, right in zip(_results(x, w, grad, settings, KERNELS), expected, strict=True):
        assert found.dtype == dtype
        np.testing.assert_allclose(found, right, atol=2e-4 if dtype == "float32" else 1e-10)


@pytest.mark.usefixtures("used")
def test_views():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((9, 8, 16, 3)).transpose(3, 2, 0, 1)
    w = rng.standard_normal((3, 3, 16, 16))[::-1, ::-1].transpose(2, 3, 0, 1)
    grad = np.broadcast_to(rng.standard_normal((3, 1, 1, 1)), (3, 16, 7, 6))
    settings = (1, 1), (0, 0), (1, 1), 1
    for array in (x, w):
        array.flags.writeable = False
    expected = _naive_convolution(x, w, np.array(grad), *settings)
    for found, right in zip(_results(x, w, grad, settings, KERNELS), expected, strict=True):
        np.testing.assert_allclose(found, right, atol=1e-11)


@pytest.mark.usefixtures("used")
def test_infinite_inputs_stay_in_their_windows():
    x, w = np.ones((2, 8, 6, 7)), np.ones((16, 8, 3, 3))
    x[1, 2, 3, 0] = np.inf
    settings = (1, 1), (1, 1), (1, 1), 1
    out = KERNELS.conv(x, w, *settings)
    places = np.zeros((2, 6, 7), bool)
    places[1, 2:5, :2] = True
    assert (np.isinf(out) == places[:, None]).all()
    grad = np.ones(out.shape)
    dw = KERNELS.conv_weight(x, grad, (3, 3), *settings)
    assert np.isinf(dw[:, 2, :, :2]).all()
    assert np.isinf(dw).sum() == 16 * 3 * 2


def test_memory_is_bounded():
    x, w = np.ones((1, 16, 256, 256), np.float32), np.ones((16, 16, 3, 3), np.float32)
    settings = (1, 1), (1, 1), (1, 1), 1
    set_num_threads(1)
    tracemalloc.start()
    try:
        grad = KERNELS.conv(x, w, *settings)
        forward = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        KERNELS.conv_weight(x, grad, (3, 3), *settings)
        backward = tracemalloc.get_traced_memory()[1] - grad.nbytes
    finally:
        tracemalloc.stop()
    assert forward < 1.8 * x.nbytes  # the result, and a block
    assert backward < 1.0 * x.nbytes


@pytest.mark.parametrize("shape", [(5, 16, 20, 30), (1, 16, 60, 70)], ids=["images", "one image"])
def test_results_do_not_depend_on_the_number_of_threads(shape):
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s).astype("float32") for s in (shape, (32, 16, 3, 3)))
    settings = (1, 1), (1, 1), (1, 1), 1
    grad = rng.standard_normal(portable(np).conv(x, w, *settings).shape).astype("float32")
    found = []
    for number in (1, 2, 3):
        set_num_threads(number)
        found.append(_results(x, w, grad, settings, KERNELS))
    for first, *others in zip(*found, strict=True):
        assert all(np.array_equal(first, other) for other in others)


@pytest.mark.parametrize("kernel", [(3, 3), (1, 1), (5, 1)])
@pytest.mark.parametrize("padding", [0, 2, 9])
@pytest.mark.parametrize("stride", [1, 2])
def test_rows_of_one_image_are_shared(kernel, padding, stride, monkeypatch):
    """By the portable kernels, for few channels of the output."""
    for name in ("_MANY", "_THREADED"):
        monkeypatch.setattr(convolution, name, 1)
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((1, 4, 12, 9)), rng.standard_normal((3, 4, *kernel))
    settings = (stride, 1), (padding, 1), (2 if kernel[0] == 3 else 1, 1), 1
    grad = rng.standard_normal(portable(np).conv(x, w, *settings).shape)
    expected = _results(x, w, grad, settings, portable(np))
    for number in (2, 7):
        set_num_threads(number)
        for found, right in zip(_results(x, w, grad, settings, KERNELS), expected, strict=True):
            np.testing.assert_allclose(found, right, atol=1e-12)
