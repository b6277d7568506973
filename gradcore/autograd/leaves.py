"""Gradients on their way into a leaf's ``.grad``: the dtype that it asks for, the layout of its own memory."""

from __future__ import annotations

from typing import Any

from gradcore.autograd.formulas import TENSORS
from gradcore.autograd.modes import local

__all__ = ["cast", "laid_out_as"]


def cast(grad: Any, dtype: Any, raw: bool) -> Any:
    """A gradient, as a raw array or a tensor, in the dtype that its leaf asks for, if it does for any."""
    if dtype is None or grad.dtype == (dtype.numpy if raw else dtype):
        return grad
    return local.state.run(grad.astype, dtype.numpy) if raw else TENSORS.to(grad, dtype)


def laid_out_as(like: Any, array: Any) -> Any:
    """The array with its elements in memory in the order of those of `like`, or of its indices if that has gaps."""
    order = sorted(range(like.ndim), key=lambda d: -like.strides[d])
    if not like.transpose(order).flags.c_contiguous:
        order = list(range(like.ndim))
    if array.shape != like.shape or array.transpose(order).flags.c_contiguous:
        return array
    back = sorted(range(like.ndim), key=order.__getitem__)
    return array.transpose(order).copy(order="C").transpose(back)
