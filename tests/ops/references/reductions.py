"""References of operations that combine the elements of a dim: reductions, sorting, statistics, running totals."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import integrate, spatial, special, stats

Array = Any
Reference = Callable[..., Any]


def axes(dim: Any, empty_is_all: bool = True) -> Any:
    """Convert a dim, several or none to NumPy's axis."""
    dim = tuple(dim) if isinstance(dim, (list, tuple)) else dim
    return None if dim == () and empty_is_all else dim


def reduction(function: Callable[..., Array]) -> Reference:
    def reduce(x: Array, dim: Any = None, keepdim: bool = False) -> Array:
        return function(x, axis=None if x.ndim == 0 else axes(dim), keepdims=keepdim)

    return reduce


def aminmax(x: Array, dim: Any = None, keepdim: bool = False) -> tuple[Array, Array]:
    return x.min(axis=dim, keepdims=keepdim), x.max(axis=dim, keepdims=keepdim)


def by_position(position: Callable[..., Array]) -> Reference:
    """Return a reduction to the value at the index that ``position(x, axis)`` returns, and that index."""

    def choose(x: Array, dim: int | None = None, keepdim: bool = False) -> Any:
        if x.ndim == 0:
            return (x, np.int64(0)) if dim is not None else x
        if dim is None:
            return x.ravel()[position(x.ravel(), 0)]
        index = np.expand_dims(position(x, dim), dim)
        values = np.take_along_axis(x, index, dim)
        return (values, index) if keepdim else (values.squeeze(dim), index.squeeze(dim))

    return choose


def kth(x: Array, axis: int, k: int) -> Array:
    return np.argsort(x, axis, kind="stable").take(k - 1, axis)


