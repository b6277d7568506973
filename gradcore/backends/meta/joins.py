"""Shape rules for joins, copies and gathers."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from gradcore.backends.meta.array import MetaArray, shape_of
from gradcore.backends.meta.rules import Shape, data_dependent, rule, shapes
from gradcore.backends.numpy_rules import as_shape

__all__: list[str] = []

# -- joins and copies ----------------------------------------------------------------------------------------


@shapes("concatenate concat")
def _concatenate(arrays: Sequence[Any], axis: int | None = 0, **kwargs: Any) -> Shape:
    parts = [shape_of(a) for a in arrays]
    if axis is None:
        return (sum(map(prod, parts)),)
    axis = normalize_axis_index(axis, len(parts[0]))
    if len({(*part[:axis], *part[axis + 1 :]) for part in parts}) > 1 or len(set(map(len, parts))) > 1:
        raise ValueError("all the input array dimensions except for the concatenation axis must match exactly")
    return (*parts[0][:axis], sum(part[axis] for part in parts), *parts[0][axis + 1 :])


@shapes("stack")
def _stack(arrays: Sequence[Any], axis: int = 0, **kwargs: Any) -> Shape:
    parts = {shape_of(a) for a in arrays}
    if len(parts) > 1:
        raise ValueError("all input arrays must have the same shape")
    shape = parts.pop()
    axis = normalize_axis_index(axis, len(shape) + 1)
    return (*shape[:axis], len(arrays), *shape[axis:])


@rule("pad")
def _pad(array: MetaArray, pad_width: Any, *args: Any, **kwargs: Any) -> MetaArray:
    widths = np.broadcast_to(pad_width, (array.ndim, 2)).sum(axis=1).tolist()
    return MetaArray([n + w for n, w in zip(array.shape, widths, strict=True)], array.dtype)


@rule("tile")
def _tile(A: MetaArray, reps: Any) -> MetaArray:
    repeats = as_shape(reps)
    repeats = (1,) * (A.ndim - len(repeats)) + repeats
    shape = (1,) * (len(repeats) - A.ndim) + A.shape
    return MetaArray([n * r for n, r in zip(shape, repeats, strict=True)], A.dtype)


@rule("repeat")
def _repeat(a: MetaArray, repeats: Any, axis: int | None = None) -> Any:
    if isinstance(repeats, MetaArray):
        return data_dependent(np.repeat)()
    shape, axis = ([a.size], 0) if axis is None else (list(a.shape), axis)
    counts = np.broadcast_to(repeats, shape[axis]) if np.ndim(repeats) else None
    shape[axis] = shape[axis] * repeats if counts is None else int(counts.sum())
    return MetaArray(shape, a.dtype)


# -- gathers, scatters, searches -----------------------------------------------------------------------------


@rule("take")
def _take(a: Any, indices: Any, axis: int | None = None, out: Any = None, mode: str = "raise") -> MetaArray:
    shape, axis = ((prod(a.shape),), 0) if axis is None else (a.shape, normalize_axis_index(axis, a.ndim))
    return MetaArray((*shape[:axis], *shape_of(indices), *shape[axis + 1 :]), a.dtype) if out is None else out


@rule("take_along_axis")
def _take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> MetaArray:
    if axis is None:
        return MetaArray(indices.shape, arr.dtype)
    if arr.ndim != indices.ndim:
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    axis = normalize_axis_index(axis, arr.ndim)
    rest = np.broadcast_shapes(*((*a.shape[:axis], 1, *a.shape[axis + 1 :]) for a in (arr, indices)))
    return MetaArray((*rest[:axis], indices.shape[axis], *rest[axis + 1 :]), arr.dtype)


@rule("copyto fill_diagonal place put put_along_axis putmask")
def _write(*args: Any, **kwargs: Any) -> None:
    """Do nothing: there are no elements."""


@rule("searchsorted")
def _search_sorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> MetaArray:
    return MetaArray(shape_of(v), np.intp)


@rule("digitize")
def _digitize(x: Any, bins: Any, right: bool = False) -> MetaArray:
    return MetaArray(shape_of(x), np.intp)


@rule("lexsort")
def _lexsort(keys: Any, axis: int = -1) -> MetaArray:
    return MetaArray(shape_of(keys[0]), np.intp)
