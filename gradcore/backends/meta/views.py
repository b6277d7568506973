"""Shape rules for functions that rearrange elements. They return views, with strides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from gradcore.backends.meta.array import RULES, MetaArray, broadcast
from gradcore.backends.meta.rules import Shape, rule, shapes
from gradcore.backends.numpy_rules import as_shape, new_axes_key, permuted_axes

__all__ = ["as_strided"]


def _permutation(function: Any) -> Callable[..., MetaArray]:
    def view(a: MetaArray, *args: Any, **kwargs: Any) -> MetaArray:
        return a.transpose(permuted_axes(function, a.ndim, *args, **kwargs))

    return view


RULES.register_each("matrix_transpose moveaxis permute_dims rollaxis swapaxes transpose", _permutation)


@rule("reshape")
def _reshape(a: MetaArray, shape: Any, order: str = "C", copy: bool | None = None) -> MetaArray:
    return a.reshape(shape, copy=copy)


@rule("ravel")
def _ravel(a: MetaArray, order: str = "C") -> MetaArray:
    return a.reshape(-1, order=order)


@rule("broadcast_to")
def _broadcast_to(array: MetaArray, shape: Any, subok: bool = False) -> MetaArray:
    shape = as_shape(shape)
    lead = len(shape) - array.ndim
    if lead < 0 or any(n not in (1, m) for n, m in zip(array.shape, shape[lead:], strict=True)):
        raise ValueError(f"cannot broadcast an array of shape {array.shape} to shape {shape}")
    steps = zip(array.shape, array.strides, shape[lead:], strict=True)
    return array.make_view(shape, (0,) * lead + tuple(step if n == m else 0 for n, step, m in steps))


@rule("broadcast_arrays")
def _broadcast_arrays(*arrays: Any, subok: bool = False) -> tuple[Any, ...]:
    shape = broadcast(*arrays)
    return tuple(np.broadcast_to(a, shape) for a in arrays)


@rule("expand_dims")
def _expand_dims(a: MetaArray, axis: int | Sequence[int]) -> MetaArray:
    return a[new_axes_key(a.ndim, axis)]


@rule("squeeze")
def _squeeze(a: MetaArray, axis: int | Sequence[int] | None = None) -> MetaArray:
    unit_dims = [i for i, n in enumerate(a.shape) if n == 1]
    axes = unit_dims if axis is None else normalize_axis_tuple(axis, a.ndim)
    if not set(axes) <= set(unit_dims):
        raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    return a[tuple(0 if i in axes else slice(None) for i in range(a.ndim))]


@rule("flip")
def _flip(m: MetaArray, axis: int | Sequence[int] | None = None) -> MetaArray:
    axes = range(m.ndim) if axis is None else normalize_axis_tuple(axis, m.ndim)
    return m[tuple(slice(None, None, -1) if i in axes else slice(None) for i in range(m.ndim))]


rule("fliplr")(lambda m: _flip(m, 1))
rule("flipud")(lambda m: _flip(m, 0))


@rule("rot90")
def _rot90(m: MetaArray, k: int = 1, axes: Sequence[int] = (0, 1)) -> MetaArray:
    first, second = normalize_axis_tuple(axes, m.ndim)
    turns: tuple[Callable[[], MetaArray], ...] = (
        lambda: m[...],
        lambda: _flip(m, second).swapaxes(first, second),
        lambda: _flip(m, (first, second)),
        lambda: _flip(m.swapaxes(first, second), second),
    )
    return turns[k % 4]()


@rule("diagonal")
def _diagonal(a: MetaArray, offset: int = 0, axis1: int = 0, axis2: int = 1) -> MetaArray:
    first, second = normalize_axis_tuple((axis1, axis2), a.ndim)
    down, right = max(-offset, 0), max(offset, 0)
    length = max(min(a.shape[first] - down, a.shape[second] - right), 0)
    rest = [i for i in range(a.ndim) if i not in (first, second)]
    return a.make_view(
        (*(a.shape[i] for i in rest), length),
        (*(a.strides[i] for i in rest), a.strides[first] + a.strides[second]),
        None,
        down * a.strides[first] + right * a.strides[second] if length else 0,
    )


@rule("diag")
def _diag(v: MetaArray, k: int = 0) -> MetaArray:
    return MetaArray((v.size + abs(k),) * 2, v.dtype) if v.ndim == 1 else _diagonal(v, k)


@shapes("trace")
def _trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, **kwargs: Any) -> Shape:
    return _diagonal(a, offset, axis1, axis2).shape[:-1]


@rule("array_split split")
def _split(ary: MetaArray, indices_or_sections: Any, axis: int = 0) -> list[MetaArray]:
    size = ary.shape[axis]
    if hasattr(indices_or_sections, "__len__"):
        bounds = [0, *indices_or_sections, size]
    else:
        count = int(indices_or_sections)  # as NumPy, which cuts fractions off
        each, longer = divmod(size, count)
        bounds = [i * each + min(i, longer) for i in range(count + 1)]
    lead = (slice(None),) * normalize_axis_index(axis, ary.ndim)
    return [ary[(*lead, slice(start, end))] for start, end in pairwise(bounds)]


def _raise_ndim(n: int) -> Callable[..., Any]:
    def view(*arrays: Any) -> Any:
        results = [a if hasattr(a, "ndim") else np.asarray(a) for a in arrays]
        results = [a[(None,) * (n - a.ndim)] if a.ndim < n else a for a in results]
        return results[0] if len(results) == 1 else tuple(results)

    return view


rule("atleast_1d")(_raise_ndim(1))
rule("atleast_2d")(_raise_ndim(2))


@rule("lib.stride_tricks.sliding_window_view")
def _sliding_window_view(
    x: MetaArray, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False
) -> MetaArray:
    window = as_shape(window_shape)
    axes = range(x.ndim) if axis is None else normalize_axis_tuple(axis, x.ndim, allow_duplicate=True)
    shape = list(x.shape)
    for i, n in zip(axes, window, strict=True):
        shape[i] -= n - 1
    return x.make_view((*shape, *window), (*x.strides, *(x.strides[i] for i in axes)))


def as_strided(x: MetaArray, shape: Any = None, strides: Any = None, **kwargs: Any) -> MetaArray:
    """Do what `numpy.lib.stride_tricks.as_strided` does, which does not dispatch by a protocol."""
    return x.make_view(x.shape if shape is None else as_shape(shape), x.strides if strides is None else strides)
