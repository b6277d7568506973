"""Steps of optimisers alone, with gradients that are there already."""

from typing import ClassVar

import numpy as np

from benchmarks.cases.base import Case, normal

SHAPES = {
    "many small": [(1000,)] * 200,
    "MLP": [(784, 256), (256,), (256, 128), (128,), (128, 10), (10,)],
    "large": [(1024, 1024)] * 9 + [(1024,)] * 20,
}


class OptimizerStep(Case, abstract=True):
    """A step of an optimiser; the number counts parameters: 200 of 1000 elements, an MLP's 6, or 29 with 9.5 million.

    The check compares the parameters after the first step.
    """

    group = "optimisers"
    differentiated = False
    tolerance = 1e-6
    sizes, large_sizes = (200, 6), (29,)
    optimizer: ClassVar[str] = ""
    options: ClassVar[dict] = {}
    skips: ClassVar = {"torch.compile": "only functions are compiled"}

    def inputs(self, random):
        shapes = next(s for s in SHAPES.values() if len(s) == self.size)
        parameters = tuple(normal(random, *s) for s in shapes)
        return parameters, tuple(normal(random, *s) for s in shapes)

    def torch_setup(self, T, tensors):
        parameters = [p.detach().clone().requires_grad_() for p in tensors[: self.size]]
        optimizer = getattr(T.optim, self.optimizer)(parameters, lr=1e-3, **self.options)
        for p, g in zip(parameters, tensors[self.size :], strict=True):
            p.grad = g

        def step():
            optimizer.step()
            return parameters

        return step

    def jax_setup(self, jax, arrays):
        """Return a step that is compiled as a whole; its arrays are new ones."""
        parameters, gradients = list(arrays[: self.size]), arrays[self.size :]
        states = [[p * 0 for p in parameters] for _ in range(2)]
        update = jax.jit(lambda p, g, s, k: self.jax_update(jax.numpy, p, g, s, k), donate_argnums=(0, 2))
        count = 0

        def step():
            nonlocal parameters, states, count
            count += 1
            parameters, states = update(parameters, gradients, states, np.float32(count))
            return parameters

        return step


class SGD(OptimizerStep):
    """Plain gradient descent."""

    optimizer = "SGD"
    jax_setup = None


class Momentum(OptimizerStep):
    """Gradient descent with momentum."""

    optimizer, options = "SGD", {"momentum": 0.9}

    def jax_update(self, np, parameters, gradients, states, count):
        buffers = [0.9 * b + g for b, g in zip(states[0], gradients, strict=True)]
        return [p - 1e-3 * b for p, b in zip(parameters, buffers, strict=True)], [buffers, states[1]]


class Adam(OptimizerStep):
    """Adam."""

    optimizer = "Adam"
    decay = 0.0

    def jax_update(self, np, parameters, gradients, states, count):
        first = [0.9 * m + 0.1 * g for m, g in zip(states[0], gradients, strict=True)]
        second = [0.999 * v + 0.001 * g * g for v, g in zip(states[1], gradients, strict=True)]
        c1, c2 = 1 - 0.9**count, 1 - 0.999**count
        keep = 1 - 1e-3 * self.decay
        updated = [
            keep * p - 1e-3 * (m / c1) / (np.sqrt(v / c2) + 1e-8)
            for p, m, v in zip(parameters, first, second, strict=True)
        ]
        return updated, [first, second]


class AdamW(Adam):
    """Adam with decoupled weight decay."""

    optimizer = "AdamW"
    decay = 0.01
