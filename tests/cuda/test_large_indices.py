"""Kernels on arrays of more than 2**31 elements, whose last block runs: indices and offsets have 64 bits.

The arrays are memory that is promised: a page that nobody writes to takes no room, and a block touches few.
"""

from __future__ import annotations

import math
import mmap
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.backends.cupy.backend import CupyBackend
from gradcore.backends.fusion.programs import Operand, traced
from gradcore.backends.random import philox
from tests.cuda.host import HostLibrary, needs_compiler
from tests.strict.device import StrictArray

pytestmark = pytest.mark.slow

BEYOND = 1 << 31
#: Elements that all threads of the largest grid of `elements` go over in one round.
ROUND = (1 << 16) * 256


@pytest.fixture
def backend(strict: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    needs_compiler()
    monkeypatch.setenv("GRADCORE_TEST_BLOCKS", "1")
    return gc.zeros(1, device=strict).device.backend


def promised(shape: tuple[int, ...], dtype: str, last: Any) -> Any:
    """Zeros that end with these numbers."""
    memory = mmap.mmap(-1, math.prod(shape) * np.dtype(dtype).itemsize)
    a = np.frombuffer(memory, dtype).reshape(shape)
    a.reshape(-1)[a.size - len(last) :] = last
    return StrictArray(a, 0)


def numbers(count: int, dtype: str = "float16") -> Any:
    return np.random.default_rng(0).uniform(-2, 2, count).astype(dtype)


def close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=2e-3, atol=2e-3)


def softmax(x: Any) -> Any:
    powers = np.exp(x.astype(np.float64) - x.max())
    return powers / powers.sum()


@pytest.mark.parametrize("dims", [0, 2])
def test_large_generated_kernels(backend: Any, dims: int) -> None:
    """Dense operands by one index; a transposed one by the steps of two dims."""
    dtype = np.dtype("int8")
    operands = [(name, Operand(name, dtype)) for name in "xy"]
    program = traced("large", lambda F, x, y: [x * y + x], operands, type(backend).bodies, [dtype]).program
    rows, columns = 3, (BEYOND + ROUND) // 3 + 1
    size = rows * columns if dims else BEYOND + ROUND
    x = promised((size,), "int8", numbers(64, "int8") + 3)
    out = StrictArray(np.empty(size, "int8"), 0)
    steps = [np.int64(n) for n in (rows, 1, columns, 1, columns)] if dims else []  # element (i, j) of x lies at i + j n
    kernel = HostLibrary([program.source(dims)])[program.name]
    blocks = min(-(-size // 256), 1 << 16)
    kernel((blocks,), (256,), (np.int64(size), x, x, out, *steps))
    last = (size - 1) // ROUND * ROUND + (blocks - 1) * 256  # of the last block's numbers, where they begin
    begin = last - ROUND if last + 256 > size else last
    places = np.arange(begin, begin + 256)
    assert places[-1] > BEYOND - ROUND
    values = x._a[places // rows + places % rows * columns] if dims else x._a[places]
    np.testing.assert_array_equal(out._a[places], values * values + values)


def test_large_softmax_of_rows(backend: Any) -> None:
    n, values = 1 << 15, numbers(1 << 15)
    y = backend.softmax_along(promised((BEYOND // n + 3, n), "float16", values), 1)._a
    close(y[-1], softmax(values))


def test_large_softmax_of_columns(backend: Any) -> None:
    inner = BEYOND // 2 + ROUND
    x = promised((1, 2, inner), "float16", [])
    x._a[0, :, -1] = 1, 2
    close(backend.softmax_along(x, 1)._a[0, :, -1], softmax(np.array([1.0, 2.0])))


def test_large_layer_norm(backend: Any) -> None:
    n, values = 1 << 15, numbers(1 << 15)
    y = backend.native_layer_norm(promised((BEYOND // n + 3, n), "float16", values), None, None, 1, 1e-5)[0]._a
    wide = values.astype(np.float64)
    close(y[-1], (wide - wide.mean()) / np.sqrt(wide.var() + 1e-5))


@pytest.mark.parametrize("kind", ["max_pool", "avg_pool"])
def test_large_pooling(backend: Any, kind: str) -> None:
    x = promised((1, 1, 1 << 16, (1 << 15) + (1 << 10)), "float16", numbers(2))
    settings = (2, 2), (2, 2), (0, 0)
    window = x._a[0, 0, -2:, -2:].astype(np.float64)
    if kind == "avg_pool":
        found = backend.avg_pool(x, *settings, False, True, None)
        close(found._a[0, 0, -1, -1], window.mean())
        return
    found, indices = backend.max_pool(x, *settings, (1, 1), False)
    close(found._a[0, 0, -1, -1], window.max())
    assert indices._a[0, 0, -1, -1] > BEYOND


def test_large_sums_by_index(backend: Any) -> None:
    height, width = 1 << 10, (BEYOND + ROUND) >> 10
    rows = promised((height, width), "float16", numbers(256))
    index = StrictArray(np.arange(height), 0)
    close(backend.sum_into_rows(height, index, rows)._a[-1, -256:], rows._a[-1, -256:])


@pytest.mark.parametrize("call", ["unscale", "clip"])
def test_large_lists(backend: Any, call: str) -> None:
    x = promised((BEYOND + 100,), "float16", numbers(50))
    before = x._a[-50:].astype(np.float64)
    with np.errstate(all="ignore"):
        if call == "unscale":
            found = StrictArray(np.zeros((), "float32"), 0)
            backend.unscale_list([x], StrictArray(np.full((), 0.5, "float32"), 0), found)
            close(x._a[-50:], before * 0.5)
        else:
            backend.clamp_list([x], 1.0)
            close(x._a[-50:], before.clip(-1, 1))


def test_large_products(backend: Any) -> None:
    backend.capture.on = True
    try:
        a, b = promised((1 << 16, 1), "int8", [3]), promised((1, (1 << 15) + 64), "int8", [5, 7])
        found = backend.mm(a, b)._a
    finally:
        backend.capture.on = False
    assert found.size > BEYOND
    assert found[-1, -2:].tolist() == [15, 21]


def test_large_random_numbers(backend: Any) -> None:
    """The last ones are those that the generator has so far along its stream."""
    size, key, half = BEYOND + 8 * ROUND, 3, np.dtype("float16")
    words = philox.WordStream(4, key, size // 8 - 1)  # two numbers are made of a word
    found = CupyBackend._decisions(backend, size, half, key, 0, 0.5)._a
    np.testing.assert_array_equal(found[-8:], philox.bernoulli(np, words, half, 0.5)[:8])
