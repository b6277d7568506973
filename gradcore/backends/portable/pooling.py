"""Kernels of pooling over windows and of adaptive pooling, with one to three spatial dimensions.

Maxima and sums are taken dimension by dimension. A maximum comes with its index in the flattened spatial dimensions; as
in PyTorch it is the first of equal maxima, and the last NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcore.backends.kernel_methods import packed
from gradcore.backends.kernel_rules import Settings, native_arrays
from gradcore.backends.portable.separable import Step, Taps, along, fold, on_device, select, spread
from gradcore.backends.portable.sliding import pool_output_size
from gradcore.core.typing import NUMPY, NamedTuple

if TYPE_CHECKING:
    from gradcore.core.arrays import Array, Namespace

__all__ = ["AvgPool", "MaxPool", "Pooling", "planes_of", "pool_output_size"]

Ints = Sequence[int]

#: The number of elements of each window, along each dimension.
Counts = list[np.ndarray]


class MaxPool(NamedTuple):
    """Settings of the windows of `max_pool`, with one number for each spatial dim."""

    kernel: Ints
    stride: Ints
    padding: Ints
    dilation: Ints
    ceil_mode: bool


class AvgPool(NamedTuple):
    """Settings of the windows of `avg_pool`, with one number for each spatial dim, and the divisor of the sums."""

    kernel: Ints
    stride: Ints
    padding: Ints
    ceil_mode: bool
    count_include_pad: bool
    divisor: int | None

    def by_dim(self, sizes: Ints) -> list[Taps]:
        """Return the windows along each spatial dim, as maps of one dim."""
        settings = zip(sizes, self.kernel, self.stride, self.padding, strict=True)
        return [_windows(size, k, s, p, 1, self.ceil_mode) for size, k, s, p in settings]


class Planes(NamedTuple):
    """The C structure `Windows` of `pooling.h`: the number of planes, and two numbers of each kind."""

    planes: int
    size: Ints
    outputs: Ints
    kernel: Ints
    stride: Ints
    padding: Ints
    dilation: Ints


def planes_of(shape: Ints, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool) -> Planes | None:
    """Return the settings of the C++ function of maxima over planes of two dims; of one dim, the first has size 1."""
    n = len(kernel)
    size, lead = shape[len(shape) - n :], shape[: len(shape) - n]
    if n > 2 or prod(size) >= 1 << 31:
        return None
    outputs = [pool_output_size(*each, ceil_mode) for each in zip(size, kernel, stride, padding, dilation, strict=True)]
    members = zip((size, outputs, kernel, stride, padding, dilation), (1, 1, 1, 1, 0, 1), strict=True)
    pairs = [(single,) * (2 - n) + tuple(each) for each, single in members]
    return Planes(prod(lead), *pairs)


def _settings_of_planes(x: Array, *settings: Any) -> Settings:
    planes = planes_of(x.shape, *settings)
    return None if planes is None else (tuple(planes),)


class Pooling:
    """Pooling of the last dims, with any number of dims in front of them."""

    xp: Namespace
    check_bounds: Any
    write_at: Any

    # -- maxima --------------------------------------------------------------------------------------------------

    @native_arrays("max_pool", "x -> value position", _settings_of_planes)
    @packed(MaxPool)
    def max_pool(self, x: Array, window: MaxPool) -> tuple[Array, Array]:
        """Return the maximum of each window and its index (int64)."""
        kernel, stride, padding, dilation, ceil_mode = window
        sizes = zip(x.shape[x.ndim - len(kernel) :], kernel, stride, padding, dilation, strict=True)
        by_dim = [_windows(*each, ceil_mode) for each in sizes]
        starts = [np.arange(taps.outputs) * s - p for taps, s, p in zip(by_dim, stride, padding, strict=True)]
        return _max(self.xp, x, by_dim, starts, kernel, dilation)

    def adaptive_max_pool(self, x: Array, size: Ints) -> tuple[Array, Array]:
        """Return the maximum of each of `size` equal parts and its index (int64)."""
        by_dim = list(map(_parts, x.shape[x.ndim - len(size) :], size))
        starts = [_bounds(taps.inputs, taps.outputs)[0] for taps in by_dim]
        kernel = [max((step.tap for step in taps.steps), default=0) + 1 for taps in by_dim]
        return _max(self.xp, x, by_dim, starts, kernel, [1] * len(kernel))

    @native_arrays(
        "spread_places", "x indices=position -> value",
        lambda x, indices, size, *_: (prod(x.shape[: -len(size)]), prod(x.shape[-len(size) :]), prod(size)),
    )  # fmt: skip
    def max_pool_spread(self, x: Array, indices: Array, size: Ints, windows: Ints = ()) -> Array:
        """Return zeros of `size` to which `x` is added at the maxima's indices (adjoint of `max_pool_gather`)."""
        lead = x.shape[: x.ndim - len(size)]
        result = self.xp.zeros(prod(lead) * prod(size), dtype=x.dtype)
        self.xp.add.at(result, _flat(self.xp, indices, prod(lead), prod(size)), x.reshape(-1))
        return result.reshape(*lead, *size)

    def max_pool_gather(self, x: Array, indices: Array, n: int) -> Array:
        """Return the elements of `x` at flat indices of its last `n` dims."""
        lead, size = x.shape[: x.ndim - n], x.shape[x.ndim - n :]
        return self.xp.take(x.reshape(-1), _flat(self.xp, indices, prod(lead), prod(size))).reshape(indices.shape)

    def max_unpool(self, x: Array, indices: Array, size: Ints) -> Array:
        """Check `indices`, and write `x` to them in zeros of `size`. Where an index repeats, one element wins."""
        volume = "x".join(map(str, size))
        message = f"Found an invalid max index: {{index}} (output volumes are of size {volume})"
        try:
            self.check_bounds(indices, prod(size), 0, 0, message)
        except IndexError as error:
            raise RuntimeError(str(error)) from None
        lead, outputs = x.shape[: -len(size)], x.shape[-len(size) :]
        rows = self.xp.arange(prod(lead)).reshape(-1, 1) * prod(size)
        result = self.xp.zeros(prod(lead) * prod(size), dtype=x.dtype)
        self.write_at(result, indices.reshape(prod(lead), prod(outputs)) + rows, x.reshape(prod(lead), prod(outputs)))
        return result.reshape(*lead, *size)

    # -- means ---------------------------------------------------------------------------------------------------

    @packed(AvgPool)
    def avg_pool(self, x: Array, window: AvgPool) -> Array:
        """Return the mean of each window."""
        sizes = x.shape[x.ndim - len(window.kernel) :]
        result = _fold_all(self.xp.add, self.xp.sum, self.xp, x, window.by_dim(sizes))
        return _divide(self.xp, result, _window_counts(sizes, result.shape[x.ndim - len(sizes) :], window))

    @packed(AvgPool)
    def avg_pool_spread(self, grad: Array, size: Ints, window: AvgPool) -> Array:
        """Return the gradient of `avg_pool` by an input of the spatial size `size`."""
        first = grad.ndim - len(size)
        result = _divide(self.xp, grad, _window_counts(size, grad.shape[first:], window))
        for dim, taps in reversed(list(enumerate(window.by_dim(size), first))):
            result = spread(self.xp, result, dim, taps)
        return result

    def adaptive_avg_pool(self, x: Array, size: Ints) -> Array:
        """Return the mean of each of `size` equal parts."""
        sizes = x.shape[x.ndim - len(size) :]
        result = _fold_all(self.xp.add, self.xp.sum, self.xp, x, list(map(_parts, sizes, size)))
        return _divide(self.xp, result, _part_counts(sizes, size))

    def adaptive_avg_pool_spread(self, grad: Array, size: Ints) -> Array:
        """Return the gradient of `adaptive_avg_pool` by an input of the spatial size `size`."""
        first = grad.ndim - len(size)
        outputs = grad.shape[first:]
        result = _divide(self.xp, grad, _part_counts(size, outputs))
        for dim, taps in reversed(list(enumerate(map(_parts, size, outputs), first))):
            result = spread(self.xp, result, dim, taps)
        return result


