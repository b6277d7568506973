"""Resizing of images, signals and volumes (`interpolate`) as a linear map of each spatial dimension in turn.

The map of a dimension is a table of input indices and weights, computed on the host exactly as in
PyTorch: in the precision of the data, since an index or weight may change with the rounding of the scale.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcore.backends.portable.separable import Taps, fold, spread

if TYPE_CHECKING:
    from gradcore.core.arrays import Array

__all__ = ["BYTES", "Resizing", "maps_by_dim", "resampling_taps"]

Table = np.ndarray[Any, Any]

#: Follows the mode for images of uint8.
BYTES = " of bytes"


class Resizing:
    """Resampling of the spatial dims of images ``(N, C, *S)`` of float32 or float64.

    The settings are:

    scales : sequence of float or None
        The scale factors from which positions are computed. None stands for the ratios of the sizes, as with
        `recompute_scale_factor`.
    mode : str
        ``nearest``, ``nearest-exact``, ``linear``, ``bilinear``, ``trilinear``, ``bicubic`` or ``lanczos``. (``area``
        is adaptive average pooling.) With `BYTES` after it, weights are rounded as PyTorch's for images of uint8.
    align_corners : bool
        Map the centres of the corner elements to each other, rather than their outer borders.
    antialias : bool
        Widen the filter when the result is smaller; for ``bilinear``, ``bicubic`` and ``lanczos``.
    """

    xp: Any

    def resample(self, x: Array, size: Sequence[int], *settings: Any) -> Array:
        """Resize images to another spatial size."""
        for dim, taps in maps_by_dim(x.dtype, x.shape[2:], size, *settings):
            x = fold(self.xp, self.xp.add, x, dim, taps)
        return x

    def resample_backward(self, grad: Array, size: Sequence[int], *settings: Any) -> Array:
        """Return the gradient of `resample` by images of the spatial size `size`."""
        for dim, taps in reversed(maps_by_dim(grad.dtype, size, grad.shape[2:], *settings)):
            grad = spread(self.xp, grad, dim, taps)
        return grad


def maps_by_dim(
    dtype: Any,
    sizes: Sequence[int],
    outputs: Sequence[int],
    scales: Sequence[float | None],
    mode: str,
    align_corners: bool = False,
    antialias: bool = False,
) -> list[tuple[int, Taps]]:
    """Return pairs of a dim and its linear map, in an order that keeps intermediate results small."""
    taps = [
        resampling_taps(size, out, scale, mode, align_corners, antialias, dtype)
        for size, out, scale in zip(sizes, outputs, scales, strict=True)
    ]
    return sorted(enumerate(taps, 2), key=lambda item: item[1].outputs / item[1].inputs)


@lru_cache(maxsize=256)
def resampling_taps(
    size: int,
    outputs: int,
    scale: float | None,
    mode: str,
    align_corners: bool,
    antialias: bool,
    dtype: np.dtype[Any],
) -> Taps:
    """Return the linear map that resamples one dim."""
    real = dtype.type if dtype.kind in "fV" else np.float32  # bytes: their indices do not fit into a byte
    mode, of_bytes = mode.removesuffix(BYTES), mode.endswith(BYTES)
    real = np.float64 if of_bytes else real
    step = _step(size, outputs, scale, align_corners, real)
    if mode in ("nearest", "nearest-exact"):
        return Taps.of_table(size, _nearest(size, outputs, step, mode == "nearest-exact", real)[:, None])
    table: tuple[Table, Table | None]
    if antialias:
        table = _filter_taps(size, outputs, step, *_FILTERS[mode], real)
    else:
        table = (_cubic if mode == "bicubic" else _linear)(size, outputs, step, align_corners, real)
    return Taps.of_table(size, *(_round_weights(*table, dtype) if of_bytes else table))


def _round_weights(indices: Table, weights: Table | None, dtype: np.dtype[Any]) -> tuple[Table, Table | None]:
    """Round weights to multiples of a power of two, so that the largest is an integer of 15 bits.

    Weights of equal indices are neighbours, and are added before. The first keeps the sum.
    """
    if weights is None:
        return indices, None
    weights = weights.copy()
    for tap in reversed(range(1, weights.shape[1])):
        is_equal = (indices[:, tap] == indices[:, tap - 1]) & (indices[:, tap] >= 0)
        weights[:, tap - 1] += np.where(is_equal, weights[:, tap], 0)
        weights[:, tap] = np.where(is_equal, 0, weights[:, tap])
    bits = next((n for n in range(22) if int(0.5 + weights.max() * 2 ** (n + 1)) >= 1 << 15), 22)
    scaled = weights * 2.0**bits
    return indices, (np.trunc(scaled + np.copysign(0.5, scaled)) / 2.0**bits).astype(dtype)


def _step(size: int, outputs: int, scale: float | None, align_corners: bool, real: Any) -> Any:
    """Return the distance between the positions of two neighbouring outputs, in units of inputs."""
    if align_corners:
        return real(size - 1) / real(outputs - 1) if outputs > 1 else real(0)
    return real(1.0 / scale) if scale is not None and scale > 0 else real(size) / real(outputs)


def _nearest(size: int, outputs: int, step: Any, exact: bool, real: Any) -> Table:
    """Return the index of the input that contains each output's centre (`exact`) or its first border."""
    positions = np.maximum(_positions(outputs, step, not exact, real), 0) + real(0.5 if exact else 0)
    # Like PyTorch, compute in float32 for data of any dtype, because rounding can change the index.
    indices: Table = np.minimum(np.floor(positions.astype(np.float32)).astype(np.int64), size - 1)
    return indices


