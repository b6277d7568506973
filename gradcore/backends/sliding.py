"""Sliding windows: output sizes, the taps that read the same phase, and windows read block by block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import product
from math import gcd, prod
from operator import add
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Phase", "Windows", "conv_output_size", "overlap", "phases", "pool_output_size"]

# Measured on a CPU: matrix products are fastest with this many columns, unless the block is then very small or large
# (in bytes), and slow if rows lie a multiple of so many bytes apart, which collide in the cache.
_COLUMNS, _LEAST, _MOST, _COLLIDING = 1536, 1 << 18, 1 << 25, 2048
# Bytes computed from the values between two rows, up to which it is worth it to copy longer runs.
_JOINED = 800
# Bytes of columns at a time on a GPU.
_GPU_BLOCK = 1 << 28


def conv_output_size(size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """Positions that a dilated kernel takes along a dimension padded by `padding` on both sides."""
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


def pool_output_size(
    size: int, kernel: int, stride: int, padding: int, dilation: int = 1, ceil_mode: bool = False
) -> int:
    """Positions that a pooling window takes; with `ceil_mode` the last one may run over the end.

    A window that would start in the padding behind the input is dropped.
    """
    if not ceil_mode:
        return conv_output_size(size, kernel, stride, padding, dilation)
    out = conv_output_size(size + stride - 1, kernel, stride, padding, dilation)
    return out - 1 if (out - 1) * stride >= size + padding else out


def overlap(offset: int, stride: int, size: int, count: int) -> tuple[slice, slice]:
    """Which of the first `count` positions `stride * t + offset` are below `size` and not negative.

    Returns the slice of the positions `t` and the slice of `range(size)` where they are.
    """
    begin = min(count, max(0, -(offset // stride)))
    end = max(begin, min(count, -((offset - size) // stride)))
    start = begin * stride + offset
    return slice(begin, end), slice(start, start + (end - begin) * stride, stride)


class Phase(NamedTuple):
    """The taps of one dimension that read the same residue class of the padded input.

    With stride `s`, the elements `residue, residue + s, residue + 2 * s, ...` form an array in which windows move by
    one element: tap `first + m * period` of window `t` reads its element `t + shift + m * step`.
    """

    residue: int
    first: int
    period: int
    count: int
    shift: int
    step: int

    @property
    def taps(self) -> slice:
        """The taps, as an index of the kernel."""
        return slice(self.first, None, self.period)

    @property
    def reach(self) -> int:
        """How far from the window's own position the last tap reads."""
        return self.shift + (self.count - 1) * self.step


@lru_cache(maxsize=1024)
def phases(kernel: int, stride: int, dilation: int) -> tuple[Phase, ...]:
    """Group the taps of a kernel by phase; a stride of one gives one phase with every tap."""
    period = stride // gcd(stride, dilation)
    return tuple(
        Phase(
            residue=first * dilation % stride,
            first=first,
            period=period,
            count=len(range(first, kernel, period)),
            shift=first * dilation // stride,
            step=dilation * period // stride,
        )
        for first in range(min(period, kernel))
    )


