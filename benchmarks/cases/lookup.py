"""Indexing, embedding and scattering; sorting and cumulative sums."""

import numpy as np

from benchmarks.cases.base import Case, normal, positive


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


class EmbeddingFunction(Embedding):
    """The same by the library's function for embeddings."""

    def torch_style(self, T, table, rows):
        picked = T.nn.functional.embedding(rows, table)
        return (picked * picked).sum()

    numpy_style = by_hand = None

    def jax_style(self, np, table, rows):
        picked = np.take(table, rows, axis=0)
        return (picked * picked).sum()


class Slices(Case):
    """Basic indices: strided parts of a square matrix."""

    group, sizes = "indexing", (1000,)

    def inputs(self, random):
        return (positive(random, self.size, self.size),), ()

    def torch_style(self, T, x):
        return (x[1:, ::2] * x[:-1, 1::2]).sum() + (x[5] * x[:, 7]).sum()

    numpy_style = torch_style

    def by_hand(self, xp, x):
        g = xp.zeros_like(x)
        g[1:, ::2] += x[:-1, 1::2]
        g[:-1, 1::2] += x[1:, ::2]
        g[5] += x[:, 7]
        g[:, 7] += x[5]
        return (x[1:, ::2] * x[:-1, 1::2]).sum() + (x[5] * x[:, 7]).sum(), (g,)


class Gather(Case):
    """For every one of `size` rows of a matrix, 100 elements by their columns."""

    group, sizes, large_sizes = "indexing", (10, 1000), (20_000,)

    def inputs(self, random):
        return (normal(random, self.size, 1000),), (random.integers(0, 1000, (self.size, 100)),)

    def torch_style(self, T, x, columns):
        picked = T.gather(x, 1, columns)
        return (picked * picked).sum()

    def jax_style(self, np, x, columns):
        picked = np.take_along_axis(x, columns, 1)
        return (picked * picked).sum()


class IndexSelect(Embedding):
    """A quarter of the rows of a table of `size` rows, some of them several times, by `index_select`."""

    sizes, large_sizes = (100, 10_000), (200_000,)

    def inputs(self, random):
        return (normal(random, self.size, 64),), (random.integers(0, self.size, self.size // 4),)

    def torch_style(self, T, table, rows):
        picked = T.index_select(table, 0, rows)
        return (picked * picked).sum()

    numpy_style = None
    jax_style = EmbeddingFunction.jax_style


class ScatterAdd(Case):
    """`size` numbers summed into 1000 bins."""

    group, sizes, large_sizes = "indexing", (1000, 100_000), (5_000_000,)

    def inputs(self, random):
        return (positive(random, self.size),), (random.integers(0, 1000, self.size), np.zeros(1000, np.float32))

    def torch_style(self, T, x, bins, zeros):
        sums = zeros.index_add(0, bins, x)
        return (sums * sums).sum()

    def jax_style(self, np, x, bins, zeros):
        sums = zeros.at[bins].add(x)
        return (sums * sums).sum()

    def by_hand(self, xp, x, bins, zeros):
        sums = xp.bincount(bins, x, 1000)
        return (sums * sums).sum(), (2 * sums[bins].astype(x.dtype),)


class Scatter(Case):
    """A matrix in which 100 elements of every one of `size` rows are replaced."""

    group, sizes, large_sizes = "indexing", (10, 1000), (20_000,)

    def inputs(self, random):
        columns = np.argsort(random.random((self.size, 200)), 1)[:, :100]  # each once
        return (normal(random, self.size, 200), normal(random, self.size, 100)), (columns,)

    def torch_style(self, T, x, values, columns):
        replaced = x.scatter(1, columns, values)
        return (replaced * replaced).sum()

    def jax_style(self, np, x, values, columns):
        replaced = x.at[np.arange(self.size)[:, None], columns].set(values)
        return (replaced * replaced).sum()


class Masked(Case):
    """The positive elements of a vector."""

    group, sizes = "indexing", (100_000,)

    def inputs(self, random):
        return (normal(random, self.size),), ()

    def torch_style(self, T, x):
        y = x[x > 0]
        return (y * y).sum()

    def by_hand(self, xp, x):
        y = xp.maximum(x, 0)
        return (y * y).sum(), (2 * y,)


class Sort(Case):
    """A sorted vector."""

    group, sizes, large_sizes = "sorting", (10_000,), (1_000_000,)

    def inputs(self, random):
        different = random.permutation(self.size).astype(np.float32)  # ties would have gradients in any order
        return (different,), (positive(random, self.size),)

    def torch_style(self, T, x, w):
        return (T.sort(x)[0] * w).sum()

    def jax_style(self, np, x, w):
        return (np.sort(x) * w).sum()

    def by_hand(self, xp, x, w):
        order = xp.argsort(x)
        gradient = xp.empty_like(x)
        gradient[order] = w
        return (x[order] * w).sum(), (gradient,)


class SortRows(Sort):
    """The sorted rows of a `size` by 100 matrix."""

    sizes, large_sizes = (1000,), ()

    def inputs(self, random):
        return (normal(random, self.size, 100),), (positive(random, self.size, 100),)

    def torch_style(self, T, x, w):
        return (T.sort(x, dim=1)[0] * w).sum()

    by_hand = None


class TopK(Case):
    """The 10 largest elements of every row of a `size` by 1000 matrix."""

    group, sizes = "sorting", (256,)

    def inputs(self, random):
        return (normal(random, self.size, 1000),), ()

    def torch_style(self, T, x):
        largest = T.topk(x, 10, dim=1)[0]
        return (largest * largest).sum()

    def jax_style(self, np, x):
        from jax import lax

        largest = lax.top_k(x, 10)[0]
        return (largest * largest).sum()


class CumSum(Case):
    """Cumulative sums of a vector."""

    group, sizes = "sorting", (1_000_000,)
    tolerance = 1e-3

    def inputs(self, random):
        return (normal(random, self.size),), (normal(random, self.size) / 1000,)

    def torch_style(self, T, x, w):
        return (T.cumsum(x, 0) * w).sum()

    def jax_style(self, np, x, w):
        return (np.cumsum(x) * w).sum()

    def by_hand(self, xp, x, w):
        return (xp.cumsum(x) * w).sum(), (xp.cumsum(w[::-1])[::-1],)


class CumSumRows(CumSum):
    """Cumulative sums along the rows of a square matrix."""

    sizes = (1000,)

    def inputs(self, random):
        return (normal(random, self.size, self.size),), (normal(random, self.size, self.size),)

    def torch_style(self, T, x, w):
        return (T.cumsum(x, 1) * w).sum()

    def jax_style(self, np, x, w):
        return (np.cumsum(x, 1) * w).sum()

    def by_hand(self, xp, x, w):
        return (xp.cumsum(x, 1) * w).sum(), (xp.cumsum(w[:, ::-1], 1)[:, ::-1],)
