"""Elementwise chains, reductions and broadcasting: bound by memory and by the quality of loops."""

from benchmarks.cases.base import Case, normal, positive


class Arithmetic(Case):
    """Sums, products and a quotient of two vectors."""

    group, sizes, large_sizes = "elementwise", (100_000, 1_000_000), (10_000_000,)

    def inputs(self, random):
        return (positive(random, self.size), positive(random, self.size)), ()

    def torch_style(self, T, x, y):
        return (x * y + x / (y * y + 1) - 0.1 * y).sum()

    numpy_style = torch_style

    def by_hand(self, xp, x, y):
        q = 1 / (y * y + 1)
        xq = x * q
        return (x * y + xq - 0.1 * y).sum(), (y + q, x - 2 * y * xq * q - 0.1)


class Transcendental(Case):
    """Exponential, sine and logarithm of one vector."""

    group, sizes = "elementwise", (100_000, 1_000_000)

    def inputs(self, random):
        return (positive(random, self.size),), ()

    def torch_style(self, T, x):
        return (T.exp(-x * x) * T.sin(x) + T.log1p(x * x)).sum()

    def numpy_style(self, np, x):
        return (np.exp(-x * x) * np.sin(x) + np.log1p(x * x)).sum()

    def by_hand(self, xp, x):
        square, sine = x * x, xp.sin(x)
        bell = xp.exp(-square)
        loss = (bell * sine + xp.log1p(square)).sum()
        return loss, (bell * (xp.cos(x) - 2 * x * sine) + 2 * x / (1 + square),)


class MaskedChain(Case):
    """A chain through ReLU and sigmoid: masks on random signs."""

    group, sizes, large_sizes = "elementwise", (100_000, 1_000_000), (10_000_000,)

    def inputs(self, random):
        return (normal(random, self.size), positive(random, self.size)), ()

    def torch_style(self, T, x, b):
        h = T.relu(x * b + x)
        return (T.sigmoid(h) * h).sum()

    def numpy_style(self, np, x, b):
        h = np.maximum(x * b + x, 0)
        return (h / (1 + np.exp(-h))).sum()

    def by_hand(self, xp, x, b):
        h = xp.maximum(x * b + x, 0)
        s = 1 / (1 + xp.exp(-h))
        sh = s * h
        g = (s + sh * (1 - s)) * (h > 0)
        return sh.sum(), (g * b + g, g * x)


class Cube(Case):
    """A power with a small whole exponent."""

    group, sizes = "elementwise", (1_000_000,)

    def inputs(self, random):
        return (positive(random, self.size),), ()

    def torch_style(self, T, x):
        return (x**3).sum()

    numpy_style = torch_style

    def by_hand(self, xp, x):
        square = x * x
        return (square * x).sum(), (3 * square,)


class Sum(Case):
    """The sum of a vector."""

    group, sizes, large_sizes = "reductions", (1000, 1_000_000), (20_000_000,)

    def inputs(self, random):
        return (positive(random, self.size),), ()

    def torch_style(self, T, x):
        return x.sum()

    def numpy_style(self, np, x):
        return np.sum(x)

    def by_hand(self, xp, x):
        return x.sum(), (xp.ones_like(x),)


class ColumnSums(Case):
    """A sum over the rows of a square matrix."""

    group, sizes = "reductions", (1000,)

    def inputs(self, random):
        return (positive(random, self.size, self.size),), ()

    def torch_style(self, T, x):
        return (x.sum(dim=0) ** 2).sum()

    def numpy_style(self, np, x):
        return (x.sum(axis=0) ** 2).sum()

    def by_hand(self, xp, x):
        s = x.sum(axis=0)
        return (s * s).sum(), (xp.broadcast_to(2 * s, x.shape).copy(),)


