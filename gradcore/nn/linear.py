"""Linear and bilinear layers."""

from __future__ import annotations

import math
from typing import Any

from gradcore.nn import functional as F
from gradcore.nn.init import uniform_
from gradcore.nn.module import Module
from gradcore.nn.parameter import Parameter
from gradcore.tensor import Tensor
from gradcore.tensor.creation import empty

__all__ = ["Bilinear", "Linear"]


class Linear(Module):
    """``input @ weight.T + bias``.

    Parameters
    ----------
    in_features, out_features : int
        Size of the last dim of inputs and outputs.
    bias : bool
        Whether there is a bias.
    device, dtype
        The device and dtype of the parameters.
        Their first values are uniform between plus and minus ``1 / sqrt(in_features)``.

    Examples
    --------
    >>> import gradcore
    >>> gradcore.nn.Linear(2, 3)(gradcore.ones(5, 2)).shape
    torch.Size([5, 3])
    """

    bias: Tensor | None
    weight: Tensor

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(empty(out_features, in_features, device=device, dtype=dtype))
        self.register_parameter("bias", Parameter(empty(out_features, device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new parameters at random."""
        bound = 1 / math.sqrt(self.in_features) if self.in_features else 0.0
        for parameter in self._parameters.values():
            if parameter is not None:
                uniform_(parameter, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        """Return the linear map of the last dim of the input, plus the bias."""
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Return the sizes, and whether there is a bias."""
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Bilinear(Module):
    """``input1 @ weight[k] @ input2 + bias[k]`` for each output ``k``.

    Parameters
    ----------
    in1_features, in2_features, out_features : int
        Size of the last dim of both inputs and of the output.
    bias : bool
        Whether there is a bias.
    device, dtype
        The device and dtype of the parameters.
        Their first values are uniform between plus and minus ``1 / sqrt(in1_features)``.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.nn.Bilinear(2, 3, 4)(gc.ones(5, 2), gc.ones(5, 3)).shape
    torch.Size([5, 4])
    """

    bias: Tensor | None
    weight: Tensor

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if not isinstance(in1_features, int):
            raise TypeError(f"in1_features should be of type int, got: {type(in1_features).__name__}")
        if in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got {in1_features}")
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        self.weight = Parameter(empty(out_features, in1_features, in2_features, device=device, dtype=dtype))
        self.register_parameter("bias", Parameter(empty(out_features, device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new parameters at random."""
        bound = 1 / math.sqrt(self.in1_features)
        for parameter in self._parameters.values():
            if parameter is not None:
                uniform_(parameter, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        """Return the bilinear map of the last dims of both inputs, plus the bias."""
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Return the sizes, and whether there is a bias."""
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )
