"""Sorting and selection on a device: elements and places are those of the CPU, of NaN and equal elements too."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.backends.cupy import selection
from tests.on_device.comparing import agree
from tests.on_device.test_launches import launches, with_gradients

#: No other test runs these kernels, of which each sample on a device runs some.
pytestmark = pytest.mark.sampled(12)

FLOATS = (gc.float64, gc.float32, gc.float16, gc.bfloat16)
WHOLE = (gc.uint8, gc.int8, gc.int16, gc.int32, gc.int64)

#: Shapes and dims: short rows, rows of a block, rows that are divided among blocks, columns.
SHAPES = [
    ((1,), 0), ((5,), 0), ((3, 2), 1), ((4, 33), 1), ((33, 4), 0), ((2, 3, 128), -1), ((2, 129), 1), ((3, 2, 700), 2),
    ((700, 3), 0), ((2, 2048), 1), ((2, 2049), 1), ((3, 5000), 1), ((1, 40_000), 1), ((2, 70_001), 1),
]  # fmt: skip

#: What elements are: all different, many equal ones, extreme ones.
CONTENTS: dict[str, Callable[[Any, tuple[int, ...]], Any]] = {
    "drawn": lambda rng, shape: rng.standard_normal(shape) * 50,
    "ties": lambda rng, shape: rng.integers(-2, 3, shape).astype(float),
    "equal": lambda rng, shape: np.full(shape, 3.0),
    "special": lambda rng, shape: rng.choice([0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, -1.0, 5e-8, -6e4], shape),
}

CALLS: dict[str, Callable[[Any, int], Any]] = {
    "sort": lambda x, dim: gc.sort(x, dim),
    "sort descending": lambda x, dim: gc.sort(x, dim, True),
    "argsort": lambda x, dim: (gc.argsort(x, dim),),
    "topk": lambda x, dim: gc.topk(x, min(3, x.shape[dim]), dim),
    "topk smallest": lambda x, dim: gc.topk(x, min(130, x.shape[dim]), dim, False),
    "topk half": lambda x, dim: gc.topk(x, -(-x.shape[dim] // 2), dim),
    "kthvalue first": lambda x, dim: gc.kthvalue(x, 1, dim),
    "kthvalue": lambda x, dim: gc.kthvalue(x, -(-2 * x.shape[dim] // 3), dim, True),
    "median": lambda x, dim: gc.median(x, dim),
    "nanmedian": lambda x, dim: gc.nanmedian(x, dim, True),
    "median of all": lambda x, dim: (gc.median(x),),
}


def exactly(there: Any, here: Any, label: str) -> None:
    for a, b in zip(there, here, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape), label
        wide = gc.float64 if b.is_floating_point() else b.dtype
        np.testing.assert_array_equal(a.cpu().to(wide).numpy(), b.to(wide).numpy(), label)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("content", CONTENTS)
def test_elements_and_places(device: str, name: str, content: str) -> None:
    rng = np.random.default_rng(0)
    for (shape, dim), dtype in zip(SHAPES, itertools.cycle(FLOATS if content == "special" else FLOATS + WHOLE)):
        x = gc.tensor(CONTENTS[content](rng, shape)).to(dtype)
        exactly(CALLS[name](x.to(device), dim), CALLS[name](x, dim), f"{dtype} {shape} {dim}")


@pytest.mark.parametrize("dtype", [gc.bool, *WHOLE, *FLOATS], ids=str)
def test_every_dtype(device: str, dtype: Any) -> None:
    info = None if dtype is gc.bool or dtype.is_floating_point else gc.iinfo(dtype)
    ends = [0, 1] if dtype is gc.bool else [-1e30, 1e30] if info is None else [info.min, info.max]
    x = gc.tensor(np.random.default_rng(0).permutation([*ends, 1, 0, 1, 7, 0, *ends] * 40)).to(dtype).reshape(4, -1)
    for name, call in CALLS.items():
        if dtype is gc.bool and "sort" not in name:
            continue
        exactly(call(x.to(device), 1), call(x, 1), name)


def test_layouts(device: str) -> None:
    x = gc.tensor(np.random.default_rng(0).integers(-4, 5, (6, 300)) / 4)
    layouts = {
        "transposed": (x.T, 0), "every second": (x[:, ::2], 1), "offset": (x.flatten()[1:1501].view(5, 300), 1),
        "expanded": (x[:1].expand(6, 300), 1), "repeated": (x[:, :1].expand(6, 300), 1), "no rows": (x[:0], 1),
        "without dims": (x[0, 0], 0),
    }  # fmt: skip
    for (layout, (view, dim)), (name, call) in itertools.product(layouts.items(), CALLS.items()):
        if view.ndim:
            exactly(call(view.to(device), dim), call(view, dim), f"{layout} {name}")
        elif "topk" not in name:
            exactly(gc.sort(view.to(device)), gc.sort(view), layout)


@pytest.mark.parametrize("mode", ["kthvalue", "median", "nanmedian"])
@pytest.mark.parametrize("dtype", [gc.float32, gc.float64, gc.int16], ids=str)
def test_a_rank_of_rows_of_several_blocks(device: str, mode: str, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As rows of hundreds of thousands of elements are; here of few, which are divided all the same."""
    for limit, value in (("_LONG_OF_RANK", 1000), ("_LONG", 1000), ("_LEAST_PART", 300)):
        monkeypatch.setattr(selection, limit, value)
    rng = np.random.default_rng(0)
    run = (lambda x: x.kthvalue(2001, -1)) if mode == "kthvalue" else lambda x: getattr(x, mode)(-1)
    for values in (rng.standard_normal((2, 3007)) * 99, rng.integers(-1, 2, (1, 2145)).astype(float)):
        for holes in (0, 3, values.shape[-1]):
            if holes and not dtype.is_floating_point:
                continue
            values[..., rng.permutation(values.shape[-1])[:holes]] = np.nan
            x = gc.tensor(values).to(dtype)
            exactly(run(x.to(device)), run(x), f"{values.shape} {holes}")


