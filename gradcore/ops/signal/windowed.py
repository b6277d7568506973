"""Sums and ranks over moving windows, and extension beyond the borders: the parts of filters."""

from __future__ import annotations

import itertools
from math import prod
from typing import Any

from gradcore.backends.portable.filter_tables import outside, runs
from gradcore.ops.declare.promotion import common_dtype, same_dtypes
from gradcore.ops.declare.samples import case, complexes, floats
from gradcore.ops.declare.table import bilinear, constant, general, linear

_PRIVATE = {"function": False, "method": False}

Dims = tuple[int, ...]


# -- extension beyond the edges ----------------------------------------------------------------------------------------


def _part(dim, ndim, start, stop):
    return (slice(None),) * (dim % ndim) + (slice(start, stop),)


@linear(
    lambda F, grad, self_shape, dim, before, after, mode: F.fold_borders(grad, self_shape[dim], dim, before, mode),
    **_PRIVATE,
    samples=lambda: [
        case(floats(3, 4), 1, 2, 3, "reflect"),
        case(floats(3, 2), 0, 5, 7, "mirror"),
        case(complexes(4), 0, 6, 1, "wrap"),
        case(floats(2, 3), 1, 2, 0, "nearest"),
        case(floats(2, 1), 1, 2, 3, "mirror"),
    ],
)
def extend_borders(K, self, dim: int, before: int, after: int, mode: str):
    """Return the tensor with more elements along `dim`.

    ``"reflect"`` repeats the border element, ``"mirror"`` does not.
    """
    n = self.shape[dim]
    left, right = (
        K.xp.take(self, K.constant(outside(n, start, stop, mode)), axis=dim)
        for start, stop in ((-before, 0), (n, n + after))
    )
    return K.xp.concatenate((left, self, right), axis=dim)


@linear(
    lambda F, grad, self_shape, n, dim, before, mode: F.extend_borders(
        grad, dim, before, self_shape[dim] - n - before, mode
    ),
    **_PRIVATE,
    samples=lambda: [case(floats(3, 9), 4, 1, 2, "reflect"), case(floats(9, 2), 2, 0, 5, "mirror")],
)
def fold_borders(K, self, n: int, dim: int, before: int, mode: str):
    """Return the adjoint of `extend_borders`; `n` is the size of the result."""
    out = self[_part(dim, self.ndim, before, before + n)].copy()
    for first, start, stop in ((0, -before, 0), (before + n, n, self.shape[dim] - before)):
        index = outside(n, start, stop, mode)
        for i, j, step in runs(index):
            border = self[_part(dim, self.ndim, first + i, first + j)]
            if step == 0:
                border = border.sum(dim, keepdims=True)
            elif step < 0:
                border = K.flip(border, (dim,))
            low = int(min(index[i], index[j - 1]))
            out[_part(dim, self.ndim, low, low + border.shape[dim])] += border
    return out


# -- sums of products ------------------------------------------------------------------------------------------------


def pad_with_zeros(F: Any, x: Any, dims: Any, before: Any, after: Any) -> Any:
    """Return `x` with zeros before and after its elements along `dims`."""
    widths = [0] * (2 * x.ndim)
    for d, low, high in zip(dims, before, after, strict=True):
        at = 2 * (x.ndim - 1 - d)
        widths[at : at + 2] = low, high
    return F.constant_pad_nd(x, widths, 0)


def _input_gradient(F, grad, weights, dims, by):
    around = [weights.shape[d] - 1 for d in dims]
    return F.correlate_valid(pad_with_zeros(F, grad, dims, around, around), F.flip(F.conj(weights), dims), dims, by)


