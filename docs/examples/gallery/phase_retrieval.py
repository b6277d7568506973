"""Phase retrieval: a complex image from the intensities of its diffraction patterns behind known masks.

Detectors see no phases. The image is the minimum of a real function of complex numbers, looked for from random ones.
"""

import numpy as np

import gradcore as gc
from gradcore.scipy import optimize


def sample(n):
    """Return a complex image: absorbing discs over a smooth phase."""
    y, x = np.mgrid[:n, :n] / n - 0.5
    size = 0.3 + 0.7 * ((x**2 + y**2) < 0.16)
    for a, b, r in ((-0.1, 0.1, 0.09), (0.15, -0.05, 0.12), (-0.08, -0.18, 0.07)):
        size = np.where((x - a) ** 2 + (y - b) ** 2 < r * r, 0.45, size)
    return size * np.exp(1j * (2 * np.sin(4 * x) + np.cos(5 * y)))


def run(n=48, patterns=5, iterations=250):
    """Return the true image, the reconstruction, a pattern, and the error up to a global phase, which is unknown."""
    random = np.random.default_rng(1)
    true = sample(n)
    masks = gc.tensor(np.exp(2j * np.pi * random.uniform(size=(patterns, n, n))))
    measured = gc.fft.fft2(gc.tensor(true) * masks, norm="ortho").abs()

    def misfit(parts):
        image = gc.complex(parts["real"], parts["imag"])
        patterns = gc.view_as_real(gc.fft.fft2(image * masks, norm="ortho"))
        return ((((patterns**2).sum(-1) + 1e-12).sqrt() - measured) ** 2).sum()

    start = {name: gc.tensor(random.normal(size=(n, n))) for name in ("real", "imag")}
    found = optimize.minimize(misfit, start, method="L-BFGS-B", options={"maxiter": iterations, "maxfun": 10**6})
    image = gc.complex(found.x["real"], found.x["imag"]).detach().numpy()
    overlap = (image.conj() * true).sum()
    image = image * overlap / abs(overlap)
    error = np.linalg.norm(image - true) / np.linalg.norm(true)
    return {"true": true, "found": image, "pattern": measured[0].numpy(), "error": error}


def draw(figure, result):
    """Draw a pattern, and the magnitudes and phases of both images."""
    axes = figure.subplots(1, 5)
    axes[0].imshow(np.log(np.fft.fftshift(result["pattern"]) + 0.1), cmap="magma")
    axes[0].set_title("one pattern")
    for i, key in enumerate(("true", "found")):
        axes[1 + 2 * i].imshow(abs(result[key]), cmap="gray", vmin=0, vmax=1.1)
        axes[2 + 2 * i].imshow(np.angle(result[key]), cmap="twilight", vmin=-np.pi, vmax=np.pi)
        axes[1 + 2 * i].set_title(f"{key}: size")
        axes[2 + 2 * i].set_title(f"{key}: phase")
    for axis in axes:
        axis.set(xticks=[], yticks=[])
