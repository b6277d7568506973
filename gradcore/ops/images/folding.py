"""Conversions between windows and columns, and between pixels and channels."""

from __future__ import annotations

from math import prod
from typing import Any

from gradcore.backends.kernel_rules import images
from gradcore.ops.declare.annotations import Ints, Sizes, Steps
from gradcore.ops.declare.samples import case, floats
from gradcore.ops.declare.table import composite, linear
from gradcore.ops.images.spatial import each

# -- windows as columns --------------------------------------------------------------------------------------


@linear(
    lambda F, grad, self_shape, kernel, dilation, padding, stride: F.col2im(
        grad, self_shape[-2:], kernel, dilation, padding, stride
    ),
    node="Im2ColBackward0",
    function=False,
    method=False,
    saved={
        "kernel_size": "kernel",
        "self_sym_argsize_minus_1": lambda self_shape: self_shape[-1],
        "self_sym_argsize_minus_2": lambda self_shape: self_shape[-2],
        "self_sym_sizes": None,
    },
    batch=images(1),
)
def im2col(self, kernel: Ints, dilation: Ints, padding: Ints, stride: Ints):
    """Return the windows of images as columns."""


@linear(
    lambda F, grad, kernel, dilation, padding, stride: F.im2col(grad, kernel, dilation, padding, stride),
    node="Col2ImBackward0",
    function=False,
    method=False,
    saved={"kernel_size": "kernel", "size": None},
)
def col2im(self, size: Ints, kernel: Ints, dilation: Ints, padding: Ints, stride: Ints):
    """Return the adjoint of `im2col`: columns, added up to images."""


def _two(name: str, value: Steps, lowest: int) -> Sizes:
    values = each(value, 2)
    if values is None:
        raise RuntimeError(f"It is expected {name} equals to 2, but got size {len(value)}")  # type: ignore[arg-type]
    if min(values) < lowest:
        words = name.replace("_", " ")
        least = "greater than zero" if lowest else "non-negative"
        raise RuntimeError(f"{words} should be {least}, but got {name}: {list(values)}")
    return values


def _settings(kernel_size: Steps, dilation: Steps, padding: Steps, stride: Steps) -> tuple[Sizes, Sizes, Sizes, Sizes]:
    """Check kernel size, dilation, padding and stride, and return each as a pair."""
    return (
        _two("kernel_size", kernel_size, 1),
        _two("dilation", dilation, 1),
        _two("padding", padding, 0),
        _two("stride", stride, 1),
    )


def _counts(size: Sizes, kernel: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes) -> list[int]:
    """Return the number of windows along each dim, at least one."""
    counts = [
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, d, p, s in zip(size, kernel, dilation, padding, stride, strict=True)
    ]
    if min(counts) < 1:
        raise RuntimeError(
            f"Given input with spatial size {tuple(size)}, kernel_size={kernel}, dilation={dilation}, "
            f"padding={padding}, calculated shape of the array of sliding blocks as {tuple(counts)}, but its "
            "components must be at least one."
        )
    return counts


@composite(
    name="unfold_images",  # there is also the method `Tensor.unfold`
    path="nn.functional.unfold",
    samples=lambda: [
        case(floats(2, 3, 4, 5), 2),
        case(floats(1, 2, 5, 4), (3, 2), dilation=(1, 2), padding=1, stride=2),
        case(floats(2, 4, 3), 2),
        case(floats(0, 2, 3, 3), 2),
    ],
)
def unfold(F, input, kernel_size: Steps, dilation: Steps = 1, padding: Steps = 0, stride: Steps = 1):
    """Return the windows of images as columns.

    Images ``(batch, channels, height, width)`` become ``(batch, channels * kernel, windows)``.

    The batch dim may be missing. `fold` adds columns up again.

    Returns
    -------
    Tensor
        Result of shape ``(batch, channels * kernel elements, patches)``.

    Examples
    --------
    >>> image = gc.arange(9.0).reshape(1, 1, 3, 3)
    >>> gc.nn.functional.unfold(image, kernel_size=2)[0]
    tensor([[0., 1., 3., 4.],
            [1., 2., 4., 5.],
            [3., 4., 6., 7.],
            [4., 5., 7., 8.]])
    """
    settings = _settings(kernel_size, dilation, padding, stride)
    sizes = list(input.shape)
    if input.ndim not in (3, 4) or 0 in sizes[-3:]:
        raise RuntimeError(
            "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, "
            f"but got: {sizes}"
        )
    _counts(tuple(sizes[-2:]), *settings)
    return F.im2col(input, *settings)


