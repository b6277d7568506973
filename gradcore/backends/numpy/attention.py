"""Attention kernels for large NumPy arrays, which compute a few heads at a time so that their scores stay in cache.

With a causal mask, a block of queries only computes the scores of keys that at least one of its queries may see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from math import prod
from typing import Any, ClassVar

import numpy as np

from gradcore.backends.kernel_methods import kernel_for
from gradcore.backends.numpy.matmul import blas_alone, share_products
from gradcore.backends.numpy.row_blocks import exponentials, ones, row_maxima
from gradcore.backends.numpy.softmax import HIGH, LOW
from gradcore.backends.portable.normalization import Normalization

__all__ = ["NumpyAttention", "add_gradients", "add_product", "causal_mask", "powers"]

#: Multiplications for all scores from which blocks are faster than fewer calls, and those from which BLAS uses threads.
_PRODUCTS, _THREADED = 1 << 24, 1 << 18
#: Number of scores that are computed at a time; number of queries of a causal block.
_SCORES, _QUERIES = 1 << 17, 128


class NumpyAttention(Normalization):
    """Attention kernels for queries, keys and values with equal batch dims, and a mask without batch dims or none."""

    bodies: ClassVar[dict[str, Callable[..., Any]]]

    def attention(
        self, query: Any, key: Any, value: Any, mask: Any, scale: float, causal: bool = False
    ) -> tuple[Any, Any]:
        if not _usual(query.size * key.shape[-2], query, key, value) or (
            mask is not None and not _is_shared_by_heads(mask, query)
        ):
            with blas_alone(query.size * key.shape[-2], _THREADED):
                return super().attention(query, key, value, mask, scale, causal)
        lead, queries, keys = query.shape[:-2], query.shape[-2], key.shape[-2]
        heads = prod(lead)
        weights = np.empty((heads, queries, keys), query.dtype)
        out = np.empty((heads, queries, value.shape[-1]), query.dtype)
        query, key, value = (x.reshape(heads, *x.shape[-2:]) for x in (query, key, value))
        if mask is not None:
            mask = mask.reshape(mask.shape[-2:])

        def work(part: slice) -> None:
            arrays = query[part] * scale, key[part], value[part]
            (_attend_causally if causal else _attend)(*arrays, mask, weights[part], out[part])

        _share_heads(work, weights)
        return out.reshape(*lead, queries, -1), weights.reshape(*lead, queries, keys)

    @kernel_for(lambda self, x: x.dtype.char in "fd" and x.flags.c_contiguous and x.size > 0)
    def _softmax_in_place(self, x: Any) -> Any:
        out = np.empty_like(x)
        _softmax_or_zero(x, out)
        return out

    def attention_backward(
        self,
        grad: Any,
        grad_weights: Any,
        query: Any,
        key: Any,
        value: Any,
        weights: Any,
        scale: float,
        causal: bool,
        needs: Sequence[bool],
    ) -> tuple[Any, Any, Any, Any]:
        if (
            grad is None
            or grad_weights is not None
            or needs[3]
            or not _usual(weights.size * query.shape[-1], query, key, value, grad)
        ):
            body: Any = self.bodies["attention_backward"]
            return body(self, grad, grad_weights, query, key, value, weights, scale, causal, needs)
        shapes = query.shape, key.shape, value.shape
        heads = prod(query.shape[:-2])
        query, key, value, weights, grad = (x.reshape(heads, *x.shape[-2:]) for x in (query, key, value, weights, grad))
        make = np.zeros if causal else np.empty
        results: list[Any] = [
            make((heads, *shape[-2:]), grad.dtype) if is_needed else None
            for shape, is_needed in zip(shapes, needs[:3], strict=True)
        ]

        def work(part: slice) -> None:
            gradients: list[Any] = [None if each is None else each[part] for each in results]
            g, q, k, v, w = grad[part], query[part], key[part], value[part], weights[part]
            if not causal:
                add_gradients(gradients, g, q, k, v, w, scale, np.matmul)
                return
            for start in range(0, w.shape[1], _QUERIES):
                rows, visible = slice(start, start + _QUERIES), slice(min(start + _QUERIES, w.shape[2]))
                parts = zip(gradients, (rows, visible, visible), strict=True)
                targets = [None if a is None else a[:, cut] for a, cut in parts]
                block = w[:, rows, visible]
                add_gradients(targets, g[:, rows], q[:, rows], k[:, visible], v[:, visible], block, scale, add_product)

        _share_heads(work, weights)
        of_query, of_key, of_value = (
            a if a is None else a.reshape(shape) for a, shape in zip(results, shapes, strict=True)
        )
        return of_query, of_key, of_value, None


def _usual(products: int, *arrays: Any) -> bool:
    """Return whether the kernels above support these operands: large arrays of floats with the same batch dims."""
    if products < _PRODUCTS:
        return False
    lead, dtype = arrays[0].shape[:-2], arrays[0].dtype
    return dtype.char in "fd" and all(a.shape[:-2] == lead and a.dtype == dtype and a.size for a in arrays)


def _share_heads(work: Callable[[slice], None], weights: Any) -> None:
    """Share all heads of `weights` among threads by calling ``work(part)`` for slices of a few heads each."""
    heads = len(weights)
    step = max(1, _SCORES // (weights.size // heads))

    def run_numbers(numbers: Iterator[int]) -> None:
        for i in numbers:
            work(slice(i * step, i * step + step))

    share_products(run_numbers, -(-heads // step))


def add_product(a: Any, b: Any, out: Any) -> None:
    """Compute ``out += a @ b``."""
    out += np.matmul(a, b)


def add_gradients(
    targets: list[Any],
    grad: Any,
    query: Any,
    key: Any,
    value: Any,
    weights: Any,
    scale: float,
    write: Callable[..., Any],
) -> None:
    """Write the gradients of queries, keys and values to those of the three `targets` that are not None.

    ``put(a, b, target)`` writes the product of two matrices to a target, or adds it.
    """
    of_query, of_key, of_value = targets
    if of_value is not None:
        write(weights.swapaxes(-1, -2), grad, of_value)
    if of_query is None is of_key:
        return
    scores = np.matmul(grad, value.swapaxes(-1, -2))
    scores -= np.vecdot(scores, weights)[..., None]
    scores *= weights
    if of_query is not None:
        write(scores, key * scale, of_query)
    if of_key is not None:
        write(scores.swapaxes(-1, -2), query * scale, of_key)


def _is_shared_by_heads(mask: Any, query: Any) -> bool:
    """Return whether all heads share one matrix as their mask."""
    return bool(mask.dtype == query.dtype) and 2 <= mask.ndim <= query.ndim and prod(mask.shape[:-2]) == 1


def _attend(query: Any, key: Any, value: Any, mask: Any, weights: Any, out: Any) -> None:
    scores = np.matmul(query, key.swapaxes(-1, -2))
    if mask is not None:
        scores += mask
    _softmax_or_zero(scores, weights)
    np.matmul(weights, value, out)


def _attend_causally(query: Any, key: Any, value: Any, _: Any, weights: Any, out: Any) -> None:
    queries, keys = weights.shape[1:]
    for start in range(0, queries, _QUERIES):
        rows, visible_keys = slice(start, start + _QUERIES), min(start + _QUERIES, keys)
        scores = np.matmul(query[:, rows], key[:, :visible_keys].swapaxes(-1, -2))
        if start < keys:
            scores[:, :, start:] += causal_mask(scores.shape[1], visible_keys - start, scores.dtype)
        visible = weights[:, rows, :visible_keys]
        _softmax_or_zero(scores, visible)
        weights[:, rows, visible_keys:] = 0
        out[:, rows] = np.matmul(visible, value[:, :visible_keys])


@lru_cache(maxsize=64)
def causal_mask(queries: int, keys: int, dtype: Any) -> Any:
    """Return a matrix with minus infinity for the keys after each query, and zero for the others."""
    mask = np.zeros((queries, keys), dtype)
    mask[~np.tri(queries, keys, dtype=bool)] = -np.inf
    return mask


def _softmax_or_zero(scores: Any, out: Any) -> None:
    """Write the softmax of rows to `out`, and zeros for rows of minus infinity. Overwrites `scores`."""
    total, _ = powers(scores, out)
    out /= total[..., None]


def powers(scores: Any, out: Any) -> tuple[Any, Any]:
    """Write ``exp(scores - top)`` to `out`; return the sums of its rows and `top`. Overwrites `scores`.

    `top` is 0 if no sum of exponentials is too large or too small, otherwise it holds the maximum of each row. The sum
    is set to 1 for rows of minus infinity, so that a division by it gives zeros.
    """
    n = scores.shape[-1]
    exponentials(scores, out)
    total = out @ ones(n, out.dtype)
    if np.minimum.reduce(total, None) >= LOW and np.maximum.reduce(total, None) <= HIGH:
        return total, 0
    top = row_maxima(scores.reshape(-1, n)).reshape(total.shape)
    top[top == -np.inf] = 0
    scores -= top[..., None]
    total = exponentials(scores, out) @ ones(n, out.dtype)
    total[total == 0] = 1
    return total, top
