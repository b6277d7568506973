"""Pruned parameters against PyTorch."""

import numpy as np
import pytest

import gradcore as gc

torch = pytest.importorskip("torch")
pytest.importorskip("torch.nn.utils.prune")

pytestmark = pytest.mark.oracle

#: Prunings that are not random, one after the other.
PROGRAMS = [
    [("l1_unstructured", (5,))],
    [("l1_unstructured", (0.4,)), ("l1_unstructured", (0.4,))],
    [("ln_structured", (1, 2, 0)), ("ln_structured", (0.5, 1, 1)), ("l1_unstructured", (2,))],
    [("l1_unstructured", (2,)), ("ln_structured", (1, float("inf"), 1))],
    [("identity", ()), ("ln_structured", (2, "fro", -1))],
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: "-".join(name for name, _ in program))
def test_masks_weights_and_gradients(program):
    weight = np.random.default_rng(0).normal(size=(4, 6))
    found = []
    for lib in (gc, torch):
        layer = lib.nn.Linear(6, 4, bias=False, dtype=lib.float64)
        layer.load_state_dict({"weight": lib.tensor(weight)})
        for name, arguments in program:
            getattr(lib.nn.utils.prune, name)(layer, "weight", *arguments)
        layer(lib.ones(1, 6, dtype=lib.float64)).square().sum().backward()
        found.append([layer.weight_mask, layer.weight.detach(), layer.weight_orig.grad])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-12)
