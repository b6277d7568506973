"""Indices of sparse tensors as arrays: sorting them, and finding repeated ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradcore.autograd.variables import wrap
from gradcore.backends.sparsity import flat_places
from gradcore.core.typing import AnyArray
from gradcore.tensor import Tensor

if TYPE_CHECKING:
    from gradcore.sparse.tensor import SparseTensor

__all__ = ["are_equal", "raw", "sorted_indices"]


def are_equal(a: Tensor, b: Tensor) -> bool:
    return a is b or (a.shape == b.shape and bool((a == b).all()))


def raw(index: Tensor) -> AnyArray:
    """Return the array of an index tensor."""
    return index._array


def sorted_indices(t: SparseTensor) -> tuple[Tensor | None, Tensor | None, Tensor]:
    """Sort the indices of a COO tensor, and find repeated ones.

    Return the sorting permutation (None if they are sorted), for each sorted element the number of its distinct index
    (None if no index is repeated), and the distinct indices.
    """
    xp, device = t.xp, t.home
    index = raw(t.index[0])
    sizes = t.sizes[: index.shape[0]]
    order = None
    if not (_is_ascending(index[0]) and _is_ascending(flat_places(index, sizes))):
        positions, index = device.backend.sort_coordinates(index, sizes)
        order = wrap(positions, device)
    is_first = (index[:, 1:] != index[:, :-1]).any(0)
    if bool(is_first.all()):
        return order, None, t.index[0] if order is None else wrap(index, device)
    is_first = xp.concatenate([xp.ones(1, bool), is_first])
    distinct = xp.stack([row[is_first] for row in index])
    return order, wrap(xp.cumsum(is_first) - 1, device), wrap(distinct, device)


def _is_ascending(x: AnyArray) -> bool:
    return not bool((x[1:] < x[:-1]).any())
