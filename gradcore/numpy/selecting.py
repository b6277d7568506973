"""NumPy's functions that select, sort and search, on tensors."""

from __future__ import annotations

import builtins
import functools
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np

from gradcore import functional as F
from gradcore.core import dtypes
from gradcore.core.typing import AnyTensor, ArrayLike, Axis, DTypeLike, ShapeLike
from gradcore.numpy.conversion import axis_of, cast, inexact, numpy_dtype, promote, sizes, tensor_of, write_out
from gradcore.tensor import Tensor, is_differentiated

__all__ = [
    "apply_along_axis", "apply_over_axes", "argpartition", "argsort", "argwhere", "bincount", "choose", "compress",
    "copyto", "diag_indices", "diag_indices_from", "digitize", "extract", "fill_diagonal", "flatnonzero", "histogram",
    "histogram2d", "histogram_bin_edges", "histogramdd", "indices", "intersect1d", "isin", "ix_", "lexsort",
    "mask_indices", "nonzero", "packbits", "partition", "piecewise", "place", "put", "put_along_axis", "putmask",
    "ravel_multi_index", "searchsorted", "select", "setdiff1d", "setxor1d", "sort", "sort_complex", "take",
    "take_along_axis", "tri", "tril_indices", "tril_indices_from", "triu_indices", "triu_indices_from", "union1d",
    "unique", "unique_all", "unique_counts", "unique_inverse", "unique_values", "unpackbits", "unravel_index",
    "vectorize", "where",
]  # fmt: skip


def _index(x: Any, like: Tensor) -> AnyTensor:
    """Convert the indices `x` to an int64 tensor on the device of `like`."""
    indices = tensor_of(x)
    if indices._dtype.is_differentiable:
        raise TypeError(f"Cannot cast array data from {indices._dtype} to gradcore.int64 according to the rule 'safe'")
    return cast(indices.to(like._device.real), dtypes.int64)


def where(condition: ArrayLike, x: ArrayLike | None = None, y: ArrayLike | None = None, /) -> Any:
    if x is None and y is None:
        return nonzero(condition)
    if x is None or y is None:
        raise ValueError("either both or neither of x and y should be given")
    x, y = promote(x, y)
    mask = tensor_of(condition)
    return F.where(cast(mask, dtypes.bool_), x, y)


def select(condlist: ArrayLike, choicelist: ArrayLike, default: ArrayLike = 0) -> Tensor:
    if len(condlist) != len(choicelist):
        raise ValueError("list of cases must be same length as list of conditions")
    if not len(condlist):
        raise ValueError("select with an empty condition list is not possible")
    *choices, result = promote(*choicelist, default)
    masks = [tensor_of(mask) for mask in condlist]
    for i, mask in enumerate(masks):
        if mask._dtype is not dtypes.bool_:
            raise TypeError(f"invalid entry {i} in condlist: should be boolean ndarray")
    for mask, choice in zip(masks[::-1], choices[::-1], strict=True):
        result = F.where(mask, choice, result)
    return result


def choose(a: ArrayLike, choices: ArrayLike, out: Tensor | None = None, mode: str = "raise") -> Tensor:
    options = F.stack(
        promote(*choices, broadcast=True) if not isinstance(choices, Tensor) else list(F.unbind(choices, 0))
    )
    place = tensor_of(a)
    count = options.shape[0]
    shape = np.broadcast_shapes(tuple(place.shape), tuple(options.shape[1:]))
    place = _map_to_range(F.broadcast_to(_index(place, options), shape), count, mode)
    lacking = len(shape) + 1 - options.ndim
    options = F.broadcast_to(F.reshape(options, (count, *(1,) * lacking, *options.shape[1:])), (count, *shape))
    return write_out(F.gather(options, 0, place[None])[0], out)


