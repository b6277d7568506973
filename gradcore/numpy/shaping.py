"""NumPy's functions that rearrange, join and split arrays, on tensors."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from operator import index
from typing import Any, SupportsIndex

import numpy as np

from gradcore import functional as F
from gradcore.core import dtypes
from gradcore.core.typing import AnyTensor, ArrayLike, Axis, DeviceLike, DTypeLike, ShapeLike
from gradcore.numpy.conversion import (
    axes_of,
    axis_of,
    cast,
    dtype_of,
    holds_tensors,
    promote,
    sizes,
    tensor_of,
    write_out,
)
from gradcore.tensor import Tensor

__all__ = [
    "append", "array_split", "astype", "atleast_1d", "atleast_2d", "atleast_3d", "block", "broadcast_arrays",
    "broadcast_shapes", "broadcast_to", "column_stack", "concat", "concatenate", "copy", "delete", "diag",
    "diagflat", "diagonal", "dsplit", "dstack", "expand_dims", "flip", "fliplr", "flipud", "hsplit", "hstack",
    "insert", "matrix_transpose", "moveaxis", "pad", "permute_dims", "ravel", "repeat", "reshape", "resize", "roll",
    "rollaxis", "rot90", "split", "squeeze", "stack", "swapaxes", "tile", "trace", "transpose", "tril", "trim_zeros",
    "triu", "unstack", "vsplit", "vstack",
]  # fmt: skip


# -- shapes ---------------------------------------------------------------------------------------------------------


def reshape(a: ArrayLike, /, shape: ShapeLike, order: str = "C", *, copy: bool | None = None) -> Tensor:
    if order == "C" and copy is None and shape.__class__ is tuple:
        return F.reshape(tensor_of(a), shape)
    x, new_shape, order = tensor_of(a), sizes(shape), order.upper()
    if order == "K":
        raise ValueError("order 'K' is not permitted for reshaping")
    if order not in ("C", "F", "A"):
        raise ValueError(f"order must be one of 'C', 'F', 'A', or 'K' (got {order!r})")
    if order == "C" or (order == "A" and (x.is_contiguous() or not transpose(x).is_contiguous())):
        result = F.reshape(x, new_shape)
    else:
        if -1 in new_shape:
            new_shape = tuple(np.empty(x.shape, np.bool_).reshape(new_shape).shape)
        result = transpose(F.reshape(transpose(x), new_shape[::-1]))
    if copy is False and result._vc is not x._vc:
        raise ValueError("Unable to avoid creating a copy while reshaping.")
    return F.clone(result) if copy else result


def ravel(a: ArrayLike, order: str = "C") -> Tensor:
    if order in ("K", "k"):
        x = tensor_of(a)
        return F.reshape(F.permute(x, _axes_in_memory(x.stride())), (-1,))
    return reshape(a, -1, order)


def _axes_in_memory(strides: Sequence[int]) -> tuple[int, ...]:
    """Return the axes in the order of memory, outermost first; axes of stride 0 stay where NumPy's iterators do."""
    axes: list[int] = []  # from the smallest stride on
    for axis in reversed(range(len(strides))):
        place = len(axes)
        for k in reversed(range(len(axes))):
            if strides[axis] and strides[axes[k]]:
                if strides[axes[k]] <= strides[axis]:
                    break
                place = k
        axes.insert(place, axis)
    return tuple(axes[::-1])


def transpose(a: ArrayLike, axes: Axis = None) -> Tensor:
    x = tensor_of(a)
    return F.permute(x, tuple(range(x.ndim))[::-1] if axes is None else axes_of(axes, x.ndim))


def permute_dims(a: ArrayLike, axes: Axis = None) -> Tensor:
    return transpose(a, axes)


def matrix_transpose(x: ArrayLike, /) -> Tensor:
    t = tensor_of(x)
    if t.ndim < 2:
        raise ValueError(f"Input array must be at least 2-dimensional, but it is {t.ndim}")
    return t.mT


def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> Tensor:
    return F.transpose(tensor_of(a), axis1, axis2)


