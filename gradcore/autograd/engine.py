"""The backward engine: runs nodes from the latest created to the earliest, and sums gradients on the way.

A node is created after the nodes of its inputs. So the youngest of the nodes that have received a gradient has
received all of its gradients, and a heap ordered by creation number is the whole schedule. There is no recursion.

A pass over the graph beforehand is needed in two cases only. If `inputs` are given, the engine looks for the nodes
that lead to them. If hooks may observe when leaves are updated, it counts the edges that lead to each AccumulateGrad
node. These nodes outlive graphs, so their creation number does not tell whether all gradients have arrived.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from heapq import heapify, heappop, heappush
from operator import attrgetter
from operator import call as call_directly
from typing import Any

from gradcore.autograd import anomaly_mode, variables
from gradcore.autograd.derivatives import LEAF, PLANS, UNCHANGED, are_real
from gradcore.autograd.input_buffer import (
    TENSOR_GRADS,
    InputBuffer,
    PerDevice,
    RawGrads,
    TensorGrads,
    copy_if_shared,
    count_leaves,
)
from gradcore.autograd.modes import ANOMALY, DUAL, GRAD, INFERENCE, PROFILE, is_stack_deep, local, run_in_new_thread
from gradcore.autograd.node import Hooks, Node, call_posthooks, call_prehooks, call_tensor_hooks, freed_error
from gradcore.autograd.op_node import OpNode
from gradcore.autograd.variables import OWN, Variable, accumulate_grad, accumulate_new_grads, add_to_grad, wrap
from gradcore.backends.streams import STREAMS
from gradcore.backends.vmap import BatchedArray
from gradcore.core.errors import raise_if_out_of_memory
from gradcore.core.tracebacks import shorten
from gradcore.core.typing import AnyArray

__all__ = ["run_backward"]

#: The nodes whose gradients are wanted: ``{node: [(output number, key), ...]}``.
Captures = dict[Node, list[tuple[int, int]]]

_creation = attrgetter("_seq")
_NOTHING: Any = None


def run_backward(
    roots: Sequence[tuple[Node, int, Any, Any]],
    *,
    retain_graph: bool,
    create_graph: bool,
    captures: Captures | None = None,
    accumulate: bool = True,
    all_needed: bool = False,
) -> dict[int, Any]:
    """Backpropagate from `roots`.

    Parameters
    ----------
    roots : sequence of (Node, int, Tensor or array, device)
        The nodes to start from, the number of one output of each, its gradient, and the device of the gradient.
    retain_graph, create_graph : bool
    captures : dict, optional
        Nodes whose incoming gradients are returned. Only nodes on a path to one of them are run.
    accumulate : bool
        Whether the nodes in `captures` also run: leaves accumulate into ``.grad``, other nodes call their hooks.
    all_needed : bool
        Whether every node reachable from the roots is known to lead to `captures`. This saves a search of the graph.

    Returns
    -------
    dict
        The captured gradients, as tensors, by key.
    """
    state = local.state
    if state.task is not None and is_stack_deep():
        settings = {"retain_graph": retain_graph, "create_graph": create_graph, "all_needed": all_needed}
        call = partial(run_backward, roots, captures=captures, accumulate=accumulate, **settings)
        return run_in_new_thread(call)  # type: ignore[no-any-return]
    before, outer, pack_hooks = state.mode, state.task, state.pack_hooks
    # Raw arrays carry neither history nor tangents, so they are used only where neither is needed.
    recorded = create_graph or bool(before & DUAL)
    batches = state.batches
    for _, _, _, device in roots:
        if device.levels:  # whether or not the nodes are in these batches
            batches = (*batches, *[level for level in device.levels if level not in batches])
    buffer = InputBuffer(recorded, batches, call_directly if recorded else state.run)
    task = GraphTask(buffer, roots, retain_graph or create_graph, captures, accumulate, before)
    task.all_needed = all_needed
    state.mode = task.mode = (before | GRAD if create_graph else before & ~GRAD) & ~INFERENCE
    state.task = task
    try:
        for node, number, grad, device in roots:
            if isinstance(grad, Variable) is not recorded:
                grad = wrap(grad, device) if recorded else grad._array if grad._strided else grad
            if device.levels:
                device = node._device
            if device.guarded:  # `buffer.add` may sum two gradients of one node
                task.use_device(device)
            buffer.add(node, number, grad, device)
        task.run()
        if task.local_data:
            task.call_final_callbacks()
    except BaseException as error:
        shorten(error)
        raise_if_out_of_memory(error, "backward")
        raise
    finally:
        state.mode, state.task, state.pack_hooks = before, outer, pack_hooks
        if task.guard is not None:
            task.guard.close()
    return task.captured


class GraphTask:
    """The state of one backward call.

    Parameters
    ----------
    buffer : InputBuffer
        The gradients of the nodes that are still to run.
    roots : sequence of tuple
        As for `run_backward`.
    retain : bool
        Whether nodes keep their saved tensors.
    captures : dict or None
    accumulate : bool
        Whether the nodes of `captures` also run.
    mode : int
        The mode of the caller.
    """

    #: The mode in which every node starts, whatever a hook has switched on or off.
    mode = 0
    #: The nodes that lead to `captures`; None if all nodes run.
    needed: set[Node] | None = None
    #: Whether all nodes are known to lead to `captures`.
    all_needed = False
    #: All nodes reachable from the roots, computed on first use.
    reachable: set[Node] | None = None
    #: The running node and the one that was to follow it, for the cleanup after an error.
    present: tuple[Any, Any] = (None, None)
    #: The context that makes the device of the running nodes current, for backends with a current device.
    guard: contextlib.ExitStack | None = None

    def __init__(
        self,
        buffer: InputBuffer,
        roots: Sequence[tuple[Node, int, Any, Any]],
        retain: bool,
        captures: Captures | None,
        accumulate: bool,
        mode: int,
    ) -> None:
        self.buffer, self.roots, self.retain, self.accumulate = buffer, roots, retain, accumulate
        self.captures: Captures = captures or {}
        #: The captured gradients by key.
        self.captured: dict[int, Any] = {}
        #: State of hooks and of anomaly mode during this call, by their keys.
        self.local_data: dict[Any, Any] = {}
        #: The bits of the mode for anomaly mode and a profiler.
        self.watch = mode & (ANOMALY | PROFILE)

    # -- the loop -------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run nodes until no gradient is pending.

        Raw arrays are computed inside one context that silences NumPy's warnings. The context is left before a node
        that may call a function of the user, whose warnings must stay visible.
        """
        buffer, state = self.buffer, local.state
        if self.captures:
            buffer.special.update(self.captures)
            if not self.all_needed:
                self.lead_to_captures()
        if variables.leaf_order_matters:
            buffer.expect_leaves(self.needed)
        silent = not buffer.recorded and not self.watch
        try:
            if not silent:
                self.run_nodes(False)
                return
            while True:
                buffer.run = call_directly
                try:
                    next_node = state.enclose(self.run_nodes, True)
                except RuntimeError as error:
                    next_node = state.reenter(error, "enclose")(self.run_nodes, True)
                finally:
                    buffer.run = state.run
                if next_node is None:
                    return
                self.present = next_node[0], None
                self.run_node(*next_node)
        except Exception as error:
            self.settle(list(self.present))
            if isinstance(error, (AttributeError, TypeError)) and getattr(self.present[0], "saved", error) is None:
                raise freed_error() from None  # a backward in another thread freed the node after the check
            raise

    def run_nodes(self, silent: bool) -> tuple[Node, Any] | None:
        """Run nodes until no gradient is pending: nodes that have a plan here, the others by `run_node`.

        This is one long function because a node takes about a microsecond, and a Python call a tenth of that. Its
        invariants:

        - A node runs when it is the youngest pending node, so no further gradient can arrive for it. Leaves whose
          edges are counted enter the heap only when all of their gradients have arrived.
        - Every pending node is in the heap and, with its gradient, in `pending`. The exception is `following`: the
          youngest node that has received its first gradient from the present one. If it is the youngest of all, it
          runs next without passing through the heap.
        - A gradient is modified in place only if its node is in `owned`: the engine allocated that array and holds
          the only reference. Upstream gradients may be referenced elsewhere.
        - `array_type` is the class of gradients that may be modified in place; None for tensors.
        - `vjp` is the gradient for one edge, or None if there is no gradient.

        Parameters
        ----------
        silent : bool
            Whether this runs inside the context that silences warnings. Functions of the user must not be called in it.

        Returns
        -------
        tuple or None
            The next node and its gradient, if that node may call a function of the user; None if no node is left.
        """
        buffer, needed, retain = self.buffer, self.needed, self.retain
        heap, pending, owned, expected = buffer.heap, buffer.pending, buffer.owned, buffer.expected
        special, batched = buffer.special, bool(buffer.batches)
        device = node = following = following_grad = following_plan = _NOTHING
        try:
            while heap or following is not None:
                if following is not None:
                    node, grad, plan, following = following, following_grad, following_plan, _NOTHING
                else:
                    node = heappop(heap)[1]
                    grad = pending.pop(node)
                    if node._device is not device:
                        device = node._device
                        arithmetic, F, plans, array_type, stays = self.execution_context(device)
                    plan = plans.get(type(node))
                if plan is None or grad is None or (stays is not None and not stays(node._seq)) or (
                    node._hooks is not None or (special and node in special)):  # fmt: skip
                    whole = array_type is not None and (stays is None or stays(node._seq))
                    if not self.run_without_plan(node, grad, silent, whole):
                        return node, grad
                    continue
                if plan is LEAF:
                    if silent and node.variable._autograd.post_accumulate_hooks:
                        return node, grad
                    accumulate_grad(node, grad, node in owned, batched, call_directly)
                    continue
                metas = node.metas
                if metas is not None and not are_real(metas, grad):
                    self.run_node(node, grad)
                    continue
                calls, calls_on_numbers, view_key, keeps_settings = plan
                if node.saved is None or variables.last_write > node._seq:
                    node.check()
                if calls_on_numbers is not None and metas is None and type(grad) is not array_type:
                    calls = calls_on_numbers
                following_grad, i = None, -1
                for edge in node._edges:
                    i += 1
                    if edge is None or (needed is not None and edge[0] not in needed):
                        continue
                    successor, number = edge
                    if view_key is not None and successor in owned and buffer.add_part(node, grad):
                        break
                    call, vjp = calls[i], _NOTHING  # free the last gradient before the next is allocated
                    vjp = grad if call is UNCHANGED else call and call(F, grad, node)
                    if metas is not None and vjp is not None:
                        meta = metas[i]
                        if type(vjp) is not array_type or vjp.shape != meta[0] or vjp.dtype is not meta[1].numpy:
                            vjp = arithmetic.validate_grad(vjp, meta)
                    plan = plans.get(type(successor))
                    if plan is None or successor._device is not device or (expected is not None and plan is LEAF):
                        buffer.add(successor, number, vjp, device, vjp is not grad)
                    elif successor in pending:
                        pending[successor] = buffer.plus(pending[successor], vjp, device, successor)
                    elif successor is following:
                        following_grad = buffer.plus(following_grad, vjp, device, successor)
                    else:
                        if plan is LEAF and type(vjp) is array_type and vjp is not grad and vjp.base is None:
                            owned.add(successor)
                        if following is None:
                            following, following_grad, following_plan = successor, vjp, plan
                            continue
                        if successor._seq > following._seq:  # `following` is always the younger one
                            successor, following, following_plan = following, successor, plan
                            vjp, following_grad = following_grad, vjp
                        pending[successor] = vjp
                        heappush(heap, (-successor._seq, successor))
                if not retain:
                    if keeps_settings:
                        node.release()
                    elif keeps_settings is not None:
                        node.saved = None
                if following is not None and heap and heap[0][0] < -following._seq:  # a younger node waits
                    pending[following] = following_grad
                    heappush(heap, (-following._seq, following))
                    following = None
        finally:
            self.present = node, following
        return None

    def run_without_plan(self, node: Node, grad: AnyArray | list[AnyArray], silent: bool, whole: bool) -> bool:
        """Run a node outside of the loop; return False, having done nothing, if it may not run while silent.

        `whole` says whether `Node.compute_gradients` may compute the gradients of all edges at once.
        """
        if node in self.buffer.special:
            if self.ends_at(node):
                self.capture(node, grad)
                return True
        elif whole and grad is not None and node._hooks is None:
            gradients = node.compute_gradients(grad)
            if gradients is not None:
                self.distribute(node, gradients)
                return True
        if silent and _calls_out(node):
            return False
        self.run_node(node, grad)
        return True

    def distribute(self, node: Node, gradients: Sequence[AnyArray | None]) -> None:
        """Add new arrays to the gradients of the next nodes, or directly to those of leaves if no others can arrive."""
        buffer, needed = self.buffer, self.needed
        if not self.retain:
            node.release()
        only_these = needed is None and not buffer.pending and not buffer.special and not buffer.batches
        if only_these and accumulate_new_grads(node, gradients):
            return
        for edge, gradient in zip(node._edges, gradients, strict=True):
            if edge is not None and (needed is None or edge[0] in needed):
                buffer.add(*edge, gradient, node._device, True)

    def settle(self, failed: list[Any]) -> None:
        """Accumulate, after an error in one of the nodes `failed`, the pending gradients of leaves that are complete.

        The result is the same as if each leaf had been updated as soon as its last gradient arrived.
        """
        pending = self.buffer.pending
        if self.buffer.expected is not None or (self.captures and not self.accumulate):
            return
        unfinished_nodes = [node for node in pending if not node.is_accumulator]
        unfinished = count_leaves([*unfinished_nodes, *(node for node in failed if node is not None)], self.needed)
        for node in [node for node in pending if node.is_accumulator and node not in unfinished]:
            if node not in failed:
                self.run_node_general(node, pending.pop(node))

    def execution_context(self, device: Any) -> tuple[Any, Any, dict[type, Any], Any, Any]:
        """Make `device` current, and return the objects with which its nodes compute.

        Consecutive nodes usually share a device, so this is called rarely.

        Returns
        -------
        tuple
            ``(arithmetic, F, plans, array_type, stays)``: the arithmetic of gradients, its namespace of functions, the
            plans by node class, and the class of arrays. If streams are in use, ``stays(number)`` returns whether the
            node with that creation number runs in the current stream; otherwise `stays` is None.
        """
        if device.guarded or self.guard is not None:
            self.use_device(device)
        buffer = self.buffer
        if buffer.recorded:
            plans = {} if self.watch or variables.subclasses_used else PLANS["tensors"]
            return TENSOR_GRADS, TENSOR_GRADS.F, plans, None, None
        arithmetic: Any = buffer.arithmetic(device)
        backend = arithmetic.F
        streams = STREAMS.used and backend.has_streams
        stays = STREAMS.stays(device.real.backend, device.index) if streams else None
        if self.watch or (streams and stays is None):
            return arithmetic, backend, {}, backend.array_type, None
        plans = PLANS["fused" if backend.has_fused_gradients else "arrays"]
        return arithmetic, backend, plans, backend.array_type, stays

    def use_device(self, device: Any) -> None:
        """Make `device` current, if its backend has a current device."""
        if self.guard is not None:
            self.guard.close()
            self.guard = None
        if device.guarded:
            self.guard = contextlib.ExitStack()
            self.guard.enter_context(device.backend.use_index(device.index))

    def call_final_callbacks(self) -> None:
        """Call the callbacks queued by `queue_callback`, including those that they queue themselves."""
        callbacks = self.local_data.get(final_callbacks, [])
        while callbacks:
            callbacks.pop(0)()

    # -- nodes of any kind ----------------------------------------------------------------------------------------

    def run_node(self, node: Any, grad: Any) -> None:
        """Run a node with its hooks and captures, in the CUDA stream in which its forward ran."""
        if not STREAMS.used or not node._device.backend.has_streams:
            self.run_node_general(node, grad)
        else:
            device = node._device
            backend = device.real.backend
            with STREAMS.as_at(node._seq, backend, device.index) as present:
                self.run_node_general(node, grad)
                if present is not None:
                    for array in self.find_outgoing_arrays(node):
                        if array.__class__ is backend.array_type and array.device.id == device.index:
                            backend.lifetimes.record_use(array, present, device.index)
        local.state.mode = self.mode

    def find_outgoing_arrays(self, node: Any) -> Iterator[Any]:
        """Yield the raw gradient arrays still referenced after `node` has run: by later nodes, its leaf, the caller."""
        gradients: list[Any] = [*self.captured.values()]
        if node.is_accumulator:
            gradients.append(node.variable._autograd.grad)
        for edge in node._edges:
            if edge is not None:
                pending = self.buffer.pending.get(edge[0])
                gradients += pending if type(pending) is list else [pending]
        for gradient in gradients:
            for part in gradient.values() if isinstance(gradient, dict) else (gradient,):
                part = getattr(part, "stored", part)  # of a sparse tensor
                array = getattr(part, "_array", part)
                while isinstance(array, BatchedArray):
                    array = array.array
                yield array

    def run_node_general(self, node: Any, grad: Any) -> None:
        """Run a node of any class, with its hooks and captures."""
        buffer, hooks = self.buffer, node._hooks
        if type(grad) is PerDevice or type(grad) is list:
            grad = buffer.gather_on_device(grad, node._device)
        if hooks is not None or node in self.captures:
            grad = self.observe(node, grad)
            if self.captures and not self.executes(node):
                return
            if hooks is not None and hooks.pre:
                grad = self.call_prehooks(node, hooks, grad)
        if not node.is_accumulator:
            self.propagate(node, grad)
            return
        added = partial(accumulate_grad, node, grad, node in buffer.owned, bool(buffer.batches))
        grad = local.state.profiler.node(node, grad, added) if self.watch & PROFILE else added()
        if hooks is not None and hooks.post:
            self.call_posthooks(node, hooks, (), grad)

    def propagate(self, node: Node, grad: Any) -> None:
        """Run a node that is no AccumulateGrad, and add its gradients to those of the next nodes."""
        needed, buffer = None, self.buffer
        if self.needed is not None:
            needed = [edge is not None and edge[0] in self.needed for edge in node._edges]
        arithmetic = buffer.arithmetic(node._device)
        if buffer.owned and isinstance(node, OpNode) and self.adds_part(node, grad, needed):
            if not self.retain:
                node.release()
            return
        grads = self.grad_inputs(node, grad, arithmetic, needed)
        fresh = node._fresh
        if node._hooks is not None and node._hooks.post:
            grads, fresh = self.call_posthooks(node, node._hooks, grads, grad), False
        if not self.retain and (node._inner is None or node._inner not in buffer.pending):
            node.release()
        device, devices = node._device, node._input_devices
        # A gradient may be modified in place later only if it is no other gradient of this node as well.
        arrays = [id(a) for a in ((*grad, *grads) if type(grad) is list else (grad, *grads)) if a is not None]
        uses = Counter(arrays) if fresh and len(set(arrays)) < len(arrays) else None
        for i, (edge, grad_input) in enumerate(zip(node._edges, grads, strict=True)):
            if edge is None or (needed is not None and not needed[i]):
                continue
            if devices is not None:
                device = devices[i]
                arithmetic = buffer.arithmetic(device)
            is_new = fresh and (uses is None or uses[id(grad_input)] == 1)
            if isinstance(grad_input, Variable) and not grad_input._strided:
                if edge[0].is_accumulator:
                    buffer.sparse, is_new = True, False
                else:  # formulas accept strided arrays only
                    grad_input = arithmetic.from_tensor(grad_input.to_dense())  # type: ignore[attr-defined]
            else:
                grad_input = arithmetic.as_array(grad_input)
            buffer.add(*edge, grad_input, device, is_new)

    def adds_part(self, node: OpNode, grad: Any, needed: Sequence[bool] | None) -> bool:
        """Add the gradient of a view directly to the part of the base's gradient; return False if impossible."""
        if (
            node.view_key is None
            or grad is None
            or self.watch
            or (needed is not None and not needed[0])
            or (node._hooks is not None and node._hooks.post)
            or (node.metas is not None and not are_real(node.metas, grad))
        ):
            return False
        node.check()
        return self.buffer.add_part(node, grad)

    def grad_inputs(self, node: Node, grad: Any, arithmetic: Any, needed: Sequence[bool] | None) -> Any:
        """Return the gradients for the edges of a node, computed under anomaly mode and the profiler if enabled."""
        if arithmetic.recorded or arithmetic.device is node._device or isinstance(node, OpNode):
            backward = node.backward
        else:
            backward = partial(_backward_on_tensors, node)
        if not self.watch:
            return backward(grad, arithmetic, needed)
        compute = partial(backward, grad, arithmetic, needed)
        if self.watch & ANOMALY:
            compute = partial(anomaly_mode.trace_errors, node, grad, compute)
        return local.state.profiler.node(node, grad, compute) if self.watch & PROFILE else compute()

    # -- hooks and captures ---------------------------------------------------------------------------------------

    def observe(self, node: Node, grad: Any) -> Any:
        """Apply the tensor hooks to the gradient that arrives at `node`, retain and capture it, and return it."""
        arithmetic = self.buffer.arithmetic(node._device)
        if node.is_accumulator:
            meta = node.variable._autograd  # type: ignore[attr-defined]
            if meta.grad_dtype is not OWN and meta.grad_dtype is not None and grad is not None:
                grad = arithmetic.cast(grad, meta.grad_dtype)
            if meta.hooks:
                self.buffer.owned.discard(node)
                t = copy_if_shared(arithmetic.as_tensor(grad))
                grad = arithmetic.from_tensor(call_tensor_hooks(meta.hooks, t))
        elif node._hooks is not None:
            grad = self.call_tensor_hooks(node, node._hooks, grad)
        if node in self.captures:
            self.note_captures(node, grad, arithmetic)
        return grad

    def note_captures(self, node: Node, grad: AnyArray | list[AnyArray], arithmetic: RawGrads | TensorGrads) -> None:
        """Store the gradients of the captured outputs of `node` in `captured`, as tensors."""
        self.buffer.owned.discard(node)
        if node.stands_for_several:
            _refuse_incomplete(node, [number for number, _ in self.captures[node]], grad)
        for number, key in self.captures[node]:
            gradient = grad[number] if type(grad) is list else grad
            self.captured[key] = copy_if_shared(arithmetic.as_tensor(gradient))

    def capture(self, node: Node, grad: AnyArray | list[AnyArray]) -> None:
        """Store the gradient of a node that does not run because the backward pass ends there, see `ends_at`."""
        if STREAMS.used:
            self.run_node(node, grad)
            return
        if type(grad) is PerDevice or type(grad) is list:
            grad = self.buffer.gather_on_device(grad, node._device)
        self.note_captures(node, grad, self.buffer.arithmetic(node._device))

    def call_tensor_hooks(self, node: Node, hooks: Hooks, grad: Any) -> Any:
        """Call the tensor hooks of a node's outputs, retain their gradients if requested, and return the gradients."""
        if not hooks.tensor and not hooks.retain:
            return grad
        if node.stands_for_several:
            _refuse_incomplete(
                node, [*(number for number, table in hooks.tensor.items() if table), *hooks.retain], grad
            )
        arithmetic = self.buffer.arithmetic(node._device)
        is_list = type(grad) is list
        grads = [copy_if_shared(arithmetic.as_tensor(g)) for g in (grad if is_list else [grad])]
        for number, table in hooks.tensor.items():
            if grads[number] is not None or not node.stands_for_several:
                grads[number] = call_tensor_hooks(table, grads[number])
        for number, reference in hooks.retain.items():
            tensor = reference()
            if tensor is not None and grads[number] is not None:
                add_to_grad(tensor, grads[number])
        results = [arithmetic.from_tensor(g) for g in grads]
        return results if is_list else results[0]

    def call_prehooks(self, node: Node, hooks: Hooks, grad: Any) -> Any:
        """Return the gradients of a node's outputs after the node's prehooks."""
        self.buffer.owned.discard(node)
        arithmetic = self.buffer.arithmetic(node._device)
        is_list = type(grad) is list
        result = list(grad) if is_list else [grad]
        seen = node._seen_outputs
        grads = tuple(copy_if_shared(arithmetic.as_tensor(result[i])) for i in seen)
        for i, g in zip(seen, call_prehooks(hooks.pre, grads), strict=True):
            result[i] = arithmetic.from_tensor(g)
        return result if is_list else result[0]

    def call_posthooks(self, node: Node, hooks: Hooks, grads: Any, grad: Any) -> Any:
        """Call the post hooks of a node with its input and output gradients; return the new input gradients."""
        buffer = self.buffer
        buffer.owned.discard(node)
        arithmetic = buffer.arithmetic(node._device)
        upstream = grad if type(grad) is list else [grad]
        outputs = tuple(arithmetic.as_tensor(upstream[i]) for i in node._seen_outputs)
        devices = node._input_devices or [node._device] * len(grads)
        pairs = zip(grads, devices, strict=True)
        inputs = tuple(copy_if_shared(buffer.arithmetic(device).as_tensor(g)) for g, device in pairs)
        new_inputs = call_posthooks(hooks.post, node.visible(inputs), outputs)
        return [arithmetic.from_tensor(g) for g in node.from_visible(new_inputs)]

    def lead_to_captures(self) -> None:
        """Set `needed` to the nodes that lead to `captures`, and drop the roots that do not.

        The hooks of a single root are called even if it does not lead there: its gradient is known.
        """
        buffer = self.buffer
        self.needed = _leading_to(self.captures, buffer.pending)
        if self.needed is None:
            return
        entries = [entry for entry in buffer.heap if entry[1] in self.needed]
        if not entries and len(buffer.heap) == 1:
            _, root = buffer.heap[0]
            self.observe(root, buffer.gather_on_device(buffer.pending[root], root._device))
        if len(entries) < len(buffer.heap):
            buffer.heap[:] = entries
            heapify(buffer.heap)

    def executes(self, node: Node) -> bool:
        """Return whether a node must run: it accumulates its gradient or passes gradients on to needed nodes."""
        if node in self.captures and self.accumulate:
            return True
        needed = self.needed
        for edge in node._edges:  # noqa: SIM110 (a loop is faster than `any` of a generator)
            if edge is not None and (needed is None or edge[0] in needed):
                return True
        return False

    def ends_at(self, node: Node) -> bool:
        """Return whether the gradient of a node is only captured, so that the backward pass ends there."""
        return node in self.captures and node._hooks is None and not self.executes(node)

    def will_run(self, node: Node) -> bool:
        """Return whether a gradient arrives at `node` during this backward pass."""
        if self.needed is not None and node not in self.needed:
            return False
        if self.reachable is None:  # (`needed` contains captured inputs even if they are unreachable)
            self.reachable = {root[0] for root in self.roots}
            stack = list(self.reachable)
            while stack:
                for edge in stack.pop()._edges:
                    if edge is not None and edge[0] not in self.reachable:
                        self.reachable.add(edge[0])
                        stack.append(edge[0])
        return node in self.reachable


