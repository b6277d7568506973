"""Kernels that would look at data, or work through it piece by piece: their shapes are enough."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradcore.backends.meta.array import Traced
from gradcore.backends.portable.convolution import conv_output_size
from gradcore.backends.portable.pooling import pool_output_size

__all__ = ["TracedKernels"]

Ints = Sequence[int]


def _spatial(x: Traced, size: Ints, dtype: Any = None) -> Traced:
    """An array like `x` with other spatial sizes, the last ones."""
    return Traced((*x.shape[: x.ndim - len(size)], *size), dtype or x.dtype)


class TracedKernels:
    """Convolution, pooling, resampling, padding; checks of indices."""

    def degrees_up_to(self, n: Traced) -> range:
        return range(0)

    # -- convolution -----------------------------------------------------------------------------------------

    def conv(self, x: Traced, weight: Traced, stride: Ints, padding: Ints, dilation: Ints, groups: int) -> Traced:
        size = map(conv_output_size, x.shape[2:], weight.shape[2:], stride, padding, dilation)
        return Traced((x.shape[0], weight.shape[0], *size), x.dtype)

    def conv_input(
        self, x: Traced, weight: Traced, size: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int
    ) -> Traced:
        return Traced((x.shape[0], weight.shape[1] * groups, *size), x.dtype)

    def conv_weight(
        self, x: Traced, other: Traced, size: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int
    ) -> Traced:
        return Traced((other.shape[1], x.shape[1] // groups, *size), x.dtype)

    # -- pooling ---------------------------------------------------------------------------------------------

    def max_pool(
        self, x: Traced, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
    ) -> tuple[Traced, Traced]:
        return self.adaptive_max_pool(x, _pooled(x, kernel, stride, padding, dilation, ceil_mode))

    def adaptive_max_pool(self, x: Traced, size: Ints) -> tuple[Traced, Traced]:
        return _spatial(x, size), _spatial(x, size, "int64")

    def max_pool_spread(self, x: Traced, indices: Traced, size: Ints, windows: Ints = ()) -> Traced:
        return _spatial(x, size)

    max_unpool = max_pool_spread

    def max_pool_gather(self, x: Traced, indices: Traced, n: int) -> Traced:
        return Traced(indices.shape, x.dtype)

    def avg_pool(self, x: Traced, kernel: Ints, stride: Ints, padding: Ints, ceil_mode: bool, *rest: Any) -> Traced:
        return _spatial(x, _pooled(x, kernel, stride, padding, [1] * len(kernel), ceil_mode))

    def avg_pool_spread(self, x: Traced, size: Ints, *settings: Any) -> Traced:
        return _spatial(x, size)

    adaptive_avg_pool = adaptive_avg_pool_spread = resample = resample_backward = avg_pool_spread

    # -- padding ---------------------------------------------------------------------------------------------

    def pad_with_own(self, x: Traced, pad: Ints, mode: str) -> Traced:
        n = len(pad) // 2
        widths = [before + after for before, after in zip(pad[::2], pad[1::2], strict=True)][::-1]
        return _spatial(x, [size + width for size, width in zip(x.shape[x.ndim - n :], widths, strict=True)])

    def pad_with_own_backward(self, x: Traced, shape: Ints, pad: Ints, mode: str) -> Traced:
        return Traced(shape, x.dtype)

    # -- indices ---------------------------------------------------------------------------------------------

    def check_bounds(self, index: Any, size: int, dim: int, low: int = 0, message: str = "") -> None:
        """Nothing: there are no numbers to check."""

    def index_into(self, out: Traced, values: Any, indices: Any, accumulate: bool = False) -> None:
        """Nothing: there are no elements to write to."""

    def masked_write(self, out: Traced, mask: Traced, source: Traced) -> None:
        """Nothing: there are no elements to write to."""

    def logcumsumexp_along(self, x: Traced, dim: int) -> Traced:
        return x.copy()

    def reduce_at(self, out: Traced, places: Traced, values: Traced, reduce: str) -> Traced:
        return out


def _pooled(x: Traced, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool) -> Ints:
    windows = zip(x.shape[x.ndim - len(kernel) :], kernel, stride, padding, dilation, strict=True)
    return [pool_output_size(*window, ceil_mode) for window in windows]