class Windows:
    """The windows of a batch `x`, zero outside, at the positions of an output of any size, block by block.

    A block is some images and some rows (of the first spatial dimension) of the output; its arrays have the shape
    `(channels, images, *sizes)`. Where rows are `joined`, the last size is that of the padded input. A tap then reads one
    long run that goes on from row to row, several times faster than short rows; the values between rows belong to no
    window. (A GPU does not mind short rows.) Arrays of one block are valid until the next.

    Parameters
    ----------
    outputs : int
        How many values are computed from each window: what a value between rows costs.
    """

    def __init__(
        self,
        xp: Any,
        x: Any,
        kernel: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
        spatial: Sequence[int],
        outputs: int,
    ) -> None:
        self.xp, self.x, self.kernel, self.spatial = xp, x, tuple(kernel), tuple(spatial)
        by_dim = list(map(phases, kernel, stride, dilation))
        self.phases = list(product(*by_dim))
        reach = [max(phase.reach for phase in each) for each in by_dim]
        self.extent = tuple(map(add, spatial, reach))
        sizes = x.shape[2:]
        self.overlaps = [
            tuple(
                zip(
                    *(
                        overlap(each.residue - p, s, size, extent)
                        for each, s, p, size, extent in zip(
                            phase, stride, padding, sizes, self.extent, strict=True
                        )
                    ),
                    strict=True,
                )
            )
            for phase in self.phases
        ]
        # A kernel of one element that reads every input: the columns are the input.
        self.trivial = prod(kernel) == prod(stride) == 1 and not any(padding) and self.extent == sizes
        self.joined = xp is np and 0 < reach[-1] * outputs * x.dtype.itemsize <= _JOINED * (len(spatial) > 1)
        self.padded: Any = None
        self.scratch: Any = None
        self.copies: dict[tuple[int, int, int], tuple[Any, list[tuple[Any, Any]]]] = {}

    def blocks(self, values: int) -> Iterator[tuple[slice, slice]]:
        """Images and rows of each block, if a position takes `values` values of scratch memory."""
        height = self.spatial[0]
        positions = prod(self.sizes(slice(height)))
        size = values * self.x.dtype.itemsize
        fit = min(max(_COLUMNS, _LEAST // size), _MOST // size) if self.xp is np else _GPU_BLOCK // size
        rows_fit = min(height, max(1, fit * height // positions))
        for images in _slices(self.x.shape[0], max(1, fit // positions)):
            self._pad(images)
            for rows in _slices(height, rows_fit):
                yield images, rows

    def sizes(self, rows: slice) -> tuple[int, ...]:
        """Sizes of the positions in the arrays of a block with these rows."""
        sizes = (len(range(*rows.indices(self.spatial[0]))), *self.spatial[1:])
        return (*sizes[:-1], self.extent[-1]) if self.joined else sizes

    def _pad(self, images: slice) -> None:
        """Copy the phases of some images to `self.padded`, arrays `(C, n, *extent)` with zeros around the images."""
        if self.trivial:
            return
        xp, channels, count = self.xp, self.x.shape[1], images.stop - images.start
        if self.padded is None:
            shape = (len(self.phases), channels, count, *self.extent)
            # Behind the end: what the last row of the last image reads as values between rows.
            flat = xp.zeros(prod(shape) + self.extent[-1], dtype=self.x.dtype)
            self.padded = flat[: prod(shape)].reshape(shape)
        for target, (inside, read) in zip(self.padded, self.overlaps, strict=True):
            target[(slice(None), slice(count), *inside)] = self.x[(images, slice(None), *read)].swapaxes(0, 1)

    def columns(self, images: slice, rows: slice) -> Any:
        """The windows of a block, one a column: `(C, *kernel, n, *sizes)`."""
        if self.trivial:
            return self.xp.ascontiguousarray(self.x[images, :, rows].swapaxes(0, 1))
        key = (images.stop - images.start, rows.start, rows.stop)
        if key not in self.copies:
            self.copies[key] = self._plan(*key)
        result, copies = self.copies[key]
        for target, source in copies:
            target[...] = source
        return result

    def _plan(self, count: int, begin: int, end: int) -> tuple[Any, list[tuple[Any, Any]]]:
        """Space for the columns of a block, with the copies, one a phase, that fill it."""
        sizes, channels = self.sizes(slice(begin, end)), self.x.shape[1]
        positions, taps = count * prod(sizes), channels * prod(self.kernel)
        apart = positions if positions * self.x.dtype.itemsize % _COLLIDING else positions + 16
        if self.scratch is None:  # the first block is the largest
            self.scratch = self.xp.empty(taps * apart, dtype=self.x.dtype)
        result = self.scratch[: taps * apart].reshape(taps, apart)[:, :positions]
        result = result.reshape(channels, *self.kernel, count, *sizes)
        copies = []
        for source, phase in zip(self.padded, self.phases, strict=True):
            start = source[(..., slice(begin, None), *[slice(None)] * (len(phase) - 1))]
            start = start[(..., *(slice(each.shift, None) for each in phase))]
            along_channels, along_images, *along = start.strides
            view = self.xp.lib.stride_tricks.as_strided(
                start,
                (channels, *(each.count for each in phase), count, *sizes),
                (
                    along_channels,
                    *(each.step * step for each, step in zip(phase, along, strict=True)),
                    along_images,
                    *along,
                ),
            )
            copies.append((result[(slice(None), *(each.taps for each in phase))], view))
        return result, copies

    def separate(self, array: Any) -> Any:
        """View of an array `(..., *sizes)` of a block without the values between rows."""
        return array[..., : self.spatial[-1]]

    def join(self, array: Any) -> Any:
        """Values `(channels, n, ...)` at the positions of a block, contiguous, with zeros between rows."""
        if not self.joined:
            return self.xp.ascontiguousarray(array)
        result = self.xp.zeros((*array.shape[:-1], self.extent[-1]), dtype=array.dtype)
        self.separate(result)[...] = array
        return result


def _slices(size: int, length: int) -> Iterator[slice]:
    """Cut `range(size)` into slices of `length`, the last one possibly shorter."""
    return (slice(start, min(start + length, size)) for start in range(0, size, length))
