"""Convolution (cross-correlation) and its two adjoints, for one to three spatial dimensions.

The three functions are the partial maps of one trilinear form, so the derivatives of each are the other two.
Arrays are batched: input `(N, C, *S)`, weight `(O, C / groups, *K)`, output and its gradient `(N, O, *L)`.
Arguments are never modified. For half precision, the caller converts to float32 and rounds the result once.

Windows are gathered into columns and the columns multiplied with the weight (im2col), block by block.
Where there are far fewer output than input channels, the input is multiplied first, and the products are
shifted and added.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

from gradcore.backends.kernel_methods import packed
from gradcore.backends.kernel_rules import native_body, writes
from gradcore.backends.portable.sliding import Phase, Windows, conv_output_size, phases
from gradcore.core.typing import NamedTuple

if TYPE_CHECKING:
    from gradcore.core.arrays import Array, Namespace

__all__ = [
    "ConvSettings",
    "Convolution",
    "InputPhase",
    "conv_output_size",
    "correlate",
    "input_phases",
    "weight_gradient",
]

# Measured: positions an image from which 1x1 kernels are best applied image by image; the ratio of input
# to output channels above which it is better to multiply first than to gather first; the output channels
# up to which columns times gradients and a transpose are faster than gradients times columns.
_POINTWISE, _MULTIPLY_FIRST, _TRANSPOSE = 16, 4, 256


class ConvSettings(NamedTuple):
    """Settings of a convolution: stride, padding and dilation for each spatial dim, and the groups of channels."""

    stride: Sequence[int]
    padding: Sequence[int]
    dilation: Sequence[int]
    groups: int


class InputPhase(NamedTuple):
    """A part of the gradient of a convolution by its input: a convolution of the upstream gradient with some taps."""

    #: Index of the elements of the input, and of the weight's taps.
    elements: tuple[slice, ...]
    taps: tuple[slice, ...]
    settings: ConvSettings

    def reverse(self, weight: Array) -> Array:
        """Return a view of the taps of this phase, in reverse. Taps are the last dims of `weight`."""
        return weight[(..., *self.taps)][(..., *[slice(None, None, -1)] * len(self.taps))]


def input_phases(kernel: Sequence[int], settings: ConvSettings) -> list[InputPhase]:
    """Return the parts of the gradient by the input. Elements that belong to none are zero.

    There are as many as the product of the strides if each element can be in a window.
    """
    stride, padding, dilation, groups = settings
    parts = []
    for phase in product(*map(phases, kernel, stride, dilation)):
        rows, pads = [], []
        for each, s, p in zip(phase, stride, padding, strict=True):
            # The first row of the phase that is not padding.
            row = -((each.residue - p) // s)
            rows.append(slice(row * s + each.residue - p, None, s))
            pads.append(each.reach - row)
        taps = tuple(slice(each.first, None, each.period) for each in phase)
        of_phase = ConvSettings([1] * len(phase), pads, [each.step for each in phase], groups)
        parts.append(InputPhase((slice(None), slice(None), *rows), taps, of_phase))
    return parts


class Convolution:
    """Cross-correlation and its two adjoints."""

    xp: Namespace

    @packed(ConvSettings)
    def conv(self, x: Array, weight: Array, settings: ConvSettings) -> Array:
        """Cross-correlate: `out[n, o, t]` is the sum of `x[n, c, s * t + d * k - p] * weight[o, c, k]`."""
        spatial = map(conv_output_size, x.shape[2:], weight.shape[2:], *settings[:3])
        out = self.xp.empty((x.shape[0], weight.shape[0], *spatial), dtype=x.dtype)
        self.correlate(x, weight, settings, out)
        return out

    def conv_output(self, x: Array, weight: Array, size: Sequence[int], *settings: Any) -> Array:
        """Compute `conv` for an output of the spatial size `size`, which `output_padding` can make smaller."""
        return self.conv(x, weight, *settings)[(..., *map(slice, size))]

    @packed(ConvSettings)
    def conv_input(self, grad: Array, weight: Array, size: Sequence[int], settings: ConvSettings) -> Array:
        """Return the gradient of `conv` by its input: the transposed convolution of `grad` with `weight`.

        Inputs of one phase receive from the taps of that phase alone: each phase of the result is a
        convolution of `grad`, with a stride of one, by those taps in reverse.
        """
        groups, channels = settings.groups, weight.shape[1] * settings.groups
        swapped = _swap_channels(weight, groups)
        parts = input_phases(weight.shape[2:], settings)
        # Between phases that have taps there may be inputs that no window reads.
        is_complete = len(parts) == prod(settings.stride)
        out = (self.xp.empty if is_complete else self.xp.zeros)((grad.shape[0], channels, *size), dtype=grad.dtype)
        for part in parts:
            self.correlate(grad, part.reverse(swapped), part.settings, out[part.elements])
        return out

    @native_body
    @packed(ConvSettings)
    def conv_with_bias(
        self, x: Array, weight: Array, bias: Array, size: Sequence[int] | None, settings: ConvSettings
    ) -> Array:
        """Compute `conv`, or `conv_input` if `size` is given, and add `bias` to each channel."""
        out = self.conv(x, weight, settings) if size is None else self.conv_input(x, weight, size, settings)
        out += bias.reshape(-1, *(1,) * (out.ndim - 2))
        return out

    @packed(ConvSettings)
    def conv_weight(self, x: Array, grad: Array, kernel: Sequence[int], settings: ConvSettings) -> Array:
        """Return the gradient of `conv` by its weight."""
        channels, outputs = x.shape[1] // settings.groups, grad.shape[1]
        if not (x.size and grad.size):
            return self.xp.zeros((outputs, channels, *kernel), dtype=x.dtype)
        return self.weight_gradient(x, grad, kernel, settings).reshape(outputs, channels, *kernel)

    @writes("out")
    def correlate(self, x: Array, weight: Array, settings: ConvSettings, out: Array) -> None:
        """Cross-correlate `x`, padded with zeros, with `weight`, and write the result to `out`, of any spatial size."""
        correlate(self.xp, x, weight, settings, out)

    def weight_gradient(self, x: Array, grad: Array, kernel: Sequence[int], settings: ConvSettings) -> Array:
        """Sum windows of `x` times `grad` over all positions: `(groups, O / groups, C / groups * K)`."""
        return weight_gradient(self.xp, x, grad, kernel, settings)


def correlate(
    xp: Namespace,
    x: Array,
    weight: Array,
    settings: ConvSettings,
    out: Array,
) -> None:
    """Cross-correlate `x`, padded with zeros, with `weight`, and write to `out`, of any spatial size."""
    stride, padding, _, groups = settings
    if not out.size:
        return
    if not (x.size and weight.size):
        out[...] = 0
        return
    kernel, spatial = weight.shape[2:], out.shape[2:]
    outputs, channels = out.shape[1] // groups, weight.shape[1]
    ends = [s * (length - 1) + 1 for s, length in zip(stride, spatial, strict=True)]
    inside = not any(padding) and all(end <= size for end, size in zip(ends, x.shape[2:], strict=True))
    if prod(kernel) == 1 and inside and prod(spatial) >= _POINTWISE:
        points = x[(..., *(slice(None, end, s) for end, s in zip(ends, stride, strict=True)))]
        points = points.reshape(x.shape[0], groups, channels, -1)
        matrix = weight.reshape(groups, outputs, channels)
        if out.flags.c_contiguous:
            xp.matmul(matrix, points, out=out.reshape(x.shape[0], groups, outputs, -1))
        else:
            out[...] = xp.matmul(matrix, points).reshape(out.shape)
        return
    multiply_first = prod(kernel) > 1 and _MULTIPLY_FIRST * outputs < channels
    (_multiply_first if multiply_first else _gather_first)(xp, x, weight, settings, out)


def _swap_channels(weight: Array, groups: int) -> Array:
    """Exchange the input and output channels of each group."""
    outputs, channels, *kernel = weight.shape
    weight = weight.reshape(groups, outputs // groups, channels, *kernel).swapaxes(1, 2)
    return weight.reshape(groups * channels, outputs // groups, *kernel)


def _gather_first(xp: Namespace, x: Array, weight: Array, settings: ConvSettings, out: Array) -> None:
    """Write products of columns of windows with the weight to `out`, block by block."""
    outputs, groups = weight.shape[0], settings.groups
    # Reversed taps must be copied: reshape may keep negative strides, which BLAS does not take.
    matrix = xp.ascontiguousarray(weight).reshape(groups, outputs // groups, -1)
    windows = Windows(xp, x, weight.shape[2:], settings, out.shape[2:], outputs // groups)
    for images, rows in windows.blocks(matrix.shape[2] * groups):
        columns = windows.columns(images, rows).reshape(groups, matrix.shape[2], -1)
        products = xp.matmul(matrix, columns).reshape(outputs, -1, *windows.sizes(rows))
        out[images, :, rows] = windows.separate(products).swapaxes(0, 1)


def _multiply_first(xp: Namespace, x: Array, weight: Array, settings: ConvSettings, out: Array) -> None:
    """Compute the same as `_gather_first` by multiplying the input with every tap and adding the shifted products."""
    (outputs, channels, *kernel), groups = weight.shape, settings.groups
    windows = Windows(xp, x, kernel, settings, out.shape[2:], outputs // groups)
    weight = weight.reshape(groups, outputs // groups, channels, *kernel)
    weight = xp.ascontiguousarray(xp.moveaxis(weight, (1, 2), (-2, -1)))
    for images, rows in windows.blocks(channels * groups + outputs * prod(kernel)):
        windows.pad(images)
        # In the flattened positions of the padded input a tap is a shift.
        input_rows = slice(rows.start, rows.stop + windows.extent[0] - windows.spatial[0])
        sizes = (images.stop - images.start, input_rows.stop - input_rows.start, *windows.extent[1:])
        total: Any = None
        for source, phase in zip(windows.padded, windows.phases, strict=True):
            taps = weight[(slice(None), *[slice(each.first, None, each.period) for each in phase])]
            flat = source[:, : sizes[0], input_rows].reshape(groups, channels, -1)
            products = xp.matmul(taps.reshape(groups, -1, channels), flat)
            products = products.reshape(groups, -1, outputs // groups, products.shape[-1])
            for tap, shift in enumerate(_shifts(phase, sizes[1:])):
                part = products[:, tap]
                if total is None:
                    total = part  # The first tap has no shift.
                else:
                    total[..., : part.shape[-1] - shift] += part[..., shift:]
        valid = (..., slice(rows.stop - rows.start), *map(slice, windows.spatial[1:]))
        out[images, :, rows] = total.reshape(outputs, *sizes)[valid].swapaxes(0, 1)


@lru_cache(maxsize=256)
def _shifts(phase: tuple[Phase, ...], sizes: tuple[int, ...]) -> list[int]:
    """Return the distance of each tap of a phase from its window's position, in a block's arrays of these sizes."""
    shifts = [0]
    for each, size in zip(phase, sizes, strict=True):
        steps = [each.shift + i * each.step for i in range(each.number)]
        shifts = [shift * size + step for shift in shifts for step in steps]
    return shifts


def weight_gradient(
    xp: Namespace,
    x: Array,
    grad: Array,
    kernel: Sequence[int],
    settings: ConvSettings,
) -> Array:
    """Sum windows of `x` times `grad` over all positions: `(groups, O / groups, C / groups * K)`."""
    result, joined = _sum_of_products(xp, x, grad, kernel, settings, join=True)
    if joined and not xp.isfinite(result).all():
        # Unused values between rows were multiplied by zero, which gives NaN if they are infinite.
        result, _ = _sum_of_products(xp, x, grad, kernel, settings, join=False)
    return result


def _sum_of_products(
    xp: Namespace, x: Array, grad: Array, kernel: Sequence[int], settings: ConvSettings, join: bool
) -> tuple[Array, bool]:
    """Return the weight gradient, and whether the columns had unused values between rows (`Windows.join`)."""
    groups = settings.groups
    outputs = grad.shape[1] // groups
    taps = x.shape[1] // groups * prod(kernel)
    windows = Windows(xp, x, kernel, settings, grad.shape[2:], outputs, join)
    result: Any = None
    for images, rows in windows.blocks(groups * taps):
        columns = windows.columns(images, rows).reshape(groups, taps, -1)
        upstream = windows.join(grad[images, :, rows].swapaxes(0, 1)).reshape(groups, outputs, -1)
        if outputs < _TRANSPOSE:
            part = xp.matmul(columns, upstream.swapaxes(1, 2))
        else:
            part = xp.matmul(upstream, columns.swapaxes(1, 2))
        if result is None:
            result = part
        else:
            result += part
    return xp.ascontiguousarray(result.swapaxes(1, 2)) if outputs < _TRANSPOSE else result, windows.joined