def piecewise(x: ArrayLike, condlist: ArrayLike, funclist: Any, *args: Any, **kw: Any) -> Tensor:
    x = tensor_of(x)
    masks = cast(tensor_of(condlist), dtypes.bool_)
    masks = masks[None] if masks.ndim <= x.ndim and not (masks.ndim == 1 and not x.ndim) else masks
    functions = list(funclist)
    if len(functions) == len(masks) + 1:
        default = functions.pop()
    elif len(functions) == len(masks):
        default = 0
    else:
        raise ValueError(
            f"with {len(masks)} condition(s), either {len(masks)} or {len(masks) + 1} functions are expected"
        )
    result = F.zeros_like(x)
    unselected = F.logical_not(F.any(masks, 0))
    for mask, function in [(unselected, default), *zip(masks, functions, strict=True)]:
        inner = F.where(mask, x, F.ones_like(x))
        value = function(inner, *args, **kw) if callable(function) else function
        result = F.where(mask, cast(tensor_of(value), x._dtype), result)
    return result


def _map_to_range(place: Tensor, size: int, mode: str) -> AnyTensor:
    """Map indices to 0 to ``size - 1``: clip or wrap them, or raise if they are out of range, depending on `mode`."""
    if mode == "clip":
        return F.clamp(place, 0, size - 1)
    if mode == "wrap":
        return F.remainder(place, size)
    if not place.is_meta and bool(((place < -size) | (place >= size)).any()):
        raise IndexError(f"an index is out of bounds for axis with size {size}")
    return F.where(place < 0, place + size, place)


def take(a: ArrayLike, indices: ArrayLike, axis: Axis = None, out: Tensor | None = None, mode: str = "raise") -> Tensor:
    x = tensor_of(a)
    if axis is None:
        x, axis = x.reshape(-1), 0
    axis = axis_of(axis, x.ndim)
    place = _map_to_range(_index(indices, x), x.shape[axis], mode)
    result = F.index_select(x, axis, place.reshape(-1))
    return write_out(result.reshape(*x.shape[:axis], *place.shape, *x.shape[axis + 1 :]), out)


def take_along_axis(arr: ArrayLike, indices: ArrayLike, axis: Axis = -1) -> Tensor:
    x = tensor_of(arr)
    place = _index(indices, x)
    if axis is None:
        x, axis = x.reshape(-1), 0
    if place.ndim != x.ndim:
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    axis = axis_of(axis, x.ndim)
    return F.take_along_dim(x, _map_to_range(place, x.shape[axis], "raise"), axis)


def put_along_axis(arr: ArrayLike, indices: ArrayLike, values: ArrayLike, axis: Axis) -> None:
    x = _target(arr, "put_along_axis")
    flat, axis = (x.reshape(-1), 0) if axis is None else (x, axis_of(axis, x.ndim))
    place = _map_to_range(_index(indices, x), flat.shape[axis], "raise")
    if place.ndim != flat.ndim:
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    places = [_index(each, x) for each in np.ix_(*map(np.arange, flat.shape))]
    places[axis] = place
    written = F.index_put(flat, places, cast(tensor_of(values).to(x._device.real), x._dtype))
    F.copy_(x, written.reshape(x.shape))


