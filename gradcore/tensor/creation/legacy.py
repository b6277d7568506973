"""Calls of the tensor class, such as ``Tensor(2, 3)``, as in PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradcore import functional
from gradcore.autograd.variables import new
from gradcore.core import dtypes
from gradcore.core.errors import history_lost
from gradcore.core.size import Size
from gradcore.core.tracebacks import shorten_errors
from gradcore.dispatch.settings import setting
from gradcore.tensor import Tensor, is_differentiated
from gradcore.tensor.creation.data import tensor
from gradcore.tensor.creation.filled import empty

__all__ = ["legacy_tensor"]


@shorten_errors
def legacy_tensor(cls: Any, *args: Any, device: Any = None, dtype: Any = None, **kwargs: Any) -> Any:
    """Return the result of ``Tensor(...)``: uninitialised for sizes, a copy in the default dtype for data.

    Sizes are passed as separate numbers or as one `Size`. Other sequences and arrays are data. For a tensor, an alias
    of the tensor is returned.
    """
    if "size" in kwargs and not args:
        args = setting("new", "size", "Sequence[int]").take(kwargs.pop("size"))
    elif "data" in kwargs and not args:
        args = (kwargs.pop("data"),)
    if kwargs:
        raise TypeError(f"new() got an unexpected keyword argument {next(iter(kwargs))!r}")
    result = _create_from_data(args[0], dtype, device) if len(args) == 1 else None
    if result is None:
        result = empty(*(args or (0,)), dtype=dtype, device=device)
    if cls is Tensor:
        return result
    if is_differentiated(result):
        history_lost("copy")
    out = new(cls)
    out._array, out._device, out._dtype = result._array, result._device, result._dtype
    out._edge = out._autograd = out._vc = None
    return out


def _create_from_data(data: Any, dtype: Any, device: Any) -> Any:
    """Return a tensor of the only argument if that is data, or None if it is a size."""
    if isinstance(data, Tensor):
        if dtype is not None and data._dtype is not dtype:
            raise TypeError(
                f"new(): expected a tensor of dtype {dtype.name}, but got one of {data._dtype.name}: use to()"
            )
        return functional.view_as(data, data)
    if isinstance(data, Size):
        return empty(data, dtype=dtype, device=device)
    if isinstance(data, (str, bytes)):
        raise TypeError("new(): invalid data type 'str'")
    if isinstance(data, (int, np.integer)) and not isinstance(data, bool):
        return None
    if isinstance(data, np.ndarray) and not data.ndim and data.dtype.kind in "iu":
        return None
    if (
        not isinstance(data, Sequence)
        and not hasattr(data, "__array__")
        and not hasattr(data, "__cuda_array_interface__")
    ):
        raise TypeError(f"new(): data must be a sequence (got {type(data).__name__})")
    if isinstance(data, np.generic):
        raise TypeError(f"new(): data must be a sequence (got {type(data).__module__}.{type(data).__name__})")
    out_dtype = dtypes.get_default_dtype() if dtype is None else dtype
    return tensor(data if not isinstance(data, range) else list(data), dtype=out_dtype, device=device)
