"""Sampling of images at the points of a grid."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import product
from math import nan, prod
from operator import mul, or_
from typing import Any, NamedTuple

from gradcore.core import dtypes
from gradcore.core.errors import warn
from gradcore.ops.declare.promotion import same_dtypes
from gradcore.ops.declare.samples import case, floats
from gradcore.ops.declare.shapes import check_count, check_elements
from gradcore.ops.declare.table import composite, general

# Parameter of the cubic convolution kernel, as in PyTorch.
_A = -0.75


def _move_inside(F: Any, position: Any, size: int, padding_mode: str, align_corners: bool) -> tuple[Any, Any]:
    """Return the position to read for a point, by the padding mode, and its derivative.

    The derivative is with respect to the given position. It is None for the padding mode ``"zeros"``, where it is 1.
    """
    if padding_mode == "zeros":
        return position, None
    slope: Any = 1.0
    if padding_mode == "reflection":
        low, span = (0.0, size - 1) if align_corners else (-0.5, size)
        if not span:
            return F.zeros_like(position), F.zeros_like(position)
        displacement = position - low
        distance = F.abs(displacement)
        flips = F.floor(distance / span)
        remainder = distance - flips * span
        even = flips - F.floor(flips / 2) * 2 == 0
        position = F.where(even, remainder, span - remainder) + low
        slope = F.where(even == (displacement >= 0), F.ones_like(displacement), -F.ones_like(displacement))
    between = (position >= 0) & (position <= size - 1)
    return F.clamp(position, 0, size - 1), F.where(between, slope, F.zeros_like(position))


class _Taps(NamedTuple):
    """The elements along one dim that contribute to each point.

    Attributes
    ----------
    indices : list of Tensor
        The indices of the elements, as integers in the coordinates' dtype; they may lie outside the image.
    weights : list of Tensor
        The weights of the elements in the sum.
    slopes : list of Tensor
        The derivatives of the weights by the coordinate; none where weights are constant.
    """

    indices: list[Any]
    weights: list[Any]
    slopes: list[Any]


def _taps(F: Any, coordinate: Any, size: int, mode: str, padding_mode: str, align_corners: bool) -> _Taps:
    scale = (size - 1) / 2 if align_corners else size / 2
    position = (coordinate + 1) * scale if align_corners else ((coordinate + 1) * size - 1) / 2
    if mode == "bicubic":
        before = F.floor(position)
        t = position - before
        positions = [_move_inside(F, before + k, size, padding_mode, align_corners)[0] for k in (-1, 0, 1, 2)]
        weights = [_far(t + 1), _near(t), _near(1 - t), _far(2 - t)]
        slopes = [_far_slope(t + 1), _near_slope(t), -_near_slope(1 - t), -_far_slope(2 - t)]
        return _Taps(positions, weights, [s * scale for s in slopes])
    position, slope = _move_inside(F, position, size, padding_mode, align_corners)
    if mode == "nearest":
        return _Taps([F.round(position)], [F.ones_like(position)], [])
    before = F.floor(position)
    t = position - before
    slope = F.ones_like(t) * scale if slope is None else slope * scale
    return _Taps([before, before + 1], [1 - t, t], [-slope, slope])


def _near(x: Any) -> Any:
    """Return the weight of cubic convolution at a distance up to 1."""
    return ((_A + 2) * x - (_A + 3)) * x * x + 1


def _near_slope(x: Any) -> Any:
    return (3 * (_A + 2) * x - 2 * (_A + 3)) * x


def _far(x: Any) -> Any:
    """Return the weight of cubic convolution at a distance between 1 and 2."""
    return ((_A * x - 5 * _A) * x + 8 * _A) * x - 4 * _A


def _far_slope(x: Any) -> Any:
    return (3 * _A * x - 10 * _A) * x + 8 * _A


class _Tap(NamedTuple):
    """Element that contributes to each point, over all dims.

    Attributes
    ----------
    pixel : Tensor
        The index of the element in the flattened image, ``(batch, points)``; a valid one also for elements outside.
    known : Tensor
        Whether it is inside.
    weight : Tensor
        The weight of the element in the sum.
    slopes : list of Tensor
        The derivatives of the weight by each coordinate; none where weights are constant.
    """

    pixel: Any
    known: Any
    weight: Any
    slopes: list[Any]


def _iterate_taps(F: Any, grid: Any, sizes: Sequence[int], mode: str, padding_mode: str, align: bool) -> Iterator[_Tap]:
    n = len(sizes)
    points = F.reshape(grid, (grid.shape[0], prod(grid.shape[1:-1]), n))
    lines = [_taps(F, F.select(points, 2, n - 1 - d), size, mode, padding_mode, align) for d, size in enumerate(sizes)]
    for combination in product(*(range(len(line.weights)) for line in lines)):
        pixel: Any = 0
        is_pixel: Any = None
        for line, k, size in zip(lines, combination, sizes, strict=True):
            index = line.indices[k]
            is_inside = (index >= 0) & (index <= size - 1)
            is_pixel = is_inside if is_pixel is None else is_pixel & is_inside
            pixel = pixel * size + F.to(F.where(is_inside, index, F.zeros_like(index)), dtypes.int64)
        weights = [line.weights[k] for line, k in zip(lines, combination, strict=True)]
        slopes = [
            reduce(mul, [*weights[:d], line.slopes[k], *weights[d + 1 :]])
            for d, (line, k) in enumerate(zip(lines, combination, strict=True))
            if line.slopes
        ]
        yield _Tap(pixel, is_pixel, reduce(mul, weights), slopes)


@general(
    node=lambda self_shape: f"GridSampler{len(self_shape) - 2}DBackward0",
    mixed=same_dtypes(
        "grid_sampler(): expected input and grid to have same dtype, but input has {self} and grid has {grid}"
    ),
    joint=("self", "grid"),
    function=False,
    method=False,
    half_on_cuda="grids",
)
def grid_sampler(K, self, grid, mode: str, padding_mode: str, align_corners: bool):
    """Return the values of images at the points of grids; see `grid_sample`."""
    lead, sizes = tuple(self.shape[:2]), tuple(self.shape[2:])
    image = K.reshape(self, (*lead, prod(sizes)))
    points = K.reshape(grid, (grid.shape[0], prod(grid.shape[1:-1]), len(sizes)))
    is_nan = reduce(or_, (points[:, :, d] != points[:, :, d] for d in range(len(sizes))))
    total: Any = None
    for tap in _iterate_taps(K, grid, sizes, mode, padding_mode, align_corners):
        weight = K.where(tap.known, tap.weight, K.zeros_like(tap.weight))
        if total is None:
            weight = K.where(is_nan, nan, weight)  # a point without a place has no value
        term = K.gather(image, 2, _expand_to_channels(K, tap.pixel, lead)) * K.unsqueeze(weight, 1)
        total = term if total is None else total + term
    return K.reshape(total, (*lead, *grid.shape[1:-1]))


@grid_sampler.vjp("self", "grid")
def _(F, grad, self, grid, mode, padding_mode, align_corners, needs):
    return F.grid_sampler_backward(grad, self, grid, mode, padding_mode, align_corners, needs)


@composite(function=False, method=False)
def grid_sampler_backward(
    F, grad, input, grid, mode: str, padding_mode: str, align_corners: bool, needs: tuple[bool, ...]
):
    """Return the gradients of `grid_sampler`."""
    lead, sizes = tuple(input.shape[:2]), tuple(input.shape[2:])
    image = F.reshape(input, (*lead, prod(sizes)))
    grad = F.reshape(grad, (*lead, prod(grid.shape[1:-1])))
    to_image, to_points = F.zeros_like(image), None
    for tap in _iterate_taps(F, grid, sizes, mode, padding_mode, align_corners):
        pixel, zero = _expand_to_channels(F, tap.pixel, lead), F.zeros_like(tap.weight)
        if needs[0]:
            weight = F.unsqueeze(F.where(tap.known, tap.weight, zero), 1)
            to_image = F.scatter_add(to_image, 2, pixel, grad * weight)
        if needs[1] and tap.slopes:
            value = F.sum(F.gather(image, 2, pixel) * grad, (1,))
            grid_terms = F.stack([F.where(tap.known, value * slope, zero) for slope in tap.slopes[::-1]], -1)
            to_points = grid_terms if to_points is None else to_points + grid_terms
    to_grid = None
    if needs[1]:
        to_grid = F.zeros_like(grid) if to_points is None else F.reshape(to_points, tuple(grid.shape))
    return F.reshape(to_image, tuple(input.shape)) if needs[0] else None, to_grid


def _expand_to_channels(F: Any, pixel: Any, lead: tuple[int, ...]) -> Any:
    return F.expand(F.unsqueeze(pixel, 1), (*lead, pixel.shape[-1]))


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


def _resolve_align_corners(align_corners: bool | None) -> bool:
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
    autocast="float32:cpu widest:cuda",
)
def grid_sample(
    F,
    input,
    grid,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
):
    """Return the values of images or volumes at given points.

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
        The value of points outside: ``'zeros'``, the value at the ``'border'``, or that at their ``'reflection'``.
    align_corners : bool, optional
        Whether -1 and 1 are the centres of the corner elements, rather than their outer borders.

    Returns
    -------
    Tensor
        Result of shape ``(batch, channels, *grid.shape[1:-1])``.

    Examples
    --------
    >>> image = gc.tensor([[[[0.0, 1.0], [2.0, 3.0]]]])
    >>> gc.nn.functional.grid_sample(image, gc.zeros(1, 1, 1, 2), align_corners=True)
    tensor([[[[1.5000]]]])
    """
    _check(input, grid, mode, padding_mode)
    return F.grid_sampler(input, grid, mode, padding_mode, _resolve_align_corners(align_corners))


@composite(
    path="nn.functional.affine_grid",
    samples=lambda: [
        case(floats(2, 2, 3), (2, 1, 3, 4), align_corners=False),
        case(floats(1, 3, 4), (1, 2, 2, 3, 2), align_corners=True),
    ],
)
def affine_grid(F, theta, size: Sequence[int], align_corners: bool | None = None):
    """Return the points of images or volumes of that size under affine maps, for `grid_sample`.

    Parameters
    ----------
    theta : Tensor
        One matrix for each image, ``(batch, 2, 3)``, or ``(batch, 3, 4)`` for volumes.
    size : sequence of int
        ``(batch, channels, *sizes)``.
    align_corners : bool, optional
        See `grid_sample`.

    Returns
    -------
    Tensor
        Result of shape ``(batch, height, width, 2)``, or ``(batch, depth, height, width, 3)``.

    Examples
    --------
    >>> identity = gc.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    >>> gc.nn.functional.affine_grid(identity, (1, 1, 2, 2), align_corners=True)[0, 0]
    tensor([[-1., -1.],
            [ 1., -1.]])
    """
    align = _resolve_align_corners(align_corners)
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
    if theta.shape[0] != size[0]:
        raise RuntimeError(f"Expected {size[0]} affine matrices for size {size}, but got {theta.shape[0]}")
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    check_elements((size[0], *size[2:], n))
    check_count("affine_grid", max(size[2:]))
    lines = [F.index_tensor(_line(s, align), theta).to(theta.dtype) for s in size[2:]]
    coordinates = [F.reshape(x, (-1, 1)) for x in F.meshgrid(lines, indexing="ij")[::-1]]
    points = F.cat([*coordinates, F.ones_like(coordinates[0])], 1)
    out = F.matmul(points, F.transpose(theta, 1, 2))
    return F.unsafe_view(out, (size[0], *size[2:], n))


def _line(size: int, align_corners: bool) -> list[float]:
    """Return the coordinates of the elements of one dim."""
    if align_corners:
        return [2 * i / (size - 1) - 1 if size > 1 else 0.0 for i in range(size)]
    return [(2 * i + 1) / size - 1 for i in range(size)]
