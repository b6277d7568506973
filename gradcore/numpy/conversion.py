"""Conversion of the arguments of NumPy's functions to tensors, with NumPy's dtypes and axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import index
from typing import Any, TypeVar

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from gradcore import functional as F
from gradcore.backends.registry import resolve
from gradcore.core import dtypes
from gradcore.core.typing import AnyTensor
from gradcore.tensor import Tensor, is_differentiated

__all__ = [
    "axes_of", "axis_of", "cast", "common", "dtype_of", "expand", "holds_tensors", "inexact", "numpy_dtype", "promote",
    "refuse_history", "rename", "same_dtype", "tensor_of", "write_out",
]  # fmt: skip

_Function = TypeVar("_Function", bound=Callable[..., Any])

#: Kinds of NumPy dtypes that tensors do not have, with what to do instead.
_NO_NUMBERS = {
    "O": "objects; convert the array with array.astype(float)",
    "S": "bytes; convert them to numbers, or keep them in a NumPy array",
    "U": "strings; convert them to numbers, or keep them in a NumPy array",
    "T": "strings; convert them to numbers, or keep them in a NumPy array",
    "M": "dates; count from a first one: (array - array[0]) / np.timedelta64(1, 's')",
    "m": "time spans; convert them to numbers: array / np.timedelta64(1, 's')",
    "V": "records; take one field, array['name']",
}


def numpy_dtype(value: Any) -> np.dtype[Any]:
    """Convert anything that names a dtype, including gradcore's dtypes, to NumPy's dtype."""
    return value.numpy if isinstance(value, dtypes.dtype) else np.dtype(value)


def dtype_of(value: Any) -> Any:
    """Return the dtype that `value` names, or None for None. Names without a size are NumPy's: ``float`` is float64."""
    if value is None or isinstance(value, dtypes.dtype):
        return value
    numpy_dtype = np.dtype(value)
    if numpy_dtype.kind in _NO_NUMBERS:
        raise TypeError(f"tensors hold numbers, not {_NO_NUMBERS[numpy_dtype.kind]}")
    return dtypes.from_numpy(numpy_dtype)


def tensor_of(x: Any, dtype: Any = None) -> AnyTensor:
    """Convert numbers, arrays, tensors, or nested sequences of these to a tensor, by default of NumPy's dtype.

    Tensors in sequences are stacked, so that they keep their history.
    """
    wanted = None if dtype is None else dtype_of(dtype)
    if not isinstance(x, Tensor):
        if isinstance(x, (list, tuple)) and holds_tensors(x):
            x = F.stack(list(promote(*x, broadcast=False)))
        elif hasattr(x, "__cuda_array_interface__"):
            x = F.as_tensor(x)
        else:
            x = _from_host(x, wanted)
    return cast(x, wanted)


def holds_tensors(x: Any) -> bool:
    """Return whether `x` is a tensor or a nested sequence that contains one."""
    return any(isinstance(each, Tensor) or (isinstance(each, (list, tuple)) and holds_tensors(each)) for each in x)


def _from_host(x: Any, dtype: dtypes.dtype | None) -> AnyTensor:
    """Convert `x` to a tensor: an array shares its memory, and other values are copied to the default device.

    Python numbers must fit into `dtype` if that is one of integers; NumPy raises an error for others.
    """
    array = np.asarray(x)
    if array.dtype.kind in _NO_NUMBERS:
        raise TypeError(f"tensors hold numbers, not {_NO_NUMBERS[array.dtype.kind]}")
    if dtype is not None and dtype.category == dtypes.INTEGER and not hasattr(x, "dtype"):
        array = np.asarray(x, dtype.numpy)
    if array is x:
        return F.as_tensor(array)
    return F.tensor(array, device=resolve(None))


def cast(x: Tensor, dtype: Any) -> AnyTensor:
    """Convert `x` to the dtype `dtype`."""
    return x if dtype is None or x._dtype is dtype else F.to(x, dtype)


def inexact(x: Tensor) -> AnyTensor:
    """Convert `x` to floating point: integers and bools become float64."""
    return x if x._dtype.is_differentiable else F.to(x, dtypes.float64)


def same_dtype(*values: Any) -> dtypes.dtype:
    """Return the dtype that NumPy promotes the values to; Python numbers are weakly typed."""
    dtypes_present = {x._dtype for x in values if isinstance(x, Tensor)}
    numbers = [x for x in values if not isinstance(x, Tensor)]
    if len(dtypes_present) == 1 and not numbers:
        return dtypes_present.pop()
    return dtypes.from_numpy(np.result_type(*(t.numpy for t in dtypes_present), *numbers))


