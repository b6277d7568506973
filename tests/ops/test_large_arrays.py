"""Large arrays take other kernels than small ones; values and gradients must not change with that.

Nor may they change with the end from which a dim is counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradcore as gc

F = gc.nn.functional
SHAPE = (4, 96, 65)

#: Functions of a tensor and a dim.
ALONG = {
    "softmax": lambda x, dim: x.softmax(dim),
    "log_softmax": lambda x, dim: x.log_softmax(dim),
    "logsumexp": lambda x, dim: x.logsumexp(dim),
    "sum": lambda x, dim: x.sum(dim),
    "sum, kept": lambda x, dim: x.sum(dim, keepdim=True),
    "mean": lambda x, dim: x.mean(dim),
    "var": lambda x, dim: x.var(dim),
    "std": lambda x, dim: x.std(dim),
    "prod": lambda x, dim: (1 + x / 1000).prod(dim),
    "norm": lambda x, dim: x.norm(dim=dim),
    "amax": lambda x, dim: x.amax(dim),
    "max": lambda x, dim: x.max(dim).values,
    "min": lambda x, dim: x.min(dim).values,
    "median": lambda x, dim: x.median(dim).values,
    "sort": lambda x, dim: x.sort(dim).values,
    "topk": lambda x, dim: x.topk(3, dim).values,
    "cumsum": lambda x, dim: x.cumsum(dim),
    "cumprod": lambda x, dim: (1 + x / 1000).cumprod(dim),
    "cummax": lambda x, dim: x.cummax(dim).values,
    "logcumsumexp": lambda x, dim: x.logcumsumexp(dim),
    "normalize": lambda x, dim: F.normalize(x, dim=dim),
    "flip": lambda x, dim: x.flip(dim),
    "roll": lambda x, dim: x.roll(3, dim),
    "cat": lambda x, dim: gc.cat([x, x * 2], dim),
    "stack": lambda x, dim: gc.stack([x, x * 2], dim),
    "index_select": lambda x, dim: x.index_select(dim, gc.tensor([0, 2, 2])),
    "gather": lambda x, dim: x.gather(dim, (x > 0).long()),
    "unbind": lambda x, dim: x.unbind(dim)[1],
    "diff": lambda x, dim: x.diff(dim=dim),
    "glu": lambda x, dim: F.glu(gc.cat([x, x.sin()], dim), dim),
}


def run(function: Callable[..., Any], x: np.ndarray[Any, Any], dim: int) -> list[Any]:
    t = gc.tensor(x, requires_grad=True)
    out = function(t, dim)
    weights = gc.tensor(np.cos(np.arange(out.numel())).reshape(out.shape).astype(x.dtype))
    (grad,) = gc.autograd.grad((out * weights).sum(), t)
    return [out.detach().numpy(), grad.numpy()]


@pytest.mark.parametrize("order", ["rows", "columns"])
@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("function", ALONG.values(), ids=ALONG)
def test_a_dim_may_be_counted_from_either_end(function: Callable[..., Any], dim: int, order: str) -> None:
    x = np.random.default_rng(0).standard_normal(SHAPE)
    if order == "columns":
        x = np.asfortranarray(x)
    shift = 4 if function is ALONG["stack"] else 3
    for a, b in zip(run(function, x, dim), run(function, x, dim - shift), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("function", ALONG.values(), ids=ALONG)
def test_large_and_small_agree(function: Callable[..., Any], dim: int) -> None:
    """Each slice along the dim, computed by itself, gives its part of the whole."""
    x = np.random.default_rng(1).standard_normal(SHAPE)
    whole = run(lambda t, d: function(t, d).double(), x, dim)[0]
    other = (dim + 1) % 3
    for k in (0, x.shape[other] - 1):
        part = np.take(x, [k], other)
        axis = _axis_after(function, whole.ndim, dim, other)
        np.testing.assert_allclose(run(function, part, dim)[0], np.take(whole, [k], axis), rtol=1e-9, atol=1e-11)


def _axis_after(function: Callable[..., Any], ndim: int, dim: int, other: int) -> int:
    """Where the dim `other` of the input lies in the output."""
    if ndim == 3:
        return other
    return other - (other > dim) if ndim == 2 else other + (other >= dim)
