"""Arrays that were made, as tensors on their device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradcore import dtypes
from gradcore.autograd.modes import local
from gradcore.autograd.variables import wrap
from gradcore.backends.registry import CPU, resolve
from gradcore.dispatch.settings import setting
from gradcore.tensor import Tensor
from gradcore.to import moved

__all__ = ["computed", "converted", "finished", "into", "place"]


def finished(out: Any, requires_grad: bool) -> Any:
    if requires_grad is not False and setting("tensor", "requires_grad", "bool | None").take(requires_grad):
        if not out._dtype.is_differentiable:
            raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
        out.requires_grad_()
    return out


def place(
    array: np.ndarray[Any, Any], device: Any, dtype: dtypes.dtype | None = None, requires_grad: bool = False
) -> Any:
    """A tensor of a fresh NumPy array, copied to a device where that is not the CPU."""
    where = resolve(device)
    return finished(wrap(moved(array, CPU, where), where, dtype), requires_grad)


def computed(
    make: Callable[[Any], Any], device: Any, dtype: dtypes.dtype, requires_grad: bool, *, exact: bool = False
) -> Any:
    """A tensor of what ``make(xp)`` computes on the device; `exact` where NumPy's rounding is wanted (then copied)."""
    where = resolve(device)
    if exact and where.type != "meta":
        return place(make(np), where, dtype, requires_grad)
    with where.backend.use_index(where.index):
        array = make(where.backend.xp)
    return finished(wrap(array, where, dtype), requires_grad)


def converted(values: Any, wanted: dtypes.dtype) -> Any:
    """In that dtype; what lies beyond its range becomes infinite, silently."""
    return values if values.dtype == wanted.numpy else local.state.run(values.astype, wanted.numpy)


def into(out: Tensor, made: Tensor) -> Tensor:
    if out._array.shape != made._array.shape:
        out._array = out._array.copy().__class__(made._array.shape, out._dtype.numpy)
    out.copy_(made)
    return out
