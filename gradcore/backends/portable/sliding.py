"""Sliding windows: output sizes, the taps that read the same phase, and windows read block by block."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from math import gcd, prod
from operator import add
from typing import TYPE_CHECKING, Any

from gradcore.core.typing import NUMPY, NamedTuple

if TYPE_CHECKING:
    from gradcore.core.arrays import Array, Namespace

__all__ = ["Phase", "Windows", "conv_output_size", "overlap", "phases", "pool_output_size", "slices"]

# Measured on a CPU: the number of columns with which matrix products are fastest, the least and the largest size of a
# block in bytes, and the distance in bytes at multiples of which rows collide in the cache.
_COLUMNS, _LEAST, _MOST, _COLLIDING = 1536, 1 << 18, 1 << 25, 2048
# Bytes computed from the values between two rows, up to which it pays to copy longer runs.
_JOINED = 800
# Bytes of columns at a time on a GPU.
_GPU_BLOCK = 1 << 28


def conv_output_size(size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """Return the number of positions of a dilated kernel along a dim padded by `padding` on both sides."""
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


def pool_output_size(
    size: int, kernel: int, stride: int, padding: int, dilation: int = 1, ceil_mode: bool = False
) -> int:
    """Return the number of positions of a pooling window, which may run over the end if `ceil_mode`.

    A window that would start in the padding behind the input is dropped.
    """
    if not ceil_mode:
        return conv_output_size(size, kernel, stride, padding, dilation)
    out = conv_output_size(size + stride - 1, kernel, stride, padding, dilation)
    return out - 1 if (out - 1) * stride >= size + padding else out


def overlap(offset: int, stride: int, size: int, count: int) -> tuple[slice, slice]:
    """Return the positions ``t`` below `count` at which ``stride * t + offset`` is in ``range(size)``, as a slice.

    Returns the slice of the positions `t` and the slice of `range(size)` where they are.
    """
    begin = min(count, max(0, -(offset // stride)))
    end = max(begin, min(count, -((offset - size) // stride)))
    start = begin * stride + offset
    return slice(begin, end), slice(start, start + (end - begin) * stride, stride)


class Phase(NamedTuple):
    """The taps of one dimension that read the same residue class of the padded input.

    With stride `s`, the elements `residue, residue + s, residue + 2 * s, ...` form an array in which
    windows move by one element: window `t` reads with tap `first + m * period` the element
    `t + shift + m * step`.
    """

    residue: int
    first: int
    period: int
    number: int
    shift: int
    step: int
    #: Distance from the position of the window to the element that its last tap reads.
    reach: int


@lru_cache(maxsize=1024)
def phases(kernel: int, stride: int, dilation: int) -> tuple[Phase, ...]:
    """Group the taps of a kernel by phase; a stride of one gives one phase with every tap."""
    period = stride // gcd(stride, dilation)
    step, result = dilation * period // stride, []
    for first in range(min(period, kernel)):
        number, shift = len(range(first, kernel, period)), first * dilation // stride
        reach = shift + (number - 1) * step
        result.append(Phase(first * dilation % stride, first, period, number, shift, step, reach))
    return tuple(result)


class Windows:
    """The windows of a batch of images, which are zero outside, copied into columns block by block.

    A block consists of some images and some rows (of the first spatial dimension) of the output. Its arrays have the
    shape `(channels, images, *sizes)`. If rows are `joined`, the last of `sizes` is that of the padded input. A tap
    then copies one long run across all rows, which is several times as fast as copying short rows. The run includes a
    few values between rows that belong to no window. GPUs copy short rows as fast.

    Parameters
    ----------
    xp : module
        The array library.
    x : array
        The batch, `(N, C, *S)`.
    kernel : sequence of int
        The size of a window.
    settings : ConvSettings
        The padding applies to the front and may be negative. At the end, images are padded as far as windows reach.
    spatial : sequence of int
        The number of positions of the windows along each dim, which may be any number.
    outputs : int
        How many values are computed from a window. Values between rows cost as much as others.
    join : bool
        Whether rows may be joined.
    """

    def __init__(
        self,
        xp: Namespace,
        x: Array,
        kernel: Sequence[int],
        settings: Sequence[Any],
        spatial: Sequence[int],
        outputs: int,
        join: bool = True,
    ) -> None:
        stride, padding, dilation, _ = settings
        self.xp, self.x, self.kernel, self.spatial = xp, x, tuple(kernel), tuple(spatial)
        by_dim = list(map(phases, kernel, stride, dilation))
        self.phases = list(product(*by_dim))
        reach = [max(phase.reach for phase in each) for each in by_dim]
        #: Size of the part of each phase that windows read.
        self.extent = tuple(map(add, spatial, reach))
        #: Where each phase has elements of the input, and which.
        self.overlaps = [
            [
                overlap(each.residue - p, s, size, extent)
                for each, s, p, size, extent in zip(phase, stride, padding, x.shape[2:], self.extent, strict=True)
            ]
            for phase in self.phases
        ]
        # With a kernel of one element that reads every input, the columns are the input.
        self.trivial = prod(kernel) == prod(stride) == 1 and not any(padding) and self.spatial == x.shape[2:]
        gap = reach[-1] if len(self.spatial) > 1 else 0
        self.joined = join and xp is NUMPY and 0 < gap * outputs * x.dtype.itemsize <= _JOINED
        # The images of a block, their phases, memory for the columns, and the views to copy from phases to columns.
        self.images: slice | None = None
        self.padded: Any = None
        self.scratch: Any = None
        self.copies: dict[tuple[int, int, int], tuple[Any, list[tuple[Any, Any]]]] = {}

    def blocks(self, values: int) -> list[tuple[slice, slice]]:
        """Return the slices of images and of rows of each block, if a position takes `values` values of scratch."""
        height = self.spatial[0]
        positions = prod(self.sizes(slice(0, height)))
        size = values * self.x.dtype.itemsize
        fit = min(max(_COLUMNS, _LEAST // size), _MOST // size) if self.xp is NUMPY else _GPU_BLOCK // size
        rows_fit = min(height, max(1, fit * height // positions))
        parts = slices(height, rows_fit)
        return [(images, rows) for images in slices(self.x.shape[0], max(1, fit // positions)) for rows in parts]

    def sizes(self, rows: slice) -> tuple[int, ...]:
        """Return the sizes, in the arrays of a block with these rows, of the dims of positions."""
        sizes = (rows.stop - rows.start, *self.spatial[1:])
        return (*sizes[:-1], self.extent[-1]) if self.joined else sizes

    def columns(self, images: slice, rows: slice) -> Any:
        """Return the windows of a block as `(C, *kernel, n, *sizes)`, valid until the next block."""
        if self.trivial:
            return self.xp.ascontiguousarray(self.x[images, :, rows].swapaxes(0, 1))
        self.pad(images)
        key = (images.stop - images.start, rows.start, rows.stop)
        if key not in self.copies:
            self.copies[key] = self._plan(*key)
        result, copies = self.copies[key]
        for target, source in copies:
            target[...] = source
        return result

    def separate(self, array: Array) -> Array:
        """Return a view of a block's array `(..., *sizes)` without the values between rows."""
        return array[..., : self.spatial[-1]]

    def join(self, array: Array) -> Array:
        """Return a block's values `(channels, n, ...)` as `(channels, n, *sizes)`, with zeros between rows."""
        if not self.joined:
            return self.xp.ascontiguousarray(array)
        result = self.xp.zeros((*array.shape[:-1], self.extent[-1]), dtype=array.dtype)
        self.separate(result)[...] = array
        return result

    def pad(self, images: slice) -> None:
        """Copy the phases of some images into `padded`: arrays `(C, n, *extent)`, zero around the images."""
        if images == self.images:
            return
        self.images = images
        channels, count = self.x.shape[1], images.stop - images.start
        if self.padded is None:  # the first block has most images
            shape = (len(self.phases), channels, count, *self.extent)
            # Beyond the end are the values between rows that the last row of the last image reads.
            flat = self.xp.zeros(prod(shape) + self.extent[-1], dtype=self.x.dtype)
            self.padded = flat[: prod(shape)].reshape(shape)
        for target, slices_by_dim in zip(self.padded, self.overlaps, strict=True):
            inside, elements = zip(*slices_by_dim, strict=True)
            target[(slice(None), slice(count), *inside)] = self.x[(images, slice(None), *elements)].swapaxes(0, 1)

    def _plan(self, count: int, begin: int, end: int) -> tuple[Any, list[tuple[Any, Any]]]:
        """Return memory for the columns of a block, and for each phase a pair of views to copy from and to."""
        xp, sizes, channels = self.xp, self.sizes(slice(begin, end)), self.x.shape[1]
        positions, taps = count * prod(sizes), channels * prod(self.kernel)
        colliding = xp is NUMPY and positions * self.x.dtype.itemsize % _COLLIDING == 0
        spacing = positions + 16 if colliding else positions
        if self.scratch is None or self.scratch.size < taps * spacing:
            self.scratch = xp.empty(taps * spacing, dtype=self.x.dtype)
        result = self.scratch[: taps * spacing].reshape(taps, spacing)[:, :positions]
        result = result.reshape(channels, *self.kernel, count, *sizes)
        copies = []
        for source, phase in zip(self.padded, self.phases, strict=True):
            row, *rest = (each.shift for each in phase)
            start = source[(..., *(slice(shift, None) for shift in (begin + row, *rest)))]
            per_channel, per_image, *per_dim = start.strides
            view = xp.lib.stride_tricks.as_strided(
                start,
                (channels, *[each.number for each in phase], count, *sizes),
                (
                    per_channel,
                    *(each.step * n for each, n in zip(phase, per_dim, strict=True)),
                    per_image,
                    *per_dim,
                ),
            )
            copies.append((result[(slice(None), *[slice(each.first, None, each.period) for each in phase])], view))
        return result, copies


def slices(size: int, length: int) -> list[slice]:
    """Cut `range(size)` into slices of `length`, the last one possibly shorter."""
    return [slice(start, min(start + length, size)) for start in range(0, size, length)]
