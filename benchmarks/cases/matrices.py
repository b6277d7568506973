"""Matrix products, and attention."""

from benchmarks.cases.base import Case, normal


class MatMul(Case):
    """The product of two square matrices."""

    group, sizes, large_sizes = "matmul", (64, 256), (1024,)

    @property
    def flops(self):
        return 6 * self.size**3

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

    sizes, large_sizes = (64,), (256,)

    @property
    def flops(self):
        return 32 * 6 * self.size**3

    def inputs(self, random):
        shape = (32, self.size, self.size)
        return (normal(random, *shape), normal(random, *shape)), ()


class TransposedMatMul(MatMul):
    """The product with a transposed matrix, as in a layer of a net."""

    sizes, large_sizes = (256,), ()

    def torch_style(self, T, a, b):
        c = a @ b.T
        return (c * c).sum()

    numpy_style = torch_style

    def by_hand(self, xp, a, b):
        c = a @ b.T
        g = 2 * c
        return (c * c).sum(), (g @ b, g.T @ a)


class Attention(Case):
    """Four heads of attention over `size` places of 64 features, in plain ops."""

    group, sizes, large_sizes = "attention", (128,), (512,)

    @property
    def flops(self):
        return 2 * 6 * 4 * self.size**2 * 64

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


class FusedAttention(Attention):
    """The same by the libraries' own function for attention."""

    def torch_style(self, T, q, k, v):
        out = T.nn.functional.scaled_dot_product_attention(q, k, v)
        return (out * out).sum()

    numpy_style = None

    def jax_style(self, np, q, k, v):
        import jax

        out = jax.nn.dot_product_attention(*(np.swapaxes(t[None], 1, 2) for t in (q, k, v)))
        return (out * out).sum()
