"""Kernels that copy the windows of a batch of images to columns (`im2col`), and add columns to images (`col2im`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from gradcore.backends.kernel_methods import packed
from gradcore.backends.portable.sliding import conv_output_size, overlap
from gradcore.core.typing import NamedTuple

if TYPE_CHECKING:
    from gradcore.core.arrays import Array, Namespace

__all__ = ["Blocks", "Folding"]

Ints = Sequence[int]


class Blocks(NamedTuple):
    """Settings of sliding blocks of images (kernel, dilation, padding, stride), one number for each spatial dim."""

    kernel: Ints
    dilation: Ints
    padding: Ints
    stride: Ints

    def counts(self, size: Ints) -> tuple[int, ...]:
        """Return the number of blocks along each dim of an image."""
        return tuple(map(conv_output_size, size, self.kernel, self.stride, self.padding, self.dilation))


class Folding:
    """Kernels that convert between images and columns of their windows."""

    xp: Namespace

    @packed(Blocks)
    def im2col(self, x: Array, blocks: Blocks) -> Array:
        """Return columns ``(..., C * prod(kernel), windows)`` of images ``(..., C, *size)``, which are zero outside."""
        (*lead, channels), size = x.shape[:-2], x.shape[-2:]
        counts = blocks.counts(size)
        result = self.xp.zeros((*lead, channels, *blocks.kernel, *counts), dtype=x.dtype)
        for tap, inside, elements in _taps(size, counts, blocks):
            result[(*[slice(None)] * (len(lead) + 1), *tap, *inside)] = x[(..., *elements)]
        return result.reshape(*lead, channels * prod(blocks.kernel), prod(counts))

    @packed(Blocks)
    def col2im(self, x: Array, size: Ints, blocks: Blocks) -> Array:
        """Add columns to images of that size (adjoint of `im2col`)."""
        counts, lead = blocks.counts(size), (*x.shape[:-2], x.shape[-2] // prod(blocks.kernel))
        columns = x.reshape(*lead, *blocks.kernel, *counts)
        result = self.xp.zeros((*lead, *size), dtype=x.dtype)
        for tap, inside, elements in _taps(size, counts, blocks):
            result[(..., *elements)] += columns[(*[slice(None)] * len(lead), *tap, *inside)]
        return result


def _taps(
    size: Ints, counts: Ints, blocks: Blocks
) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...], tuple[slice, ...]]]:
    """Yield each tap of the kernel, the windows in which it is inside the image, and its position in these."""
    for tap in product(*map(range, blocks.kernel)):
        pairs = [
            overlap(k * d - p, s, n, count) for k, d, p, s, n, count in zip(tap, *blocks[1:], size, counts, strict=True)
        ]
        inside, elements = zip(*pairs, strict=True)
        yield tap, inside, elements
