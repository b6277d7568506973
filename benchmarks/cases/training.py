"""Training steps of small nets: forward, loss, backward, and a plain update."""

import numpy as np

from benchmarks.cases.base import Case, normal, positive, weights


class MLPStep(Case):
    """A 784-256-128-10 net on a batch of `size`."""

    group, sizes, large_sizes = "mlp step", (64,), (1024,)
    learning_rate = 1e-12
    layers = (784, 256), (256, 128), (128, 10)

    @property
    def flops(self):
        return self.size * (4 * 784 * 256 + 6 * 256 * 128 + 6 * 128 * 10)

    def inputs(self, random):
        parameters = []
        for fan_in, fan_out in self.layers:
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


class ModuleMLPStep(Case):
    """The same net of modules, with the library's own SGD with momentum."""

    group, sizes = "mlp step", (64,)

    def inputs(self, random):
        parameters = []
        for fan_in, fan_out in MLPStep.layers:
            parameters += [weights(random, fan_out, fan_in), normal(random, fan_out)]
        return tuple(parameters), (normal(random, self.size, 784), random.integers(0, 10, self.size))

    def model(self, T, parameters):
        """Return the net with these weights."""
        layers = [T.nn.Linear(*sizes) for sizes in MLPStep.layers]
        net = T.nn.Sequential(layers[0], T.nn.ReLU(), layers[1], T.nn.ReLU(), layers[2]).to(parameters[0].device)
        for p, value in zip(net.parameters(), parameters, strict=True):
            p.data = value.detach().clone()
        return net

    def torch_setup(self, T, tensors):
        *parameters, x, labels = tensors
        net = self.model(T, parameters)
        optimizer = T.optim.SGD(net.parameters(), lr=1e-12, momentum=0.9)
        criterion = T.nn.CrossEntropyLoss()

        def step():
            optimizer.zero_grad()
            loss = criterion(net(x), labels)
            loss.backward()
            optimizer.step()
            return loss, *(p.grad for p in net.parameters())

        return step


class CNNStep(Case):
    """Two convolutions with pooling and two layers, on a batch of `size` images of 28 by 28."""

    group, sizes, large_sizes = "cnn step", (16,), (64,)
    learning_rate = 1e-12

    @property
    def flops(self):
        return self.size * (4 * 784 * 9 * 8 + 6 * 196 * 72 * 16 + 6 * 784 * 64 + 6 * 640)

    def inputs(self, random):
        shapes = (8, 1, 3, 3), (16, 8, 3, 3), (64, 784), (10, 64)
        parameters = [made for s in shapes for made in (weights(random, *s), positive(random, s[0]))]
        return tuple(parameters), (normal(random, self.size, 1, 28, 28), random.integers(0, 10, self.size))

    def torch_style(self, T, w1, b1, w2, b2, w3, b3, w4, b4, x, labels):
        F = T.nn.functional
        x = F.max_pool2d(F.relu(F.conv2d(x, w1, b1, padding=1)), 2)
        x = F.max_pool2d(F.relu(F.conv2d(x, w2, b2, padding=1)), 2)
        x = F.relu(F.linear(x.flatten(1), w3, b3))
        return F.cross_entropy(F.linear(x, w4, b4), labels)

    def jax_style(self, np, w1, b1, w2, b2, w3, b3, w4, b4, x, labels):
        import jax
        from jax import lax

        for w, b in ((w1, b1), (w2, b2)):
            x = np.maximum(lax.conv_general_dilated(x, w, (1, 1), "SAME") + b[:, None, None], 0)
            x = lax.reduce_window(x, -np.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
        x = np.maximum(x.reshape(self.size, -1) @ w3.T + b3, 0)
        scores = jax.nn.log_softmax(x @ w4.T + b4)
        return -scores[np.arange(self.size), labels].mean()


class TransformerStep(Case):
    """Two blocks of 128 features and 4 heads, with layer norms, on 8 sequences of `size` places."""

    group, sizes, large_sizes = "transformer step", (32,), (128,)
    learning_rate = 1e-12
    width, heads, blocks, vocabulary = 128, 4, 2, 500
    tolerance = 1e-3

    @property
    def flops(self):
        places, d = 8 * self.size, self.width
        return 6 * places * (self.blocks * (12 * d * d + 2 * self.size * d) + d * self.vocabulary)

    def inputs(self, random):
        d = self.width
        parameters = [normal(random, self.vocabulary, d)]
        for _ in range(self.blocks):
            shapes = ((d, d), (d, d), (d, d), (d, d), (4 * d, d), (d, 4 * d))
            parameters += [weights(random, *s) for s in shapes]
            parameters += [positive(random, d) for _ in range(4)]
        parameters.append(weights(random, self.vocabulary, d))
        tokens = random.integers(0, self.vocabulary, (8, self.size + 1))
        return tuple(parameters), (tokens[:, :-1].copy(), tokens[:, 1:].copy())

    def torch_style(self, T, table, *rest):
        *parameters, out, tokens, targets = rest
        F = T.nn.functional
        x = F.embedding(tokens, table)
        split = (8, self.size, self.heads, self.width // self.heads)
        for k in range(self.blocks):
            wq, wk, wv, wo, up, down, s1, t1, s2, t2 = parameters[10 * k : 10 * k + 10]
            y = F.layer_norm(x, (self.width,), s1, t1)
            q, k_, v = (F.linear(y, w).reshape(split).transpose(1, 2) for w in (wq, wk, wv))
            y = F.scaled_dot_product_attention(q, k_, v)
            x = x + F.linear(y.transpose(1, 2).reshape(x.shape), wo)
            y = F.layer_norm(x, (self.width,), s2, t2)
            x = x + F.linear(F.gelu(F.linear(y, up)), down)
        scores = F.linear(x, out)
        return F.cross_entropy(scores.reshape(-1, self.vocabulary), targets.reshape(-1))

    def jax_style(self, np, table, *rest):
        import jax

        *parameters, out, tokens, targets = rest

        def norm(x, scale, shift):
            centred = x - x.mean(-1, keepdims=True)
            return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * scale + shift

        x = table[tokens]
        for k in range(self.blocks):
            wq, wk, wv, wo, up, down, s1, t1, s2, t2 = parameters[10 * k : 10 * k + 10]
            y = norm(x, s1, t1)
            q, k_, v = ((y @ w.T).reshape(8, self.size, self.heads, -1) for w in (wq, wk, wv))
            x = x + jax.nn.dot_product_attention(q, k_, v).reshape(x.shape) @ wo.T
            x = x + jax.nn.gelu(norm(x, s2, t2) @ up.T, approximate=False) @ down.T
        scores = jax.nn.log_softmax(x @ out.T).reshape(-1, self.vocabulary)
        return -scores[np.arange(scores.shape[0]), targets.reshape(-1)].mean()
