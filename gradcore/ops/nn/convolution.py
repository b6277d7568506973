"""Convolution and transposed convolution.

Both are partial maps of one trilinear form in input, weight and output. So are their derivatives: each of the three
maps `conv_output`, `conv_input` and `conv_weight` is bilinear, and its two adjoints are the other two.
"""

from __future__ import annotations

from typing import Any

from gradcore.backends.kernel_rules import native_body
from gradcore.ops.declare.annotations import Ints, Sizes, Steps
from gradcore.ops.declare.checks import check_implemented
from gradcore.ops.declare.promotion import same_dtypes
from gradcore.ops.declare.samples import case, floats
from gradcore.ops.declare.table import bilinear, general
from gradcore.ops.images.spatial import check_convolution_setting, declare_for_dims, spatial

# -- the trilinear form --------------------------------------------------------------------------------------


@bilinear(
    self=lambda F, grad, weight, self_shape, stride, padding, dilation, groups: F.conv_input(
        grad, F.conj(weight), self_shape[2:], stride, padding, dilation, groups
    ),
    weight=lambda F, grad, self, weight_shape, stride, padding, dilation, groups: F.conv_weight(
        F.conj(self), grad, weight_shape[2:], stride, padding, dilation, groups
    ),
    node="ConvolutionBackwardBackward0",
    function=False,
    method=False,
    half_on_cuda="convolution",
)
def conv_output(self, weight, size: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int):
    """Compute the cross-correlation of an input with a weight; `size` is the spatial size of the output."""


@bilinear(
    self=lambda F, grad, weight, self_shape, stride, padding, dilation, groups: F.conv_output(
        grad, F.conj(weight), self_shape[2:], stride, padding, dilation, groups
    ),
    weight=lambda F, grad, self, weight_shape, stride, padding, dilation, groups: F.conv_weight(
        grad, F.conj(self), weight_shape[2:], stride, padding, dilation, groups
    ),
    node="ConvolutionBackwardBackward0",
    function=False,
    method=False,
    half_on_cuda="convolution",
)
def conv_input(self, weight, size: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int):
    """Return the gradient of a convolution with respect to its input, which has the spatial size `size`.

    It is a transposed convolution.
    """


@bilinear(
    self=lambda F, grad, other, self_shape, stride, padding, dilation, groups: F.conv_input(
        F.conj(other), grad, self_shape[2:], stride, padding, dilation, groups
    ),
    other=lambda F, grad, self, other_shape, stride, padding, dilation, groups: F.conv_output(
        F.conj(self), grad, other_shape[2:], stride, padding, dilation, groups
    ),
    node="ConvolutionBackwardBackward0",
    function=False,
    method=False,
    half_on_cuda="convolution",
)
def conv_weight(self, other, size: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int):
    """Return the gradient of a convolution with respect to its weight, which has the spatial size `size`."""


# -- the operation -------------------------------------------------------------------------------------------


def _samples():
    settings = ((1,), (1,), (1,))
    return [
        case(floats(2, 4, 6), floats(6, 2, 3), floats(6), (2,), (1,), (1,), False, (0,), 2),
        case(floats(2, 4, 5), floats(4, 2, 3), floats(4), (2,), (1,), (1,), True, (1,), 2),
        case(floats(1, 2, 4, 5), floats(3, 2, 3, 2), None, (1, 2), (1, 0), (1, 2), False, (0, 0), 1),
        case(floats(0, 2, 5), floats(3, 2, 3), floats(3), *settings, False, (0,), 1),
    ]


