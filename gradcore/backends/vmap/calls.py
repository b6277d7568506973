"""Functions that call kernels with batched arrays, after aligning ranks or adding the batch dim to every array."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcore.backends.vmap.array import BatchedArray, align_batch, outermost, physical, rewrap

if TYPE_CHECKING:
    from gradcore.core.arrays import Array

__all__ = ["as_batched", "call_elementwise", "call_generic", "is_array", "is_batched"]

#: Length of rows, and number of elements of the result, from which short repeated rows are not written out.
_LONG, _MANY = 8, 1 << 12


def is_batched(level: Any, value: Any) -> bool:
    """Return whether a value, or any element of a tuple or list, is batched at this level."""
    if value.__class__ is BatchedArray:
        return value.level is level
    return value.__class__ in (tuple, list) and any(is_batched(level, v) for v in value)


def call_elementwise(
    level: Any, kernel: Callable[..., Any], *args: Any, broadcasts_rows: bool = False, **kwargs: Any
) -> Any:
    """Call a kernel that acts on each element after broadcasting.

    `broadcasts_rows` says that the kernel broadcasts fast along short rows.
    """
    if len(args) == 1:
        x = args[0]
        is_inner = x.__class__ is not BatchedArray or x.level is not level
        return kernel(x, **kwargs) if is_inner else rewrap(kernel(x.array, **kwargs), level)
    ndim = 0
    batched = False
    for a in args:
        if a.__class__ is BatchedArray:
            batched = batched or a.level is level
            ndim = max(ndim, a.ndim)
        else:
            ndim = max(ndim, getattr(a, "ndim", 0))
    if not batched:
        return kernel(*args, **kwargs)
    operands = [align_batch(a, level, ndim) for a in args]
    return rewrap(kernel(*(operands if broadcasts_rows else _write_out_rows(operands)), **kwargs), level)


def _write_out_rows(operands: list[Any]) -> list[Any]:
    """Return the operands with short repeated rows written out: NumPy calls its inner loop once per row."""
    shapes = [a.shape for a in operands if a.__class__ is np.ndarray and a.ndim > 1]
    if len(shapes) < 2 or shapes[0] == shapes[1] or shapes[0][-1] >= _LONG:
        return operands
    ndim = max(map(len, shapes))
    shape = tuple(map(max, *((1,) * (ndim - len(operand_shape)) + operand_shape for operand_shape in shapes)))
    rows, width = shape[-2:]
    if width >= _LONG or prod(shape) < _MANY:
        return operands
    repeated = {
        operand_shape for operand_shape in shapes if operand_shape[-2] == 1 < rows and operand_shape[-1] == width
    }
    return [_repeat_row(a, rows) if a.__class__ is np.ndarray and a.shape in repeated else a for a in operands]


def _repeat_row(x: Array, count: int) -> Array:
    """Return ``x.repeat(count, -2)`` for matrices of one short row, column by column: in half of the time."""
    result = np.empty((*x.shape[:-2], count, x.shape[-1]), x.dtype)
    for i in range(x.shape[-1]):
        result[..., i] = x[..., i]
    return result


def call_generic(
    level: Any, generic: Callable[..., Any], kernel: Callable[..., Any], several: bool, *args: Any, **kwargs: Any
) -> Any:
    """Call a generic kernel or body with all arrays batched, or the inner backend's kernel if none is.

    `several` says that the first argument is a sequence of arrays. Tuples of indices are passed as they are.
    """
    if not any(is_batched(level, a) for a in args):
        return kernel(*args, **kwargs)
    count = len(args[0]) if several else 0
    values = _match_levels([as_batched(a, level) for a in ((*args[0], *args[1:]) if several else args)])
    return generic(*([values[:count]] if several else []), *values[count:], **kwargs)


def _match_levels(values: list[Any]) -> list[Any]:
    """Return arrays that are batched at the latest level, each batched at all earlier levels of the others, too.

    Bodies write into copies of arguments, which is possible only where these are batched at all levels.
    """
    samples = [v.array for v in values if v.__class__ is BatchedArray]
    level = outermost(samples)
    if level is None:
        return values
    matched = iter(_match_levels([as_batched(a, level) for a in samples]))
    return [BatchedArray(next(matched), v.level) if v.__class__ is BatchedArray else v for v in values]


def as_batched(value: Any, level: Any) -> Any:
    """Return an array as a batched one, without a copy, and anything else unchanged."""
    if value.__class__ is BatchedArray:
        return value if value.level is level else BatchedArray(physical(value, level), level)
    return BatchedArray(physical(value, level), level) if is_array(value) else value


def is_array(value: Any) -> bool:
    """Return whether a value is an array, rather than a number or a setting."""
    return not isinstance(value, np.generic) and hasattr(value, "__array_function__")