def _positions(outputs: int, step: Any, align_corners: bool, real: Any) -> Table:
    """Return the position of each output among the inputs."""
    numbers = np.arange(outputs).astype(real)
    positions: Table = numbers * step if align_corners else (numbers + real(0.5)) * step - real(0.5)
    return positions


def _split(positions: Table, size: int) -> tuple[Table, Table]:
    """Return the input at or before each position, and the position's distance from it."""
    before = np.minimum(np.floor(positions).astype(np.int64), size - 1)
    return before, np.clip(positions - before.astype(positions.dtype), 0, 1)


def _linear(size: int, outputs: int, step: Any, align_corners: bool, real: Any) -> tuple[Table, Table | None]:
    if outputs == size:
        return np.arange(size)[:, None], None
    before, distance = _split(np.maximum(_positions(outputs, step, align_corners, real), 0), size)
    return np.stack([before, np.minimum(before + 1, size - 1)], 1), np.stack([1 - distance, distance], 1)


def _cubic(size: int, outputs: int, step: Any, align_corners: bool, real: Any) -> tuple[Table, Table]:
    before, distance = _split(_positions(outputs, step, align_corners, real), size)
    offsets = np.arange(-1, 3)
    weights = _cubic_filter(distance[:, None] - offsets.astype(real), real(-0.75))
    return np.clip(before[:, None] + offsets, 0, size - 1), weights


def _filter_taps(
    size: int, outputs: int, step: Any, width: int, filter: Callable[[Table], Table], real: Any
) -> tuple[Table, Table]:
    """Return the indices and weights of the inputs within the filter around each output.

    When an image gets smaller, the filter is stretched to the distance of two outputs.
    """
    scale = max(step, real(1))
    support = real(width * 0.5) * scale
    centers = step * (np.arange(outputs).astype(real) + real(0.5))
    first = np.maximum((centers - support + real(0.5)).astype(np.int64), 0)
    end = np.minimum((centers + support + real(0.5)).astype(np.int64), size)
    numbers = np.arange(ceil(support) * 2 + 1)
    indices = first[:, None] + numbers
    weights = filter((indices.astype(real) - centers[:, None] + real(0.5)) * (real(1) / scale))
    weights = np.where(indices < end[:, None], weights, real(0))
    total = weights.sum(axis=1, keepdims=True)
    return np.where(indices < end[:, None], indices, -1), weights / np.where(total == 0, real(1), total)


def _triangle_filter(x: Table) -> Table:
    values: Table = np.maximum(1 - np.abs(x), 0)
    return values


def _cubic_filter(x: Table, a: Any) -> Table:
    """Return the weights of cubic convolution with parameter `a` at the distances `x`."""
    x = np.abs(x)
    inner_weight = ((a + 2) * x - (a + 3)) * x * x + 1
    outer_weight = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, inner_weight, np.where(x < 2, outer_weight, 0)).astype(x.dtype)


def _lanczos_filter(x: Table) -> Table:
    return np.where(np.abs(x) < 3, np.sinc(x) * np.sinc(x / 3), 0).astype(x.dtype)


# Width of the filter in inputs, and the filter.
_FILTERS: dict[str, tuple[int, Callable[[Table], Table]]] = {
    "bilinear": (2, _triangle_filter),
    "bicubic": (4, lambda x: _cubic_filter(x, x.dtype.type(-0.5))),
    "lanczos": (6, _lanczos_filter),
}
