"""Programs of array code, written once for HIPS autograd and for gradcore: `np` and `ad` are the two imports."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy

__all__ = ["PROGRAMS"]

RNG = numpy.random.default_rng
PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {}


def program(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    PROGRAMS[function.__name__] = function
    return function


@program
def curves(np: Any, ad: SimpleNamespace) -> Any:
    """Compute repeated derivatives of a function at many points."""

    def bump(x: Any) -> Any:
        return (1.0 - np.exp(-2 * x)) / (1.0 + np.exp(-2 * x))

    function, found, x = bump, [], np.linspace(-3, 3, 40)
    for _ in range(4):
        found.append(function(x))
        function = ad.elementwise_grad(function)
    return found


@program
def logistic_regression(np: Any, ad: SimpleNamespace) -> Any:
    """Weights by gradient descent, in place."""
    inputs = np.array([[0.52, 1.12, 0.77], [0.88, -1.08, 0.15], [0.52, 0.06, -1.30], [0.74, -2.49, 1.39]])
    targets = np.array([True, True, False, True])

    def loss(weights: Any) -> Any:
        p = 0.5 * (np.tanh(np.dot(inputs, weights)) + 1)
        return -np.sum(np.log(p * targets + (1 - p) * np.logical_not(targets)))

    slope, weights = ad.grad(loss), np.array([0.0, 0.0, 0.0])
    for _ in range(50):
        weights = weights - 0.01 * slope(weights)
    return weights, loss(weights)


@program
def network(np: Any, ad: SimpleNamespace) -> Any:
    """Layers in a list of tuples of weights and biases, and a step for each."""
    rng = RNG(1)
    x, labels = rng.standard_normal((20, 5)), numpy.eye(3)[rng.integers(0, 3, 20)]
    sizes = [5, 8, 3]
    params = [(rng.standard_normal((m, n)), rng.standard_normal(n)) for m, n in pairwise(sizes)]

    def objective(params: Any, step: int) -> Any:
        hidden = x
        for W, b in params:
            scores = np.dot(hidden, W) + b
            hidden = np.tanh(scores)
        top = np.max(scores, axis=1, keepdims=True)
        logs = scores - top - np.log(np.sum(np.exp(scores - top), axis=1, keepdims=True))
        penalty = sum(np.sum(W**2) + np.sum(b**2) for W, b in params)
        return -np.mean(np.sum(logs * labels, axis=1)) + 0.01 * penalty

    both = ad.value_and_grad(objective)
    for step in range(5):
        value, slope = both(params, step)
        params = [(W - 0.1 * dW, b - 0.1 * db) for (W, b), (dW, db) in zip(params, slope, strict=True)]
    return value, params


@program
def recurrent_network(np: Any, ad: SimpleNamespace) -> Any:
    """Parameters in a dict, concatenated inputs, a loop over time."""
    rng = RNG(2)
    params = {
        "start": rng.standard_normal(4), "change": rng.standard_normal((8, 4)), "predict": rng.standard_normal((5, 2)),
    }  # fmt: skip
    inputs, targets = rng.standard_normal((6, 10, 3)), rng.standard_normal((6, 10, 2))

    def loss(params: dict[str, Any]) -> Any:
        hidden = np.repeat(params["start"][None, :], 10, axis=0)
        ones, total = np.ones((10, 1)), 0.0
        for x, y in zip(inputs, targets, strict=True):
            hidden = np.tanh(np.dot(np.concatenate([x, hidden, ones], axis=1), params["change"]))
            found = np.dot(np.hstack((hidden, ones)), params["predict"])
            total = total + np.mean((found - y) ** 2)
        return total

    return ad.grad(loss)(params)


@program
def waves(np: Any, ad: SimpleNamespace) -> Any:
    """Waves in a medium whose speed is looked for, with steps that are computed again in backward."""
    start = numpy.exp(-((numpy.arange(32) - 16.0) ** 2) / 8)

    def step(u: Any, before: Any, speed: Any) -> Any:
        bend = np.roll(u, 1) - 2 * u + np.roll(u, -1)
        return 2 * u - before + speed * bend

    saving = ad.checkpoint(step)

    def misfit(speed: Any) -> Any:
        u = before = np.array(start)
        for _ in range(20):
            u, before = saving(u, before, speed), u
        return np.sum(np.abs(u[::4]) ** 2)

    return ad.value_and_grad(misfit)(np.full(32, 0.2))


@program
def rosenbrock(np: Any, ad: SimpleNamespace) -> Any:
    """Curvature: a Hessian, its product with a vector, a Jacobian."""

    def f(x: Any) -> Any:
        return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    x, v = np.array([0.3, -0.2, 0.9, 1.1]), np.array([1.0, 2.0, 3.0, 4.0])
    product = ad.grad(lambda x: np.dot(ad.grad(f)(x), v))(x)
    return ad.hessian(f)(x), product, ad.jacobian(lambda x: np.outer(np.sin(x), x[:2]))(x)


@program
def gaussian_process(np: Any, ad: SimpleNamespace) -> Any:
    """Compute the likelihood of data and its gradient, with matrices, a solution and a determinant."""
    rng = RNG(3)
    x = rng.standard_normal((12, 2))
    y = numpy.sin(x[:, 0]) + 0.1 * rng.standard_normal(12)

    def log_likelihood(params: Any) -> Any:
        scale, noise, lengths = np.exp(params[0]), np.exp(params[1]), np.exp(params[2:])
        apart = np.expand_dims(x / lengths, 1) - np.expand_dims(x / lengths, 0)
        K = scale * np.exp(-0.5 * np.sum(apart**2, axis=2)) + noise * np.eye(len(y))
        _, logdet = np.linalg.slogdet(K)
        return -0.5 * np.dot(y, np.linalg.solve(K, y)) - 0.5 * logdet - 6 * np.log(2 * np.pi)

    return ad.value_and_grad(log_likelihood)(np.array([0.1, -1.0, 0.2, 0.3]))


@program
def orbit(np: Any, ad: SimpleNamespace) -> Any:
    """Solve an ODE by the Runge-Kutta method, and differentiate by its initial values and constants."""

    def slope(y: Any, c: Any) -> Any:
        return np.array([y[1], -c[0] * np.sin(y[0]) - c[1] * y[1]])

    def misfit(start: Any, c: Any) -> Any:
        y, h, total = start, 0.1, 0.0
        for _ in range(15):
            k1 = slope(y, c)
            k2 = slope(y + h / 2 * k1, c)
            k3 = slope(y + h / 2 * k2, c)
            y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + slope(y + h * k3, c))
            total = total + y[0] ** 2
        return total

    start, c = np.array([1.0, 0.0]), np.array([2.0, 0.1])
    return ad.grad(misfit)(start, c), ad.grad(misfit, 1)(start, c)


@program
def spectra(np: Any, ad: SimpleNamespace) -> Any:
    """Fourier transforms, eigenvalues, sorting, selection and statistics in one loss."""
    rng = RNG(4)
    A, s = rng.standard_normal((5, 5)), rng.standard_normal(16)

    def loss(params: tuple[Any, Any]) -> Any:
        A, s = params
        power = np.abs(np.fft.fft(s)) ** 2
        values, _ = np.linalg.eigh(np.dot(A, A.T) + np.diag(np.array([1.0, 2.0, 3.0, 4.0, 5.0])))
        picked = np.where(s > 0, np.sort(s), np.cumsum(s))
        return np.sum(np.log(1 + power)) + np.sum(values**1.5) + np.var(picked) + np.std(np.maximum(s, 0.1))

    return ad.grad(loss)((np.array(A), np.array(s)))


@program
def mixture(np: Any, ad: SimpleNamespace) -> Any:
    """Fit a mixture of normal distributions, with `logsumexp`, `einsum` and nested containers of different kinds."""
    rng = RNG(5)
    data = rng.standard_normal((30, 2))
    params = {"logits": np.array([0.1, 0.4, -0.2]), "shape": [np.array(rng.standard_normal((3, 2))), np.zeros((3, 2))]}

    def log_likelihood(params: dict[str, Any]) -> Any:
        means, logs = params["shape"]
        away = (data[:, None, :] - means[None]) * np.exp(-logs)[None]
        joint = -0.5 * np.einsum("nkd,nkd->nk", away, away) - np.sum(logs, axis=1) + params["logits"]
        return np.sum(np.log(np.sum(np.exp(joint), axis=1))) - 30 * np.log(np.sum(np.exp(params["logits"])))

    return ad.grad(log_likelihood)(params)
