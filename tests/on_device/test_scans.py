"""Running extrema, modes and searches in rows on a device: values and indices are those of the CPU, by one kernel."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.backends.cupy import scans
from tests.on_device.comparing import agree
from tests.on_device.test_launches import launches, with_gradients

DTYPES = (
    gc.float64, gc.float32, gc.float16, gc.bfloat16, gc.bool, gc.uint8, gc.int8, gc.int16, gc.int32, gc.int64,
)  # fmt: skip

#: Rows of warps, of blocks, and of several rounds of a block; columns of threads, and few long ones.
SHAPES = (((), 0), ((1,), 0), ((5, 40), 1), ((40, 5), 0), ((2, 300), 1), ((100, 3), 0), ((2, 3, 70), -2))


def arrays(dtype: Any, shape: tuple[int, ...]) -> Iterator[Any]:
    """Yield repeated numbers, NaN and zeros of both signs among them, in several layouts."""
    rng = np.random.default_rng(0)
    values = rng.integers(0 if dtype is gc.uint8 else -5, 5, shape).astype(float)
    if dtype.is_floating_point:
        values = np.where(rng.random(shape) < 0.03, np.nan, np.where(rng.random(shape) < 0.1, -0.0, values))
    x = gc.tensor(values).to(dtype)
    yield x
    if x.ndim:
        yield from (x.flip(0), x[..., ::2], x[:1].expand(x.shape), gc.stack([x, x], -1)[..., 1])
    if dtype.is_floating_point:
        yield -x.abs() * np.inf


def agree_exactly(found: Any, wanted: Any) -> None:
    for a, b in zip(found, wanted, strict=True):
        assert a.dtype is b.dtype
        assert a.shape == b.shape
        assert np.array_equal(a.cpu().double().numpy(), b.double().numpy(), equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ["cummax", "cummin", "mode"])
def test_scans(device: str, name: str, dtype: Any) -> None:
    for shape, dim in SHAPES:
        for x in arrays(dtype, shape):
            for keepdim in ((), (True,)) if name == "mode" else ((),):
                agree_exactly(*(getattr(x.to(d), name)(dim, *keepdim) for d in (device, "cpu")))


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype is not gc.bool], ids=str)
def test_searches_in_rows(device: str, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    for shape, right in itertools.product(((1, 1), (3, 40), (2, 3, 300)), (False, True)):
        x = gc.tensor(rng.integers(0, 9, shape).astype(float)).to(dtype).sort(-1).values
        wanted = gc.tensor(rng.integers(-1 if dtype.is_signed else 0, 11, (*shape[:-1], 7)).astype(float)).to(dtype)
        if dtype.is_floating_point:
            wanted.view(-1)[::5] = np.nan
        for values in (wanted, wanted.flip(-1)[..., ::2]):
            agree_exactly(*([gc.searchsorted(x.to(d), values.to(d), right=right)] for d in (device, "cpu")))


def test_nothing_to_scan(device: str) -> None:
    for shape in ((0,), (3, 0), (0, 3)):
        x = gc.zeros(shape, device=device)
        assert x.cummax(0).indices.shape == x.cummin(-1).values.shape == shape
    assert gc.searchsorted(gc.zeros(2, 0, device=device), gc.ones(2, 3, device=device)).tolist() == [[0] * 3] * 2


@pytest.mark.parametrize("dtype", DTYPES[:4], ids=str)
def test_gradients_of_scans(device: str, dtype: Any) -> None:
    x = gc.tensor(np.random.default_rng(0).permutation(60).reshape(3, 20)).to(dtype)
    for name, dim in itertools.product(("cummax", "cummin", "mode"), (0, 1)):
        run = lambda x, name=name, dim=dim: getattr(x * x, name)(dim).values  # noqa: E731
        agree(*(with_gradients(run, x.to(d), second=dtype is gc.float64) for d in (device, "cpu")), str(dtype))


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype is not gc.bool], ids=str)
def test_launches_of_scans(device: str, dtype: Any) -> None:
    x = gc.arange(60, device=device).reshape(3, 20).to(dtype)
    for name in ("cummax", "cummin"):
        for dim in (0, 1):
            assert launches(lambda name=name, dim=dim: getattr(x, name)(dim)) == 1
    assert launches(lambda: x.mode(1)) == 2
    is_converted = dtype in (gc.float16, gc.bfloat16)
    assert launches(lambda: gc.searchsorted(x, x)) == 1 + 2 * is_converted


def test_scans_in_a_graph(device: str) -> None:
    x = gc.arange(12.0, device=device).reshape(3, 4)
    x.cummax(1), x.mode(1)
    graph = gc.cuda.CUDAGraph()
    gc.cuda.synchronize()
    with gc.cuda.graph(graph):
        found = [*x.cummax(1), *x.mode(1)]
    x.copy_(x.sin().round())
    graph.replay()
    agree_exactly(found, [*x.cpu().cummax(1), *x.cpu().mode(1)])


def test_few_long_columns_are_scanned_as_rows(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = gc.tensor(np.random.default_rng(0).integers(0, 9, (70, 3)))
    for columns in (1, 1 << 10):
        monkeypatch.setattr(scans, "_COLUMNS", columns)
        agree_exactly(*(x.to(d).cummin(0) for d in (device, "cpu")))
        assert launches(lambda: x.to(device).cummin(0)) == (1 if columns == 1 else 4)
