"""Kernels of convolution, pooling, resampling and padding, under the table's names."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, ClassVar

from gradcore.backends.portable import convolution, folding, padding, pooling, resampling
from gradcore.backends.portable.convolution import Kernels

__all__ = ["Windows"]

Ints = Sequence[int]
Scales = Sequence[float | None]


class Windows:
    """Convolution, pooling, resampling, padding. Only convolution insists on a batch dim."""

    xp: Any
    check_bounds: Any
    write_at: Any
    conv_kernels: ClassVar[Kernels] = Kernels()

    # -- convolution -----------------------------------------------------------------------------------------

    @property
    def conv_library(self) -> Any:
        """The array library that convolutions are computed with."""
        return self.xp

    def conv(self, x: Any, weight: Any, stride: Ints, padding: Ints, dilation: Ints, groups: int) -> Any:
        settings = (stride, padding, dilation, groups)
        return convolution.conv(self.conv_library, x, weight, *settings, self.conv_kernels)

    def conv_output(
        self, x: Any, weight: Any, size: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int
    ) -> Any:
        out = self.conv(x, weight, stride, padding, dilation, groups)
        return out[(..., *map(slice, size))]  # output_padding can make it larger

    def conv_input(
        self, x: Any, weight: Any, size: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int
    ) -> Any:
        settings = (size, stride, padding, dilation, groups)
        return convolution.conv_input(self.conv_library, x, weight, *settings, self.conv_kernels)

    def conv_weight(
        self, x: Any, other: Any, size: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int
    ) -> Any:
        settings = (size, stride, padding, dilation, groups)
        return convolution.conv_weight(self.conv_library, x, other, *settings, self.conv_kernels)

    # -- pooling ---------------------------------------------------------------------------------------------

    def max_pool(
        self, x: Any, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
    ) -> tuple[Any, Any]:
        batch = _batched(x, len(kernel))
        out, indices = pooling.max_pool(self.xp, batch, kernel, stride, padding, dilation, ceil_mode)
        return _like(out, x), _like(indices, x)

    def adaptive_max_pool(self, x: Any, size: Ints) -> tuple[Any, Any]:
        out, indices = pooling.adaptive_max_pool(self.xp, _batched(x, len(size)), size)
        return _like(out, x), _like(indices, x)

    def max_pool_spread(self, x: Any, indices: Any, size: Ints, windows: Ints = ()) -> Any:
        n = len(size)
        return _like(pooling.max_pool_backward(self.xp, _batched(x, n), _batched(indices, n), size), x)

    def max_pool_gather(self, x: Any, indices: Any, n: int) -> Any:
        return _like(pooling.max_pool_gather(self.xp, _batched(x, n), _batched(indices, n)), x)

    def max_unpool(self, x: Any, indices: Any, size: Ints) -> Any:
        volume = "x".join(map(str, size))
        message = f"Found an invalid max index: {{index}} (output volumes are of size {volume})"
        try:
            self.check_bounds(indices, prod(size), 0, 0, message)
        except IndexError as error:
            raise RuntimeError(str(error)) from None
        lead, outputs = x.shape[: -len(size)], x.shape[-len(size) :]
        rows = self.xp.arange(prod(lead)).reshape(-1, 1) * prod(size)
        result = self.xp.zeros(prod(lead) * prod(size), dtype=x.dtype)
        self.write_at(result, indices.reshape(prod(lead), prod(outputs)) + rows, x.reshape(prod(lead), prod(outputs)))
        return result.reshape(*lead, *size)

    def avg_pool(
        self,
        x: Any,
        kernel: Ints,
        stride: Ints,
        padding: Ints,
        ceil_mode: bool,
        count_include_pad: bool,
        divisor: int | None,
    ) -> Any:
        settings = (kernel, stride, padding, ceil_mode, count_include_pad, divisor)
        return _like(pooling.avg_pool(self.xp, _batched(x, len(kernel)), *settings), x)

    def avg_pool_spread(
        self,
        x: Any,
        size: Ints,
        kernel: Ints,
        stride: Ints,
        padding: Ints,
        ceil_mode: bool,
        count_include_pad: bool,
        divisor: int | None,
    ) -> Any:
        settings = (kernel, stride, padding, ceil_mode, count_include_pad, divisor)
        return _like(pooling.avg_pool_backward(self.xp, _batched(x, len(size)), size, *settings), x)

    def adaptive_avg_pool(self, x: Any, size: Ints) -> Any:
        return _like(pooling.adaptive_avg_pool(self.xp, _batched(x, len(size)), size), x)

    def adaptive_avg_pool_spread(self, x: Any, size: Ints) -> Any:
        return _like(pooling.adaptive_avg_pool_backward(self.xp, _batched(x, len(size)), size), x)

    # -- resampling and padding ------------------------------------------------------------------------------

    def resample(self, x: Any, size: Ints, scales: Scales, mode: str, align_corners: bool, antialias: bool) -> Any:
        return resampling.interpolate(self.xp, x, size, scales, mode, align_corners, antialias)

    def resample_backward(
        self, x: Any, size: Ints, scales: Scales, mode: str, align_corners: bool, antialias: bool
    ) -> Any:
        return resampling.interpolate_backward(self.xp, x, size, scales, mode, align_corners, antialias)

    def constant_pad_nd(self, x: Any, pad: Ints, value: Any = 0) -> Any:
        return padding.constant_pad(self.xp, x, pad, value)

    def pad_with_own(self, x: Any, pad: Ints, mode: str) -> Any:
        return padding.pad_with_own(self.xp, x, pad, mode)

    def pad_with_own_backward(self, x: Any, shape: Ints, pad: Ints, mode: str) -> Any:
        return padding.pad_with_own_backward(self.xp, x, shape, pad, mode)

    # -- columns ---------------------------------------------------------------------------------------------

    def im2col(self, x: Any, kernel: Ints, dilation: Ints, padding: Ints, stride: Ints) -> Any:
        return _like(folding.im2col(self.xp, _batched(x, 2), kernel, dilation, padding, stride), x, 3)

    def col2im(self, x: Any, size: Ints, kernel: Ints, dilation: Ints, padding: Ints, stride: Ints) -> Any:
        return _like(folding.col2im(self.xp, _batched(x, 1), size, kernel, dilation, padding, stride), x, 2)


def _batched(x: Any, n: int) -> Any:
    """`x` with a batch dim in front of the channels and the `n` spatial dims."""
    return x.reshape(1, *x.shape) if x.ndim == n + 1 else x


def _like(out: Any, x: Any, unbatched: int | None = None) -> Any:
    """`out` without the batch dim if `x` has none: if it has `unbatched` dims, or fewer than `out`."""
    batched = x.ndim != unbatched if unbatched is not None else x.ndim == out.ndim
    return out if batched else out.reshape(out.shape[1:])
