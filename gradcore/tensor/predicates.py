"""Questions about tensors and dtypes, as functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradcore.backends.vmap import all_samples
from gradcore.core import dtypes
from gradcore.core.size import Size
from gradcore.dispatch.torch_function import overridable
from gradcore.tensor import Tensor
from gradcore.tensor.storage import TypedStorage, UntypedStorage

__all__ = [
    "broadcast_shapes",
    "is_conj",
    "is_inference",
    "is_neg",
    "is_nonzero",
    "is_signed",
    "is_storage",
    "is_tensor",
    "numel",
    "result_type",
    "typename",
]


def is_batched(t: Tensor) -> bool:
    """Return whether a tensor has a batch dim of `vmap`."""
    return bool(t._device.levels)


def holds_anywhere(mask: Tensor) -> bool:
    """Return whether a bool tensor is True anywhere, in any sample of a batch; False for a meta tensor."""
    if mask.is_meta:
        return False
    device = mask._device.real
    with device.backend.use_index(device.index):
        return bool(device.backend.number(all_samples(mask._array).any()))


def is_tensor(obj: Any) -> bool:
    """Return whether an object is a tensor.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.is_tensor(gc.zeros(1)), gc.is_tensor([0.0])
    (True, False)
    """
    return isinstance(obj, Tensor)


def is_storage(obj: Any) -> bool:
    """Return whether an object is a storage, as `Tensor.storage` and `Tensor.untyped_storage` return them.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.is_storage(gc.zeros(1).storage())
    True
    """
    return isinstance(obj, (TypedStorage, UntypedStorage))


@overridable
def is_inference(input: Tensor) -> bool:
    """Return whether a tensor was created in inference mode.

    Examples
    --------
    >>> import gradcore as gc
    >>> with gc.inference_mode():
    ...     x = gc.ones(2)
    >>> gc.is_inference(x)
    True
    """
    return input.is_inference()


@overridable
def is_conj(input: Tensor) -> bool:
    """Return False: conjugates are computed at once.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.is_conj(gc.tensor([1 + 2j]).conj())
    False
    """
    return input.is_conj()


@overridable
def is_neg(input: Tensor) -> bool:
    """Return False: negatives are computed at once.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.is_neg(gc.tensor([1.0]))
    False
    """
    return input.is_neg()


@overridable
def is_signed(input: Tensor) -> bool:
    """Return whether a tensor's dtype has negative numbers.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.is_signed(gc.zeros(1, dtype=gc.uint8))
    False
    """
    return input.is_signed()


@overridable
def is_nonzero(input: Tensor) -> bool:
    """Return whether the only element of a tensor is not zero.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.is_nonzero(gc.tensor([0.5]))
    True
    """
    return bool(input)


@overridable
def numel(input: Tensor) -> int:
    """Return the number of elements of a tensor.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.numel(gc.zeros(2, 3))
    6
    """
    return input.numel()


@overridable
def result_type(tensor1: Any, tensor2: Any) -> dtypes.dtype:
    """Return the dtype of an arithmetic operation of two tensors or numbers.

    Examples
    --------
    >>> import gradcore
    >>> gradcore.result_type(gradcore.tensor([1, 2], dtype=gradcore.int32), 1.0)
    torch.float32
    """
    tensors = [t for t in (tensor1, tensor2) if isinstance(t, Tensor)]
    numbers = [n for n in (tensor1, tensor2) if not isinstance(n, Tensor)]
    dims = [t._dtype for t in tensors if t.ndim]
    zero_dims = [t._dtype for t in tensors if not t.ndim]
    return dtypes.result_dtype(dims, zero_dims, numbers)


def broadcast_shapes(*shapes: int | Sequence[int]) -> Size:
    """Return the shape to which tensors with the given shapes broadcast.

    Raises
    ------
    RuntimeError
        If they do not.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.broadcast_shapes((2, 1), (3,))
    torch.Size([2, 3])
    """
    try:
        return Size(np.broadcast_shapes(*shapes))
    except ValueError as error:
        raise RuntimeError(f"Shape mismatch: objects cannot be broadcast to a single shape: {shapes}") from error


def typename(obj: Any) -> str:
    """Return the name of a tensor's old class, or the name of any object's class.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.typename(gc.zeros(1))
    'torch.FloatTensor'
    """
    if isinstance(obj, Tensor):
        return str(obj.type())
    cls = obj if isinstance(obj, type) else type(obj)
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
