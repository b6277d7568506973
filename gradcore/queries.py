"""Questions about tensors and dtypes, as functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradcore import dtypes
from gradcore.autograd.formulas import TENSORS
from gradcore.backends.batching import all_samples
from gradcore.dispatch.overriding import overridable
from gradcore.size import Size
from gradcore.storage import TypedStorage, UntypedStorage
from gradcore.tensor import Tensor

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


def holds_anywhere(mask: Tensor) -> bool:
    """Whether a bool tensor holds anywhere, in any sample of a batch; False where there is no data."""
    if mask.is_meta:
        return False
    where = mask._device.real
    with where.backend.use_index(where.index):
        return bool(where.backend.number(all_samples(mask._array).any()))


TENSORS.holds_anywhere = holds_anywhere


def is_tensor(obj: Any) -> bool:
    """Whether an object is a tensor."""
    return isinstance(obj, Tensor)


def is_storage(obj: Any) -> bool:
    """Whether an object is a storage, as `Tensor.storage` and `Tensor.untyped_storage` return them."""
    return isinstance(obj, (TypedStorage, UntypedStorage))


@overridable
def is_inference(input: Tensor) -> bool:
    """Whether a tensor was made in inference mode."""
    return input.is_inference()


@overridable
def is_conj(input: Tensor) -> bool:
    """False: conjugates are computed at once."""
    return input.is_conj()


@overridable
def is_neg(input: Tensor) -> bool:
    """False: negatives are computed at once."""
    return input.is_neg()


@overridable
def is_signed(input: Tensor) -> bool:
    """Whether a tensor's dtype has negative numbers."""
    return input.is_signed()


@overridable
def is_nonzero(input: Tensor) -> bool:
    """Whether the only element of a tensor is not zero."""
    return bool(input)


@overridable
def numel(input: Tensor) -> int:
    """The number of elements of a tensor."""
    return input.numel()


@overridable
def result_type(tensor1: Any, tensor2: Any) -> dtypes.dtype:
    """The dtype of an arithmetic operation of two tensors or numbers.

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
    """The shape to which tensors of these shapes broadcast.

    Raises
    ------
    RuntimeError
        If they do not.
    """
    try:
        return Size(np.broadcast_shapes(*shapes))
    except ValueError as error:
        raise RuntimeError(f"Shape mismatch: objects cannot be broadcast to a single shape: {shapes}") from error


def typename(obj: Any) -> str:
    """The name of a tensor's old class, or of any object's class."""
    if isinstance(obj, Tensor):
        return str(obj.type())
    cls = obj if isinstance(obj, type) else type(obj)
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
