"""Sums of squares of many numbers keep their digits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradcore as gc

F = gc.nn.functional
#: What is a function of the sum of the squares, and that function.
FUNCTIONS: dict[str, tuple[Callable[[Any], Any], Callable[[float, int], float]]] = {
    "norm": (lambda x: x.norm(), lambda s, n: s**0.5),
    "vector_norm": (gc.linalg.vector_norm, lambda s, n: s**0.5),
    "dot": (lambda x: x.dot(x), lambda s, n: s),
    "vdot": (lambda x: gc.vdot(x, x), lambda s, n: s),
    "matmul": (lambda x: x @ x, lambda s, n: s),
    "mse_loss": (lambda x: F.mse_loss(x, gc.zeros_like(x)), lambda s, n: s / n),
    "mse_loss sum": (lambda x: F.mse_loss(x, gc.zeros_like(x), reduction="sum"), lambda s, n: s),
    "huber_loss": (lambda x: F.huber_loss(x, gc.zeros_like(x), delta=10), lambda s, n: s / n / 2),
    "smooth_l1_loss": (lambda x: F.smooth_l1_loss(x, gc.zeros_like(x), beta=10), lambda s, n: s / n / 20),
    "clip_grad_norm_": (lambda x: gc.nn.utils.get_total_norm([x]), lambda s, n: s**0.5),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("n", [1 << 14, 5_000_001])
def test_sums_of_squares(name: str, n: int) -> None:
    values = np.random.default_rng(n).random(n, dtype="float32")
    function, of_sum = FUNCTIONS[name]
    exact = of_sum(float(np.sum(values.astype("float64") ** 2)), n)
    assert float(function(gc.from_numpy(values))) == pytest.approx(exact, rel=1e-6)
    strided = np.repeat(values, 2)[::2]
    assert float(function(gc.from_numpy(strided))) == pytest.approx(exact, rel=1e-6)