@bilinear(
    self=_input_gradient,
    weights=lambda F, grad, self, dims, by: F.correlate_valid(F.conj(self), grad, dims, by),
    **_PRIVATE,
    mixed=common_dtype,
    broadcasts=True,
    samples=lambda: [
        case(floats(3, 7), floats(1, 3), (1,), "direct"),
        case(floats(5, 6), floats(2, 3), (0, 1), "direct"),
        case(complexes(6), complexes(4), (0,), "direct"),
        case(floats(5, 6), floats(4, 5), (0, 1), "fourier"),
        case(floats(2, 6), floats(2, 2), (1,), "fourier"),
        case(floats(2, 6), floats(2, 2), (1,), "direct"),
    ],
)
def correlate_valid(K, self, weights, dims: Dims, by: str):
    """Compute ``sum(self[i + k] * weights[k] for k)`` along dims, for windows inside of `self`.

    Other dims are broadcast.
    """
    if by != "direct":
        return _correlate_by_fourier(K, self, weights, dims)
    sizes = [self.shape[d] - weights.shape[d] + 1 for d in dims]
    taps = [weights.shape[d] for d in dims]

    def window(x, starts, lengths):
        key = [slice(None)] * x.ndim
        for d, start, length in zip(dims, starts, lengths, strict=True):
            key[d] = slice(start, start + length)
        return tuple(key)

    if prod(taps) <= prod(sizes):
        total = 0
        for k in itertools.product(*map(range, taps)):
            total = total + self[window(self, k, sizes)] * weights[window(weights, k, [1] * len(dims))]
        return total
    values = [K.sum(self[window(self, i, taps)] * weights, dims, True) for i in itertools.product(*map(range, sizes))]
    for d, n in reversed(list(zip(dims, sizes, strict=True))):
        values = [K.xp.concatenate(values[i : i + n], axis=d) for i in range(0, len(values), n)]
    return values[0]


def _correlate_by_fourier(K, x, weights, dims):
    """Return the result of `correlate_valid` by Fourier transforms."""
    sizes = tuple(x.shape[d] for d in dims)
    valid_part = tuple(slice(x.shape[d] - weights.shape[d] + 1) if d in dims else slice(None) for d in range(x.ndim))
    weights = pad_with_zeros(
        K, weights, dims, [0] * len(dims), [n - weights.shape[d] for d, n in zip(dims, sizes, strict=True)]
    )
    if x.dtype.kind == "c" or weights.dtype.kind == "c":
        product = K.fft_c2c(x, dims, "backward", True) * K.fft_c2c(weights, dims, "forward", False)
        return K.fft_c2c(product, dims, "backward", False)[valid_part]
    product = K.fft_r2c(x, dims, "backward", True) * K.conj(K.fft_r2c(weights, dims, "backward", True))
    return K.fft_c2r(product, dims, "backward", sizes[-1])[valid_part]


# -- rank filters ----------------------------------------------------------------------------------------------------


def _shifted_views(x, offsets, sizes):
    """Yield the views of `x` of shape `sizes` that begin at each of `offsets`."""
    lead = x.ndim - len(sizes)
    for offset in offsets:
        yield x[(slice(None),) * lead + tuple(slice(o, o + n) for o, n in zip(offset, sizes, strict=True))]


@constant(
    constant="results are indices",
    mixed=same_dtypes("expected scalar type {self} but found {result}"),
    **_PRIVATE,
)
def rank_index(K, self, result, offsets: tuple[tuple[int, ...], ...]):
    """Return, for each window, the flat index in `self` of the first element equal to the window's result."""
    sizes = result.shape
    steps = [prod(self.shape[d + 1 :]) for d in range(self.ndim)]
    base = 0
    for d, n in enumerate(sizes):
        base = base + (K.xp.arange(n) * steps[d]).reshape((1,) * d + (n,) + (1,) * (len(sizes) - d - 1))
    index = base + sum(o * s for o, s in zip(offsets[-1], steps, strict=True))
    for offset, values in reversed(list(zip(offsets, _shifted_views(self, offsets, sizes), strict=True))):
        index = K.xp.where(values == result, base + sum(o * s for o, s in zip(offset, steps, strict=True)), index)
    return index


@general(
    **_PRIVATE,
    samples=lambda: [
        case(floats(6, form="distinct"), ((0,), (1,), (2,)), (4,), 1),
        case(floats(4, 5, form="distinct"), ((0, 0), (0, 2), (1, 1), (2, 1)), (2, 3), 2),
    ],
)
def select_rank(K, self, offsets: tuple[tuple[int, ...], ...], sizes: tuple[int, ...], rank: int):
    """Return the element of rank `rank` of each window.

    `sizes` are the numbers of windows along each dim. The elements of a window lie at `offsets` from its first
    element.
    """
    return K.xp.sort(K.xp.stack(list(_shifted_views(self, offsets, sizes))), axis=0)[rank]


@select_rank.vjp("self")
def _(F, grad, self, result, offsets):
    index = F.rank_index(self, result, offsets)
    zeros = F.new_zeros(grad, (prod(self.shape),))
    return F.reshape(F.scatter_add(zeros, 0, F.reshape(index, (-1,)), F.reshape(grad, (-1,))), self.shape)


@select_rank.jvp("self")
def _(F, t, self, result, offsets):
    return F.take(t, F.rank_index(self, result, offsets))
