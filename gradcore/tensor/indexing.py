"""Reading by index: ``tensor[key]``."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradcore import functional
from gradcore.autograd.modes import GRAD, local
from gradcore.autograd.record import view_of
from gradcore.autograd.variables import Variable, wrap
from gradcore.core import dtypes
from gradcore.core.errors import warn
from gradcore.core.tracebacks import shorten
from gradcore.core.typing import AnyTensor
from gradcore.dispatch.torch_function import hand_over, overriding_arguments, takes_over
from gradcore.ops.indexing.by_tensors import BYTES, check_mask
from gradcore.ops.shape.slicing import getitem as GETITEM
from gradcore.ops.shape.slicing import select as SELECT
from gradcore.ops.shape.slicing import slice_of as SLICE

__all__ = ["getitem", "resolve", "view_at"]

WHOLE = slice(None)


def getitem(self: AnyTensor, key: Any) -> Any:
    """Return elements of the tensor: a view if `key` has only ints, slices, None and Ellipsis, else a copy.

    The rules are PyTorch's. They differ from NumPy's in two points:

    - ints are applied before index tensors, so they do not affect the position of the indexed dims in the result;
    - a list that contains sequences is treated as a tuple.

    Unlike in PyTorch, slices may have negative steps.

    Parameters
    ----------
    key : int, slice, None, Ellipsis, bool, list, array or tensor of ints or bools, or a tuple of them

    Returns
    -------
    Tensor

    Raises
    ------
    IndexError
        If an index is out of bounds, if there are too many of them, or if one is of another type.

    Examples
    --------
    >>> import gradcore
    >>> x = gradcore.arange(6).reshape(2, 3)
    >>> x[:, ::-1]
    tensor([[2, 1, 0],
            [5, 4, 3]])
    >>> x[[0, 1, 1], [2, 0, 0]]
    tensor([2, 3, 3])
    """
    kind = key.__class__
    if kind is int:
        state = local.state
        array = self._array
        if state.mode <= GRAD and array.ndim and not self._device.guarded:
            try:
                part = array[key] if array.ndim > 1 else array[key, ...]
            except (IndexError, OverflowError):
                raise out_of_bounds(key, 0, array.shape) from None
            return view_of(self, part, SELECT, (0, key), state)
        check_int(key, 0, array.shape)
        return functional.select(self, 0, key)
    if kind is slice:
        settings = (0, *bounds(key))
        state = local.state
        if state.mode <= GRAD and self._array.ndim and settings[3] and not self._device.guarded:
            return view_of(self, self._array[key], SLICE, settings, state)
        return functional.slice_of(self, *settings)
    if key is None:
        return functional.unsqueeze(self, 0)
    if kind is tuple:
        view_key = as_view_key(key, self._array.shape)
        if view_key is not None:
            return view_at(self, *view_key)
        if _is_index_of_dim(key, self._array.ndim):
            return functional.index(self, (*[None] * (len(key) - 1), key[-1]))
    if isinstance(key, Variable) and key._dtype is dtypes.int64 and key._array.ndim and self._array.ndim:
        return functional.index(self, (key,))
    if takes_over(kind) and (overriding := overriding_arguments((key,))):
        return hand_over(type(self).__getitem__, overriding, (self, key), {})
    try:
        base, indices = resolve(self, key)
    except BaseException as error:
        shorten(error)
        raise
    return base if indices is None else functional.index(base, indices)


def _is_index_of_dim(key: tuple[object, ...], ndim: int) -> bool:
    """Return whether a key is a tensor of indices along a dim, after whole slices for the dims in front of it."""
    index = key[-1]
    if not isinstance(index, Variable) or index._dtype is not dtypes.int64 or not index._array.ndim:
        return False
    return len(key) <= ndim and all(k.__class__ is slice and k == WHOLE for k in key[:-1])


def view_at(self: AnyTensor, key: tuple[Any, ...], name: str) -> Any:
    """Return the view at a key of ints, slices, None and Ellipsis.

    It is recorded as one operation, with the name of PyTorch's last node.
    """
    state = local.state
    if state.mode > GRAD:
        return functional.getitem(self, key, name)
    return view_of(self, self._device.kernels["getitem"](self._array, key), GETITEM, (key, name), state)


def bounds(key: slice) -> tuple[int | None, int | None, int]:
    """Return start, stop and step of a slice as Python ints."""
    start, stop, step = key.start, key.stop, key.step
    return (
        start if start.__class__ is int or start is None else operator.index(start),
        stop if stop.__class__ is int or stop is None else operator.index(stop),
        1 if step is None else step if step.__class__ is int else operator.index(step),
    )


def out_of_bounds(index: int, dim: int, shape: Sequence[int]) -> IndexError:
    """Return the error for an index that is out of bounds for a dim."""
    return IndexError(f"index {index} is out of bounds for dimension {dim} with size {shape[dim]}")


def check_int(index: int, dim: int, shape: Sequence[int]) -> None:
    """Raise unless `index` is valid for dim `dim` of a tensor of `shape`."""
    if not shape:
        raise IndexError(
            "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to convert a "
            "0-dim tensor to a number"
        )
    if not -shape[dim] <= index < shape[dim]:
        raise out_of_bounds(index, dim, shape)


def as_view_key(key: tuple[Any, ...], shape: Sequence[int]) -> tuple[tuple[Any, ...], str] | None:
    """Return a key of ints, slices, None and Ellipsis, and the name of the node that PyTorch records last.

    None where there is anything else in `key`.
    """
    name, dim, dots, ints, ndim = "AliasBackward0", 0, False, False, len(shape)
    for k in key:
        kind = k.__class__
        if kind is int:
            if dim >= ndim:
                raise too_many(ndim)
            if not -shape[dim] <= k < shape[dim]:
                raise too_many(ndim) if _count_indexed_dims(key) > ndim else out_of_bounds(k, dim, shape)
            name, ints = "SelectBackward0", True
            dim += 1
        elif kind is slice:
            start: Any = k.start
            stop: Any = k.stop
            step: Any = k.step
            if not (start.__class__ in _PLAIN and stop.__class__ in _PLAIN and step.__class__ in _PLAIN):
                return None
            if dim >= ndim or _leaves_out(start, stop, step, shape[dim]):
                name = "SliceBackward0"
            dim += 1
        elif k is None:
            name = "UnsqueezeBackward0"
        elif k is Ellipsis and not dots:
            dots = True
            dim += max(0, ndim - _count_indexed_dims(key))
        else:
            return None
    if dim > ndim:
        raise too_many(ndim)
    return key if dots or (key and not ints) else (*key, ...), name


def _count_indexed_dims(key: tuple[Any, ...]) -> int:
    """Return the number of dims that a key of ints, slices, None and Ellipsis indexes."""
    return sum(k is not None and k is not Ellipsis for k in key)


def _leaves_out(start: Any, stop: Any, step: Any, size: int) -> bool:
    """Return whether a slice is not the whole of a dim of size `size` in its order."""
    return bool(start) or step not in _ONCE or not (stop is None or stop >= size)


_PLAIN = frozenset((int, type(None)))
_ONCE = (None, 1)


def too_many(ndim: int) -> IndexError:
    """Return the error for a key with too many indices for a tensor of `ndim` dims."""
    return IndexError(f"too many indices for tensor of dimension {ndim}")


# -- keys with tensors --------------------------------------------------------------------------------------------


def resolve(self: AnyTensor, key: Any) -> tuple[Any, tuple[Any, ...] | None]:
    """Split a key into a view and the index tensors that are applied to it.

    Returns
    -------
    view : Tensor
        The tensor after the ints, slices, None and bools of the key.
    indices : tuple of Tensor or None, or None
        For each of the view's first dims its index tensor; None if the key has no index tensors.
    """
    if key.__class__ is not tuple:
        key = _as_tuple(key)
    items = [_convert_item(k, self) for k in key]
    shape = self._array.shape
    dims_used = sum(_dims_of(k) for k in items)
    if dims_used > len(shape):
        raise too_many(len(shape))
    rest = len(shape) - dims_used
    basic: list[Any] = []
    indices: list[Any] = []
    dim = 0
    for k in items:
        if k is Ellipsis:
            basic += [WHOLE] * rest
            indices += [None] * rest
            dim, rest = dim + rest, 0
        elif k is None:
            basic.append(None)
            indices.append(None)
        elif k.__class__ is int:
            check_int(k, dim, shape)
            basic.append(k)
            dim += 1
        elif k.__class__ is slice:
            basic.append(k)
            indices.append(None)
            dim += 1
        elif k.__class__ is _Truth:
            basic.append(None)
            indices.append(k.mask)
        else:
            if k._dtype is dtypes.bool_:
                check_mask(k._array.shape, dim, shape)
            basic += [WHOLE] * _dims_of(k)
            indices.append(k)
            dim += _dims_of(k)
    while indices and indices[-1] is None:
        indices.pop()
    view_key = as_view_key(tuple(basic), shape)
    assert view_key is not None
    if not indices:
        return view_at(self, *view_key), None
    return self if view_key[1] == "AliasBackward0" else view_at(self, *view_key), tuple(indices)


class _Truth:
    """A bool as an index: it adds a dim of size 1, of which `mask` selects the element or nothing."""

    def __init__(self, mask: Any) -> None:
        self.mask = mask


def _dims_of(item: Any) -> int:
    """Return the number of dims that an item of a key indexes."""
    if item is None or item is Ellipsis or item.__class__ is _Truth:
        return 0
    if isinstance(item, Variable) and item._dtype is dtypes.bool_:
        return int(item._array.ndim)
    return 1


def _as_tuple(key: Any) -> tuple[Any, ...]:
    """Return a key as a tuple.

    A list that holds sequences, slices or tensors has an item for each dim.
    """
    if isinstance(key, tuple):
        return tuple(key)
    if not isinstance(key, list) or len(key) >= 32:
        return (key,)
    if not any(k is None or k is Ellipsis or isinstance(k, (slice, Sequence, np.ndarray, Variable)) for k in key):
        return (key,)
    warnings.warn(
        "a list that holds sequences is taken as a tuple of indices, as PyTorch does; write x[tuple(key)], or "
        "x[gradcore.tensor(key)] for indices along the first dim",
        stacklevel=4,
    )
    return tuple(key)


_VALID = "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices"


def _convert_item(item: Any, like: AnyTensor) -> Any:
    """Return an item of a key as an int, a slice of ints, None, Ellipsis, a `_Truth` or an index tensor."""
    if item is None or item is Ellipsis or item.__class__ is int:
        return item
    if isinstance(item, slice):
        return slice(*bounds(item))
    if isinstance(item, (bool, np.bool_)):
        return _Truth(functional.index_tensor([bool(item)], like))
    if not isinstance(item, Variable):
        if isinstance(item, (np.ndarray, list, tuple, range)):
            item = functional.index_tensor(item, like)
        elif hasattr(item, "__index__"):
            return operator.index(item)
        elif hasattr(item, "__array__"):  # a Series of pandas, say
            item = functional.index_tensor(np.asarray(item), like)
        else:
            error = TypeError if isinstance(item, str) else IndexError
            raise error(f"{_VALID} (got {type(item).__name__})")
    is_number = not item._array.ndim and not item._device.levels
    if is_number and item._dtype.category == 1 and item._dtype is not dtypes.uint8:
        return operator.index(item)
    if item._dtype not in (dtypes.int64, dtypes.bool_, dtypes.int32, dtypes.uint8):
        raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
    if item._dtype is dtypes.uint8:
        warn(BYTES)
        item = functional.ne(item, 0)
    if item._array.ndim or (item._device.levels and item._dtype is not dtypes.bool_):
        return item
    if item._dtype is dtypes.bool_:
        return _Truth(functional.reshape(item, (1,)))
    return operator.index(item)


def index_tensor(values: Any, like: AnyTensor) -> Any:
    """Return indices or bools, in lists or arrays, as a tensor on the device of `like`."""
    if isinstance(values, (list, tuple)):
        values = [v.item() if functional.is_tensor(v) else v for v in values]
    array = np.asarray(values)
    if not array.size and array.dtype.kind == "f":
        array = array.astype("int64")
    device = like._device.real
    if device.type in ("cpu", "meta") or array.nbytes > _MOST_KEPT:
        return functional.as_tensor(array, device=like._device)
    with device.backend.use_index(device.index):
        cached = wrap(device.backend.constant(array), device)
    return functional.as_tensor(cached, device=like._device)


#: Bytes of tables of indices that devices keep.
_MOST_KEPT = 1 << 14
