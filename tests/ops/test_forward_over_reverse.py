"""Second derivatives in both ways: backward run on duals gives what backward of backward gives."""

from __future__ import annotations

import numpy as np
import pytest

import gradcore as gc
from gradcore.autograd.forward_ad import dual_level, make_dual, unpack_dual
from tests.ops.cases import DIFFERENTIABLE, Drawn

#: The first two calls of each operation.
CASES = [case for case in DIFFERENTIABLE if case.label.endswith(("-0", "-1"))]


class Loss:
    """A scalar of all differentiable results of a call, by weights that stay the same."""

    def __init__(self, case: Drawn, rng: np.random.Generator) -> None:
        self.case, self.rng, self.weights = case, rng, {}

    def __call__(self, tensors: list[gc.Tensor]) -> gc.Tensor:
        total = gc.zeros((), dtype=gc.float64)
        for k, out in enumerate(self.case.outputs(tensors)):
            if out.requires_grad:
                if k not in self.weights:
                    self.weights[k] = gc.from_numpy(np.asarray(self.rng.standard_normal(out.shape)))
                real = (out * (1 - 0.5j)).real if out.is_complex() else out
                total = total + (real.double() * self.weights[k]).sum()
        return total


def direction(array: np.ndarray, rng: np.random.Generator) -> gc.Tensor:
    values = rng.standard_normal(array.shape)
    if array.dtype.kind == "c":
        values = values + 1j * rng.standard_normal(array.shape)
    return gc.from_numpy(np.asarray(values).astype(array.dtype))


def inner(a: gc.Tensor, b: gc.Tensor) -> gc.Tensor:
    product = a.conj() * b
    return (product.real if product.is_complex() else product).sum()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_forward_over_reverse_is_reverse_over_reverse(case: Drawn) -> None:
    rng = np.random.default_rng(0)
    arrays, chosen = case.arrays(), case.differentiable()
    tensors = [gc.from_numpy(np.array(a)).requires_grad_(i in chosen) for i, a in enumerate(arrays)]
    leaves = [tensors[i] for i in chosen]
    directions = {i: direction(arrays[i], rng) for i in chosen}
    loss = Loss(case, rng)
    value = loss(tensors)
    if not value.requires_grad:
        pytest.skip("no output that requires grad")
    gradients = gc.autograd.grad(value, leaves, create_graph=True, allow_unused=True)
    slopes = [
        inner(g, directions[i]) for g, i in zip(gradients, chosen, strict=True) if g is not None and g.requires_grad
    ]
    expected = gc.autograd.grad(sum(slopes), leaves, materialize_grads=True) if slopes else map(gc.zeros_like, leaves)
    with dual_level():
        duals = [make_dual(t, directions[i]) if i in chosen else t for i, t in enumerate(tensors)]
        found = gc.autograd.grad(loss(duals), leaves, materialize_grads=True)
        tangents = [unpack_dual(g).tangent for g in found]
    for tangent, reverse in zip(tangents, expected, strict=True):
        tangent = gc.zeros_like(reverse) if tangent is None else tangent
        np.testing.assert_allclose(tangent.detach().numpy(), reverse.detach().numpy(), rtol=1e-5, atol=1e-6)
