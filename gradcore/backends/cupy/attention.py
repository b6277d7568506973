"""Attention with wide heads on CUDA: scores are computed for one block of queries at a time.

The matrix of all scores is never stored; backward computes the scores of each block again. cuBLAS multiplies the
matrices and sums in float32 for float16 and bfloat16. One kernel applies the mask and softmax to the scores of a block.
Causal attention leaves out the keys that no query of a block sees.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcore.backends.cupy.kernels import C_NAMES, NULL, CudaKernels, accumulation_dtype, rows_of, type_name
from gradcore.backends.portable.attention import Block, Heads, blocks, in_heads
from gradcore.backends.portable.normalization import Normalization
from gradcore.backends.random.generator import DropoutDraw
from gradcore.backends.switches import cuda
from gradcore.core.typing import AnyArray

__all__ = ["CudaAttention"]

#: Number of scores of a block, which suffices to occupy a device (64 MB of float32), and number of its queries.
_SCORES, _QUERIES = 1 << 24, 512


class CudaAttention(CudaKernels, Normalization):
    """Attention of real floating-point arrays, with any mask and any batch dims that broadcast."""

    bodies: dict[str, Callable[..., Any]]
    wide_product: Any
    matmul: Any

    def keeps_weights(self, scores: int, dtype: str) -> bool:
        return not (scores and self.uses("attention") and dtype in C_NAMES and cuda.flash_sdp_enabled())

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
            wide = (x if x is None else x.astype(accumulation_dtype(x), copy=False) for x in (query, key, value, mask))
            out, logs = body(self, *wide, scale, causal, dropout)
            return out.astype(query.dtype, copy=False), logs
        xp = self.xp
        of = Heads.of(xp, query, key, value, mask)
        heads, queries, _ = of.scores_shape()
        out = self.allocate((heads, queries, value.shape[-1]), query.dtype)
        logs = self.allocate((heads, queries, 1), accumulation_dtype(query))
        for group in blocks(of.scores_shape(), _SCORES, _QUERIES, causal):
            for block in group:
                scores = self._scores(of, block, scale)
                weights = scores if scores.dtype == query.dtype else self.allocate(scores.shape, query.dtype)
                self._rows("attention_weights", of, block, causal, (scores,), (weights, logs))
                out[block.heads, block.rows] = self.matmul(weights, of.value[block.heads, block.seen])
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
            inputs = grad, query, key, value, mask
            converted = (x if x is None else x.astype(accumulation_dtype(x), copy=False) for x in inputs)
            gradients = body(self, *converted, result, logsumexp, scale, causal, dropout, needs)
            narrow = [None if x is None else x.astype(grad.dtype, copy=False) for x in gradients]
            return narrow[0], narrow[1], narrow[2], narrow[3]
        xp = self.xp
        of = Heads.of(xp, query, key, value, mask, grad)
        grad, logs = (in_heads(xp, x, of.lead) for x in (grad, logsumexp))
        results = [
            xp.zeros(x.shape, accumulation_dtype(x)) if is_needed else None
            for x, is_needed in zip(of[:3], needs[:3], strict=True)
        ]
        of_query, of_key, of_value = results
        for group in blocks(of.scores_shape(), _SCORES, _QUERIES, causal):
            for block in group:
                part, rows, keys = block
                weights, of_scores = self._gradients(of, block, grad[part, rows], logs, scale, causal)
                if of_value is not None:
                    of_value[part, keys] += self.wide_product(weights.swapaxes(-1, -2), grad[part, rows])
                if of_query is not None:
                    of_query[part, rows] += self.wide_product(of_scores, of.key[part, keys], scale)
                if of_key is not None:
                    of_key[part, keys] += self.wide_product(of_scores.swapaxes(-1, -2), of.query[part, rows], scale)
        of_query, of_key, of_value = (
            a if a is None else a.reshape(*of.lead, *a.shape[1:]).astype(grad.dtype, copy=False) for a in results
        )
        return of_query, of_key, of_value, None

    def _scores(self, of: Heads, block: Block, scale: float) -> Any:
        """Return the scores ``scale * query @ key.T`` of a block, before the mask is applied."""
        keys = of.key[block.heads, block.seen].swapaxes(-1, -2)
        return self.wide_product(of.query[block.heads, block.rows], keys, scale)

    def _gradients(self, of: Heads, block: Block, grad: Any, logs: Any, scale: float, causal: bool) -> tuple[Any, Any]:
        """Return the attention weights of a block, and the gradient with respect to its scores."""
        scores = self._scores(of, block, scale)
        of_weights = self.wide_product(grad, of.value[block.heads, block.seen].swapaxes(-1, -2))
        outputs = scores, of_weights
        if scores.dtype != grad.dtype:
            outputs = self.allocate(scores.shape, grad.dtype), self.allocate(scores.shape, grad.dtype)
        self._rows("attention_gradients", of, block, causal, (scores, of_weights), (logs, *outputs))
        return outputs

    def _rows(
        self, name: str, of: Heads, block: Block, causal: bool, scores: tuple[Any, ...], others: tuple[Any, ...]
    ) -> None:
        """Launch the kernel `name` on the rows of a block. The kernel takes `scores`, the mask, then `others`."""
        heads, rows, keys = scores[0].shape
        mask, mask_of, steps = NULL, NULL, [0, 0, 0]
        if of.mask is not None:
            mask = of.mask.astype(of.query.dtype, copy=False)
            mask_of = NULL if of.mask_of is None else of.mask_of
            steps = [s // mask.itemsize if n > 1 else 0 for s, n in zip(mask.strides, mask.shape, strict=True)]
        sizes = heads * rows, keys, rows, of.query.shape[1], block.heads.start, block.rows.start
        kernel = self.cuda_kernel("attention", name, type=type_name(of.query.dtype))
        settings = (*self.int64s(*sizes), np.bool_(causal), *self.int64s(*steps))
        kernel(*rows_of(scores[0], heads * rows, keys), (*scores, mask, mask_of, *others, *settings))
