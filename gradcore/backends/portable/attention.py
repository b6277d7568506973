"""Attention in blocks of queries, for kernels that do not save the weights: the block sizes and operand layout."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcore.core.typing import NamedTuple

if TYPE_CHECKING:
    from gradcore.core.arrays import Array, Namespace

__all__ = ["Block", "Heads", "blocks", "in_heads"]


class Block(NamedTuple):
    """Block of scores: a slice of heads, a slice of queries (`rows`), and the slice of keys they can see (`seen`)."""

    heads: slice
    rows: slice
    seen: slice


class Heads(NamedTuple):
    """Operands of attention: queries, keys and values as one matrix for each head, and the mask.

    Attributes
    ----------
    query, key, value : array
        ``(heads, length, width)``.
    mask : array or None
        ``(masks, queries or 1, keys or 1)``.
    mask_of : array or None
        Number of the mask of each head, or None if all heads have the same mask.
    lead : tuple of int
        Batch dims that were merged into the dim of heads.
    """

    query: Any
    key: Any
    value: Any
    mask: Any
    mask_of: Any
    lead: tuple[int, ...]

    @classmethod
    def of(
        cls, xp: Namespace, query: Array, key: Array, value: Array, mask: Array | None, grad: Array | None = None
    ) -> Heads:
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

    def mask_part(self, block: Block) -> Array:
        """Return the part of the mask that belongs to a block."""
        rows, keys = (cut if n > 1 else slice(None) for cut, n in zip(block[1:], self.mask.shape[1:], strict=True))
        part = self.mask[:, rows, keys]
        return part if self.mask_of is None else part[self.mask_of[block.heads]]


def in_heads(xp: Namespace, x: Array, lead: Sequence[int]) -> Array:
    """Broadcast `x` to the batch dims `lead`, and merge these into one dim of heads."""
    return xp.broadcast_to(x, (*lead, *x.shape[-2:])).reshape(prod(lead), *x.shape[-2:])


def blocks(shape: tuple[int, int, int], scores: int, queries: int, causal: bool) -> list[list[Block]]:
    """Return the blocks that cover all heads and queries, for each group of heads.

    Parameters
    ----------
    shape : tuple of int
        Number of heads, queries and keys.
    scores : int
        Largest number of scores in a block that has more than one head or one row.
    queries : int
        Largest number of rows in a block. Without `causal`, a block may have all rows of a head if they are few enough.
    causal : bool
        Whether queries cannot see later keys, which are then left out of the block.
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
