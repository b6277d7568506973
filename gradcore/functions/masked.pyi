"""Written by gradcore.stubs from the table of operations."""

import builtins
from collections.abc import Sequence
from typing import Any, TypeAlias

from gradcore.core.dtypes import dtype
from gradcore.tensor import Tensor

Number: TypeAlias = builtins.bool | builtins.int | builtins.float | builtins.complex
Ints: TypeAlias = builtins.int | Sequence[builtins.int]
Dims: TypeAlias = Ints | None

def amax(
    input: Tensor,
    dim: Dims = ...,
    *,
    keepdim: builtins.bool = ...,
    dtype: dtype | None = ...,
    mask: Tensor | None = ...,
    out: Any = ...,
) -> Tensor: ...
def amin(
    input: Tensor,
    dim: Dims = ...,
    *,
    keepdim: builtins.bool = ...,
    dtype: dtype | None = ...,
    mask: Tensor | None = ...,
    out: Any = ...,
) -> Tensor: ...
def argmax(
    input: Tensor,
    dim: builtins.int | None = ...,
    *,
    keepdim: builtins.bool = ...,
    dtype: dtype | None = ...,
    mask: Tensor | None = ...,
    out: Any = ...,
) -> Tensor: ...
def argmin(
    input: Tensor,
    dim: builtins.int | None = ...,
    *,
    keepdim: builtins.bool = ...,
    dtype: dtype | None = ...,
    mask: Tensor | None = ...,
    out: Any = ...,
) -> Tensor: ...
def cumprod(
    input: Tensor, dim: builtins.int, *, dtype: dtype | None = ..., mask: Tensor | None = ..., out: Any = ...
) -> Tensor: ...
def cumsum(
    input: Tensor, dim: builtins.int, *, dtype: dtype | None = ..., mask: Tensor | None = ..., out: Any = ...
) -> Tensor: ...
def log_softmax(
    input: Tensor, dim: builtins.int, *, dtype: dtype | None = ..., mask: Tensor | None = ..., out: Any = ...
) -> Tensor: ...
def logaddexp(
    input: Tensor,
    other: Tensor,
    *,
    dtype: dtype | None = ...,
    input_mask: Tensor | None = ...,
    other_mask: Tensor | None = ...,
    out: Any = ...,
) -> Tensor: ...
def logsumexp(
    input: Tensor,
    dim: Dims = ...,
    *,
    keepdim: builtins.bool = ...,
    dtype: dtype | None = ...,
    mask: Tensor | None = ...,
    out: Any = ...,
) -> Tensor: ...
def mean(
    input: Tensor,
    dim: Dims = ...,
    *,
    keepdim: builtins.bool = ...,
    dtype: dtype | None = ...,
    mask: Tensor | None = ...,
    out: Any = ...,
) -> Tensor: ...
def median(
    input: Tensor,
    dim: builtins.int = ...,
    *,
    keepdim: builtins.bool = ...,
    dtype: dtype | None = ...,
    mask: Tensor | None = ...,
    out: Any = ...,
) -> Tensor: ...
def norm(
    input: Tensor,
    ord: builtins.float = ...,
    dim: Dims = ...,
    *,
    keepdim: builtins.bool = ...,
    dtype: dtype | None = ...,
    mask: Tensor | None = ...,
    out: Any = ...,
) -> Tensor: ...
def normalize(
    input: Tensor,
    ord: builtins.float,
    dim: builtins.int,
    *,
    eps: builtins.float = ...,
    dtype: dtype | None = ...,
    mask: Tensor | None = ...,
    out: Any = ...,
) -> Tensor: ...
def prod(
    input: Tensor,
    dim: Dims = ...,
    *,
    keepdim: builtins.bool = ...,
    dtype: dtype | None = ...,
    mask: Tensor | None = ...,
    out: Any = ...,
) -> Tensor: ...
def softmax(
    input: Tensor, dim: builtins.int, *, dtype: dtype | None = ..., mask: Tensor | None = ..., out: Any = ...
) -> Tensor: ...
def softmin(
    input: Tensor, dim: builtins.int, *, dtype: dtype | None = ..., mask: Tensor | None = ..., out: Any = ...
) -> Tensor: ...
def std(
    input: Tensor,
    dim: Dims = ...,
    unbiased: builtins.bool | None = ...,
    *,
    correction: builtins.int | builtins.float | None = ...,
    keepdim: builtins.bool = ...,
    dtype: dtype | None = ...,
    mask: Tensor | None = ...,
    out: Any = ...,
) -> Tensor: ...
def sum(
    input: Tensor,
    dim: Dims = ...,
    *,
    keepdim: builtins.bool = ...,
    dtype: dtype | None = ...,
    mask: Tensor | None = ...,
    out: Any = ...,
) -> Tensor: ...
def var(
    input: Tensor,
    dim: Dims = ...,
    unbiased: builtins.bool | None = ...,
    *,
    correction: builtins.int | builtins.float | None = ...,
    keepdim: builtins.bool = ...,
    dtype: dtype | None = ...,
    mask: Tensor | None = ...,
    out: Any = ...,
) -> Tensor: ...