def promote(*values: Any, broadcast: bool = False) -> list[Tensor]:
    """Convert `values` to tensors of their common dtype; Python numbers are weakly typed if there are tensors."""
    first = values[0] if values else None
    if isinstance(first, Tensor) and all(x.__class__ is Tensor and x._dtype is first._dtype for x in values):
        return list(F.broadcast_tensors(*values)) if broadcast else list(values)
    weak = (bool, int, float, complex)
    if any(x.__class__ not in weak for x in values):
        values = tuple(x if x.__class__ in weak else tensor_of(x) for x in values)
        dtype = same_dtype(*values)
        like = next(x for x in values if isinstance(x, Tensor))
        values = tuple(
            cast(x, dtype) if isinstance(x, Tensor) else F.full((), x, dtype=dtype, device=like._device.real)
            for x in values
        )
    else:
        dtype = dtypes.from_numpy(np.asarray(values).dtype)
        values = tuple(tensor_of(x, dtype) for x in values)
    return list(F.broadcast_tensors(*values)) if broadcast else list(values)


def common(*values: Any) -> list[Tensor]:
    """Convert `values` to tensors of their common floating-point or complex dtype."""
    return [inexact(x) for x in promote(*values)]


def axis_of(axis: Any, ndim: int) -> int:
    """Return an axis counted from the front, or raise NumPy's AxisError if it is out of range."""
    if isinstance(axis, bool):  # often meant for `keepdims`
        raise TypeError(f"an integer is required for the axis, but got {axis}")
    try:
        return normalize_axis_index(axis, ndim)
    except OverflowError:  # NumPy reads it as an int of C
        raise np.exceptions.AxisError(axis, ndim) from None


def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """Return the axes counted from the front; None means all axes."""
    if isinstance(axis, bool) or (isinstance(axis, (tuple, list)) and any(isinstance(each, bool) for each in axis)):
        raise TypeError(f"an integer is required for the axis, but got {axis}")
    try:
        return tuple(range(ndim)) if axis is None else normalize_axis_tuple(axis, ndim)
    except OverflowError:
        raise np.exceptions.AxisError(f"axis {axis} is out of bounds for array of dimension {ndim}") from None


def expand(x: Tensor, axis: int) -> AnyTensor:
    return F.unsqueeze(x, axis)


def write_out(result: Any, out: Any, casting: Any = "same_kind", where: Any = True) -> Any:
    """Write `result` into `out` where the mask `where` holds, and return `out`; return `result` if `out` is None."""
    if isinstance(out, tuple):
        if isinstance(result, tuple):
            return tuple(write_out(r, o, casting, where) for r, o in zip(result, out, strict=True))
        (out,) = out
    if out is None:
        return result
    if not np.can_cast(result._dtype.numpy, numpy_dtype(out.dtype), casting):
        raise TypeError(
            f"Cannot cast output from dtype('{result._dtype.name}') to dtype('{numpy_dtype(out.dtype)}') with casting "
            f"rule '{casting}'"
        )
    if where is not True:
        result = F.where(tensor_of(where), result, tensor_of(out))
    if isinstance(out, Tensor):
        if np.broadcast_shapes(tuple(out.shape), tuple(result.shape)) != tuple(out.shape):
            raise ValueError(
                f"non-broadcastable output operand with shape {tuple(out.shape)} doesn't match the broadcast shape "
                f"{tuple(result.shape)}"
            )
        return F.copy_(out, result)
    refuse_history(result, "out=")
    np.copyto(out, result.numpy(), casting=casting)
    return out


def refuse_history(values: Any, what: str, instead: str = "") -> None:
    """Raise a RuntimeError that names `what`, and what to use `instead`, if nested values require grad."""
    if isinstance(values, Tensor):
        if is_differentiated(values):
            namespace = "gradcore.scipy.special" if what.startswith("scipy.special.") else "gradcore"
            instead = instead or f"tensors, or functions of {namespace}"
            raise RuntimeError(
                f"Can't call {what} on Tensor that requires grad: the result would have no history. Use {instead}, "
                "which are differentiated, or tensor.detach() if no gradient is wanted."
            )
    elif isinstance(values, (list, tuple)):
        for each in values:
            refuse_history(each, what, instead)
    elif isinstance(values, dict):
        refuse_history(tuple(values.values()), what, instead)


def fill_masked(x: Tensor, where: Any, value: Any) -> AnyTensor:
    """Return `x` with `value` where the mask `where` is False; ``where=True`` returns `x`.

    The result has the dtype of `x`, and the shape to which `x` and the mask are broadcast.
    """
    return x if where is True else cast(F.where(tensor_of(where), x, value), x._dtype)


def sizes(shape: Any) -> tuple[int, ...]:
    """Convert a shape, given as an integer or a sequence of integers, to a tuple of ints."""
    return (index(shape),) if not isinstance(shape, Sequence) and np.ndim(shape) == 0 else tuple(map(index, shape))


def rename(function: _Function, name: str) -> _Function:
    """Set the name of a function that is defined inside another one to its public name, and return it."""
    function.__name__ = function.__qualname__ = name
    return function
