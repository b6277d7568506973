"""Parts of nets: softmax, losses, normalisation, activations, convolution, pooling."""

from benchmarks.cases.base import Case, normal, positive, weights


class CrossEntropy(Case):
    """Softmax and cross entropy over 1000 classes, for a batch of `size`."""

    group, sizes, large_sizes = "layers", (128,), (1024,)

    def inputs(self, random):
        return (normal(random, self.size, 1000),), (random.integers(0, 1000, self.size),)

    def torch_style(self, T, scores, labels):
        return T.nn.functional.cross_entropy(scores, labels)

    def numpy_style(self, np, scores, labels):
        scores = scores - np.max(scores, axis=1, keepdims=True)
        chosen = scores[np.arange(self.size), labels]
        return np.mean(np.log(np.sum(np.exp(scores), axis=1)) - chosen)

    def by_hand(self, xp, scores, labels):
        rows = xp.arange(self.size)
        scores = scores - scores.max(axis=1, keepdims=True)
        e = xp.exp(scores)
        total = e.sum(axis=1, keepdims=True)
        loss = (xp.log(total[:, 0]) - scores[rows, labels]).mean()
        g = e / total
        g[rows, labels] -= 1
        g /= self.size
        return loss, (g,)


class Softmax(Case):
    """Softmax over the rows of a `size` by 1000 matrix."""

    group, sizes, large_sizes = "layers", (128,), (1024,)

    def inputs(self, random):
        return (normal(random, self.size, 1000),), (positive(random, self.size, 1000),)

    def torch_style(self, T, x, w):
        return (T.softmax(x, dim=1) * w).sum()

    def numpy_style(self, np, x, w):
        e = np.exp(x - np.max(x, axis=1, keepdims=True))
        return (e / np.sum(e, axis=1, keepdims=True) * w).sum()

    def by_hand(self, xp, x, w):
        p = xp.exp(x - x.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        pw = p * w
        return pw.sum(), (pw - p * pw.sum(axis=1, keepdims=True),)


class Norm(Case, abstract=True):
    """A normalisation, in the library's own function, of a batch of images."""

    group = "layers"
    channels = 32

    def inputs(self, random):
        x = normal(random, 16, self.channels, self.size, self.size)
        return (x, positive(random, self.channels), normal(random, self.channels)), (normal(random, *x.shape),)

    def torch_style(self, T, x, scale, shift, w):
        return (self.normalised(T.nn.functional, x, scale, shift) * w).sum()

    def normalised(self, F, x, scale, shift):
        raise NotImplementedError


class BatchNorm(Norm):
    """Over the batch, in training."""

    sizes = (32,)

    def normalised(self, F, x, scale, shift):
        return F.batch_norm(x, None, None, scale, shift, training=True)

    def jax_style(self, np, x, scale, shift, w):
        mean, var = x.mean((0, 2, 3), keepdims=True), x.var((0, 2, 3), keepdims=True)
        unit = (x - mean) / np.sqrt(var + 1e-5)
        return ((unit * scale[:, None, None] + shift[:, None, None]) * w).sum()


class GroupNorm(Norm):
    """Over groups of 8 channels."""

    sizes = (32,)

    def normalised(self, F, x, scale, shift):
        return F.group_norm(x, 4, scale, shift)

    def jax_style(self, np, x, scale, shift, w):
        y = x.reshape(x.shape[0], 4, -1)
        y = ((y - y.mean(2, keepdims=True)) / np.sqrt(y.var(2, keepdims=True) + 1e-5)).reshape(x.shape)
        return ((y * scale[:, None, None] + shift[:, None, None]) * w).sum()


class LayerNormFunction(Case):
    """Rows of 256 elements, by the library's own function."""

    group, sizes = "layers", (1000,)

    def inputs(self, random):
        return (normal(random, self.size, 256), positive(random, 256), positive(random, 256)), ()

    def torch_style(self, T, x, scale, shift):
        y = T.nn.functional.layer_norm(x, (256,), scale, shift)
        return (y * y).sum()

    def jax_style(self, np, x, scale, shift):
        y = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * scale + shift
        return (y * y).sum()


class Activation(Case, abstract=True):
    """An activation of a million elements."""

    group = "layers"
    function: str

    def inputs(self, random):
        return (normal(random, self.size),), (positive(random, self.size),)

    def torch_style(self, T, x, w):
        return (getattr(T.nn.functional, self.function)(x) * w).sum()

    def jax_style(self, np, x, w):
        import jax

        named = {"gelu": lambda x: jax.nn.gelu(x, approximate=False)}
        return (named.get(self.function, getattr(jax.nn, self.function))(x) * w).sum()


for name in ("relu", "gelu", "silu", "leaky_relu", "softplus", "elu"):
    title = "".join(part.title() for part in name.split("_"))
    globals()[title] = type(title, (Activation,), {"function": name, "sizes": (1_000_000,), "__module__": __name__})


class Conv2d(Case):
    """A convolution with kernels of 3 by 3 over 8 images of `size` by `size`, from 16 channels to 32."""

    group, sizes, large_sizes = "convolution", (32,), (64,)
    channels = 16, 32

    @property
    def flops(self):
        return 6 * 8 * self.size**2 * 9 * self.channels[0] * self.channels[1]

    def inputs(self, random):
        few, many = self.channels
        return (
            normal(random, 8, few, self.size, self.size),
            weights(random, many, few, 3, 3),
            normal(random, many),
        ), ()

    def torch_style(self, T, x, w, b):
        y = T.nn.functional.conv2d(x, w, b, padding=1)
        return (y * y).sum()

    def jax_style(self, np, x, w, b):
        from jax import lax

        y = lax.conv_general_dilated(x, w, (1, 1), "SAME") + b[:, None, None]
        return (y * y).sum()


class WideConv2d(Conv2d):
    """The same from 64 channels to 64."""

    sizes, large_sizes = (16,), ()
    channels = 64, 64


class Conv1d(Case):
    """A convolution with kernels of 5 over 16 signals of `size` samples, from 8 channels to 16."""

    group, sizes = "convolution", (1024,)

    @property
    def flops(self):
        return 6 * 16 * self.size * 5 * 8 * 16

    def inputs(self, random):
        return (normal(random, 16, 8, self.size), weights(random, 16, 8, 5), normal(random, 16)), ()

    def torch_style(self, T, x, w, b):
        y = T.nn.functional.conv1d(x, w, b, padding=2)
        return (y * y).sum()

    def jax_style(self, np, x, w, b):
        from jax import lax

        y = lax.conv_general_dilated(x, w, (1,), "SAME") + b[:, None]
        return (y * y).sum()


class MaxPool(Case):
    """The maximum over windows of 2 by 2 in 16 images with 16 channels."""

    group, sizes = "convolution", (64,)

    def inputs(self, random):
        shape = (16, 16, self.size, self.size)
        return (normal(random, *shape),), (positive(random, 16, 16, self.size // 2, self.size // 2),)

    def torch_style(self, T, x, w):
        return (T.nn.functional.max_pool2d(x, 2) * w).sum()

    def jax_style(self, np, x, w):
        from jax import lax

        return (lax.reduce_window(x, -np.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID") * w).sum()


class AvgPool(MaxPool):
    """The mean over the same windows."""

    def torch_style(self, T, x, w):
        return (T.nn.functional.avg_pool2d(x, 2) * w).sum()

    def jax_style(self, np, x, w):
        n, c, height, width = x.shape
        return (x.reshape(n, c, height // 2, 2, width // 2, 2).mean((3, 5)) * w).sum()
