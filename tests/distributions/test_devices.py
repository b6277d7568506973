"""Every family on the test device: samples, densities and gradients stay there, and are those of the CPU."""

import numpy as np
import pytest

import gradcore as gc
from gradcore import distributions
from tests.distributions.families import EACH, IDS


@pytest.mark.parametrize(("name", "parameters"), EACH, ids=IDS)
def test_samples_densities_and_gradients(strict, name, parameters):
    there = {
        k: gc.tensor(v, device=strict, requires_grad=True) if isinstance(v, np.ndarray) else v
        for k, v in parameters.items()
    }
    here = {k: gc.tensor(v) if isinstance(v, np.ndarray) else v for k, v in parameters.items()}
    d = getattr(distributions, name)(**there)
    x = d.sample((3,))
    density = d.log_prob(x)
    assert x.device == density.device == strict
    assert gc.allclose(density.cpu(), getattr(distributions, name)(**here).log_prob(x.cpu()))
    if d.has_rsample:
        d.rsample((2,)).sum().backward()
        assert any(v.grad is not None for v in there.values() if isinstance(v, gc.Tensor))
