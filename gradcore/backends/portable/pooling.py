"""Pooling over windows and adaptive pooling, with one to three spatial dimensions.

Arrays are batched, `(N, C, *S)`. Maxima and sums are taken dimension by dimension. A maximum can be had
with its index in the flattened spatial dimensions; as in PyTorch it is the first of equal maxima, and the
last NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from gradcore.backends.portable.separable import Step, Taps, along, fold, on_device, select, spread
from gradcore.backends.portable.sliding import pool_output_size

__all__ = [
    "adaptive_avg_pool",
    "adaptive_avg_pool_backward",
    "adaptive_max_pool",
    "avg_pool",
    "avg_pool_backward",
    "max_pool",
    "max_pool_backward",
    "max_pool_gather",
    "pool_output_size",
]

#: How many elements each window has, along each dimension.
Counts = list[np.ndarray]


def max_pool(
    xp: Any,
    input: Any,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    with_indices: bool = True,
) -> tuple[Any, Any]:
    """Return the maximum of each window and, unless not wanted, its index (int64, else None)."""
    by_dim = [
        _windows(size, *rest, ceil_mode)
        for size, *rest in zip(input.shape[2:], kernel, stride, padding, dilation, strict=True)
    ]
    starts = [np.arange(taps.outputs) * s - p for taps, s, p in zip(by_dim, stride, padding, strict=True)]
    return _max(xp, input, by_dim, starts, kernel, dilation, with_indices)


def adaptive_max_pool(xp: Any, input: Any, output_size: Sequence[int], with_indices: bool = True) -> tuple[Any, Any]:
    """Return the maximum of each of `output_size` equal parts, with or without its index."""
    by_dim = list(map(_parts, input.shape[2:], output_size))
    starts = [_bounds(taps.inputs, taps.outputs)[0] for taps in by_dim]
    kernel = [max((step.tap for step in taps.steps), default=0) + 1 for taps in by_dim]
    return _max(xp, input, by_dim, starts, kernel, [1] * len(kernel), with_indices)


def max_pool_backward(xp: Any, grad: Any, indices: Any, input_spatial: Sequence[int]) -> Any:
    """Adjoint of `max_pool_gather`: add `grad` to the elements of the input that were the maxima."""
    planes = prod(grad.shape[:2])
    result = xp.zeros(planes * prod(input_spatial), dtype=grad.dtype)
    xp.add.at(result, _flat(xp, indices, prod(input_spatial)), grad.reshape(-1))
    return result.reshape(*grad.shape[:2], *input_spatial)


def max_pool_gather(xp: Any, input: Any, indices: Any) -> Any:
    """Take the elements of `input` at the flat spatial `indices` of a maximum."""
    flat = _flat(xp, indices, prod(input.shape[2:]))
    return xp.take(input.reshape(-1), flat).reshape(indices.shape)


def avg_pool(
    xp: Any,
    input: Any,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Any:
    """Return the mean of each window."""
    sizes = list(zip(input.shape[2:], kernel, stride, padding, strict=True))
    by_dim = [_windows(size, k, s, p, 1, ceil_mode) for size, k, s, p in sizes]
    result = _fold_all(xp.add, xp.sum, xp, input, by_dim)
    return _divide(xp, result, _window_counts(sizes, result.shape[2:], count_include_pad, divisor_override))


def avg_pool_backward(
    xp: Any,
    grad: Any,
    input_spatial: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Any:
    """Adjoint of `avg_pool`."""
    sizes = list(zip(input_spatial, kernel, stride, padding, strict=True))
    result = _divide(xp, grad, _window_counts(sizes, grad.shape[2:], count_include_pad, divisor_override))
    for dim, (size, k, s, p) in reversed(list(enumerate(sizes, 2))):
        result = spread(xp, result, dim, _windows(size, k, s, p, 1, ceil_mode))
    return result


def adaptive_avg_pool(xp: Any, input: Any, output_size: Sequence[int]) -> Any:
    """Return the mean of each of `output_size` equal parts."""
    result = _fold_all(xp.add, xp.sum, xp, input, list(map(_parts, input.shape[2:], output_size)))
    return _divide(xp, result, _part_counts(input.shape[2:], output_size))


def adaptive_avg_pool_backward(xp: Any, grad: Any, input_spatial: Sequence[int]) -> Any:
    """Adjoint of `adaptive_avg_pool`."""
    result = _divide(xp, grad, _part_counts(input_spatial, grad.shape[2:]))
    for dim, (size, out) in reversed(list(enumerate(zip(input_spatial, grad.shape[2:], strict=True), 2))):
        result = spread(xp, result, dim, _parts(size, out))
    return result


# -- windows ------------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _windows(size: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> Taps:
    outputs = pool_output_size(size, kernel, stride, padding, dilation, ceil_mode)
    return Taps.of_windows(size, kernel, stride, padding, dilation, outputs)


@lru_cache(maxsize=256)
def _parts(size: int, outputs: int) -> Taps:
    """Windows of adaptive pooling, which may overlap and differ in size by one."""
    if outputs and size % outputs == 0:
        return Taps.of_windows(size, size // outputs, size // outputs, 0, 1, outputs)
    starts, ends = _bounds(size, outputs)
    indices = starts[:, None] + np.arange((ends - starts).max(initial=0))
    return Taps.of_table(size, np.where(indices < ends[:, None], indices, -1))


def _bounds(size: int, outputs: int) -> tuple[np.ndarray, np.ndarray]:
    """First element of each of `outputs` equal parts, and the one behind its last."""
    numbers = np.arange(outputs)
    return numbers * size // outputs, -(-(numbers + 1) * size // outputs)


def _window_counts(
    sizes: Sequence[tuple[int, int, int, int]],
    outputs: Sequence[int],
    count_include_pad: bool,
    divisor_override: int | None,
) -> Counts | float:
    """What the sum of each window is divided by."""
    if divisor_override is not None:
        return float(divisor_override)
    counts = []
    for (size, k, s, p), out in zip(sizes, outputs, strict=True):
        starts = np.arange(out) * s - p
        ends = np.minimum(starts + k, size + p)
        if not count_include_pad:
            starts, ends = np.maximum(starts, 0), np.minimum(ends, size)
        counts.append(ends - starts)
    return _uniform(counts)


def _part_counts(sizes: Sequence[int], outputs: Sequence[int]) -> Counts | float:
    bounds = map(_bounds, sizes, outputs)
    return _uniform([ends - starts for starts, ends in bounds])


def _uniform(counts: Counts) -> Counts | float:
    """Counts along each dimension; their product if it is the same everywhere."""
    if all(each.size and (each == each[0]).all() for each in counts):
        return float(prod(int(each[0]) for each in counts))
    return counts


def _divide(xp: Any, array: Any, counts: Counts | float) -> Any:
    if isinstance(counts, float):
        return array / array.dtype.type(counts)
    product = on_device(xp, counts[0], array.dtype)
    for each in counts[1:]:
        product = product[..., None] * on_device(xp, each, array.dtype)
    return array / product


def _fold_all(combine: Any, reduce: Any, xp: Any, x: Any, by_dim: Sequence[Taps], empty: Any = 0) -> Any:
    """Combine the taps of all dimensions, those with one output for all inputs by one reduction."""
    total = tuple(dim for dim, taps in enumerate(by_dim, 2) if taps.total)
    if total:
        x = reduce(x, axis=total, keepdims=True)
    for dim, taps in enumerate(by_dim, 2):
        if dim not in total:
            x = fold(xp, combine, x, dim, taps, empty)
    return x


# -- maxima -------------------------------------------------------------------------------------------------


def _max(
    xp: Any,
    x: Any,
    by_dim: Sequence[Taps],
    starts: Sequence[np.ndarray],
    kernel: Sequence[int],
    dilation: Sequence[int],
    with_indices: bool,
) -> tuple[Any, Any]:
    lowest = np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf
    if not with_indices:
        return _fold_all(xp.maximum, xp.max, xp, x, by_dim, lowest), None
    sizes = x.shape[2:]
    code_type = np.min_scalar_type(prod(kernel))
    codes = None
    # From the last dimension to the first, so that of equal maxima the first in memory wins.
    for i in reversed(range(len(sizes))):
        x, codes = _max_along(xp, x, codes, i + 2, by_dim[i], prod(kernel[i + 1 :]), code_type, lowest)
    offsets = np.zeros((), np.int64)
    for size, k, d in zip(sizes, kernel, dilation, strict=True):
        offsets = offsets[..., None] * size + np.arange(k) * d
    indices = xp.take(on_device(xp, offsets.reshape(-1)), codes)
    origins = on_device(xp, starts[0])
    for size, start in zip(sizes[1:], starts[1:], strict=True):
        origins = origins[..., None] * size + on_device(xp, start)
    indices += origins
    if not all(taps.complete for taps in by_dim):  # windows with nothing but padding: any index will do
        indices = xp.clip(indices, 0, prod(sizes) - 1)
    return x, indices


def _max_along(
    xp: Any, x: Any, codes: Any, dim: int, taps: Taps, scale: int, code_type: Any, lowest: Any
) -> tuple[Any, Any]:
    """Fold one dimension with its maximum, keeping the code of the winning tap.

    A code counts taps, the last dimension fastest. A later tap has the larger code, so the winner's code
    is the maximum of the codes that won so far, zero for those that did not: no branch on data.
    """

    def candidate(step: Step) -> tuple[Any, Any]:
        code = code_type.type(step.tap * scale)
        if codes is not None:
            code = select(xp, codes, dim, step.inputs) + code
        value = select(xp, x, dim, step.inputs)
        return np.ascontiguousarray(value) if xp is np else value, code  # used several times

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
            so_far = select(xp, best, dim, step.outputs), select(xp, best_code, dim, step.outputs)
            best[target], best_code[target] = _better(xp, *so_far, *candidate(step))
    return best, best_code


def _better(xp: Any, best: Any, best_code: Any, value: Any, code: Any) -> tuple[Any, Any]:
    """Return the larger value and its code, that of `value` if both are NaN."""
    wins = value > best
    if value.dtype.kind not in "iu":
        wins |= value != value
    return xp.maximum(best, value), xp.maximum(best_code, wins * code)


def _flat(xp: Any, indices: Any, size: int) -> Any:
    """Indices in planes of `size` elements as indices of the flattened array."""
    planes = prod(indices.shape[:2])
    offsets = xp.arange(planes).reshape(planes, 1) * size
    return (indices.reshape(planes, prod(indices.shape[2:])) + offsets).reshape(-1)
