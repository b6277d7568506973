"""References of operations on sliding windows: convolution, pooling, folding, padding and resampling."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.ops.references.reductions import vector_norm

Array = Any
Reference = Callable[..., Any]


def each(value: Any, n: int) -> list[Any]:
    """One number for every spatial dim."""
    values = list(value) if isinstance(value, (tuple, list)) else [value]
    return values * n if len(values) == 1 else values


def with_batch(ndim: int) -> Callable[[Reference], Reference]:
    """Return a decorator for functions of batches, which accept a single sample too."""

    def decorate(function: Reference) -> Reference:
        @functools.wraps(function)
        def call(x: Array, *args: Any, **settings: Any) -> Any:
            if x.ndim == ndim + 2:
                return function(x, *args, **settings)
            out = function(x[None], *args, **settings)
            return tuple(o[0] for o in out) if isinstance(out, tuple) else out[0]

        return call

    return decorate


# -- convolution -----------------------------------------------------------------------------------------------


def conv(n: int) -> Reference:
    """Sum over the places of the kernel of what each contributes to all outputs."""

    @with_batch(n)
    def compute(
        x: Array, weight: Array, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
    ) -> Array:  # fmt: skip
        stride, dilation, kernel = each(stride, n), each(dilation, n), weight.shape[2:]
        if padding == "same":
            need = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
            pads = [(p // 2, p - p // 2) for p in need]
        else:
            pads = [(p, p) for p in each(0 if padding == "valid" else padding, n)]
        x = np.pad(x, [(0, 0), (0, 0), *pads])
        sizes = [
            (m - d * (k - 1) - 1) // s + 1 for m, k, s, d in zip(x.shape[2:], kernel, stride, dilation, strict=True)
        ]
        out = np.zeros((len(x), len(weight), *sizes))
        for place in np.ndindex(*kernel):
            taken = x[
                (
                    ...,
                    *(
                        slice(i * d, i * d + s * m, s)
                        for i, d, s, m in zip(place, dilation, stride, sizes, strict=True)
                    ),
                )
            ]
            for g, (xs, ws) in enumerate(zip(np.split(taken, groups, 1), np.split(weight, groups), strict=True)):
                c = len(ws)
                out[:, g * c : (g + 1) * c] += np.einsum("bi...,oi->bo...", xs, ws[(..., *place)])
        return out if bias is None else out + bias.reshape(-1, *[1] * n)

    return compute


def conv_transpose(n: int) -> Reference:
    """Every input spreads the kernel over the outputs."""

    @with_batch(n)
    def compute(
        x: Array, weight: Array, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
        groups: int = 1, dilation: Any = 1,
    ) -> Array:  # fmt: skip
        per = list(zip(*(each(v, n) for v in (stride, padding, output_padding, dilation)), strict=True))
        kernel, c = weight.shape[2:], weight.shape[1]
        full = [(m - 1) * s + d * (k - 1) + 1 + o for m, k, (s, _, o, d) in zip(x.shape[2:], kernel, per, strict=True)]
        out = np.zeros((len(x), c * groups, *full))
        for place in np.ndindex(*kernel):
            target = (
                slice(i * d, i * d + (m - 1) * s + 1, s)
                for i, m, (s, _, _, d) in zip(place, x.shape[2:], per, strict=True)
            )
            target = tuple(target)
            for g, (xs, ws) in enumerate(zip(np.split(x, groups, 1), np.split(weight, groups), strict=True)):
                out[(slice(None), slice(g * c, (g + 1) * c), *target)] += np.einsum(
                    "bi...,io->bo...", xs, ws[(..., *place)]
                )
        out = out[(..., *(slice(p, m - p) for m, (_, p, _, _) in zip(full, per, strict=True)))]
        return out if bias is None else out + bias.reshape(-1, *[1] * n)

    return compute


def convolution(
    x: Array,
    weight: Array,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Array:
    n = x.ndim - 2
    if transposed:
        return conv_transpose(n)(x, weight, bias, stride, padding, output_padding, groups, dilation)
    return conv(n)(x, weight, bias, stride, padding, dilation, groups)


# -- pooling ---------------------------------------------------------------------------------------------------


def spans(
    length: int, kernel: int, stride: Any, padding: int = 0, dilation: int = 1, ceil_mode: bool = False
) -> list[range]:
    """Return the positions of every window along a dim."""
    stride = stride or kernel
    free = length + 2 * padding - dilation * (kernel - 1) - 1
    count = (math.ceil(free / stride) if ceil_mode else free // stride) + 1
    if ceil_mode and (count - 1) * stride >= length + padding:
        count -= 1
    starts = [i * stride - padding for i in range(count)]
    return [range(s, s + dilation * (kernel - 1) + 1, dilation) for s in starts]


def adaptive_spans(length: int, size: int) -> list[range]:
    return [range(i * length // size, -(-(i + 1) * length // size)) for i in range(size)]


def pooled(x: Array, by_dim: list[list[range]], reduce: Callable[..., Array], dtype: Any = float) -> Array:
    """``reduce(values, numbers of the elements, window)`` of every window."""
    sizes = x.shape[2:]
    out = np.zeros((*x.shape[:2], *map(len, by_dim)), dtype)
    numbers = np.arange(math.prod(sizes)).reshape(sizes)
    for place in np.ndindex(*out.shape[2:]):
        window = [spans[i] for spans, i in zip(by_dim, place, strict=True)]
        inside = np.ix_(*([i for i in w if 0 <= i < m] for w, m in zip(window, sizes, strict=True)))
        values = x[(slice(None), slice(None), *inside)]
        found = numbers[inside].ravel()
        out[(..., *place)] = reduce(values.reshape(*x.shape[:2], len(found)), found, window)
    return out


def largest(x: Array, by_dim: list[list[range]], return_indices: bool) -> Any:
    values = pooled(x, by_dim, lambda v, i, w: v.max(-1))
    return (values, pooled(x, by_dim, lambda v, i, w: i[v.argmax(-1)], np.int64)) if return_indices else values


def max_pool(n: int, always: bool = False) -> Reference:
    @with_batch(n)
    def compute(
        x: Array, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:  # fmt: skip
        columns = (x.shape[2:], *(each(v, n) for v in (kernel_size, stride, padding, dilation)))
        return largest(x, [spans(*c, ceil_mode) for c in zip(*columns, strict=True)], return_indices or always)

    return compute


def avg_pool(n: int) -> Reference:
    @with_batch(n)
    def compute(
        x: Array, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: Any = None,
    ) -> Array:  # fmt: skip
        padding = each(padding, n)
        columns = (x.shape[2:], each(kernel_size, n), each(stride, n), padding, [1] * n)
        by_dim = [spans(*c, ceil_mode) for c in zip(*columns, strict=True)]

        def mean(values: Array, numbers: Array, window: list[range]) -> Array:
            padded = [sum(i < m + p for i in w) for w, m, p in zip(window, x.shape[2:], padding, strict=True)]
            count = math.prod(padded) if count_include_pad else values.shape[-1]
            return values.sum(-1) / (divisor_override or count)

        return pooled(x, by_dim, mean)

    return compute


def adaptive_max_pool(n: int, always: bool = False) -> Reference:
    @with_batch(n)
    def compute(x: Array, output_size: Any, return_indices: bool = False) -> Any:
        by_dim = [adaptive_spans(*c) for c in zip(x.shape[2:], each(output_size, n), strict=True)]
        return largest(x, by_dim, return_indices or always)

    return compute


def adaptive_avg_pool(n: int) -> Reference:
    @with_batch(n)
    def compute(x: Array, output_size: Any) -> Array:
        by_dim = [adaptive_spans(*c) for c in zip(x.shape[2:], each(output_size, n), strict=True)]
        return pooled(x, by_dim, lambda v, i, w: v.mean(-1))

    return compute


def lp_pool(n: int) -> Reference:
    @with_batch(n)
    def compute(x: Array, p: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Array:
        columns = (x.shape[2:], each(kernel_size, n), each(stride, n))
        by_dim = [spans(*c, ceil_mode=ceil_mode) for c in zip(*columns, strict=True)]
        return pooled(x, by_dim, lambda v, i, w: vector_norm(np.maximum(v, 0) if p == np.inf else v, p, -1))

    return compute


def max_unpool(n: int) -> Reference:
    def compute(x: Array, indices: Array, kernel_size: Any) -> Array:
        if x.ndim == n + 1:
            return compute(x[None], indices[None], kernel_size)[0]
        sizes = [m * k for m, k in zip(x.shape[2:], each(kernel_size, n), strict=True)]
        out = np.zeros((*x.shape[:2], math.prod(sizes)))
        np.put_along_axis(out, indices.reshape(*x.shape[:2], -1), x.reshape(*x.shape[:2], -1), -1)
        return out.reshape(*x.shape[:2], *sizes)

    return compute


# -- folding and padding ---------------------------------------------------------------------------------------


def patches(size: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> list[Any]:
    """Rows and columns of every window of an image."""
    columns = (size, *(each(v, 2) for v in (kernel_size, stride, padding, dilation)))
    return list(itertools.product(*(spans(*c) for c in zip(*columns, strict=True))))


@with_batch(2)
def unfold(x: Array, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Array:
    windows = patches(x.shape[2:], kernel_size, dilation, padding, stride)
    p = each(padding, 2)
    x = np.pad(x, [(0, 0), (0, 0), (p[0],) * 2, (p[1],) * 2])
    found = [x[:, :, np.array(r)[:, None] + p[0], np.array(c) + p[1]] for r, c in windows]
    return np.stack(found, -1).reshape(len(x), x.shape[1] * math.prod(each(kernel_size, 2)), len(windows))


@with_batch(1)
def fold(x: Array, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Array:
    kernel, p = each(kernel_size, 2), each(padding, 2)
    out = np.zeros((len(x), x.shape[1] // math.prod(kernel), *(m + 2 * q for m, q in zip(output_size, p, strict=True))))
    for i, (r, c) in enumerate(patches(output_size, kernel_size, dilation, padding, stride)):
        out[:, :, np.array(r)[:, None] + p[0], np.array(c) + p[1]] += x[..., i].reshape(len(x), -1, *kernel)
    return out[:, :, p[0] : p[0] + output_size[0], p[1] : p[1] + output_size[1]]


def pad(x: Array, pad: Any, mode: str = "constant", value: Any = None) -> Array:
    """Dims from the last. What is negative is cut off: afterwards, but at first where the other end is copied."""
    named = {"replicate": "edge", "circular": "wrap"}.get(mode, mode)
    more = {"constant_values": value or 0} if mode == "constant" else {}
    for axis, (before, after) in enumerate(zip(pad[::2], pad[1::2], strict=True), 1):
        cut = (..., slice(max(-before, 0), -max(-after, 0) or None), *[slice(None)] * (axis - 1))
        widths = [(0, 0)] * x.ndim
        widths[-axis] = (max(before, 0), max(after, 0))
        x = np.pad(x[cut], widths, named) if mode == "circular" else np.pad(x, widths, named, **more)[cut]
    return x


# -- resampling ------------------------------------------------------------------------------------------------


def cubic(x: float, a: float = -0.75) -> float:
    x = abs(x)
    if x <= 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a if x < 2 else 0.0


def resampling(n: int, size: int, scale: float, mode: str, align_corners: bool, antialias: bool) -> Array:
    """Return the matrix that resamples `n` values to `size` values."""
    W = np.zeros((size, n))
    for i in range(size):
        if mode == "area":
            span = adaptive_spans(n, size)[i]
            W[i, span] = 1 / len(span)
        elif mode.startswith("nearest"):
            W[i, min(int((i + 0.5 * (mode != "nearest")) * scale), n - 1)] = 1
        elif antialias:
            center, wide = (i + 0.5) * scale, max(scale, 1)
            weights = np.maximum(0, 1 - abs(np.arange(n) + 0.5 - center) / wide)
            W[i] = weights / weights.sum()
        else:
            at = i * (n - 1) / max(size - 1, 1) if align_corners else (i + 0.5) * scale - 0.5
            if mode == "bicubic":
                for j in range(math.floor(at) - 1, math.floor(at) + 3):
                    W[i, min(max(j, 0), n - 1)] += cubic(at - j)
            else:
                at = max(at, 0)
                j = min(int(at), n - 1)
                W[i, j] += 1 - (at - j)
                W[i, min(j + 1, n - 1)] += at - j
    return W


def interpolate(
    x: Array, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool = False,
    recompute_scale_factor: bool = False, antialias: bool = False,
) -> Array:  # fmt: skip
    n = x.ndim - 2
    factors = None if scale_factor is None else each(scale_factor, n)
    sizes = each(size, n) if factors is None else [int(m * f) for m, f in zip(x.shape[2:], factors, strict=True)]
    for i, m in enumerate(sizes):
        given = factors is not None and not recompute_scale_factor
        scale = 1 / factors[i] if given else x.shape[2 + i] / m
        W = resampling(x.shape[2 + i], m, scale, mode, align_corners, antialias)
        x = np.moveaxis(np.tensordot(W, x, (1, 2 + i)), 0, 2 + i)
    return x


def affine_grid(theta: Array, size: Any, align_corners: bool = False) -> Array:
    points = np.empty((len(theta), *size[2:], len(size) - 2))
    for place in np.ndindex(*size[2:]):
        ends = [
            (2 * i / (m - 1) if align_corners else (2 * i + 1) / m) - 1 for i, m in zip(place, size[2:], strict=True)
        ]
        points[(slice(None), *place)] = theta @ [*ends[::-1], 1]
    return points


def reflected(at: float, n: int, align_corners: bool) -> float:
    low, high = (0.0, n - 1.0) if align_corners else (-0.5, n - 0.5)
    while not low <= at <= high:
        at = 2 * low - at if at < low else 2 * high - at
    return at


def taps(at: float, n: int, mode: str, padding_mode: str, align_corners: bool) -> list[tuple[int, float]]:
    """Which elements along one dim a position is made of, and with which weights."""

    def bounded(at: float) -> float:
        at = reflected(at, n, align_corners) if padding_mode == "reflection" else at
        return at if padding_mode == "zeros" else min(max(at, 0), n - 1)

    at = ((at + 1) * (n - 1) if align_corners else (at + 1) * n - 1) / 2
    if mode == "bicubic":
        found = [(int(bounded(j)), cubic(at - j)) for j in range(math.floor(at) - 1, math.floor(at) + 3)]
    elif mode == "nearest":
        found = [(round(bounded(at)), 1.0)]
    else:
        at = bounded(at)
        found = [(math.floor(at), 1 - at % 1), (math.floor(at) + 1, at % 1)]
    return [(j, w) for j, w in found if 0 <= j < n]


def grid_sample(
    x: Array, grid: Array, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool = False
) -> Array:
    out = np.zeros((*x.shape[:2], *grid.shape[1:-1]))
    for b, *place in np.ndindex(*grid.shape[:-1]):
        position = grid[(b, *place)][::-1]
        by_dim = [taps(at, n, mode, padding_mode, align_corners) for at, n in zip(position, x.shape[2:], strict=True)]
        for corner in itertools.product(*by_dim):
            weight = math.prod(w for _, w in corner)
            out[(b, slice(None), *place)] += weight * x[(b, slice(None), *(j for j, _ in corner))]
    return out


def fractional_max_pool(n: int, always: bool = False) -> Reference:
    """Windows whose first elements are found from one random number for each image, channel and dim."""

    def compute(x: Array, kernel: Any, size: Any, ratio: Any, return_indices: bool, samples: Array) -> Any:
        sizes = each(size, n) if ratio is None else [int(m * ratio) for m in x.shape[2:]]
        kernels = each(kernel, n)
        values, indices = np.zeros((*x.shape[:2], *sizes)), np.zeros((*x.shape[:2], *sizes), np.int64)
        for b, c in np.ndindex(*x.shape[:2]):
            u = samples[b, c][::-1] if n == 2 else samples[b, c]
            by_dim = [fractional_spans(*a) for a in zip(x.shape[2:], sizes, kernels, u, strict=True)]
            image = x[b : b + 1, c : c + 1]
            values[b, c], indices[b, c] = (part[0, 0] for part in largest(image, by_dim, True))
        return (values, indices) if return_indices or always else values

    return compute


def fractional_spans(length: int, size: int, kernel: int, u: float) -> list[range]:
    alpha = (length - kernel) / (size - 1)
    starts = [int((i + u) * alpha) - int(u * alpha) for i in range(size - 1)]
    return [range(s, s + kernel) for s in (*starts, length - kernel)]


WINDOWS: dict[str, Reference] = {
    **{f"conv{n}d": conv(n) for n in (1, 2, 3)},
    **{f"conv_transpose{n}d": conv_transpose(n) for n in (1, 2, 3)},
    "convolution": convolution,
    **{f"max_pool{n}d": max_pool(n) for n in (1, 2, 3)},
    **{f"max_pool{n}d_with_indices": max_pool(n, True) for n in (1, 2, 3)},
    **{f"avg_pool{n}d": avg_pool(n) for n in (1, 2, 3)},
    **{f"adaptive_max_pool{n}d": adaptive_max_pool(n) for n in (1, 2, 3)},
    **{f"adaptive_max_pool{n}d_with_indices": adaptive_max_pool(n, True) for n in (1, 2, 3)},
    **{f"adaptive_avg_pool{n}d": adaptive_avg_pool(n) for n in (1, 2, 3)},
    **{f"lp_pool{n}d": lp_pool(n) for n in (1, 2, 3)},
    **{f"max_unpool{n}d": max_unpool(n) for n in (1, 2, 3)},
    **{f"fractional_max_pool{n}d": fractional_max_pool(n) for n in (2, 3)},
    **{f"fractional_max_pool{n}d_with_indices": fractional_max_pool(n, True) for n in (2, 3)},
    "affine_grid": affine_grid,
    "grid_sample": grid_sample,
    "unfold_images": unfold,
    "fold": fold,
    "pad": pad,
    "constant_pad_nd": lambda x, widths, value=0: pad(x, widths, value=value),
    "interpolate": interpolate,
    "upsample": interpolate,
    "upsample_nearest": interpolate,
    "upsample_bilinear": lambda x, size=None, scale_factor=None: interpolate(x, size, scale_factor, "bilinear", True),
}
