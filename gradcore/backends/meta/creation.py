"""Creation functions of arrays without data. NumPy's own do not dispatch by its protocols."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any

import numpy as np

from gradcore.backends.meta.array import MetaArray, broadcast, probe
from gradcore.backends.meta.views import as_strided
from gradcore.backends.numpy_rules import as_shape

__all__ = ["CREATION"]


def _create(shape: Any, dtype: Any = None, order: str = "C", **kwargs: Any) -> MetaArray:
    return MetaArray(as_shape(shape), np.float64 if dtype is None else dtype)


def _full(shape: Any, fill_value: Any, dtype: Any = None, order: str = "C", **kwargs: Any) -> MetaArray:
    return MetaArray(as_shape(shape), probe(np.asarray, fill_value).dtype if dtype is None else dtype)


def _asarray(value: Any, dtype: Any = None, order: Any = None, *, copy: bool | None = None, **kwargs: Any) -> Any:
    if isinstance(value, MetaArray):
        needs_cast = dtype is not None and np.dtype(dtype) != value.dtype
        return value.astype(value.dtype if dtype is None else dtype) if copy or needs_cast else value
    if isinstance(value, (list, tuple)) and any(isinstance(v, MetaArray) for v in value):
        return np.stack([_asarray(v, dtype) for v in value])
    array = np.asarray(value, dtype)
    return MetaArray(array.shape, array.dtype)


def _array(value: Any, dtype: Any = None, *, copy: bool = True, **kwargs: Any) -> Any:
    return _asarray(value, dtype, copy=copy)


def _ascontiguousarray(value: Any, dtype: Any = None, **kwargs: Any) -> Any:
    array = _asarray(value, dtype)
    return array if array.flags.c_contiguous else array.copy()


def _arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None, **kwargs: Any) -> MetaArray:
    start, stop = (0, start) if stop is None else (start, stop)
    count = max(ceil((stop - start) / step), 0)
    return MetaArray((count,), np.arange(start, start, step).dtype if dtype is None else dtype)


def _matrix(N: int, M: int | None = None, k: int = 0, dtype: Any = float, **kwargs: Any) -> MetaArray:
    return MetaArray((N, N if M is None else M), dtype)


def _linspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, **kwargs: Any
) -> MetaArray:
    return MetaArray((num, *broadcast(start, stop)), probe(np.linspace, start, stop, 1, dtype=dtype).dtype)


#: Functions that replace NumPy's, by name.
CREATION: dict[str, Callable[..., Any]] = {
    "arange": _arange,
    "array": _array,
    "as_strided": as_strided,
    "asanyarray": _asarray,
    "asarray": _asarray,
    "ascontiguousarray": _ascontiguousarray,
    "empty": _create,
    "eye": _matrix,
    "fftfreq": lambda n, d=1.0, **kwargs: MetaArray((n,), np.float64),
    "full": _full,
    "identity": lambda n, dtype=float: MetaArray((n, n), dtype),
    "linspace": _linspace,
    "ones": _create,
    "rfftfreq": lambda n, d=1.0, **kwargs: MetaArray((n // 2 + 1,), np.float64),
    "tri": _matrix,
    "zeros": _create,
}
