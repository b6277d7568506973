"""Operations of halves with statistics inside (means, variances, norms, sums), whose rounding must not show.

Rows have a mean that is large beside their deviation. Results and gradients are compared with those in float64, of the
same numbers: what is rounded once is off by half a unit in the last place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradcore as gc

F = gc.nn.functional
CHANNELS, POINTS = 6, 40

#: Functions of images ``(batch, channels, points)``, a weight and a bias.
CALLS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "layer_norm": lambda x, w, b: F.layer_norm(x, (POINTS,), w.repeat(7)[:POINTS], b.repeat(7)[:POINTS]),
    "layer_norm of images": lambda x, w, b: F.layer_norm(x, (CHANNELS, POINTS)) * w[:, None] + b[:, None],
    "group_norm": lambda x, w, b: F.group_norm(x, 2, w, b),
    "batch_norm": lambda x, w, b: F.batch_norm(x, None, None, w, b, True),
    "instance_norm": lambda x, w, b: F.instance_norm(x, None, None, w, b),
    "rms_norm": lambda x, w, b: F.rms_norm(x, (POINTS,), w.repeat(7)[:POINTS]),
    "softmax": lambda x, w, b: x.softmax(-1) * w[:, None],
    "log_softmax": lambda x, w, b: x.log_softmax(1) * w[:, None],
    "logsumexp": lambda x, w, b: x.logsumexp(-1) * w,
    "var": lambda x, w, b: x.var(-1) * w,
    "var over a batch": lambda x, w, b: x.var((0, 2)) * w,
    "std": lambda x, w, b: x.std(-1) * w,
    "var_mean": lambda x, w, b: gc.var_mean(x, -1)[0] * w,
    "std_mean": lambda x, w, b: gc.std_mean(x, (0, 2))[0] * w,
    "norm": lambda x, w, b: x.norm(dim=-1) * w,
    "norm of order 3": lambda x, w, b: gc.linalg.vector_norm(x, 3, -1) * w,
    "normalize": lambda x, w, b: F.normalize(x, dim=-1) * w[:, None],
    "cosine_similarity": lambda x, w, b: F.cosine_similarity(x, x.detach().flip(0), -1) * w,
    "cross_entropy": lambda x, w, b: F.cross_entropy(x, x.detach().argmin(1), reduction="none"),
    "logcumsumexp": lambda x, w, b: x.logcumsumexp(-1) * w[:, None],
    "mean": lambda x, w, b: x.mean(-1) * w,
    "renorm": lambda x, w, b: x.renorm(2, 1, 30.0) * w[:, None],
}


def computed(name: str, mean: float, kind: gc.dtype, dtype: gc.dtype, device: str) -> list[Any]:
    """Compute a normalization and its gradients in `dtype`, for inputs rounded to `kind`."""
    rng = np.random.default_rng(0)
    shapes = (5, CHANNELS, POINTS), (CHANNELS,), (CHANNELS,)
    drawn = [
        gc.tensor(rng.standard_normal(s) + offset, device="cpu") for s, offset in zip(shapes, (mean, 1, 0), strict=True)
    ]
    x, w, b = (t.to(kind).to(device, dtype).requires_grad_() for t in drawn)
    out = CALLS[name](x, w, b)
    upstream = gc.tensor(rng.standard_normal(out.shape), device="cpu").to(kind).to(device, dtype)
    slopes = gc.autograd.grad(out, [x, w, b], upstream, allow_unused=True)
    return [None if t is None else t.detach().cpu().double() for t in (out, *slopes)]


@pytest.mark.parametrize("mean", [0.0, 10.0, 50.0, 200.0])
@pytest.mark.parametrize("dtype", [gc.float16, gc.bfloat16], ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_rows_with_a_mean(name: str, dtype: gc.dtype, mean: float) -> None:
    exact = computed(name, mean, dtype, gc.float64, "cpu")
    on_host, on_device = (computed(name, mean, dtype, dtype, device) for device in ("cpu", "cuda"))
    for what, right, host, there in zip(("result", "x", "weight", "bias"), exact, on_host, on_device, strict=True):
        if right is None or not right.norm():
            continue
        error, of_host = (float((t - right).norm() / right.norm()) for t in (there, host))
        assert error <= max(gc.finfo(dtype).eps, 1.5 * of_host), f"{what}: {error:.2g}, on the CPU {of_host:.2g}"
