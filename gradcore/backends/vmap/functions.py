"""What NumPy's functions do on batched arrays: the same for each sample, with axes counted past the batch dim."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from gradcore.backends.vmap import calls
from gradcore.backends.vmap.array import (
    LIBRARIES,
    RULES,
    Batched,
    aligned,
    apply,
    counted,
    of_library,
    physical,
    rewrap,
    shifted,
    sizes,
    without,
)
from gradcore.backends.vmap.messages import CONTROL_FLOW, DYNAMIC, INPLACE

__all__ = ["matmul"]

R = TypeVar("R", bound=Callable[..., Any])


def find(names: str) -> Iterable[Any]:
    """NumPy's functions of these names, as far as the installed NumPy has them."""
    for name in names.split():
        found: Any = np
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is not None:
            yield found


def rule(names: str) -> Callable[[R], R]:
    """Say what functions do: called with the level and their arguments."""

    def register(function: R) -> R:
        RULES.update(dict.fromkeys(find(names), function))
        return function

    return register


# -- element by element -------------------------------------------------------------------------------------------

for _function in find("angle around clip fix i0 isclose isneginf isposinf nan_to_num real_if_close round sinc where"):
    RULES[_function] = lambda level, *args, _f=_function, **named: calls.elementwise(
        level, lambda *operands, **n: of_library(_f, *operands)(*operands, **n), *args, **named
    )

rule("real")(lambda level, val: val.real)
rule("imag")(lambda level, val: val.imag)
rule("shape")(lambda level, a: a.shape)
rule("ndim")(lambda level, a: a.ndim)
rule("size")(lambda level, a, axis=None: a.size if axis is None else a.shape[axis])


@rule("can_cast iscomplexobj isrealobj result_type")
def _of_dtypes(level: Any, *args: Any) -> Any:
    return np.result_type(*[getattr(a, "dtype", a) for a in args])


@rule("copy")
def _copy(level: Any, a: Any, order: str = "K", subok: bool = False) -> Any:
    return a.copy(order)


@rule("may_share_memory shares_memory")
def _shares_memory(level: Any, a: Any, b: Any, *args: Any, **named: Any) -> bool:
    a, b = without(a, level)[0], without(b, level)[0]
    return bool(of_library(np.shares_memory, a, b)(a, b, *args, **named))