# -- windows ------------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _windows(size: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> Taps:
    outputs = pool_output_size(size, kernel, stride, padding, dilation, ceil_mode)
    return Taps.of_windows(size, kernel, stride, padding, dilation, outputs)


@lru_cache(maxsize=256)
def _parts(size: int, outputs: int) -> Taps:
    """Return the windows of adaptive pooling along one dim, which may overlap and differ in size by one."""
    if outputs and size % outputs == 0:
        return Taps.of_windows(size, size // outputs, size // outputs, 0, 1, outputs)
    starts, ends = _bounds(size, outputs)
    indices = starts[:, None] + np.arange((ends - starts).max(initial=0))
    return Taps.of_table(size, np.where(indices < ends[:, None], indices, -1))


def _bounds(size: int, outputs: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the first index of each of `outputs` equal parts, and the index after its last."""
    numbers = np.arange(outputs)
    return numbers * size // outputs, -(-(numbers + 1) * size // outputs)


def _window_counts(sizes: Ints, outputs: Ints, window: AvgPool) -> Counts | float:
    """Return the divisors of the sums of windows, along each dim or as one number."""
    if window.divisor is not None:
        return float(window.divisor)
    counts = []
    for size, k, s, p, out in zip(sizes, window.kernel, window.stride, window.padding, outputs, strict=True):
        starts = np.arange(out) * s - p
        ends = np.minimum(starts + k, size + p)
        if not window.count_include_pad:
            starts, ends = np.maximum(starts, 0), np.minimum(ends, size)
        counts.append(ends - starts)
    return _uniform(counts)


def _part_counts(sizes: Sequence[int], outputs: Sequence[int]) -> Counts | float:
    bounds = map(_bounds, sizes, outputs)
    return _uniform([ends - starts for starts, ends in bounds])


def _uniform(counts: Counts) -> Counts | float:
    """Return the counts along each dim, or their product if it is the same everywhere."""
    if all(each.size and (each == each[0]).all() for each in counts):
        return float(prod(int(each[0]) for each in counts))
    return counts


def _divide(xp: Namespace, array: Any, counts: Counts | float) -> Array:
    if isinstance(counts, float):
        return array / array.dtype.type(counts)
    product = on_device(xp, counts[0], array.dtype)
    for each in counts[1:]:
        product = product[..., None] * on_device(xp, each, array.dtype)
    return array / product


def _fold_all(combine: Any, reduce: Any, xp: Namespace, x: Array, by_dim: Sequence[Taps], empty: Any = 0) -> Array:
    """Reduce the windows of all dims: in one call along dims whose output is one element, tap by tap along others."""
    first = x.ndim - len(by_dim)
    total = tuple(dim for dim, taps in enumerate(by_dim, first) if taps.total)
    if total:
        x = reduce(x, axis=total, keepdims=True)
    for dim, taps in enumerate(by_dim, first):
        if dim not in total:
            x = fold(xp, combine, x, dim, taps, empty)
    return x


# -- maxima -------------------------------------------------------------------------------------------------


def _max(
    xp: Namespace,
    x: Array,
    by_dim: Sequence[Taps],
    starts: Sequence[np.ndarray],
    kernel: Sequence[int],
    dilation: Sequence[int],
) -> tuple[Array, Array]:
    lowest = np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf
    first = x.ndim - len(by_dim)
    sizes = x.shape[first:]
    code_type = np.min_scalar_type(prod(kernel))
    codes: Array | None = None
    # From the last dimension to the first, so that of equal maxima the first in memory wins.
    for i in reversed(range(len(sizes))):
        x, codes = _max_along(xp, x, codes, first + i, by_dim[i], prod(kernel[i + 1 :]), code_type, lowest)
    offsets = np.zeros((), np.int64)
    for size, k, d in zip(sizes, kernel, dilation, strict=True):
        offsets = offsets[..., None] * size + np.arange(k) * d
    indices = xp.take(on_device(xp, offsets.reshape(-1)), codes)
    origins = on_device(xp, starts[0])
    for size, start in zip(sizes[1:], starts[1:], strict=True):
        origins = origins[..., None] * size + on_device(xp, start)
    indices += origins
    if not all(taps.complete for taps in by_dim):
        # For windows that consist of padding only, any valid index will do.
        indices = xp.clip(indices, 0, prod(sizes) - 1)
    return x, indices


def _max_along(
    xp: Namespace, x: Array, codes: Array | None, dim: int, taps: Taps, scale: int, code_type: Any, lowest: Any
) -> tuple[Array, Array]:
    """Return the maxima of windows along one dim, and codes that say which tap each maximum came from.

    A code numbers the taps of all dims, with the last dim fastest. A later tap has a larger code. Therefore the code of
    the maximum is the maximum over the codes of taps that were larger than those before, without a branch on data.
    """

    def candidate(step: Step) -> tuple[Array, Array]:
        code = code_type.type(step.tap * scale)
        if codes is not None:
            code = select(xp, codes, dim, step.inputs) + code
        value = select(xp, x, dim, step.inputs)
        return np.ascontiguousarray(value) if xp is NUMPY else value, code  # used several times

    steps = iter(taps.steps)
    if taps.whole > 1:
        best, best_code = _better(xp, *candidate(next(steps)), *candidate(next(steps)))
    else:
        shape = (*x.shape[:dim], taps.outputs, *x.shape[dim + 1 :])
        best, best_code = xp.full(shape, lowest, dtype=x.dtype), xp.zeros(shape, dtype=code_type)
    for step in steps:
        target = along(xp, dim, step.outputs)
        if step.first:
            best[target], best_code[target] = candidate(step)
        else:
            best_before = select(xp, best, dim, step.outputs), select(xp, best_code, dim, step.outputs)
            best[target], best_code[target] = _better(xp, *best_before, *candidate(step))
    return best, best_code


def _better(xp: Namespace, best: Array, best_code: Array, value: Array, code: Array) -> tuple[Array, Array]:
    """Return the larger value and its code, that of `value` if both are NaN."""
    is_better = value > best
    if value.dtype.kind not in "iu":
        is_better |= value != value
    return xp.maximum(best, value), xp.maximum(best_code, is_better * code)


def _flat(xp: Namespace, indices: Array, planes: int, size: int) -> Array:
    """Return indices in planes of `size` elements as indices of the flattened array."""
    offsets = xp.arange(planes).reshape(planes, 1) * size
    return (indices.reshape(planes, indices.size // max(planes, 1)) + offsets).reshape(-1)
