"""Data parallel training of a module in several processes, each on a part of the batch."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from typing import Any

from gradcore import functional
from gradcore.autograd.grad_mode import is_grad_enabled, no_grad
from gradcore.core.typing import AnyTensor
from gradcore.distributed import collectives
from gradcore.distributed.buckets import Hook, Reducer
from gradcore.distributed.checks import check_alike
from gradcore.distributed.groups import duplicate_group, resolve
from gradcore.nn.embedding import Embedding, EmbeddingBag
from gradcore.nn.module import Module
from gradcore.tensor.creation import tensor
from gradcore.tools.profiler.recording import record_function
from gradcore.utils import _pytree

__all__ = ["DistributedDataParallel"]

_MB = 1024 * 1024


def _sparse_tables(module: Module) -> set[str]:
    """Return the names of the parameters with sparse gradients, the tables of embeddings with ``sparse=True``."""
    return {
        f"{path}.weight".lstrip(".")
        for path, each in module.named_modules()
        if isinstance(each, (Embedding, EmbeddingBag)) and each.sparse
    }


class DistributedDataParallel(Module):
    """A module that processes train together, each on a part of the batch, with the mean of all gradients.

    On creation, all processes get the parameters and buffers of rank 0. Backward collects gradients in buckets, each of
    which is reduced while backward computes further gradients. After backward, ``.grad`` is the mean over all
    processes. That is the gradient of the whole batch if the loss is a mean and all parts have the same size.

    Parameters
    ----------
    module : Module
    device_ids, output_device
        Accepted for compatibility: the module stays where it is.
    dim : int
        Accepted for compatibility.
    broadcast_buffers : bool
        Whether each forward begins with the buffers of rank 0 in all processes.
    init_sync : bool
        Whether all processes get the parameters and buffers of rank 0.
    process_group : ProcessGroup, optional
        By default the world.
    bucket_cap_mb : float, optional
        Size of a bucket, 25 by default; the first one has 1.
    find_unused_parameters : bool
        Whether a forward may leave parameters unused. The graph is searched for them after each forward.
    check_reduction : bool
        Accepted for compatibility.
    gradient_as_bucket_view : bool
        Whether gradients are views of the buckets, which saves their memory and a copy.
    static_graph : bool
        Whether every iteration uses the same parameters, equally often; the first one finds out which.
    skip_all_reduce_unused_params : bool
        Accepted for compatibility.

    Raises
    ------
    RuntimeError
        If no parameter requires grad, or processes have different ones.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributed.init_process_group("mpi")
    >>> net = gc.nn.parallel.DistributedDataParallel(gc.nn.Linear(3, 2))
    >>> net(gc.ones(5, 3)).sum().backward()
    >>> net.module.bias.grad
    tensor([5., 5.])
    >>> gc.distributed.destroy_process_group()
    """

    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool = True,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        skip_all_reduce_unused_params: bool = False,
    ) -> None:
        super().__init__()
        self.module, self.device_ids, self.output_device, self.dim = module, device_ids, output_device, dim
        self.broadcast_buffers = broadcast_buffers
        ignored = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        parameters = [(n, p) for n, p in module.named_parameters() if p.requires_grad and n not in ignored]
        if not parameters:
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameters that require a "
                "gradient."
            )
        self.process_group = duplicate_group(resolve(process_group), "DistributedDataParallel")
        self._buffers_sent = [b for n, b in module.named_buffers() if n not in ignored]
        named_tensors = [*((n, p) for n, p in module.named_parameters() if n not in ignored), *module.named_buffers()]
        layouts = {n: f"{tuple(t.shape)} {t.dtype.name}" for n, t in named_tensors}
        check_alike(
            self.process_group,
            self.process_group.any_engine,
            "DistributedDataParallel",
            {"module": layouts},
            always=True,
        )
        if init_sync:
            self._send([t for _, t in named_tensors], 0)
        self._make_reducer = partial(
            Reducer,
            parameters,
            self.process_group,
            int((25 if bucket_cap_mb is None else bucket_cap_mb) * _MB),
            _MB if bucket_cap_mb is None else int(bucket_cap_mb * _MB),
            find_unused_parameters,
            static_graph,
            gradient_as_bucket_view,
            _sparse_tables(module),
        )
        self._reducer: Reducer | None
        #: None in a world of one process, which has nothing to reduce.
        self._reducer = self._make_reducer() if self.process_group.size() > 1 else None
        self.require_backward_grad_sync = self._buffers_due = True
        #: Settings of `join`: whether it is active; whether gradients are divided by the number of all processes;
        #: whether an error is raised once a process has no more inputs; the last process that had an input.
        self._joining, self._divides_by_all, self._throws, self._last_active = False, True, False, 0

    def _send(self, tensors: list[AnyTensor], source: int) -> None:
        """Copy tensors from one process to all others, with one message for all tensors of a kind."""
        if self.process_group.size() == 1:
            return
        kinds: dict[Any, list[AnyTensor]] = defaultdict(list)
        for t in tensors:
            kinds[t.dtype, t.device].append(t)
        with no_grad():
            for batch in kinds.values():
                flat = functional.cat([t.detach().reshape(-1) for t in batch])
                collectives.broadcast(flat, group=self.process_group, group_src=source)
                for t, part in zip(batch, flat.split([t.numel() for t in batch]), strict=True):
                    t.detach().copy_(part.view(t.shape))

    # -- forward ----------------------------------------------------------------------------------------------------

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Return the result of the module. The next backward reduces the gradients."""
        reducer = self._reducer if is_grad_enabled() else None
        if reducer is not None and self.require_backward_grad_sync:
            if self._joining:
                self._notify(1)
            reducer.rebuild()
        self._send_buffers()
        outputs = self.module(*inputs, **kwargs)
        if reducer is not None:
            local = not self.require_backward_grad_sync
            search = not local and (reducer.find_unused or reducer.static)
            reducer.prepare(_pytree.tree_leaves(outputs) if search else (), local)
            self._buffers_due = not local
        return outputs

    def _send_buffers(self) -> None:
        if self._reducer is not None and self._buffers_due and self.broadcast_buffers and self._buffers_sent:
            with record_function("gradcore::broadcast_buffers"):
                self._send(self._buffers_sent, self._reducer.source)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Sum gradients locally inside this context manager, until a backward outside of it reduces them.

        Examples
        --------
        >>> import gradcore as gc
        >>> gc.distributed.init_process_group("mpi")
        >>> net = gc.nn.parallel.DistributedDataParallel(gc.nn.Linear(3, 2))
        >>> with net.no_sync():
        ...     net(gc.ones(5, 3)).sum().backward()
        >>> net(gc.ones(5, 3)).sum().backward()
        >>> gc.distributed.destroy_process_group()
        """
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def register_comm_hook(self, state: object, hook: Hook) -> None:
        """Register a hook that reduces buckets instead of the default, for example with fewer bytes.

        Parameters
        ----------
        state : object
            State that the hook keeps between calls.
        hook : callable
            ``hook(state, bucket)`` begins to reduce the gradients of a `GradBucket`, and returns a future for the
            tensor that replaces the bucket's buffer. It divides by the number of processes.

        Raises
        ------
        RuntimeError
            If the module already has a hook.
        """
        if self._reducer is None:
            self._reducer = self._make_reducer()
        if self._reducer.hook is not None:
            raise RuntimeError("register_comm_hook or register_builtin_comm_hook can only be called once.")
        if not callable(hook):
            raise TypeError("Communication hook must be callable.")
        self._reducer.hook = state, hook

    def _set_static_graph(self) -> None:
        """Declare that every iteration uses the same parameters."""
        if self._reducer is not None:
            self._reducer.static = True

    def _get_ddp_logging_data(self) -> dict[str, float]:
        """Return seconds of the last iteration: backward, communication, and waiting for it after backward."""
        return {} if self._reducer is None else self._reducer.times()

    # -- uneven inputs ----------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def join(
        self, divide_by_initial_world_size: bool = True, enable: bool = True, throw_on_early_termination: bool = False
    ) -> Iterator[None]:
        """Allow different numbers of batches inside this context manager.

        A process without further batches takes part with zeros.

        Parameters
        ----------
        divide_by_initial_world_size : bool
            Whether gradients are divided by the number of all processes, or by that of those which still have batches.
        enable : bool
        throw_on_early_termination : bool
            Raise an error in all processes as soon as one has no more batches.

        Raises
        ------
        RuntimeError
            If the graph is static, or as `throw_on_early_termination` says.
        """
        reducer = self._reducer
        if not enable or reducer is None:
            yield
            return
        if reducer.static:
            raise RuntimeError("join() cannot be used with static_graph=True")
        self._divides_by_all, self._throws = divide_by_initial_world_size, throw_on_early_termination
        self._joining = True
        try:
            yield
            with no_grad():
                while self._notify(0):
                    self._send_buffers()
                    reducer.shadow()
                self._send([*reducer.parameters, *self._buffers_sent], self._last_active)
        finally:
            self._joining = False
            reducer.source, reducer.divisor = 0, self.process_group.size()

    def _notify(self, active: int) -> int:
        """Tell all processes whether this one has a batch, and return how many have one."""
        flags = tensor(
            [active * (i == self.process_group.rank()) for i in range(self.process_group.size())],
            device=next(self.module.parameters()).device,
        )
        collectives.all_reduce(flags, group=self.process_group)
        results = [i for i, flag in enumerate(flags.tolist()) if flag]
        if self._throws and len(results) < self.process_group.size():
            raise RuntimeError(
                f"rank {self.process_group.rank()}: a process has no more inputs. All processes end, as join() was "
                "called with throw_on_early_termination=True"
            )
        if results and self._reducer is not None:
            # As in PyTorch, buffers come from the last rank that has a batch.
            self._reducer.source = self._last_active = results[-1]
            if not self._divides_by_all:
                self._reducer.divisor = len(results)
        return len(results)
