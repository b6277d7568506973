"""Plain arrays in the place of those that are recorded, wherever tensors are kept: by graphs, and by anything else."""

from __future__ import annotations

import functools
import gc
import types
from collections.abc import Sequence
from typing import Any

from gradcore.autograd.node import Node
from gradcore.autograd.saved import SavedTensor
from gradcore.autograd.variables import AutogradMeta, Variable
from gradcore.backends.portable.optimizers import Batch
from gradcore.backends.vmap.array import BatchedArray
from gradcore.compiler.arrays import RecordedArray
from gradcore.compiler.program import map_leaves

__all__ = ["give_holders_plain_arrays", "give_plain_arrays", "plain_batch"]


def give_holders_plain_arrays(arrays: Sequence[RecordedArray]) -> None:
    """Replace recorded arrays by plain ones in all tensors that hold them."""
    for holder in gc.get_referrers(*arrays):
        if isinstance(holder, (Variable, SavedTensor)) and isinstance(holder._array, RecordedArray):
            holder._array = holder._array.array


def _plain(leaf: Any) -> Any:
    return leaf.array if leaf.__class__ is RecordedArray else leaf


def plain_batch(batch: Batch) -> Batch:
    """Return a batch of parameters that take their steps together, as plain arrays."""
    for name, value in vars(batch).items():
        setattr(batch, name, map_leaves(_plain, value))
    return batch


def give_plain_arrays(nodes: list[Any], ends: list[Any]) -> None:
    """Replace recorded arrays by plain ones in what nodes, and those between them and `ends`, have saved."""
    seen: set[int] = set(map(id, ends))
    waiting: list[Any] = list(nodes)
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, types.FunctionType):  # not its globals
            waiting += each.__closure__ or ()
            continue
        if isinstance(each, (Variable, SavedTensor)) and isinstance(getattr(each, "_array", None), RecordedArray):
            each._array = each._array.array
        elif isinstance(each, BatchedArray) and isinstance(each.array, RecordedArray):
            each.array = each.array.array
        waiting += [part for part in gc.get_referents(each) if isinstance(part, _SEARCHED)]


#: What may hold tensors that a graph has saved.
_SEARCHED = (
    Node,
    Variable,
    SavedTensor,
    BatchedArray,
    AutogradMeta,
    tuple,
    list,
    dict,
    types.FunctionType,
    types.CellType,
    functools.partial,
)