def lower_median(x: Array, axis: int) -> Array:
    return kth(x, axis, (x.shape[axis] + 1) // 2)


def kthvalue(x: Array, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    return by_position(functools.partial(kth, k=k))(x, dim, keepdim)


def most_frequent(x: Array, axis: int) -> Array:
    """Return the last index of the smallest of the most frequent values."""

    def last(row: Array) -> int:
        return int(np.flatnonzero(row == stats.mode(row).mode)[-1])

    return np.apply_along_axis(last, axis, x)


def larger(choose: Callable[..., Array], two: Callable[..., Array]) -> Reference:
    """`max` and `min`: of all elements, along a dim, or of two tensors."""
    along = by_position(choose)

    def call(x: Array, dim: Any = None, keepdim: bool = False) -> Any:
        return two(x, dim) if isinstance(dim, np.ndarray) else along(x, dim, keepdim)

    return call


def argument(choose: Callable[..., Array]) -> Reference:
    return lambda x, dim=None, keepdim=False: choose(x, None if x.ndim == 0 else dim, keepdims=keepdim)


def running(compare: Callable[[Any, Any], bool]) -> Reference:
    """Return a scan of running extrema and their indices, the later of equal ones."""

    def scan(x: Array, dim: int) -> tuple[Array, Array]:
        if x.ndim == 0:
            return x, np.int64(0)
        index = np.zeros(x.shape, np.int64)
        for place in np.ndindex(x.shape):
            before = [*place]
            before[dim] -= 1
            if place[dim]:
                best = [*place]
                best[dim] = index[tuple(before)]
                index[place] = place[dim] if compare(x[place], x[tuple(best)]) else best[dim]
        return np.take_along_axis(x, index, dim), index

    return scan


def cumulative(function: Callable[..., Array]) -> Reference:
    return lambda x, dim: function(x, axis=dim) if x.ndim else x


def diff(x: Array, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Array:
    parts = [p for p in (prepend, x, append) if p is not None]
    return np.diff(np.concatenate(parts, dim), n, dim)


def gradient(x: Array, *, spacing: Any = None, dim: Any = None, edge_order: int = 1) -> Any:
    dims = range(x.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
    steps = spacing if hasattr(spacing, "__len__") else [1.0 if spacing is None else spacing] * len(dims)
    return tuple(np.gradient(x, step, axis=d, edge_order=edge_order) for d, step in zip(dims, steps, strict=True))


def trapezoid(function: Callable[..., Array]) -> Reference:
    return lambda y, x=None, dx=1.0, dim=-1: function(y, x=x, dx=dx, axis=dim)


def ordered(function: Callable[..., Array]) -> Reference:
    """Along a dim, ascending or descending, equal ones in their order."""

    def sort(x: Array, dim: int = -1, descending: bool = False, stable: Any = None) -> Any:
        index = np.argsort(-x if descending else x, dim, kind="stable") if x.ndim else np.int64(0)
        return function(x, index, dim)

    return sort


def sorted_pair(x: Array, index: Array, dim: int) -> tuple[Array, Array]:
    return (np.take_along_axis(x, index, dim), index) if x.ndim else (x, index)


def topk(x: Array, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Array, Array]:
    if x.ndim == 0:
        return x, np.int64(0)
    index = np.argsort(-x if largest else x, dim, kind="stable").take(range(k), dim)
    return np.take_along_axis(x, index, dim), index


def unique(x: Array, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None) -> Any:
    found = np.unique(x, return_inverse=return_inverse, return_counts=return_counts, axis=dim)
    if not return_inverse:
        return found
    return (found[0], found[1].reshape(x.shape if dim is None else -1), *found[2:])


def unique_consecutive(x: Array, return_inverse: bool = False, return_counts: bool = False, dim: Any = None) -> Any:
    rows = x.ravel() if dim is None else np.moveaxis(x, dim, 0)
    new = np.array([i == 0 or bool(np.any(rows[i] != rows[i - 1])) for i in range(len(rows))], bool)
    inverse = np.cumsum(new) - 1
    values = rows[new] if dim is None else np.moveaxis(rows[new], 0, dim)
    results = [values]
    if return_inverse:
        results.append(inverse.reshape(x.shape) if dim is None else inverse)
    if return_counts:
        results.append(np.bincount(inverse))
    return results


def searchsorted(ordered: Array, x: Any, out_int32: bool = False, right: bool = False) -> Array:
    """By counting how many are smaller."""
    before = np.less_equal if right else np.less
    ordered = ordered[..., None, :] if np.ndim(x) else ordered
    return before(ordered, np.asarray(x)[..., None]).sum(-1, dtype="int32" if out_int32 else "int64")


def moments(*functions: Callable[..., Array]) -> Reference:
    def compute(x: Array, dim: Any = None, unbiased: Any = None, keepdim: bool = False, correction: Any = None) -> Any:
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        ddof = correction if correction is not None else int(unbiased is None or unbiased)
        results = [f(x, axis=axes(dim), ddof=ddof, keepdims=keepdim) for f in functions]
        return results[0] if len(results) == 1 else results

    return compute


def mean(x: Array, axis: Any, ddof: int, keepdims: bool) -> Array:
    return x.mean(axis=axis, keepdims=keepdims)


def quantile(function: Callable[..., Array]) -> Reference:
    return lambda x, q, dim=None, keepdim=False, interpolation="linear": function(
        x, q, axis=dim, keepdims=keepdim, method=interpolation
    )


def histc(x: Array, bins: int = 100, min: float = 0, max: float = 0) -> Array:
    bounds = (x.min(), x.max()) if min == max else (min, max)
    return np.histogram(x, bins, bounds)[0].astype(x.dtype)


def histogramdd(x: Array, bins: Any, range: Any = None, weight: Any = None, density: bool = False) -> Any:
    bounds = None if range is None else list(zip(range[::2], range[1::2], strict=True))
    counts, edges = np.histogramdd(x.reshape(-1, x.shape[-1]), bins, bounds, density, weight)
    return counts.astype(x.dtype), tuple(edge.astype(x.dtype) for edge in edges)


def histogram(x: Array, bins: int, **settings: Any) -> Any:
    return [a.astype(x.dtype) for a in np.histogram(x, bins, **settings)]


def softmax(function: Callable[..., Array]) -> Reference:
    return lambda x, dim: function(x, axis=dim if x.ndim else None)


def vector_norm(x: Array, ord: float = 2, dim: Any = None, keepdim: bool = False) -> Array:
    axis, a = axes(dim) if x.ndim else None, abs(x)
    if abs(ord) == np.inf:
        return (a.max if ord > 0 else a.min)(axis=axis, keepdims=keepdim)
    if ord == 0:
        return (a != 0).sum(axis=axis, keepdims=keepdim).astype(a.dtype)
    return (a**ord).sum(axis=axis, keepdims=keepdim) ** (1 / ord)


def renorm(x: Array, p: float, dim: int, maxnorm: float) -> Array:
    others = tuple(i for i in range(x.ndim) if i != dim % x.ndim)
    norms = vector_norm(x, p, others, keepdim=True)
    return np.where(norms > maxnorm, x * (maxnorm / (norms + 1e-7)), x)


def cdist(x: Array, y: Array, p: float = 2.0) -> Array:
    return vector_norm(x[..., :, None, :] - y[..., None, :, :], p, -1)


def pdist(x: Array, p: float = 2.0) -> Array:
    return spatial.distance.pdist(x, "minkowski", p=p)


def masked(function: Callable[..., Array]) -> Reference:
    """Return a reduction or normalization that leaves out masked elements, by NumPy's masked arrays."""

    def compute(x: Array, *args: Any, mask: Any = None, keepdim: bool = False, **named: Any) -> Array:
        mask = np.ones(x.shape, bool) if mask is None else np.broadcast_to(mask, x.shape)
        dim = args[-1] if args else named.pop("dim", None)
        settings = {"keepdims": True} if keepdim else {}
        return function(np.ma.array(x, mask=~mask), *args[:-1], axis=axes(dim), **named, **settings)

    return compute


def in_dtype(function: Callable[..., Array]) -> Callable[..., Array]:
    return lambda x, **settings: np.asarray(function(x, **settings), x.dtype)


def lower_of_selected(row: Array) -> Array:
    ordered = np.sort(row[~np.isnan(row)])
    return ordered[(len(ordered) - 1) // 2]


def masked_softmax(x: Array, axis: int) -> Array:
    powers = np.exp(x - x.max(axis, keepdims=True)).filled(0)
    return powers / powers.sum(axis, keepdims=True)


def masked_norm(x: Array, ord: float = 2.0, axis: Any = None, **settings: Any) -> Array:
    return (abs(x) ** ord).sum(axis, **settings).filled(0) ** (1 / ord)


def masked_logaddexp(x: Array, y: Array, input_mask: Any = None, other_mask: Any = None) -> Array:
    powers = [np.exp(a) * (True if mask is None else mask) for a, mask in ((x, input_mask), (y, other_mask))]
    return np.log(sum(powers))


MASKED: dict[str, Reference] = {
    **{f"masked_{n}": masked(getattr(np.ma, n)) for n in ("sum", "prod", "mean")},
    **{f"masked_{n}": masked(getattr(np.ma, n)) for n in ("cumsum", "cumprod")},
    **{f"masked_{n}": masked(in_dtype(getattr(np.ma, n))) for n in ("argmax", "argmin")},
    "masked_amax": masked(np.ma.max),
    "masked_amin": masked(np.ma.min),
    "masked_var": masked(functools.partial(np.ma.var, ddof=1)),
    "masked_std": masked(functools.partial(np.ma.std, ddof=1)),
    "masked_median": masked(lambda x, axis: np.apply_along_axis(lower_of_selected, axis, x.filled(np.nan))),
    "masked_norm": masked(masked_norm),
    "masked_normalize": masked(lambda x, ord, axis: x.filled(0) / masked_norm(x, ord, axis, keepdims=True)),
    "masked_softmax": masked(masked_softmax),
    "masked_softmin": masked(lambda x, axis: masked_softmax(-x, axis)),
    "masked_log_softmax": masked(lambda x, axis: np.log(masked_softmax(x, axis))),
    "masked_logsumexp": masked(lambda x, axis: np.log(np.exp(x).sum(axis))),
    "masked_logaddexp": masked_logaddexp,
}

REDUCTIONS: dict[str, Reference] = {
    **MASKED,
    **{
        n: reduction(getattr(np, n)) for n in ["sum", "mean", "prod", "nansum", "nanmean", "amax", "amin", "any", "all"]
    },
    "count_nonzero": lambda x, dim=None: np.count_nonzero(x, axes(dim)),
    "logsumexp": reduction(special.logsumexp),
    "aminmax": aminmax,
    "max": larger(np.argmax, np.maximum),
    "min": larger(np.argmin, np.minimum),
    "argmax": argument(np.argmax),
    "argmin": argument(np.argmin),
    "median": by_position(lower_median),
    "nanmedian": by_position(lower_median),
    "kthvalue": kthvalue,
    "mode": lambda x, dim=-1, keepdim=False: by_position(most_frequent)(x, dim, keepdim),
    "cummax": running(lambda a, b: a >= b),
    "cummin": running(lambda a, b: a <= b),
    "cumsum": cumulative(np.cumsum),
    "cumprod": cumulative(np.cumprod),
    "logcumsumexp": cumulative(np.logaddexp.accumulate),
    "diff": diff,
    "gradient": gradient,
    "trapezoid": trapezoid(integrate.trapezoid),
    "cumulative_trapezoid": trapezoid(integrate.cumulative_trapezoid),
    "sort": ordered(sorted_pair),
    "argsort": ordered(lambda x, index, dim: index),
    "msort": lambda x: np.sort(x, 0) if x.ndim else x,
    "topk": topk,
    "unique": unique,
    "unique_consecutive": unique_consecutive,
    "searchsorted": searchsorted,
    "bucketize": lambda x, bounds, out_int32=False, right=False: searchsorted(bounds, x, out_int32, right),
    "isin": lambda x, among, assume_unique=False, invert=False: np.isin(x, among, invert=invert),
    "var": moments(np.var),
    "std": moments(np.std),
    "var_mean": moments(np.var, mean),
    "std_mean": moments(np.std, mean),
    "quantile": quantile(np.quantile),
    "nanquantile": quantile(np.nanquantile),
    "cov": lambda x, correction=1: np.cov(x, ddof=correction),
    "corrcoef": np.corrcoef,
    "bincount": lambda x, weights=None, minlength=0: np.bincount(x, weights, minlength),
    "histc": histc,
    "histogram": histogram,
    "histogramdd": histogramdd,
    "softmax": softmax(special.softmax),
    "nn_softmax": softmax(special.softmax),
    "softmin": softmax(lambda x, axis: special.softmax(-x, axis)),
    "log_softmax": softmax(special.log_softmax),
    "nn_log_softmax": softmax(special.log_softmax),
    "linalg_vector_norm": vector_norm,
    "renorm": renorm,
    "cdist": cdist,
    "pdist": pdist,
    "dist": lambda x, y, p=2: vector_norm(x - y, p),
}
