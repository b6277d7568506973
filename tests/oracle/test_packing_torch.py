"""Recurrent layers over sequences of different lengths, against PyTorch."""

import numpy as np
import pytest

import gradcore as gc

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.oracle


def _run(lib, kind, settings, state, padded, lengths, sort):
    layer = getattr(lib.nn, kind)(3, 4, dtype=lib.float64, batch_first=True, **settings)
    layer.load_state_dict({key: lib.tensor(value) for key, value in state.items()})
    x = lib.tensor(padded, requires_grad=True)
    rnn = lib.nn.utils.rnn
    output, last = layer(rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=not sort))
    again, back = rnn.pad_packed_sequence(output, batch_first=True, padding_value=-1.0)
    ends = last if isinstance(last, tuple) else (last,)
    (again.square().sum() + sum(h.sin().sum() for h in ends)).backward()
    gradients = [p.grad for p in layer.parameters()]
    return [t.detach().numpy() for t in (output.data, again, back, *ends, x.grad, *gradients)]


@pytest.mark.parametrize("lengths", [[5, 3, 3, 1], [1, 4, 5, 2]], ids=str)
@pytest.mark.parametrize("settings", [{}, {"num_layers": 2, "bidirectional": True}], ids=str)
@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_values_and_gradients(kind, settings, lengths):
    torch.manual_seed(0)
    state = getattr(torch.nn, kind)(3, 4, dtype=torch.float64, **settings).state_dict()
    state = {key: value.numpy() for key, value in state.items()}
    padded = np.random.default_rng(0).normal(size=(4, 5, 3))
    found = [_run(lib, kind, settings, state, padded, lengths, lengths[0] != 5) for lib in (gc, torch)]
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-12)
