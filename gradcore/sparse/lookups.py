"""Lookup of table rows by index with a sparse gradient, which stores only the rows in use."""

from __future__ import annotations

from typing import Any

from gradcore import functional
from gradcore.autograd.function import Function
from gradcore.autograd.variables import wrap
from gradcore.sparse.tensor import COO, sparse
from gradcore.tensor import Tensor

__all__ = ["lookup"]


class RowLookup(Function):
    """`gradcore.functional.embedding_rows` with a sparse gradient."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, indices: Tensor, padding_idx: int, scale_grad_by_freq: bool) -> Any:
        """Return the rows of the table."""
        ctx.save_for_backward(indices)
        ctx.save_for_forward(indices)
        ctx.settings = weight.shape, padding_idx, scale_grad_by_freq
        return functional.embedding_rows(weight, indices)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        """Return the gradient as an uncoalesced tensor with a row for each index, or as a dense tensor under vmap."""
        (indices,), (size, padding_idx, scale_grad_by_freq) = ctx.saved_tensors, ctx.settings
        if scale_grad_by_freq:
            raise RuntimeError("embedding_backward: scale_grad_by_freq not supported with sparse gradients")
        if functional.is_batched(grad) or functional.is_batched(indices):
            return functional.embedding_sum(grad, indices, size[0], padding_idx), None, None, None
        rows, values = indices.reshape(-1), grad.reshape(-1, size[1])
        if padding_idx >= 0:
            is_counted = rows != padding_idx
            rows, values = rows[is_counted], values[is_counted]
        index = wrap(rows._array.astype("int64", copy=False)[None], rows._device)
        return sparse(COO, size, (index,), values, False), None, None, None

    @staticmethod
    def jvp(ctx: Any, weight_t: Any, *others: Any) -> Any:
        """Return the same rows of the tangent."""
        return functional.embedding_rows(weight_t, *ctx.saved_tensors)

    generate_vmap_rule = True


RowLookup._backward_cls.__name__ = "EmbeddingBackward0"


def lookup(weight: Tensor, indices: Tensor, padding_idx: int, scale_grad_by_freq: bool) -> Any:
    """Return the rows of a table; its gradient is sparse, except under vmap."""
    if weight.is_meta or functional.is_batched(weight) or functional.is_batched(indices):
        return functional.embedding_rows(weight, indices, padding_idx, scale_grad_by_freq)
    return RowLookup.apply(weight, indices, padding_idx, scale_grad_by_freq)
