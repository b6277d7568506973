"""Training steps of recurrent layers, whose steps no library leaves to Python, and the loss of label sequences."""

from math import prod
from typing import ClassVar

import numpy as np

from benchmarks.cases.base import Case, normal


class RecurrentStep(Case, abstract=True):
    """Forward and backward of a layer of `kind`, for `size` steps of a batch; all of its parameters have gradients."""

    group = "recurrent layers"
    kind: ClassVar[str]
    gates: ClassVar[int]
    batch, features, width, layers, directions = 1, 32, 64, 1, 1
    skips: ClassVar = {"torch.compile": "it calls the same kernels"}

    def shapes(self) -> list[tuple[int, ...]]:
        """Return the shapes of the parameters, in the order of the modules."""
        rows, found = self.gates * self.width, []
        for layer in range(self.layers):
            features = self.width * self.directions if layer else self.features
            found += [(rows, features), (rows, self.width), (rows,), (rows,)] * self.directions
        return found

    @property
    def flops(self):
        return 6 * self.size * self.batch * sum(prod(shape) for shape in self.shapes() if len(shape) == 2)

    def inputs(self, random):
        scale = np.float32(self.width**-0.5)
        parameters = tuple(scale * normal(random, *shape) for shape in self.shapes())
        return parameters, (normal(random, self.size, self.batch, self.features),)

    def torch_setup(self, T, tensors):
        *parameters, x = tensors
        make = getattr(T.nn, self.kind)
        net = make(self.features, self.width, self.layers, bidirectional=self.directions > 1).to(x.device)
        for p, value in zip(net.parameters(), parameters, strict=True):
            p.data = value.detach().clone()

        def step():
            net.zero_grad()
            states, _ = net(x)
            loss = (states * states).mean()
            loss.backward()
            return loss, *(p.grad for p in net.parameters())

        return step

    def jax_style(self, np, *arrays):
        import jax
        from jax import lax

        *parameters, x = arrays
        for layer in range(self.layers):
            found = []
            for direction in range(self.directions):
                first = 4 * (self.directions * layer + direction)
                w, u, b, c = parameters[first : first + 4]
                inputs = (x[::-1] if direction else x) @ w.T + b
                states = lax.scan(jax_steps(self.kind, jax, u, c), np.zeros((2, self.batch, self.width)), inputs)[1]
                found.append(states[::-1] if direction else states)
            x = np.concatenate(found, -1)
        return (x * x).mean()


def jax_steps(kind, jax, u, c):
    """One step of a layer, of the products of its inputs, for ``lax.scan``."""
    sigmoid, np = jax.nn.sigmoid, jax.numpy

    def step(state, given):
        h, cell = state
        own = h @ u.T + c
        if kind == "RNN":
            h = np.tanh(given + own)
        elif kind == "GRU":
            (r, z, n), (r_, z_, n_) = np.split(given, 3, -1), np.split(own, 3, -1)
            z = sigmoid(z + z_)
            h = (1 - z) * np.tanh(n + sigmoid(r + r_) * n_) + z * h
        else:
            i, f, g, o = np.split(given + own, 4, -1)
            cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(cell)
        return np.stack([h, cell]), h

    return step


class LSTMOfOne(RecurrentStep):
    """A single sequence of `size` steps."""

    kind, gates, sizes = "LSTM", 4, (200,)


class LSTMStep(RecurrentStep):
    """32 sequences of `size` steps."""

    kind, gates, sizes = "LSTM", 4, (50,)
    batch, features, width = 32, 64, 128


class DeepLSTMStep(RecurrentStep):
    """Two layers in both directions, 16 sequences of `size` steps."""

    kind, gates, sizes = "LSTM", 4, (30,)
    batch, layers, directions = 16, 2, 2


class GRUOfOne(RecurrentStep):
    """A single sequence of `size` steps."""

    kind, gates, sizes = "GRU", 3, (200,)


class GRUStep(RecurrentStep):
    """32 sequences of `size` steps."""

    kind, gates, sizes = "GRU", 3, (50,)
    batch, features, width = 32, 64, 128


class RNNStep(RecurrentStep):
    """32 sequences of `size` steps."""

    kind, gates, sizes = "RNN", 1, (50,)
    batch, features, width = 32, 64, 128


class CTC(Case):
    """The loss of labels of 8 sequences of `size` steps, of 50 classes."""

    group, sizes, large_sizes = "recurrent layers", (50,), (200,)

    def inputs(self, random):
        length = self.size // 5
        labels = random.integers(1, 50, (8, length))
        return (normal(random, self.size, 8, 50),), (labels, np.full(8, self.size), np.full(8, length))

    def torch_style(self, T, scores, labels, inputs, lengths):
        F = T.nn.functional
        return F.ctc_loss(F.log_softmax(scores, 2), labels, inputs, lengths)
