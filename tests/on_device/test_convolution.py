"""Convolution with columns on a device against the CPU, for all windows, channels and dtypes, and its launches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.core import config
from tests.on_device.comparing import agree
from tests.on_device.test_launches import DTYPES, drawn, launches, with_gradients

F = gc.nn.functional

#: Shapes of input and weight, groups, and settings of the windows: stride, padding, dilation.
CASES = {
    "one dim": ((3, 4, 9), (6, 4, 3), 1, {}),
    "one dim, stride": ((2, 4, 11), (6, 2, 3), 2, {"stride": 2, "padding": 1}),
    "images": ((3, 4, 8, 9), (5, 4, 3, 2), 1, {"padding": (1, 2)}),
    "many windows": ((2, 3, 17, 19), (4, 3, 3, 3), 1, {"padding": 1}),
    "stride": ((2, 4, 9, 8), (6, 2, 3, 3), 2, {"stride": (2, 3), "padding": 1}),
    "dilation": ((2, 3, 11, 10), (4, 3, 3, 2), 1, {"dilation": (2, 3), "stride": (1, 2), "padding": (3, 0)}),
    "wide steps": ((2, 3, 11, 10), (4, 3, 2, 2), 1, {"stride": 4}),
    "points": ((3, 6, 5, 4), (4, 6, 1, 1), 1, {}),
    "points in groups": ((3, 6, 7, 8), (4, 3, 1, 1), 2, {}),
    "points, stride": ((3, 6, 5, 4), (4, 6, 1, 1), 1, {"stride": 2}),
    "the whole image": ((5, 3, 4, 4), (6, 3, 4, 4), 1, {}),
    "depthwise": ((2, 4, 7, 6), (4, 1, 3, 3), 4, {"padding": 1}),
    "depthwise, twice": ((2, 3, 7, 6), (6, 1, 3, 2), 3, {"stride": (2, 1), "dilation": (1, 2), "padding": (0, 2)}),
    "one channel": ((2, 1, 7, 6), (3, 1, 3, 3), 1, {"padding": 1}),
    "volumes": ((2, 2, 5, 4, 6), (4, 2, 2, 3, 2), 1, {"padding": (1, 0, 1), "stride": (1, 2, 1)}),
    "volumes, depthwise": ((2, 2, 5, 4, 6), (2, 1, 2, 3, 2), 2, {"padding": (1, 0, 1)}),
}  # fmt: skip


def convolved(transposed: bool, groups: int, settings: dict[str, Any]) -> Any:
    def run(x: Any, weight: Any, bias: Any = None) -> Any:
        name = f"conv{'_transpose' if transposed else ''}{x.ndim - 2}d"
        return getattr(F, name)(x, weight, bias, groups=groups, **settings)

    return run


@pytest.mark.parametrize("few", [False, True], ids=["a buffer", "image by image, 64-bit indices"])
@pytest.mark.parametrize("transposed", [False, True], ids=["conv", "transposed"])
@pytest.mark.parametrize("case", CASES)
def test_convolution(device: str, case: str, transposed: bool, few: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    shape, kernel, groups, settings = CASES[case]
    if few:
        convolution = pytest.importorskip("gradcore.backends.cupy.convolution")
        monkeypatch.setattr(convolution, "_COLUMNS", 1)
        monkeypatch.setattr(convolution, "_BEYOND", 0)
    rng = np.random.default_rng(0)
    run = convolved(transposed, groups, settings)
    for dtype in DTYPES:
        weight = drawn(rng, dtype, *kernel)
        channels = kernel[0] if not transposed else kernel[1] * groups
        x = drawn(rng, dtype, shape[0], kernel[0] if transposed else shape[1], *shape[2:])
        x, weight = x.transpose(0, -1).contiguous().transpose(0, -1), weight.flip(-1)
        for inputs in ((x, weight), (x, weight, drawn(rng, dtype, 2 * channels)[::2])):
            second = dtype is gc.float64 and not few and len(inputs) == 2
            there, here = (
                with_gradients(run, *[t.to(where) for t in inputs], second=second) for where in (device, "cpu")
            )
            agree(there, here, f"{case} {dtype}")


@pytest.mark.parametrize("dtype", [gc.float32, gc.bfloat16], ids=str)
def test_memory_has_the_columns_of_one_part(device: str, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forward, and backward with a matrix of the upstream gradient and a sum beside the columns."""
    convolution = pytest.importorskip("gradcore.backends.cupy.convolution")
    limit = 4 * 9 * 8 * 32 * 32  # the columns of an image in float32
    monkeypatch.setattr(convolution, "_COLUMNS", limit)
    x = gc.ones(16, 8, 32, 32, dtype=dtype, device=device, requires_grad=True)
    weight = gc.ones(8, 8, 3, 3, dtype=dtype, device=device, requires_grad=True)
    out = F.conv2d(x, weight, padding=1)
    ones, size = gc.ones_like(out), x.numel() * x.element_size()
    for run, arrays in (
        (lambda: F.conv2d(x, weight, padding=1), 1),
        (lambda: gc.autograd.grad(out, (x, weight), ones, retain_graph=True), 1.3),
    ):
        run()
        gc.cuda.empty_cache()
        before = gc.cuda.memory_allocated()
        gc.cuda.reset_peak_memory_stats()
        run()
        assert gc.cuda.max_memory_allocated() - before <= arrays * size + limit + 20000


