"""NumPy's functions about dtypes, which accept gradcore's dtypes and tensors too."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcore.core import dtypes
from gradcore.numpy.conversion import numpy_dtype
from gradcore.tensor import Tensor

__all__ = ["can_cast", "finfo", "iinfo", "isdtype", "issubdtype", "promote_types", "result_type"]


def _plain(value: Any) -> Any:
    """Convert a gradcore dtype or tensor to NumPy's dtype; return any other value unchanged."""
    if isinstance(value, Tensor):
        return value._dtype.numpy
    return value.numpy if isinstance(value, dtypes.dtype) else value


def result_type(*arrays_and_dtypes: Any) -> dtypes.dtype:
    """Return the dtype that NumPy promotes the arguments to; Python numbers are weakly typed."""
    return dtypes.from_numpy(np.result_type(*map(_plain, arrays_and_dtypes)))


def promote_types(type1: Any, type2: Any) -> dtypes.dtype:
    return dtypes.from_numpy(np.promote_types(numpy_dtype(type1), numpy_dtype(type2)))


def can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    return np.can_cast(_plain(from_), _plain(to), casting)


def issubdtype(arg1: Any, arg2: Any) -> bool:
    return np.issubdtype(_plain(arg1), _plain(arg2))


def isdtype(dtype: Any, kind: Any) -> bool:
    return np.isdtype(_plain(dtype), tuple(map(_plain, kind)) if isinstance(kind, tuple) else _plain(kind))


def finfo(dtype: Any) -> Any:
    return np.finfo(_plain(dtype))


def iinfo(dtype: Any) -> Any:
    return np.iinfo(_plain(dtype))
