"""The engine: runs nodes in the order of their creation, latest first, and sums gradients on the way.

A node is created after the nodes of its inputs, so among the nodes that have received a gradient the youngest has
received all of its gradients: a heap ordered by creation number is the whole schedule. There is no recursion and no
pass over the graph beforehand, unless only certain inputs are asked for, or somebody may see when leaves are updated:
AccumulateGrad nodes outlive graphs, so their age says nothing, and the edges that lead to them are counted instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from heapq import heappop, heappush
from operator import add, iadd
from typing import Any

from gradcore import functional
from gradcore.autograd import anomaly_mode, reentrant
from gradcore.autograd.derivatives import LEAF, PLANS, UNCHANGED, all_gradients, are_real, fit
from gradcore.autograd.input_buffer import PerDevice, count_leaves
from gradcore.autograd.leaves import accumulate
from gradcore.autograd.messages import FREED
from gradcore.autograd.modes import ANOMALY, DUAL, GRAD, INFERENCE, PROFILE, local
from gradcore.autograd.node import Node
from gradcore.autograd.observing import ObservedGradients
from gradcore.autograd.op_node import OpNode
from gradcore.autograd.streams import run_in_its_stream
from gradcore.autograd.variables import OWN, Clock, Order, Subclasses, tensor_type
from gradcore.backends.streams import STREAMS
from gradcore.tracebacks import shorten

__all__ = ["run_backward"]


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
    task = _Task(raw, retain_graph or create_graph, captures, accumulate, before)
    task.batches = _batches_of(roots, state.batches)
    state.mode = task.mode = (before | GRAD if create_graph else before & ~GRAD) & ~INFERENCE
    state.task = task
    try:
        for node, number, grad in roots:
            device = node._device if grad._device.levels else grad._device
            if device.guarded:  # the gradients of one node are added
                task.use_device(device)
            task.add(node, number, grad._array if raw else grad, device)
        state.run(bool)  # from within a kernel (in a signal handler, say): enters a context anew
        task.run(state.enter)
        if task.notes:
            reentrant.call_back(task.notes)
    except BaseException as error:
        shorten(error)
        raise
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


class _Task(ObservedGradients):
    """The state of one backward call."""

    #: The mode in which every node starts, whatever a hook has switched on or off.
    mode = 0
    #: All nodes of this call, found when first asked for.
    reachable: set[Node] | None = None

    def __init__(
        self,
        raw: bool,
        retain: bool,
        captures: dict[Node, list[tuple[int, int]]] | None,
        accumulate: bool,
        mode: int,
    ) -> None:
        super().__init__(raw, captures or {}, accumulate)
        self.retain = retain
        #: What hooks on several tensors remember during this call.
        self.notes: dict[Any, Any] = {}
        #: Which of anomaly detection and a profiler are on: bits of the mode.
        self.watch = mode & (ANOMALY | PROFILE)

    # -- the loop -------------------------------------------------------------------------------------------------

    def run(self, run: Any) -> None:
        """Run nodes until none waits: plain ones here, others by `run_any`.

        (One function: a node takes about a microsecond, and a call of Python a tenth of that.)
        """
        self.roots: list[Node] = list(self.pending)
        if self.captures:
            self.lead_to_captures()
        if Order.matters:
            self.expect_leaves(self.leading)
        heap, pending, owned, raw, retain = self.heap, self.pending, self.owned, self.raw, self.retain
        expected = self.expected
        leading, captures, batched = self.leading, self.captures, bool(self.batches)
        device: Any = None
        node: Any = None
        following: Any = None
        F: Any
        plans: Any
        try:
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
                        or kind is PerDevice
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
                    following = None
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
                            if expected is not None and successor in expected:
                                self.arrived(successor)
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
                            if plan is LEAF and expected is not None:
                                self.arrived(successor)
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
                            if plan is LEAF and expected is not None:
                                pending[successor] = piece
                                self.arrived(successor)
                                continue
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
        except Exception as error:
            self.settle([node, following])
            if isinstance(error, (AttributeError, TypeError)) and getattr(node, "saved", error) is None:
                raise RuntimeError(FREED) from None  # by a backward in another thread, since this one looked
            raise

    def settle(self, failed: list[Any]) -> None:
        """After an error, update the leaves that have received all of their gradients, as if they had run at once."""
        if self.expected is not None or (self.captures and not self.accumulate):
            return
        waiting = [node for node in self.pending if not node.is_leaf_sink]
        unfinished = count_leaves([*waiting, *(node for node in failed if node is not None)], self.leading)
        for node in [node for node in self.pending if node.is_leaf_sink and node not in unfinished]:
            if node not in failed:
                self.run_alone(node, self.pending.pop(node))

    def means(self, device: Any) -> tuple[Any, dict[type, Any], Any]:
        """With what to run the nodes of a device: ``F``, the plans of those that are plain, the class of gradients."""
        if not self.raw:
            plans = {} if self.watch or Subclasses.used else PLANS["tensors"]
            return functional, plans, tensor_type.cls
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
        if type(grad) is PerDevice or type(grad) is list:
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
