"""Ten more programs of the group "untuned", as users of PyTorch write them: images, clusters, factors, simulations."""

import numpy as np

from benchmarks.cases.base import normal, weights
from benchmarks.cases.untuned import Returned, Untuned


class UnsharpMask(Untuned):
    """The difference between the edges of a sharpened image and of another, by filters that do not learn."""

    sizes = (128,)

    def inputs(self, random):
        return (normal(random, 1, 1, self.size, self.size),), (normal(random, 1, 1, self.size, self.size),)

    def torch_style(self, T, image, other):
        F = T.nn.functional
        blur = T.tensor([1.0, 4.0, 6.0, 4.0, 1.0], dtype=image.dtype) / 16
        sobel = T.tensor([[1.0, 2.0, 1.0], [0.0, 0.0, 0.0], [-1.0, -2.0, -1.0]], dtype=image.dtype)
        sobel = T.stack([sobel, sobel.T])[:, None]

        def edges(x):
            soft = F.conv2d(F.pad(x, (2, 2, 2, 2), mode="reflect"), (blur[:, None] * blur)[None, None])
            return F.conv2d(x + 0.5 * (x - soft), sobel, padding=1).pow(2).sum(dim=1).add(1e-3).sqrt()

        return F.l1_loss(edges(image), edges(other))


class KMeans(Returned):
    """Five rounds of Lloyd's algorithm: distances, the nearest centre, and means of what belongs to each."""

    sizes = (2000,)

    def inputs(self, random):
        centres = 3 * normal(random, 10, 8)
        points = centres[random.integers(0, 10, self.size)] + normal(random, self.size, 8)
        return (), (points, points[:10].copy())

    def torch_style(self, T, points, centres):
        for _ in range(5):
            nearest = T.cdist(points, centres).argmin(dim=1)
            sums = T.zeros_like(centres).index_add_(0, nearest, points)
            counts = T.bincount(nearest, minlength=len(centres)).clamp(min=1)
            centres = sums / counts[:, None]
        return (centres,)


class PowerIteration(Untuned):
    """The largest variance of data along a line, by ten steps of power iteration, differentiated by the data."""

    sizes = (500,)

    def inputs(self, random):
        stretch = np.linspace(0.5, 3, 20, dtype=np.float32)
        return (normal(random, self.size, 20) * stretch,), (normal(random, 20),)

    def torch_style(self, T, data, v):
        centred = data - data.mean(dim=0)
        covariance = centred.T @ centred / (self.size - 1)
        for _ in range(10):
            v = covariance @ v
            v = v / v.norm()
        return v @ covariance @ v


class HeatEquation(Untuned):
    """A step of a network that learns a solution of the heat equation: derivatives by `grad`, of which it learns."""

    sizes = (200,)
    tolerance = 1e-3
    layers = (2, 32), (32, 32), (32, 1)

    def inputs(self, random):
        parameters = []
        for fan_in, fan_out in self.layers:
            parameters += [weights(random, fan_out, fan_in), 0.1 * normal(random, fan_out)]
        x, t = random.uniform(0, 1, (2, self.size, 1)).astype(np.float32)
        return tuple(parameters), (x, t)

    def torch_style(self, T, w1, b1, w2, b2, w3, b3, x, t):
        def network(x, t):
            y = T.tanh(T.nn.functional.linear(T.cat([x, t], dim=1), w1, b1))
            return T.nn.functional.linear(T.tanh(T.nn.functional.linear(y, w2, b2)), w3, b3)

        x, t = x.clone().requires_grad_(), t.clone().requires_grad_()
        u = network(x, t)
        u_x, u_t = T.autograd.grad(u.sum(), (x, t), create_graph=True)
        (u_xx,) = T.autograd.grad(u_x.sum(), x, create_graph=True)
        start = network(x, T.zeros_like(t)) - T.sin(3.141592653589793 * x)
        return (u_t - 0.1 * u_xx).square().mean() + start.square().mean()


class MatrixFactorization(Untuned):
    """Ratings as products of the factors of a user and an item, with biases and a penalty."""

    sizes = (2048,)
    learning_rate = 1e-12

    def inputs(self, random):
        users, items = random.integers(0, 600, self.size), random.integers(0, 400, self.size)
        tables = 0.3 * normal(random, 600, 16), 0.3 * normal(random, 400, 16)
        return (*tables, normal(random, 600), normal(random, 400)), (users, items, 3 + normal(random, self.size))

    def torch_style(self, T, p, q, user_bias, item_bias, users, items, ratings):
        u, v = p[users], q[items]
        predicted = (u * v).sum(dim=1) + user_bias[users] + item_bias[items] + 3.0
        return T.nn.functional.mse_loss(predicted, ratings) + 0.02 * (u.square().mean() + v.square().mean())


