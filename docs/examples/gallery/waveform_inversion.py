"""Acoustic full-waveform inversion: the velocity of a medium from waves that have gone through it.

The wave equation is stepped by finite differences, with a sponge at the edges; the gradient of the misfit by all
velocities is one backward pass, whatever their number. All shots are computed at once.
"""

import numpy as np

import gradcore as gc
from gradcore.scipy import optimize

BACKGROUND, STEP, DISTANCE = 2.0, 0.2, 1.0


def medium(n):
    """Return the true velocities: a fast and a slow body in a uniform medium."""
    y, x = np.mgrid[:n, :n] / n
    fast = np.exp(-(((x - 0.38) ** 2 + (y - 0.42) ** 2) / 0.012))
    slow = np.exp(-(((x - 0.64) ** 2 + (y - 0.62) ** 2) / 0.008))
    return BACKGROUND + 0.5 * fast - 0.4 * slow


def seismograms(velocity, steps, shots):
    """Compute the records of each shot by the receivers around the medium."""
    n = velocity.shape[0]
    edge = np.minimum(np.arange(n), np.arange(n)[::-1])
    edge = np.minimum(edge[:, None], edge)
    sponge = gc.tensor(np.where(edge < 5, 1 - 0.012 * (5 - edge) ** 2, 1.0))
    angles = 2 * np.pi * np.arange(shots) / shots
    rows, columns = (np.rint(n / 2 + 0.36 * n * f(angles)).astype(int) for f in (np.sin, np.cos))
    source = np.zeros((shots, n, n))
    source[np.arange(shots), rows, columns] = 1
    source = gc.tensor(source)
    around = 2 * np.pi * np.arange(48) / 48
    receivers = tuple(gc.tensor(np.rint(n / 2 + 0.38 * n * f(around)).astype(int)) for f in (np.sin, np.cos))
    factor = (velocity * (STEP / DISTANCE)) ** 2
    before = now = gc.zeros(shots, n, n, dtype=gc.float64)
    traces = []
    for step in range(steps):
        t = (step * STEP - 4.0) / 1.6
        pulse = (1 - 2 * t * t) * np.exp(-t * t)
        padded = gc.nn.functional.pad(now, (1, 1, 1, 1))
        curvature = padded[:, 2:, 1:-1] + padded[:, :-2, 1:-1] + padded[:, 1:-1, 2:] + padded[:, 1:-1, :-2] - 4 * now
        before, now = now * sponge, (2 * now - before + factor * curvature + pulse * source) * sponge
        traces.append(now[:, receivers[0], receivers[1]])
    return gc.stack(traces, -1)


def run(n=48, steps=170, shots=8, iterations=40):
    """Return the true medium, the reconstruction, the misfit before and after, and the records."""
    true = medium(n)
    with gc.no_grad():
        measured = seismograms(gc.tensor(true), steps, shots)

    def misfit(change):
        return 100 * ((seismograms(BACKGROUND + change, steps, shots) - measured) ** 2).mean()

    start = np.zeros((n, n))
    found = optimize.minimize(misfit, start, method="L-BFGS-B", options={"maxiter": iterations})
    with gc.no_grad():
        first = float(misfit(gc.tensor(start)))
    return {
        "true": true, "found": BACKGROUND + found.x.detach().numpy(), "before": first, "after": found.fun.item(),
        "traces": measured[0].numpy(),
    }  # fmt: skip


def draw(figure, result):
    """Draw the records of one shot, the true medium and the reconstruction."""
    axes = figure.subplots(1, 3)
    limit = np.abs(result["traces"]).max() / 3
    axes[0].imshow(result["traces"].T, aspect="auto", cmap="gray", vmin=-limit, vmax=limit)
    axes[0].set(title="records of one shot", xlabel="receiver", ylabel="time step")
    for axis, key, title in ((axes[1], "true", "velocity"), (axes[2], "found", "found from the records")):
        shown = axis.imshow(result[key], cmap="RdBu_r", vmin=1.5, vmax=2.5)
        axis.set(title=title, xticks=[], yticks=[])
    figure.colorbar(shown, ax=axes[1:], shrink=0.8)