@general(
    bias=lambda F, grad, bias_shape: F.sum(grad, (0, *range(2, grad.ndim))),  # nodes show the shape
    joint=("self", "weight"),
    method=False,
    mixed=same_dtypes(
        "expected scalar type {self} but found {weight}",
        "Input type ({self.cpp}) and bias type ({bias.cpp}) should be the same",
    ),
    samples=_samples,
    autocast="lower:cuda",
    saved={
        "input": "self",
        "bias_sym_sizes_opt": lambda bias_shape: bias_shape or (0,),
        "bias_sym_sizes": None,
        "self_sym_sizes": None,
        "weight_sym_sizes": None,
    },
    half_on_cuda="convolution",
)
@native_body
def convolution(
    K,
    self,
    weight,
    bias=None,
    stride: Ints = (1,),
    padding: Ints = (0,),
    dilation: Ints = (1,),
    transposed: bool = False,
    output_padding: Ints = (0,),
    groups: int = 1,
):
    """Compute the convolution or transposed convolution of a batch.

    Settings have one number for each spatial dimension.

    Returns
    -------
    Tensor
        Result of shape ``(batch, out_channels, *out)``; see `nn.functional.conv2d` and `conv_transpose2d`.

    Examples
    --------
    >>> gc.convolution(gc.ones(1, 1, 4), gc.ones(1, 1, 2))
    tensor([[[2., 2., 2.]]])
    """
    if weight.ndim < 3:
        raise RuntimeError("weight should have at least three dimensions")
    n = self.ndim - 2
    check_implemented(_kernel_name(n, transposed), self, "b")
    # Kernels do not check these numbers: with a dilation below one they would read memory before the array.
    stride, padding, dilation = _check_settings(n, stride, padding, dilation)
    output_padding = check_convolution_setting("output_padding", output_padding, n, 0)
    _check_operands(n, self.shape, weight.shape, None if bias is None else bias.shape, groups, transposed)
    if 0 in weight.shape[2:]:
        depth, height, width = (1,) * (3 - n) + tuple(weight.shape[2:])
        image, volume = f" kernel_height: {height} kernel_width: {width}", f": {depth} x {height} x {width} (TxHxW)"
        raise RuntimeError(f"kernel size should be greater than zero, but got{image if n < 3 else volume}")
    settings: Any = (stride, padding, dilation, groups)
    size = None
    if transposed:
        _check_output_padding(output_padding, stride, dilation)
        parts = zip(self.shape[2:], weight.shape[2:], *settings[:3], output_padding, strict=True)
        size = [(n - 1) * s - 2 * p + d * (k - 1) + o + 1 for n, k, s, p, d, o in parts]
        if min(size) < 0:
            found, result = (" x ".join(map(str, (1,) * (2 - n) + (*each,))) for each in (self.shape[2:], size))
            raise RuntimeError(
                f"Given input size per channel: ({found}). Calculated output size per channel: ({result}). "
                "Output size is too small"
            )
    else:
        _check_windows(self.shape[2:], weight.shape[2:], padding, dilation)
    if bias is not None:
        return K.conv_with_bias(self, weight, bias, size, *settings)
    return K.conv(self, weight, *settings) if size is None else K.conv_input(self, weight, size, *settings)


def _check_settings(n: int, stride: Steps, padding: Steps, dilation: Steps) -> tuple[Sizes, Sizes, Sizes]:
    """Check the settings of a convolution, and return them with one number for each of `n` spatial dims."""
    return (
        check_convolution_setting("stride", stride, n, 1),
        check_convolution_setting("padding", padding, n, 0),
        check_convolution_setting("dilation", dilation, n, 1),
    )


def _kernel_name(n: int, transposed: bool) -> str:
    """Return the name that PyTorch's errors use for the kernel; one dim is computed as two."""
    if transposed:
        return f"slow_conv_transpose{max(n, 2)}d_out_cpu"
    return "compute_columns3d" if n == 3 else "slow_conv2d_cpu"


@convolution.vjp("self")
def _(F, grad, weight, self_shape, stride, padding, dilation, transposed, groups):
    adjoint = F.conv_output if transposed else F.conv_input
    settings = _check_settings(len(self_shape) - 2, stride, padding, dilation)
    return adjoint(grad, F.conj(weight), self_shape[2:], *settings, groups)


@convolution.vjp("weight")
def _(F, grad, self, weight_shape, stride, padding, dilation, transposed, groups):
    self = F.conj(self)
    pair = (grad, self) if transposed else (self, grad)
    settings = _check_settings(len(weight_shape) - 2, stride, padding, dilation)
    return F.conv_weight(*pair, weight_shape[2:], *settings, groups)


@convolution.jvp("self")
def _(F, t, weight, stride, padding, dilation, transposed, output_padding, groups):
    return F.convolution(t, weight, None, stride, padding, dilation, transposed, output_padding, groups)


@convolution.jvp("weight")
def _(F, t, self, stride, padding, dilation, transposed, output_padding, groups):
    return F.convolution(self, t, None, stride, padding, dilation, transposed, output_padding, groups)


@convolution.jvp("bias")
def _(F, t, self_shape):
    return F.reshape(t, (-1, *(1,) * (len(self_shape) - 2)))


# -- the functions -------------------------------------------------------------------------------------------


def _conv(
    F: Any,
    n: int,
    input: Any,
    weight: Any,
    bias: Any,
    stride: Steps,
    padding: Steps | str,
    dilation: Steps,
    groups: int,
) -> Any:
    batched = _check_input("conv", n, input.shape)
    if not batched:
        input = F.unsqueeze(input, 0)
    stride = check_convolution_setting("stride", stride, n, 1)
    dilation = check_convolution_setting("dilation", dilation, n, 1)
    if isinstance(padding, str):
        input, padding = _resolve_padding(F, n, input, weight, stride, padding, dilation)
    padding = check_convolution_setting("padding", padding, n, 0)
    out = F.convolution(input, weight, bias, stride, padding, dilation, False, (0,) * n, groups)
    return out if batched else F.squeeze(out, 0)


