"""Rules for functions that rearrange: what they return are views, with strides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from gradcore.backends.meta.array import RULES, Traced, broadcast
from gradcore.backends.meta.rules import Shape, find, rule, shapes, sizes

__all__ = ["as_strided"]


def _permutation(function: Any) -> Callable[..., Traced]:
    def view(a: Traced, *args: Any, **named: Any) -> Traced:
        # An empty array whose sizes number the dims shows where each of them goes.
        return a.transpose(function(np.empty(range(a.ndim)), *args, **named).shape)

    return view


for _function in find("matrix_transpose moveaxis permute_dims rollaxis swapaxes transpose"):
    RULES[_function] = _permutation(_function)


@rule("reshape")
def _reshape(a: Traced, shape: Any, order: str = "C", copy: bool | None = None) -> Traced:
    return a.reshape(shape, copy=copy)


@rule("ravel")
def _ravel(a: Traced, order: str = "C") -> Traced:
    return a.reshape(-1)


@rule("broadcast_to")
def _broadcast_to(array: Traced, shape: Any, subok: bool = False) -> Traced:
    shape = sizes(shape)
    lead = len(shape) - array.ndim
    if lead < 0 or any(n not in (1, m) for n, m in zip(array.shape, shape[lead:], strict=True)):
        raise ValueError(f"cannot broadcast an array of shape {array.shape} to shape {shape}")
    steps = zip(array.shape, array.strides, shape[lead:], strict=True)
    return array.viewed(shape, (0,) * lead + tuple(step if n == m else 0 for n, step, m in steps))


@rule("broadcast_arrays")
def _broadcast_arrays(*arrays: Any, subok: bool = False) -> tuple[Any, ...]:
    shape = broadcast(*arrays)
    return tuple(np.broadcast_to(a, shape) for a in arrays)


@rule("expand_dims")
def _expand_dims(a: Traced, axis: int | Sequence[int]) -> Traced:
    axes = sizes(axis)
    axes = normalize_axis_tuple(axes, a.ndim + len(axes))
    return a[tuple(None if i in axes else slice(None) for i in range(a.ndim + len(axes)))]


@rule("squeeze")
def _squeeze(a: Traced, axis: int | Sequence[int] | None = None) -> Traced:
    ones = [i for i, n in enumerate(a.shape) if n == 1]
    axes = ones if axis is None else normalize_axis_tuple(axis, a.ndim)
    if not set(axes) <= set(ones):
        raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    return a[tuple(0 if i in axes else slice(None) for i in range(a.ndim))]


@rule("flip")
def _flip(m: Traced, axis: int | Sequence[int] | None = None) -> Traced:
    axes = range(m.ndim) if axis is None else normalize_axis_tuple(axis, m.ndim)
    return m[tuple(slice(None, None, -1) if i in axes else slice(None) for i in range(m.ndim))]


rule("fliplr")(lambda m: _flip(m, 1))
rule("flipud")(lambda m: _flip(m, 0))


@rule("rot90")
def _rot90(m: Traced, k: int = 1, axes: Sequence[int] = (0, 1)) -> Traced:
    first, second = normalize_axis_tuple(axes, m.ndim)
    turns: tuple[Callable[[], Traced], ...] = (
        lambda: m[...],
        lambda: _flip(m, second).swapaxes(first, second),
        lambda: _flip(m, (first, second)),
        lambda: _flip(m.swapaxes(first, second), second),
    )
    return turns[k % 4]()


@rule("diagonal")
def _diagonal(a: Traced, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Traced:
    first, second = normalize_axis_tuple((axis1, axis2), a.ndim)
    down, right = max(-offset, 0), max(offset, 0)
    length = max(min(a.shape[first] - down, a.shape[second] - right), 0)
    rest = [i for i in range(a.ndim) if i not in (first, second)]
    return a.viewed(
        (*(a.shape[i] for i in rest), length),
        (*(a.strides[i] for i in rest), a.strides[first] + a.strides[second]),
        None,
        down * a.strides[first] + right * a.strides[second] if length else 0,
    )


@rule("diag")
def _diag(v: Traced, k: int = 0) -> Traced:
    return Traced((v.size + abs(k),) * 2, v.dtype) if v.ndim == 1 else _diagonal(v, k)


@shapes("trace")
def _trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, **named: Any) -> Shape:
    return _diagonal(a, offset, axis1, axis2).shape[:-1]


@rule("array_split split")
def _split(ary: Traced, indices_or_sections: Any, axis: int = 0) -> list[Traced]:
    size = ary.shape[axis]
    if hasattr(indices_or_sections, "__len__"):
        bounds = [0, *indices_or_sections, size]
    else:
        each, longer = divmod(size, indices_or_sections)
        bounds = [i * each + min(i, longer) for i in range(indices_or_sections + 1)]
    lead = (slice(None),) * normalize_axis_index(axis, ary.ndim)
    return [ary[(*lead, slice(start, end))] for start, end in pairwise(bounds)]


def _at_least(n: int) -> Callable[..., Any]:
    def view(*arrays: Any) -> Any:
        found = [a[(None,) * (n - a.ndim)] if a.ndim < n else a for a in arrays]
        return found[0] if len(found) == 1 else tuple(found)

    return view


rule("atleast_1d")(_at_least(1))
rule("atleast_2d")(_at_least(2))


@rule("lib.stride_tricks.sliding_window_view")
def _sliding_window_view(
    x: Traced, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False
) -> Traced:
    window = sizes(window_shape)
    axes = range(x.ndim) if axis is None else normalize_axis_tuple(axis, x.ndim, allow_duplicate=True)
    shape = list(x.shape)
    for i, n in zip(axes, window, strict=True):
        shape[i] -= n - 1
    return x.viewed((*shape, *window), (*x.strides, *(x.strides[i] for i in axes)))


def as_strided(x: Traced, shape: Any = None, strides: Any = None, **named: Any) -> Traced:
    """`numpy.lib.stride_tricks.as_strided`, which no protocol reaches."""
    return x.viewed(x.shape if shape is None else sizes(shape), x.strides if strides is None else strides)