def _target(value: Any, name: str) -> AnyTensor:
    """Return the target of the in-place function `name`; raise a TypeError if it is not a tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(
            f"{name}() writes in place into a tensor, not into {type(value).__name__}: use gradcore.numpy.array"
        )
    return value


def put(a: ArrayLike, ind: ArrayLike, v: ArrayLike, mode: str = "raise") -> None:
    x = _target(a, "put")
    place = _map_to_range(_index(ind, x).reshape(-1), x.numel(), mode)
    values = cast(tensor_of(v).to(x._device.real), x._dtype).reshape(-1)
    values = F.tile(values, (-(-place.numel() // builtins.max(values.numel(), 1)),))[: place.numel()]
    F.copy_(x, F.put(x, place, values))


def place(arr: ArrayLike, mask: ArrayLike, vals: ArrayLike) -> None:
    x = _target(arr, "place")
    positions = F.nonzero(_mask_of(x, mask, "place").reshape(-1)).reshape(-1)
    put(x, positions, vals)


def putmask(a: ArrayLike, /, mask: ArrayLike, values: ArrayLike) -> None:
    x = _target(a, "putmask")
    v = cast(tensor_of(values), x._dtype).reshape(-1)
    v = F.tile(v, (-(-x.numel() // v.numel()),))[: x.numel()].reshape(x.shape)
    F.copy_(x, F.where(_mask_of(x, mask, "putmask").reshape(x.shape), v, x))


def _mask_of(x: Tensor, mask: ArrayLike, name: str) -> AnyTensor:
    """Return `mask` as bools, or raise an error if it has not as many elements as `x`."""
    result = cast(tensor_of(mask), dtypes.bool_)
    if result.numel() != x.numel():
        raise ValueError(f"{name}: mask and data must be the same size")
    return result


def copyto(dst: ArrayLike, src: ArrayLike, casting: str = "same_kind", where: ArrayLike = True) -> None:
    write_out(tensor_of(src), dst, casting, where)


def fill_diagonal(a: ArrayLike, val: ArrayLike, wrap: bool = False) -> None:
    x = _target(a, "fill_diagonal")
    host = np.arange(x.numel()).reshape(x.shape)
    mask = np.zeros(x.shape, np.bool_)
    np.fill_diagonal(mask, True, wrap)
    put(x, host[mask], val)


def compress(condition: ArrayLike, a: ArrayLike, axis: Axis = None, out: Tensor | None = None) -> Tensor:
    x = tensor_of(a)
    if axis is None:
        x, axis = x.reshape(-1), 0
    return write_out(take(x, flatnonzero(condition), axis), out)


def extract(condition: ArrayLike, arr: ArrayLike) -> Tensor:
    return take(ravel_of(arr), flatnonzero(condition))


def ravel_of(x: Any) -> AnyTensor:
    return tensor_of(x).reshape(-1)


def nonzero(a: ArrayLike) -> tuple[Tensor, ...]:
    x = tensor_of(a)
    if not x.ndim:
        raise ValueError("Calling nonzero on 0d arrays is not allowed. Use np.atleast_1d(scalar).nonzero() instead.")
    return tuple(F.nonzero(x, as_tuple=True))


def flatnonzero(a: ArrayLike) -> Tensor:
    return F.nonzero(ravel_of(a)).reshape(-1)


def argwhere(a: ArrayLike) -> Tensor:
    return F.argwhere(tensor_of(a))


# -- sorting --------------------------------------------------------------------------------------------------------


def sort(
    a: ArrayLike, axis: Axis = -1, kind: str | None = None, order: str | None = None, *, stable: bool | None = None
) -> Tensor:
    x, axis = _flatten_for_axis(a, axis)
    if x._dtype.is_complex:
        return F.take_along_dim(x, argsort(x, axis), axis)
    return F.sort(x, axis, stable=True)[0]


def argsort(
    a: ArrayLike, axis: Axis = -1, kind: str | None = None, order: str | None = None, *, stable: bool | None = None
) -> Tensor:
    x, axis = _flatten_for_axis(a, axis)
    if x._dtype.is_complex:
        by_imag = F.argsort(F.imag(x), axis, stable=True)
        by_real = F.argsort(F.take_along_dim(F.real(x), by_imag, axis), axis, stable=True)
        order = F.take_along_dim(by_imag, by_real, axis)
        nans = 2 * F.to(F.isnan(F.real(x)), dtypes.int64) + F.to(F.isnan(F.imag(x)), dtypes.int64)
        last = F.argsort(F.take_along_dim(nans, order, axis), axis, stable=True)
        return F.take_along_dim(order, last, axis)
    return F.argsort(x, axis, stable=True)


def _flatten_for_axis(a: Any, axis: Any) -> tuple[Tensor, int]:
    x = tensor_of(a)
    return (x.reshape(-1), 0) if axis is None else (x, axis_of(axis, x.ndim))


def partition(a: ArrayLike, kth: Any, axis: Axis = -1, kind: str = "introselect", order: str | None = None) -> Tensor:
    _check_partition(a, kth, axis)
    return sort(a, axis)


def argpartition(
    a: ArrayLike, kth: Any, axis: Axis = -1, kind: str = "introselect", order: str | None = None
) -> Tensor:
    _check_partition(a, kth, axis)
    return argsort(a, axis)


def _check_partition(a: ArrayLike, kth: ArrayLike, axis: Axis) -> None:
    """Raise NumPy's errors for positions of a partition that are not integers, or out of range."""
    x = tensor_of(a)
    size = x.numel() if axis is None else x.shape[axis_of(axis, x.ndim)]
    positions = np.asarray(kth.tolist() if isinstance(kth, Tensor) else kth)
    if positions.dtype.kind not in "iu":
        raise TypeError("Partition index must be integer")
    for position in positions.ravel().tolist():
        if not -size <= position < size:
            raise ValueError(f"kth(={position}) out of bounds ({size})")


