"""Weights that stay orthogonal: the same as PyTorch's from the same state."""

import numpy as np
import pytest

import gradcore as gc

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.oracle


@pytest.mark.parametrize("trivialized", [True, False])
@pytest.mark.parametrize("name", ["matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 4)])
def test_weights_and_gradients(shape, name, trivialized):
    torch.manual_seed(0)
    layers = [
        lib.nn.utils.parametrizations.orthogonal(
            lib.nn.Linear(*shape, dtype=lib.float64), orthogonal_map=name, use_trivialization=trivialized
        )
        for lib in (torch, gc)
    ]
    with torch.no_grad():
        below = torch.randn(*shape[::-1], dtype=torch.float64)
        layers[0].parametrizations.weight.original.add_(below.tril(-1) if shape[0] <= shape[1] else below.triu(1))
    layers[1].load_state_dict({key: gc.tensor(value.numpy()) for key, value in layers[0].state_dict().items()})
    weights = [layer.weight for layer in layers]
    np.testing.assert_allclose(weights[1].detach().numpy(), weights[0].detach().numpy(), atol=1e-12)
    for weight in weights:
        (weight * weight.cumsum(0)).sum().backward()
    gradients = [layer.parametrizations.weight.original.grad.numpy() for layer in layers]
    np.testing.assert_allclose(gradients[1], gradients[0], atol=1e-10)
