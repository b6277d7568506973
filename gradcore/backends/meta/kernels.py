"""Kernels of the meta device that would read data, or loop over it. Here they only compute shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gradcore.backends.kernel_methods import packed
from gradcore.backends.meta.array import MetaArray
from gradcore.backends.portable.convolution import ConvSettings, conv_output_size
from gradcore.backends.portable.pooling import AvgPool, MaxPool, pool_output_size

if TYPE_CHECKING:
    from gradcore.core.arrays import Array

__all__ = ["MetaKernels"]

Ints = Sequence[int]


def _empty(shape: Sequence[int], dtype: Any) -> Any:
    return MetaArray(shape, dtype)


def _spatial(x: Array, size: Ints, dtype: Any = None) -> Any:
    """Return an array like `x` with other sizes of its last, spatial dims."""
    return MetaArray((*x.shape[: x.ndim - len(size)], *size), dtype or x.dtype)


class MetaKernels:
    """Convolution, pooling, resampling, padding, and checks of indices."""

    def degrees_up_to(self, n: Array) -> range:
        return range(0)

    # -- convolution -----------------------------------------------------------------------------------------

    @packed(ConvSettings)
    def conv(self, x: Array, weight: Array, settings: ConvSettings) -> Array:
        size = map(conv_output_size, x.shape[2:], weight.shape[2:], *settings[:3])
        return _empty((x.shape[0], weight.shape[0], *size), x.dtype)

    @packed(ConvSettings)
    def conv_input(self, grad: Array, weight: Array, size: Ints, settings: ConvSettings) -> Array:
        return _empty((grad.shape[0], weight.shape[1] * settings.groups, *size), grad.dtype)

    @packed(ConvSettings)
    def conv_weight(self, x: Array, grad: Array, size: Ints, settings: ConvSettings) -> Array:
        return _empty((grad.shape[1], x.shape[1] // settings.groups, *size), x.dtype)

    # -- pooling ---------------------------------------------------------------------------------------------

    @packed(MaxPool)
    def max_pool(self, x: Array, window: MaxPool) -> tuple[Array, Array]:
        return self.adaptive_max_pool(x, _pool_sizes(x, *window))

    def adaptive_max_pool(self, x: Array, size: Ints) -> tuple[Array, Array]:
        return _spatial(x, size), _spatial(x, size, "int64")

    def max_pool_spread(self, x: Array, indices: Array, size: Ints, windows: Ints = ()) -> Array:
        return _spatial(x, size)

    max_unpool = max_pool_spread

    def max_pool_gather(self, x: Array, indices: Array, n: int) -> Array:
        return _empty(indices.shape, x.dtype)

    @packed(AvgPool)
    def avg_pool(self, x: Array, window: AvgPool) -> Array:
        return _spatial(x, _pool_sizes(x, *window[:3], [1] * len(window.kernel), window.ceil_mode))

    def avg_pool_spread(self, x: Array, size: Ints, *settings: Any) -> Array:
        return _spatial(x, size)

    adaptive_avg_pool = adaptive_avg_pool_spread = resample = resample_backward = avg_pool_spread

    # -- padding ---------------------------------------------------------------------------------------------

    def pad_with_own(self, x: Array, pad: Ints, mode: str) -> Array:
        n = len(pad) // 2
        widths = [before + after for before, after in zip(pad[::2], pad[1::2], strict=True)][::-1]
        return _spatial(x, [size + width for size, width in zip(x.shape[x.ndim - n :], widths, strict=True)])

    def pad_with_own_backward(self, x: Array, shape: Ints, pad: Ints, mode: str) -> Array:
        return _empty(shape, x.dtype)

    # -- indices ---------------------------------------------------------------------------------------------

    def check_bounds(self, index: Any, size: int, dim: int, low: int = 0, message: str = "") -> None:
        """Do nothing: there are no numbers to check."""

    def index_into(self, out: Array, values: Any, indices: Any, accumulate: bool = False) -> None:
        """Do nothing: there are no elements to write to."""

    def masked_write(self, out: Array, mask: Array, source: Array) -> None:
        """Do nothing: there are no elements to write to."""

    def logcumsumexp_along(self, x: Array, dim: int) -> Array:
        return x.copy()

    def reduce_at(self, out: Array, places: Array, values: Array, reduce: str) -> Array:
        return out


def _pool_sizes(x: Array, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool) -> Ints:
    windows = zip(x.shape[x.ndim - len(kernel) :], kernel, stride, padding, dilation, strict=True)
    return [pool_output_size(*window, ceil_mode) for window in windows]
