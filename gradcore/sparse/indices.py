"""Indices of sparse tensors as arrays: sorting them, and finding repeated ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradcore.autograd.variables import wrap
from gradcore.backends.sparsity import flat_places, unravel_places
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
    order, places = None, flat_places(index, sizes)
    if not _is_ascending(places):
        places, positions = device.backend.sort_along(places, 0)
        order = wrap(positions, device)
    is_first = places[1:] != places[:-1]
    is_distinct = bool(is_first.all())
    if order is None and is_distinct:
        return None, None, t.index[0]
    groups = None
    if not is_distinct:
        is_first = xp.concatenate([xp.zeros(1, bool), is_first])  # so that the sums count from zero
        groups = wrap(xp.cumsum(is_first), device)
        is_first[0] = True
        places = places[is_first]
    return order, groups, wrap(unravel_places(xp, places, sizes), device)


def _is_ascending(x: AnyArray) -> bool:
    return not bool((x[1:] < x[:-1]).any())
