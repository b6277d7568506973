"""Storages: the memory that a tensor shares with its views, as elements or as bytes.

The storage of a tensor that shares memory with a NumPy array extends from the array's first element to its last one.
"""

from __future__ import annotations

import operator
import os
from typing import Any, Self

import numpy as np

from gradcore import functional
from gradcore.autograd.grad_mode import no_grad
from gradcore.autograd.variables import version_counter, wrap
from gradcore.core import dtypes
from gradcore.core.device import DeviceLike
from gradcore.core.dtypes import DTypeLike
from gradcore.core.errors import history_lost, warn_once
from gradcore.core.size import contiguous_strides
from gradcore.ops.declare.geometry import each
from gradcore.tensor import Tensor, is_differentiated
from gradcore.tensor.creation import empty, from_numpy, tensor

__all__ = ["TypedStorage", "UntypedStorage"]

RESIZED = (
    "a storage cannot be resized: its memory is an array's, whose views would lose theirs. Tensor.resize_ gives one "
    "tensor another size; `del` and Tensor.data = gradcore.empty(0) free memory"
)


class _Storage:
    """Base of typed and untyped storages."""

    _flat: Tensor

    @property
    def dtype(self) -> dtypes.dtype:
        """The dtype of the elements."""
        return self._flat.dtype

    @property
    def device(self) -> Any:
        """Device of the memory."""
        return self._flat.device

    @property
    def is_cuda(self) -> bool:
        """Whether the memory is on a GPU."""
        return self._flat.is_cuda

    def __len__(self) -> int:
        return self._flat.numel()

    def size(self) -> int:
        """Return the number of elements."""
        return self._flat.numel()

    def nbytes(self) -> int:
        """Return the number of bytes."""
        return self._flat.nbytes

    def element_size(self) -> int:
        """Return the bytes per element."""
        return self._flat.element_size()

    def data_ptr(self) -> int:
        """Return the address of the first element."""
        return self._flat.data_ptr()

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self._wrap_flat(self._flat[index])
        return self._flat[self._place(index)].item()

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(value, Tensor) and is_differentiated(value):
            history_lost("element")
        with no_grad():
            self._flat[index if isinstance(index, slice) else self._place(index)] = value

    def _place(self, index: Any) -> int:
        position = operator.index(index)
        if not -len(self) <= position < len(self):
            raise IndexError(f"index {position} out of range for storage of size {len(self)}")
        return position

    def __iter__(self) -> Any:
        return iter(self.tolist())

    def tolist(self) -> list[Any]:
        """Return the elements as a list."""
        return self._flat.tolist()  # type: ignore[no-any-return]

    def fill_(self, value: Any) -> Self:
        """Write one value to all elements."""
        self._flat.fill_(value)
        return self

    def copy_(self, source: Any, non_blocking: bool = False) -> Self:
        """Copy the elements of another storage of the same size."""
        if len(source) != len(self):
            raise RuntimeError(f"size does not match, self was {len(self)} elements but src was {len(source)}")
        self._flat.copy_(source._flat)
        return self

    def clone(self) -> Self:
        """Return a copy of the storage."""
        return self._wrap_flat(self._flat.clone())

    def cpu(self) -> Self:
        """Return the storage, or a copy of it, in the memory of the CPU."""
        return self._wrap_flat(self._flat.cpu())

    def cuda(self, device: Any = None, non_blocking: bool = False) -> Self:
        """Return the storage, or a copy of it, on a CUDA device."""
        return self._wrap_flat(self._flat.cuda(device))

    def resize_(self, size: int) -> Self:
        """Return the storage itself if it has the given size.

        Raises
        ------
        RuntimeError
            If it has another size.
        """
        if operator.index(size) != len(self):
            raise RuntimeError(RESIZED)
        return self

    def resizable(self) -> bool:
        """Return False."""
        return False

    def is_shared(self) -> bool:
        """Return whether other processes see the memory (always, on CUDA)."""
        return self._flat.is_shared()

    def is_pinned(self, device: Any = None) -> bool:
        """Return whether the memory is page-locked."""
        return self._flat.is_pinned()

    def share_memory_(self) -> Self:
        """Return the storage itself, whose memory is shared already.

        Raises
        ------
        RuntimeError
            If it is not: tensors can be moved to shared memory, storages cannot.
        """
        if not self.is_shared():
            raise RuntimeError("a storage cannot be moved to shared memory: call Tensor.share_memory_()")
        return self

    def __copy__(self) -> Self:
        return self._wrap_flat(self._flat)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        result = self._wrap_flat(self._flat.__deepcopy__(memo))
        memo[id(self)] = result
        return result

    def _wrap_flat(self, flat: Tensor) -> Self:
        out = object.__new__(type(self))
        out._flat = flat
        return out

    def __repr__(self) -> str:
        lines = "".join(f" {value}\n" for value in self.tolist())
        of = "" if isinstance(self, UntypedStorage) else f"dtype={self.dtype!r}, "
        return f"{lines}[torch.storage.{type(self).__name__}({of}device={self.device}) of size {len(self)}]"


