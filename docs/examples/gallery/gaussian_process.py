"""A Gaussian process: the kernel's parameters maximise the likelihood, by gradients of Cholesky factors."""

import numpy as np

import gradcore as gc
from gradcore.scipy import linalg, optimize


def kernel(p, a, b):
    """Covariances of a smooth function with a period."""
    distance = a[:, None] - b[None]
    smooth = gc.exp(-(distance**2) / (2 * gc.exp(2 * p["length"])))
    wave = gc.exp(-2 * gc.sin(np.pi * distance / gc.exp(p["period"])) ** 2)
    return gc.exp(2 * p["size"]) * smooth * wave


def run(points=40):
    """Return the data, the prediction with its standard deviation, both likelihoods, and the parameters."""
    random = np.random.default_rng(2)
    x = gc.tensor(np.sort(random.uniform(0, 10, points)))
    y = gc.sin(2 * x) * (1 + 0.1 * x) + 0.15 * gc.tensor(random.normal(size=points))
    wanted = gc.linspace(0, 12, 240, dtype=gc.float64)

    def factor(p):
        noise = (gc.exp(2 * p["noise"]) + 1e-8) * gc.eye(points, dtype=gc.float64)
        return linalg.cho_factor(kernel(p, x, x) + noise, lower=True)

    def cost(p):
        c = factor(p)
        return (y * linalg.cho_solve(c, y)).sum() / 2 + c[0].diagonal().log().sum()

    start = {"length": 1.0, "period": 1.0, "size": 0.0, "noise": -1.0}
    found = optimize.minimize(cost, start, method="BFGS")
    c = factor(found.x)
    across = kernel(found.x, wanted, x)
    mean = across @ linalg.cho_solve(c, y)
    variance = gc.exp(2 * found.x["size"]) - (across * linalg.cho_solve(c, across.mT).mT).sum(1)
    before = cost({name: gc.tensor(value, dtype=gc.float64) for name, value in start.items()})
    return {
        "x": x.numpy(), "y": y.numpy(), "wanted": wanted.numpy(), "mean": mean.numpy(),
        "deviation": variance.clamp(min=0).sqrt().numpy(), "before": before.item(), "after": found.fun.item(),
        "found": {name: value.item() for name, value in found.x.items()},
    }  # fmt: skip


def draw(figure, result):
    """Draw the data, the prediction, and two standard deviations around it."""
    axis = figure.subplots()
    low, high = (result["mean"] + k * result["deviation"] for k in (-2, 2))
    axis.fill_between(result["wanted"], low, high, color="tab:blue", alpha=0.25)
    axis.plot(result["wanted"], result["mean"], color="tab:blue")
    axis.plot(result["x"], result["y"], "k.", markersize=5)
    axis.set(xlabel="x", ylabel="y")
