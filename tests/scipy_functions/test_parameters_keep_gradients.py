"""Parameters that SciPy and NumPy take as numbers keep their gradients as tensors, with the values of numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradcore as gc
import gradcore.numpy as gnp
from gradcore.scipy import signal, spatial, stats

pytest.importorskip("scipy", minversion="1.17")

P = gc.tensor([0.2, 0.3, 0.5], dtype=gc.float64)
Q = gc.tensor([0.4, 0.4, 0.2], dtype=gc.float64)
X = gc.tensor([0.1, 0.4, 0.45, 0.8, 0.9], dtype=gc.float64)
EDGES = gc.tensor([0.0, 0.35, 1.0], dtype=gc.float64)
SPECTRUM = gc.ones(5, 4, dtype=gc.complex128)

CALLS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "entropy by base": (lambda b: stats.entropy(P, base=b), 2.5),
    "jensenshannon by base": (lambda b: spatial.distance.jensenshannon(P, Q, b), 2.5),
    "istft by fs": (lambda fs: signal.istft(SPECTRUM, fs=fs, nperseg=8)[0], 2.0),
    "histogram by range": (lambda r: gnp.histogram(X, 3, range=(r, 2 * r))[1], 0.05),
    "histogram_bin_edges by range": (lambda r: gnp.histogram_bin_edges(X, 3, range=(0.0, r)), 1.5),
    "histogram2d by bins": (lambda s: gnp.histogram2d(X, X, bins=EDGES * s)[1], 1.0),
    "histogram2d by each bins": (lambda s: gnp.histogram2d(X, X, bins=[EDGES * s, EDGES])[1], 1.0),
}


@pytest.mark.parametrize("name", CALLS)
def test_parameters_keep_gradients(name: str) -> None:
    function, value = CALLS[name]
    parameter = gc.tensor(value, dtype=gc.float64, requires_grad=True)
    out = function(parameter)
    assert out.requires_grad
    if "histogram2d" not in name:  # which takes no numbers in the place of tensors here
        np.testing.assert_allclose(out.detach().numpy(), function(value).numpy())
    assert gc.autograd.gradcheck(function, parameter, check_forward_ad=True)
