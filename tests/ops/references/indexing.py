"""References of operations that read and write by indices or masks, one element after another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = Any

#: How a group of values becomes one.
COMBINE: dict[str, Callable[..., Any]] = {
    "sum": np.sum,
    "add": np.sum,
    "prod": np.prod,
    "multiply": np.prod,
    "mean": np.mean,
    "amax": np.max,
    "amin": np.min,
}


def gather(x: Array, dim: int, index: Array) -> Array:
    if x.ndim == 0:
        return x
    out = np.empty(index.shape, x.dtype)
    for place in np.ndindex(index.shape):
        source = [*place]
        source[dim] = index[place]
        out[place] = x[tuple(source)]
    return out


def scatter_reduce(x: Array, dim: int, index: Array, src: Any, reduce: Any, include_self: bool = True) -> Array:
    """Collect what arrives at every place, then combine it; without `reduce`, the last one stays."""
    src = np.broadcast_to(src, index.shape) if np.ndim(src) == 0 else src
    arrived: dict[tuple[int, ...], list[Any]] = {}
    for place in np.ndindex(index.shape):
        target = [*place]
        if x.ndim:
            target[dim] = index[place]
        arrived.setdefault(tuple(target), []).append(src[place])
    out = x.copy()
    for target, values in arrived.items():
        own = [x[target]] if include_self else []
        out[target] = COMBINE[reduce]([*own, *values]) if reduce else values[-1]
    return out


def scatter(x: Array, dim: int, index: Array, src: Any, reduce: str | None = None) -> Array:
    return scatter_reduce(x, dim, index, src, reduce)


def along(x: Array, dim: int, index: Array, source: Any) -> tuple[Array, Array]:
    """Broadcast an index along one dim and its source to the form that `scatter_reduce` takes."""
    shape = [*x.shape] if x.ndim else [1]
    shape[dim] = index.size
    line = [1] * len(shape)
    line[dim] = -1
    spread = np.broadcast_to(index.reshape(line), shape)
    source = np.broadcast_to(source, shape)
    return (spread, source) if x.ndim else (spread.reshape(()), source.reshape(()))


def index_reduce(x: Array, dim: int, index: Array, source: Any, reduce: Any, include_self: bool = True) -> Array:
    return scatter_reduce(x, dim, *along(x, dim, index, source), reduce, include_self)


def index_add(x: Array, dim: int, index: Array, source: Array, alpha: float = 1) -> Array:
    return index_reduce(x, dim, index, alpha * source, "add")


def index_copy(x: Array, dim: int, index: Array, source: Any) -> Array:
    return index_reduce(x, dim, index, source, None)


def index_select(x: Array, dim: int, index: Array) -> Array:
    return x.take(np.atleast_1d(index), dim) if x.ndim else x


def take_along_dim(x: Array, index: Array, dim: int | None = None) -> Array:
    if dim is None:
        return x.ravel()[index.ravel()]
    shapes = [[1 if i == dim else n for i, n in enumerate(a.shape)] for a in (x, index)]
    common = [*np.broadcast_shapes(*map(tuple, shapes))]
    common[dim] = index.shape[dim]
    return gather(x, dim, np.broadcast_to(index, common))


def put(x: Array, index: Array, source: Array, accumulate: bool = False) -> Array:
    out = x.copy().ravel()
    for i, value in zip(index.ravel(), source.ravel(), strict=True):
        out[i] = value + (out[i] if accumulate else 0)
    return out.reshape(x.shape)


def index_put(x: Array, indices: Any, values: Array, accumulate: bool = False) -> Array:
    out = x.copy()
    if accumulate:
        np.add.at(out, tuple(indices), values)
    else:
        out[tuple(indices)] = values
    return out


def masked_select(x: Array, mask: Array) -> Array:
    x, mask = np.broadcast_arrays(x, mask)
    return np.array([x[i] for i in np.ndindex(x.shape) if mask[i]], x.dtype)


def masked_scatter(x: Array, mask: Array, source: Array) -> Array:
    x, mask = np.broadcast_arrays(x, mask)
    queue = iter(source.ravel())
    return np.array([next(queue) if m else v for v, m in zip(x.ravel(), mask.ravel(), strict=True)]).reshape(x.shape)


def nonzero(x: Array, as_tuple: bool = False) -> Any:
    return np.nonzero(x) if as_tuple else np.argwhere(x)


def nonzero_static(x: Array, size: int, fill_value: int = -1) -> Array:
    rows = np.argwhere(x)[:size]
    return np.concatenate([rows, np.full((size - len(rows), x.ndim), fill_value)])


def embedding_bag(index: Array, weight: Array, mode: str = "mean", per_sample_weights: None = None) -> Array:
    return {"mean": np.mean, "sum": np.sum, "max": np.max}[mode](weight[index], axis=1)


def one_hot(x: Array, num_classes: int = -1) -> Array:
    return np.equal(x[..., None], np.arange(x.max() + 1 if num_classes < 0 else num_classes)).astype(np.int64)


INDEXING: dict[str, Callable[..., Any]] = {
    "gather": gather,
    "scatter": scatter,
    "scatter_add": lambda x, dim, index, src: scatter_reduce(x, dim, index, src, "add"),
    "scatter_reduce": scatter_reduce,
    "take": lambda x, index: x.ravel()[index],
    "put": put,
    "take_along_dim": take_along_dim,
    "masked_fill": lambda x, mask, value: np.where(mask, value, x),
    "masked_select": masked_select,
    "masked_scatter": masked_scatter,
    "index_put": index_put,
    "index_select": index_select,
    "index_add": index_add,
    "index_copy": index_copy,
    "index_fill": index_copy,
    "index_reduce": index_reduce,
    "nonzero": nonzero,
    "nonzero_static": nonzero_static,
    "unravel_index": np.unravel_index,
    "argwhere": np.argwhere,
    "embedding": lambda index, weight: weight[index],
    "embedding_bag": embedding_bag,
    "one_hot": one_hot,
}
