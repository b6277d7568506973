"""The engine: runs nodes in the order of their creation, latest first, and sums gradients on the way.

A node is created after the nodes of its inputs, so among the nodes that have received a gradient the youngest has
received all of its gradients: a heap ordered by creation number is the whole schedule. There is no recursion and no
pass over the graph beforehand, unless only certain inputs are asked for.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from functools import partial
from heapq import heapify, heappop, heappush
from operator import add, attrgetter, iadd
from typing import Any

from gradcore.autograd import anomaly_mode, leaves, reentrant
from gradcore.autograd.formulas import LEAF, PLANS, TENSORS, UNCHANGED, all_gradients, are_real, fit
from gradcore.autograd.hooks import call_posthooks, call_prehooks, call_tensor_hooks
from gradcore.autograd.leaves import accumulate
from gradcore.autograd.modes import ANOMALY, DUAL, GRAD, INFERENCE, PROFILE, local
from gradcore.autograd.nodes import Hooks, Node, OpNode
from gradcore.autograd.streams import run_in_its_stream
from gradcore.autograd.variables import OWN, Clock, Meta, Subclasses, tensor_type, wrap
from gradcore.backends.batching import over
from gradcore.backends.batching.array import levels_of
from gradcore.backends.streams import STREAMS

__all__ = ["run_backward"]

_creation = attrgetter("_seq")


def run_backward(
    roots: Sequence[tuple[Node, int, Any]],
    *,
    retain_graph: bool,
    create_graph: bool,
    captures: dict[Node, list[tuple[int, int]]] | None = None,
    accumulate: bool = True,
) -> dict[int, Any]:
    """Backpropagate from `roots` (node, output number, gradient as a tensor).

    Parameters
    ----------
    roots : sequence of (Node, int, Tensor)
    retain_graph, create_graph : bool
    captures : dict, optional
        Nodes whose incoming gradients are wanted: ``{node: [(output number, key), ...]}``. Then only what leads
        there is computed.
    accumulate : bool
        Whether these nodes also run: leaves get the gradient in ``.grad``, and the hooks of the others are called.

    Returns
    -------
    dict
        The captured gradients, as tensors, by key.
    """
    state = local.state
    if state.task is not None and reentrant.is_deep():
        return reentrant.elsewhere(  # type: ignore[no-any-return]
            lambda: run_backward(
                roots, retain_graph=retain_graph, create_graph=create_graph, captures=captures, accumulate=accumulate
            )
        )
    # Raw arrays carry neither history nor tangents: only where nobody watches.
    raw = not create_graph and not state.mode & DUAL
    before, outer, pack_hooks = state.mode, state.task, state.pack_hooks
    task = _Task(raw, retain_graph, create_graph, captures, accumulate, before)
    task.batches = _batches_of(roots, state.batches)
    state.mode = task.mode = (before | GRAD if create_graph else before & ~GRAD) & ~INFERENCE
    state.task = task
    try:
        for node, number, grad in roots:
            device = node._device if grad._device.levels else grad._device
            if device.guarded:  # the gradients of one node are added
                task.use_device(device)
            task.add(node, number, grad._array if raw else grad, device)
        task.run(state.run)
        if task.notes:
            reentrant.call_back(task.notes)
    finally:
        state.mode, state.task, state.pack_hooks = before, outer, pack_hooks
        task.leave_device()
    return task.found


def _batches_of(roots: Sequence[tuple[Node, int, Any]], running: tuple[Any, ...]) -> tuple[Any, ...]:
    """The batches that gradients may be in, whether or not the nodes are: those that run, and those of the roots."""
    extra = []
    for _, _, grad in roots:
        for level in grad._device.levels:
            if level not in running and level not in extra:
                extra.append(level)
    return (*running, *extra) if extra else running


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


class _PerDevice(dict[Any, Any]):
    """Partial sums of one gradient by the device on which its contributions arose."""


class _Task:
    """The state of one backward call."""

    #: The mode in which every node starts, whatever a hook has switched on or off.
    mode = 0
    batches: tuple[Any, ...] = ()
    leading: set[Node] | None = None
    #: All nodes of this call, found when first asked for.
    reachable: set[Node] | None = None
    device: Any = None
    _entered: contextlib.ExitStack | None = None

    def __init__(
        self,
        raw: bool,
        retain: bool,
        create: bool,
        captures: dict[Node, list[tuple[int, int]]] | None,
        accumulate: bool,
        mode: int,
    ) -> None:
        self.raw, self.retain, self.create, self.accumulate = raw, retain or create, create, accumulate
        self.places: dict[int, Any] = {}
        #: Gradients of nodes that wait: a gradient, or a list of them for nodes with several outputs.
        self.pending: dict[Node, Any] = {}
        #: Nodes whose pending gradient is an array that the engine made and may write into.
        self.owned: set[Node] = set()
        self.heap: list[tuple[int, Node]] = []
        self.captures = captures or {}
        self.found: dict[int, Any] = {}
        #: What hooks on several tensors remember during this call.
        self.notes: dict[Any, Any] = {}
        #: Which of anomaly detection and a profiler are on: bits of the mode.
        self.watch = mode & (ANOMALY | PROFILE)

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
            known = self.places[id(device)] = over(self.batches, device)
        return known

    # -- sums -----------------------------------------------------------------------------------------------------

    def add(self, node: Node, number: int, piece: Any, device: Any) -> None:
        """Add a contribution that arose on `device` to the gradient of a node's output."""
        pending = self.pending
        if node._n_outputs == 1:
            if node not in pending:
                pending[node] = _PerDevice({device: piece}) if device is not node._device else piece
                heappush(self.heap, (-node._seq, node))
            elif piece is not None:
                pending[node] = self.plus(pending[node], piece, device, node)
            return
        slots = pending.get(node)
        if slots is None:
            slots = pending[node] = [None] * node._n_outputs
            heappush(self.heap, (-node._seq, node))
        if piece is not None:
            if slots[number] is None and device is not node._device:
                slots[number] = _PerDevice({device: piece})
            else:
                slots[number] = self.plus(slots[number], piece, device, node, False)

    def plus(self, total: Any, piece: Any, device: Any, node: Node, may_own: bool = True) -> Any:
        """``total + piece``; in place only where the engine made `total` itself."""
        if type(total) is _PerDevice or device is not node._device:
            if type(total) is not _PerDevice:
                total = _PerDevice({} if total is None else {node._device: total})
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
                return local.state.run(iadd, total, piece)
            self.owned.add(node)
        total = local.state.run(add, total, piece)
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
        part = total[node.place(*node.saved)]
        local.state.run(iadd, part, grad)
        return True

    def gathered(self, grad: Any, device: Any) -> Any:
        """A gradient on its node's device: each device's partial sum is moved once."""
        if type(grad) is list:
            return [self.gathered(g, device) for g in grad] if _PerDevice in map(type, grad) else grad
        if type(grad) is not _PerDevice:
            return grad
        total = None
        for place, part in grad.items():
            if part is None:
                continue
            if place is not device:
                part = TENSORS.to(self.as_tensor(part, place), device)
                part = part._array if self.raw else part
            total = part if total is None else total + part
        return total

    def lead_to_captures(self) -> None:
        """Find the nodes that lead to what is asked for, and leave out the roots that do not."""
        self.leading = _leading_to(self.captures, self.pending)
        waiting = [entry for entry in self.heap if entry[1] in self.leading]
        if len(waiting) < len(self.heap):
            self.heap[:] = waiting
            heapify(self.heap)

    # -- the loop -------------------------------------------------------------------------------------------------

    def run(self, run: Any) -> None:
        """Run nodes until none waits: plain ones here, others by `run_any`.

        (One function: a node takes about a microsecond, and a call of Python a tenth of that.)
        """
        self.roots: list[Node] = list(self.pending)
        if self.captures:
            self.lead_to_captures()
        heap, pending, owned, raw, retain = self.heap, self.pending, self.owned, self.raw, self.retain
        leading, captures, batched = self.leading, self.captures, bool(self.batches)
        device: Any = None
        node: Any
        F: Any
        plans: Any
        while heap:
            age, node = heappop(heap)  # the creation number, negative
            grad = pending.pop(node)
            if node._device is not device:
                device = node._device
                self.use_device(device)
                F, plans, array_type = self.means(device)
            plan = plans.get(type(node))
            while True:
                kind = type(grad)
                if (
                    plan is None
                    or node._hooks is not None
                    or grad is None
                    or kind is _PerDevice
                    or (captures and node in captures)
                ):
                    self.run_any(node, grad)
                    break
                if plan is LEAF:
                    meta = node.variable._meta
                    if raw and not meta.hooks and not meta.post_accumulate_hooks and meta.grad_dtype is OWN:
                        accumulate(node, grad, True, node in owned, batched)
                    else:
                        self.run_any(node, grad)
                    break
                metas = node.metas
                if metas is not None and not are_real(metas, grad):
                    self.run_any(node, grad)
                    break
                calls, calls_on_numbers, place, keeps_settings = plan
                if node.saved is None or Clock.last_write > -age:
                    node.check()
                if kind is not array_type and metas is None and calls_on_numbers is not None:
                    calls = calls_on_numbers
                following: Any = None
                piece: Any = None
                following_grad: Any = None
                i = -1
                for edge in node._edges:
                    i += 1
                    if edge is None:
                        continue
                    successor, number = edge
                    if leading is not None and successor not in leading:
                        continue
                    if place is not None and successor in owned and self.add_part(node, grad):
                        break
                    call, piece = calls[i], None  # (the last one goes before memory is asked for)
                    if call is UNCHANGED:
                        piece = grad
                    elif call is not None:
                        piece = run(call, F, grad, node) if raw else call(F, grad, node)
                    if metas is not None and piece is not None:
                        shape, dtype = metas[i]
                        array = piece if raw else piece._array
                        if array.shape != shape or array.dtype is not dtype:
                            piece = fit(piece, shape, dtype, F, raw)
                    plan = plans.get(type(successor))
                    if plan is None or successor._device is not device:
                        self.add(successor, number, piece, device)
                    elif successor in pending:
                        total, kind = pending[successor], type(piece)
                        if piece is None:
                            pass
                        elif kind is not type(total) or not raw:
                            pending[successor] = self.plus(total, piece, device, successor)
                        elif kind is not array_type or batched:  # numbers
                            pending[successor] = run(add, total, piece)
                        elif successor in owned and total.shape == piece.shape and total.dtype is piece.dtype:
                            run(iadd, total, piece)
                        else:
                            pending[successor] = run(add, total, piece)
                            owned.add(successor)
                        total = None
                    elif successor is following:
                        if raw and not batched and type(piece) is type(following_grad) is array_type:
                            following_grad = run(add, following_grad, piece)
                            owned.add(successor)
                        elif piece is not None:
                            following_grad = self.plus(following_grad, piece, device, successor)
                    else:
                        new = plan is LEAF and raw and piece is not None and piece is not grad
                        if new and piece.base is None:
                            owned.add(successor)
                        if following is None:
                            following, following_grad, following_plan = successor, piece, plan
                            continue
                        if successor._seq > following._seq:  # the younger one is kept
                            successor, following = following, successor
                            piece, following_grad = following_grad, piece
                            following_plan = plan
                        pending[successor] = piece
                        heappush(heap, (-successor._seq, successor))
                if not retain:
                    if keeps_settings:
                        node.release()
                    elif keeps_settings is not None:
                        node.saved = node.results = None
                if following is None:
                    break
                age = -following._seq
                if heap and heap[0][0] < age:  # a younger node waits
                    pending[following] = following_grad
                    heappush(heap, (age, following))
                    break
                node, grad, plan = following, following_grad, following_plan

    def means(self, device: Any) -> tuple[Any, dict[type, Any], Any]:
        """With what to run the nodes of a device: ``F``, the plans of those that are plain, the class of gradients."""
        if not self.raw:
            plans = {} if self.watch or Subclasses.used else PLANS["tensors"]
            return TENSORS, plans, tensor_type.cls
        backend = self.place(device).backend
        if self.watch or (STREAMS.used and device.type == "cuda"):
            return backend, {}, backend.array_type
        return backend, PLANS["fused" if backend.fuses else "arrays"], backend.array_type

    def run_any(self, node: Any, grad: Any) -> None:
        """Run any node with whatever belongs to it, in the CUDA stream of its forward."""
        if STREAMS.used and node._device.type == "cuda":
            run_in_its_stream(self, node, grad)
        else:
            self.run_alone(node, grad)

    def run_alone(self, node: Any, grad: Any) -> None:
        """Run any node with its hooks, captures, leaves, several outputs."""
        captures, hooks = self.captures, node._hooks
        local.state.mode = self.mode
        if type(grad) is _PerDevice or type(grad) is list:
            grad = self.gathered(grad, node._device)
        leaf = node.is_leaf_sink
        watched = hooks is not None or (captures and node in captures)
        if watched or (leaf and (node.variable._meta.hooks or node.variable._meta.grad_dtype is not OWN)):
            grad = self.observe(node, grad)
            if captures and not self.executes(node):
                return
            if hooks is not None and hooks.pre:
                grad = self.prehooks(node, hooks, grad)
        if not leaf:
            self.spread(node, grad)
            return
        own, batched = node in self.owned, bool(self.batches)
        if self.watch & PROFILE:
            added = local.state.profiler.node(node, grad, partial(accumulate, node, grad, self.raw, own, batched))
        else:
            added = accumulate(node, grad, self.raw, own, batched)
        if hooks is not None and hooks.post:
            self.posthooks(node, hooks, (), added)

    def will_run(self, node: Node) -> bool:
        """Whether this call computes the gradient that arrives at a node."""
        if self.leading is not None and node not in self.leading:
            return False
        if self.reachable is None:  # an input that was asked for may be none
            self.reachable = set(self.roots)
            stack = list(self.reachable)
            while stack:
                for edge in stack.pop()._edges:
                    if edge is not None and edge[0] not in self.reachable:
                        self.reachable.add(edge[0])
                        stack.append(edge[0])
        return node in self.reachable

    def spread(self, node: Node, grad: Any) -> None:
        """Run a node the general way and hand its gradients on."""
        leading = self.leading
        wanted = None
        if leading is not None:
            wanted = [edge is not None and edge[0] in leading for edge in node._edges]
        pieces = self.watched(node, grad, wanted) if self.watch else self.pieces(node, grad, wanted)
        fresh = node._fresh
        if node._hooks is not None and node._hooks.post:
            pieces, fresh = self.posthooks(node, node._hooks, pieces, grad), False
        if not self.retain and (node._inner is None or node._inner not in self.pending):
            node.release()
        device, devices = node._device, node._input_devices
        for i, (edge, piece) in enumerate(zip(node._edges, pieces, strict=True)):
            if edge is None or (wanted is not None and not wanted[i]):
                continue
            successor, number = edge
            if devices is not None:
                device = devices[i]
            if self.raw and piece is not None:
                backend = self.place(device).backend
                if piece.__class__ is not backend.array_type:
                    piece = backend.asarray(piece)
                if (
                    successor.is_leaf_sink
                    and successor not in self.pending
                    and fresh
                    and piece.base is None
                    and not any(piece is g for g in (grad if type(grad) is list else (grad,)))
                    and sum(piece is p for p in pieces) == 1
                ):
                    self.owned.add(successor)
            self.add(successor, number, piece, device)

    def watched(self, node: Node, grad: Any, wanted: list[bool] | None) -> Any:
        """The gradients for the edges of a node, under anomaly detection or a profiler."""

        def compute() -> Any:
            return self.pieces(node, grad, wanted)

        def run() -> Any:
            return anomaly_mode.watched(node, grad, compute) if self.watch & ANOMALY else compute()

        return local.state.profiler.node(node, grad, run) if self.watch & PROFILE else run()

    def pieces(self, node: Node, grad: Any, wanted: list[bool] | None) -> Any:
        """The gradients for the edges of a node."""
        if isinstance(node, OpNode):
            return all_gradients(node, grad, self.place(node._device).backend if self.raw else None, wanted)
        if self.raw and self.batches and self.place(node._device) is not node._device:
            return self.pieces_of_batch(node, grad)
        return node.backward(grad, self.raw)

    def pieces_of_batch(self, node: Node, grad: Any) -> Any:
        """The gradients for the edges of a node of its own kind that knows nothing of the batch they are in."""
        several = type(grad) is list
        grads = [self.as_tensor(g, node._device) for g in (grad if several else (grad,))]
        found = node.backward(grads if several else grads[0], False)
        return [self.as_carried(g) for g in found]

    # -- hooks, leaves, captures ----------------------------------------------------------------------------------

    def as_tensor(self, grad: Any, device: Any) -> Any:
        return wrap(grad, self.place(device)) if self.raw and grad is not None else grad

    def as_carried(self, grad: Any) -> Any:
        return grad._array if self.raw and grad is not None else grad

    def observe(self, node: Node, grad: Any) -> Any:
        """What sees the gradient of a tensor, before its node: hooks, retained gradients, captures."""
        if node.is_leaf_sink:
            meta: Meta = node.variable._meta  # type: ignore[attr-defined]
            table = meta.hooks
            if meta.grad_dtype is not OWN and grad is not None:
                grad = leaves.cast(grad, meta.grad_dtype, self.raw)
            if table:
                self.owned.discard(node)
                grad = self.as_carried(call_tensor_hooks(table, self.as_tensor(grad, node._device)))
        elif node._hooks is not None:
            grad = self.tensor_hooks(node, node._hooks, grad)
        for number, key in self.captures.get(node, ()):
            self.owned.discard(node)
            self.found[key] = self.as_tensor(grad[number] if type(grad) is list else grad, node._device)
        return grad

    def tensor_hooks(self, node: Node, hooks: Hooks, grad: Any) -> Any:
        several = type(grad) is list
        grads = [self.as_tensor(g, node._device) for g in (grad if several else [grad])]
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
        grads = tuple(self.as_tensor(carried[i], node._device) for i in seen)
        for i, g in zip(seen, call_prehooks(hooks.pre, grads), strict=True):
            carried[i] = self.as_carried(g)
        return carried if several else carried[0]

    def posthooks(self, node: Node, hooks: Hooks, pieces: Any, grad: Any) -> Any:
        self.owned.discard(node)
        carried = grad if type(grad) is list else [grad]
        outputs = tuple(self.as_tensor(carried[i], node._device) for i in node._seen_outputs)
        devices = node._input_devices or [node._device] * len(pieces)
        inputs = tuple(self.as_tensor(p, device) for p, device in zip(pieces, devices, strict=True))
        found = call_posthooks(hooks.post, node.shown(inputs), outputs)
        return [self.as_carried(p) for p in node.spread(found)]


def _holds(total: Any, piece: Any) -> bool:
    """Whether every sample that differs in `piece` has memory of its own in `total`."""
    return set(levels_of(piece)) <= set(levels_of(total))
