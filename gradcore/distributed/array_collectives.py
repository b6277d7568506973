"""Collectives of arrays that return new arrays, used by the operations of ``ops.collectives``, also under vmap."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcore.autograd.variables import wrap
from gradcore.backends import registry
from gradcore.backends.vmap import BatchedArray
from gradcore.core.typing import AnyArray, AnyTensor
from gradcore.distributed import collectives
from gradcore.distributed.groups import ProcessGroup

__all__ = ["ArrayCollectives"]


def _run(
    array: AnyArray, call: Callable[[AnyTensor], AnyTensor], rows_in: bool = False, rows_out: bool = False
) -> AnyArray:
    """Run a call on a tensor, and return the result as an array. All samples of a batch are sent together.

    Parameters
    ----------
    array : array
    call : callable
    rows_in, rows_out : bool
        Whether the first dim of the argument, and of the result, counts processes or rows. That dim then stays before
        the batch dim.
    """
    if isinstance(array, BatchedArray):

        def of_batch(inner: AnyArray) -> AnyArray:
            xp = _library(inner)
            result = _run(xp.moveaxis(inner, 1, 0) if rows_in else inner, call, rows_in, rows_out)
            return _library(result).moveaxis(result, 1, 0) if rows_out else result

        return BatchedArray(of_batch(array.array), array.level)
    if isinstance(array, np.generic):
        array = np.asarray(array)
    index = getattr(getattr(array, "device", None), "id", None)
    device = registry.CPU if index is None else registry.resolve(f"cuda:{index}")
    return call(wrap(array, device))._array


def _library(array: AnyArray) -> Any:
    return np if isinstance(array, (np.ndarray, BatchedArray)) else registry.find("cuda").xp


def _new(t: AnyTensor, shape: Sequence[int]) -> AnyTensor:
    return wrap(t._device.backend.xp.empty(shape, t._array.dtype), t._device, t._dtype)


class ArrayCollectives:
    """Collectives of a group as functions of arrays.

    Parameters
    ----------
    group : ProcessGroup
    """

    def __init__(self, group: Any) -> None:
        self._group = group

    def all_reduce(self, array: AnyArray) -> AnyArray:
        """Return the sum over all processes."""

        def call(t: AnyTensor) -> AnyTensor:
            out = wrap(t._array.copy(order="C"), t._device, t._dtype)
            collectives.all_reduce(out, group=self._group)
            return out

        return _run(array, call)

    def broadcast(self, array: AnyArray, root: int) -> AnyArray:
        """Return the array of `root`."""

        def call(t: AnyTensor) -> AnyTensor:
            out = wrap(t._array.copy(order="C"), t._device, t._dtype)
            collectives.broadcast(out, group=self._group, group_src=root)
            return out

        return _run(array, call)

    def reduce(self, array: AnyArray, root: int) -> AnyArray:
        """Return the sum over all processes in `root`, and zeros elsewhere."""

        def call(t: AnyTensor) -> AnyTensor:
            out = wrap(t._array.copy(order="C"), t._device, t._dtype)
            collectives.reduce(out, group=self._group, group_dst=root)
            if self._group.rank() != root:
                out._array[...] = 0
            return out

        return _run(array, call)

    def all_gather(self, array: AnyArray) -> AnyArray:
        """Return the arrays of all processes, stacked."""

        def call(t: AnyTensor) -> AnyTensor:
            out = _new(t, (self._group.size(), *t._array.shape))
            collectives.all_gather_into_tensor(out, t, self._group)
            return out

        return _run(array, call, rows_out=True)

    def reduce_scatter(self, array: AnyArray) -> AnyArray:
        """Return the slice of this process of the sum over all processes."""

        def call(t: AnyTensor) -> AnyTensor:
            out = _new(t, t._array.shape[1:])
            collectives.reduce_scatter_tensor(out, t, group=self._group)
            return out

        return _run(array, call, rows_in=True)

    def all_to_all(self, array: AnyArray, received: Sequence[int], sent: Sequence[int]) -> AnyArray:
        """Return the rows that all processes have sent to this one."""

        def call(t: AnyTensor) -> AnyTensor:
            out = _new(t, (sum(received), *t._array.shape[1:]))
            collectives.all_to_all_single(out, t, received, sent, self._group)
            return out

        return _run(array, call, rows_in=True, rows_out=True)


_on_arrays = functools.cached_property(ArrayCollectives)
_on_arrays.__set_name__(ProcessGroup, "on_arrays")
#: The collectives of a group as functions of arrays, for operations with derivatives.
setattr(ProcessGroup, "on_arrays", _on_arrays)  # noqa: B010