def _conv_transpose(
    F: Any,
    n: int,
    input: Any,
    weight: Any,
    bias: Any,
    stride: Steps,
    padding: Steps,
    output_padding: Steps,
    groups: int,
    dilation: Steps,
) -> Any:
    batched = _check_input("conv_transpose", n, input.shape)
    if not batched:
        input = F.unsqueeze(input, 0)
    stride, padding, dilation = _check_settings(n, stride, padding, dilation)
    output_padding = check_convolution_setting("output_padding", output_padding, n, 0)
    out = F.convolution(input, weight, bias, stride, padding, dilation, True, output_padding, groups)
    return out if batched else F.squeeze(out, 0)


def _resolve_padding(
    F: Any, n: int, input: Any, weight: Any, stride: Sizes, padding: str, dilation: Sizes
) -> tuple[Any, Sizes]:
    """Return the input and the padding of ``'same'`` or ``'valid'``.

    Where the two sides of a dim differ, the input is padded beforehand.
    """
    if weight.ndim != n + 2:
        raise RuntimeError(f"Expected {n + 2}-dimensional weight, but got weight of size {list(weight.shape)}")
    if padding == "valid":
        return input, (0,) * n
    if padding != "same":
        raise RuntimeError(f"Invalid padding string: '{padding}'")
    if any(s != 1 for s in stride):
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    total = [d * (k - 1) for k, d in zip(weight.shape[2:], dilation, strict=True)]
    if any(amount % 2 for amount in total):
        input = F.constant_pad_nd(input, [value for amount in reversed(total) for value in (0, amount % 2)])
    return input, tuple(amount // 2 for amount in total)


def _check_input(name: str, n: int, sizes: Sizes) -> bool:
    """Check the input's number of dims, and return whether it has a batch dim."""
    if len(sizes) not in (n + 1, n + 2):
        raise RuntimeError(
            f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to {name}{n}d, but got input of size: "
            f"{list(sizes)}"
        )
    return len(sizes) == n + 2


def _check_operands(
    n: int, input_sizes: Sizes, weight_sizes: Sizes, bias_sizes: Sizes | None, groups: int, transposed: bool
) -> None:
    """Raise PyTorch's errors for a weight and a bias that do not fit the input."""
    if groups <= 0:
        raise RuntimeError("non-positive groups is not supported")
    sizes = list(weight_sizes)
    if len(sizes) != n + 2:
        raise RuntimeError(
            f"Expected {n + 2}-dimensional weight for a convolution with {n} spatial dimensions, but got weight of "
            f"size {sizes} instead"
        )
    prefix = f"Given transposed={int(transposed)}" if transposed else f"Given groups={groups}"
    if sizes[0] < groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be at least {groups} at dimension 0, but got weight of size "
            f"{sizes} instead"
        )
    if sizes[0] % groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but got weight of "
            f"size [{sizes}] instead"
        )
    channels = sizes[0] if transposed else sizes[1] * groups
    if input_sizes[1] != channels:
        raise RuntimeError(
            f"{prefix}, weight of size {sizes}, expected input{list(input_sizes)} to have {channels} channels, but got "
            f"{input_sizes[1]} channels instead"
        )
    outputs = sizes[1] * groups if transposed else sizes[0]
    if bias_sizes is not None and tuple(bias_sizes) != (outputs,):
        raise RuntimeError(
            f"Given {'transposed=1, ' if transposed else ''}weight of size {sizes}, expected bias to be 1-dimensional "
            f"with {outputs} elements, but got bias of size {list(bias_sizes)} instead"
        )


def _check_windows(sizes: Sizes, kernel: Sizes, padding: Sizes, dilation: Sizes) -> None:
    """Raise PyTorch's error for a kernel that is larger than the padded input."""
    extents = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    padded = [size + 2 * p for size, p in zip(sizes, padding, strict=True)]
    if any(k > size for k, size in zip(extents, padded, strict=True)):
        raise RuntimeError(
            f"Calculated padded input size per channel: ({' x '.join(map(str, padded))}). "
            f"Kernel size: ({' x '.join(map(str, extents))}). Kernel size can't be greater than actual input size"
        )


