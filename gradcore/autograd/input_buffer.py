"""Gradients of nodes that wait for their turn: their sums, and the devices on which these lie."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from heapq import heapify, heappush
from operator import add, iadd
from typing import Any

from gradcore import functional
from gradcore.autograd.modes import local
from gradcore.autograd.node import Node
from gradcore.autograd.variables import repeats, wrap
from gradcore.backends.vmap import batched_device
from gradcore.backends.vmap.array import levels_of

__all__ = ["PendingGradients", "PerDevice", "count_leaves"]


class PerDevice(dict[Any, Any]):
    """Partial sums of one gradient by the device on which its contributions arose."""


class PendingGradients:
    """The gradients of one backward call, raw arrays or tensors.

    Parameters
    ----------
    raw : bool
        Whether gradients are arrays, and not tensors.
    """

    #: The batches that gradients may be in.
    batches: tuple[Any, ...] = ()
    #: The current device.
    device: Any = None
    _entered: contextlib.ExitStack | None = None

    def __init__(self, raw: bool) -> None:
        self.raw = raw
        self.places: dict[int, Any] = {}
        #: A gradient for each node that waits, or a list of them for nodes with several outputs.
        self.pending: dict[Node, Any] = {}
        #: Nodes whose pending gradient is an array that the engine made and may write into.
        self.owned: set[Node] = set()
        #: The nodes that wait, the youngest first.
        self.heap: list[tuple[int, Node]] = []
        #: How many gradients each leaf has yet to receive, where that is counted.
        self.expected: dict[Node, int] | None = None

    # -- devices --------------------------------------------------------------------------------------------------

    def use_device(self, device: Any) -> None:
        """Make `device` current; nodes of one device follow each other, so this is rare."""
        if self._entered is not None:
            self.leave_device()
        self.device = device
        if device.guarded:
            self._entered = contextlib.ExitStack()
            self._entered.enter_context(device.backend.use_index(device.index))

    def leave_device(self) -> None:
        if self._entered is not None:
            self._entered.close()
            self._entered = None

    def place(self, device: Any) -> Any:
        """Where the gradients of a device's nodes lie."""
        if not self.batches:
            return device
        known = self.places.get(id(device))
        if known is None:
            known = self.places[id(device)] = batched_device(self.batches, device)
        return known

    # -- sums -----------------------------------------------------------------------------------------------------

    def add(self, node: Node, number: int, piece: Any, device: Any) -> None:
        """Add a contribution that arose on `device` to the gradient of a node's output."""
        pending = self.pending
        if node._n_outputs == 1:
            leaf = self.expected is not None and node.is_leaf_sink
            if node not in pending:
                pending[node] = PerDevice({device: piece}) if device is not node._device else piece
                if not leaf:
                    heappush(self.heap, (-node._seq, node))
            elif piece is not None:
                pending[node] = self.plus(pending[node], piece, device, node)
            if leaf:
                self.arrived(node)
            return
        slots = pending.get(node)
        if slots is None:
            slots = pending[node] = [None] * node._n_outputs
            heappush(self.heap, (-node._seq, node))
        if piece is not None:
            if slots[number] is None and device is not node._device:
                slots[number] = PerDevice({device: piece})
            else:
                slots[number] = self.plus(slots[number], piece, device, node, False)

    # -- leaves ---------------------------------------------------------------------------------------------------

    def expect_leaves(self, leading: set[Node] | None = None) -> None:
        """Count the gradients that leaves will receive from the nodes that wait, so that each runs after its last.

        Parameters
        ----------
        leading : set of Node, optional
            The nodes that run; all if None.
        """
        counts = self.expected = count_leaves(self.pending, leading)
        waiting = [entry for entry in self.heap if not entry[1].is_leaf_sink]
        if len(waiting) < len(self.heap):  # roots that are leaves
            leaves = [node for _, node in sorted(self.heap, reverse=True) if node.is_leaf_sink]
            self.heap[:] = waiting
            heapify(self.heap)
            for leaf in leaves:
                counts[leaf] = counts.get(leaf, 0) + 1
                self.arrived(leaf)

    def arrived(self, leaf: Node) -> None:
        """Note that a leaf has received a gradient; the last one puts it before all other nodes."""
        counts: Any = self.expected
        counts[leaf] -= 1
        if not counts[leaf]:
            self.complete += 1
            heappush(self.heap, (self.complete - _FIRST, leaf))

    #: How many leaves have received all gradients.
    complete = 0

    def plus(self, total: Any, piece: Any, device: Any, node: Node, may_own: bool = True) -> Any:
        """``total + piece``; in place only where the engine made `total` itself."""
        if type(total) is PerDevice or device is not node._device:
            if type(total) is not PerDevice:
                total = PerDevice({} if total is None else {node._device: total})
            part = total.get(device)
            total[device] = piece if part is None else part + piece
            self.owned.discard(node)
            return total
        if total is None:
            return piece
        if not self.raw:
            return total + piece
        if may_own:
            if (
                node in self.owned
                and total.__class__ is piece.__class__
                and total.dtype is piece.dtype
                and total.shape == piece.shape
                and (not self.batches or _holds(total, piece))
            ):
                return local.state.enter(iadd, total, piece)
            self.owned.add(node)
        total = local.state.enter(add, total, piece)
        backend = self.place(node._device).backend
        return total if total.__class__ is backend.array_type else backend.asarray(total)

    def add_part(self, node: Any, grad: Any) -> bool:
        """Add the gradient of a part to the sum for the whole where it exists and may be written into.

        So a loop over ``x[i]`` takes time in proportion to `x`, not to its square.
        """
        edge = node._edges[0]
        if edge is None or edge[0] not in self.owned or edge[0]._device is not node._device:
            return False
        total = self.pending.get(edge[0])
        if total is None or total.dtype != grad.dtype or (self.batches and not _holds(total, grad)):
            return False
        if total.__class__ is not self.place(node._device).backend.array_type:  # a number, which has no parts
            return False
        part = total[node.view_key(*node.saved)]
        local.state.enter(iadd, part, grad)
        return True

    def gathered(self, grad: Any, device: Any) -> Any:
        """A gradient on its node's device: each device's partial sum is moved once."""
        if type(grad) is list:
            return [self.gathered(g, device) for g in grad] if PerDevice in map(type, grad) else grad
        if type(grad) is not PerDevice:
            return grad
        total = None
        for place, part in grad.items():
            if part is None:
                continue
            if place is not device:
                part = functional.to(self.as_tensor(part, place), device)
                part = part._array if self.raw else part
            total = part if total is None else total + part
        return total

    # -- arrays and tensors ---------------------------------------------------------------------------------------

    def as_tensor(self, grad: Any, device: Any) -> Any:
        return wrap(grad, self.place(device)) if self.raw and grad is not None else grad

    def in_own_memory(self, grad: Any, device: Any) -> Any:
        """A gradient as a tensor for those who may write to it: no element of it lies where another one does."""
        t = self.as_tensor(grad, device)
        if t is None:
            return None
        writable = getattr(getattr(t._array, "flags", None), "writeable", True)
        return t if writable and not repeats(t._array) else functional.clone(t, memory_format="contiguous")

    def as_carried(self, grad: Any) -> Any:
        return grad._array if self.raw and grad is not None else grad


#: Leaves run before all other nodes: creation numbers stay below this.
_FIRST = 1 << 62


def count_leaves(nodes: Iterable[Node], leading: set[Node] | None = None) -> dict[Node, int]:
    """How many edges lead to each leaf from `nodes` and what they reach, within the nodes `leading` if given."""
    counts: dict[Node, int] = {}
    seen = set(nodes)
    stack = [node._edges for node in seen]
    while stack:
        for edge in stack.pop():
            if edge is None:
                continue
            node = edge[0]
            if leading is not None and node not in leading:
                continue
            if node.is_leaf_sink:
                counts[node] = counts.get(node, 0) + 1
            elif node not in seen:
                seen.add(node)
                stack.append(node._edges)
    return counts


def _holds(total: Any, piece: Any) -> bool:
    """Whether every sample that differs in `piece` has memory of its own in `total`."""
    return set(levels_of(piece)) <= set(levels_of(total))
