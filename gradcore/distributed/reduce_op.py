"""Reductions for collectives."""

from __future__ import annotations

import enum
from typing import Any

from gradcore.core.dtypes import dtype

__all__ = ["ReduceOp", "check_reduction"]


class ReduceOp(enum.Enum):
    """Reduction of a collective.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributed.ReduceOp.SUM
    <ReduceOp.SUM: 'sum'>
    """

    SUM = "sum"
    PRODUCT = "product"
    MIN = "min"
    MAX = "max"
    BAND = "bitwise and"
    BOR = "bitwise or"
    BXOR = "bitwise xor"
    AVG = "mean"


ReduceOp.__module__ = __name__.rpartition(".")[0]
ReduceOp.RedOpType = ReduceOp  # type: ignore[attr-defined]  # PyTorch's name of the type of reductions

#: The reductions of bytes that give the results of reductions of bools, which are sent as bytes.
BOOLS = {
    ReduceOp.SUM: ReduceOp.MAX,
    ReduceOp.BOR: ReduceOp.MAX,
    ReduceOp.PRODUCT: ReduceOp.MIN,
    ReduceOp.BAND: ReduceOp.MIN,
}
_BITWISE = (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)


def check_reduction(call: str, op: Any, dtype: dtype) -> None:
    """Raise an error unless tensors of a dtype can be reduced by `op`."""
    if not isinstance(op, ReduceOp):
        raise TypeError(f"{call}: op must be a ReduceOp, not {type(op).__name__}")
    if dtype.is_complex and op not in (ReduceOp.SUM, ReduceOp.AVG):
        raise ValueError(f"{call} does not support {op} on complex tensors")
    if dtype.is_differentiable and op in _BITWISE:
        raise ValueError(f"{call} does not support {op} on tensors of {dtype!r}, which has no bits")
    if op is ReduceOp.AVG and not dtype.is_differentiable:
        raise ValueError(f"{call} does not support {op} on tensors of {dtype!r}: the mean may be no integer")