def sort_complex(a: ArrayLike) -> Tensor:
    x = tensor_of(a)
    if not x._dtype.is_complex:
        is_small = x._dtype in (dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16)
        x = cast(x, dtypes.complex64 if is_small else dtypes.complex128)
    return sort(x)


def lexsort(keys: ArrayLike, axis: int = -1) -> Any:
    keys = [tensor_of(k) for k in keys]
    if len({tuple(key.shape) for key in keys}) > 1:
        raise ValueError("all keys need to be the same shape")
    order = None
    for key in keys:
        at = axis_of(axis, key.ndim) if key.ndim else 0
        if order is None:
            order = F.argsort(key, at, stable=True)
        else:
            order = F.take_along_dim(order, F.argsort(F.take_along_dim(key, order, at), at, stable=True), at)
    return order


def searchsorted(a: ArrayLike, v: ArrayLike, side: str = "left", sorter: ArrayLike | None = None) -> Tensor:
    x, v = promote(a, v)
    return F.searchsorted(x, v, side=side, sorter=None if sorter is None else _index(sorter, x))


def digitize(x: ArrayLike, bins: ArrayLike, right: bool = False) -> Tensor:
    x, edges = promote(x, bins)
    steps = edges[1:] - edges[:-1]
    if bool((steps >= 0).all()):
        return F.searchsorted(edges, x, side="left" if right else "right")
    if not bool((steps <= 0).all()):
        raise ValueError("bins must be monotonically increasing or decreasing")
    return edges.numel() - F.searchsorted(F.flip(edges, (0,)), x, side="left" if right else "right")


# -- sets -----------------------------------------------------------------------------------------------------------


