"""The standard's functions: those of `gradcore.numpy`, and the few whose arguments differ."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from gradcore import functional as F
from gradcore import numpy as gnp
from gradcore.core import dtypes
from gradcore.numpy.conversion import axis_of, dtype_of, tensor_of
from gradcore.tensor import Tensor

#: Functions of `gradcore.numpy` that have the arguments of the standard.
_SAME = (
    "abs", "acos", "acosh", "add", "all", "any", "arange", "argmax", "argmin", "asarray", "asin", "asinh", "astype",
    "atan", "atan2", "atanh", "bitwise_and", "bitwise_invert", "bitwise_left_shift", "bitwise_or",
    "bitwise_right_shift", "bitwise_xor", "broadcast_arrays", "broadcast_shapes", "broadcast_to", "can_cast", "ceil",
    "concat", "conj", "copysign", "cos", "cosh", "count_nonzero", "cumulative_prod", "cumulative_sum", "diff", "divide",
    "empty", "empty_like", "equal", "exp", "expm1", "eye", "flip", "floor", "floor_divide", "from_dlpack", "full",
    "full_like", "greater", "greater_equal", "hypot", "imag", "isdtype", "isfinite", "isin", "isinf", "isnan", "less",
    "less_equal", "linspace", "log", "log10", "log1p", "log2", "logaddexp", "logical_and", "logical_not", "logical_or",
    "logical_xor", "matmul", "matrix_transpose", "max", "maximum", "mean", "meshgrid", "min", "minimum", "moveaxis",
    "multiply", "negative", "nextafter", "nonzero", "not_equal", "ones", "ones_like", "permute_dims", "positive", "pow",
    "prod", "real", "reciprocal", "remainder", "repeat", "reshape", "result_type", "roll", "round", "searchsorted",
    "sign", "signbit", "sin", "sinh", "sqrt", "square", "squeeze", "stack", "std", "subtract", "sum", "take",
    "take_along_axis", "tan", "tanh", "tensordot", "tile", "tril", "triu", "trunc", "unique_all", "unique_counts",
    "unique_inverse", "unique_values", "unstack", "var", "where", "zeros", "zeros_like",
)  # fmt: skip
globals().update({name: getattr(gnp, name) for name in _SAME})

__all__ = [*_SAME, "argsort", "clip", "expand_dims", "finfo", "iinfo", "sort", "vecdot"]


def argsort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """Return the indices that sort `x` along an axis."""
    return F.argsort(tensor_of(x), axis, descending, stable=stable)


def sort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """Return the elements sorted along an axis."""
    return F.sort(tensor_of(x), axis, descending, stable=stable)[0]


def clip(x: Any, /, min: Any = None, max: Any = None) -> Any:
    """Return `x` limited to the bounds, in its own dtype."""
    t = tensor_of(x)
    return gnp.astype(gnp.clip(t, min, max), t._dtype, copy=False)  # type: ignore[attr-defined]


def expand_dims(x: Any, /, axis: Any = 0) -> Any:
    """Return `x` with new dims of size one."""
    t = tensor_of(x)
    axes = axis if isinstance(axis, tuple) else (axis,)
    for each in sorted(axis_of(a, t.ndim + len(axes)) for a in axes):
        t = F.unsqueeze(t, each)
    return t


def finfo(type: Any, /) -> Any:
    """Return the limits of the floating-point dtype of a tensor or dtype, or of the real part of a complex one."""
    dtype = _dtype(type).to_real()
    return _limits(dtypes.finfo(dtype), dtype, ("bits", "eps", "max", "min", "smallest_normal"))


def iinfo(type: Any, /) -> Any:
    """Return the limits of the integer dtype of a tensor or dtype."""
    dtype = _dtype(type)
    return _limits(dtypes.iinfo(dtype), dtype, ("bits", "max", "min"))


def _limits(info: Any, dtype: dtypes.dtype, names: tuple[str, ...]) -> SimpleNamespace:
    """Return the attributes `names` of `info`, PyTorch's finfo or iinfo, with `dtype` instead of the dtype's name."""
    return SimpleNamespace(**{name: getattr(info, name) for name in names}, dtype=dtype)


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Return the dot products of vectors along an axis."""
    return gnp.linalg.vecdot(x1, x2, axis=axis)


def _dtype(value: Any) -> Any:
    return value._dtype if isinstance(value, Tensor) else dtype_of(value)