def moveaxis(a: ArrayLike, source: ArrayLike, destination: ArrayLike) -> Tensor:
    x = tensor_of(a)
    if source is None or destination is None:  # `axes_of` takes None for all axes
        raise TypeError("moveaxis() needs the axes to move and their destinations, but got None")
    return F.movedim(x, axes_of(source, x.ndim), axes_of(destination, x.ndim))


def rollaxis(a: ArrayLike, axis: int, start: int = 0) -> Tensor:
    x = tensor_of(a)
    order = list(range(x.ndim))
    axis, start = axis_of(axis, x.ndim), index(start) if start >= 0 else index(start) + x.ndim
    if not 0 <= start <= x.ndim:
        raise np.exceptions.AxisError(
            f"'start' arg requires {-x.ndim} <= start < {x.ndim + 1}, but {start} was passed in"
        )
    order.remove(axis)
    order.insert(start - 1 if axis < start else start, axis)
    return F.permute(x, tuple(order))


def expand_dims(a: ArrayLike, axis: SupportsIndex | Sequence[SupportsIndex]) -> Tensor:
    x = tensor_of(a)
    count = x.ndim + (len(axis) if isinstance(axis, Sequence) else 1)
    for each in sorted(axes_of(axis, count)):
        x = F.unsqueeze(x, each)
    return x


def squeeze(a: ArrayLike, axis: Axis = None) -> Tensor:
    x = tensor_of(a)
    if axis is None:
        return F.squeeze(x)
    axes = axes_of(axis, x.ndim)
    if builtins.any(x.shape[i] != 1 for i in axes):
        raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    return F.reshape(x, [n for i, n in enumerate(x.shape) if i not in axes])


def broadcast_to(array: ArrayLike, shape: ShapeLike, subok: bool = False) -> Tensor:
    new_shape = sizes(shape)
    if builtins.any(n < 0 for n in new_shape):
        raise ValueError("all elements of broadcast shape must be non-negative")
    return F.broadcast_to(tensor_of(array), new_shape)


def broadcast_arrays(*args: ArrayLike, subok: bool = False) -> tuple[Tensor, ...]:
    return tuple(F.broadcast_tensors(*(tensor_of(x) for x in args)))


def broadcast_shapes(*args: ArrayLike) -> tuple[int, ...]:
    return np.broadcast_shapes(*args)


def atleast_1d(*arys: ArrayLike) -> Any:
    return _apply_to_each(F.atleast_1d, arys)


def atleast_2d(*arys: ArrayLike) -> Tensor:
    return _apply_to_each(F.atleast_2d, arys)


def atleast_3d(*arys: ArrayLike) -> Tensor:
    return _apply_to_each(F.atleast_3d, arys)


def _apply_to_each(function: Any, values: Any) -> Any:
    result = tuple(function(tensor_of(x)) for x in values)
    return result[0] if len(result) == 1 else result


def astype(x: ArrayLike, dtype: DTypeLike, /, *, copy: bool = True, device: DeviceLike = None) -> Tensor:
    t = tensor_of(x)
    result = cast(t, dtype_of(dtype))
    return F.clone(result) if copy and result is t else result


def copy(a: ArrayLike, order: str = "K", subok: bool = False) -> Tensor:
    return F.clone(tensor_of(a))


