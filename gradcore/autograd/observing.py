"""What sees gradients during backward: hooks of tensors and nodes, retained gradients, and what `grad` asks for."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify
from operator import attrgetter
from typing import Any

from gradcore.autograd import leaves
from gradcore.autograd.hooks import call_posthooks, call_prehooks, call_tensor_hooks
from gradcore.autograd.input_buffer import PendingGradients
from gradcore.autograd.node import Hooks, Node
from gradcore.autograd.variables import OWN, Meta

__all__ = ["ObservedGradients"]

_creation = attrgetter("_seq")


class ObservedGradients(PendingGradients):
    """Gradients on their way, with those who watch them.

    Parameters
    ----------
    raw : bool
        Whether gradients are arrays, and not tensors.
    captures : dict
        The gradients that are asked for: ``{node: [(output number, key), ...]}``.
    accumulate : bool
        Whether the nodes of `captures` also run.
    """

    #: The nodes that lead to captures, if there are any.
    leading: set[Node] | None = None

    def __init__(self, raw: bool, captures: dict[Node, list[tuple[int, int]]], accumulate: bool) -> None:
        super().__init__(raw)
        self.captures, self.accumulate = captures, accumulate
        #: The gradients that were asked for, by their keys.
        self.found: dict[int, Any] = {}

    def lead_to_captures(self) -> None:
        """Find the nodes that lead to what is asked for, and leave out the roots that do not.

        The gradient of a single root is seen in any case: it is what was given.
        """
        self.leading = _leading_to(self.captures, self.pending)
        waiting = [entry for entry in self.heap if entry[1] in self.leading]
        if not waiting and len(self.heap) == 1:
            _, root = self.heap[0]
            self.observe(root, self.gathered(self.pending[root], root._device))
        if len(waiting) < len(self.heap):
            self.heap[:] = waiting
            heapify(self.heap)

    def observe(self, node: Node, grad: Any) -> Any:
        """What sees the gradient of a tensor, before its node: hooks, retained gradients, captures."""
        if node.is_leaf_sink:
            meta: Meta = node.variable._meta  # type: ignore[attr-defined]
            table = meta.hooks
            if meta.grad_dtype is not OWN and grad is not None:
                grad = leaves.cast(grad, meta.grad_dtype, self.raw)
            if table:
                self.owned.discard(node)
                grad = self.as_carried(call_tensor_hooks(table, self.in_own_memory(grad, node._device)))
        elif node._hooks is not None:
            grad = self.tensor_hooks(node, node._hooks, grad)
        for number, key in self.captures.get(node, ()):
            self.owned.discard(node)
            self.found[key] = self.in_own_memory(grad[number] if type(grad) is list else grad, node._device)
        return grad

    def tensor_hooks(self, node: Node, hooks: Hooks, grad: Any) -> Any:
        several = type(grad) is list
        grads = [self.in_own_memory(g, node._device) for g in (grad if several else [grad])]
        for number, table in hooks.tensor.items():
            grads[number] = call_tensor_hooks(table, grads[number])
        for number, reference in hooks.retain.items():
            tensor = reference()
            if tensor is not None and grads[number] is not None:
                leaves.keep(tensor, grads[number])
        carried = [self.as_carried(g) for g in grads]
        return carried if several else carried[0]

    def executes(self, node: Node) -> bool:
        """Whether a node that has its gradient is to do something with it."""
        if node in self.captures and self.accumulate:
            return True
        leading = self.leading
        if leading:
            for edge in node._edges:
                if edge is not None and edge[0] in leading:
                    return True
        return False

    def prehooks(self, node: Node, hooks: Hooks, grad: Any) -> Any:
        self.owned.discard(node)
        several = type(grad) is list
        carried = list(grad) if several else [grad]
        seen = node._seen_outputs
        grads = tuple(self.in_own_memory(carried[i], node._device) for i in seen)
        for i, g in zip(seen, call_prehooks(hooks.pre, grads), strict=True):
            carried[i] = self.as_carried(g)
        return carried if several else carried[0]

    def posthooks(self, node: Node, hooks: Hooks, pieces: Any, grad: Any) -> Any:
        self.owned.discard(node)
        carried = grad if type(grad) is list else [grad]
        outputs = tuple(self.as_tensor(carried[i], node._device) for i in node._seen_outputs)
        devices = node._input_devices or [node._device] * len(pieces)
        inputs = tuple(self.in_own_memory(p, device) for p, device in zip(pieces, devices, strict=True))
        found = call_posthooks(hooks.post, node.shown(inputs), outputs)
        return [self.as_carried(p) for p in node.spread(found)]


def _leading_to(targets: Iterable[Node], roots: Iterable[Node]) -> set[Node]:
    """The nodes on the way from `roots` to any of `targets`."""
    oldest = min([node._seq for node in targets], default=0)
    seen = set(roots)
    stack = [node._edges for node in seen]
    while stack:
        for edge in stack.pop():
            if edge is not None:
                successor = edge[0]
                edges = successor._edges
                if edges and successor not in seen and successor._seq >= oldest:
                    seen.add(successor)
                    stack.append(edges)
    leading = set(targets)
    for node in sorted(seen, key=_creation):  # those that a node leads to are older
        for edge in node._edges:
            if edge is not None and edge[0] in leading:
                leading.add(node)
                break
    return leading
