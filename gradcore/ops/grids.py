"""Sampling of images at the points of a grid."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

from gradcore import dtypes
from gradcore.ops.losses import warn
from gradcore.ops.samples import case, floats
from gradcore.ops.table import composite

# Parameter of the cubic convolution.
_A = -0.75


def _position(coordinate: Any, size: int, align_corners: bool) -> Any:
    """Where a coordinate between -1 and 1 lies among the elements of a dim."""
    if align_corners:
        return (coordinate + 1) * ((size - 1) / 2)
    return ((coordinate + 1) * size - 1) / 2


def _inside(F: Any, position: Any, size: int, padding_mode: str, align_corners: bool) -> Any:
    """The position from which a point outside takes its value, by the padding mode."""
    if padding_mode == "zeros":
        return position
    if padding_mode == "reflection":
        low, span = (0.0, size - 1) if align_corners else (-0.5, size)
        if not span:
            return F.zeros_like(position)
        distance = F.abs(position - low)
        flips = F.floor(distance / span).detach()
        rest = distance - flips * span
        position = F.where(F.remainder(flips, 2) == 0, rest, span - rest) + low
    return F.clamp(position, 0, size - 1)


def _index(F: Any, position: Any, size: int) -> Any:
    """Positions that are whole numbers as int64; what is far outside, or no number, just outside."""
    position = position.detach()
    return F.clamp(F.where(position == position, position, -1.0), -1, size).to(dtypes.int64)


class _Image:
    """The input, flattened, at whole positions."""

    def __init__(self, F: Any, input: Any) -> None:
        self.F, self.sizes = F, tuple(input.shape[2:])
        self.lead = tuple(input.shape[:2])
        self.flat = F.reshape(input, (*self.lead, prod(self.sizes)))

    def at(self, indices: Sequence[Any], weight: Any) -> Any:
        """The elements ``(batch, channels, points)`` times a weight ``(batch, points)``; zero outside."""
        F = self.F
        place: Any = 0
        known: Any = None
        for index, size in zip(indices, self.sizes, strict=True):
            here = (index >= 0) & (index < size)
            known = here if known is None else known & here
            place = place * size + F.clamp(index, 0, size - 1)
        place = F.expand(F.unsqueeze(place, 1), (*self.lead, place.shape[-1]))
        return F.gather(self.flat, 2, place) * F.unsqueeze(weight * known, 1)


def _linear(F: Any, image: _Image, positions: list[Any]) -> Any:
    """The corners around each point, weighted with the distances to the opposite ones."""
    before = [F.floor(p).detach() for p in positions]
    total = None
    for corner in product((0, 1), repeat=len(positions)):
        weight = None
        for bit, p, b in zip(corner, positions, before, strict=True):
            share = p - b if bit else 1 - (p - b)
            weight = share if weight is None else weight * share
        indices = [_index(F, b + bit, size) for bit, b, size in zip(corner, before, image.sizes, strict=True)]
        part = image.at(indices, weight)
        total = part if total is None else total + part
    return total


def _nearest(F: Any, image: _Image, positions: list[Any]) -> Any:
    indices = [_index(F, F.round(p), size) for p, size in zip(positions, image.sizes, strict=True)]
    return image.at(indices, F.ones_like(positions[0]))


def _cubic(F: Any, image: _Image, positions: list[Any], padding_mode: str, align_corners: bool) -> Any:
    """The sixteen elements around each point of a plane, each of which may lie outside."""
    before = [F.floor(p).detach() for p in positions]
    taps = []
    for p, b, size in zip(positions, before, image.sizes, strict=True):
        t = p - b
        weights = (_far(t + 1), _near(t), _near(1 - t), _far(2 - t))
        places = (_inside(F, b + k, size, padding_mode, align_corners) for k in (-1, 0, 1, 2))
        taps.append([(_index(F, place, size), w) for place, w in zip(places, weights, strict=True)])
    total = None
    for (row, down), (column, across) in product(*taps):
        part = image.at((row, column), down * across)
        total = part if total is None else total + part
    return total


def _near(x: Any) -> Any:
    """Cubic convolution up to a distance of 1."""
    return ((_A + 2) * x - (_A + 3)) * x * x + 1


def _far(x: Any) -> Any:
    """Cubic convolution between distances of 1 and 2."""
    return ((_A * x - 5 * _A) * x + 8 * _A) * x - 4 * _A


def _check(input: Any, grid: Any, mode: str, padding_mode: str) -> None:
    if mode not in ("bilinear", "nearest", "bicubic"):
        raise ValueError(
            f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'"
        )
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but got: "
            f"'{padding_mode}'"
        )
    sizes, points = list(input.shape), list(grid.shape)
    if sizes[0] != points[0]:
        raise RuntimeError(
            f"grid_sampler(): expected grid and input to have same batch size, but got input with sizes {sizes} and "
            f"grid with sizes {points}"
        )
    if input.ndim not in (4, 5) or input.ndim != grid.ndim:
        raise RuntimeError(
            f"grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but got input with "
            f"sizes {sizes} and grid with sizes {points}"
        )
    if points[-1] != input.ndim - 2:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {input.ndim - 2} in last dimension, but got grid with sizes "
            f"{points}"
        )
    for dim, size in enumerate(sizes[2:], 2):
        if not size:
            raise RuntimeError(
                f"grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes {sizes} "
                f"with dimension {dim} being empty"
            )
    if mode == "bicubic" and input.ndim != 4:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    if grid.dtype is not input.dtype:
        raise RuntimeError(f"expected scalar type {input.dtype.scalar_name} but found {grid.dtype.scalar_name}")


def _aligned(align_corners: bool | None) -> bool:
    if align_corners is None:
        warn("grid_sample and affine_grid take align_corners=False unless it is given.")
    return bool(align_corners)


_POINTS: dict[str, Any] = {"low": -1.2, "high": 1.2}


@composite(
    path="nn.functional.grid_sample",
    samples=lambda: [
        case(floats(2, 2, 3, 4), floats(2, 2, 3, 2, **_POINTS), align_corners=False),
        case(floats(1, 2, 3, 4), floats(1, 2, 3, 2, **_POINTS), "bicubic", align_corners=True),
        case(floats(1, 2, 3, 4), floats(1, 2, 3, 2, **_POINTS), "bilinear", "reflection", align_corners=False),
        case(floats(1, 2, 3, 4), floats(1, 2, 3, 2, **_POINTS), "nearest", "border", align_corners=True),
        case(floats(1, 1, 2, 3, 2), floats(1, 2, 1, 2, 3, **_POINTS), padding_mode="border", align_corners=True),
    ],
)
def grid_sample(
    F,
    input,
    grid,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
):
    """The values of images or volumes at given points.

    Parameters
    ----------
    input : Tensor
        ``(batch, channels, height, width)``, or with a depth in front of the height.
    grid : Tensor
        Points: ``(batch, *, 2)`` with the coordinates x (along the width) and y, or ``(batch, *, 3)`` with z. From -1
        to 1 they cover the image.
    mode : str
        ``'bilinear'`` (also between the eight corners in a volume), ``'nearest'``, or ``'bicubic'`` (images only).
    padding_mode : str
        What points outside take: ``'zeros'``, the value at the ``'border'``, or that at their ``'reflection'``.
    align_corners : bool, optional
        Whether -1 and 1 are the centres of the corner elements, rather than their outer borders.

    Returns
    -------
    Tensor
        Of shape ``(batch, channels, *grid.shape[1:-1])``.

    Examples
    --------
    >>> image = gc.tensor([[[[0.0, 1.0], [2.0, 3.0]]]])
    >>> gc.nn.functional.grid_sample(image, gc.zeros(1, 1, 1, 2), align_corners=True)
    tensor([[[[1.5000]]]])
    """
    _check(input, grid, mode, padding_mode)
    align = _aligned(align_corners)
    image = _Image(F, input)
    points = F.reshape(grid, (grid.shape[0], -1, grid.shape[-1]))
    positions = [_position(points[..., -1 - d], size, align) for d, size in enumerate(image.sizes)]
    if mode == "bicubic":
        out = _cubic(F, image, positions, padding_mode, align)
    else:
        positions = [_inside(F, p, size, padding_mode, align) for p, size in zip(positions, image.sizes, strict=True)]
        out = (_linear if mode == "bilinear" else _nearest)(F, image, positions)
    return F.unsafe_view(out, (*input.shape[:2], *grid.shape[1:-1]))


@composite(
    path="nn.functional.affine_grid",
    samples=lambda: [
        case(floats(2, 2, 3), (2, 1, 3, 4), align_corners=False),
        case(floats(1, 3, 4), (1, 2, 2, 3, 2), align_corners=True),
    ],
)
def affine_grid(F, theta, size: Sequence[int], align_corners: bool | None = None):
    """The points of images or volumes of that size under affine maps, for `grid_sample`.

    Parameters
    ----------
    theta : Tensor
        One matrix for each image, ``(batch, 2, 3)``, or ``(batch, 3, 4)`` for volumes.
    size : sequence of int
        ``(batch, channels, *sizes)``.
    align_corners : bool, optional
        As for `grid_sample`.

    Returns
    -------
    Tensor
        Of shape ``(batch, height, width, 2)``, or ``(batch, depth, height, width, 3)``.

    Examples
    --------
    >>> identity = gc.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    >>> gc.nn.functional.affine_grid(identity, (1, 1, 2, 2), align_corners=True)[0, 0]
    tensor([[-1., -1.],
            [ 1., -1.]])
    """
    align = _aligned(align_corners)
    if not theta.dtype.is_floating_point:
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    n = len(size) - 2
    if n not in (2, 3):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. "
            f"Got size {size}."
        )
    if theta.ndim != 3 or tuple(theta.shape[1:]) != (n, n + 1):
        raise ValueError(
            f"Expected a batch of {n}D affine matrices of shape Nx{n}x{n + 1} for size {size}. Got {theta.shape}."
        )
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    lines = [F.index_tensor(_line(s, align), theta).to(theta.dtype) for s in size[2:]]
    coordinates = [F.reshape(x, (-1, 1)) for x in F.meshgrid(lines, indexing="ij")[::-1]]
    points = F.cat([*coordinates, F.ones_like(coordinates[0])], 1)
    out = F.matmul(points, F.transpose(theta, 1, 2))
    return F.unsafe_view(out, (size[0], *size[2:], n))


def _line(size: int, align_corners: bool) -> list[float]:
    """The coordinates of the elements of one dim."""
    if align_corners:
        return [2 * i / (size - 1) - 1 if size > 1 else 0.0 for i in range(size)]
    return [(2 * i + 1) / size - 1 for i in range(size)]
