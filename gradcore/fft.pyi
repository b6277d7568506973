"""Written by gradcore.stubs from the table of operations."""

import builtins
from collections.abc import Sequence
from typing import Any, TypeAlias

from gradcore.tensor import Tensor

Number: TypeAlias = builtins.bool | builtins.int | builtins.float | builtins.complex
Ints: TypeAlias = builtins.int | Sequence[builtins.int]
Dims: TypeAlias = Ints | None

def fftfreq(*args: Any, **named: Any) -> Any: ...
def rfftfreq(*args: Any, **named: Any) -> Any: ...
def fft(
    input: Tensor,
    n: builtins.int | None = ...,
    dim: builtins.int = ...,
    norm: builtins.str | None = ...,
    *,
    out: Any = ...,
) -> Any: ...
def fft2(input: Tensor, s: Any = ..., dim: Any = ..., norm: builtins.str | None = ..., *, out: Any = ...) -> Any: ...
def fftn(input: Tensor, s: Any = ..., dim: Any = ..., norm: builtins.str | None = ..., *, out: Any = ...) -> Any: ...
def fftshift(input: Tensor, dim: Any = ..., *, out: Any = ...) -> Any: ...
def hfft(
    input: Tensor,
    n: builtins.int | None = ...,
    dim: builtins.int = ...,
    norm: builtins.str | None = ...,
    *,
    out: Any = ...,
) -> Any: ...
def hfft2(input: Tensor, s: Any = ..., dim: Any = ..., norm: builtins.str | None = ..., *, out: Any = ...) -> Any: ...
def hfftn(input: Tensor, s: Any = ..., dim: Any = ..., norm: builtins.str | None = ..., *, out: Any = ...) -> Any: ...
def ifft(
    input: Tensor,
    n: builtins.int | None = ...,
    dim: builtins.int = ...,
    norm: builtins.str | None = ...,
    *,
    out: Any = ...,
) -> Any: ...
def ifft2(input: Tensor, s: Any = ..., dim: Any = ..., norm: builtins.str | None = ..., *, out: Any = ...) -> Any: ...
def ifftn(input: Tensor, s: Any = ..., dim: Any = ..., norm: builtins.str | None = ..., *, out: Any = ...) -> Any: ...
def ifftshift(input: Tensor, dim: Any = ..., *, out: Any = ...) -> Any: ...
def ihfft(
    input: Tensor,
    n: builtins.int | None = ...,
    dim: builtins.int = ...,
    norm: builtins.str | None = ...,
    *,
    out: Any = ...,
) -> Any: ...
def ihfft2(input: Tensor, s: Any = ..., dim: Any = ..., norm: builtins.str | None = ..., *, out: Any = ...) -> Any: ...
def ihfftn(input: Tensor, s: Any = ..., dim: Any = ..., norm: builtins.str | None = ..., *, out: Any = ...) -> Any: ...
def irfft(
    input: Tensor,
    n: builtins.int | None = ...,
    dim: builtins.int = ...,
    norm: builtins.str | None = ...,
    *,
    out: Any = ...,
) -> Any: ...
def irfft2(input: Tensor, s: Any = ..., dim: Any = ..., norm: builtins.str | None = ..., *, out: Any = ...) -> Any: ...
def irfftn(input: Tensor, s: Any = ..., dim: Any = ..., norm: builtins.str | None = ..., *, out: Any = ...) -> Any: ...
def rfft(
    input: Tensor,
    n: builtins.int | None = ...,
    dim: builtins.int = ...,
    norm: builtins.str | None = ...,
    *,
    out: Any = ...,
) -> Any: ...
def rfft2(input: Tensor, s: Any = ..., dim: Any = ..., norm: builtins.str | None = ..., *, out: Any = ...) -> Any: ...
def rfftn(input: Tensor, s: Any = ..., dim: Any = ..., norm: builtins.str | None = ..., *, out: Any = ...) -> Any: ...
