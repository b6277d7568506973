"""Fitting an ordinary differential equation: predators and prey, from noisy counts, with bounds of the prediction.

Derivatives of the trajectory by its parameters go through the steps of an adaptive solver.
"""

import numpy as np

import gradcore as gc
from gradcore.scipy import integrate, optimize

TRUE = np.array([1.1, 0.4, 0.4, 0.1])


def rates(t, y, p):
    """Prey grows and is eaten, predators eat and die."""
    prey, predators = y[0], y[1]
    return gc.stack([p[0] * prey - p[1] * prey * predators, p[3] * prey * predators - p[2] * predators])


def counts(p, times):
    """Both populations at times, from ten and five."""
    span = (0.0, float(times[-1]))
    return integrate.solve_ivp(rates, span, [10.0, 5.0], t_eval=times, args=(p,), rtol=1e-6, atol=1e-6).y


def run(points=25, end=20.0, noise=0.6):
    """Return the times, the data, the fitted curves and parameters, and their standard deviations."""
    times = np.linspace(0, end, points + 1)[1:]
    random = np.random.default_rng(4)
    data = counts(gc.tensor(TRUE), times) + gc.tensor(noise * random.normal(size=(2, points)))
    fit = optimize.least_squares(lambda p: counts(p, times) - data, [1.0, 0.3, 0.5, 0.08])
    covariance = noise**2 * gc.linalg.inv(gc.tensor(fit.jac.T @ fit.jac))
    fine = np.linspace(0, end, 6 * points + 1)[1:]
    curve = counts(fit.x, fine)
    slopes = gc.func.jacfwd(lambda p: counts(p, fine))(fit.x)
    spread = gc.einsum("ijk,kl,ijl->ij", slopes, covariance, slopes).sqrt()
    return {
        "times": times, "data": data.numpy(), "fine": fine, "curve": curve.numpy(), "spread": spread.numpy(),
        "found": fit.x.numpy(), "deviations": covariance.diagonal().sqrt().numpy(),
    }  # fmt: skip


def draw(figure, result):
    """Draw the data, the fitted curves, and two standard deviations around them."""
    axis = figure.subplots()
    for i, (name, colour) in enumerate((("prey", "tab:green"), ("predators", "tab:red"))):
        axis.plot(result["times"], result["data"][i], "o", color=colour, markersize=4)
        axis.plot(result["fine"], result["curve"][i], color=colour, label=name)
        low, high = (result["curve"][i] + k * result["spread"][i] for k in (-2, 2))
        axis.fill_between(result["fine"], low, high, color=colour, alpha=0.25)
    axis.set(xlabel="time", ylabel="count")
    axis.legend()
