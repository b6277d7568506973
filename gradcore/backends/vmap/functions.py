"""Batching rules of NumPy's functions: apply them to all samples, with axes shifted by the batch dim."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from gradcore.backends.numpy_rules import as_shape, new_axes_key, permuted_axes
from gradcore.backends.vmap import calls
from gradcore.backends.vmap.array import (
    LIBRARIES,
    RULES,
    BatchedArray,
    align_batch,
    apply,
    arange_like,
    library_function,
    outermost,
    physical,
    rewrap,
    shift_axes,
    split_batch,
)
from gradcore.backends.vmap.messages import CONTROL_FLOW, DYNAMIC, INPLACE

__all__ = ["matmul"]

rule = RULES.register

# -- element by element -------------------------------------------------------------------------------------------


def _elementwise(function: Any) -> Callable[..., Any]:
    def call(*operands: Any, **kwargs: Any) -> Any:
        return library_function(function, *operands)(*operands, **kwargs)

    return functools.partial(_call_elementwise, call)


def _call_elementwise(call: Callable[..., Any], level: Any, *args: Any, **kwargs: Any) -> Any:
    return calls.call_elementwise(level, call, *args, **kwargs)


RULES.register_each(
    "angle around clip fix i0 isclose isneginf isposinf nan_to_num real_if_close round sinc", _elementwise
)


@rule("where")
def _where(level: Any, condition: Any, *values: Any) -> Any:
    if not values:
        raise RuntimeError(DYNAMIC.format(name="where"))
    return _elementwise(np.where)(level, condition, *values)


rule("real")(lambda level, val: val.real)
rule("imag")(lambda level, val: val.imag)
rule("shape")(lambda level, a: a.shape)
rule("ndim")(lambda level, a: a.ndim)
rule("size")(lambda level, a, axis=None: a.size if axis is None else a.shape[axis])


@rule("can_cast iscomplexobj isrealobj result_type")
def _result_type_rule(level: Any, *args: Any) -> Any:
    return np.result_type(*[getattr(a, "dtype", a) for a in args])


@rule("copy")
def _copy(level: Any, a: Any, order: str = "K", subok: bool = False) -> Any:
    return a.copy(order)


@rule("may_share_memory shares_memory")
def _shares_memory(level: Any, a: Any, b: Any, *args: Any, **kwargs: Any) -> bool:
    a, b = split_batch(a, level)[0], split_batch(b, level)[0]
    return bool(library_function(np.shares_memory, a, b)(a, b, *args, **kwargs))


@rule("copyto")
def _copyto(level: Any, dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    if dst.__class__ is not BatchedArray or dst.level is not level:
        raise RuntimeError(INPLACE)
    ndim = dst.ndim
    copy = library_function(np.copyto, dst.array)
    copy(dst.array, align_batch(src, level, ndim), casting, align_batch(where, level, ndim))


# -- along axes ---------------------------------------------------------------------------------------------------


def _flat(a: Any) -> Any:
    return a.reshape(a.shape[0], -1)


def _reduction(function: Any) -> Callable[..., Any]:
    def run(level: Any, a: Any, axis: Any = None, *args: Any, **kwargs: Any) -> Any:
        kwargs.pop("out", None)
        a = physical(a, level)
        if kwargs.get("initial").__class__ is BatchedArray:
            raise NotImplementedError(f"vmap: {function.__name__} with an initial value for each sample")
        for operand in ("where", "mean"):
            if operand in kwargs:
                kwargs[operand] = align_batch(kwargs[operand], level, a.ndim - 1)
        return rewrap(library_function(function, a)(a, shift_axes(axis, a.ndim - 1), *args, **kwargs), level)

    return run


RULES.register_each(
    "all amax amin any count_nonzero max mean median min nanmax nanmean nanmin nanprod nanstd nansum nanvar prod ptp "
    "std sum var",
    _reduction,
)


def _search(function: Any) -> Callable[..., Any]:
    def run(level: Any, a: Any, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> Any:
        a = physical(a, level)
        search = library_function(function, a)
        if axis is None:
            positions = search(_flat(a), axis=1)
            return BatchedArray(
                positions.reshape(positions.shape + (1,) * (a.ndim - 1)) if keepdims else positions, level
            )
        return BatchedArray(search(a, axis=shift_axes(axis, a.ndim - 1), keepdims=keepdims), level)

    return run


RULES.register_each("argmax argmin nanargmax nanargmin", _search)


def _make_axis_rule(function: Any, default: Any = None, flattens: bool = True) -> Callable[..., Any]:
    """Return the rule of a function of an array and an axis that keeps the number of dims."""

    def run(level: Any, a: Any, axis: Any = default, **kwargs: Any) -> Any:
        kwargs.pop("out", None)
        a = physical(a, level)
        if axis is None and flattens:
            a, axis = _flat(a), 0
        return BatchedArray(library_function(function, a)(a, axis=shift_axes(axis, a.ndim - 1), **kwargs), level)

    return run


RULES.register_each("sort argsort", lambda f: _make_axis_rule(f, -1))
RULES.register_each("cumsum cumprod nancumsum nancumprod", _make_axis_rule)
RULES.register_each("flip", lambda f: _make_axis_rule(f, flattens=False))


def _partition(function: Any) -> Callable[..., Any]:
    def run(level: Any, a: Any, kth: Any, axis: Any = -1, **kwargs: Any) -> Any:
        a = physical(a, level)
        return BatchedArray(library_function(function, a)(a, kth, axis=shift_axes(axis, a.ndim - 1), **kwargs), level)

    return run


RULES.register_each("partition argpartition", _partition)


@rule("roll")
def _roll(level: Any, a: Any, shift: Any, axis: Any = None) -> Any:
    a = physical(a, level)
    if axis is None:
        return BatchedArray(library_function(np.roll, a)(_flat(a), shift, 1).reshape(a.shape), level)
    return BatchedArray(library_function(np.roll, a)(a, shift, shift_axes(axis, a.ndim - 1)), level)


@rule("repeat")
def _repeat(level: Any, a: Any, repeats: Any, axis: Any = None) -> Any:
    if repeats.__class__ is BatchedArray:
        raise RuntimeError(DYNAMIC.format(name="repeat_interleave"))
    a = physical(a, level)
    if axis is None:
        return BatchedArray(library_function(np.repeat, a)(_flat(a), repeats, 1), level)
    return BatchedArray(library_function(np.repeat, a)(a, repeats, shift_axes(axis, a.ndim - 1)), level)


@rule("take")
def _take(level: Any, a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Any:
    if axis is None:
        a, axis = a.reshape(-1), 0
    axis = normalize_axis_index(axis, a.ndim)
    if indices.__class__ is BatchedArray:  # at this level or at another
        a = a if a.__class__ is BatchedArray and a.level is level else BatchedArray(physical(a, level), level)
        return a[(slice(None),) * axis + (indices,)]
    a = physical(a, level)
    return BatchedArray(library_function(np.take, a)(a, indices, axis + 1), level)


@rule("take_along_axis")
def _take_along_axis(level: Any, arr: Any, indices: Any, axis: Any = -1) -> Any:
    a, i = physical(arr, level), physical(indices, level)
    take = library_function(np.take_along_axis, a, i)
    if axis is None:
        return BatchedArray(take(_flat(a), i, 1), level)
    return BatchedArray(take(a, i, shift_axes(axis, a.ndim - 1)), level)


@rule("put_along_axis")
def _put_along_axis(level: Any, arr: Any, indices: Any, values: Any, axis: Any) -> None:
    if arr.__class__ is not BatchedArray or arr.level is not level:
        raise RuntimeError(INPLACE)
    a = arr.array
    function = library_function(np.put_along_axis, a)
    function(a, physical(indices, level), align_batch(values, level, a.ndim - 1), shift_axes(axis, a.ndim - 1))


@rule("lexsort")
def _lexsort(level: Any, keys: Any, axis: int = -1) -> Any:
    keys = [physical(k, level) for k in keys]
    return BatchedArray(library_function(np.lexsort, *keys)(keys, axis=shift_axes(axis, keys[0].ndim - 1)), level)


@rule("searchsorted")
def _search_sorted(level: Any, a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    a, is_batched = split_batch(a, level)
    if is_batched:
        raise NotImplementedError("vmap: searchsorted of a batch of sorted sequences")
    v = physical(v, level)
    return BatchedArray(library_function(np.searchsorted, a, v)(a, v, side), level)


# -- views --------------------------------------------------------------------------------------------------------


def _permutation(function: Any) -> Callable[..., Any]:
    def view(level: Any, a: Any, *args: Any, **kwargs: Any) -> Any:
        order = permuted_axes(function, a.ndim, *args, **kwargs)
        return BatchedArray(a.array.transpose((0, *(i + 1 for i in order))), level)

    return view


RULES.register_each("matrix_transpose moveaxis permute_dims rollaxis swapaxes transpose", _permutation)


@rule("reshape")
def _reshape(level: Any, a: Any, shape: Any, order: str = "C", **kwargs: Any) -> Any:
    return a.reshape(shape, order=order)


@rule("ravel")
def _ravel(level: Any, a: Any, order: str = "C") -> Any:
    return a.reshape(-1, order=order)


@rule("broadcast_to")
def _broadcast_to(level: Any, array: Any, shape: Any, subok: bool = False) -> Any:
    shape = as_shape(shape)
    if len(shape) < array.ndim:
        raise ValueError(f"cannot broadcast an array of shape {array.shape} to shape {tuple(shape)}")
    a = align_batch(array, level, len(shape))
    out = library_function(np.broadcast_to, a)(a, (level.size, *shape))
    if out.__class__ is np.ndarray and a.flags.writeable:
        # Kernels may fill the view with one value.
        out.flags.writeable = True
    return BatchedArray(out, level)


@rule("broadcast_arrays")
def _broadcast_arrays(level: Any, *arrays: Any, subok: bool = False) -> Any:
    shape = np.broadcast_shapes(*(np.shape(a) if a.__class__ is not BatchedArray else a.shape for a in arrays))
    return tuple(np.broadcast_to(a, shape) for a in arrays)


@rule("expand_dims")
def _expand_dims(level: Any, a: Any, axis: Any) -> Any:
    return a[new_axes_key(a.ndim, axis)]


@rule("squeeze")
def _squeeze(level: Any, a: Any, axis: Any = None) -> Any:
    if axis is None:
        axis = tuple(i for i, n in enumerate(a.shape) if n == 1)
    return BatchedArray(library_function(np.squeeze, a.array)(a.array, shift_axes(axis, a.ndim)), level)


@rule("rot90")
def _rot90(level: Any, m: Any, k: int = 1, axes: Sequence[int] = (0, 1)) -> Any:
    return BatchedArray(library_function(np.rot90, m.array)(m.array, k, shift_axes(axes, m.ndim)), level)


def _make_diagonal_rule(function: Any) -> Callable[..., Any]:
    def run(level: Any, a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, *args: Any, **kwargs: Any) -> Any:
        kwargs.pop("out", None)
        axes = shift_axes((axis1, axis2), a.ndim)
        return BatchedArray(library_function(function, a.array)(a.array, offset, *axes, *args, **kwargs), level)

    return run


RULES.register_each("diagonal trace", _make_diagonal_rule)


@rule("diag")
def _diag(level: Any, v: Any, k: int = 0) -> Any:
    if v.ndim == 2:
        return v.diagonal(k)
    n = v.shape[0] + abs(k)
    out = library_function(np.zeros, v.array)((level.size, n, n), v.dtype)
    positions = arange_like(v.shape[0], v)
    out[:, positions + max(-k, 0), positions + max(k, 0)] = v.array
    return BatchedArray(out, level)


def _triangle(function: Any) -> Callable[..., Any]:
    def run(level: Any, m: Any, k: int = 0) -> Any:
        rows = m.array if m.ndim > 1 else physical(library_function(np.broadcast_to, m)(m, (m.size, m.size)), level)
        return BatchedArray(library_function(function, rows)(rows, k), level)

    return run


RULES.register_each("tril triu", _triangle)


@rule("lib.stride_tricks.sliding_window_view")
def _sliding_window_view(level: Any, x: Any, window_shape: Any, axis: Any = None, **kwargs: Any) -> Any:
    view = LIBRARIES.get(x.array.__class__, np).lib.stride_tricks.sliding_window_view
    return BatchedArray(view(x.array, window_shape, shift_axes(axis, x.ndim), **kwargs), level)


def as_strided(xp: Any, level: Any, x: Any, shape: Any = None, strides: Any = None, **kwargs: Any) -> Any:
    """Do what `numpy.lib.stride_tricks.as_strided` does, which does not dispatch by a protocol."""
    shape = x.shape if shape is None else tuple(shape)
    strides = x.strides if strides is None else tuple(strides)
    if x.__class__ is not BatchedArray or x.level is not level:
        return xp.lib.stride_tricks.as_strided(x, shape, strides)
    a = x.array
    inner = a.__class__ is BatchedArray
    batch_dim = (a.shape[0],), (a.strides[0],)
    if inner:
        result: Any = as_strided(xp, a.level, a, batch_dim[0] + shape, batch_dim[1] + strides)
    else:
        result = xp.lib.stride_tricks.as_strided(a, batch_dim[0] + shape, batch_dim[1] + strides)
    return BatchedArray(result, level)


# -- joins --------------------------------------------------------------------------------------------------------


def _join_parts(function: Any, parts: list[Any], axis: int, **kwargs: Any) -> Any:
    """Join parts by `function`. Some can be batched at another level, whose rule is called."""
    if any(p.__class__ is BatchedArray for p in parts):
        return RULES[function](outermost(parts), parts, axis, **kwargs)
    return library_function(function, *parts)(parts, axis, **kwargs)


@rule("concatenate concat")
def _concatenate(level: Any, arrays: Any, axis: Any = 0, out: Any = None, **kwargs: Any) -> Any:
    parts = [physical(a, level) for a in arrays]
    if axis is None:
        parts, axis = [_flat(p) for p in parts], 0
    return BatchedArray(_join_parts(np.concatenate, parts, shift_axes(axis, parts[0].ndim - 1), **kwargs), level)


@rule("stack")
def _stack(level: Any, arrays: Any, axis: int = 0, **kwargs: Any) -> Any:
    parts = [physical(a, level) for a in arrays]
    return BatchedArray(_join_parts(np.stack, parts, shift_axes(axis, parts[0].ndim)), level)


@rule("pad")
def _pad(level: Any, array: Any, pad_width: Any, *args: Any, **kwargs: Any) -> Any:
    widths = np.broadcast_to(pad_width, (array.ndim, 2)).tolist()
    return BatchedArray(library_function(np.pad, array.array)(array.array, [(0, 0), *widths], *args, **kwargs), level)


# -- products -----------------------------------------------------------------------------------------------------


def matmul(level: Any, product: Callable[..., Any], a: Any, b: Any) -> Any:
    """Return the matrix product of each sample, as one large product if only one side is batched."""
    (x, many_x), (y, many_y) = split_batch(a, level), split_batch(b, level)
    n, m = a.ndim, b.ndim
    if not (many_x or many_y) or not n or not m:
        result = product(x, y)
        if not calls.is_batched(level, (a, b)):
            return result
        return BatchedArray(result if many_x or many_y else physical(result, level).copy(), level)
    if many_x and not many_y and m <= 2:
        return BatchedArray(product(x, y), level)
    if many_x:
        x = x.reshape(x.shape[0], *(1,) * max(m - max(n, 2), 0), *((1,) if n == 1 else ()), *x.shape[1:])
    elif n == 1:
        x = x[None]
    if many_y:
        y = y.reshape(y.shape[0], *(1,) * max(n - max(m, 2), 0), *y.shape[1:], *((1,) if m == 1 else ()))
    elif m == 1:
        y = y[:, None]
    if not many_x and x.ndim == 2 == y.ndim - 1:
        # One product with the samples' columns side by side.
        result = product(y.swapaxes(-1, -2), x.swapaxes(-1, -2)).swapaxes(-1, -2)
    else:
        result = product(x, y)
    if m == 1:
        result = result[..., 0]
    if n == 1:
        result = result[..., 0] if m == 1 else result[..., 0, :]
    return BatchedArray(result, level)


def _matmul(level: Any, a: Any, b: Any, out: Any = None, **kwargs: Any) -> Any:
    result = matmul(level, operator.matmul, a, b)
    if out is None:
        return result
    (target,) = out if isinstance(out, tuple) else (out,)
    target[...] = result
    return target


RULES[np.matmul] = _matmul


@rule("vecdot")
def _vecdot(level: Any, a: Any, b: Any, out: Any = None, axis: int = -1) -> Any:
    if axis != -1:
        a, b = np.moveaxis(a, axis, -1), np.moveaxis(b, axis, -1)
    return calls.call_elementwise(level, lambda x, y: apply(np.vecdot, "__call__", x, y), a, b)


@rule("dot")
def _dot(level: Any, a: Any, b: Any, out: Any = None) -> Any:
    return a * b if not np.ndim(a) or not np.ndim(b) else a @ b


@rule("einsum")
def _einsum(level: Any, subscripts: Any, *operands: Any, **kwargs: Any) -> Any:
    if not isinstance(subscripts, str):
        raise NotImplementedError("vmap: einsum with lists of dims; write the equation as a string")
    ins, _, result = subscripts.replace(" ", "").partition("->")
    batch = next(c for c in "ZYXWVU" if c not in subscripts)
    pairs = [split_batch(o, level) for o in operands]
    terms = [batch * several + term for term, (_, several) in zip(ins.split(","), pairs, strict=True)]
    arrays = [a for a, _ in pairs]
    return BatchedArray(
        library_function(np.einsum, *arrays)(f"{','.join(terms)}->{batch}{result}", *arrays, **kwargs), level
    )


# -- what has another shape for every sample ------------------------------------------------------------------------


def _make_refusal(function: Any) -> Callable[..., Any]:
    """Return a rule that raises for batched arguments, as the result's shape depends on data."""

    def refuse(level: Any, *args: Any, **kwargs: Any) -> Any:
        shared = [split_batch(a, level) for a in args]
        if not any(several for _, several in shared):  # the same for all samples
            arrays = [a for a, _ in shared]
            return library_function(function, *arrays)(*arrays, **kwargs)
        raise RuntimeError(DYNAMIC.format(name=function.__name__))

    return refuse


RULES.register_each(
    "argwhere bincount compress extract flatnonzero histogram nonzero unique unique_all unique_counts unique_inverse "
    "unique_values",
    _make_refusal,
)


@rule("allclose array_equal array_equiv")
def _refuse_comparison(level: Any, *args: Any, **kwargs: Any) -> Any:
    raise RuntimeError(CONTROL_FLOW)
