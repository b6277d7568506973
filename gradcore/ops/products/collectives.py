"""Collectives: linear maps from the tensors of all processes of a group to the tensors of all, with their adjoints.

`group` computes them; the public functions are in ``distributed.nn.functional``. All processes differentiate the same
program, so backward calls its collectives in the same order in all of them.
"""

from __future__ import annotations

from typing import Any

from gradcore.ops.declare.table import linear


@linear(lambda F, grad, group: F.all_reduce_sum(grad, group), function=False, method=False, samples=list)
def all_reduce_sum(K, self, group: Any):
    """Return the sum over all processes, in each process."""
    return group.on_arrays.all_reduce(self)


@linear(lambda F, grad, group, root: F.reduce_sum(grad, group, root), function=False, method=False, samples=list)
def broadcast_from(K, self, group: Any, root: int):
    """Return the tensor of the process `root`, in each process."""
    return group.on_arrays.broadcast(self, root)


@linear(lambda F, grad, group, root: F.broadcast_from(grad, group, root), function=False, method=False, samples=list)
def reduce_sum(K, self, group: Any, root: int):
    """Return the sum over all processes in the process `root`, and zeros in the others."""
    return group.on_arrays.reduce(self, root)


@linear(lambda F, grad, group: F.reduce_scatter_sum(grad, group), function=False, method=False, samples=list)
def all_gather_stacked(K, self, group: Any):
    """Return the tensors of all processes along a new first dim, in each process."""
    return group.on_arrays.all_gather(self)


@linear(lambda F, grad, group: F.all_gather_stacked(grad, group), function=False, method=False, samples=list)
def reduce_scatter_sum(K, self, group: Any):
    """Return the slice of the sum over all processes that has this process's rank as index."""
    return group.on_arrays.reduce_scatter(self)


@linear(
    lambda F, grad, group, received, sent: F.exchange_rows(grad, group, sent, received),
    function=False,
    method=False,
    samples=list,
)
def exchange_rows(K, self, group: Any, received: tuple[int, ...], sent: tuple[int, ...]):
    """Exchange rows of the first dim.

    This process gets ``received[i]`` rows from process `i`, and sends ``sent[i]`` rows to it.
    """
    return group.on_arrays.all_to_all(self, received, sent)
