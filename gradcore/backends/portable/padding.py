"""Kernels of padding. Padding with elements of the input is a sparse linear map of each dimension in turn."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from gradcore.backends.portable.elementwise import is_positive_zero
from gradcore.backends.portable.separable import Taps, fold, spread

if TYPE_CHECKING:
    from gradcore.core.arrays import Array, Namespace

__all__ = ["Padding"]


class Padding:
    """Padding of the last dims."""

    xp: Namespace

    def constant_pad_nd(self, x: Array, pad: Sequence[int], value: float = 0) -> Array:
        """Pad the last dims with `value`. Negative numbers remove elements."""
        shape = list(x.shape)
        inside: list[slice] = [slice(None)] * x.ndim
        source_key: list[slice] = [slice(None)] * x.ndim
        for i in range(len(pad) // 2):
            dim, before, after = x.ndim - 1 - i, pad[2 * i], pad[2 * i + 1]
            size = shape[dim]
            shape[dim] = size + before + after
            if shape[dim] < 0:
                raise RuntimeError(
                    f"The input size {size}, plus negative padding {before} and {after} resulted in a negative output "
                    f"size, which is invalid. Check dimension {dim} of your input."
                )
            inside[dim] = slice(max(before, 0), shape[dim] - max(after, 0))
            source_key[dim] = slice(max(-before, 0), size - max(-after, 0))
        full = x[tuple(source_key)]
        if list(full.shape) == shape:
            return full.copy()
        zero = is_positive_zero(value)
        out = self.xp.zeros(shape, dtype=x.dtype) if zero else self.xp.full(shape, value, dtype=x.dtype)
        out[tuple(inside)] = full
        return out

    def pad_with_own(self, x: Array, pad: Sequence[int], mode: str) -> Array:
        """Pad the last dims with elements of `x`: reflected, repeated at the edge, or circular."""
        for dim, taps in _taps_by_dim(x.shape, pad, mode):
            x = fold(self.xp, self.xp.add, x, dim, taps)
        return x

    def pad_with_own_backward(self, grad: Array, shape: Sequence[int], pad: Sequence[int], mode: str) -> Array:
        """Return the gradient of `pad_with_own` by its input."""
        for dim, taps in reversed(_taps_by_dim(shape, pad, mode)):
            grad = spread(self.xp, grad, dim, taps)
        return grad


def _taps_by_dim(shape: Sequence[int], pad: Sequence[int], mode: str) -> list[tuple[int, Taps]]:
    last = len(shape) - 1
    return [(last - i, _taps(shape[last - i], pad[2 * i], pad[2 * i + 1], mode)) for i in range(len(pad) // 2)]


@lru_cache(maxsize=256)
def _taps(size: int, before: int, after: int, mode: str) -> Taps:
    indices = np.arange(-before, size + after)
    if mode == "reflect":
        indices = np.abs(indices)
        indices = np.minimum(indices, 2 * (size - 1) - indices)
    elif mode == "replicate":
        indices = indices.clip(0, size - 1)
    else:
        # Negative widths have cut elements; the others are repeated in a circle.
        left = np.arange(max(-before, 0), size - max(-after, 0))
        indices = left[(indices - left[0]) % len(left)]
    return Taps.of_table(size, indices[:, None])
