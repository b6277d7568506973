"""Written by gradcore.stubs from the table of operations."""

import builtins
from collections.abc import Sequence
from typing import Any, TypeAlias

from gradcore.dtypes import dtype
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
) -> Any: ...
def amin(
    input: Tensor,
    dim: Dims = ...,
    *,
    keepdim: builtins.bool = ...,
    dtype: dtype | None = ...,
    mask: Tensor | None = ...,
    out: Any = ...,
) -> Any: ...
def argmax(
    input: Tensor,
    dim: builtins.int | None = ...,
    *,
    keepdim: builtins.bool = ...,
    dtype: dtype | None = ...,
    mask: Tensor | None = ...,
    out: Any = ...,
) -> Any: ...
def argmin(
    input: Tensor,
    dim: builtins.int | None = ...,
    *,
    keepdim: builtins.bool = ...,
    dtype: dtype | None = ...,
    mask: Tensor | None = ...,
    out: Any = ...,
) -> Any: ...
def cumprod(
    input: Tensor, dim: builtins.int, *, dtype: dtype | None = ..., mask: Tensor | None = ..., out: Any = ...
) -> Any: ...
def cumsum(
    input: Tensor, dim: builtins.int, *, dtype: dtype | None = ..., mask: Tensor | None = ..., out: Any = ...
) -> Any: ...
def log_softmax(
    input: Tensor, dim: builtins.int, *, dtype: dtype | None = ..., mask: Tensor | None = ..., out: Any = ...
) -> Any: ...
def logaddexp(
    input: Tensor,
    other: Tensor,
    *,
    dtype: dtype | None = ...,
    input_mask: Tensor | None = ...,
    other_mask: Tensor | None = ...,
    out: Any = ...,
) -> Any: ...
def logsumexp(
    input: Tensor,
    dim: Dims = ...,
    *,
    keepdim: builtins.bool = ...,
    dtype: dtype | None = ...,
    mask: Tensor | None = ...,
    out: Any = ...,
) -> Any: ...
def mean(
    input: Tensor,
    dim: Dims = ...,
    *,
    keepdim: builtins.bool = ...,
    dtype: dtype | None = ...,
    mask: Tensor | None = ...,
    out: Any = ...,
) -> Any: ...
def median(
    input: Tensor,
    dim: builtins.int = ...,
    *,
    keepdim: builtins.bool = ...,
    dtype: dtype | None = ...,
    mask: Tensor | None = ...,
    out: Any = ...,
) -> Any: ...
def norm(
    input: Tensor,
    ord: builtins.float = ...,
    dim: Dims = ...,
    *,
    keepdim: builtins.bool = ...,
    dtype: dtype | None = ...,
    mask: Tensor | None = ...,
    out: Any = ...,
) -> Any: ...
def normalize(
    input: Tensor,
    ord: builtins.float,
    dim: builtins.int,
    *,
    eps: builtins.float = ...,
    dtype: dtype | None = ...,
    mask: Tensor | None = ...,
    out: Any = ...,
) -> Any: ...
def prod(
    input: Tensor,
    dim: Dims = ...,
    *,
    keepdim: builtins.bool = ...,
    dtype: dtype | None = ...,
    mask: Tensor | None = ...,
    out: Any = ...,
) -> Any: ...
def softmax(
    input: Tensor, dim: builtins.int, *, dtype: dtype | None = ..., mask: Tensor | None = ..., out: Any = ...
) -> Any: ...
def softmin(
    input: Tensor, dim: builtins.int, *, dtype: dtype | None = ..., mask: Tensor | None = ..., out: Any = ...
) -> Any: ...
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
) -> Any: ...
def sum(
    input: Tensor,
    dim: Dims = ...,
    *,
    keepdim: builtins.bool = ...,
    dtype: dtype | None = ...,
    mask: Tensor | None = ...,
    out: Any = ...,
) -> Any: ...
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
) -> Any: ...
