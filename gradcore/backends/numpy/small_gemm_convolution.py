"""Convolution of images by matrix products that are so small that OpenBLAS does not copy (pack) their operands.

OpenBLAS packs the operands of larger products first, which takes a third of the time if one of them has few rows. The
columns of windows for one row of the output form a small matrix, which shares most elements with that of the next row.
Therefore only the horizontal taps are gathered, which repeats each row of the input once per column of the kernel. The
vertical taps read the gathered rows again, through an overlapping view of all matrices that one call multiplies.

Threads share blocks of images and rows, which stay in cache and do not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from gradcore.backends.portable.convolution import ConvSettings
from gradcore.backends.portable.sliding import overlap, slices

__all__ = ["correlate", "fits", "fits_gradient", "weight_gradient"]

Ints = Sequence[int]
#: Function ``share(work, count)`` that calls ``work(numbers)`` in one or several threads, which together handle the
#: numbers below `count`.
Share = Callable[[Callable[[Iterator[int]], None], int], None]

#: Measured with OpenBLAS: multiplications up to which the operands of a product are not packed; columns, and rows in
#: the gradient of the weight, from which such products are fast; rows of the packed products that are used otherwise.
_UNPACKED, _COLUMNS, _ROWS, _PACKED_ROWS = 1_000_000, 16, 64, 512
#: Bytes that are gathered at a time, so that they stay in the second level of cache.
_BLOCK = 1 << 20


def fits(x: Any, weight: Any, settings: ConvSettings) -> bool:
    """Return whether `correlate` supports these operands: floats, no gaps between vertical taps, and a small weight."""
    dense = x.ndim > 3 and (weight.shape[2] == 1 or settings.dilation[0] == 1)
    return dense and weight.size // settings.groups * _COLUMNS <= _UNPACKED and _windows_of_floats(x, weight.shape[2:])


def fits_gradient(x: Any, kernel: Ints, stride: Ints) -> bool:
    """Return whether `weight_gradient` supports these operands: floats, and windows that move by one row."""
    return x.ndim > 3 and stride[0] == 1 and _windows_of_floats(x, kernel)


def _windows_of_floats(x: Any, kernel: Ints) -> bool:
    return bool(x.dtype.char in "fd" and x.size and prod(kernel) > 1)


def correlate(x: Any, weight: Any, settings: ConvSettings, out: Any, share: Share) -> None:
    """Cross-correlate `x`, padded with zeros, with `weight`, and write to `out`."""
    stride, padding, dilation, groups = settings
    outputs, kernel, width = weight.shape[0] // groups, weight.shape[2:], out.shape[3:]
    matrix = np.ascontiguousarray(np.moveaxis(weight, 1, -1)).reshape(groups, 1, outputs, -1)
    # Rows before channels.
    images = x.reshape(len(x), groups, -1, *x.shape[2:]).swapaxes(2, 3)
    out = out.reshape(len(x), groups, outputs, *out.shape[2:]).swapaxes(2, 3)
    taps = _taps(kernel[1:], x.shape[3:], width, stride[1:], padding[1:], dilation[1:])
    row = groups * len(taps) * images.shape[3] * prod(width) * x.itemsize
    blocks = list(_blocks(len(x), out.shape[2], row, kernel[0], stride[0]))

    def work(numbers: Iterator[int]) -> None:
        gathered: Any = None
        for i in numbers:
            image_part, rows = blocks[i]
            input_rows = (rows.stop - rows.start - 1) * stride[0] + kernel[0]
            shape = image_part.stop - image_part.start, groups, input_rows, len(taps), images.shape[3], *width
            if gathered is None or gathered.shape != shape:
                gathered = np.zeros(shape, x.dtype)
            _gather(images[image_part], rows.start * stride[0] - padding[0], taps, gathered)
            target = out[image_part, :, rows]
            _multiply(matrix, _columns(gathered, target.shape[2], matrix.shape[3], stride[0]), target)

    share(work, len(blocks))


def _blocks(images: int, height: int, row: int, kernel: int, stride: int = 1, unit: int = 1) -> Iterator[Any]:
    """Yield the slices of images and of output rows to compute at a time, if an input row takes `row` bytes.

    The number of rows is a multiple of `unit`, except for the last block.
    """
    fit = max(1, (_BLOCK // row - kernel) // (stride * unit) + 1) * unit
    for image_part in slices(images, _even(images, max(1, fit // height))):
        for rows in slices(height, -(-_even(height, fit) // unit) * unit):
            yield image_part, rows


def _even(size: int, most: int) -> int:
    """Return the length of the parts when `size` elements are split evenly into the fewest parts of at most `most`."""
    return -(-size // -(-size // most))


def _taps(
    kernel: Ints, size: Ints, width: Ints, stride: Ints, padding: Ints, dilation: Ints
) -> list[tuple[tuple[slice, ...], tuple[slice, ...]]]:
    """Return two lists of slices for each horizontal tap: output positions that read the input, and what they read."""
    taps = []
    for tap in product(*map(range, kernel)):
        pairs = [
            overlap(k * d - p, s, n, count)
            for k, d, p, s, n, count in zip(tap, dilation, padding, stride, size, width, strict=True)
        ]
        inside, elements = zip(*pairs, strict=True)
        taps.append((inside, elements))
    return taps


def _gather(images: Any, first: int, taps: Any, out: Any) -> None:
    """Copy image rows from `first` on to `out`, `(n, groups, rows, taps, channels, *width)`, shifted for each tap.

    Rows outside of the images are zero.
    """
    present, source_rows = _overlap(first, images.shape[2], out.shape[2])
    out[:, :, : present.start] = 0
    out[:, :, present.stop :] = 0
    source, target = images[:, :, source_rows], out[:, :, present]
    for number, (inside, source_slices) in enumerate(taps):
        target[(slice(None), slice(None), slice(None), number, slice(None), *inside)] = source[(..., *source_slices)]


def _overlap(first: int, size: int, count: int) -> tuple[slice, slice]:
    """Return the common numbers of ``range(first, first + count)`` and ``range(size)``, as slices of both."""
    return overlap(first, 1, size, count)


def _columns(gathered: Any, height: int, taps: int, stride: int) -> Any:
    """Return gathered rows as a view of overlapping matrices, of shape `(n, groups, height, taps, positions)`."""
    images, groups, *_ = gathered.shape
    positions, size = prod(gathered.shape[5:]), gathered.itemsize
    steps = *gathered.strides[:2], stride * gathered.strides[2], positions * size, size
    return as_strided(gathered, (images, groups, height, taps, positions), steps)


def _multiply(matrix: Any, columns: Any, out: Any) -> None:
    """Write the products of `matrix` and `columns` to `out`, of shape `(n, groups, height, O, *width)`.

    Columns are multiplied in pieces that are small enough not to be packed.
    """
    length = columns.shape[-1]
    shape = *out.shape[:4], length
    at_once = out[0, 0, 0, 0].flags.c_contiguous  # so that BLAS can write to `out`
    target = out.reshape(shape) if at_once else np.empty(shape, out.dtype)
    step = max(_COLUMNS, _UNPACKED // prod(matrix.shape[2:]) // _COLUMNS * _COLUMNS)
    for cut in slices(length, step):
        np.matmul(matrix, columns[..., cut], out=target[..., cut])
    if not at_once:
        out[...] = target.reshape(out.shape)


def weight_gradient(x: Any, grad: Any, kernel: Ints, settings: ConvSettings, share: Share) -> Any:
    """Return the sum over all positions of `grad` times the window of `x`: `(groups, O / groups, C / groups * K)`.

    The elements of a window for the horizontal taps are gathered as a row of a matrix.
    """
    stride, padding, dilation, groups = settings
    height, *width = grad.shape[2:]
    outputs, channels, length = grad.shape[1] // groups, x.shape[1] // groups, prod(width)
    values = channels * prod(kernel[1:])
    unit = _UNPACKED // (outputs * values * length)  # rows whose product is not packed
    if unit * length < _ROWS:
        unit = min(height, -(-_PACKED_ROWS // length))
    images = np.moveaxis(x.reshape(len(x), groups, -1, *x.shape[2:]), 2, -1)
    grad = grad.reshape(len(x), groups, outputs, height, length)
    extra_rows = (kernel[0] - 1) * dilation[0]
    blocks = list(_blocks(len(x), height, groups * length * values * x.itemsize, extra_rows + 1, 1, unit))
    parts: list[Any] = [None] * len(blocks)

    def work(numbers: Iterator[int]) -> None:
        positions = _Positions(images, kernel[1:], stride[1:], padding, dilation[1:], width)
        for i in numbers:
            image_part, rows = blocks[i]
            gathered = positions(image_part, rows.start, rows.stop + extra_rows)
            upstream = grad[image_part, :, :, rows]
            for cut, chunk in _chunks(upstream.shape[3], unit):
                part = _sum_over_positions(
                    upstream[:, :, :, cut], gathered[:, :, cut.start :], chunk, kernel[0], dilation[0]
                )
                parts[i] = part if parts[i] is None else parts[i] + part

    share(work, len(blocks))
    total = parts[0]
    for part in parts[1:]:
        total += part
    total = total.reshape(groups, kernel[0], outputs, -1, channels).transpose(0, 2, 4, 1, 3)
    return total.reshape(groups, outputs, -1)


def _chunks(size: int, length: int) -> Iterator[tuple[slice, int]]:
    """Yield slices of ``range(size)`` and the chunk length for each: a multiple of `length`, then the rest."""
    end = size // length * length
    if end:
        yield slice(0, end), length
    if end < size:
        yield slice(end, size), size - end


def _sum_over_positions(grad: Any, gathered: Any, chunk: int, taps: int, dilation: int) -> Any:
    """Return the products of gradients and gathered windows, summed over positions: `(groups, taps, O, values)`.

    They are multiplied in chunks of `chunk` rows; `taps` is the number of vertical taps.
    """
    images, groups, outputs, height, length = grad.shape
    count, (per_image, per_group, per_row, *rest) = height // chunk, gathered.strides
    shape = images, groups, taps, count, chunk * length, gathered.shape[4]
    rows = as_strided(gathered, shape, (per_image, per_group, dilation * per_row, chunk * per_row, *rest))
    upstream = grad.reshape(images, groups, 1, outputs, count, -1).swapaxes(3, 4)
    return np.matmul(upstream, rows).sum((0, 3))


class _Positions:
    """Function of image and row ranges that returns the windows of images `(N, groups, H, ..., C)`.

    Each position has its window over all dims but rows, flattened. Padded rows are kept in memory between calls.
    """

    def __init__(self, images: Any, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, width: Ints) -> None:
        self.images, self.kernel, self.stride, self.padding = images, tuple(kernel), stride, padding
        self.dilation, self.width = dilation, tuple(width)
        sizes = zip(stride, width, dilation, kernel, strict=True)
        self.extent = [s * (n - 1) + d * (k - 1) + 1 for s, n, d, k in sizes]
        self.padded: Any = None

    def __call__(self, some: slice, start: int, stop: int) -> Any:
        """Return the windows in rows `start` to `stop` of the images `some`: `(n, groups, rows, positions, values)`."""
        images = self.images[some]
        shape = *images.shape[:2], stop - start, *self.extent, images.shape[-1]
        if self.padded is None or self.padded.shape != shape:
            self.padded = np.zeros(shape, images.dtype)
        firsts = (start - self.padding[0], *(-p for p in self.padding[1:]))
        pairs = map(_overlap, firsts, images.shape[2:], shape[2:-1])
        inside, elements = zip(*pairs, strict=True)
        self.padded[:, :, : inside[0].start] = 0
        self.padded[:, :, inside[0].stop :] = 0
        self.padded[(slice(None), slice(None), *inside)] = images[(slice(None), slice(None), *elements)]
        *lead, channel = self.padded.strides
        steps = [[n * factor for n, factor in zip(lead[3:], by, strict=True)] for by in (self.stride, self.dilation)]
        windows = as_strided(
            self.padded,
            (*shape[:3], *self.width, *self.kernel, shape[-1]),
            (*lead[:3], *steps[0], *steps[1], channel),
        )
        return np.ascontiguousarray(windows).reshape(*shape[:3], prod(self.width), -1)
