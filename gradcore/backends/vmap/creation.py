"""Creation functions inside kernels, which return batches, so that the samples can be written into them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradcore.backends.numpy_rules import as_shape
from gradcore.backends.vmap.array import BatchedArray, physical
from gradcore.backends.vmap.functions import as_strided

__all__ = ["CREATION"]


def _maker(name: str) -> Callable[..., Any]:
    def make(xp: Any, level: Any, shape: Any, *args: Any, **kwargs: Any) -> Any:
        return BatchedArray(getattr(xp, name)((level.size, *as_shape(shape)), *args, **kwargs), level)

    return make


def _full(xp: Any, level: Any, shape: Any, fill_value: Any, dtype: Any = None, **kwargs: Any) -> Any:
    if fill_value.__class__ is not BatchedArray:
        return BatchedArray(xp.full((level.size, *as_shape(shape)), fill_value, dtype, **kwargs), level)
    out = BatchedArray(xp.empty((level.size, *as_shape(shape)), fill_value.dtype if dtype is None else dtype), level)
    out[...] = fill_value
    return out


def _like(name: str) -> Callable[..., Any]:
    def make(xp: Any, level: Any, a: Any, *args: Any, **kwargs: Any) -> Any:
        return BatchedArray(getattr(xp, name)(physical(a, level), *args, **kwargs), level)

    return make


def _constant(name: str) -> Callable[..., Any]:
    return lambda xp, level, *args, **kwargs: getattr(xp, name)(*args, **kwargs)


def _array(xp: Any, level: Any, value: Any, dtype: Any = None, *, order: Any = "K", copy: bool = True) -> Any:
    """Copy a value to an array. The copy of an array has memory for each sample."""
    if not hasattr(value, "shape"):
        return xp.array(value, dtype)
    a = physical(value, level)
    a = a.astype(a.dtype if dtype is None else dtype, order="C" if order == "C" else "K", copy=True)
    return BatchedArray(a if a.strides[0] or a.shape[0] < 2 else a.copy(), level)


def _asarray(xp: Any, level: Any, value: Any, dtype: Any = None, **kwargs: Any) -> Any:
    if hasattr(value, "shape"):
        return value if dtype is None or value.dtype == dtype else value.astype(dtype)
    return xp.asarray(value, dtype)


def _ascontiguousarray(xp: Any, level: Any, value: Any, dtype: Any = None) -> Any:
    value = _asarray(xp, level, value, dtype)
    if value.__class__ is not BatchedArray:
        return xp.ascontiguousarray(value)
    if value.flags.c_contiguous and value.array.strides[0]:
        return value
    return BatchedArray(value.array.copy("C"), value.level)


#: Functions that replace NumPy's, by name. They are called with the namespace of the inner arrays and the level.
CREATION: dict[str, Callable[..., Any]] = {
    **{name: _maker(name) for name in ("zeros", "ones", "empty")},
    **{name: _like(name) for name in ("zeros_like", "ones_like", "empty_like", "full_like")},
    **{name: _constant(name) for name in ("arange", "eye", "identity", "linspace", "tri")},
    "array": _array,
    "as_strided": as_strided,
    "asanyarray": _asarray,
    "asarray": _asarray,
    "ascontiguousarray": _ascontiguousarray,
    "full": _full,
}
