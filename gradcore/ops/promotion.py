"""Rules for the dtype in which an elementwise operation computes, and that of its result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradcore import dtypes
from gradcore.dtypes import dtype

__all__ = ["RULES", "promoted"]


def promoted(tensors: Sequence[Any], numbers: Sequence[Any]) -> dtype:
    """The common dtype of tensors and Python numbers, by PyTorch's rules."""
    first: dtype = tensors[0]._dtype
    if not numbers and all(t._dtype is first for t in tensors):
        return first
    if all(t._dtype is first for t in tensors) and all(dtypes.scalar_dtype(n).category <= first.category for n in numbers):
        return first
    dims = [t._dtype for t in tensors if t._array.ndim]
    zero_dims = [t._dtype for t in tensors if not t._array.ndim]
    return dtypes.result_dtype(dims, zero_dims, numbers)


Rule = Callable[[Any, Sequence[Any], Sequence[Any], tuple[Any, ...]], tuple[dtype, dtype | None]]


def default(op: Any, tensors: Sequence[Any], numbers: Sequence[Any], args: tuple[Any, ...]) -> tuple[dtype, dtype | None]:
    common = promoted(tensors, numbers)
    return common, common


def to_float(op: Any, tensors: Sequence[Any], numbers: Sequence[Any], args: tuple[Any, ...]) -> tuple[dtype, dtype | None]:
    """Integers and bools are computed in the default dtype."""
    common = promoted(tensors, numbers)
    if common.category < 2:
        common = dtypes.get_default_dtype()
    return common, common


def compared(op: Any, tensors: Sequence[Any], numbers: Sequence[Any], args: tuple[Any, ...]) -> tuple[dtype, dtype | None]:
    """Computed in the common dtype, the result is bool."""
    return promoted(tensors, numbers), dtypes.bool_


def real_valued(op: Any, tensors: Sequence[Any], numbers: Sequence[Any], args: tuple[Any, ...]) -> tuple[dtype, dtype | None]:
    """Computed in the common dtype, the result of complex numbers is real."""
    common = promoted(tensors, numbers)
    return common, common.to_real()


def no_bool(op: Any, tensors: Sequence[Any], numbers: Sequence[Any], args: tuple[Any, ...]) -> tuple[dtype, dtype | None]:
    """As default, and bool computes in int64."""
    common = promoted(tensors, numbers)
    return (dtypes.int64, dtypes.int64) if common is dtypes.bool_ else (common, common)


#: By the name that a declaration gives.
RULES: dict[str, Rule] = {
    "default": default,
    "float": to_float,
    "compare": compared,
    "real": real_valued,
    "no_bool": no_bool,
}
