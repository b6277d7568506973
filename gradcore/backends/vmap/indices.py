"""Reading and writing elements of batched arrays: the batch dim is indexed together with the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradcore.backends.numpy_rules import expand_ellipsis
from gradcore.backends.vmap.array import (
    UFUNC_METHODS,
    BatchedArray,
    apply,
    arange_like,
    outermost,
    physical,
    split_batch,
)
from gradcore.backends.vmap.messages import DYNAMIC, INPLACE

__all__ = ["accumulate", "read", "write"]


def read(x: Any, key: Any) -> Any:
    """Return ``x[key]`` for every sample of the batched array `x`; arrays in `key` may be batched, too."""
    level = _level(x, key)
    entries = _entries(x, key)
    chosen = [i for i, entry in enumerate(entries) if _is_array(entry)]
    if not chosen:
        return _batch(x.array[(slice(None), *entries)], x.level)
    array = physical(x, level)
    full_key, order = _with_rows(array, entries, level)
    inner = None if hasattr(array, "level") else outermost(full_key)
    if inner is not None:  # indices that differ between the samples of another batch
        array = _batch(physical(array, inner), inner)
    return _batch(array[full_key].transpose(order), level)


def write(x: Any, key: Any, value: Any) -> None:
    """Compute ``x[key] = value`` for every sample."""
    level = _level(x, (key, value))
    if level is not x.level:
        raise RuntimeError(INPLACE)
    entries = _entries(x, key)
    if not any(map(_is_array, entries)):
        target = x.array[(slice(None), *entries)]
        target[...] = _fit_value(value, level, target.ndim - 1)
        return
    full_key, order = _with_rows(x.array, entries, level)
    x.array[full_key] = _spread(value, level, order)


def accumulate(level: Any, ufunc: Any, x: Any, key: Any, value: Any = None, out: Any = None) -> None:
    """Call ``ufunc.at(x, key, value)`` for every sample."""
    if x.__class__ is not BatchedArray or x.level is not level:
        raise RuntimeError(INPLACE)
    full_key, order = _with_rows(x.array, _entries(x, key), level)
    if value is None:
        apply(ufunc, "at", x.array, full_key)
    else:
        apply(ufunc, "at", x.array, full_key, _spread(value, level, order))


def _level(x: Any, others: Any) -> Any:
    result = outermost((others,))
    return x.level if result is None or result.order < x.level.order else result


def _batch(array: Any, level: Any) -> Any:
    return BatchedArray(array, level)


def _fit_value(value: Any, level: Any, ndim: int) -> Any:
    """Align a value that is written to elements with `ndim` dims in each sample."""
    if value.__class__ is not BatchedArray or value.level is not level:
        return value
    a = value.array
    while a.ndim > ndim + 1 and a.shape[1] == 1:  # NumPy drops leading dims of size 1
        a = a[:, 0]
    return a.reshape(a.shape[0], *(1,) * (ndim + 1 - a.ndim), *a.shape[1:])


def _spread(value: Any, level: Any, back: Sequence[int]) -> Any:
    """Transpose a value to the order of dims that NumPy expects when writing to index arrays."""
    value = _fit_value(value, level, len(back) - 1)
    missing = len(back) - getattr(value, "ndim", 0)
    if missing:
        value = value.reshape((1,) * missing + value.shape) if getattr(value, "ndim", 0) else value
    if not getattr(value, "ndim", 0):
        return value
    order = sorted(range(len(back)), key=back.__getitem__)
    return value.transpose(order)


def _is_array(entry: Any) -> bool:
    """Return whether an entry of a key is an array of indices. An int that is not batched is none."""
    return hasattr(entry, "shape") and (hasattr(entry, "level") or bool(entry.ndim) or not hasattr(entry, "__index__"))


def _entries(x: Any, key: Any) -> list[Any]:
    """Return an entry for each dim of a sample (an int, a slice, an array of ints), and None for each new dim."""
    entries: list[Any] = []
    for part in key if isinstance(key, tuple) else (key,):
        if isinstance(part, list):
            part = np.asarray(part)
        if part.__class__ is BatchedArray and part.dtype == bool:
            part, differs = split_batch(part, part.level)
            if differs:
                raise RuntimeError(DYNAMIC.format(name="indexing with a mask"))
        if part.__class__ is BatchedArray:
            entries.append(part)
        elif hasattr(part, "dtype") and part.dtype == bool:
            entries.extend(part.nonzero())
        else:
            entries.append(part)
    return expand_ellipsis(entries, x.ndim)


def _with_rows(array: Any, entries: list[Any], level: Any) -> tuple[tuple[Any, ...], list[int]]:
    """Return a key for all samples, and the order that transposes the dims of ``array[key]`` to those of a batch.

    The numbers of the samples are one more index array, in front, so the dims of the indices come first.
    """
    # Beside arrays, plain ints are arrays of indices too.
    chosen = [i for i, e in enumerate(entries) if _is_array(e) or hasattr(e, "__index__")]
    k = len(np.broadcast_shapes(*(getattr(entries[i], "shape", ()) for i in chosen)))
    key: list[Any] = [arange_like(level.size, array).reshape(-1, *(1,) * k)]
    for entry in entries:
        a = entry
        if entry.__class__ is BatchedArray and entry.level is level:
            a = entry.array.reshape(level.size, *(1,) * (k - entry.ndim), *entry.shape)
        key.append(a)
    rest = len(entries) - len(chosen)
    # The dims of adjacent indices replace the indexed dims; those of other indices come first.
    first_dim = chosen[0] if chosen == list(range(chosen[0], chosen[-1] + 1)) else 0
    order = [0, *range(1 + k, 1 + k + first_dim), *range(1, 1 + k), *range(1 + k + first_dim, 1 + k + rest)]
    return tuple(key), order


setattr(BatchedArray, "__getitem__", read)  # noqa: B010  # to type checkers the class has these methods
setattr(BatchedArray, "__setitem__", write)  # noqa: B010
UFUNC_METHODS["at"] = accumulate