@rule("copyto")
def _copyto(level: Any, dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    if dst.__class__ is not Batched or dst.level is not level:
        raise RuntimeError(INPLACE)
    ndim = dst.ndim
    copy = of_library(np.copyto, dst.array)
    copy(dst.array, aligned(src, level, ndim), casting, aligned(where, level, ndim))


# -- along axes ---------------------------------------------------------------------------------------------------


def _flat(a: Any) -> Any:
    return a.reshape(a.shape[0], -1)


def _reduction(function: Any) -> Callable[..., Any]:
    def run(level: Any, a: Any, axis: Any = None, *args: Any, **named: Any) -> Any:
        named.pop("out", None)
        a = physical(a, level)
        return rewrap(of_library(function, a)(a, shifted(axis, a.ndim - 1), *args, **named), level)

    return run


for _function in find(
    "all amax amin any count_nonzero max mean median min nanmax nanmean nanmin nanprod nanstd nansum nanvar prod ptp "
    "std sum var"
):
    RULES[_function] = _reduction(_function)


def _search(function: Any) -> Callable[..., Any]:
    def run(level: Any, a: Any, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> Any:
        a = physical(a, level)
        search = of_library(function, a)
        if axis is None:
            found = search(_flat(a), axis=1)
            return Batched(found.reshape(found.shape + (1,) * (a.ndim - 1)) if keepdims else found, level)
        return Batched(search(a, axis=shifted(axis, a.ndim - 1), keepdims=keepdims), level)

    return run


for _function in find("argmax argmin nanargmax nanargmin"):
    RULES[_function] = _search(_function)


def _along(function: Any, default: Any = None, flattens: bool = True) -> Callable[..., Any]:
    """Of a function of an array and an axis, by keyword or in second place, that keeps the dims."""

    def run(level: Any, a: Any, axis: Any = default, **named: Any) -> Any:
        named.pop("out", None)
        a = physical(a, level)
        if axis is None and flattens:
            a, axis = _flat(a), 0
        return Batched(of_library(function, a)(a, axis=shifted(axis, a.ndim - 1), **named), level)

    return run


for _function in find("sort argsort"):
    RULES[_function] = _along(_function, -1)
for _function in find("cumsum cumprod nancumsum nancumprod"):
    RULES[_function] = _along(_function)
for _function in find("flip"):
    RULES[_function] = _along(_function, flattens=False)


for _function in find("partition argpartition"):

    def _partitioned(level: Any, a: Any, kth: Any, axis: Any = -1, _f: Any = _function, **named: Any) -> Any:
        a = physical(a, level)
        return Batched(of_library(_f, a)(a, kth, axis=shifted(axis, a.ndim - 1), **named), level)

    RULES[_function] = _partitioned


@rule("roll")
def _roll(level: Any, a: Any, shift: Any, axis: Any = None) -> Any:
    a = physical(a, level)
    if axis is None:
        return Batched(of_library(np.roll, a)(_flat(a), shift, 1).reshape(a.shape), level)
    return Batched(of_library(np.roll, a)(a, shift, shifted(axis, a.ndim - 1)), level)


@rule("repeat")
def _repeat(level: Any, a: Any, repeats: Any, axis: Any = None) -> Any:
    if repeats.__class__ is Batched:
        raise RuntimeError(DYNAMIC.format(name="repeat_interleave"))
    a = physical(a, level)
    if axis is None:
        return Batched(of_library(np.repeat, a)(_flat(a), repeats, 1), level)
    return Batched(of_library(np.repeat, a)(a, repeats, shifted(axis, a.ndim - 1)), level)


@rule("take")
def _take(level: Any, a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Any:
    if axis is None:
        a, axis = a.reshape(-1), 0
    axis = normalize_axis_index(axis, a.ndim)
    if indices.__class__ is Batched:  # at this level or at another
        a = a if a.__class__ is Batched and a.level is level else Batched(physical(a, level), level)
        return a[(slice(None),) * axis + (indices,)]
    a = physical(a, level)
    return Batched(of_library(np.take, a)(a, indices, axis + 1), level)


@rule("take_along_axis")
def _take_along_axis(level: Any, arr: Any, indices: Any, axis: Any = -1) -> Any:
    a, i = physical(arr, level), physical(indices, level)
    take = of_library(np.take_along_axis, a, i)
    if axis is None:
        return Batched(take(_flat(a), i, 1), level)
    return Batched(take(a, i, shifted(axis, a.ndim - 1)), level)


@rule("put_along_axis")
def _put_along_axis(level: Any, arr: Any, indices: Any, values: Any, axis: Any) -> None:
    if arr.__class__ is not Batched or arr.level is not level:
        raise RuntimeError(INPLACE)
    a = arr.array
    put = of_library(np.put_along_axis, a)
    put(a, physical(indices, level), aligned(values, level, a.ndim - 1), shifted(axis, a.ndim - 1))


@rule("lexsort")
def _lexsort(level: Any, keys: Any, axis: int = -1) -> Any:
    keys = [physical(k, level) for k in keys]
    return Batched(of_library(np.lexsort, *keys)(keys, axis=shifted(axis, keys[0].ndim - 1)), level)


@rule("searchsorted")
def _searchsorted(level: Any, a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    a, several = without(a, level)
    if several:
        raise NotImplementedError("vmap: searchsorted of a batch of sorted sequences")
    v = physical(v, level)
    return Batched(of_library(np.searchsorted, a, v)(a, v, side), level)


# -- views --------------------------------------------------------------------------------------------------------


def _permutation(function: Any) -> Callable[..., Any]:
    def view(level: Any, a: Any, *args: Any, **named: Any) -> Any:
        # An empty array whose sizes number the dims shows where each of them goes.
        order = function(np.empty(range(a.ndim)), *args, **named).shape
        return Batched(a.array.transpose((0, *(i + 1 for i in order))), level)

    return view


for _function in find("matrix_transpose moveaxis permute_dims rollaxis swapaxes transpose"):
    RULES[_function] = _permutation(_function)


@rule("reshape")
def _reshape(level: Any, a: Any, shape: Any, order: str = "C", **named: Any) -> Any:
    return a.reshape(shape, order=order)


@rule("ravel")
def _ravel(level: Any, a: Any, order: str = "C") -> Any:
    return a.reshape(-1)


@rule("broadcast_to")
def _broadcast_to(level: Any, array: Any, shape: Any, subok: bool = False) -> Any:
    shape = sizes(shape)
    if len(shape) < array.ndim:
        raise ValueError(f"cannot broadcast an array of shape {array.shape} to shape {tuple(shape)}")
    a = aligned(array, level, len(shape))
    out = of_library(np.broadcast_to, a)(a, (level.size, *shape))
    if out.__class__ is np.ndarray and a.flags.writeable:  # a view may be filled with one value
        out.flags.writeable = True
    return Batched(out, level)


@rule("broadcast_arrays")
def _broadcast_arrays(level: Any, *arrays: Any, subok: bool = False) -> Any:
    shape = np.broadcast_shapes(*(np.shape(a) if a.__class__ is not Batched else a.shape for a in arrays))
    return tuple(np.broadcast_to(a, shape) for a in arrays)


@rule("expand_dims")
def _expand_dims(level: Any, a: Any, axis: Any) -> Any:
    axes = sizes(axis)
    axes = normalize_axis_tuple(axes, a.ndim + len(axes))
    return a[tuple(None if i in axes else slice(None) for i in range(a.ndim + len(axes)))]


@rule("squeeze")
def _squeeze(level: Any, a: Any, axis: Any = None) -> Any:
    if axis is None:
        axis = tuple(i for i, n in enumerate(a.shape) if n == 1)
    return Batched(of_library(np.squeeze, a.array)(a.array, shifted(axis, a.ndim)), level)


@rule("rot90")
def _rot90(level: Any, m: Any, k: int = 1, axes: Sequence[int] = (0, 1)) -> Any:
    return Batched(of_library(np.rot90, m.array)(m.array, k, shifted(axes, m.ndim)), level)


def _of_diagonal(function: Any) -> Callable[..., Any]:
    def run(level: Any, a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, *args: Any, **named: Any) -> Any:
        named.pop("out", None)
        axes = shifted((axis1, axis2), a.ndim)
        return Batched(of_library(function, a.array)(a.array, offset, *axes, *args, **named), level)

    return run


for _function in find("diagonal trace"):
    RULES[_function] = _of_diagonal(_function)


@rule("diag")
def _diag(level: Any, v: Any, k: int = 0) -> Any:
    if v.ndim == 2:
        return v.diagonal(k)
    n = v.shape[0] + abs(k)
    out = of_library(np.zeros, v.array)((level.size, n, n), v.dtype)
    place = counted(v.shape[0], v)
    out[:, place + max(-k, 0), place + max(k, 0)] = v.array
    return Batched(out, level)


for _function in find("tril triu"):
    RULES[_function] = lambda level, m, k=0, _f=_function: Batched(of_library(_f, m.array)(m.array, k), level)


@rule("lib.stride_tricks.sliding_window_view")
def _sliding_window_view(level: Any, x: Any, window_shape: Any, axis: Any = None, **named: Any) -> Any:
    view = LIBRARIES.get(x.array.__class__, np).lib.stride_tricks.sliding_window_view
    return Batched(view(x.array, window_shape, shifted(axis, x.ndim), **named), level)


def as_strided(xp: Any, level: Any, x: Any, shape: Any = None, strides: Any = None, **named: Any) -> Any:
    """`numpy.lib.stride_tricks.as_strided`, which no protocol reaches."""
    shape = x.shape if shape is None else tuple(shape)
    strides = x.strides if strides is None else tuple(strides)
    if x.__class__ is not Batched or x.level is not level:
        return xp.lib.stride_tricks.as_strided(x, shape, strides)
    a = x.array
    inner = a.__class__ is Batched
    lead = (a.shape[0],), (a.strides[0],)
    if inner:
        found: Any = as_strided(xp, a.level, a, lead[0] + shape, lead[1] + strides)
    else:
        found = xp.lib.stride_tricks.as_strided(a, lead[0] + shape, lead[1] + strides)
    return Batched(found, level)


# -- joins --------------------------------------------------------------------------------------------------------


@rule("concatenate concat")
def _concatenate(level: Any, arrays: Any, axis: Any = 0, out: Any = None, **named: Any) -> Any:
    parts = [physical(a, level) for a in arrays]
    if axis is None:
        parts, axis = [_flat(p) for p in parts], 0
    join = of_library(np.concatenate, *parts)
    return Batched(join(parts, shifted(axis, parts[0].ndim - 1), **named), level)


@rule("stack")
def _stack(level: Any, arrays: Any, axis: int = 0, **named: Any) -> Any:
    parts = [physical(a, level) for a in arrays]
    return Batched(of_library(np.stack, *parts)(parts, shifted(axis, parts[0].ndim)), level)


@rule("pad")
def _pad(level: Any, array: Any, pad_width: Any, *args: Any, **named: Any) -> Any:
    widths = np.broadcast_to(pad_width, (array.ndim, 2)).tolist()
    return Batched(of_library(np.pad, array.array)(array.array, [(0, 0), *widths], *args, **named), level)


# -- products -----------------------------------------------------------------------------------------------------


def matmul(level: Any, product: Callable[..., Any], a: Any, b: Any) -> Any:
    """The matrix product of each sample; one large product where only one side is batched."""
    (x, many_x), (y, many_y) = without(a, level), without(b, level)
    n, m = a.ndim, b.ndim
    if not (many_x or many_y) or not n or not m:
        found = product(x, y)
        if not calls.in_batch(level, (a, b)):
            return found
        return Batched(found if many_x or many_y else physical(found, level).copy(), level)
    if many_x and not many_y and m <= 2:
        return Batched(product(x, y), level)
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
        found = product(y.swapaxes(-1, -2), x.swapaxes(-1, -2)).swapaxes(-1, -2)
    else:
        found = product(x, y)
    if m == 1:
        found = found[..., 0]
    if n == 1:
        found = found[..., 0] if m == 1 else found[..., 0, :]
    return Batched(found, level)


def _matmul(level: Any, a: Any, b: Any, out: Any = None, **named: Any) -> Any:
    found = matmul(level, operator.matmul, a, b)
    if out is None:
        return found
    (target,) = out if isinstance(out, tuple) else (out,)
    target[...] = found
    return target


RULES[np.matmul] = _matmul


@rule("vecdot")
def _vecdot(level: Any, a: Any, b: Any, out: Any = None, **named: Any) -> Any:
    return calls.elementwise(level, lambda x, y: apply(np.vecdot, "__call__", x, y), a, b)


@rule("dot")
def _dot(level: Any, a: Any, b: Any, out: Any = None) -> Any:
    return a * b if not np.ndim(a) or not np.ndim(b) else a @ b


@rule("einsum")
def _einsum(level: Any, subscripts: str, *operands: Any, **named: Any) -> Any:
    ins, _, result = subscripts.replace(" ", "").partition("->")
    batch = next(c for c in "ZYXWVU" if c not in subscripts)
    pairs = [without(o, level) for o in operands]
    terms = [batch * several + term for term, (_, several) in zip(ins.split(","), pairs, strict=True)]
    arrays = [a for a, _ in pairs]
    return Batched(of_library(np.einsum, *arrays)(f"{','.join(terms)}->{batch}{result}", *arrays, **named), level)


# -- what has another shape for every sample ------------------------------------------------------------------------


def _refused(function: Any) -> Callable[..., Any]:
    def refuse(level: Any, *args: Any, **named: Any) -> Any:
        shared = [without(a, level) for a in args]
        if not any(several for _, several in shared):  # the same for all samples
            arrays = [a for a, _ in shared]
            return of_library(function, *arrays)(*arrays, **named)
        raise RuntimeError(DYNAMIC.format(name=function.__name__))

    return refuse


for _function in find(
    "argwhere bincount compress extract flatnonzero histogram nonzero unique unique_all unique_counts unique_inverse "
    "unique_values"
):
    RULES[_function] = _refused(_function)


@rule("allclose array_equal array_equiv")
def _compared(level: Any, *args: Any, **named: Any) -> Any:
    raise RuntimeError(CONTROL_FLOW)
