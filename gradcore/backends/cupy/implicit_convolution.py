"""Convolution on the tensor cores of CUDA devices without columns in memory: kernels gather windows as they multiply.

The kernels of `implicit_convolution.cu` apply to float16, bfloat16 and, where TensorFloat32 is allowed, float32, on
devices of compute capability 8.0 and later, if a group has enough channels and there are enough windows.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from gradcore.backends.cupy.kernels import C_NAMES, NULL, CudaKernels, dense, dtype_name, elements, pass_by_value
from gradcore.backends.portable.convolution import ConvSettings
from gradcore.core.typing import AnyArray

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["CudaImplicitConvolution", "defines"]

Ints = tuple[int, ...]
Layout = tuple[Ints, Ints]

#: Smallest number of rows, and of elements of the inner index, of a product: half of the rows of the smallest tile, and
#: half of what a tile has of the inner index. Less would leave most of a tile empty.
_LEAST = 16
#: Rows of a block's tile; columns of a tile, and how many elements of the inner index it has.
_ROWS, _COLUMNS, _DEPTH = (128, 64, 32), 64, 32
#: Number of blocks below which a device has too few to be busy: cuBLAS divides a product differently.
_FEWEST_BLOCKS = 64
#: Number of blocks that the gradient by the weight is divided into, and the fewest steps of `_DEPTH` windows of each.
_BLOCKS, _FEWEST_STEPS = 512, 16
#: The part of the bytes of both operands that the sums of these blocks may take.
_PARTS = 8
#: Bound of indices within an image or a weight, and of coordinates.
_REACH = 1 << 29
#: Largest number of taps of a window, added up over its dims: as many as a number has bits, but for one.
_TAPS = 31

#: The structure `Dim` of `implicit_convolution.cu`.
_DIM = np.dtype(
    [
        (n, "i4")
        for n in ("size", "outputs", "taps", "stride", "padding", "dilation", "x_step", "weight_step", "out_step")
    ]
)
_WIDE = ("images", "x_image", "out_image", "x_group", "weight_group", "out_group")
_NARROW = ("rows", "channels", "x_channel", "weight_row", "weight_channel", "out_row")
#: The structure `Convolved` of `implicit_convolution.cu`.
_CONVOLVED = np.dtype([("dims", _DIM, 3), *((n, "i8") for n in _WIDE), *((n, "i4") for n in _NARROW)], align=True)


@functools.cache
def defines(name: str, rows: int) -> dict[str, str]:
    """Return the macros for compiling the kernels, given the name of a dtype and the number of rows of a block."""
    return {"type": C_NAMES[name], "rows": str(rows), "tensor": "1"}


class CudaImplicitConvolution(CudaKernels):
    """Products of weights and windows, and of gradients and windows, which gather the windows themselves."""

    def _implicit_rows(
        self, x: AnyArray, rows: int, inner: int, columns: int, groups: int, reach: int, taps: Sequence[int]
    ) -> int:
        """Return the number of rows of a block's tile for a convolution, or 0 if the kernels do not apply.

        Parameters
        ----------
        x : array
            An operand. The others have the same dtype.
        rows, inner, columns : int
            Sizes of the product of a group: the channels of the result, the elements of a window, and all windows.
        groups : int
        reach : int
            A bound of the coordinates, and of the numbers of elements of an image and of the weight.
        taps : sequence of int
            The numbers of taps in each dim.
        """
        if not self._gathers_windows(x, min(rows, inner), reach, taps):
            return 0
        column_tiles = groups * -(-columns // _COLUMNS)
        for height in _ROWS:
            tiles = -(-rows // height)
            is_padded = height > _ROWS[-1] and rows <= height // 2  # half of the tile is empty
            if not is_padded and tiles * column_tiles >= _FEWEST_BLOCKS:
                return height
        return 0

    def _gathers_windows(self, x: AnyArray, least: int, reach: int, taps: Sequence[int]) -> bool:
        """Return whether the kernels apply, given the smallest size of a product, a bound of indices, and the taps."""
        fits = least >= _LEAST and reach < _REACH and sum(taps) + 3 - len(taps) <= _TAPS
        return fits and self.uses("implicit_convolution") and self.has_tensor_cores(x)

    def _convolve_images(
        self, x: AnyArray, weight: AnyArray, bias: AnyArray, settings: ConvSettings, out: AnyArray, height: int
    ) -> None:
        """Write the convolution of `x` and `weight`, plus `bias` if it is not None, to `out`.

        Parameters
        ----------
        x : array
        weight : array
            Of the shape ``(groups, rows, channels, *taps)``.
        bias : array or None
        settings : ConvSettings
        out : array
            Of any strides and any spatial size.
        height : int
            The number of rows of a block's tile.
        """
        groups, rows = weight.shape[:2]
        x = self._readable(x)
        structure = _structure(_layout(x), _layout(weight), _layout(out), *map(tuple, settings[:3]))
        blocks = groups * -(-rows // height) * -(-out.shape[0] * prod(out.shape[2:]) // _COLUMNS)
        arguments = x, weight, dense(self.xp, bias), out, structure
        self._implicit_kernel("convolve_images", x, height)((blocks,), (2 * height,), arguments)

    def _convolve_gradients(
        self, x: AnyArray, grad: AnyArray, shape: Sequence[int], settings: ConvSettings
    ) -> AnyArray | None:
        """Return the gradient by the weight, of `shape`, or None if the kernels do not apply."""
        groups = settings.groups
        rows, channels, taps = shape[0] // groups, shape[1], prod(shape[2:])
        windows = grad.shape[0] * prod(grad.shape[2:])
        reach = max(x.size // x.shape[0], grad.size // grad.shape[0], prod(shape), _coordinates(x, shape, settings))
        if not self._gathers_windows(x, min(rows, channels * taps, windows), reach, shape[2:]):
            return None
        height = next((n for n in _ROWS if rows > n // 2), _ROWS[-1])
        x, grad = self._readable(x), self._readable(grad)
        out = self.allocate(shape, x.dtype)
        of_weight = (groups, rows, channels, *shape[2:])
        layout = of_weight, tuple(prod(of_weight[i + 1 :]) for i in range(len(of_weight)))
        structure = _structure(_layout(x), layout, _layout(grad), *map(tuple, settings[:3]))
        tiles = groups * -(-rows // height) * -(-channels * taps // _COLUMNS)
        most_parts = (x.size + grad.size) * x.dtype.itemsize // (_PARTS * 4 * out.size)
        splits = max(1, min(-(-_BLOCKS // tiles), -(-windows // _DEPTH) // _FEWEST_STEPS, most_parts))
        parts = NULL if splits == 1 else self.allocate((splits, out.size), np.float32)
        arguments = x, grad, out, parts, *self.int64s(splits), structure
        self._implicit_kernel("convolve_gradients", x, height)((tiles * splits,), (2 * height,), arguments)
        if splits > 1:
            add = self._implicit_kernel("add_parts", x, height)
            add(*elements(out.size), (parts, out, *self.int64s(out.size, splits)))
        return out

    def _readable(self, x: AnyArray) -> AnyArray:
        """Return `x`, copied if its rows are not contiguous or the elements of an image are far from each other."""
        last = next((i for i in range(x.ndim - 1, 1, -1) if x.shape[i] > 1), None)
        in_rows = last is None or abs(x.strides[last]) <= x.itemsize
        extent = sum((n - 1) * abs(s) for n, s in zip(x.shape[1:], x.strides[1:], strict=True))
        return x if in_rows and extent < _REACH * x.itemsize else self.xp.ascontiguousarray(x)

    def _implicit_kernel(self, name: str, x: AnyArray, height: int) -> Callable[..., None]:
        return self.cuda_kernel("implicit_convolution", name, **defines(dtype_name(x.dtype), height))


def _coordinates(x: AnyArray, shape: Sequence[int], settings: ConvSettings) -> int:
    """Return a bound of the coordinates of windows of `x` with taps of a weight's shape."""
    sizes = zip(x.shape[2:], shape[2:], *settings[:3], strict=True)
    return max(2 * (n + 2 * abs(p) + k * d + s) for n, k, s, p, d in sizes)


