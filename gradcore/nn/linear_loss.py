"""A linear layer combined with cross entropy."""

from __future__ import annotations

import math
from typing import Any

from gradcore.nn import functional as F
from gradcore.nn.linear import Linear
from gradcore.nn.module import Module
from gradcore.tensor import Tensor

__all__ = ["LinearCrossEntropyLoss"]


class LinearCrossEntropyLoss(Module):
    """`CrossEntropyLoss` applied to the scores of a linear layer, whose parameters it owns.

    Parameters
    ----------
    in_features : int
        Size of an input.
    num_classes : int
    out_features : tuple of int
        The dims of targets beyond the batch.
    bias : bool
        Whether the map has offsets.
    device, dtype
        The device and dtype of the parameters.
    reduction : {"mean", "sum", "none"}
    weight : Tensor, optional
        The weights of the classes.
    ignore_index : int, optional
        A target that does not count.
    label_smoothing : float
        The share of the target that all classes get.
    options
        Accepted for compatibility.

    Examples
    --------
    >>> import gradcore
    >>> loss = gradcore.nn.LinearCrossEntropyLoss(5, 10)
    >>> loss(gradcore.randn(3, 5), gradcore.tensor([1, 0, 7])).shape
    torch.Size([])
    """

    weight: Tensor | None

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: Any = None,
    ) -> None:
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise RuntimeError(f"expected weight shape to be {(num_classes,)}, got {tuple(weight.shape)}")
        if not 0 <= label_smoothing <= 1:
            raise RuntimeError(f"expected label_smoothing to be in range [0, 1], got {label_smoothing}")
        super().__init__()
        self.num_classes, self.out_features = num_classes, tuple(out_features)
        self.reduction, self.ignore_index, self.label_smoothing = reduction, ignore_index, label_smoothing
        self.options = options
        self.register_buffer("weight", weight)
        self.linear = Linear(in_features, num_classes * math.prod(self.out_features), bias, device, dtype)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss of inputs with the shape ``(batch, in_features)`` or ``(in_features,)``."""
        shape, bias = (self.num_classes, *self.out_features), self.linear.bias
        return F.linear_cross_entropy(
            input,
            self.linear.weight.reshape(*shape, self.linear.in_features),
            target,
            linear_bias=None if bias is None else bias.reshape(shape),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        """Return the sizes and settings."""
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, "
            f"out_features={self.out_features}, bias={self.linear.bias is not None}, reduction={self.reduction}, "
            f"ignore_index={self.ignore_index}, label_smoothing={self.label_smoothing}, options={self.options}"
        )