@composite(
    path="nn.functional.fold",
    samples=lambda: [
        case(floats(2, 12, 12), (4, 5), 2),
        case(floats(1, 12, 12), (5, 4), (3, 2), dilation=(1, 2), padding=1, stride=(2, 1)),
        case(floats(8, 4), (3, 3), 2),
    ],
)
def fold(
    F,
    input,
    output_size: Steps,
    kernel_size: Steps,
    dilation: Steps = 1,
    padding: Steps = 0,
    stride: Steps = 1,
):
    """Return images of `output_size`: the columns of `unfold`, added at the positions that they came from.

    Returns
    -------
    Tensor
        Result of shape ``(batch, channels, *output_size)``.

    Examples
    --------
    >>> gc.nn.functional.fold(gc.ones(1, 4, 4), output_size=(3, 3), kernel_size=2)[0, 0]
    tensor([[1., 2., 1.],
            [2., 4., 2.],
            [1., 2., 1.]])
    """
    size = _two("output_size", output_size, 1)
    settings = _settings(kernel_size, dilation, padding, stride)
    if input.ndim not in (2, 3) or 0 in input.shape[-2:]:
        raise RuntimeError(
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for "
            f"input, but got: {list(input.shape)}"
        )
    kernel, dilations, paddings, strides = settings
    dim = input.ndim - 2
    if input.shape[dim] % prod(kernel):
        raise RuntimeError(
            f"Expected size of input's dimension {dim} to be divisible by the product of kernel_size, but got "
            f"input.size({dim})={input.shape[dim]} and kernel_size={kernel}."
        )
    counts = _counts(size, *settings)
    if prod(counts) != input.shape[dim + 1]:
        raise RuntimeError(
            f"Given output_size={size}, kernel_size={kernel}, dilation={dilations}, padding={paddings}, "
            f"stride={strides}, expected size of input's dimension {dim + 1} to match the calculated number of sliding "
            f"blocks {' * '.join(map(str, counts))} = {prod(counts)}, but got input.size({dim + 1})="
            f"{input.shape[dim + 1]}."
        )
    return F.col2im(input, size, *settings)


# -- pixels as channels --------------------------------------------------------------------------------------


def _check_pixels(name: str, factor: int, what: str, input: Any) -> None:
    if input.ndim < 3:
        raise RuntimeError(
            f"{name} expects input to have at least 3 dimensions, but got input with {input.ndim} dimension(s)"
        )
    if factor <= 0:
        raise RuntimeError(f"{name} expects a positive {what}, but got {factor}")


def _rearrange(K: Any, x: Any, split: tuple[int, ...], order: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    """Return a copy of `x` reshaped to `split`, permuted by `order` and reshaped to `shape`."""
    out = K.reshape(K.permute(K.reshape(x, split), order), shape)
    return K.clone(out) if tuple(x.shape) == shape else out


@linear(
    lambda F, grad, upscale_factor: F.pixel_unshuffle(grad, upscale_factor),
    path="nn.functional.pixel_shuffle",
    computes_half_in_float=False,
    aliases=(".pixel_shuffle",),
    method=False,
    samples=lambda: [case(floats(2, 8, 2, 3), 2), case(floats(9, 1, 2), 3), case(floats(1, 2, 2, 2), 1)],
)
def pixel_shuffle(K, self, upscale_factor: int):
    """Turn channels into pixels: ``(*, C * r ** 2, H, W)`` into ``(*, C, H * r, W * r)``.

    Returns
    -------
    Tensor
        Result of shape ``(*, channels / r**2, height * r, width * r)``.

    Examples
    --------
    >>> gc.nn.functional.pixel_shuffle(gc.arange(4).reshape(1, 4, 1, 1), 2)
    tensor([[[[0, 1],
              [2, 3]]]])
    """
    r = upscale_factor
    _check_pixels("pixel_shuffle", r, "upscale_factor", self)
    *lead, channels, height, width = self.shape
    if channels % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, "
            f"but input.size(-3)={channels} is not divisible by {r * r}"
        )
    n = len(lead)
    return _rearrange(
        K,
        self,
        (*lead, channels // (r * r), r, r, height, width),
        (*range(n), n, n + 3, n + 1, n + 4, n + 2),
        (*lead, channels // (r * r), height * r, width * r),
    )


@linear(
    lambda F, grad, downscale_factor: F.pixel_shuffle(grad, downscale_factor),
    path="nn.functional.pixel_unshuffle",
    computes_half_in_float=False,
    aliases=(".pixel_unshuffle",),
    method=False,
    samples=lambda: [case(floats(2, 2, 4, 6), 2), case(floats(1, 3, 6), 3), case(floats(1, 2, 2, 2), 1)],
)
def pixel_unshuffle(K, self, downscale_factor: int):
    """Turn pixels into channels: ``(*, C, H * r, W * r)`` into ``(*, C * r ** 2, H, W)``.

    Returns
    -------
    Tensor
        Result of shape ``(*, channels * r**2, height / r, width / r)``.

    Examples
    --------
    >>> gc.nn.functional.pixel_unshuffle(gc.arange(4).reshape(1, 1, 2, 2), 2).flatten()
    tensor([0, 1, 2, 3])
    """
    r = downscale_factor
    _check_pixels("pixel_unshuffle", r, "downscale_factor", self)
    *lead, channels, height, width = self.shape
    for name, dim, size in (("height", -2, height), ("width", -1, width)):
        if size % r:
            raise RuntimeError(
                f"pixel_unshuffle expects {name} to be divisible by downscale_factor, but input.size({dim})={size} is "
                f"not divisible by {r}"
            )
    n = len(lead)
    return _rearrange(
        K,
        self,
        (*lead, channels, height // r, r, width // r, r),
        (*range(n), n, n + 2, n + 4, n + 1, n + 3),
        (*lead, channels * r * r, height // r, width // r),
    )


@linear(
    lambda F, grad, self_shape, groups: F.channel_shuffle(grad, self_shape[1] // groups if groups else 1),
    path="nn.functional.channel_shuffle",
    computes_half_in_float=False,
    aliases=(".channel_shuffle",),
    method=False,
    samples=lambda: [case(floats(2, 6, 2, 3), 2), case(floats(1, 6, 3), 3), case(floats(1, 4, 2), 1)],
    saved={"self_sym_sizes": None},
)
def channel_shuffle(K, self, groups: int):
    """Interleave the channels of `groups` groups: the first of each group, then the second, and so on.

    Returns
    -------
    Tensor
        Result of the same shape as the input.

    Examples
    --------
    >>> gc.nn.functional.channel_shuffle(gc.arange(4).reshape(1, 4, 1, 1), groups=2).flatten()
    tensor([0, 2, 1, 3])
    """
    sizes = tuple(self.shape)
    if len(sizes) < 3:
        raise RuntimeError(f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(sizes)}")
    if groups <= 0:
        raise RuntimeError(f"Number of groups to divide channels in must be positive. Value of groups:{groups}")
    if sizes[1] % groups:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {sizes[1]} channels and {groups} groups."
        )
    split = (sizes[0], groups, sizes[1] // groups, *sizes[2:])
    return _rearrange(K, self, split, (0, 2, 1, *range(3, len(split))), sizes)
