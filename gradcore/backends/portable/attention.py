"""Attention in blocks of queries, for kernels that do not save the weights: the block sizes and operand layout."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Block", "Heads", "blocks", "in_heads"]


class Block(NamedTuple):
    """A slice of heads, a slice of queries, and the slice of keys that these queries can see (`seen`)."""

    heads: slice
    rows: slice
    seen: slice


class Heads(NamedTuple):
    """Queries, keys and values as matrices of heads, and the mask.

    Attributes
    ----------
    query, key, value : array
        ``(heads, length, width)``.
    mask : array or None
        ``(masks, queries or 1, keys or 1)``.
    mask_of : array or None
        Which of the masks a head has; None where there is one for all.
    lead : tuple of int
        The batch dims that are one dim here.
    """

    query: Any
    key: Any
    value: Any
    mask: Any
    mask_of: Any
    lead: tuple[int, ...]

    @classmethod
    def of(cls, xp: Any, query: Any, key: Any, value: Any, mask: Any, grad: Any = None) -> Heads:
        """Return the operands of attention with broadcast batch dims, which are merged into one dim of heads.

        The batch dims of `grad`, if it is given, are part of the broadcast.
        """
        masks = () if mask is None else mask.shape[:-2]
        lead = np.broadcast_shapes(*(x.shape[:-2] for x in (query, key, value, mask, grad) if x is not None))
        mask_of = None
        if mask is not None:
            mask = mask.reshape((1,) * (2 - mask.ndim) + mask.shape)
            mask = mask.reshape(prod(masks), *mask.shape[-2:])
            if len(mask) > 1:
                mask_of = xp.broadcast_to(xp.arange(len(mask)).reshape(masks), lead).reshape(-1)
        query, key, value = (in_heads(xp, x, lead) for x in (query, key, value))
        return cls(query, key, value, mask, mask_of, lead)

    def scores_shape(self) -> tuple[int, int, int]:
        """Return the shape of the scores: heads, queries and keys."""
        return (*self.query.shape[:2], self.key.shape[1])

    def mask_part(self, block: Block) -> Any:
        """Return the part of the mask that belongs to a block."""
        rows, keys = (cut if n > 1 else slice(None) for cut, n in zip(block[1:], self.mask.shape[1:], strict=True))
        part = self.mask[:, rows, keys]
        return part if self.mask_of is None else part[self.mask_of[block.heads]]


def in_heads(xp: Any, x: Any, lead: Sequence[int]) -> Any:
    """Broadcast `x` to the batch dims `lead`, and return it with these merged into one dim."""
    return xp.broadcast_to(x, (*lead, *x.shape[-2:])).reshape(prod(lead), *x.shape[-2:])


def blocks(shape: tuple[int, int, int], scores: int, queries: int, causal: bool) -> list[list[Block]]:
    """Return the blocks that cover all heads and queries, for each group of heads.

    Parameters
    ----------
    shape : tuple of int
        Heads, queries and keys.
    scores : int
        Scores of a block at most, if it has more than one head and one row.
    queries : int
        Rows of a block at most; all rows of a head if that is not causal, and they are few enough.
    causal : bool
        Whether a query sees no later keys, which are then left out.
    """
    heads, rows, keys = shape
    step = min(rows, queries if causal or rows * keys > scores else rows, max(1, scores // keys))
    group = max(1, scores // (step * keys))
    return [
        [
            Block(slice(h, h + group), slice(i, i + step), slice(min(i + step, keys) if causal else keys))
            for i in range(0, rows, step)
        ]
        for h in range(0, heads, group)
    ]
