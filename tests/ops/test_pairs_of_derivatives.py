"""No second derivative is lost, whichever tensors require grad.

A gradient that depends on an input, or on an upstream gradient, has to require grad where that one does. So of every
operation each gradient is differentiated by each input and by each upstream gradient, where no other tensor requires
grad, and compared with finite differences of the gradient.
"""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from tests.ops.cases import DIFFERENTIABLE, Drawn, Symmetric
from tests.ops.directions import STEP, inner, random


class Gradients:
    """The gradients of one call, with inputs and upstream gradients that may be moved along fixed directions."""

    def __init__(self, case: Drawn) -> None:
        self.case, self.arrays, self.places = case, case.arrays(), case.differentiable()
        rng = np.random.default_rng(11)
        self.weights: list[Any] = []
        outs = self.outputs(self.tensors(()))
        self.weights = [random(rng, tuple(o.shape), np.complex128 if o.is_complex() else np.float64) for o in outs]
        values = [*self.arrays, *self.weights]
        self.directions = [random(rng, v.shape, v.dtype) for v in values]
        for i, array in enumerate(self.arrays):
            if isinstance(array, Symmetric):
                self.directions[i] = self.directions[i] + self.directions[i].swapaxes(-1, -2)
        self.probes = {i: random(rng, self.arrays[i].shape, self.arrays[i].dtype) for i in self.places}
        #: What a gradient may depend on: inputs, and after them upstream gradients.
        self.movable = [*self.places, *range(len(self.arrays), len(values))]

    def perturb(self, number: int, change: tuple[int, float] | None) -> Any:
        value = [*self.arrays, *self.weights][number]
        if change is not None and change[0] == number:
            value = value + change[1] * self.directions[number]
        return np.array(value)

    def tensors(self, tracked: tuple[int, ...], change: tuple[int, float] | None = None) -> list[Any]:
        return [gc.tensor(self.perturb(i, change), requires_grad=i in tracked) for i in range(len(self.arrays))]

    def outputs(self, tensors: list[Any]) -> list[Any]:
        outs = self.case.outputs(tensors)
        return [o for o in outs if o.dtype.is_floating_point or o.is_complex()]

    def gradient(self, by: int, also: int, change: tuple[int, float] | None = None, recorded: bool = False) -> Any:
        """Return the gradient by input `by` and, if `recorded`, the tensor of number `also`, which requires grad."""
        tracked = (by, also) if recorded else (by,)
        tensors = self.tensors(tracked, change)
        outs = self.outputs(tensors)
        n = len(self.arrays)
        weights = [
            gc.tensor(self.perturb(n + k, change), dtype=out.dtype, requires_grad=n + k in tracked)
            for k, out in enumerate(outs)
        ]
        pairs = [(o, w) for o, w in zip(outs, weights, strict=True) if o.requires_grad]
        if not pairs:
            return None, None
        (grad,) = gc.autograd.grad(
            [o for o, _ in pairs], tensors[by], [w for _, w in pairs], create_graph=recorded, allow_unused=True
        )
        return grad, [*tensors, *weights][also]

    def slope(self, by: int, of: int) -> float:
        """Return the derivative of the gradient by `by` with respect to tensor `of`, by reverse mode."""
        grad, leaf = self.gradient(by, of, recorded=True)
        if grad is None or not grad.requires_grad:
            return 0.0
        (second,) = gc.autograd.grad(grad, leaf, gc.tensor(self.probes[by], dtype=grad.dtype), allow_unused=True)
        return 0.0 if second is None else inner(np.array(second.resolve_conj()), self.directions[of])

    def difference(self, by: int, of: int) -> float:
        """Return the same by finite differences."""
        sides = [self.gradient(by, of, (of, sign * STEP))[0] for sign in (1, -1)]
        if sides[0] is None or sides[1] is None:
            return 0.0
        values = [inner(self.probes[by], np.array(side.resolve_conj())) for side in sides]
        return (values[0] - values[1]) / (2 * STEP)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("case", [pytest.param(c, id=c.label) for c in DIFFERENTIABLE])
def test_each_gradient_follows_each_tensor(case: Drawn) -> None:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        gradients = Gradients(case)
        for by in gradients.places:
            for of in gradients.movable:
                try:
                    found = gradients.slope(by, of)
                except (RuntimeError, NotImplementedError) as error:
                    if not re.search("not differentiable|not implemented", str(error)):
                        raise
                    continue
                expected = gradients.difference(by, of)
                if np.isfinite(expected):
                    message = f"gradient by {by}, of which tensor {of} is moved"
                    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-5, err_msg=message)
