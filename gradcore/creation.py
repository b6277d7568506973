"""Making tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradcore import dtypes
from gradcore.autograd.formulas import TENSORS
from gradcore.autograd.graph import new, wrap
from gradcore.backends.registry import CPU, resolve
from gradcore.device import DeviceLike
from gradcore.dtypes import DTypeLike
from gradcore.tensor import Tensor

__all__ = ["as_tensor", "empty", "from_numpy", "full", "ones", "ones_like", "tensor", "zeros", "zeros_like"]


def _place(array: np.ndarray[Any, Any], device: Any, dtype: dtypes.dtype, requires_grad: bool) -> Tensor:
    """A tensor of a fresh NumPy array on a device."""
    where = resolve(device)
    with where.backend.use_index(where.index):
        out = wrap(where.backend.from_host(array), where, dtype)
    return out.requires_grad_() if requires_grad else out  # type: ignore[no-any-return]


def tensor(
    data: Any, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: bool = False
) -> Tensor:
    """A new tensor with a copy of `data`."""
    if isinstance(data, Tensor):
        out = data.detach().to(device=data.device if device is None else device, dtype=dtype or data.dtype, copy=True)
        return out.requires_grad_() if requires_grad else out
    wanted = None if dtype is None else dtypes.as_dtype(dtype)
    array = np.array(data)
    if wanted is None:
        if isinstance(data, (np.ndarray, np.generic)):
            wanted = dtypes.from_numpy(array.dtype)
        elif array.dtype.kind == "f":
            wanted = dtypes.get_default_dtype()
        elif array.dtype.kind == "c":
            wanted = dtypes.default_complex()
        else:
            wanted = dtypes.from_numpy(array.dtype)
    return _place(array.astype(wanted.numpy, copy=False), device, wanted, requires_grad)


def as_tensor(data: Any, dtype: DTypeLike | None = None, device: DeviceLike | None = None) -> Tensor:
    """`data` as a tensor, without a copy where possible."""
    if isinstance(data, Tensor):
        return data.to(device=data.device if device is None else device, dtype=dtype or data.dtype)
    if isinstance(data, np.ndarray):
        out = from_numpy(data)
        return out.to(device=CPU if device is None else device, dtype=dtype or out.dtype)
    return tensor(data, dtype=dtype, device=device)


def from_numpy(array: np.ndarray[Any, Any]) -> Tensor:
    """A CPU tensor that shares memory with a NumPy array."""
    return wrap(array, CPU, dtypes.from_numpy(array.dtype))  # type: ignore[no-any-return]


def _sizes(size: tuple[Any, ...]) -> tuple[int, ...]:
    if len(size) == 1 and isinstance(size[0], (tuple, list)):
        size = tuple(size[0])
    return tuple(int(n) for n in size)


def full(
    size: Sequence[int],
    fill_value: Any,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor of `size` filled with a value."""
    wanted = dtypes.scalar_dtype(fill_value) if dtype is None else dtypes.as_dtype(dtype)
    where = resolve(device)
    with where.backend.use_index(where.index):
        out = wrap(where.backend.xp.full(tuple(size), fill_value, wanted.numpy), where, wanted)
    return out.requires_grad_() if requires_grad else out  # type: ignore[no-any-return]


def zeros(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor of zeros."""
    return full(_sizes(size), 0, dtype=dtype or dtypes.get_default_dtype(), device=device, requires_grad=requires_grad)


def ones(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor of ones."""
    return full(_sizes(size), 1, dtype=dtype or dtypes.get_default_dtype(), device=device, requires_grad=requires_grad)


def empty(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor whose elements are whatever lies in memory."""
    return zeros(*size, dtype=dtype, device=device, requires_grad=requires_grad)


def zeros_like(input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Zeros of the shape, dtype and device of another tensor."""
    return full(
        input._array.shape, 0, dtype=dtype or input.dtype, device=device or input.device, requires_grad=requires_grad
    )


def ones_like(input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Ones of the shape, dtype and device of another tensor."""
    return full(
        input._array.shape, 1, dtype=dtype or input.dtype, device=device or input.device, requires_grad=requires_grad
    )


def number_as_tensor(value: Any, device: Any) -> Tensor:
    """A Python number as a 0-dim tensor of the dtype that numbers have."""
    return full((), value, device=device)


def legacy_tensor(cls: Any, *args: Any, device: Any = None, dtype: Any = None) -> Any:
    """What ``Tensor(...)`` makes: of sizes an uninitialised tensor, of data a copy in the default dtype."""
    wanted = dtypes.get_default_dtype() if dtype is None else dtype
    if len(args) == 1 and not isinstance(args[0], int):
        made = tensor(args[0], dtype=wanted, device=device)
    else:
        made = empty(*(args or (0,)), dtype=wanted, device=device)
    if cls is not Tensor:
        out = new(cls)
        out._array, out._device, out._dtype = made._array, made._device, made._dtype
        out._edge = out._meta = out._vc = None
        return out
    return made


def new_zeros(input: Tensor, size: Sequence[int]) -> Tensor:
    """Zeros of another shape in the dtype and on the device of a tensor."""
    return full(size, 0, dtype=input.dtype, device=input.device)


for _function in (as_tensor, new_zeros, empty, full, number_as_tensor, ones, ones_like, tensor, zeros, zeros_like):
    setattr(TENSORS, _function.__name__, _function)
