"""Ten small programs of everyday work, kept to see how speed carries over to code that no kernel was made for.

They were written before they were measured. A change that is made for one of them belongs into another group.
"""

from typing import ClassVar

import numpy as np

from benchmarks.cases.base import Case, normal, positive


class Untuned(Case, abstract=True):
    """A program that PyTorch and gradcore run."""

    group = "untuned"
    skips: ClassVar = {"torch.compile": "short programs, compiled for seconds"}


class Returned(Untuned, abstract=True):
    """The styles return all results."""

    differentiated = False


class Orbit(Untuned):
    """The end of an orbit by leapfrog steps, differentiated with respect to its start: vectors of two numbers."""

    sizes = (50,)

    def inputs(self, random):
        return (np.array([1.0, 0.1], np.float32), np.array([0.0, 0.9], np.float32)), ()

    def torch_style(self, T, position, velocity):
        step = 0.02
        for _ in range(self.size):
            velocity = velocity - 0.5 * step * position / (position * position).sum() ** 1.5
            position = position + step * velocity
            velocity = velocity - 0.5 * step * position / (position * position).sum() ** 1.5
        return (position * position).sum() + (velocity * velocity).sum()


class LogisticRegression(Returned):
    """The gradient and the value of a regularized logistic loss, by `func.grad_and_value`."""

    sizes = (200,)

    def inputs(self, random):
        x, w = normal(random, self.size, 10), normal(random, 10)
        y = (x @ w + normal(random, self.size) > 0).astype(np.float32)
        return (), (normal(random, 10), np.array(0.1, np.float32), x, y)

    def torch_style(self, T, w, b, x, y):
        def loss(w, b):
            scores = x @ w + b
            return (T.nn.functional.softplus(scores) - y * scores).mean() + 0.01 * (w * w).sum()

        (dw, db), value = T.func.grad_and_value(loss, argnums=(0, 1))(w, b)
        return dw, db, value


class GaussianMixture(Untuned):
    """The log-likelihood of points under a mixture of eight diagonal normal distributions."""

    sizes = (2000,)

    def inputs(self, random):
        return (normal(random, 8), normal(random, 8, 4), 0.3 * normal(random, 8, 4)), (normal(random, self.size, 4),)

    def torch_style(self, T, weights, means, log_scales, points):
        z = (points[:, None, :] - means) / log_scales.exp()
        logs = -0.5 * (z * z).sum(dim=2) - log_scales.sum(dim=1) + T.log_softmax(weights, dim=0)
        return T.logsumexp(logs, dim=1).mean()


class OptionPrices(Untuned):
    """Prices of options by the formula of Black and Scholes, with all sensitivities."""

    sizes = (20_000,)

    def inputs(self, random):
        spot, strike = 80 + 40 * positive(random, self.size), 80 + 40 * positive(random, self.size)
        return (spot, strike, positive(random, self.size), positive(random, self.size)), ()

    def torch_style(self, T, spot, strike, volatility, years):
        spread = volatility * T.sqrt(years)
        d = (T.log(spot / strike) + (0.02 + 0.5 * volatility**2) * years) / spread
        share, chance = (0.5 * (1 + T.erf(v * 0.7071067811865476)) for v in (d, d - spread))
        return (spot * share - strike * T.exp(-0.02 * years) * chance).sum()


class RobustFit(Untuned):
    """A polynomial fit with Huber's loss written out by `where`."""

    sizes = (50_000,)

    def inputs(self, random):
        return (normal(random, 4),), (normal(random, self.size), 3 * normal(random, self.size))

    def torch_style(self, T, c, x, y):
        error = c[0] + x * (c[1] + x * (c[2] + x * c[3])) - y
        size = error.abs()
        return T.where(size < 1, 0.5 * error * error, size - 0.5).mean()


class KalmanFilter(Untuned):
    """The likelihood of a series under a linear model with two states, differentiated by its noise."""

    sizes = (30,)

    def inputs(self, random):
        return (np.array(-1.0, np.float32), np.array(-0.5, np.float32)), (normal(random, self.size),)

    def torch_style(self, T, log_q, log_r, series):
        advance = T.tensor([[1.0, 1.0], [0.0, 1.0]])
        q, r = log_q.exp() * T.eye(2), log_r.exp()
        mean, covariance, loss = T.zeros(2), T.eye(2), 0.0
        for y in series:
            mean, covariance = advance @ mean, advance @ covariance @ advance.T + q
            spread, error = covariance[0, 0] + r, y - mean[0]
            loss = loss + 0.5 * (spread.log() + error * error / spread)
            gain = covariance[:, 0] / spread
            mean, covariance = mean + gain * error, covariance - T.outer(gain, covariance[0])
        return loss


class LennardJones(Untuned):
    """The energy of atoms that attract and repel each other in pairs, and the forces on them."""

    sizes = (60,)

    def inputs(self, random):
        grid = np.stack(np.meshgrid(*[np.arange(4.0)] * 3), -1).reshape(-1, 3)[: self.size]
        return (np.asarray(1.2 * grid + 0.05 * normal(random, self.size, 3), np.float32),), ()

    def torch_style(self, T, atoms):
        i, j = T.triu_indices(self.size, self.size, 1)
        away = atoms[i] - atoms[j]
        inverse = 1 / (away * away).sum(dim=1) ** 3
        return (4 * (inverse * inverse - inverse)).sum()


class TotalVariation(Untuned):
    """The loss of an image that is freed from noise: its distance, and the sizes of its differences."""

    sizes = (256,)

    def inputs(self, random):
        image = normal(random, self.size, self.size)
        return (image,), (image + normal(random, self.size, self.size),)

    def torch_style(self, T, image, noisy):
        down, right = image[1:, :-1] - image[:-1, :-1], image[:-1, 1:] - image[:-1, :-1]
        return ((image - noisy) ** 2).mean() + 0.1 * T.sqrt(down**2 + right**2 + 1e-4).mean()


class NewtonStep(Returned):
    """A step of Newton's method for a function of six numbers: `func.grad`, `func.hessian` and `linalg.solve`."""

    sizes = (6,)
    tolerance = 1e-3

    def inputs(self, random):
        return (), (0.5 * normal(random, self.size),)

    def torch_style(self, T, x):
        def function(x):
            return (T.cosh(x) + 0.1 * x**4).sum() + (x[1:] - x[:-1]).pow(2).sum()

        return (x - T.linalg.solve(T.func.hessian(function)(x), T.func.grad(function)(x)),)


class DecayJacobian(Returned):
    """Residuals of a sum of exponentials and their Jacobian, by `func.jacrev`, as for least squares."""

    sizes = (40,)

    def inputs(self, random):
        return (), (positive(random, 3), positive(random, 3), np.linspace(0, 4, self.size, dtype=np.float32))

    def torch_style(self, T, heights, rates, times):
        def residuals(heights, rates):
            return (heights * T.exp(-times[:, None] * rates)).sum(dim=1) - T.exp(-times)

        return T.func.jacrev(residuals, argnums=(0, 1))(heights, rates)