def test_complex_convolution(device: str) -> None:
    rng = np.random.default_rng(0)
    x, weight = (
        gc.complex(drawn(rng, gc.float64, *s), drawn(rng, gc.float64, *s)) for s in ((2, 4, 6, 5), (6, 2, 3, 2))
    )
    run = lambda x, w: gc.view_as_real(F.conv2d(x, w, groups=2, padding=1))  # noqa: E731
    agree(*[with_gradients(run, x.to(where), weight.to(where)) for where in (device, "cpu")])


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_bias_is_added_before_rounding(device: str, dtype: Any) -> None:
    x, weight = gc.full((1, 2, 40, 4), 1.0, dtype=dtype, device=device), gc.ones(2, 1, 1, 1, dtype=dtype, device=device)
    small = gc.full((2,), 2.0**-7, dtype=dtype, device=device)
    mixed = gc.ones(2, 2, 1, 1, dtype=dtype, device=device) * 0.5
    expected = (1 + gc.tensor(2.0**-7, dtype=gc.float64)).to(dtype).item()
    assert F.conv2d(x, weight, small, groups=2).unique().tolist() == [expected]
    assert F.conv2d(x, mixed, small).unique().tolist() == [expected]
    assert F.conv_transpose2d(x, mixed, small, stride=2)[..., ::2, ::2].unique().tolist() == [expected]


@pytest.mark.parametrize(("groups", "channels", "forward", "backward"), [(1, 8, 2, 4), (2, 8, 2, 4), (8, 8, 1, 3)])
@pytest.mark.parametrize("dtype", [gc.float32, gc.bfloat16])
def test_launches_of_convolution(
    device: str, dtype: Any, groups: int, channels: int, forward: int, backward: int
) -> None:
    """Beside cuBLAS's: the bias and the columns; in backward those of the bias, of columns, upstream, and images."""
    x = gc.ones(4, channels, 12, 13, dtype=dtype, device=device, requires_grad=True)
    weight = gc.ones(8, channels // groups, 3, 3, dtype=dtype, device=device, requires_grad=True)
    bias = gc.ones(8, dtype=dtype, device=device, requires_grad=True)
    run = lambda: F.conv2d(x, weight, bias, padding=1, groups=groups)  # noqa: E731
    assert launches(run) == forward
    out = run()
    ones = gc.ones_like(out)
    assert launches(lambda: gc.autograd.grad(out, (x, weight, bias), ones, retain_graph=True)) == backward


def test_the_family_can_be_left_out(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight = gc.ones(2, 2, 5, 5, device=device), gc.ones(3, 2, 3, 3, device=device)
    here = F.conv2d(x, weight)
    monkeypatch.setattr(config, "CUDA_KERNELS_LEFT_OUT", frozenset({"convolution"}))
    assert launches(lambda: F.conv2d(x, weight)) > 1
    assert (F.conv2d(x, weight) == here).all().item()
