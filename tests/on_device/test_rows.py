"""Kernels of rows on a device: by groups of 16 bytes, by elements, beyond what threads keep of a row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from tests.on_device.comparing import agree
from tests.on_device.test_launches import DTYPES, launches

F = gc.nn.functional

#: No other test runs these kernels, of which each sample on a device runs some.
pytestmark = pytest.mark.sampled(24)

#: Rows of warps and of blocks, whose length is a multiple of 16 bytes in all dtypes, in some, and in none.
WIDTHS = [1, 7, 8, 64, 250, 256, 264, 1000, 1001, 4100, 9000, 20_000]

CALLS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "softmax": lambda x, w, b: x.softmax(-1),
    "log_softmax": lambda x, w, b: x.log_softmax(-1),
    "layer_norm": lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b, 0.1),
    "layer_norm without bias": lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, None, 0.1),
    "rms_norm": lambda x, w, b: F.rms_norm(x, x.shape[-1:], w, 0.1),
    "rms_norm alone": lambda x, w, b: F.rms_norm(x, x.shape[-1:], None, 0.1),
    "group_norm": lambda x, w, b: F.group_norm(x[:, None].expand(-1, 4, -1), 2, w.repeat(4)[:4], b.repeat(4)[:4], 0.1),
    "group_norm of points": lambda x, w, b: F.group_norm(x, 1, w, b, 0.1),
    "cross_entropy": lambda x, w, b: F.cross_entropy(x, x.detach().float().argmin(1), w.abs() + 1, reduction="none"),
}


def drawn(dtype: Any, width: int) -> list[Any]:
    rng = np.random.default_rng(width)
    return [gc.tensor(rng.standard_normal(s) + 1).to(dtype) for s in ((3, width), (width,), (width,))]


def by_both(device: str, name: str, inputs: list[Any], second: bool = False) -> list[list[Any]]:
    found = []
    for where in (device, "cpu"):
        moved = [t.to(where) for t in inputs]
        used = [t.requires_grad_() for t in moved]
        out = CALLS[name](*used)
        weights = gc.arange(out.numel(), dtype=gc.float64, device=where).reshape(out.shape).cos().to(out.dtype)
        slopes = gc.autograd.grad(out, used, weights, create_graph=second, allow_unused=True)
        found.append([out, *slopes])
        if second:
            found[-1] += gc.autograd.grad(sum((g * g).sum() for g in slopes if g is not None), used, allow_unused=True)
    return found


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", CALLS)
def test_rows_of_any_length(device: str, name: str, width: int) -> None:
    for dtype in DTYPES:
        agree(*by_both(device, name, drawn(dtype, width), second=dtype is gc.float64 and width < 300), f"{dtype}")


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("moved", [(0,), (1,), (2,), (0, 1, 2)], ids=str)
def test_rows_that_begin_between_multiples_of_16_bytes(device: str, name: str, moved: tuple[int, ...]) -> None:
    """Dense arrays are read where they lie: one element further on, and in rows of another length."""
    for dtype in DTYPES:
        inputs = drawn(dtype, 264)
        on_device = [t.to(device) for t in inputs]
        for i in moved:
            flat = on_device[i].flatten()
            on_device[i] = gc.cat([flat[:1], flat])[1:].view(on_device[i].shape)
        results = []
        for used in (on_device, inputs):
            used = [t.detach().requires_grad_() for t in used]
            out = CALLS[name](*used)
            results.append([out, *gc.autograd.grad(out, used, gc.ones_like(out), allow_unused=True)])
        agree(*results, f"{dtype}")


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "layer_norm", "cross_entropy"])
def test_extreme_values(device: str, name: str) -> None:
    for dtype in DTYPES:
        for value in (np.inf, -np.inf, np.nan, 6e4, -6e4):
            x, w, b = drawn(dtype, 264)
            x[0, 3] = x[1, 200] = value
            results = [CALLS[name](*(t.to(where) for t in (x, w, b))) for where in (device, "cpu")]
            agree([results[0]], [results[1]], f"{dtype} {value}")


def test_equal_rows_have_equal_bits(device: str) -> None:
    x = drawn(gc.bfloat16, 4100)[0][:1].to(device).expand(5, 4100).contiguous()
    for name in ("softmax", "rms_norm alone"):
        out = CALLS[name](x, None, None)
        assert (out == out[0]).all().item()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_launches_of_rows(device: str, dtype: Any) -> None:
    x, w, b = (t.to(device) for t in drawn(dtype, 264))
    for name in ("softmax", "log_softmax", "layer_norm", "rms_norm"):
        assert launches(lambda name=name: CALLS[name](x, w, b)) == 1


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("dtype", [gc.float16, gc.bfloat16], ids=str)
def test_cross_entropy_of_halves_is_that_of_float32_rounded_once(device: str, dtype: Any, reduction: str) -> None:
    """The loss is rounded, the exponentials and the gradient are; sums of exponentials and of weights are not."""
    x, w, _ = (t.to(device) for t in drawn(dtype, 1000))
    targets = gc.tensor([3, -100, 999], device=device)

    def run(x: Any, w: Any) -> Any:
        return F.cross_entropy(x, targets, w.abs(), reduction=reduction)

    scores = x.requires_grad_()
    found = run(scores, w)
    weights = gc.arange(1, found.numel() + 1, device=device).reshape(found.shape).to(dtype)
    (slope,) = gc.autograd.grad(found, scores, weights)
    wide = x.detach().float().requires_grad_()
    wanted = run(wide, w.float())
    assert found.dtype is slope.dtype is dtype
    assert (found == wanted.to(dtype)).all().item()
    (exact,) = gc.autograd.grad(wanted, wide, weights.float())
    step = gc.finfo(dtype).eps
    assert ((slope.float() - exact).abs() <= 1.01 * step * exact.abs() + gc.finfo(dtype).smallest_normal).all().item()
