"""Attention kernels for NumPy that do not save weights, but compute the scores of a block again for gradients.

They save the logarithm of the sum of exponentials of each row. In comparison with `numpy.attention`, this saves the
memory of the matrix of weights. If that matrix is larger than the caches, it also takes less time in most cases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from gradcore.backends.numpy.attention import add_gradients, add_product, causal_mask, powers
from gradcore.backends.numpy.matmul import share_products
from gradcore.backends.numpy.row_blocks import exponentials
from gradcore.backends.portable.attention import Block, Heads, blocks, in_heads
from gradcore.backends.portable.normalization import Normalization
from gradcore.backends.random.generator import DropoutDraw
from gradcore.backends.switches import cuda
from gradcore.core.typing import NUMPY, AnyArray

__all__ = ["NumpyFlashAttention"]

#: Number of scores from which weights are not saved: 32 MB of float32.
_MANY = 1 << 23
#: Largest number of scores, and of queries, of a block.
_SCORES, _QUERIES = 1 << 20, 256


class NumpyFlashAttention(Normalization):
    """Attention kernels for float32 and float64 arrays, with any mask and any batch dims that broadcast."""

    bodies: ClassVar[dict[str, Callable[..., Any]]]

    def keeps_weights(self, scores: int, dtype: str) -> bool:
        return scores < _MANY or dtype not in ("float32", "float64") or not cuda.flash_sdp_enabled()

    def flash_attention(
        self,
        query: AnyArray,
        key: AnyArray,
        value: AnyArray,
        mask: AnyArray,
        scale: float,
        causal: bool = False,
        dropout: DropoutDraw | None = None,
    ) -> tuple[Any, Any]:
        if dropout is not None:
            body: Any = self.bodies["flash_attention"]
            return body(self, query, key, value, mask, scale, causal, dropout)
        of = Heads.of(NUMPY, query, key, value, mask)
        heads, queries, _ = of.scores_shape()
        out = np.empty((heads, queries, value.shape[-1]), query.dtype)
        logs = np.empty((heads, queries, 1), query.dtype)

        def attend(block: Block) -> None:
            scores = _scores(of, block, scale, causal)
            weights = np.empty_like(scores)
            total, top = powers(scores, weights)
            result = np.matmul(weights, of.value[block.heads, block.seen])
            result /= total[..., None]
            out[block.heads, block.rows] = result
            logs[block.heads, block.rows, 0] = np.log(total) + top

        _run_blocks(attend, [[block] for group in _blocks(of, causal) for block in group])
        return out.reshape(*of.lead, *out.shape[1:]), logs.reshape(*of.lead, *logs.shape[1:])

    def flash_attention_backward(
        self,
        grad: AnyArray,
        query: AnyArray,
        key: AnyArray,
        value: AnyArray,
        mask: AnyArray,
        result: AnyArray,
        logsumexp: AnyArray,
        scale: float,
        causal: bool,
        dropout: DropoutDraw | None,
        needs: Sequence[bool],
    ) -> tuple[Any, Any, Any, Any]:
        if needs[3] or dropout is not None:
            body: Any = self.bodies["flash_attention_backward"]
            return body(self, grad, query, key, value, mask, result, logsumexp, scale, causal, dropout, needs)
        of = Heads.of(NUMPY, query, key, value, mask, grad)
        grad, logs = (in_heads(NUMPY, x, of.lead) for x in (grad, logsumexp))
        results = [
            np.zeros(x.shape, x.dtype) if is_needed else None for x, is_needed in zip(of[:3], needs[:3], strict=True)
        ]

        def work(block: Block) -> None:
            part, rows, keys = block
            weights = _scores(of, block, scale, causal)
            weights -= logs[part, rows]
            exponentials(weights, weights)
            slices = zip(results, (rows, keys, keys), strict=True)
            targets = [None if a is None else a[part, cut] for a, cut in slices]
            arrays = grad[part, rows], of.query[part, rows], of.key[part, keys], of.value[part, keys]
            add_gradients(targets, *arrays, weights, scale, add_product)

        _run_blocks(work, _blocks(of, causal))
        of_query, of_key, of_value = (a if a is None else a.reshape(*of.lead, *a.shape[1:]) for a in results)
        return of_query, of_key, of_value, None


def _blocks(of: Heads, causal: bool) -> list[list[Block]]:
    return blocks(of.scores_shape(), _SCORES, _QUERIES, causal)


def _run_blocks(work: Callable[[Block], None], groups: list[list[Block]]) -> None:
    """Call ``work(block)`` for each block; threads share the groups of blocks."""

    def run_numbers(numbers: Iterator[int]) -> None:
        for i in numbers:
            for block in groups[i]:
                work(block)

    share_products(run_numbers, len(groups))


def _scores(of: Heads, block: Block, scale: float, causal: bool) -> Any:
    """Return the scores of a block with the mask added, and minus infinity for keys that a query cannot see."""
    part, rows, keys = block
    scores = np.matmul(of.query[part, rows] * scale, of.key[part, keys].swapaxes(-1, -2))
    if of.mask is not None:
        scores += of.mask_part(block)
    first = rows.start
    if causal and first < keys.stop:
        scores[:, :, first:] += causal_mask(scores.shape[1], keys.stop - first, scores.dtype)
    return scores