def _layout(x: AnyArray) -> Layout:
    """Return the shape and the strides in elements, zero for dims of one element."""
    return x.shape, tuple(s // x.itemsize if n > 1 else 0 for n, s in zip(x.shape, x.strides, strict=True))


@functools.lru_cache(512)
def _structure(x: Layout, weight: Layout, out: Layout, *settings: Ints) -> AnyArray:
    """Return the bytes of the structure that the kernels take, given layouts of the operands.

    The weight's layout has the groups as a dim of its own. `settings` are the stride, padding and dilation.
    """
    (x_shape, x_steps), (weight_shape, weight_steps), (out_shape, out_steps) = x, weight, out
    convolved = np.zeros(1, _CONVOLVED)
    dims = convolved["dims"][0]
    dims[:] = np.array((1, 1, 1, 1, 0, 1, 0, 0, 0), _DIM)
    spatial = zip(
        x_shape[2:],
        out_shape[2:],
        weight_shape[3:],
        *settings,
        x_steps[2:],
        weight_steps[3:],
        out_steps[2:],
        strict=True,
    )
    for i, dim in enumerate(spatial, 5 - len(x_shape)):
        dims[i] = dim
    _, rows, channels = weight_shape[:3]
    wide = x_shape[0], x_steps[0], out_steps[0], channels * x_steps[1], weight_steps[0], rows * out_steps[1]
    narrow = rows, channels, x_steps[1], weight_steps[1], weight_steps[2], out_steps[1]
    for name, number in zip((*_WIDE, *_NARROW), (*wide, *narrow), strict=True):
        convolved[name] = number
    return pass_by_value(convolved)