class TypedStorage(_Storage):
    """The memory of a tensor as elements of a dtype.

    Parameters
    ----------
    *args : int or sequence
        A size, whose elements are uninitialised, or the elements.
    wrap_storage : UntypedStorage, optional
        Memory to read in that dtype instead.
    dtype : dtype, optional
        By default `get_default_dtype`.
    device : device, optional

    Examples
    --------
    >>> import gradcore
    >>> x = gradcore.arange(4.0)
    >>> x[1:].storage().tolist()
    [0.0, 1.0, 2.0, 3.0]
    """

    def __init__(
        self,
        *args: Any,
        wrap_storage: UntypedStorage | None = None,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> None:
        out_dtype = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
        if wrap_storage is not None:
            self._flat = _read_as(wrap_storage._flat, out_dtype)
        else:
            self._flat = _make_memory(args, out_dtype, device)

    def untyped(self) -> UntypedStorage:
        """Return the same memory as bytes."""
        return UntypedStorage.__new__(UntypedStorage)._wrap_flat(_read_as(self._flat, dtypes.uint8))

    def type(self) -> str:
        """Return the name of PyTorch's former class of this storage."""
        return f"torch.{self.dtype.scalar_name}Storage"

    def pickle_storage_type(self) -> str:
        """Return the name of the dtype in files."""
        return f"{self.dtype.scalar_name}Storage"


class UntypedStorage(_Storage):
    """The memory of a tensor as bytes.

    Parameters
    ----------
    *args : int or sequence
        A size in bytes, which are uninitialised, or the bytes.
    device : device, optional

    Examples
    --------
    >>> import gradcore
    >>> x = gradcore.arange(4.0)
    >>> x.untyped_storage().nbytes()
    16
    >>> x.untyped_storage().data_ptr() == x[1:].untyped_storage().data_ptr()
    True
    """

    def __init__(self, *args: Any, device: DeviceLike | None = None) -> None:
        self._flat = _make_memory(args, dtypes.uint8, device)

    @classmethod
    def from_file(cls, filename: Any, shared: bool = False, nbytes: int | None = None) -> Self:
        """Return the bytes of a file, which are read when they are needed.

        Parameters
        ----------
        filename : path
        shared : bool
            Whether writes to the storage change the file. The file is then created or extended if needed.
        nbytes : int, optional
            The number of bytes, from the first on; by default all.
        """
        size = os.path.getsize(filename) if os.path.exists(filename) else 0
        count = size if nbytes is None else operator.index(nbytes)
        if count < 0 or (count > size and not shared):
            raise RuntimeError(f"the file {os.fspath(filename)!r} has {size} bytes, not {count}")
        out = cls()
        if count:
            mode: Any = "c" if not shared else "r+" if size else "w+"
            out._flat = from_numpy(np.memmap(filename, np.uint8, mode, shape=(count,)))
        return out

    def untyped(self) -> UntypedStorage:
        """Return the storage itself."""
        return self


def _make_memory(args: tuple[Any, ...], dtype: dtypes.dtype, device: Any) -> Tensor:
    if len(args) > 1:
        raise TypeError(f"a storage is made of a size or of a sequence, not of {len(args)} arguments")
    if args and not hasattr(args[0], "__index__"):
        return tensor(args[0], dtype=dtype, device=device).reshape(-1)
    return empty(operator.index(args[0]) if args else 0, dtype=dtype, device=device)


def _memory_of(t: Tensor) -> Tensor:
    """Return the whole memory of a tensor as a flat tensor; writes to it change the tensor's version."""
    if t._device.levels:
        raise RuntimeError("Cannot access data pointer of Storage that is invalid: the tensor is in a batch of vmap")
    out = wrap(t._device.backend.memory_of(t._array), t._device, t._dtype)
    out._vc = version_counter(t)
    return out  # type: ignore[no-any-return]


def _read_as(flat: Tensor, dtype: dtypes.dtype) -> Tensor:
    """Return flat memory as elements of another dtype."""
    if flat._dtype is dtype:
        return flat
    raw = flat._array.view("u1")
    array = raw[: raw.size // dtype.itemsize * dtype.itemsize].view(dtype.numpy)
    out = wrap(array, flat._device, dtype)
    out._vc = version_counter(flat)
    return out  # type: ignore[no-any-return]


def storage(self: Tensor) -> TypedStorage:
    """Return the memory that this tensor shares with its views, as elements of its dtype."""
    warn_once(
        "TypedStorage is deprecated. It will be removed in the future and UntypedStorage will be the only storage "
        "class: use tensor.untyped_storage() instead of tensor.storage()."
    )
    return typed_storage(self)


def typed_storage(self: Tensor) -> TypedStorage:
    """Return a typed view of the tensor's storage."""
    return TypedStorage.__new__(TypedStorage)._wrap_flat(_memory_of(self))


def untyped_storage(self: Tensor) -> UntypedStorage:
    """Return the memory that this tensor shares with its views, as bytes."""
    return UntypedStorage.__new__(UntypedStorage)._wrap_flat(_read_as(_memory_of(self), dtypes.uint8))


def storage_type(self: Tensor) -> Any:
    """Return the class of `storage()`."""
    return TypedStorage


def tensor_in_storage(source: Any, dtype: dtypes.dtype, storage_offset: Any, size: Any, stride: Any) -> Tensor:
    """Return a tensor in a storage, or in the memory of another tensor.

    Raises
    ------
    RuntimeError
        If it would reach beyond that memory.
    """
    if isinstance(source, UntypedStorage):
        flat = _read_as(source._flat, dtype)
    else:
        flat = source._flat if isinstance(source, TypedStorage) else _memory_of(source)
    offset = operator.index(storage_offset)
    shape = (max(flat.numel() - offset, 0),) if size is None else each(size)
    stride = contiguous_strides(shape) if stride is None else each(stride)
    return functional.as_strided(flat.detach(), shape, stride, offset)  # type: ignore[no-any-return]