def _check_output_padding(output_padding: Sizes, stride: Sizes, dilation: Sizes) -> None:
    """Raise PyTorch's error for an output padding that is not smaller than stride or dilation."""
    if any(o >= max(s, d) for o, s, d in zip(output_padding, stride, dilation, strict=True)):
        raise RuntimeError(
            "output padding must be smaller than either stride or dilation, but got "
            f"output_padding: {list(output_padding)} stride: {list(stride)} dilation: {list(dilation)}"
        )


_CONV_SAMPLES = {
    1: lambda: [
        case(floats(2, 3, 7), floats(4, 3, 3), floats(4), stride=2, padding=1),
        case(floats(4, 6), floats(2, 2, 3), padding="same", dilation=2, groups=2),
        case(floats(2, 2, 5), floats(2, 2, 2), padding="same"),
        case(floats(2, 2, 5), floats(2, 2, 1), padding="valid"),
    ],
    2: lambda: [
        case(floats(2, 3, 5, 6), floats(4, 3, 3, 2), floats(4), stride=(2, 1), padding=(1, 0)),
        case(floats(4, 6, 6), floats(2, 2, 3, 3), padding="same", groups=2),
        case(floats(1, 2, 7, 7), floats(2, 2, 2, 2), floats(2), stride=3, dilation=(2, 3), padding=2),
        case(floats(2, 8, 3, 3), floats(1, 8, 2, 2)),
    ],
    3: lambda: [
        case(floats(1, 2, 3, 4, 3), floats(2, 2, 2, 2, 2), floats(2), stride=(1, 2, 1), padding=1),
        case(floats(2, 3, 3, 3), floats(2, 1, 1, 2, 3), groups=2),
    ],
}

_TRANSPOSED_SAMPLES = {
    1: lambda: [
        case(floats(2, 3, 4), floats(3, 2, 3), floats(2), stride=2, padding=1, output_padding=1),
        case(floats(4, 3), floats(4, 1, 2), groups=2, dilation=3, output_padding=2),
    ],
    2: lambda: [
        case(floats(2, 3, 3, 2), floats(3, 2, 3, 2), floats(2), stride=(2, 1), padding=(1, 0), output_padding=(1, 0)),
        case(floats(4, 3, 3), floats(4, 1, 2, 2), groups=2),
    ],
    3: lambda: [case(floats(1, 2, 2, 3, 2), floats(2, 1, 2, 2, 2), floats(1), stride=(1, 2, 1), padding=1)],
}


@declare_for_dims(1, 2, 3)
def _declare_conv(n: int) -> None:
    name = f"conv{n}d"

    @spatial(name, aliases=(f".{name}",), samples=_CONV_SAMPLES[n], autocast="lower")
    def conv(
        F,
        input,
        weight,
        bias=None,
        stride: Steps = 1,
        padding: Steps | str = 0,
        dilation: Steps = 1,
        groups: int = 1,
    ):
        """Return the convolution (cross-correlation) over {dims}.

        Parameters
        ----------
        input : Tensor
            Of shape ``(batch, channels, *sizes)``, or without the batch dim.
        weight : Tensor
            Of shape ``(output channels, channels / groups, *kernel)``.
        bias : Tensor, optional
            One number for each output channel.
        stride, padding, dilation : int or sequence of int
            One number, or one for each spatial dim. `padding` may also be ``'same'`` or ``'valid'``.
        groups : int
            Into how many groups, independent of each other, the channels are split.
        """
        return _conv(F, n, input, weight, bias, stride, padding, dilation, groups)


@declare_for_dims(1, 2, 3)
def _declare_conv_transpose(n: int) -> None:
    name = f"conv_transpose{n}d"

    @spatial(name, aliases=(f".{name}",), samples=_TRANSPOSED_SAMPLES[n], autocast="lower")
    def conv_transpose(
        F,
        input,
        weight,
        bias=None,
        stride: Steps = 1,
        padding: Steps = 0,
        output_padding: Steps = 0,
        groups: int = 1,
        dilation: Steps = 1,
    ):
        """Return the transposed convolution over {dims}: the gradient of `conv{n}d` with respect to its input.

        Parameters
        ----------
        input : Tensor
            Of shape ``(batch, channels, *sizes)``, or without the batch dim.
        weight : Tensor
            Of shape ``(channels, output channels / groups, *kernel)``.
        bias : Tensor, optional
            One number for each output channel.
        stride, padding, output_padding, dilation : int or sequence of int
            One number, or one for each spatial dim.
        groups : int
            Into how many groups, independent of each other, the channels are split.
        """
        return _conv_transpose(F, n, input, weight, bias, stride, padding, output_padding, groups, dilation)
