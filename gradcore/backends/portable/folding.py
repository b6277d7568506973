"""Kernels that lay out the windows of a batch of images as columns, and add columns up to images."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Any

from gradcore.backends.portable.sliding import conv_output_size, overlap

__all__ = ["blocks", "col2im", "im2col"]

Ints = Sequence[int]


def blocks(size: Ints, kernel: Ints, dilation: Ints, padding: Ints, stride: Ints) -> tuple[int, ...]:
    """How many windows there are along each dimension."""
    return tuple(map(conv_output_size, size, kernel, stride, padding, dilation))


def im2col(xp: Any, x: Any, kernel: Ints, dilation: Ints, padding: Ints, stride: Ints) -> Any:
    """Columns ``(N, C * prod(kernel), windows)`` of images ``(N, C, *size)``, zero outside."""
    size = x.shape[2:]
    counts = blocks(size, kernel, dilation, padding, stride)
    result = xp.zeros((*x.shape[:2], *kernel, *counts), dtype=x.dtype)
    for tap, inside, read in _taps(size, counts, kernel, dilation, padding, stride):
        result[(slice(None), slice(None), *tap, *inside)] = x[(..., *read)]
    return result.reshape(x.shape[0], x.shape[1] * prod(kernel), prod(counts))


def col2im(xp: Any, x: Any, size: Ints, kernel: Ints, dilation: Ints, padding: Ints, stride: Ints) -> Any:
    """Adjoint of `im2col`: images of that size."""
    counts = blocks(size, kernel, dilation, padding, stride)
    channels = x.shape[1] // prod(kernel)
    columns = x.reshape(x.shape[0], channels, *kernel, *counts)
    result = xp.zeros((x.shape[0], channels, *size), dtype=x.dtype)
    for tap, inside, read in _taps(size, counts, kernel, dilation, padding, stride):
        result[(..., *read)] += columns[(slice(None), slice(None), *tap, *inside)]
    return result


def _taps(
    size: Ints, counts: Ints, kernel: Ints, dilation: Ints, padding: Ints, stride: Ints
) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...], tuple[slice, ...]]]:
    """Each tap of the kernel, the windows in which it is inside the image, and where it is then."""
    for tap in product(*map(range, kernel)):
        pairs = [
            overlap(k * d - p, s, n, count)
            for k, d, p, s, n, count in zip(tap, dilation, padding, stride, size, counts, strict=True)
        ]
        inside, read = zip(*pairs, strict=True)
        yield tap, inside, read
