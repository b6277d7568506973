"""Memory shared between processes, as `Tensor.share_memory_` creates it."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from gradcore.autograd.variables import bump, wrap
from gradcore.backends.registry import CPU
from gradcore.core.typing import AnyArray
from gradcore.tensor import Tensor

__all__ = ["is_shared", "reduce_for_processes", "share_memory_", "shared_with_processes"]


def _block(array: AnyArray) -> Any:
    """Return the shared block that an array lies in, or None."""
    owner = array
    while isinstance(owner, (np.ndarray, memoryview)):
        owner = owner.obj if isinstance(owner, memoryview) else owner.base
    return owner if isinstance(owner, ctypes.Array) and hasattr(owner, "_wrapper") else None


def is_shared(self: Tensor) -> bool:
    """Return whether the data lies in memory that processes share (always, on CUDA)."""
    return self.is_cuda or _block(self._array) is not None


def share_memory_(self: Tensor) -> Tensor:
    """Move the data to memory that processes share, and return the tensor.

    Processes that are started afterwards, and processes that get the tensor as an argument, use the same memory. Views
    and arrays that shared the tensor's memory before keep the old memory.

    Raises
    ------
    RuntimeError
        For a view: share its base.
    """
    if is_shared(self):
        return self
    if self._is_view():
        raise RuntimeError("share_memory_(): a view cannot be moved without its base; share the base, or a clone()")
    from multiprocessing.reduction import ForkingPickler
    from multiprocessing.sharedctypes import RawArray

    ForkingPickler.register(type(self), reduce_for_processes)  # `multiprocessing` sends arguments by it.
    array = self._array
    block: Any = RawArray(ctypes.c_byte, max(array.nbytes, 1))
    moved = np.frombuffer(block, array.dtype, array.size).reshape(array.shape)
    moved[...] = array
    self._array = moved
    bump(self)
    return self


def reduce_for_processes(t: Tensor) -> Any:
    """Return the function and arguments that pickle a tensor for another process.

    Shared memory is not copied.
    """
    return shared_with_processes(t) or t.__reduce_ex__(2)


def shared_with_processes(t: Tensor) -> tuple[Any, ...] | None:
    """Return the function and arguments by which another process attaches to the tensor's memory.

    None is returned if the memory is not shared.
    """
    block = _block(t._array) if t._device is CPU else None
    if block is None:
        return None
    array = t._array
    offset = array.__array_interface__["data"][0] - ctypes.addressof(block)
    return _attach, (
        type(t),
        block._wrapper,
        len(block),
        offset,
        array.dtype,
        array.shape,
        array.strides,
        t._dtype,
        t.requires_grad,
    )


def _attach(
    cls: Any, wrapper: Any, size: int, offset: int, kind: Any, shape: Any, strides: Any, dtype: Any, requires_grad: bool
) -> Any:
    from multiprocessing import sharedctypes

    block: Any = sharedctypes.rebuild_ctype(ctypes.c_byte, wrapper, size)  # type: ignore[attr-defined]
    array: Any = np.ndarray(shape, kind, np.frombuffer(block, np.uint8), offset, strides)
    result = wrap(array, CPU, dtype)
    return result.requires_grad_(requires_grad) if cls is Tensor else cls(result, requires_grad)
