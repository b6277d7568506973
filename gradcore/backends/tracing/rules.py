"""What NumPy's functions give for arrays without data: a shape by a rule, a dtype by a probe.

A rule of shape is called as the function itself and returns a shape, or a list of them for several results. The dtypes,
and the kind of tuple that holds several results, are found by running the function on arrays of a single element.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from math import ceil, prod
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from gradcore.backends.traced import NO_ITEM, RULES, Traced, broadcast, made, probe, reduced, shape_of

__all__ = ["CREATION", "elementwise"]

Shape = tuple[int, ...]


def _find(names: str) -> Iterable[Any]:
    """NumPy's functions of these names, as far as the installed NumPy has them."""
    for name in names.split():
        found: Any = np
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is not None:
            yield found


def rule(names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Say what functions return; the rule is called as they are."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        RULES.update(dict.fromkeys(_find(names), function))
        return function

    return register


def shapes(names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Say which shapes functions return, in C order; the dtypes are probed."""

    def register(shape: Callable[..., Any]) -> Callable[..., Any]:
        for function in _find(names):
            RULES[function] = _by_shape(function, shape)
        return shape

    return register


def _by_shape(function: Any, shape: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, out: Any = None, **named: Any) -> Any:
        found = shape(*args, **named)
        result = probe(function, *args, **named)
        if not isinstance(result, (tuple, list)):
            return Traced(found, result.dtype) if out is None else out
        arrays = [Traced(s, np.asarray(r).dtype) for s, r in zip(found, result, strict=True)]
        return type(result)(*arrays) if hasattr(result, "_fields") else type(result)(arrays)

    return run


# -- element by element --------------------------------------------------------------------------------------


def elementwise(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of each element after broadcasting, on traced arrays."""

    def run(*args: Any, out: Any = None, **named: Any) -> Any:
        arrays = [x for x in (*args, *named.values()) if isinstance(x, (Traced, np.ndarray))]
        if out is not None or not any(isinstance(x, Traced) for x in arrays):
            return function(*args, **named) if out is None else out
        return made(broadcast(*arrays), probe(function, *args, **named).dtype, arrays)

    return run


for _function in _find("angle around clip fix i0 iscomplex isclose isneginf isposinf isreal nan_to_num real_if_close "
                       "round sinc"):  # fmt: skip
    RULES[_function] = elementwise(_function)


@rule("where")
def _where(condition: Any, *values: Any) -> Any:
    if not values:
        return _data_dependent(np.where)()
    return made(broadcast(condition, *values), probe(np.where, condition, *values).dtype, (condition, *values))


@rule("real")
def _real(value: Any) -> Any:
    return value.real


@rule("imag")
def _imag(value: Any) -> Any:
    return value.imag


@shapes("argpartition argsort cumprod cumsum nancumprod nancumsum partition sort")
def _along(a: Any, *args: Any, axis: int | None = -1, **named: Any) -> Shape:
    return (a.size,) if axis is None else a.shape


@shapes("fft.fftshift fft.ifftshift linalg.cholesky linalg.inv linalg.matrix_power roll sort_complex tril triu unwrap")
def _same(a: Any, *args: Any, **named: Any) -> Shape:
    return shape_of(a)


@rule("copy")
def _copy(a: Any, order: str = "K", subok: bool = False) -> Traced:
    return a.copy(order)


def _like(a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, **named: Any) -> Traced:
    kept = shape is None and order == "K"
    return made(shape_of(a) if shape is None else _sizes(shape), dtype or a.dtype, [a] if kept else [])


rule("empty_like ones_like zeros_like")(_like)


@rule("full_like")
def _full_like(a: Any, fill_value: Any, *args: Any, **named: Any) -> Traced:
    return _like(a, *args, **named)


# -- reductions ----------------------------------------------------------------------------------------------


def _reduction(function: Any) -> None:
    signature = inspect.signature(function)

    def shape(*args: Any, **named: Any) -> Shape:
        given = signature.bind(*args, **named).arguments
        lead = shape_of(given["q"]) if "q" in given else ()
        return lead + reduced(shape_of(given["a"]), given.get("axis"), given.get("keepdims") is True)

    RULES[function] = _by_shape(function, shape)


for _function in _find("all amax amin any argmax argmin count_nonzero max mean median min nanargmax nanargmin nanmax "
                       "nanmean nanmedian nanmin nanpercentile nanprod nanquantile nanstd nansum nanvar percentile prod "
                       "ptp quantile std sum var"):  # fmt: skip
    _reduction(_function)


# -- joins and copies ----------------------------------------------------------------------------------------


@shapes("concatenate concat")
def _concatenate(arrays: Sequence[Any], axis: int | None = 0, **named: Any) -> Shape:
    parts = [shape_of(a) for a in arrays]
    if axis is None:
        return (sum(map(prod, parts)),)
    axis = normalize_axis_index(axis, len(parts[0]))
    first = list(parts[0])
    for part in parts[1:]:
        if len(part) != len(first) or any(n != m for i, (n, m) in enumerate(zip(part, first, strict=True)) if i != axis):
            raise ValueError("all the input array dimensions except for the concatenation axis must match exactly")
    first[axis] = sum(part[axis] for part in parts)
    return tuple(first)


@shapes("stack")
def _stack(arrays: Sequence[Any], axis: int = 0, **named: Any) -> Shape:
    parts = {shape_of(a) for a in arrays}
    if len(parts) > 1:
        raise ValueError("all input arrays must have the same shape")
    shape = parts.pop()
    axis = normalize_axis_index(axis, len(shape) + 1)
    return (*shape[:axis], len(arrays), *shape[axis:])


@rule("pad")
def _pad(array: Traced, pad_width: Any, *args: Any, **named: Any) -> Traced:
    widths = np.broadcast_to(pad_width, (array.ndim, 2)).sum(axis=1).tolist()
    return Traced([n + w for n, w in zip(array.shape, widths, strict=True)], array.dtype)


@rule("tile")
def _tile(A: Traced, reps: Any) -> Traced:
    repeats = _sizes(reps)
    repeats = (1,) * (A.ndim - len(repeats)) + repeats
    shape = (1,) * (len(repeats) - A.ndim) + A.shape
    return Traced([n * r for n, r in zip(shape, repeats, strict=True)], A.dtype)


@rule("repeat")
def _repeat(a: Traced, repeats: Any, axis: int | None = None) -> Traced:
    if isinstance(repeats, Traced):
        return _data_dependent(np.repeat)()
    shape, axis = ([a.size], 0) if axis is None else (list(a.shape), axis)
    shape[axis] = int(np.broadcast_to(repeats, (shape[axis],)).sum()) if np.ndim(repeats) else shape[axis] * repeats
    return Traced(shape, a.dtype)


@rule("diag")
def _diag(v: Traced, k: int = 0) -> Traced:
    return Traced((v.size + abs(k),) * 2, v.dtype) if v.ndim == 1 else _diagonal(v, k)


@shapes("trace linalg.trace")
def _trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, **named: Any) -> Shape:
    return _diagonal(a, offset, axis1, axis2).shape[:-1]


# -- gathers and searches ------------------------------------------------------------------------------------


@rule("take")
def _take(a: Any, indices: Any, axis: int | None = None, out: Any = None, mode: str = "raise") -> Traced:
    shape, axis = ((prod(a.shape),), 0) if axis is None else (a.shape, normalize_axis_index(axis, a.ndim))
    return Traced((*shape[:axis], *shape_of(indices), *shape[axis + 1 :]), a.dtype) if out is None else out


@rule("take_along_axis")
def _take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> Traced:
    if axis is None:
        return Traced(indices.shape, arr.dtype)
    axis = normalize_axis_index(axis, arr.ndim)
    others = [(*a.shape[:axis], 1, *a.shape[axis + 1 :]) for a in (arr, indices)]
    shape = np.broadcast_shapes(*others)
    return Traced((*shape[:axis], indices.shape[axis], *shape[axis + 1 :]), arr.dtype)


@rule("copyto place put put_along_axis putmask fill_diagonal")
def _written(*args: Any, **named: Any) -> None:
    """Nothing: there are no elements."""


@rule("searchsorted")
def _searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Traced:
    return Traced(shape_of(v), np.intp)


@rule("digitize")
def _digitize(x: Any, bins: Any, right: bool = False) -> Traced:
    return Traced(shape_of(x), np.intp)


@rule("lexsort")
def _lexsort(keys: Any, axis: int = -1) -> Traced:
    return Traced(shape_of(keys[0]), np.intp)


# -- Fourier transforms --------------------------------------------------------------------------------------


def _transform(names: str, length: Callable[[int, int | None], int], real: bool = False) -> None:
    """Transforms of one dim, or of several of which the last one has another length."""
    for function in _find(names):
        several = "axes" in inspect.signature(function).parameters
        last = -2 if function.__name__.endswith("2") else None

        def run(a: Any, s: Any = None, axes: Any = None, norm: Any = None, out: Any = None, *, n: Any = None,
                axis: Any = None, several: bool = several, last: Any = last) -> Any:  # fmt: skip
            if several:
                axes = (-2, -1) if axes is None and last else axes
                axes = range(-len(s or a.shape), 0) if axes is None else axes
                sizes = list(s) if s is not None else [None] * len(axes)
            else:
                axes, sizes = [-1 if axes is None and axis is None else axis if axes is None else axes], [s or n]
            shape = list(a.shape)
            for i, (dim, size) in enumerate(zip(axes, sizes, strict=True)):
                own = size if size is not None and size != -1 else None
                shape[dim] = length(shape[dim], own) if i == len(axes) - 1 else own or shape[dim]
            dtype = np.result_type(probe(np.fft.fft, Traced((1,), a.dtype)).dtype)
            return Traced(shape, np.empty(0, dtype).real.dtype if real else dtype) if out is None else out

        RULES[function] = run


_transform("fft.fft fft.ifft fft.fft2 fft.ifft2 fft.fftn fft.ifftn", lambda size, n: n or size)
_transform("fft.rfft fft.ihfft fft.rfft2 fft.rfftn", lambda size, n: (n or size) // 2 + 1)
_transform("fft.irfft fft.hfft fft.irfft2 fft.irfftn", lambda size, n: n or 2 * (size - 1), real=True)


