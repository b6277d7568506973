"""Registration: the affine map that lays one image over another, by derivatives of interpolation at moved points."""

import numpy as np

import gradcore as gc
from gradcore.scipy import ndimage, optimize

TRUE = np.array([[1.08, 0.17], [-0.15, 0.94]]), np.array([2.0, -1.5])


def picture(n):
    """Blurred shapes without symmetry."""
    y, x = np.mgrid[:n, :n] / n
    image = np.exp(-(((x - 0.35) ** 2 + (y - 0.4) ** 2) / 0.02))
    image += 0.8 * np.exp(-(((x - 0.65) ** 2) / 0.004 + ((y - 0.55) ** 2) / 0.03))
    return image + 0.6 * np.exp(-((x - 0.45) ** 2 / 0.03 + (y - 0.75) ** 2 / 0.003))


def moved(image, matrix, shift):
    """Return the image, rotated around its centre and shifted."""
    n = image.shape[0]
    grid = gc.tensor(np.stack(np.mgrid[:n, :n]).reshape(2, -1) - (n - 1) / 2)
    points = matrix @ grid + shift[:, None] + (n - 1) / 2
    return ndimage.map_coordinates(image, points, order=3).reshape(n, n)


def difference(p, first, second):
    """Return the difference between the transformed first image and the second image."""
    return moved(first, p["matrix"], p["shift"]) - second


def run(n=48):
    """Both images, the first one laid over the second, and the map."""
    image = gc.tensor(picture(n))
    target = moved(image, *map(gc.tensor, TRUE))
    blurred = [ndimage.gaussian_filter(each, 2.0) for each in (image, target)]
    guess = {"matrix": gc.eye(2, dtype=gc.float64), "shift": gc.zeros(2, dtype=gc.float64)}
    for first, second in (blurred, (image, target)):  # from coarse to fine
        guess = optimize.least_squares(difference, guess, args=(first, second)).x
    return {
        "first": image.numpy(), "second": target.numpy(), "laid": moved(image, **guess).numpy(),
        "matrix": guess["matrix"].numpy(), "shift": guess["shift"].numpy(),
    }  # fmt: skip


def draw(figure, result):
    """Both images, and what differs before and after."""
    axes = figure.subplots(1, 4)
    before, after = (result["second"] - result[key] for key in ("first", "laid"))
    shown = ((result["first"], "first"), (result["second"], "second"), (before, "difference"), (after, "after"))
    for i, (axis, (image, title)) in enumerate(zip(axes, shown, strict=True)):
        settings = {"cmap": "gray"} if i < 2 else {"cmap": "RdBu_r", "vmin": -0.8, "vmax": 0.8}
        axis.imshow(image, **settings)
        axis.set(title=title, xticks=[], yticks=[])
