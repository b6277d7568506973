"""Attention for NumPy: some heads at a time, whose scores stay in cache and are never kept beside the weights.

With a causal mask, only the scores of keys that a query may see are computed, but for those within a block of queries.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from gradcore.backends import threads
from gradcore.backends.normalization import Normalization
from gradcore.backends.numpy_rows import exponentials, ones, row_maxima
from gradcore.backends.numpy_softmax import HIGH, LOW

__all__ = ["NumpyAttention"]

#: Scores of the heads that are computed at a time, and from which threads take part; queries of a causal block.
_SCORES, _MANY, _QUERIES = 1 << 17, 1 << 19, 128


class NumpyAttention(Normalization):
    """Attention where queries, keys and values have the same batch dims, and the mask, if any, has none."""

    def attention(
        self, query: Any, key: Any, value: Any, mask: Any, scale: float, causal: bool = False
    ) -> tuple[Any, Any]:
        lead, (queries, keys) = query.shape[:-2], (query.shape[-2], key.shape[-2])
        if (
            not lead == key.shape[:-2] == value.shape[:-2]
            or not query.dtype == key.dtype == value.dtype
            or query.dtype.char not in "fd"
            or not query.size * key.size * value.size
            or (mask is not None and not _for_all(mask, query))
        ):
            return super().attention(query, key, value, mask, scale, causal)
        heads = prod(lead)
        weights = np.empty((heads, queries, keys), query.dtype)
        out = np.empty((heads, queries, value.shape[-1]), query.dtype)
        query, key, value = (x.reshape(heads, *x.shape[-2:]) for x in (query, key, value))
        if mask is not None:
            mask = mask.reshape(mask.shape[-2:])
        step = max(1, _SCORES // (queries * keys))

        def some(start: int, stop: int) -> None:
            for i in range(start * step, min(stop * step, heads), step):
                part = slice(i, i + step)
                arrays = query[part] * scale, key[part], value[part]
                (_attend_causally if causal else _attend)(*arrays, mask, weights[part], out[part])

        chunks = -(-heads // step)
        if weights.size < _MANY:
            some(0, chunks)
        else:
            threads.spread(some, chunks)
        return out.reshape(*lead, queries, -1), weights.reshape(*lead, queries, keys)


def _for_all(mask: Any, query: Any) -> bool:
    """Whether a mask is one matrix for all heads."""
    return mask.dtype == query.dtype and 2 <= mask.ndim <= query.ndim and prod(mask.shape[:-2]) == 1


def _attend(query: Any, key: Any, value: Any, mask: Any, weights: Any, out: Any) -> None:
    scores = np.matmul(query, key.swapaxes(-1, -2))
    if mask is not None:
        scores += mask
    _softmax_or_zero(scores, weights)
    np.matmul(weights, value, out)


def _attend_causally(query: Any, key: Any, value: Any, _: Any, weights: Any, out: Any) -> None:
    queries, keys = weights.shape[1:]
    for start in range(0, queries, _QUERIES):
        rows, seen = slice(start, start + _QUERIES), min(start + _QUERIES, keys)
        scores = np.matmul(query[:, rows], key[:, :seen].swapaxes(-1, -2))
        if start < keys:
            scores[:, :, start:] += _hidden(scores.shape[1], seen - start, scores.dtype)
        visible = weights[:, rows, :seen]
        _softmax_or_zero(scores, visible)
        weights[:, rows, seen:] = 0
        out[:, rows] = np.matmul(visible, value[:, :seen])


@lru_cache(maxsize=64)
def _hidden(queries: int, keys: int, dtype: Any) -> Any:
    """Minus infinity for the keys behind a query, zero for the others."""
    mask = np.zeros((queries, keys), dtype)
    mask[~np.tri(queries, keys, dtype=bool)] = -np.inf
    return mask


def _softmax_or_zero(scores: Any, out: Any) -> None:
    """Write the softmax of rows to `out`, zeros for rows of minus infinity; overwrites `scores`."""
    n = scores.shape[-1]
    exponentials(scores, out)
    total = out @ ones(n, out.dtype)
    if not (np.minimum.reduce(total, None) >= LOW and np.maximum.reduce(total, None) <= HIGH):
        top = row_maxima(scores.reshape(-1, n)).reshape(total.shape)
        top[top == -np.inf] = 0
        scores -= top[..., None]
        total = exponentials(scores, out) @ ones(n, out.dtype)
        total[total == 0] = 1
    out /= total[..., None]