def _firsts(x: Tensor, equal_nan: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return the sorting permutation of a vector, the sorted elements, and the mask of first occurrences."""
    order = argsort(x)
    ordered = F.index_select(x, 0, order)
    is_first = ordered[1:] != ordered[:-1]
    if equal_nan:
        is_first = F.logical_and(is_first, F.logical_not(F.logical_and(F.isnan(ordered[1:]), F.isnan(ordered[:-1]))))
    return order, ordered, F.cat([F.ones_like(ordered[:1], dtype=dtypes.bool_), is_first])


def unique(
    ar: ArrayLike,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: Axis = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
) -> Any:
    x = tensor_of(ar)
    shape = tuple(x.shape)
    if axis is not None:
        return _unique_slices(x, return_index, return_inverse, return_counts, axis_of(axis, x.ndim))
    order, ordered, is_first = _firsts(x.reshape(-1), equal_nan)
    starts = F.nonzero(is_first).reshape(-1)
    results = [F.index_select(ordered, 0, starts)]
    if return_index:
        results.append(F.index_select(order, 0, starts))
    if return_inverse:
        groups = F.cumsum(F.to(is_first, dtypes.int64), 0) - 1
        results.append(F.index_copy(F.zeros_like(order), 0, order, groups).reshape(shape))
    if return_counts:
        ends = F.cat([starts[1:], F.full_like(starts[:1], x.numel())])
        results.append(ends - starts)
    return tuple(results) if len(results) > 1 else results[0]


def _unique_slices(x: Tensor, index: bool, inverse: bool, counts: bool, axis: int) -> Any:
    """Compute the results of `unique` for slices along an axis; the slices are compared on the host."""
    host = np.asarray(x.detach().cpu())
    _, first, *others = np.unique(host, True, inverse, counts, axis)  # type: ignore[call-overload]
    results = [F.index_select(x, axis, _index(first, x))]
    if index:
        results.append(_index(first, x))
    results += [_index(each, x) for each in others]
    return tuple(results) if len(results) > 1 else results[0]


UniqueAllResult = namedtuple("UniqueAllResult", "values indices inverse_indices counts")
UniqueCountsResult = namedtuple("UniqueCountsResult", "values counts")
UniqueInverseResult = namedtuple("UniqueInverseResult", "values inverse_indices")


def unique_all(x: ArrayLike) -> Any:
    return UniqueAllResult(*unique(x, True, True, True, equal_nan=False))


def unique_counts(x: ArrayLike) -> Any:
    return UniqueCountsResult(*unique(x, return_counts=True, equal_nan=False))


def unique_inverse(x: ArrayLike) -> Any:
    return UniqueInverseResult(*unique(x, return_inverse=True, equal_nan=False))


def unique_values(x: ArrayLike) -> Tensor:
    return unique(x, equal_nan=False)


def isin(
    element: ArrayLike,
    test_elements: ArrayLike,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    kind: str | None = None,
) -> Tensor:
    if kind not in (None, "sort", "table"):
        raise ValueError(f"Invalid kind: {kind!r}. Please use None, 'sort' or 'table'.")
    x, among = promote(element, test_elements)
    if x._dtype is dtypes.bool_ or x._dtype.is_complex:
        result = F.any(F.unsqueeze(x.detach(), -1) == ravel_of(among.detach()), -1)
        return ~result if invert else result
    return F.isin(x, among, invert=invert)


def union1d(ar1: ArrayLike, ar2: ArrayLike) -> Tensor:
    return unique(F.cat([ravel_of(x) for x in promote(ar1, ar2)]))


def setdiff1d(ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False) -> Tensor:
    a = ravel_of(tensor_of(ar1))
    a = a if assume_unique else unique(a)
    return extract(F.isin(*promote(a, ravel_of(tensor_of(ar2))), invert=True), a)


def setxor1d(ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False) -> Tensor:
    a, b = (ravel_of(x) for x in promote(ar1, ar2))
    return sort(F.cat([setdiff1d(a, b, assume_unique), setdiff1d(b, a, assume_unique)]))


def intersect1d(ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, return_indices: bool = False) -> Any:
    a, b = (ravel_of(x) for x in promote(ar1, ar2))
    a, first, *_ = unique(a, True, True)
    positions = flatnonzero(F.isin(a, b))
    common = F.index_select(a, 0, positions)
    if not return_indices:
        return common
    values, second = unique(b, True)
    return common, F.index_select(first, 0, positions), F.index_select(second, 0, F.searchsorted(values, common))


# -- counting -------------------------------------------------------------------------------------------------------


def bincount(x: ArrayLike, /, weights: ArrayLike | None = None, minlength: int = 0) -> Tensor:
    x = tensor_of(x)
    x = cast(x, dtypes.int64) if x._dtype is dtypes.bool_ else x
    if weights is None:
        return F.bincount(x, minlength=minlength)
    w = tensor_of(weights, dtypes.float64)
    size = builtins.max(int(x.max()) + 1 if x.numel() else 0, minlength)
    return F.index_add(F.new_zeros(w, (size,)), 0, _index(x, w), w)


def _edges(x: Tensor, bins: Any, bounds: Any) -> tuple[Any, Tensor]:
    """Return the bin edges on the host, and as a tensor with the history of given edges or of the data's extremes."""
    if isinstance(bins, (int, str)):
        between = None if bounds is None else (_host(bounds[0]).item(), _host(bounds[1]).item())
        host = np.histogram_bin_edges(_host(x), bins, between)
        edges = tensor_of(host).to(x._device.real)
        if any(isinstance(end, Tensor) and is_differentiated(end) for end in ((x,) if bounds is None else bounds)):
            low, high = (F.amin(x), F.amax(x)) if bounds is None else bounds
            share = tensor_of(np.linspace(0.0, 1.0, len(host)), edges._dtype).to(x._device.real)
            moving = low + (high - low) * share
            edges = edges + (moving - moving.detach())
        return host, edges
    edges = tensor_of(bins)
    return np.histogram_bin_edges(_host(x), _host(edges)), edges


def _host(x: Any) -> Any:
    return np.asarray(x.detach().cpu()) if isinstance(x, Tensor) else np.asarray(x)


def histogram_bin_edges(
    a: ArrayLike, bins: ArrayLike = 10, range: tuple[float, float] | None = None, weights: ArrayLike | None = None
) -> Tensor:
    return _edges(tensor_of(a), bins, range)[1]


def histogram(
    a: ArrayLike,
    bins: ArrayLike = 10,
    range: tuple[float, float] | None = None,
    density: bool | None = None,
    weights: ArrayLike | None = None,
) -> tuple[Tensor, ...]:
    if weights is not None and tensor_of(weights).shape != tensor_of(a).shape:
        raise ValueError("weights should have the same shape as a.")
    counts, (edges,) = histogramdd(
        ravel_of(a)[:, None], [bins], [range], density=density, weights=None if weights is None else ravel_of(weights)
    )
    if density:
        return counts, edges
    return cast(counts, dtypes.int64 if weights is None else tensor_of(weights)._dtype), edges


def histogramdd(
    sample: ArrayLike,
    bins: ArrayLike = 10,
    range: Any = None,
    density: bool | None = None,
    weights: ArrayLike | None = None,
) -> Any:
    if getattr(sample, "ndim", None) == 2:
        x = tensor_of(sample)
    else:  # a sequence of coordinates
        x = F.atleast_2d(tensor_of(sample) if hasattr(sample, "ndim") else F.stack(promote(*sample))).mT
    count = x.shape[-1]
    bins = [bins] * count if isinstance(bins, int) else bins
    bounds = [None] * count if range is None else range
    edges, found_edges = zip(*(_edges(x[:, i], bins[i], bounds[i]) for i in builtins.range(count)), strict=True)
    host = _host(x)
    places = np.zeros(len(host), np.intp)
    inside = np.ones(len(host), np.bool_)
    for i, edge in enumerate(edges):
        bins_of_x = np.searchsorted(edge, host[:, i], "right") - 1
        bins_of_x[host[:, i] == edge[-1]] = len(edge) - 2
        inside &= (bins_of_x >= 0) & (bins_of_x < len(edge) - 1)
        places = places * (len(edge) - 1) + bins_of_x
    shape = tuple(len(edge) - 1 for edge in edges)
    inside_positions = _index(np.flatnonzero(inside), x)
    w = F.ones(len(host), dtype=dtypes.float64, device=x._device.real) if weights is None else tensor_of(weights)
    w = F.index_select(inexact(w), 0, inside_positions)
    result = F.index_add(F.new_zeros(w, (int(np.prod(shape)),)), 0, _index(places[inside], x), w).reshape(shape)
    if density:
        total = F.sum(result)
        for i, edge in enumerate(found_edges):
            result = result / F.diff(edge).reshape([-1 if i == j else 1 for j in builtins.range(count)])
        result = result / total
    return result, tuple(found_edges)


def histogram2d(
    x: ArrayLike,
    y: ArrayLike,
    bins: ArrayLike = 10,
    range: Any = None,
    density: bool | None = None,
    weights: ArrayLike | None = None,
) -> tuple[Tensor, ...]:
    if not isinstance(bins, int) and len(bins) not in (1, 2):
        bins = [bins] * 2
    result, edges = histogramdd(F.stack(promote(x, y), -1), bins, range, density, weights)
    return result, *edges


# -- indices --------------------------------------------------------------------------------------------------------


def _wrap_numpy(name: str) -> Callable[..., Any]:
    """Wrap NumPy's function `name`, which returns indices, to accept and return tensors of integers."""
    function = getattr(np, name)

    @functools.wraps(function, assigned=("__name__", "__qualname__"))
    def make(*args: Any, **kwargs: Any) -> Any:
        try:
            result = function(*map(_plain, args), **{k: _plain(v) for k, v in kwargs.items()})
        except OverflowError as error:
            raise ValueError(f"{name}: {error}") from None
        return tuple(map(tensor_of, result)) if isinstance(result, tuple) else tensor_of(result)

    return make


def _plain(x: Any) -> Any:
    if isinstance(x, Tensor):
        return np.asarray(x.detach().cpu())
    return tuple(map(_plain, x)) if isinstance(x, tuple) else x


diag_indices, diag_indices_from = _wrap_numpy("diag_indices"), _wrap_numpy("diag_indices_from")
mask_indices = _wrap_numpy("mask_indices")
packbits, unpackbits = _wrap_numpy("packbits"), _wrap_numpy("unpackbits")
ravel_multi_index, unravel_index = _wrap_numpy("ravel_multi_index"), _wrap_numpy("unravel_index")
tril_indices, tril_indices_from = _wrap_numpy("tril_indices"), _wrap_numpy("tril_indices_from")
triu_indices, triu_indices_from = _wrap_numpy("triu_indices"), _wrap_numpy("triu_indices_from")


def ix_(*args: ArrayLike) -> tuple[Tensor, ...]:
    results = []
    for i, each in enumerate(args):
        x = tensor_of(each)
        if x.ndim != 1:
            raise ValueError("Cross index must be 1 dimensional")
        x = flatnonzero(x) if x._dtype is dtypes.bool_ else x if x.numel() else cast(x, dtypes.int64)
        results.append(x.reshape([-1 if i == j else 1 for j in range(len(args))]))
    return tuple(results)


def indices(dimensions: ShapeLike, dtype: DTypeLike = int, sparse: bool = False) -> Any:
    result = np.indices(sizes(dimensions), numpy_dtype(dtype), sparse)  # type: ignore[call-overload]
    return tuple(map(tensor_of, result)) if sparse else tensor_of(result)


def tri(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike = float, *, like: Any = None) -> Tensor:
    return tensor_of(np.tri(N, M, max(k, -(2**62))), dtype)


# -- functions that take functions ------------------------------------------------------------------------------------


def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: ArrayLike, *args: Any, **kwargs: Any) -> Tensor:
    x = tensor_of(arr)
    axis = axis_of(axis, x.ndim)
    rows = F.movedim(x, axis, -1)
    outer = tuple(rows.shape[:-1])
    results = promote(*(func1d(row, *args, **kwargs) for row in F.unbind(rows.reshape(-1, rows.shape[-1]), 0)))
    inner = tuple(results[0].shape)
    result = F.stack(results).reshape(*outer, *inner)
    return (
        F.movedim(result, tuple(range(len(outer), result.ndim)), tuple(range(axis, axis + len(inner))))
        if inner
        else result
    )


