"""Orthogonal polynomials of high degrees beside PyTorch's."""

import numpy as np
import pytest

import gradcore as gc

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle
NAMES = [name for name in dir(gc.special) if "polynomial" in name and "laguerre" not in name and "legendre" not in name]


@pytest.mark.parametrize("name", NAMES)
def test_high_degrees(name: str) -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-1, 1, 30), [-2, -1, 0, 0.5, 1, 1 + 1e-7, -1 - 1e-7, 2, np.nan, np.inf]])
    for n in (1 << 17, (1 << 17) + 1, 300_000, 1_000_001):
        ours = getattr(gc.special, name)(gc.tensor(x), n).numpy()
        theirs = getattr(torch.special, name)(torch.tensor(x), n).numpy()
        near = ~(np.abs(theirs) < 1e-4)  # elsewhere the angle's last bit decides
        np.testing.assert_allclose(ours[near], theirs[near], rtol=1e-4)
