"""Matrix products, indexing and parts of models: close to what training does."""

import numpy as np

from benchmarks.cases.base import Case, normal, positive


class MatMul(Case):
    """The product of two square matrices."""

    group, sizes, large_sizes = "matmul", (64, 256), (1024,)

    def inputs(self, random):
        return (normal(random, self.size, self.size), normal(random, self.size, self.size)), ()

    def torch_style(self, T, a, b):
        c = a @ b
        return (c * c).sum()

    numpy_style = torch_style

    def by_hand(self, xp, a, b):
        c = a @ b
        g = 2 * c
        return (c * c).sum(), (g @ b.swapaxes(-1, -2), a.swapaxes(-1, -2) @ g)


class BatchedMatMul(MatMul):
    """32 products of square matrices."""

    sizes, large_sizes = (64,), ()

    def inputs(self, random):
        shape = (32, self.size, self.size)
        return (normal(random, *shape), normal(random, *shape)), ()


class Embedding(Case):
    """4096 rows picked from a table of `size` rows, some of them several times."""

    group, sizes = "indexing", (10_000,)

    def inputs(self, random):
        return (normal(random, self.size, 64),), (random.integers(0, self.size, 4096),)

    def torch_style(self, T, table, rows):
        picked = table[rows]
        return (picked * picked).sum()

    numpy_style = torch_style

    def by_hand(self, xp, table, rows):
        picked = table[rows]
        gradient = xp.zeros_like(table)
        xp.add.at(gradient, rows, 2 * picked)
        return (picked * picked).sum(), (gradient,)


class Attention(Case):
    """Four heads of attention over `size` places of 64 features."""

    group, sizes = "models", (128,)

    def inputs(self, random):
        return tuple(normal(random, 4, self.size, 64) for _ in range(3)), ()

    def torch_style(self, T, q, k, v):
        out = T.softmax(q @ k.transpose(-2, -1) / 8, dim=-1) @ v
        return (out * out).sum()

    def numpy_style(self, np, q, k, v):
        scores = q @ np.swapaxes(k, -2, -1) / 8
        e = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
        out = e / np.sum(e, axis=-1, keepdims=True) @ v
        return (out * out).sum()

    def jax_style(self, np, q, k, v):
        import jax

        out = jax.nn.softmax(q @ np.swapaxes(k, -2, -1) / 8) @ v
        return (out * out).sum()

    def by_hand(self, xp, q, k, v):
        scores = q @ k.swapaxes(-2, -1) / 8
        e = xp.exp(scores - scores.max(axis=-1, keepdims=True))
        p = e / e.sum(axis=-1, keepdims=True)
        out = p @ v
        g = 2 * out
        gp = g @ v.swapaxes(-2, -1)
        gs = p * (gp - (gp * p).sum(axis=-1, keepdims=True)) / 8
        return (out * out).sum(), (gs @ k, gs.swapaxes(-2, -1) @ q, p.swapaxes(-2, -1) @ g)


class MLPStep(Case):
    """One training step of a 784-256-128-10 net on a batch of `size`, with a plain update."""

    group, sizes, large_sizes = "models", (64,), (1024,)
    learning_rate = 1e-12

    def inputs(self, random):
        layers = (784, 256), (256, 128), (128, 10)
        parameters = []
        for fan_in, fan_out in layers:
            scale = np.float32(fan_in**-0.5)
            parameters += [scale * normal(random, fan_in, fan_out), positive(random, fan_out)]
        return tuple(parameters), (normal(random, self.size, 784), random.integers(0, 10, self.size))

    def torch_style(self, T, w1, b1, w2, b2, w3, b3, x, labels):
        x = T.relu(x @ w1 + b1)
        x = T.relu(x @ w2 + b2)
        return T.nn.functional.cross_entropy(x @ w3 + b3, labels)

    def numpy_style(self, np, w1, b1, w2, b2, w3, b3, x, labels):
        x = np.maximum(x @ w1 + b1, 0)
        x = np.maximum(x @ w2 + b2, 0)
        scores = x @ w3 + b3
        scores = scores - np.max(scores, axis=1, keepdims=True)
        chosen = scores[np.arange(self.size), labels]
        return np.mean(np.log(np.sum(np.exp(scores), axis=1)) - chosen)

    def by_hand(self, xp, w1, b1, w2, b2, w3, b3, x, labels):
        rows = xp.arange(self.size)
        h1 = xp.maximum(x @ w1 + b1, 0)
        h2 = xp.maximum(h1 @ w2 + b2, 0)
        scores = h2 @ w3 + b3
        scores -= scores.max(axis=1, keepdims=True)
        e = xp.exp(scores)
        total = e.sum(axis=1, keepdims=True)
        loss = (xp.log(total[:, 0]) - scores[rows, labels]).mean()
        g3 = e / total
        g3[rows, labels] -= 1
        g3 /= self.size
        g2 = (g3 @ w3.T) * (h2 > 0)
        g1 = (g2 @ w2.T) * (h1 > 0)
        return loss, (x.T @ g1, g1.sum(axis=0), h1.T @ g2, g2.sum(axis=0), h2.T @ g3, g3.sum(axis=0))