class SmallUNet(Untuned):
    """A step of a U-Net with two levels, batch norm and a Dice loss, on four images of `size` by `size`."""

    sizes = (32,)
    tolerance = 1e-3
    learning_rate = 1e-12
    convolutions = (8, 1), (16, 8), (16, 16), (8, 24), (1, 8)

    def inputs(self, random):
        parameters = []
        for out, channels in self.convolutions:
            parameters += [weights(random, out, channels, 3, 3), np.ones(out, np.float32), 0.1 * normal(random, out)]
        images = normal(random, 4, 1, self.size, self.size)
        return tuple(parameters), (images, (images > 0.5).astype(np.float32))

    def torch_style(self, T, *tensors):
        F = T.nn.functional
        *parameters, x, target = tensors

        def block(x, k):
            w, scale, shift = parameters[3 * k : 3 * k + 3]
            return F.relu(F.batch_norm(F.conv2d(x, w, padding=1), None, None, scale, shift, training=True))

        upper = block(x, 0)
        lower = block(block(F.max_pool2d(upper, 2), 1), 2)
        lower = F.interpolate(lower, scale_factor=2, mode="bilinear", align_corners=False)
        y = block(T.cat([upper, lower], dim=1), 3)
        w, scale, shift = parameters[12:]
        chance = T.sigmoid(scale * F.conv2d(y, w, padding=1) + shift)
        return 1 - (2 * (chance * target).sum() + 1) / (chance.sum() + target.sum() + 1)


class LBFGSFit(Returned):
    """Five iterations of L-BFGS on a logistic regression with a module and a closure."""

    sizes = (300,)
    tolerance = 3e-3

    def inputs(self, random):
        x, w = normal(random, self.size, 12), normal(random, 12)
        y = (x @ w + normal(random, self.size) > 0).astype(np.float32)
        return (), (np.zeros((1, 12), np.float32), np.zeros(1, np.float32), x, y[:, None])

    def torch_setup(self, T, tensors):
        w, b, x, y = tensors
        model = T.nn.Linear(12, 1).to(x.dtype)
        loss_function = T.nn.BCEWithLogitsLoss()

        def fit():
            with T.no_grad():
                model.weight.copy_(w)
                model.bias.copy_(b)
            optimizer = T.optim.LBFGS(model.parameters(), max_iter=5)

            def closure():
                optimizer.zero_grad()
                loss = loss_function(model(x), y) + 0.01 * model.weight.square().sum()
                loss.backward()
                return loss

            loss = optimizer.step(closure)
            return loss, model.weight.detach(), model.bias.detach()

        return fit


class SkipGram(Untuned):
    """Embeddings of words that predict their neighbours, with five words that are none for each pair."""

    sizes = (256,)
    learning_rate = 1e-12

    def inputs(self, random):
        tables = 0.1 * normal(random, 2000, 64), 0.1 * normal(random, 2000, 64)
        words, near = random.integers(0, 2000, (2, self.size))
        return tables, (words, near, random.integers(0, 2000, (self.size, 5)))

    def torch_style(self, T, inside, outside, words, near, far):
        F = T.nn.functional
        centre = F.embedding(words, inside)
        good = (centre * F.embedding(near, outside)).sum(dim=1)
        bad = T.bmm(F.embedding(far, outside), centre.unsqueeze(2)).squeeze(2)
        return -(F.logsigmoid(good) + F.logsigmoid(-bad).sum(dim=1)).mean()


class NBody(Untuned):
    """The energy of `size` bodies after eight steps of a simulation, differentiated by their start."""

    sizes = (40,)
    tolerance = 1e-3

    def inputs(self, random):
        return (normal(random, self.size, 3), 0.1 * normal(random, self.size, 3)), (np.ones(self.size, np.float32),)

    def torch_style(self, T, x, v, mass):
        def distances(x):
            away = x[:, None, :] - x[None, :, :]
            return away, (away.square().sum(dim=-1) + 0.1).rsqrt()

        def acceleration(x):
            away, inverse = distances(x)
            return -(mass[None, :, None] * away * inverse.pow(3)[..., None]).sum(dim=1)

        for _ in range(8):
            v = v + 0.005 * acceleration(x)
            x = x + 0.01 * v
            v = v + 0.005 * acceleration(x)
        return 0.5 * (mass[:, None] * v * v).sum() - 0.5 * (T.outer(mass, mass) * distances(x)[1]).triu(1).sum()


class HiddenMarkovModel(Untuned):
    """The likelihood of sequences under a hidden Markov model, by the forward algorithm in logarithms."""

    sizes = (40,)

    def inputs(self, random):
        return (normal(random, 6), normal(random, 6, 6), normal(random, 6, 12)), (
            random.integers(0, 12, (16, self.size)),
        )

    def torch_style(self, T, start, moves, emissions, symbols):
        start, moves, emissions = (T.log_softmax(t, dim=-1) for t in (start, moves, emissions))
        alpha = start + emissions[:, symbols[:, 0]].T
        for k in range(1, self.size):
            alpha = T.logsumexp(alpha[:, :, None] + moves, dim=1) + emissions[:, symbols[:, k]].T
        return -T.logsumexp(alpha, dim=1).mean()