class Variance(Case):
    """The variance of every row of a square matrix."""

    group, sizes = "reductions", (1000,)

    def inputs(self, random):
        return (normal(random, self.size, self.size),), ()

    def torch_style(self, T, x):
        return x.var(dim=1).sum()

    def numpy_style(self, np, x):
        return np.var(x, axis=1, ddof=1).sum()

    def by_hand(self, xp, x):
        deviation = x - x.mean(axis=1, keepdims=True)
        return (deviation * deviation).sum() / (self.size - 1), (deviation * (2 / (self.size - 1)),)


class LogSumExp(Case):
    """The logarithm of the sum of exponentials of every row of a square matrix."""

    group, sizes = "reductions", (1000,)

    def inputs(self, random):
        return (normal(random, self.size, self.size),), ()

    def torch_style(self, T, x):
        return T.logsumexp(x, dim=1).sum()

    def numpy_style(self, np, x):
        largest = np.max(x, axis=1, keepdims=True)
        return (np.log(np.sum(np.exp(x - largest), axis=1, keepdims=True)) + largest).sum()

    def jax_style(self, np, x):
        import jax

        return jax.nn.logsumexp(x, axis=1).sum()

    def by_hand(self, xp, x):
        largest = x.max(axis=1, keepdims=True)
        e = xp.exp(x - largest)
        total = e.sum(axis=1, keepdims=True)
        return (xp.log(total) + largest).sum(), (e / total,)


class ScaleAndShift(Case):
    """A square matrix with a row and a column: gradients are summed back over both directions."""

    group, sizes = "broadcasting", (1000,)

    def inputs(self, random):
        n = self.size
        return (positive(random, n, n), positive(random, n), positive(random, n, 1)), ()

    def torch_style(self, T, x, row, column):
        return ((x * row + column) * x).sum()

    numpy_style = torch_style

    def by_hand(self, xp, x, row, column):
        xr = x * row
        loss = ((xr + column) * x).sum()
        return loss, (2 * xr + column, (x * x).sum(axis=0), x.sum(axis=1, keepdims=True))


class Outer(Case):
    """Every pair of two vectors, through tanh."""

    group, sizes = "broadcasting", (30, 1000)

    def inputs(self, random):
        return (positive(random, self.size, 1), positive(random, self.size)), ()

    def torch_style(self, T, column, row):
        return (column * row).tanh().sum()

    def numpy_style(self, np, column, row):
        return np.tanh(column * row).sum()

    def by_hand(self, xp, column, row):
        y = xp.tanh(column * row)
        g = 1 - y * y
        return y.sum(), (g @ row[:, None], (column.T @ g)[0])


class LayerNorm(Case):
    """Rows of 256 elements brought to mean 0 and variance 1, then scaled and shifted, in plain ops."""

    group, sizes = "broadcasting", (1000,)
    epsilon = 1e-5

    def inputs(self, random):
        return (normal(random, self.size, 256), positive(random, 256), positive(random, 256)), ()

    def torch_style(self, T, x, scale, shift):
        centred = x - x.mean(dim=1, keepdim=True)
        variance = (centred * centred).mean(dim=1, keepdim=True)
        y = centred / T.sqrt(variance + self.epsilon) * scale + shift
        return (y * y).sum()

    def numpy_style(self, np, x, scale, shift):
        centred = x - np.mean(x, axis=1, keepdims=True)
        variance = np.mean(centred * centred, axis=1, keepdims=True)
        y = centred / np.sqrt(variance + self.epsilon) * scale + shift
        return (y * y).sum()

    def by_hand(self, xp, x, scale, shift):
        centred = x - x.mean(axis=1, keepdims=True)
        inverse = 1 / xp.sqrt((centred * centred).mean(axis=1, keepdims=True) + self.epsilon)
        unit = centred * inverse
        y = unit * scale + shift
        g = 2 * y
        gu = g * scale
        gx = gu - gu.mean(axis=1, keepdims=True) - unit * (gu * unit).mean(axis=1, keepdims=True)
        return (y * y).sum(), (gx * inverse, (g * unit).sum(axis=0), g.sum(axis=0))
