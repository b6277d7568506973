"""Type annotations of settings in declarations."""

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
    "Scalar",
    "Sizes",
    "Spacing",
    "Steps",
    "Tensor",
]

#: A sequence of tensors: the first parameter of operations such as `cat`.
Arrays: TypeAlias = Sequence[Any]
DType: TypeAlias = dtype | None
#: One dim, several, or all.
Dims: TypeAlias = int | Sequence[int] | None
#: Index tensors, which are never differentiated; kernels get them as raw arrays.
Indices: TypeAlias = Sequence[Any]
Ints: TypeAlias = int | Sequence[int]
#: The dims of an operand of a contraction, by number.
Labels: TypeAlias = tuple[int, ...]
#: Any Python number; the annotation complex includes int and float.
Number: TypeAlias = complex
#: The order of a norm.
Order: TypeAlias = complex | str | None
#: The sizes of a result by dim, or one for all; None keeps the size of the input.
OutputSizes: TypeAlias = int | Sequence[int | None] | None
#: The number of dims that are contracted, or a pair of lists of dims.
Pairs: TypeAlias = Any
#: A real number that is checked like a tensor's element: an int of more than 64 bits is an error.
Scalar: TypeAlias = float
#: A shape; methods also take it as separate arguments.
Sizes: TypeAlias = Sequence[int]
#: The distance between samples, for all dims or for each dim, or the coordinates of the samples.
Spacing: TypeAlias = Any
#: One number for all spatial dims, or one for each.
Steps: TypeAlias = int | Sequence[int]
#: A tensor as a setting.
Tensor: TypeAlias = Any
