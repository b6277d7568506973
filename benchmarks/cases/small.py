"""Little work an op: what a library costs beside the arithmetic."""

from typing import ClassVar

import numpy as np

from benchmarks.cases.base import Case, normal, positive

UNROLLED = "a Python loop is unrolled, which compiles for minutes"


class TanhSum(Case):
    """Three elementwise ops and a sum: at small sizes, what a library costs beside the arithmetic."""

    group, sizes = "tiny", (1, 100, 10_000)

    def inputs(self, random):
        return (positive(random, self.size), positive(random, self.size)), ()

    def torch_style(self, T, x, b):
        return (x * b + x).tanh().sum()

    def numpy_style(self, np, x, b):
        return np.tanh(x * b + x).sum()

    def by_hand(self, xp, x, b):
        y = xp.tanh(x * b + x)
        g = 1 - y * y
        return y.sum(), (g * b + g, g * x)


class Rosenbrock(Case):
    """Scalars with powers and Python numbers, as in textbook optimisation."""

    group, sizes = "tiny", (1,)

    def inputs(self, random):
        return (np.array(0.3, np.float32), np.array(0.7, np.float32)), ()

    def torch_style(self, T, x, y):
        return (1 - x) ** 2 + 100 * (y - x**2) ** 2

    numpy_style = torch_style

    def by_hand(self, xp, x, y):
        a, b = 1 - x, y - x * x
        return a * a + 100 * b * b, (-2 * a - 400 * x * b, 200 * b)


class Chain(Case):
    """Scalar ops that each wait for the one before: the cost of a node, and the depth that is possible."""

    group, sizes, large_sizes = "deep", (1000,), (100_000, 1_000_000)
    counts_nodes = True
    factor = 1 + 2.0**-20

    def __init__(self, size):
        super().__init__(size)
        # Every product is rounded, and all to the same side.
        self.tolerance = max(self.tolerance, size * 2.0**-24)

    def reason_to_skip(self, library, device):
        if library == "torch.compile":
            return UNROLLED
        if self.size > 10_000 and library.startswith("gradcore-compile"):
            return "a recording of so many calls takes gigabytes"
        if self.size > 100_000 and (device != "cpu" or library == "autograd"):
            return "takes minutes"
        return None

    def inputs(self, random):
        return (np.array(0.5, np.float32),), ()

    def torch_style(self, T, x):
        for _ in range(self.size):
            x = x * self.factor
        return x

    numpy_style = torch_style

    def jax_style(self, np, x):
        from jax import lax

        return lax.fori_loop(0, self.size, lambda i, y: y * self.factor, x)

    def by_hand(self, xp, x):
        gradient = xp.ones_like(x)
        for _ in range(self.size):
            x = x * self.factor
        for _ in range(self.size):
            gradient = gradient * self.factor
        return x, (gradient,)


class SharedFactor(Case):
    """A chain in which one leaf meets every op: a thousand contributions to one gradient."""

    group, sizes = "fan-out", (1000,)
    counts_nodes = True
    skips: ClassVar = {"torch.compile": UNROLLED}

    def inputs(self, random):
        return (np.array(0.5, np.float32), np.array(1.001, np.float32)), ()

    def torch_style(self, T, x, w):
        for _ in range(self.size):
            x = x * w
        return x

    numpy_style = torch_style

    def jax_style(self, np, x, w):
        from jax import lax

        return lax.fori_loop(0, self.size, lambda i, y: y * w, x)

    def by_hand(self, xp, x, w):
        saved = []
        for _ in range(self.size):
            saved.append(x)
            x = x * w
        g, w_gradient = xp.ones_like(x), xp.zeros_like(w)
        for y in reversed(saved):
            w_gradient = w_gradient + g * y
            g = g * w
        return x, (g, w_gradient)


class ManyUses(Case):
    """One value that `size` ops read: their gradients meet in one place."""

    group, sizes = "fan-out", (1000,)
    skips: ClassVar = {"torch.compile": UNROLLED}

    def inputs(self, random):
        return (positive(random, 100),), ()

    def torch_style(self, T, x):
        y = x * x
        total = y
        for k in range(self.size):
            total = total + y * (1 + k / self.size)
        return total.sum()

    numpy_style = torch_style

    def jax_style(self, np, x):
        from jax import lax

        y = x * x
        return lax.fori_loop(0, self.size, lambda k, total: total + y * (1 + k / self.size), y).sum()

    def by_hand(self, xp, x):
        y = x * x
        total, factor = y, 1.0
        for k in range(self.size):
            total = total + y * (1 + k / self.size)
        for k in range(self.size):
            factor = factor + (1 + k / self.size)
        return total.sum(), (2 * factor * x,)


class Diamonds(Case):
    """A ladder in which every value is used twice: 2 to the power of `size` paths, and `size` additions."""

    group, sizes = "fan-out", (1000,)
    counts_nodes = True
    skips: ClassVar = {"torch.compile": UNROLLED}

    def inputs(self, random):
        return (positive(random),), ()

    def torch_style(self, T, x):
        for _ in range(self.size):
            x = x * 0.25 + x * 0.75
        return x

    numpy_style = torch_style

    def jax_style(self, np, x):
        from jax import lax

        return lax.fori_loop(0, self.size, lambda k, y: y * 0.25 + y * 0.75, x)

    def by_hand(self, xp, x):
        g = xp.ones_like(x)
        for _ in range(self.size):
            x = x * 0.25 + x * 0.75
        for _ in range(self.size):
            g = g * 0.25 + g * 0.75
        return x, (g,)


class Recurrent(Case):
    """A recurrent net in a Python loop, `size` steps of a batch of 8."""

    group, sizes = "recurrent", (100,)
    skips: ClassVar = {"torch.compile": UNROLLED}

    def inputs(self, random):
        weights = normal(random, 16, 32) / 4, normal(random, 32, 32) / 8, normal(random, 32)
        return weights, (normal(random, self.size, 8, 16), np.zeros((8, 32), np.float32))

    def torch_style(self, T, w, u, b, xs, h):
        for x in xs:
            h = (x @ w + h @ u + b).tanh()
        return (h * h).sum()

    def numpy_style(self, np, w, u, b, xs, h):
        for x in xs:
            h = np.tanh(x @ w + h @ u + b)
        return (h * h).sum()

    def jax_style(self, np, w, u, b, xs, h):
        from jax import lax

        h, _ = lax.scan(lambda h, x: (np.tanh(x @ w + h @ u + b), None), h, xs)
        return (h * h).sum()

    def by_hand(self, xp, w, u, b, xs, h):
        states = [h]
        for x in xs:
            states.append(xp.tanh(x @ w + states[-1] @ u + b))
        last = states.pop()
        loss, g = (last * last).sum(), 2 * last
        gw, gu, gb = xp.zeros_like(w), xp.zeros_like(u), xp.zeros_like(b)
        for x, before, after in zip(xs[::-1], states[::-1], [last, *states[:0:-1]], strict=True):
            g = g * (1 - after * after)
            gw += x.T @ g
            gu += before.T @ g
            gb += g.sum(0)
            g = g @ u.T
        return loss, (gw, gu, gb)
