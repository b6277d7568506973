"""Tomography: a slice from few of its projections, with a penalty on edges, and no negative densities.

The projections are one linear map, a matrix of which few elements are not zero.
"""

import numpy as np

import gradcore as gc
from gradcore.scipy import optimize


def phantom(n):
    """Ellipses in an ellipse."""
    y, x = (np.mgrid[:n, :n] + 0.5) / n * 2 - 1
    image = np.zeros((n, n))
    for value, a, b, rx, ry in (
        (0.5, 0, 0, 0.7, 0.85), (0.4, -0.25, 0.1, 0.15, 0.3), (0.5, 0.3, -0.2, 0.2, 0.2), (-0.4, 0.1, 0.5, 0.25, 0.12),
    ):  # fmt: skip
        image += value * (((x - a) / rx) ** 2 + ((y - b) / ry) ** 2 < 1)
    return image


def projections(n, angles):
    """Rows, columns and values of the matrix: each pixel is shared between the two nearest cells of the detector."""
    y, x = np.mgrid[:n, :n].reshape(2, -1) - (n - 1) / 2
    cells = int(1.5 * n)
    rows, columns, values = [], [], []
    for i, angle in enumerate(np.pi * np.arange(angles) / angles):
        position = x * np.cos(angle) + y * np.sin(angle) + (cells - 1) / 2
        low = np.floor(position).astype(int)
        for cell, part in ((low, low + 1 - position), (low + 1, position - low)):
            rows.append(i * cells + cell)
            columns.append(np.arange(n * n))
            values.append(part)
    return np.concatenate(rows), np.concatenate(columns), np.concatenate(values), (angles * cells, n * n)


def run(n=48, angles=18, noise=0.01, iterations=150):
    """Return the true slice, its projections, the reconstructed slice and its error."""
    true = phantom(n)
    rows, columns, values, shape = projections(n, angles)
    project = gc.sparse_coo_tensor(np.stack([rows, columns]), values, shape).coalesce()
    exact = (project @ gc.tensor(true.reshape(-1, 1)))[:, 0].numpy()
    measured = gc.tensor(exact + noise * exact.max() * np.random.default_rng(0).normal(size=exact.shape))

    def misfit(image):
        down, right = image[1:, :-1] - image[:-1, :-1], image[:-1, 1:] - image[:-1, :-1]
        edges = (down**2 + right**2 + 1e-4).sqrt().sum()
        return (((project @ image.reshape(-1, 1))[:, 0] - measured) ** 2).sum() / 2 + 0.5 * edges

    found = optimize.minimize(
        misfit, np.zeros((n, n)), method="L-BFGS-B", bounds=[(0, None)] * n * n,
        options={"maxiter": iterations, "maxfun": 10**6},
    )  # fmt: skip
    image = found.x.detach().numpy()
    error = np.linalg.norm(image - true) / np.linalg.norm(true)
    return {"true": true, "sinogram": measured.numpy().reshape(angles, -1), "found": image, "error": error}


def draw(figure, result):
    """Draw the projections, the true slice and the reconstructed slice."""
    axes = figure.subplots(1, 3)
    axes[0].imshow(result["sinogram"], aspect="auto", cmap="gray")
    axes[0].set(title="projections", xlabel="cell", ylabel="angle")
    for axis, key in ((axes[1], "true"), (axes[2], "found")):
        axis.imshow(result[key], cmap="gray", vmin=0, vmax=1)
        axis.set(title=key, xticks=[], yticks=[])
