"""Rules for products, linear algebra and Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from gradcore.backends.meta.array import MetaArray, probe, reduce_shape, shape_of
from gradcore.backends.meta.rules import Shape, rule, shapes

__all__: list[str] = []

# -- products ------------------------------------------------------------------------------------------------


@shapes("dot")
def _dot(a: Any, b: Any) -> Shape:
    first, second = shape_of(a), shape_of(b)
    if not first or not second:
        return first + second
    contracted = max(len(second) - 2, 0)
    if first[-1] != second[contracted]:
        raise ValueError(f"shapes {first} and {second} not aligned")
    return first[:-1] + second[:contracted] + second[contracted + 1 :]


@shapes("vdot")
def _vdot(a: Any, b: Any) -> Shape:
    return ()


@shapes("inner")
def _inner(a: Any, b: Any) -> Shape:
    first, second = shape_of(a), shape_of(b)
    return first[:-1] + second[:-1] if first and second else first + second


@shapes("outer")
def _outer(a: Any, b: Any) -> Shape:
    return prod(shape_of(a)), prod(shape_of(b))


@shapes("kron")
def _kron(a: Any, b: Any) -> Shape:
    first, second = shape_of(a), shape_of(b)
    n = max(len(first), len(second))
    return tuple(x * y for x, y in zip((1,) * (n - len(first)) + first, (1,) * (n - len(second)) + second, strict=True))


@rule("cross")
def _cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> MetaArray:
    axes = (axisa, axisb, axisc) if axis is None else (axis,) * 3
    first, second = (_with_axis_last(shape_of(x), at) for x, at in zip((a, b), axes, strict=False))
    vectors = () if first[-1] == second[-1] == 2 else (3,)
    shape = (*np.broadcast_shapes(first[:-1], second[:-1]), *vectors)
    if vectors:
        (at,) = normalize_axis_tuple(axes[2], len(shape))
        shape = (*shape[:at], 3, *shape[at:-1])
    return MetaArray(shape, np.result_type(a.dtype, b.dtype))


def _with_axis_last(shape: Shape, axis: int) -> Shape:
    (at,) = normalize_axis_tuple(axis, len(shape))
    return (*shape[:at], *shape[at + 1 :], shape[at])


@shapes("tensordot")
def _tensordot(a: Any, b: Any, axes: Any = 2) -> Shape:
    first, second = shape_of(a), shape_of(b)
    if isinstance(axes, int):
        return first[: len(first) - axes] + second[axes:]
    summed = [normalize_axis_tuple(x, len(s)) for x, s in zip(axes, (first, second), strict=True)]
    return tuple(
        n
        for s, removed_dims in zip((first, second), summed, strict=True)
        for i, n in enumerate(s)
        if i not in removed_dims
    )


# -- linear algebra ------------------------------------------------------------------------------------------


@shapes("linalg.cholesky linalg.inv linalg.matrix_power")
def _same(a: Any, *args: Any, **kwargs: Any) -> Shape:
    return a.shape


@shapes("linalg.cond linalg.det linalg.matrix_rank")
def _number(a: Any, *args: Any, **kwargs: Any) -> Shape:
    return a.shape[:-2]


@shapes("linalg.slogdet")
def _slogdet(a: Any) -> list[Shape]:
    return [a.shape[:-2]] * 2


@shapes("linalg.eigvals linalg.eigvalsh")
def _eigenvalues(a: Any, *args: Any, **kwargs: Any) -> Shape:
    return a.shape[:-1]


@shapes("linalg.eig linalg.eigh")
def _eigenvectors(a: Any, *args: Any, **kwargs: Any) -> list[Shape]:
    return [a.shape[:-1], a.shape]


@shapes("linalg.svd")
def _svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    *batch, m, n = a.shape
    k = min(m, n)
    if not compute_uv:
        return (*batch, k)
    return [(*batch, m, m if full_matrices else k), (*batch, k), (*batch, n if full_matrices else k, n)]


@shapes("linalg.qr")
def _qr(a: Any, mode: str = "reduce_shape") -> Any:
    *batch, m, n = a.shape
    k = m if mode == "complete" else min(m, n)
    return (*batch, k, n) if mode == "r" else [(*batch, m, k), (*batch, k, n)]


@shapes("linalg.solve")
def _solve(a: Any, b: Any) -> Shape:
    if b.ndim == 1:
        return (*a.shape[:-2], b.shape[0])
    return (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:])


@shapes("linalg.pinv")
def _pinv(a: Any, *args: Any, **kwargs: Any) -> Shape:
    return (*a.shape[:-2], a.shape[-1], a.shape[-2])


@shapes("linalg.norm")
def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Shape:
    return reduce_shape(x.shape, axis, keepdims)


# -- Fourier transforms --------------------------------------------------------------------------------------

Length = Callable[[int, int | None], int]


def _dtype(a: MetaArray, real: bool) -> Any:
    result = probe(np.fft.fft, MetaArray((1,), a.dtype))
    return (result.real if real else result).dtype


def _transform(length: Length, real: bool) -> Callable[..., Any]:
    def run(a: MetaArray, n: int | None = None, axis: int = -1, norm: Any = None, out: Any = None) -> Any:
        shape = list(a.shape)
        shape[axis] = length(shape[axis], n)
        return MetaArray(shape, _dtype(a, real)) if out is None else out

    return run


def _transform_of_several(length: Length, real: bool, default: Any) -> Callable[..., Any]:
    def run(a: MetaArray, s: Any = None, axes: Any = default, norm: Any = None, out: Any = None) -> Any:
        shape = list(a.shape)
        axes = range(-len(shape if s is None else s), 0) if axes is None else axes
        sizes = [None if n == -1 else n for n in s] if s is not None else [None] * len(axes)
        for axis, n in zip(axes[:-1], sizes[:-1], strict=True):
            shape[axis] = n or shape[axis]
        shape[axes[-1]] = length(shape[axes[-1]], sizes[-1])
        return MetaArray(shape, _dtype(a, real)) if out is None else out

    return run


_FAMILIES: tuple[tuple[str, Length, bool], ...] = (
    ("fft ifft", lambda size, n: n or size, False),
    ("rfft ihfft", lambda size, n: (n or size) // 2 + 1, False),
    ("irfft hfft", lambda size, n: n or 2 * (size - 1), True),
)
for _names, _length, _real in _FAMILIES:
    for _name in _names.split():
        rule(f"fft.{_name}")(_transform(_length, _real))
        for _suffix, _default in (("2", (-2, -1)), ("n", None)):
            rule(f"fft.{_name}{_suffix}")(_transform_of_several(_length, _real, _default))
