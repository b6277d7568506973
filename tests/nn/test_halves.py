"""Halves whose sums are larger than halves can be: values and gradients are those of float32, rounded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.nn import functional as F

NORMS: dict[str, Callable[[Any], Any]] = {
    "layer_norm": lambda x: F.layer_norm(x, (64,)),
    "group_norm": lambda x: F.group_norm(x, 4),
    "rms_norm": lambda x: F.rms_norm(x, (64,)),
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "instance_norm": lambda x: F.instance_norm(x[None])[0],
    "normalize": F.normalize,
    "std": lambda x: x.std(-1, keepdim=True).expand(-1, 64),
    "softmax": lambda x: x.softmax(-1),
}


def slope(function: Callable[[Any], Any], x: Any, weight: Any, again: bool = False) -> Any:
    x = x.detach().requires_grad_()
    (found,) = gc.autograd.grad((function(x).float() * weight).sum(), x, create_graph=again)
    return gc.autograd.grad((found.float() * weight).sum(), x)[0].float() if again else found.float()


@pytest.mark.parametrize("scale", [1.0, 400.0])
@pytest.mark.parametrize("dtype", [gc.float16, gc.bfloat16])
@pytest.mark.parametrize("name", NORMS)
def test_normalized_numbers_with_large_variances(name: str, dtype: Any, scale: float) -> None:
    gc.manual_seed(0)
    x, weight = (gc.randn(8, 64) * scale).to(dtype), gc.randn(8, 64)
    expected = slope(NORMS[name], x.float(), weight).numpy()
    bound = (0.05 if dtype is gc.float16 else 0.2) * np.abs(expected).max()
    np.testing.assert_allclose(slope(NORMS[name], x, weight).numpy(), expected, atol=bound)


@pytest.mark.parametrize("weights", [gc.float32, gc.float64, gc.bfloat16], ids=str)
def test_rms_norm_with_weights_of_another_dtype(weights: Any) -> None:
    """Squares of the input do not fit into halves."""
    gc.manual_seed(0)
    x, weight = (gc.randn(8, 64) * 1000).half(), gc.randn(64).to(weights)
    results = []
    for dtype in (gc.float16, gc.float64):
        inputs = x.to(dtype).requires_grad_(), weight.detach().clone().requires_grad_()
        out = F.rms_norm(inputs[0], (64,), inputs[1])
        assert out.dtype is dtype
        gradients = gc.autograd.grad(out, inputs, gc.ones_like(out))
        results.append([t.detach().double().numpy() for t in (out, gradients[0] * 1000, gradients[1])])
    for found, expected in zip(*results, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-2, atol=5e-3)


@pytest.mark.parametrize("dtype", [gc.float16, gc.bfloat16, gc.float32], ids=str)
def test_rms_norm_adds_the_epsilon_of_float32(dtype: Any) -> None:
    x = gc.tensor([[0.001, 0.002]], dtype=dtype)
    expected = (x.float() / (x.float().square().mean() + 2**-23).sqrt()).to(dtype)
    np.testing.assert_allclose(F.rms_norm(x, (2,)).float().numpy(), expected.float().numpy(), rtol=1e-6)


@pytest.mark.parametrize("name", ["layer_norm", "group_norm", "rms_norm", "batch_norm", "instance_norm"])
def test_second_derivatives_and_tangents(name: str) -> None:
    gc.manual_seed(0)
    x, weight = gc.randn(8, 64).half(), gc.randn(8, 64)
    for large in (x, x * 300):
        tangents = [
            gc.func.jvp(NORMS[name], (v,), (weight.to(v.dtype),))[1].float().numpy() for v in (large, large.float())
        ]
        np.testing.assert_allclose(*tangents, atol=0.05 * np.abs(tangents[1]).max())
    found, expected = (slope(NORMS[name], v, weight, True).numpy() for v in (x, x.float()))
    np.testing.assert_allclose(found, expected, atol=0.05 * np.abs(expected).max())


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize(("rows", "classes"), [(70_000, 2), (2, 70_000)], ids=["many rows", "many classes"])
def test_cross_entropy_of_many(rows: int, classes: int, reduction: str) -> None:
    x, target = gc.zeros(rows, classes, dtype=gc.float16, requires_grad=True), gc.zeros(rows, dtype=gc.int64)
    loss = F.cross_entropy(x, target, reduction=reduction)
    (found,) = gc.autograd.grad(loss, x, gc.tensor(1024.0, dtype=gc.float16))
    count = rows if reduction == "mean" else 1
    expected = np.full((rows, classes), 1024 / classes / count)
    expected[:, 0] -= 1024 / count
    np.testing.assert_allclose(found.double().numpy(), expected, rtol=2e-3, atol=1e-7)
    if reduction == "mean":
        assert abs(loss.item() - np.log(classes)) < 0.02


def test_nll_loss_of_many_rows() -> None:
    x, target = gc.full((70_000, 2), -1.0, dtype=gc.float16).requires_grad_(), gc.zeros(70_000, dtype=gc.int64)
    (found,) = gc.autograd.grad(F.nll_loss(x, target), x, gc.tensor(1024.0, dtype=gc.float16))
    np.testing.assert_allclose(found.double().numpy()[:, 0], np.full(70_000, -1024 / 70_000), rtol=2e-3)