def resize(a: ArrayLike, new_shape: ShapeLike) -> Tensor:
    x, shape = tensor_of(a).reshape(-1), sizes(new_shape)
    if builtins.any(n < 0 for n in shape):
        raise ValueError("all elements of `new_shape` must be non-negative")
    count = int(np.prod(shape))
    if not x.numel():
        return F.new_zeros(x, shape)
    return F.tile(x, (-(-count // x.numel()) or 1,))[:count].reshape(shape)


# -- order ----------------------------------------------------------------------------------------------------------


def flip(m: ArrayLike, axis: Axis = None) -> Tensor:
    x = tensor_of(m)
    return F.flip(x, axes_of(axis, x.ndim))


def fliplr(m: ArrayLike) -> Tensor:
    return F.fliplr(tensor_of(m))


def flipud(m: ArrayLike) -> Tensor:
    return F.flipud(tensor_of(m))


def roll(a: ArrayLike, shift: ArrayLike, axis: ArrayLike | None = None) -> Tensor:
    x = tensor_of(a)
    if axis is None:
        return F.roll(x.reshape(-1), (int(np.sum(shift)),), (0,)).reshape(x.shape)
    shifts, axes = np.broadcast_arrays(shift, axis)
    return F.roll(x, tuple(shifts.ravel().tolist()), tuple(axis_of(i, x.ndim) for i in axes.ravel().tolist()))


def rot90(m: ArrayLike, k: int = 1, axes: Sequence[int] = (0, 1)) -> Tensor:
    return F.rot90(tensor_of(m), k, tuple(axes))


# -- joining --------------------------------------------------------------------------------------------------------


def _join(operation: Any, arrays: Any, out: Any, dtype: Any, casting: Any, *args: Any) -> Any:
    tensors = promote(*arrays)
    if dtype is not None:
        result_dtype = dtype_of(dtype)
        if not np.can_cast(tensors[0]._dtype.numpy, result_dtype.numpy, casting):
            raise TypeError(
                f"Cannot cast array data from {tensors[0]._dtype.numpy!r} to {result_dtype.numpy!r} according to the "
                f"'{casting}'"
            )
        tensors = [cast(x, result_dtype) for x in tensors]
    return write_out(operation(tensors, *args), out)


def _are_alike(arrays: Any) -> bool:
    """Return whether all arrays are tensors with one dtype and one number of dims."""
    if arrays.__class__ not in (tuple, list) or not arrays or arrays[0].__class__ is not Tensor:
        return False
    dtype, ndim = arrays[0]._dtype, arrays[0]._array.ndim
    return ndim > 0 and builtins.all(
        x.__class__ is Tensor and x._dtype is dtype and x._array.ndim == ndim for x in arrays
    )


def concatenate(
    arrays: ArrayLike,
    /,
    axis: Axis = 0,
    out: Tensor | None = None,
    *,
    dtype: DTypeLike = None,
    casting: str = "same_kind",
) -> Tensor:
    if out is dtype is None and axis is not None and _are_alike(arrays):
        return F.cat(arrays, axis)
    arrays = [tensor_of(x) for x in arrays]
    if axis is None:
        arrays, axis = [x.reshape(-1) for x in arrays], 0
    dims = {x._array.ndim for x in arrays}
    if 0 in dims:
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    if len(dims) > 1:
        raise ValueError("all the input array dimensions must match: the arrays have different numbers of dimensions")
    return _join(F.cat, arrays, out, dtype, casting, axis)


concat = concatenate


def stack(
    arrays: ArrayLike, axis: int = 0, out: Tensor | None = None, *, dtype: DTypeLike = None, casting: str = "same_kind"
) -> Tensor:
    return _join(F.stack, [tensor_of(x) for x in arrays], out, dtype, casting, axis)


def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    return tuple(F.unbind(tensor_of(x), axis))


def hstack(tup: ArrayLike, *, dtype: DTypeLike = None, casting: str = "same_kind") -> Tensor:
    return _join(F.hstack, [tensor_of(x) for x in tup], None, dtype, casting)


def vstack(tup: ArrayLike, *, dtype: DTypeLike = None, casting: str = "same_kind") -> Tensor:
    return _join(F.vstack, [tensor_of(x) for x in tup], None, dtype, casting)


def dstack(tup: ArrayLike) -> Tensor:
    return _join(F.dstack, [tensor_of(x) for x in tup], None, None, "same_kind")


def column_stack(tup: ArrayLike) -> Tensor:
    return _join(F.column_stack, [tensor_of(x) for x in tup], None, None, "same_kind")


def block(arrays: ArrayLike) -> Tensor:
    depth, inner = 0, arrays
    while isinstance(inner, list):
        depth, inner = depth + 1, inner[0]
    leaves = [tensor_of(x) for x in _leaves(arrays)]
    ndim = builtins.max(depth, *(x.ndim for x in leaves)) if leaves else depth

    def assemble(value: Any, level: int) -> AnyTensor:
        if isinstance(value, list):
            return concatenate([assemble(each, level + 1) for each in value], axis=level - depth)
        x = tensor_of(value)
        return F.reshape(x, (1,) * (ndim - x.ndim) + tuple(x.shape))

    return assemble(arrays, 0)


def _leaves(value: Any) -> Any:
    if isinstance(value, list):
        for each in value:
            yield from _leaves(each)
    else:
        yield value


def append(arr: ArrayLike, values: ArrayLike, axis: Axis = None) -> Tensor:
    if axis is None:
        return concatenate((ravel(arr), ravel(values)))
    return concatenate((arr, values), axis=axis)


def _resolve_indices(obj: Any, size: int) -> np.ndarray[Any, Any]:
    """Convert a slice, number, sequence or mask that selects from `size` elements to an array of indices."""
    if isinstance(obj, Tensor):
        obj = np.asarray(obj.detach().cpu())
    if not isinstance(obj, slice):
        obj = np.asarray(obj)
        if obj.dtype == np.bool_ and obj.shape != (size,):
            raise ValueError(
                f"boolean array argument obj to delete must be one dimensional and match the axis length of {size}"
            )
        if not obj.size:
            obj = obj.astype(np.intp)
    return np.atleast_1d(np.arange(size)[obj])


def delete(arr: ArrayLike, obj: Any, axis: int | None = None) -> Tensor:
    x = tensor_of(arr)
    if axis is None:
        x, axis = x.reshape(-1), 0
    keep = np.ones(x.shape[axis], np.bool_)
    keep[_resolve_indices(obj, x.shape[axis])] = False
    return _take(x, np.flatnonzero(keep), axis)


def _take(x: Tensor, places: Any, axis: int) -> AnyTensor:
    return F.index_select(x, axis, tensor_of(np.asarray(places, np.int64)).to(x._device.real))


def insert(arr: ArrayLike, obj: Any, values: ArrayLike, axis: Axis = None) -> Tensor:
    x = tensor_of(arr)
    if axis is None:
        x, axis = x.reshape(-1), 0
    axis = axis_of(axis, x.ndim)
    size = x.shape[axis]
    v = cast(tensor_of(values).to(x._device.real), x._dtype)
    single = not isinstance(obj, slice) and np.ndim(obj if not isinstance(obj, Tensor) else obj.tolist()) == 0
    if isinstance(obj, slice):
        indices = np.arange(*obj.indices(size))
    else:
        indices = np.atleast_1d(np.asarray(obj.tolist() if isinstance(obj, Tensor) else obj))
        if (indices.size or isinstance(obj, (Tensor, np.ndarray))) and indices.dtype.kind not in "biu":
            raise IndexError(f"insert() takes indices that are integers or bools, but got {indices.dtype}")
        indices = np.flatnonzero(indices) if indices.dtype == np.bool_ else indices.astype(np.intp)
    if builtins.any(i < -size or i > size for i in indices):
        raise IndexError(f"index {indices} is out of bounds for axis {axis} with size {size}")
    indices = np.where(indices < 0, indices + size, indices)
    if len(indices) == 1:  # all values go to one place
        v = v if v.ndim >= x.ndim else v.reshape((1,) * (x.ndim - v.ndim) + tuple(v.shape))
        v = F.movedim(v, 0, axis) if single and axis and v.ndim > 1 else v
        count = v.shape[axis]
        indices = np.repeat(indices, count)
    count = len(indices)
    v = F.broadcast_to(v, [count if i == axis else n for i, n in enumerate(x.shape)])
    order = np.argsort(indices, kind="stable")
    places = np.empty(count, np.intp)
    places[order] = indices[order] + np.arange(count)
    source = np.zeros(size + count, np.intp)
    is_new = np.zeros(size + count, np.bool_)
    is_new[places] = True
    source[places] = size + np.arange(count)
    source[~is_new] = np.arange(size)
    return _take(F.cat([x, v], axis), source, axis)


# -- splitting ------------------------------------------------------------------------------------------------------


def _cuts(indices_or_sections: Any) -> Any:
    if isinstance(indices_or_sections, Tensor):
        indices_or_sections = indices_or_sections.tolist()
    several = np.ndim(indices_or_sections) > 0
    return [index(i) for i in indices_or_sections] if several else int(indices_or_sections)


def array_split(ary: ArrayLike, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    return list(F.tensor_split(tensor_of(ary), _cuts(indices_or_sections), axis))


def split(ary: ArrayLike, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    x, cuts = tensor_of(ary), _cuts(indices_or_sections)
    if isinstance(cuts, int) and x.shape[axis] % float(indices_or_sections):
        raise ValueError("array split does not result in an equal division")
    return array_split(x, cuts, axis)


def hsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Tensor]:
    x = tensor_of(ary)
    if not x.ndim:
        raise ValueError("hsplit only works on arrays of 1 or more dimensions")
    return split(x, indices_or_sections, 1 if x.ndim > 1 else 0)


def vsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Tensor]:
    if tensor_of(ary).ndim < 2:
        raise ValueError("vsplit only works on arrays of 2 or more dimensions")
    return split(ary, indices_or_sections, 0)


def dsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Tensor]:
    if tensor_of(ary).ndim < 3:
        raise ValueError("dsplit only works on arrays of 3 or more dimensions")
    return split(ary, indices_or_sections, 2)


# -- repeating ------------------------------------------------------------------------------------------------------


def repeat(a: ArrayLike, repeats: ArrayLike, axis: Axis = None) -> Tensor:
    x = tensor_of(a)
    if axis is None:
        x, axis = x.reshape(-1), 0
    if repeats.__class__ is not int:
        repeats = tensor_of(repeats).to(x._device.real)
        repeats = int(repeats.reshape(-1)[0]) if repeats.numel() == 1 else repeats
    return F.repeat_interleave(x, repeats, axis)


def tile(A: ArrayLike, reps: Any) -> Tensor:
    return F.tile(tensor_of(A), sizes(reps))


# -- diagonals ------------------------------------------------------------------------------------------------------


def diag(v: ArrayLike, k: int = 0) -> Tensor:
    return F.diag(tensor_of(v), k)


def diagflat(v: ArrayLike, k: int = 0) -> Tensor:
    return F.diagflat(tensor_of(v), k)


def diagonal(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    return F.diagonal(tensor_of(a), offset, axis1, axis2)


def trace(
    a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: DTypeLike = None, out: Tensor | None = None
) -> Tensor:
    from gradcore.numpy.reductions import sum as total

    return total(diagonal(a, offset, axis1, axis2), -1, dtype, out)


def tril(m: ArrayLike, k: int = 0) -> Tensor:
    return F.tril(_matrix(m), k)


def triu(m: ArrayLike, k: int = 0) -> Tensor:
    return F.triu(_matrix(m), k)


def _matrix(m: Any) -> AnyTensor:
    x = tensor_of(m)
    return F.broadcast_to(x, (x.shape[0], x.shape[0])) if x.ndim == 1 else x


# -- borders --------------------------------------------------------------------------------------------------------


def trim_zeros(filt: ArrayLike, trim: str = "fb", axis: Axis = None) -> Tensor:
    sides = trim.lower()
    if sides not in ("f", "b", "fb", "bf"):
        raise ValueError(f"unexpected character(s) in `trim`: {trim!r}")
    x = tensor_of(filt)
    nonzero = np.argwhere(np.asarray(x.detach().cpu()))
    key = [slice(None)] * x.ndim
    for i in axes_of(axis, x.ndim):
        first, last = (nonzero[:, i].min(), nonzero[:, i].max() + 1) if len(nonzero) else (x.shape[i], 0)
        key[i] = slice(int(first) if "f" in sides else 0, int(last) if "b" in sides else None)
    return x[tuple(key)]


#: Modes of `pad` that repeat elements of the array. NumPy pads the array's indices, and these are looked up.
_COPYING = ("edge", "reflect", "symmetric", "wrap")


def pad(array: ArrayLike, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Tensor:
    x = tensor_of(array)
    if callable(mode):
        raise TypeError("numpy.pad(mode=function) writes into arrays in place: use a mode by name, or concatenate")
    if isinstance(pad_width, dict):
        pad_width = [pad_width.get(i, pad_width.get(i - x.ndim, 0)) for i in range(x.ndim)]
        pad_width = [(p, p) if np.ndim(p) == 0 else tuple(p) for p in pad_width]
    widths = np.broadcast_to(np.asarray(pad_width), (x.ndim, 2))
    if widths.dtype.kind not in "iu":
        raise TypeError("`pad_width` must be of integral type.")
    if (widths < 0).any():
        raise ValueError("index can't contain negative values")
    unsupported = set(kwargs) - {_setting_of(mode)}
    if unsupported:
        raise ValueError(f"unsupported keyword arguments for mode '{mode}': {unsupported}")
    if mode in _COPYING and kwargs.get("reflect_type", "even") == "even":
        for i, width in enumerate(widths):
            if width.any():
                x = _take(x, np.pad(np.arange(x.shape[i]), tuple(width), mode, **kwargs), i)
        return x
    return _padded_with_values(x, widths, mode, kwargs)


def _setting_of(mode: str) -> str:
    """Return the name of the setting of a mode of `numpy.pad`, or an empty string if there is none."""
    if mode in ("empty", "edge", "wrap"):
        return ""
    if mode in _COPYING:
        return "reflect_type"
    return {"constant": "constant_values", "linear_ramp": "end_values"}.get(mode, "stat_length")


def _expand_setting(setting: Any, x: Tensor) -> Any:
    """Broadcast a setting of `numpy.pad` to the shape ``(x.ndim, 2)``; it is a tensor if it contains tensors."""
    if isinstance(setting, Tensor) or (isinstance(setting, (list, tuple)) and holds_tensors(setting)):
        return F.broadcast_to(tensor_of(setting), (x.ndim, 2))
    return np.broadcast_to(np.asarray(setting, dtype=object), (x.ndim, 2))


def _number_like(value: Any, like: Tensor) -> AnyTensor:
    """Convert a number or one-element tensor to the dtype and device of `like`."""
    if isinstance(value, Tensor):
        return cast(value.to(like._device.real), like._dtype)
    if like._dtype.is_differentiable and not isinstance(value, complex):
        value = float(value)
    return F.full((), value, dtype=like._dtype, device=like._device.real)


def _padded_with_values(x: Tensor, widths: Any, mode: str, settings: dict[str, Any]) -> AnyTensor:
    from gradcore.numpy import reductions

    statistics: dict[str, Any] = {
        "maximum": reductions.max,
        "minimum": reductions.min,
        "mean": reductions.mean,
        "median": reductions.median,
    }
    if mode == "empty":
        mode = "constant"
    if mode not in statistics and mode not in ("constant", "linear_ramp"):
        if mode in _COPYING:
            raise TypeError("numpy.pad(reflect_type='odd') of tensors: concatenate 2 * edge - reflected parts")
        raise ValueError(f"mode '{mode}' is not supported")
    setting = settings.get(_setting_of(mode), None if mode in statistics else 0)
    values = _expand_setting(setting, x)
    for i, width in enumerate(widths):
        parts = [x]
        for side, count in enumerate(map(int, width)):
            size, value = x.shape[i], values[i][side]
            shape = [count if j == i else n for j, n in enumerate(x.shape)]
            if mode == "constant":
                border = F.broadcast_to(_number_like(value, x), shape)
            elif mode == "linear_ramp":
                steps = np.arange(count) / builtins.max(count, 1)
                weights = tensor_of(
                    steps if side == 0 else steps[::-1].copy(),
                    x._dtype if x._dtype.is_differentiable else dtypes.float64,
                )
                weights = weights.to(x._device.real).reshape([count if j == i else 1 for j in range(x.ndim)])
                end, edge = _number_like(value, weights), F.narrow(x, i, 0 if side == 0 else size - 1, 1)
                border = cast(end + (edge - end) * weights, x._dtype)
            else:
                length = size if value is None else builtins.min(int(value), size)
                section = F.narrow(x, i, 0 if side == 0 else size - length, length)
                statistic = statistics[mode](section, i, keepdims=True)
                border = F.broadcast_to(
                    cast(F.round(statistic) if not x._dtype.is_differentiable else statistic, x._dtype), shape
                )
            parts.insert(0 if side == 0 else len(parts), border)
        x = F.cat(parts, i)
    return x