def apply_over_axes(func: Callable[..., Any], a: ArrayLike, axes: ArrayLike) -> Tensor:
    x = tensor_of(a)
    for axis in (axes,) if np.ndim(axes) == 0 else axes:
        result = func(x, axis_of(axis, x.ndim))
        x = result if result.ndim == x.ndim else F.unsqueeze(result, axis_of(axis, x.ndim))
    return x


class vectorize:
    """Elementwise version of a function of numbers: it is called for each element, and the results are stacked.

    ``gradcore.func.vmap`` is faster, because it calls the function once.
    """

    def __init__(
        self,
        pyfunc: Callable[..., Any],
        otypes: Any = None,
        doc: Any = None,
        excluded: Any = None,
        cache: bool = False,
        signature: Any = None,
    ) -> None:
        if signature is not None or otypes == "O":
            raise TypeError("vectorize(signature=...) is not implemented for tensors; use gradcore.func.vmap")
        self.pyfunc, self.otypes, self.excluded = pyfunc, otypes, set(excluded or ())
        self.__doc__ = doc or pyfunc.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        varied = [i for i in range(len(args)) if i not in self.excluded]
        columns = F.broadcast_tensors(*(tensor_of(args[i]) for i in varied))
        rows = []
        for elements in zip(*(F.unbind(c.reshape(-1), 0) for c in columns), strict=True):
            call = list(args)
            for i, element in zip(varied, elements, strict=True):
                call[i] = element
            rows.append(self.pyfunc(*call, **kwargs))
        if rows and isinstance(rows[0], tuple):
            return tuple(self._join(column, columns[0].shape, i) for i, column in enumerate(zip(*rows, strict=True)))
        return self._join(rows, columns[0].shape, 0)

    def _join(self, values: Any, shape: Any, output: int) -> Any:
        result = F.stack(promote(*values)).reshape(shape)
        return result if self.otypes is None else cast(result, dtypes.from_numpy(np.dtype(self.otypes[output])))
