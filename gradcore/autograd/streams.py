"""Nodes in the CUDA stream of their forward."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gradcore.backends.streams import STREAMS
from gradcore.backends.vmap import BatchedArray

__all__ = ["run_in_its_stream"]


def run_in_its_stream(task: Any, node: Any, grad: Any) -> None:
    """Run a node of a backward call where its forward ran; what it leaves is used in the present stream."""
    device = node._device
    backend = device.real.backend
    with STREAMS.as_at(node._seq, backend, device.index) as present:
        task.run_alone(node, grad)
        if present is not None:
            for array in _left(task, node):
                if array.__class__ is backend.array_type and array.device.id == device.index:
                    backend.lifetimes.used_in(array, present, device.index)


def _left(task: Any, node: Any) -> Iterator[Any]:
    """The arrays that a node leaves to those after it, to its leaf, or to the caller."""
    found: list[Any] = [*task.found.values()]
    if node.is_leaf_sink:
        found.append(node.variable._meta.grad)
    for edge in node._edges:
        if edge is not None:
            pending = task.pending.get(edge[0])
            found += pending if type(pending) is list else [pending]
    for each in found:
        for part in each.values() if isinstance(each, dict) else (each,):
            array = getattr(part, "_array", part)
            while isinstance(array, BatchedArray):
                array = array.array
            yield array
