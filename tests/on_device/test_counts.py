"""`bincount` and `histc` on a device: the counts are those of the CPU, and the host waits only for the range."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.backends import sync_debug
from tests.on_device.comparing import agree
from tests.on_device.test_launches import launches

#: One block counts up to 16,384 elements, and up to 2,048 bins in shared memory.
SIZES = (1, 300, 1 << 14, (1 << 14) + 1, (1 << 16) + 5)


def outcome(call: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result of a call, or the text of its error."""
    try:
        return call(*arguments)
    except RuntimeError as error:
        return str(error)


def agree_exactly(found: Any, wanted: Any) -> None:
    if isinstance(wanted, str):
        assert found == wanted
    else:
        assert found.dtype is wanted.dtype
        assert found.cpu().equal(wanted)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", [gc.uint8, gc.int8, gc.int16, gc.int32, gc.int64], ids=str)
def test_counts_of_whole_numbers(device: str, dtype: Any, size: int) -> None:
    rng = np.random.default_rng(0)
    for high, minlength in itertools.product((5, 120, 3000), (0, 10, 2500)):
        if high > gc.iinfo(dtype).max:
            continue
        x = gc.tensor(rng.integers(0, high, 2 * size)).to(dtype)
        for numbers in (x[:size], x[::2], x[:1].expand(size)):
            agree_exactly(*(numbers.to(d).bincount(minlength=minlength) for d in (device, "cpu")))


@pytest.mark.parametrize("dtype", [gc.float32, gc.float64, gc.float16, gc.int32], ids=str)
def test_sums_of_weights(device: str, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    x, weights = gc.tensor(rng.integers(0, 50, 5000)), gc.tensor(rng.uniform(0, 8, 10000)).to(dtype)[::2]
    agree([x.to(device).bincount(weights.to(device))], [x.bincount(weights)])


@pytest.mark.parametrize("size", [1, 300, (1 << 14) + 1])
@pytest.mark.parametrize("dtype", [gc.float64, gc.float32, gc.float16, gc.bfloat16], ids=str)
def test_histograms(device: str, dtype: Any, size: int) -> None:
    """Elements at edges, equal ones, and those that are not finite, in which the range must be given."""
    rng = np.random.default_rng(0)
    drawn = rng.uniform(-3, 3, size)
    kinds = [drawn, np.full(size, 2.0), np.full(size, -0.0), rng.integers(-3, 4, size)]
    kinds += [np.linspace(-1, 1, size) * 1.7e38, np.linspace(-1.5, 0.3, size).round(1)]
    kinds += [np.where(rng.random(size) < 0.3, special, drawn) for special in (np.nan, np.inf, -np.inf)]
    settings = [(10, 0, 0), (1, 0, 0), (3000, 0, 0), (7, -1, 2), (100, -1.5, 0.3), (5, 2, 2), (2500, -1, 1)]
    for values, (bins, low, high) in itertools.product(kinds, settings):
        x = gc.tensor(np.repeat(values, 2)).to(dtype)[::2]
        agree_exactly(*(outcome(x.to(d).histc, bins, low, high) for d in (device, "cpu")))


def test_what_cannot_be_counted(device: str) -> None:
    for numbers in ([-1, 2], [0, 2**63 - 1]):
        x = gc.tensor(numbers, device="cpu")
        message = outcome(x.bincount)
        assert isinstance(message, str)
        agree_exactly(outcome(x.to(device).bincount), message)
    nothing = gc.zeros(0, device=device)
    assert nothing.histc(3).tolist() == [0, 0, 0]
    assert nothing.long().bincount(minlength=2).tolist() == [0, 0]


def test_launches_and_waits(device: str) -> None:
    """A wait is a copy to the host and its end; with a given range there is none, so that graphs can be captured."""
    rig = sys.modules.get("cupy_host")
    if rig is None:
        pytest.skip("waits are counted by the rig")
    x, whole = gc.linspace(-2, 2, 300, device=device), gc.arange(300, device=device).fmod(7)

    def count(call: Callable[[], Any]) -> tuple[int, int, int]:
        call()
        waits, told = rig.waits(), sync_debug.COUNTS.total()
        call()
        found = rig.waits() - waits, sync_debug.COUNTS.total() - told
        return launches(call), *found

    assert count(lambda: x.histc(10, -1, 1)) == (1, 0, 0)
    assert count(lambda: x.histc(10)) == (2, 2, 1)
    assert count(whole.bincount) == (2, 2, 1)
    graph = gc.cuda.CUDAGraph()
    gc.cuda.synchronize()
    with gc.cuda.graph(graph):
        found = x.histc(4, -1, 1)
    x.copy_(x.square())
    graph.replay()
    assert found.cpu().equal(x.cpu().histc(4, -1, 1))
