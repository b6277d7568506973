"""Writing into a tensor or a part of it: `fill_`, `zero_`, `copy_`, `index_put_`, ``tensor[key] = value``.

Other in-place operations compute their result and then copy it to the tensor. The operations here only move data, so
they write directly to the tensor.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from gradcore import dispatch, functional
from gradcore.autograd import views
from gradcore.autograd.batch_dims import take_common_sample
from gradcore.autograd.modes import GRAD, local
from gradcore.autograd.record import record
from gradcore.autograd.variables import PLAIN_TYPES, Variable, bump
from gradcore.autograd.views import gradient_edge, requires_grad
from gradcore.backends.vmap.messages import INPLACE
from gradcore.core.tracebacks import shorten
from gradcore.core.typing import AnyTensor
from gradcore.dispatch.settings import setting
from gradcore.dispatch.torch_function import hand_over, overriding_arguments
from gradcore.ops.declare.checks import check_fits
from gradcore.ops.declare.geometry import expand_shape
from gradcore.ops.declare.table import OPS, Op
from gradcore.ops.indexing.by_tensors import as_indices, convert_values
from gradcore.tensor.indexing import as_view_key, getitem, resolve
from gradcore.tensor.to import warn_of_real_parts

__all__ = ["copy_", "fill_", "fill_diagonal_", "index_put_", "setitem", "zero_"]


def overwrite(op: Op, self: AnyTensor, kernel: str, arrays: tuple[Any, ...], args: tuple[Any, ...]) -> Any:
    """Write over `self` with a kernel, and record the operation that this corresponds to.

    Parameters
    ----------
    op : Op
        An operation that does not save its first tensor's value.
    self : Tensor
    kernel : str
        Name of a kernel that writes into its first argument.
    arrays : tuple
        The kernel's further arguments.
    args : tuple
        The operation's arguments after `self`, for the record.
    """
    state = local.state
    if state.mode > GRAD:
        return dispatch.apply_inplace(op, (self, *args))
    dispatch.check_inplace(self, state)
    if not op.fills:
        dispatch.check_own_memory(self)
    for a in args:
        if isinstance(a, Variable) and a._device is not self._device:
            args = tuple([_outside_batches(a, self) for a in args])
            break
    recorded = False
    if state.mode and self._dtype.is_differentiable:
        tensors = [self, *[args[p - 1] for p in op.tensors[1:]]]
        edges = [t._edge if t._autograd is None else gradient_edge(t) for t in tensors]
        recorded = edges.count(None) < len(edges)
    if recorded:
        views.check_recordable(self)
    state.run(self._device.kernels[kernel], self._array, *arrays)
    bump(self)
    if recorded:
        node = record(op, (self, *args), tensors, edges, self._device, [self], state)
        views.rebase_history(self, (node, 0))
    return self


def _outside_batches(value: Any, self: AnyTensor) -> Any:
    """Return `value` without the batch levels of `vmap` that `self` does not have.

    A value whose samples differ keeps them.
    """
    if not isinstance(value, Variable) or value._device is self._device:
        return value
    return take_common_sample(value, self._device)


def fill_(self: AnyTensor, value: Any) -> Any:
    """Write `value`, a number or a 0-dim tensor, to every element."""
    if not isinstance(self, Variable):
        raise TypeError(f"fill_(): argument 'input' (position 1) must be Tensor, not {type(self).__name__}")
    if not isinstance(value, Variable):
        value = setting("fill_", "value", "Number", 0).take(value)
        return overwrite(OPS["fill_number_"], self, "copy_into", (check_fits(value, self._dtype),), (value,))
    if value._array.ndim:
        raise RuntimeError(
            f"fill_ only supports 0-dimension value tensor but got tensor with {value._array.ndim} dimensions."
        )
    value = functional.to(value, self._device)
    return overwrite(OPS["fill_tensor_"], self, "copy_into", (_cast(value, self),), (value,))


def zero_(self: AnyTensor) -> Any:
    """Write zero to every element."""
    return overwrite(OPS["zero"], self, "copy_into", (0,), ())


def _cast(value: Any, self: AnyTensor) -> Any:
    """Return the array of a tensor in the dtype of `self`."""
    if value._dtype is self._dtype:
        return value._array
    if value._dtype.is_complex:
        warn_of_real_parts(self._dtype)
    return local.state.run(self._device.kernels["astype"], value._array, self._dtype.numpy)


def copy_(self: AnyTensor, src: Any, non_blocking: bool = False) -> Any:
    """Write the elements of `src`, broadcast and converted, to this tensor.

    Parameters
    ----------
    src : Tensor
        May lie on another device.
    non_blocking : bool
        Whether the host may go on before a copy between devices is done.
    """
    if src.__class__ not in PLAIN_TYPES:
        if overriding := overriding_arguments((src,)):
            return hand_over(type(self).copy_, overriding, (self, src), {})
        if isinstance(src, dispatch.Number):
            src = functional.full((), src, dtype=_python_type(src), device=self._device)
        elif not isinstance(src, Variable):
            src = functional.as_tensor(src, device=self._device)
    if src._array.shape != self._array.shape:
        expand_shape(src._array.shape, self._array.shape)
    if src._device is not self._device and src._device.real is not self._device.real:
        src = functional.to(src, self._device, non_blocking=non_blocking)
    return overwrite(OPS["copy"], self, "copy_into", (_cast(src, self),), (src, non_blocking))


def _python_type(number: Any) -> type | None:
    """Return the Python type of a number (bool, int, float or complex), or None."""
    return next((kind for kind in (bool, int, float, complex) if isinstance(number, kind)), None)


def index_put_(self: AnyTensor, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """Write `values` (broadcast) to the elements given by a tuple of integer or bool tensors, or add them there."""
    if not isinstance(values, Variable):
        raise TypeError(f"index_put_(): argument 'values' (position 2) must be Tensor, not {type(values).__name__}")
    if isinstance(indices, Variable):
        raise TypeError("index_put_(): argument 'indices' (position 1) must be tuple of Tensors, not Tensor")
    return _put(self, as_indices(functional, self, indices), values, accumulate)


def _put(self: AnyTensor, indices: tuple[Any, ...], values: AnyTensor, accumulate: bool) -> Any:
    """Write like `index_put_`, with index tensors that have been checked."""
    values = convert_values(functional, self, indices, values, accumulate)
    values = _outside_batches(values, self)
    inner = {level for t in (values, *indices) if t is not None for level in t._device.levels}
    if not inner.issubset(self._device.levels):
        raise RuntimeError(INPLACE)
    device = self._device
    if values._device is not device:
        values = functional.to(values, device)
    on_other_device = any([i is not None and i._device is not device for i in indices])  # noqa: C419
    arrays = tuple(
        [dispatch.index_array(i, device) if on_other_device else None if i is None else i._array for i in indices]
    )
    return overwrite(
        OPS["index_write"],
        self,
        "index_into",
        (values._array, arrays, accumulate),
        (values, indices, accumulate),
    )


def setitem(self: AnyTensor, key: Any, value: Any) -> None:
    """Write `value`, a number or a tensor that is broadcast, to the elements at `key`.

    Parameters
    ----------
    key : object
        As for reading.
    value : Tensor or number
    """
    if value.__class__ is int and not -0x8000000000000000 <= value < 0x8000000000000000:
        raise ValueError("Overflow when unpacking long long")
    if key is False or _write_directly(self, key, value):
        return
    kind = key.__class__
    if kind is int or kind is slice or (kind is tuple and as_view_key(key, self._array.shape) is not None):
        part, indices = getitem(self, key), None
    else:
        part, indices = resolve(self, key)
    if value.__class__ not in PLAIN_TYPES:
        if isinstance(value, (np.ndarray, np.generic)):
            value = functional.as_tensor(value, device=self._device)
        elif overriding := overriding_arguments((value,)):
            hand_over(type(self).__setitem__, overriding, (self, key, value), {})
            return
        elif not isinstance(value, (dispatch.Number, Variable)):
            raise TypeError(f"can't assign a {type(value).__name__} to a torch.{self._dtype.scalar_name}Tensor")
    try:
        if indices is None:
            if part._array.shape == self._array.shape and _is_whole(part, self):
                part = self
            _write_view(part, value)
            return
        if not isinstance(value, Variable):
            value = functional.full((), check_fits(value, self._dtype), dtype=self._dtype, device=self._device)
        _put(part, indices, _remove_leading_ones(value, part._array.ndim), accumulate=False)
    except BaseException as error:
        shorten(error)
        raise


def _write_directly(self: AnyTensor, key: Any, value: Any) -> bool:
    """Write without the general path if nothing is recorded, and device and dtype agree.

    Return whether that was done.
    """
    if self._autograd is not None or self._edge is not None or local.state.mode > GRAD or self._device.guarded:
        return False
    kind = key.__class__
    if kind is not int and kind is not slice and (kind is not tuple or as_view_key(key, self._array.shape) is None):
        return False
    if value.__class__ not in (int, float, bool):
        if value.__class__ not in PLAIN_TYPES or requires_grad(value):
            return False
        if value._dtype is not self._dtype or value._device is not self._device:
            return False
        value = value._array
    try:
        local.state.run(operator.setitem, self._array, key, value)
    except (IndexError, OverflowError, TypeError, ValueError):
        return False  # the general path raises the error
    bump(self)
    return True


def _is_whole(part: Any, self: AnyTensor) -> bool:
    """Return whether the last view operation of `part` selected the whole of its base."""
    if part._autograd is None or not part._autograd.chain:
        return False
    op, settings = part._autograd.chain[-1]
    if op is OPS["slice_of"]:
        _, start, stop, step = settings
        return step == 1 and not start and (stop is None or stop >= self._array.shape[0])
    return op is OPS["getitem"] and settings[1] == "AliasBackward0"


def _write_view(part: Any, value: Any) -> None:
    if not isinstance(value, Variable):
        part.fill_(value)
        return
    if _is_same_view(value, part):  # x[key] += y has written to the view already
        dispatch.check_inplace(part, local.state)
        return
    if not value._array.ndim:
        part.fill_(value)
    else:
        copy_(part, _remove_leading_ones(value, part._array.ndim))


def _is_same_view(value: Any, part: Any) -> bool:
    """Return whether `value` is the part of the tensor that is about to be written, with the same history."""
    meta, part_meta = value._autograd, part._autograd
    if (
        meta is None
        or part_meta is None
        or meta.base is None
        or meta.base is not part_meta.base
        or meta.chain != part_meta.chain
    ):
        return False
    if meta.requires_grad or meta.creation != part_meta.creation:
        return False
    return (gradient_edge(value) is None) is (gradient_edge(part) is None)


def _remove_leading_ones(value: Any, ndim: int) -> Any:
    """Return `value` without leading dims of size 1 beyond `ndim` dims."""
    shape = value._array.shape
    extra = len(shape) - ndim
    if extra > 0 and all(n == 1 for n in shape[:extra]):
        return functional.reshape(value, shape[extra:])
    return value


def fill_diagonal_(self: AnyTensor, fill_value: Any, wrap: bool = False) -> Any:
    """Write a number to the diagonal of a matrix, or of a tensor whose dims have one size.

    Parameters
    ----------
    fill_value : number
    wrap : bool
        Whether the diagonal of a tall matrix starts anew below its end, one row apart.
    """
    fill_value = setting("fill_diagonal_", "fill_value", "Number", 0).take(fill_value)
    shape = self._array.shape
    if len(shape) < 2:
        raise RuntimeError("dimensions must larger than 1")
    if len(shape) > 2:
        if len(set(shape)) != 1:
            raise RuntimeError("all dimensions of input must be of equal length")
        size, stride = shape[0], sum(self.stride())
        functional.as_strided(self, (size,), (stride,), self.storage_offset()).fill_(fill_value)
        return self
    functional.diagonal(self).fill_(fill_value)
    rows, columns = shape
    if wrap:
        for start in range(columns + 1, rows, columns + 1):
            functional.diagonal(functional.slice_of(self, 0, start)).fill_(fill_value)
    return self
