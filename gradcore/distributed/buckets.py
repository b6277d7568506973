"""Reduction of gradients in flat buckets, each of which is reduced as soon as its gradients are complete."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from gradcore import functional
from gradcore.autograd.grad_mode import no_grad
from gradcore.autograd.variables import Variable, bump
from gradcore.core.dtypes import int64
from gradcore.core.typing import AnyTensor
from gradcore.distributed import collectives
from gradcore.distributed.groups import ProcessGroup
from gradcore.distributed.work import Work
from gradcore.sparse.making import sparse_coo_tensor
from gradcore.tensor.creation import empty, ones, tensor, zeros
from gradcore.tensor.layouts import sparse_coo
from gradcore.torch_names.futures import Future

__all__ = ["GradBucket", "Reducer", "used_leaves"]

Hook = Callable[[Any, "GradBucket"], Future[Any]]

NOT_FINISHED = (
    "Expected to have finished reduction in the prior iteration before starting a new one. This error indicates that "
    "your module has parameters that were not used in producing loss. You can enable unused parameter detection by "
    "passing the keyword argument `find_unused_parameters=True` to `DistributedDataParallel`, and by making sure all "
    "`forward` function outputs participate in calculating loss. Parameters that got no gradient: {}"
)
TWICE = (
    "Expected to mark a variable ready only once. Parameter {} got gradients in two backward passes of one iteration, "
    "as by reentrant checkpoints; static_graph=True allows for that where every iteration does the same."
)
RECORDED = (
    "DistributedDataParallel reduces gradients without recording it, so derivatives of them (create_graph=True) would "
    "be wrong. Use gradcore.distributed.nn.functional.all_reduce on what you differentiate."
)
LATE = (
    "a gradient arrived that is not reduced: DistributedDataParallel reduces those of one backward for each forward. "
    "Use no_sync() around further passes, and a forward through the wrapper before each backward."
)


class GradBucket:
    """Gradients that are reduced together, as views of one flat tensor. Communication hooks receive such objects.

    Parameters
    ----------
    index : int
        In the order of reduction.
    parameters : list of Tensor
    numbers : list of int
        The numbers of these parameters among all parameters.
    is_last : bool
    """

    def __init__(self, index: int, parameters: Sequence[AnyTensor], numbers: Sequence[int], is_last: bool) -> None:
        self._index, self._parameters, self.numbers, self._is_last = index, list(parameters), list(numbers), is_last
        first = parameters[0]
        self._buffer = empty(sum(p.numel() for p in parameters), dtype=first.dtype, device=first.device)
        self.views: list[AnyTensor] = []
        start = 0
        for p in parameters:
            self.views.append(self._buffer[start : start + p.numel()].view(p.shape))
            start += p.numel()
        #: How many gradients are still to come.
        self.waiting = len(self._parameters)
        #: The future for the result of the reduction.
        self.work: Work | None = None
        self.future: Future[Any] | None = None

    def index(self) -> int:
        """Return the number of the bucket, in the order of reduction."""
        return self._index

    def buffer(self) -> AnyTensor:
        """Return all gradients concatenated in one flat tensor."""
        return self._buffer

    def set_buffer(self, buffer: AnyTensor) -> None:
        """Replace the values of all gradients."""
        self._buffer.copy_(buffer)

    def gradients(self) -> list[AnyTensor]:
        """Return the gradients, in the shapes of their parameters: views of the buffer."""
        return list(self.views)

    def parameters(self) -> list[AnyTensor]:
        """Return the parameters."""
        return list(self._parameters)

    def is_last(self) -> bool:
        """Return whether this is the last bucket of an iteration."""
        return self._is_last


def used_leaves(outputs: Iterable[Any]) -> set[int]:
    """Return the identities of the leaves in the history of tensors."""
    results: set[int] = set()
    edges = [getattr(t, "_edge", None) for t in outputs if isinstance(t, Variable)]
    nodes = [edge[0] for edge in edges if edge is not None]
    seen = set(nodes)
    while nodes:
        node = nodes.pop()
        if node.is_accumulator:
            results.add(id(node.variable))
        for edge in node._edges:
            if edge is not None and edge[0] not in seen:
                seen.add(edge[0])
                nodes.append(edge[0])
    return results


class Reducer:
    """Reducer of parameters' gradients over processes while backward computes further gradients.

    A hook on each parameter puts its gradient into a bucket. The reduction of a full bucket starts after those of all
    earlier buckets, so that all processes reduce them in the same order. At first, buckets are filled in the reverse
    order of the parameters. After the first backward, they follow the order in which the gradients arrived in one
    process.

    Parameters
    ----------
    parameters : list of (str, Tensor)
        The names and parameters that require grad.
    group : ProcessGroup
        A group that only this object uses.
    capacity, first_capacity : int
        Bytes of a bucket, and of the first one, which is smaller so that its reduction starts early.
    find_unused : bool
        Whether parameters that a forward has not used count as ready.
    static : bool
        Whether all iterations use the same parameters.
    as_views : bool
        Whether ``.grad`` are views of the buckets.
    sparse : collection of str
        The names of the parameters that get sparse gradients.
    """

    def __init__(
        self,
        parameters: Sequence[tuple[str, AnyTensor]],
        group: ProcessGroup,
        capacity: int,
        first_capacity: int,
        find_unused: bool,
        static: bool,
        as_views: bool,
        sparse: Collection[str] = (),
    ) -> None:
        self.names, self.parameters = [name for name, _ in parameters], [p for _, p in parameters]
        self.group, self.capacity, self.first_capacity = group, capacity, first_capacity
        self.find_unused, self.static, self.as_views = find_unused, static, as_views
        #: Parameters with sparse gradients: they are not in buckets, and are reduced together after all buckets.
        self.sparse = {i for i, name in enumerate(self.names) if name in sparse}
        self.sparse_grads: dict[int, AnyTensor | None] = {}
        self.hook: tuple[Any, Hook] | None = None
        #: The divisor of the sum.
        self.divisor = group.size()
        #: The process whose order of arrival counts.
        self.source = 0
        #: The order in which the gradients of the first backward have arrived, until buckets are rebuilt by it.
        self.arrived: list[int] = []
        self.rebuilt = False
        #: How many times each parameter gets a gradient in an iteration of a static graph.
        self.counts: list[int] | None = None
        #: Whether arriving gradients are reduced; whether a gradient has arrived; whether gradients stay in this
        #: process; whether an iteration has been completed.
        self.armed = self.begun = self.local = self.finished = False
        #: Whether each gradient is in its bucket; the number of gradients that are not; the number of gradients still
        #: to arrive for each parameter; the next bucket to start; whether this iteration counts the gradients of a
        #: static graph.
        self.ready: list[bool] = []
        self.unready = 0
        self.left: list[int] = []
        self.next, self.learning = 0, False
        #: Whether parameters get the reduced gradients.
        self.gives = True
        #: The parameters that this process does not use in this iteration.
        self.absent: set[int] = set()
        self.clock = [0.0, 0.0, 0.0]
        self._make_buckets(range(len(self.parameters))[::-1])
        self.handles = [
            p.register_post_accumulate_grad_hook(lambda _, i=i: self._arrive(i)) for i, p in enumerate(self.parameters)
        ]

    # -- buckets ----------------------------------------------------------------------------------------------------

    def _make_buckets(self, order: Iterable[int]) -> None:
        """Assign parameters to buckets in an order. Each bucket has gradients of one dtype and device."""
        groups: list[list[int]] = []
        filling: dict[Any, list[int]] = {}
        sizes: dict[Any, int] = {}
        for i in order:
            if i in self.sparse:
                continue
            p = self.parameters[i]
            kind = p.dtype, p.device
            size = p.numel() * p.dtype.itemsize
            limit = self.first_capacity if groups and filling.get(kind) is groups[0] else self.capacity
            if kind not in filling or sizes[kind] >= limit:
                filling[kind], sizes[kind] = [], 0
                groups.append(filling[kind])
            filling[kind].append(i)
            sizes[kind] += size
        self.buckets = [
            GradBucket(k, [self.parameters[i] for i in numbers], numbers, k == len(groups) - 1)
            for k, numbers in enumerate(groups)
        ]
        self.slots = {i: (b, b.views[k]) for b in self.buckets for k, i in enumerate(b.numbers)}

    def rebuild(self) -> None:
        """Create new buckets after the first backward, in the order in which gradients arrived."""
        if self.rebuilt or not self.finished or self.find_unused:
            return
        rest = [i for i in range(len(self.parameters)) if i not in self.arrived]
        order = tensor([*self.arrived, *rest], device=self.parameters[0].device)
        collectives.broadcast(order, group=self.group, group_src=self.source)
        self.rebuilt = True
        self._make_buckets(order.tolist())

    # -- an iteration -----------------------------------------------------------------------------------------------

    def prepare(self, outputs: Sequence[Any], local: bool) -> None:
        """Begin an iteration, after forward.

        Parameters
        ----------
        outputs : sequence
            The values that forward has returned: tensors and other objects.
        local : bool
            Whether gradients stay in this process.
        """
        if self.armed and self.begun:
            missing = [name for i, name in enumerate(self.names) if not self.ready[i]]
            raise RuntimeError(NOT_FINISHED.format(", ".join(missing)))
        self.local = local
        if local:
            self.armed = False
            return
        self.armed, self.begun, self.next = True, False, 0
        self.ready, self.unready = [False] * len(self.parameters), len(self.parameters)
        for bucket in self.buckets:
            bucket.waiting, bucket.work, bucket.future = len(bucket.numbers), None, None
        self.learning = self.static and self.counts is None
        self.left = list(self.counts) if self.counts is not None else [1] * len(self.parameters)
        if self.learning:
            self.left = [0] * len(self.parameters)
            for t in outputs:
                if isinstance(t, Variable) and t.requires_grad:  # type: ignore[attr-defined]
                    t.register_hook(self._expect_end)  # type: ignore[attr-defined]
            return
        if self.static:
            unused = [i for i, n in enumerate(self.left) if not n]
        elif self.find_unused:
            used_ids = used_leaves(outputs)
            unused = [i for i, p in enumerate(self.parameters) if id(p) not in used_ids]
        else:
            return
        self.absent = set(unused)
        for i in unused:
            self._mark(i, None)
        if not self.unready:
            # No parameter is used, so no backward pass will finish the iteration.
            self._finish()

    def _expect_end(self, _: Any) -> None:
        """Schedule the end of the first backward of a static graph, of which reentrant checkpoints may be a part."""
        if self.learning and not self.begun:
            self.begun, self.clock[0] = True, time.perf_counter()
            Variable._execution_engine.queue_callback(self._learn)

    def _arrive(self, i: int) -> None:
        """Handle a parameter whose gradient is complete."""
        if not self.armed:
            if not self.local:
                warnings.warn(LATE, stacklevel=2)
            return
        if not self.begun:
            self.begun, self.clock[0] = True, time.perf_counter()
        if not self.rebuilt and i not in self.arrived:
            self.arrived.append(i)
        if self.learning:
            self.left[i] += 1
            return
        self.left[i] -= 1
        if self.ready[i] or self.left[i] < 0:
            raise RuntimeError(TWICE.format(self.names[i]))
        if not self.left[i]:
            self._mark(i, self.parameters[i].grad)
            if not self.unready:
                Variable._execution_engine.queue_callback(self._finish)

    def _learn(self) -> None:
        """Record which parameters of a static graph get gradients, after the first backward, and reduce these."""
        self.counts, self.learning = list(self.left), False
        self.absent = {i for i, n in enumerate(self.counts) if not n}
        for i, p in enumerate(self.parameters):
            self._mark(i, None if i in self.absent else p.grad)
        self._finish()

    def _mark(self, i: int, grad: AnyTensor | None) -> None:
        """Put a divided gradient into its bucket, and start the reduction of full buckets."""
        self.ready[i] = True
        self.unready -= 1
        if grad is not None and (grad._edge is not None or grad.requires_grad):
            raise RuntimeError(RECORDED)
        if i in self.sparse:
            self.sparse_grads[i] = grad
            return
        bucket, view = self.slots[i]
        array = view._array
        if grad is None:
            array[...] = 0
        elif grad.is_sparse:
            raise RuntimeError(
                f"the parameter {self.names[i]!r} got a sparse gradient, and no nn.Embedding or nn.EmbeddingBag with "
                "sparse=True has it: DistributedDataParallel reduces dense gradients of all other parameters"
            )
        elif self.hook is not None:
            if grad is not view:
                array[...] = grad._array
        else:
            xp = view._device.backend.xp
            xp.multiply(grad._array, array.dtype.type(1 / self.divisor), out=array)
        bucket.waiting -= 1
        while self.next < len(self.buckets) and not self.buckets[self.next].waiting:
            self._start(self.buckets[self.next])
            self.next += 1

    def _start(self, bucket: GradBucket) -> None:
        """Reduce a bucket."""
        bump(bucket._buffer)
        with no_grad():
            if self.hook is not None:
                state, hook = self.hook
                bucket.future = hook(state, bucket)
                if not isinstance(bucket.future, Future):
                    raise RuntimeError("a communication hook must return a torch.futures.Future")
            else:
                bucket.work = collectives.all_reduce(bucket._buffer, group=self.group, async_op=True)

    def _finish(self) -> None:
        """Wait for all buckets, and give the parameters their gradients."""
        backward_end = time.perf_counter()
        self.armed = self.begun = False
        self.finished = True
        with no_grad():
            idle = self._unused_everywhere()
            for bucket in self.buckets:
                self._wait(bucket)
                for i, view in zip(bucket.numbers, bucket.views, strict=True):
                    if self.gives and i not in idle:
                        self._give(self.parameters[i], view)
            for i in sorted(self.sparse):
                mean = self._mean_of_sparse(self.parameters[i], self.sparse_grads.pop(i, None))
                if self.gives and i not in idle:
                    self.parameters[i].grad = mean
        end = time.perf_counter()
        self.clock[1:] = backward_end - self.clock[0], end - backward_end

    def _mean_of_sparse(self, p: AnyTensor, grad: AnyTensor | None) -> AnyTensor:
        """Return the mean of sparse gradients over all processes, with their entries concatenated and added."""
        grad = zeros(p.shape, dtype=p.dtype, device=p.device).to_sparse(1) if grad is None else grad.coalesce()
        if grad.layout is not sparse_coo:
            raise RuntimeError(f"a parameter of a table with sparse=True got a gradient of layout {grad.layout}")
        indices, values = grad._indices()[0], grad._values()
        size = self.group.size()
        counts = zeros(size, dtype=int64, device=p.device)
        own_count = tensor([len(indices)], device=p.device)
        collectives.all_gather_into_tensor(counts, own_count, group=self.group)
        longest, lengths = int(counts.max()), counts.tolist()
        parts = []
        for part in (indices, values):
            padded = part.new_zeros((longest, *part.shape[1:]))
            padded[: len(part)] = part
            out = part.new_zeros((size * longest, *part.shape[1:]))
            collectives.all_gather_into_tensor(out, padded, group=self.group)
            parts.append(functional.cat([out[k * longest : k * longest + n] for k, n in enumerate(lengths)]))
        return sparse_coo_tensor(parts[0][None], parts[1] / self.divisor, p.shape).coalesce()

    def _wait(self, bucket: GradBucket) -> None:
        if bucket.work is not None:
            bucket.work.wait()
        if bucket.future is not None:
            reduced = bucket.future.wait()
            reduced = reduced[0] if isinstance(reduced, (list, tuple)) else reduced
            if reduced is not bucket._buffer:
                bucket._buffer.copy_(reduced.view(bucket._buffer.shape))

    def _unused_everywhere(self) -> set[int]:
        """Return the parameters that got no gradient in any process, whose ``.grad`` does not change.

        A process that has used all parameters only sends its flags. It does not wait for a device to read them.
        """
        if not (self.static or self.find_unused):
            return set()
        device, count = self.parameters[0].device, len(self.parameters)
        if not self.absent:
            collectives.all_reduce(ones(count, dtype=int64, device=device), group=self.group)
            return set()
        flags = tensor([int(i not in self.absent) for i in range(count)], device=device)
        collectives.all_reduce(flags, group=self.group)
        return {i for i, n in enumerate(flags.tolist()) if not n}

    def _give(self, p: AnyTensor, view: AnyTensor) -> None:
        grad = p.grad
        if self.as_views:
            if grad is not view:
                p.grad = view
        elif grad is None:
            p.grad = view.clone()
        else:
            grad._array[...] = view._array
        if grad is not None:
            bump(grad)

    def shadow(self) -> None:
        """Take part in the reductions of an iteration without own gradients."""
        self.rebuild()
        self.gives = False
        try:
            self.prepare((), False)
            if self.armed:
                # `prepare` finishes the iteration if no parameter is used. Here it has not.
                for i in range(len(self.parameters)):
                    self._mark(i, None)
                self._finish()
        finally:
            self.gives = True

    def times(self) -> dict[str, float]:
        """Return the seconds of the last iteration.

        They are those of backward, of communication, and of the part of communication hidden by backward.
        """
        _, backward, waited = self.clock
        communication = sum(b.work.seconds() for b in self.buckets if b.work is not None)
        return {"backward": backward, "communication": communication, "waited": waited}
