"""Convolution layers and transposed convolution layers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from gradcore.nn import functional as F
from gradcore.nn.docstrings import Docstring
from gradcore.nn.init import uniform_
from gradcore.nn.module import Module
from gradcore.nn.module_factory import ntuple
from gradcore.nn.parameter import Parameter
from gradcore.tensor import Tensor
from gradcore.tensor.creation import empty

__all__: list[str] = []

MODES = ("zeros", "reflect", "replicate", "circular")


class _Conv(Module):
    """Convolution over {n} with a kernel that is learned.

    Parameters
    ----------
    in_channels, out_channels : int
        Size of the dim of channels of inputs and outputs.
    kernel_size : int or tuple of int
    stride : int or tuple of int
    padding : int, tuple of int, "valid" or "same"
        Elements added on both sides.
    dilation : int or tuple of int
    groups : int
        The number of groups of channels, each with its own convolution.
    bias : bool
        Whether there is a bias.
    padding_mode : str
        The values of the added elements: ``"zeros"``, ``"reflect"``, ``"replicate"`` or ``"circular"``.
    device, dtype
        The device and dtype of the parameters.
        Their first values are uniform between plus and minus ``1 / sqrt(fan_in)``.
    """

    n: int
    transposed = False
    output_padding: Any = 0
    bias: Tensor | None
    weight: Tensor

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        for name, channels in (("in_channels", in_channels), ("out_channels", out_channels)):
            if channels % groups:
                raise ValueError(f"{name} must be divisible by groups")
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride, self.dilation = (ntuple(v, self.n) for v in (kernel_size, stride, dilation))
        self.padding: Any = padding if isinstance(padding, str) else ntuple(padding, self.n)
        self.output_padding, self.padding_mode = ntuple(self.output_padding, self.n), padding_mode
        self._check()
        self.weight = Parameter(empty(self._weight_shape(), device=device, dtype=dtype))
        self.register_parameter("bias", Parameter(empty(out_channels, device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def _weight_shape(self) -> tuple[int, ...]:
        ends = self.out_channels, self.in_channels
        outer, inner = reversed(ends) if self.transposed else ends
        return outer, inner // self.groups, *self.kernel_size

    def _check(self) -> None:
        if isinstance(self.padding, str) and self.padding not in ("valid", "same"):
            raise ValueError(f"Invalid padding string {self.padding!r}, should be one of {{'same', 'valid'}}")
        if self.padding == "same" and any(s != 1 for s in self.stride):
            raise ValueError("padding='same' is not supported for strided convolutions")
        if self.padding_mode not in MODES:
            raise ValueError(f"padding_mode must be one of {MODES}, but got padding_mode='{self.padding_mode}'")

    def reset_parameters(self) -> None:
        """Draw new parameters at random."""
        fan_in = math.prod(self.weight.shape[1:])
        bound = 1 / math.sqrt(fan_in) if fan_in else 0.0
        for parameter in self._parameters.values():
            if parameter is not None:
                uniform_(parameter, -bound, bound)

    def _widths(self) -> list[int]:
        """Return the padding before and after each dim, the last dim first."""
        if self.padding == "valid":
            return [0] * (2 * self.n)
        if self.padding == "same":
            totals = [d * (k - 1) for d, k in zip(self.dilation, self.kernel_size, strict=True)]
            return [width for total in reversed(totals) for width in (total // 2, total - total // 2)]
        return [width for p in reversed(self.padding) for width in (p, p)]

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            input, padding = F.pad(input, self._widths(), self.padding_mode), 0
        convolve = getattr(F, f"conv{self.n}d")
        return convolve(  # type: ignore[no-any-return]
            input, weight, bias, self.stride, padding, self.dilation, self.groups
        )

    def forward(self, input: Tensor) -> Tensor:
        """Return the convolution of the input with the weight."""
        return self._conv_forward(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Return the settings, without those that have default values."""
        shown = [str(self.in_channels), str(self.out_channels)]
        shown += [f"kernel_size={self.kernel_size}", f"stride={self.stride}"]
        for name, usual in (("padding", 0), ("dilation", 1), ("output_padding", 0)):
            value = getattr(self, name)
            shown += [f"{name}={value}"] if value != (usual,) * self.n else []
        shown += [f"groups={self.groups}"] if self.groups != 1 else []
        shown += ["bias=False"] if self.bias is None else []
        shown += [f"padding_mode={self.padding_mode}"] if self.padding_mode != "zeros" else []
        return ", ".join(shown)


class _ConvTranspose(_Conv):
    """Transpose of the convolution over {n}, with a kernel that is learned.

    Parameters
    ----------
    in_channels, out_channels : int
        Size of the dim of channels of inputs and outputs.
    kernel_size : int or tuple of int
    stride, padding : int or tuple of int
        The settings of the convolution of which this is the transpose.
    output_padding : int or tuple of int
        Elements added at one end of the output.
    groups : int
        The number of groups of channels, each with its own convolution.
    bias : bool
        Whether there is a bias.
    dilation : int or tuple of int
        The setting of the convolution of which this is the transpose.
    padding_mode : str
        ``"zeros"``.
    device, dtype
        The device and dtype of the parameters.
    """

    transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        object.__setattr__(self, "output_padding", output_padding)
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype
        )

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        """Return the transposed convolution. `output_size` selects one of the possible sizes."""
        extra = self.output_padding if output_size is None else self._extra(input, output_size)
        convolve = getattr(F, f"conv_transpose{self.n}d")
        return convolve(  # type: ignore[no-any-return]
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation
        )

    def _extra(self, input: Tensor, output_size: Any) -> tuple[int, ...]:
        """Return the output padding that gives the requested size."""
        settings = (input.shape[-self.n :], self.stride, self.padding, self.dilation, self.kernel_size)
        least = [(size - 1) * s - 2 * p + d * (k - 1) + 1 for size, s, p, d, k in zip(*settings, strict=True)]
        most = [low + s - 1 for low, s in zip(least, self.stride, strict=True)]
        output_sizes = tuple(output_size)[-self.n :]
        if not all(low <= size <= high for low, size, high in zip(least, output_sizes, most, strict=True)):
            raise ValueError(
                f"requested an output size of {output_size}, but valid sizes range from {least} to {most} (for an "
                f"input of {input.shape[2:]})"
            )
        return tuple(size - low for size, low in zip(output_sizes, least, strict=True))


def _make_layer(base: type[_Conv], n: int) -> type[_Conv]:
    name = f"{base.__name__.removeprefix('_')}{n}d"
    doc = (base.__doc__ or "").format(n=f"{n} dim{'s' * (n > 1)}")
    return type(name, (base,), {"n": n, "__module__": "gradcore.nn", "__doc__": Docstring(doc)})


MADE = {cls.__name__: cls for cls in (_make_layer(base, n) for base in (_Conv, _ConvTranspose) for n in (1, 2, 3))}
globals().update(MADE)
__all__ += sorted(MADE)

if TYPE_CHECKING:  # the classes that were made

    def __getattr__(name: str) -> Any: ...
