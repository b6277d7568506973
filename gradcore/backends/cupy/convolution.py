"""Convolution on CUDA: by kernels that gather windows as they multiply, or by columns of windows (im2col) and cuBLAS.

`implicit_convolution` has the former, for tensor cores, and says when they apply. Depthwise convolutions are one
kernel. Columns are computed for groups of images whose columns fit into a buffer. float16 and bfloat16 are multiplied
directly, summed in float32 and rounded once, after the bias was added.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from gradcore.backends.cupy.implicit_convolution import CudaImplicitConvolution
from gradcore.backends.cupy.kernels import NULL, accumulation_dtype, dense, elements, type_name
from gradcore.backends.kernel_methods import kernel_for
from gradcore.backends.portable import convolution
from gradcore.backends.portable.convolution import Convolution, ConvSettings, conv_output_size, input_phases
from gradcore.core.typing import AnyArray

__all__ = ["CudaConvolution"]

Ints = Sequence[int]

#: Largest size in bytes of the columns, unless the columns of one image are larger. The L2 cache of data center cards
#: (40 MB and more) can hold them, so that the product does not read them from memory.
_COLUMNS = 1 << 25
#: Number of windows of an image below which they are multiplied together with those of other images.
_FEW_WINDOWS = 32
#: Elements from which indices have 64 bits, as a loop may count beyond the last element by the number of threads.
_BEYOND = (1 << 31) - (1 << 25)
#: Threads of a block that sums an element of a weight's gradient.
_SUMMING = 256
#: Number of phases up to which each is computed by a kernel that gathers windows.
_MOST_PHASES = 8


class _Multiplying:
    """Array library whose `matmul` is replaced by another function."""

    def __init__(self, xp: Any, multiply: Any) -> None:
        self._xp, self._multiply = xp, multiply

    def __getattr__(self, name: str) -> Any:
        return getattr(self._xp, name)

    def matmul(self, a: Any, b: Any, out: Any = None) -> Any:
        return self._multiply(a, b, out)


class _Windows:
    """Sizes of the images and windows of a convolution, as its kernels take them."""

    def __init__(self, size: Ints, outputs: Ints, kernel: Ints, settings: ConvSettings) -> None:
        dims = list(zip(size, outputs, kernel, *settings[:3], strict=True))
        self.settings = [*[(1, 1, 1, 1, 0, 1)] * (3 - len(dims)), *dims]
        self.count, self.taps = prod(outputs), prod(kernel)
        #: Whether a window is one element, and the windows are the image.
        self.are_points = all(d == (d[0], d[0], 1, 1, 0, d[5]) for d in dims)
        #: A bound of all indices into a dim, and of all intermediate results from which they are computed.
        self.reach = max((n + 2 * abs(p) + k * d + s) + o * s for n, o, k, s, p, d in dims)

    def limit(self, images: Sequence[AnyArray], weight: AnyArray) -> int:
        """Return a bound of the coordinates, and of the numbers of elements of an image and of the weight."""
        return max(self.reach, weight.size, *(a.size // a.shape[0] for a in images))

    def arguments(self, *arrays: Any) -> tuple[str, list[Any]]:
        """Return the name of the index type, and the sizes as numbers of that type."""
        needs_64_bits = max(*(a.size for a in arrays), self.reach, self.count * self.taps) >= _BEYOND
        index = "i64" if needs_64_bits else "i32"
        return index, _to_index_type(index, *(n for dim in self.settings for n in dim))


def _takes(backend: CudaConvolution, x: AnyArray, other: AnyArray, *rest: Any) -> bool:
    return other.size > 0 and backend.takes("convolution", x, other)


def _takes_with_bias(backend: CudaConvolution, x: AnyArray, weight: AnyArray, bias: AnyArray, *rest: Any) -> bool:
    return weight.size > 0 and backend.takes("convolution", x, weight, bias)


class CudaConvolution(CudaImplicitConvolution, Convolution):
    """Convolution of real floating-point arrays. Other dtypes use the portable code, with this package's products."""

    _multiply: Any

    @kernel_for(_takes, ConvSettings)
    def conv(self, x: AnyArray, weight: AnyArray, settings: ConvSettings) -> AnyArray:
        return self._outputs(x, weight, None, settings)

    @kernel_for(_takes, ConvSettings)
    def conv_input(self, grad: AnyArray, weight: AnyArray, size: Ints, settings: ConvSettings) -> AnyArray:
        return self._inputs(grad, weight, None, size, settings)

    @kernel_for(_takes_with_bias, ConvSettings)
    def conv_with_bias(
        self, x: AnyArray, weight: AnyArray, bias: AnyArray, size: Ints | None, settings: ConvSettings
    ) -> AnyArray:
        if size is None:
            return self._outputs(x, weight, bias, settings)
        return self._inputs(x, weight, bias, size, settings)

    @kernel_for(_takes, ConvSettings)
    def conv_weight(self, x: AnyArray, grad: AnyArray, kernel: Ints, settings: ConvSettings) -> AnyArray:
        xp, groups = self.xp, settings.groups
        (count, channels), outputs = x.shape[:2], grad.shape[1]
        windows = _Windows(x.shape[2:], grad.shape[2:], kernel, settings)
        shape = (outputs, channels // groups, *kernel)
        if channels == groups:
            out = self.allocate(shape, x.dtype)
            blocks = (out.size,), (_SUMMING,)
            return self._depthwise(
                "depthwise_weight", windows, (x, grad), out, (count, outputs, outputs // groups), blocks
            )
        implicit = self._convolve_gradients(x, grad, shape, settings)
        if implicit is not None:
            return implicit
        total: Any = None
        for images in _blocks(count, x, channels * windows.taps * windows.count):
            columns = self._columns(x[images], windows, joined=True).reshape(
                groups, -1, x[images].shape[0] * windows.count
            )
            upstream = xp.ascontiguousarray(grad[images].swapaxes(0, 1)).reshape(groups, outputs // groups, -1)
            if total is None:
                in_one_block = images == slice(0, count)
                total = self.allocate(
                    (groups, outputs // groups, columns.shape[1]), x.dtype if in_one_block else accumulation_dtype(x)
                )
                self._multiply(upstream, columns.swapaxes(1, 2), total)
            else:
                self._multiply(upstream, columns.swapaxes(1, 2), total, (1, 1))
            del columns, upstream  # so that the next ones have their memory
        return total.reshape(shape).astype(x.dtype, copy=False)

    def _outputs(self, x: AnyArray, weight: AnyArray, bias: AnyArray, settings: ConvSettings) -> AnyArray:
        """Return the convolution of `x` and `weight`, plus `bias` if it is not None."""
        xp, groups = self.xp, settings.groups
        (count, channels), outputs = x.shape[:2], weight.shape[0]
        spatial = tuple(map(conv_output_size, x.shape[2:], weight.shape[2:], *settings[:3]))
        windows = _Windows(x.shape[2:], spatial, weight.shape[2:], settings)
        out = self.allocate((count, outputs, *spatial), x.dtype)
        if channels == groups:
            arrays = (x, weight, dense(xp, bias))
            return self._depthwise("depthwise", windows, arrays, out, (out.size, outputs, outputs // groups))
        weight = xp.ascontiguousarray(weight)
        matrix = weight.reshape(groups, outputs // groups, -1)
        height = 0
        if not windows.are_points:
            rows, inner = matrix.shape[1:]
            limit = windows.limit((x, out), weight)
            taps = weight.shape[2:]
            height = self._implicit_rows(x, rows, inner, count * windows.count, groups, limit, taps)
        if height:
            weight = weight.reshape(*matrix.shape[:2], *weight.shape[1:])
            self._convolve_images(x, weight, bias, settings, out, height)
            return out
        for images in _blocks(count, x, channels * windows.taps * windows.count):
            part = out[images].reshape(-1, groups, outputs // groups, windows.count)
            joined = windows.count < _FEW_WINDOWS and len(part) > 1
            columns = self._columns(x[images], windows, joined)
            if joined:
                merged = self.allocate((outputs, len(part) * windows.count), x.dtype)
                self._plus(matrix, columns.reshape(groups, matrix.shape[2], -1), bias, merged)
                part[...] = merged.reshape(groups, outputs // groups, len(part), windows.count).transpose(2, 0, 1, 3)
            else:
                self._plus(matrix, columns.reshape(-1, groups, matrix.shape[2], windows.count), bias, part)
            del columns  # so that the next ones have their memory
        return out

    def _plus(self, matrix: AnyArray, columns: AnyArray, bias: AnyArray, out: AnyArray) -> None:
        """Write ``matrix @ columns`` to `out`, plus the bias of each row if `bias` is not None."""
        shape = (*columns.shape[:-2], matrix.shape[-2], columns.shape[-1])
        out = out.reshape(shape)
        if bias is not None:
            out[...] = bias.reshape(*matrix.shape[:-1], 1)
        self._multiply(matrix, columns, out, (1, 0 if bias is None else 1))

    def _inputs(self, grad: AnyArray, weight: AnyArray, bias: AnyArray, size: Ints, settings: ConvSettings) -> AnyArray:
        """Return the gradient with respect to the input (a transposed convolution), plus `bias` if it is not None."""
        xp, groups = self.xp, settings.groups
        (count, outputs), channels = grad.shape[:2], weight.shape[1] * groups
        windows = _Windows(size, grad.shape[2:], weight.shape[2:], settings)
        out = self.allocate((count, channels, *size), grad.dtype)
        if not out.size:
            return out
        of_bias = dense(xp, bias)
        if channels == groups:
            arrays = (grad, weight, of_bias)
            return self._depthwise("depthwise_input", windows, arrays, out, (out.size, channels, outputs // groups))
        weight = xp.ascontiguousarray(weight)
        number, height = prod(settings.stride), 0
        if not windows.are_points and number <= _MOST_PHASES:
            inner, elements_of_phase = outputs // groups * -(-windows.taps // number), -(-prod(size) // number)
            limit = windows.limit((grad, out), weight)
            columns, taps = count * elements_of_phase, weight.shape[2:]
            height = self._implicit_rows(grad, channels // groups, inner, columns, groups, limit, taps)
        if height:
            self._implicit_inputs(grad, weight, bias, settings, out, height)
            return out
        matrix = weight.reshape(groups, outputs // groups, -1).swapaxes(1, 2)
        for images in _blocks(count, grad, channels * windows.taps * windows.count, accumulation_dtype(grad)):
            upstream = xp.ascontiguousarray(grad[images]).reshape(-1, groups, outputs // groups, windows.count)
            part = out[images]
            if windows.are_points:
                self._plus(matrix, upstream, bias, part)
                continue
            columns = self.allocate((len(part), groups, matrix.shape[1], windows.count), accumulation_dtype(grad))
            self._multiply(matrix, upstream, columns)
            index, sizes = windows.arguments(columns, part)
            kernel = self._kernel("images", grad, index)
            kernel(*elements(part.size), (columns, of_bias, part, *_to_index_type(index, part.size, channels), *sizes))
            del columns  # so that the next ones have their memory
        return out

    def _implicit_inputs(
        self, grad: AnyArray, weight: AnyArray, bias: AnyArray, settings: ConvSettings, out: AnyArray, height: int
    ) -> None:
        """Write the gradient with respect to the input, plus `bias` if it is not None, to `out`, phase by phase."""
        parts = input_phases(weight.shape[2:], settings)
        if len(parts) < prod(settings.stride):  # elements that no window reads
            out[...] = 0 if bias is None else bias.reshape(-1, *(1,) * (out.ndim - 2))
        swapped = weight.reshape(settings.groups, -1, *weight.shape[1:]).swapaxes(1, 2)
        for part in parts:
            target = out[part.elements]
            if target.size:
                self._convolve_images(grad, part.reverse(swapped), bias, part.settings, target, height)

    def _columns(self, x: AnyArray, windows: _Windows, joined: bool) -> AnyArray:
        """Return the windows of images as columns.

        The shape is ``(channels, taps, images, windows)`` if `joined`; otherwise images come first.
        """
        xp = self.xp
        count, channels = x.shape[:2]
        if windows.are_points:
            return xp.ascontiguousarray(x.swapaxes(0, 1) if joined else x)
        inner = count * windows.count if joined else windows.count
        of_channel = windows.taps * inner
        out = self.allocate(count * channels * windows.taps * windows.count, x.dtype)
        total = count * channels * windows.count
        index, sizes = windows.arguments(x, out)
        of_image = windows.count if joined else channels * of_channel
        steps = _to_index_type(index, total, channels, of_image, of_channel, inner)
        self._kernel("columns", x, index)(*elements(total), (dense(xp, x), out, *steps, *sizes))
        return out

    def _depthwise(
        self, name: str, windows: _Windows, arrays: Sequence[Any], out: AnyArray, numbers: Ints, launch: Any = None
    ) -> AnyArray:
        """Launch a depthwise kernel, by default with one thread for each element of `out`."""
        index, sizes = windows.arguments(*arrays[:2], out)
        inputs = [a if a is NULL else dense(self.xp, a) for a in arrays]
        kernel = self._kernel(name, out, index)
        kernel(*(launch or elements(out.size)), (*inputs, out, *_to_index_type(index, *numbers), *sizes))
        return out

    def _kernel(self, name: str, x: AnyArray, index: str) -> Any:
        return self.cuda_kernel("convolution", name, type=type_name(x.dtype), index=index)

    # -- other numbers -------------------------------------------------------------------------------------------

    @cached_property
    def _conv_library(self) -> Any:
        """CuPy with this package's `matmul`, which can be captured and can use TensorFloat32."""
        return _Multiplying(self.xp, self._multiply)

    def correlate(self, x: AnyArray, weight: AnyArray, settings: ConvSettings, out: AnyArray) -> None:
        convolution.correlate(self._conv_library, x, weight, settings, out)

    def weight_gradient(self, x: AnyArray, grad: AnyArray, kernel: Ints, settings: ConvSettings) -> AnyArray:
        return convolution.weight_gradient(self._conv_library, x, grad, kernel, settings)


def _blocks(count: int, x: AnyArray, size: int, dtype: Any = None) -> Iterator[slice]:
    """Yield slices of the images, as many at a time as have columns that fit into the buffer.

    Each image has `size` column elements.
    """
    step = max(1, _COLUMNS // (size * np.dtype(dtype or x.dtype).itemsize))
    for start in range(0, count, step):
        yield slice(start, min(start + step, count))


def _to_index_type(index: str, *numbers: int) -> list[Any]:
    """Return `numbers` as int32 scalars if `index` is "i32", as int64 scalars otherwise."""
    kind = np.int32 if index == "i32" else np.int64
    return [kind(n) for n in numbers]
