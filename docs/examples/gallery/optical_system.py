"""An optical system: the curvatures of two lenses that bring rays to a point, by derivatives through Snell's law."""

import numpy as np

import gradcore as gc
from gradcore.scipy import optimize

#: Where the surfaces cross the axis, the index of refraction behind each, and where the rays shall meet.
PLACES, INDICES, FOCUS = (0.0, 4.0, 6.0, 9.0), (1.52, 1.0, 1.52, 1.0), 60.0


def trace(curvatures, heights):
    """Return the points of initially parallel rays at every surface and at the focus."""
    x, y = gc.full_like(heights, -8.0), heights
    dx, dy = gc.ones_like(heights), gc.zeros_like(heights)
    points, index = [(x, y)], 1.0
    for c, vertex, behind in zip(curvatures, PLACES, INDICES, strict=True):
        # The nearer point where c / 2 * ((x - vertex)**2 + y**2) = x - vertex.
        u = x - vertex
        half, rest = dx - c * (u * dx + y * dy), c * (u**2 + y**2) - 2 * u
        length = rest / (half + (half**2 - c * rest).sqrt())
        x, y = x + length * dx, y + length * dy
        nx, ny = 1 - c * (x - vertex), -c * y
        ratio, cosine = index / behind, nx * dx + ny * dy
        bent = (1 - ratio**2 * (1 - cosine**2)).sqrt() - ratio * cosine
        dx, dy, index = ratio * dx + bent * nx, ratio * dy + bent * ny, behind
        points.append((x, y))
    return [*points, (gc.full_like(x, FOCUS), y + (FOCUS - x) * dy / dx)]


def run(rays=9):
    """Curvatures before and after, and the size of the spot."""
    heights = gc.linspace(0.5, 9.0, rays, dtype=gc.float64)

    def spot(percent):
        return (trace(percent / 100, heights)[-1][1] ** 2).mean()

    start = np.array([1.5, -1.5, 1.5, -1.5])
    limits = [(0, 3), (-3, 1)] * 2
    found = optimize.minimize(spot, start, method="L-BFGS-B", bounds=limits, options={"ftol": 1e-14, "gtol": 1e-9})
    return {
        "start": start / 100, "found": found.x.detach().numpy() / 100, "before": spot(gc.tensor(start)).item() ** 0.5,
        "after": found.fun.item() ** 0.5,
    }  # fmt: skip


def draw(figure, result):
    """Rays through the lenses before and after."""
    axes = figure.subplots(2, 1, sharex=True)
    heights = gc.linspace(-9.0, 9.0, 13, dtype=gc.float64)
    for axis, key, size in zip(axes, ("start", "found"), ("before", "after"), strict=True):
        points = trace(gc.tensor(result[key]), heights)
        axis.plot([x.numpy() for x, _ in points], [y.numpy() for _, y in points], color="tab:orange", linewidth=0.8)
        for c, vertex in zip(result[key], PLACES, strict=True):
            y = np.linspace(-10, 10, 50)
            axis.plot(vertex + c * y**2 / (1 + np.sqrt(1 - c**2 * y**2)), y, color="tab:blue")
        axis.set(title=f"{key}: spot of {result[size]:.2g}", ylim=(-11, 11))
