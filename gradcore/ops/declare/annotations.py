"""Annotations of settings in declarations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from gradcore.core.dtypes import dtype

__all__ = [
    "Arrays",
    "DType",
    "Dims",
    "Indices",
    "Ints",
    "Labels",
    "Number",
    "Order",
    "OutputSizes",
    "Pairs",
    "Sizes",
    "Spacing",
    "Steps",
    "Tensor",
]

#: A sequence of tensors (the first parameter of operations that join).
Arrays: TypeAlias = Sequence[Any]
DType: TypeAlias = dtype | None
#: One dim, several, or all.
Dims: TypeAlias = int | Sequence[int] | None
#: Index tensors, never differentiated: raw arrays in kernels.
Indices: TypeAlias = Sequence[Any]
Ints: TypeAlias = int | Sequence[int]
#: The dims of an operand of a contraction, by number.
Labels: TypeAlias = tuple[int, ...]
#: Any Python number: complex stands for the others, too.
Number: TypeAlias = complex
#: Which norm.
Order: TypeAlias = complex | str | None
#: The sizes of a result by dim, or one for all; None keeps the size of the input.
OutputSizes: TypeAlias = int | Sequence[int | None] | None
#: How many dims are contracted, or which of both operands.
Pairs: TypeAlias = Any
#: A shape: methods take it as separate arguments, too.
Sizes: TypeAlias = Sequence[int]
#: The distance of samples, for all dims or for each, or their coordinates.
Spacing: TypeAlias = Any
#: One number for all spatial dims, or one for each.
Steps: TypeAlias = int | Sequence[int]
#: A tensor as a setting.
Tensor: TypeAlias = Any
