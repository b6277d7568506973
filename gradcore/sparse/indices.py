"""Indices of sparse tensors as arrays: sorting them, and finding repeated ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gradcore.autograd.variables import wrap
from gradcore.core.typing import Array
from gradcore.tensor import Tensor

if TYPE_CHECKING:
    from gradcore.sparse.tensor import SparseTensor

__all__ = ["are_equal", "flat_places", "raw", "sorted_indices"]


def are_equal(a: Tensor, b: Tensor) -> bool:
    return a is b or (a.shape == b.shape and bool((a == b).all()))


def raw(index: Tensor) -> Array:
    """Return the array of an index tensor."""
    return index._array


def flat_places(index: Array | Sequence[Array], sizes: Sequence[int]) -> Array:
    """Return the flat, row-major position of each column of indices in a tensor of these sizes."""
    flat: Array = index[0] * 1
    for row, size in zip(index[1:], sizes[1:], strict=True):
        flat = flat * size + row
    return flat


def sorted_indices(t: SparseTensor) -> tuple[Tensor | None, Tensor | None, Tensor]:
    """Sort the indices of a COO tensor, and find repeated ones.

    Return the sorting permutation (None if they are sorted), for each sorted element the number of its distinct index
    (None if no index is repeated), and the distinct indices.
    """
    xp, device = t.xp, t.home
    index = raw(t.index[0])
    sizes = t.sizes[: index.shape[0]]
    flat = flat_places(index, sizes)
    order = None
    if bool((flat[1:] < flat[:-1]).any()):
        order = device.backend.argsort_along(flat, 0)
        flat, index = flat.take(order), index.take(order, axis=1)
    is_first = flat[1:] != flat[:-1]
    order = None if order is None else wrap(order, device)
    if bool(is_first.all()):
        return order, None, t.index[0] if order is None else wrap(index, device)
    is_first = xp.concatenate([xp.ones(1, bool), is_first])
    return order, wrap(xp.cumsum(is_first) - 1, device), wrap(index.take(xp.flatnonzero(is_first), axis=1), device)