def _calls_out(node: Any) -> bool:
    """Return whether a node may call functions of the user: hooks or a custom backward."""
    if node._hooks is not None:
        return True
    if node.is_accumulator:
        return bool(node.variable._autograd.post_accumulate_hooks)
    return not isinstance(node, OpNode)


def _backward_on_tensors(node: Node, grad: Any, arithmetic: Any, needed: Sequence[bool] | None) -> list[Any]:
    """Return the gradients for the edges of a node recorded outside of the batch that its gradient is in."""
    is_list = type(grad) is list
    grads = [arithmetic.as_tensor(g) for g in (grad if is_list else (grad,))]
    gradients = node.backward(grads if is_list else grads[0], TENSOR_GRADS, needed)
    return [arithmetic.from_tensor(g) for g in gradients]


#: The key in `GraphTask.local_data` of the callbacks to call at the end of backward.
final_callbacks = object()


def _leading_to(targets: Captures, roots: Iterable[Node]) -> set[Node] | None:
    """Return the nodes on the paths from `roots` to `targets`, or None if every path ends in one of `targets`."""
    oldest = min([node._seq for node in targets], default=0)
    seen = set(roots)
    stack = list(seen)
    ends_elsewhere = False
    while stack:
        node = stack.pop()
        is_end = True
        for edge in node._edges:
            if edge is None:
                continue
            is_end = False
            successor = edge[0]
            if successor in seen:
                continue
            if successor._edges and successor._seq >= oldest:
                seen.add(successor)
                stack.append(successor)
            elif successor not in targets:
                ends_elsewhere = True
        if is_end and node not in targets:
            ends_elsewhere = True
    if not ends_elsewhere:
        return None
    leading = set(targets)
    for node in sorted(seen, key=_creation):  # oldest first: successors of a node are older than the node
        for edge in node._edges:
            if edge is not None and edge[0] in leading:
                leading.add(node)
                break
    return leading


def _refuse_incomplete(node: Node, numbers: Iterable[int], grads: AnyArray | list[AnyArray]) -> None:
    """Raise if a gradient of the outputs `numbers` lacks what flows into it from other outputs inside of `node`.

    A node without edges ends a backward pass for partial derivatives, to which nothing else flows.
    """
    if type(grads) is not list or not node._edges:
        return
    for number in numbers:
        if any(grads[i] is not None for i in node.feeds[number]):
            raise RuntimeError(
                f"the gradient of result {number} of a compiled function is read by a hook, by retain_grad() or by "
                "autograd.grad(), but a result from which backward comes is computed from it inside of the function. "
                "Compute that result outside, or call the function without gradcore.compile"
            )