@pytest.mark.parametrize("name", [n for n in CALLS if n != "argsort"])
def test_gradients(device: str, name: str) -> None:
    rng = np.random.default_rng(0)
    for dtype in FLOATS:
        x = gc.tensor(rng.permutation(60).reshape(3, 20) / 8).to(dtype)

        run = lambda t: CALLS[name](t, 1)[0].square()  # noqa: E731
        there, here = (with_gradients(run, x.to(where), second=dtype is gc.float64) for where in (device, "cpu"))
        agree(there, here, f"{name} {dtype}")


def test_quantiles(device: str) -> None:
    x = gc.tensor(np.random.default_rng(0).standard_normal((3, 500)))
    x[1, 7] = float("nan")
    for q, how in itertools.product((0.0, 0.3, 1.0), ("linear", "nearest", "higher")):
        for function in (gc.quantile, gc.nanquantile):
            agree([function(x.to(device), q, -1, interpolation=how)], [function(x, q, -1, interpolation=how)])


@pytest.mark.parametrize("how", ["linear", "lower", "higher", "midpoint", "nearest"])
def test_launches_of_quantiles(device: str, how: str) -> None:
    """A number is ranked by the host: rows are sorted, interpolated and replaced where they have a NaN."""
    x = gc.rand(3, 500, device=device)
    assert launches(lambda: gc.quantile(x, 0.3, 1, interpolation=how)) == 3 + (how in ("linear", "midpoint"))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_launches_of_selection(device: str, dtype: Any) -> None:
    """Count the launches: one for ordinary rows; for long rows two by `topk`, and one per digit by `kthvalue`."""
    x, long = (gc.rand(*shape, device=device).to(dtype) for shape in ((6, 1500), (1, 300_000)))
    for call in (gc.sort, gc.argsort, gc.median, gc.nanmedian):
        assert launches(lambda call=call: call(x, 1)) == 1
    assert launches(lambda: gc.topk(x, 5)) == 1
    assert launches(lambda: gc.kthvalue(x, 700)) == 1
    assert launches(lambda: gc.topk(long, 50)) == 2
    digits = dtype.itemsize
    assert launches(lambda: gc.kthvalue(long, 700)) == digits + 3
    assert launches(lambda: gc.median(long, 1)) == digits + 4
