"""Fully sharded data parallel: each process keeps a part of every parameter, gradient and optimizer state."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from gradcore.autograd.grad_mode import is_grad_enabled, no_grad
from gradcore.autograd.saved import current_hooks, saved_tensors_hooks
from gradcore.autograd.variables import Variable
from gradcore.core.device import device as Device
from gradcore.core.typing import AnyArray, AnyTensor
from gradcore.distributed.checks import check_alike
from gradcore.distributed.device_mesh import DeviceMesh
from gradcore.distributed.groups import ProcessGroup, default_device, duplicate_group, resolve
from gradcore.distributed.sharded_parameter import Gathering, Reduction, ShardedParameter, initialize_whole
from gradcore.nn.module import Module
from gradcore.nn.parameter import Parameter
from gradcore.tensor import Tensor
from gradcore.tools.profiler.recording import record_function
from gradcore.utils import _pytree

__all__ = [
    "CPUOffloadPolicy",
    "FSDPModule",
    "MixedPrecisionPolicy",
    "OffloadPolicy",
    "ShardedParameter",
    "UnshardHandle",
    "fully_shard",
]

RECORDED = (
    "fully_shard reduces gradients without recording it, so derivatives of them (create_graph=True) would be wrong. "
    "Use gradcore.distributed.nn.functional on what you differentiate."
)


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """Dtypes in which a sharded module computes and communicates. Shards and their gradients keep their dtype.

    Parameters
    ----------
    param_dtype : dtype, optional
        The dtype of gathered parameters, and therefore of the computation and of gradients.
    reduce_dtype : dtype, optional
        The dtype in which gradients are reduced, by default `param_dtype`.
    output_dtype : dtype, optional
        The dtype to which floating-point outputs are cast.
    cast_forward_inputs : bool
        Whether floating-point inputs are cast to `param_dtype`.
    """

    param_dtype: Any = None
    reduce_dtype: Any = None
    output_dtype: Any = None
    cast_forward_inputs: bool = True


@dataclass(frozen=True)
class OffloadPolicy:
    """Base class of policies for the device of parts. This one keeps them on the device on which a module computes."""


@dataclass(frozen=True)
class CPUOffloadPolicy(OffloadPolicy):
    """Keep parts of parameters, their gradients and so the optimizer's state on the CPU.

    Forward and backward copy the parts of a unit to the device before they gather them, and backward copies reduced
    gradients to the CPU, where the optimizer makes its step. On the CPU it changes nothing.

    Parameters
    ----------
    pin_memory : bool
        Accepted for compatibility: copies go through memory that is not page-locked.
    """

    pin_memory: bool = True


class _Slot:
    """A parameter of a unit: the modules that own it, its shard, and its full values while they are needed."""

    def __init__(self, shard: ShardedParameter, owners: list[tuple[Module, str]]) -> None:
        self.shard, self.owners = shard, owners
        #: The gathered values, with the version of the shard.
        self.values: AnyTensor = None
        self.version = -1
        #: The sum of whole gradients that were not reduced yet, see `FSDPModule.set_requires_gradient_sync`.
        self.pending: AnyTensor = None

    @property
    def kind(self) -> tuple[Hashable, Hashable]:
        """Return the properties that parameters must share to be gathered or reduced by one collective."""
        return self.shard.dtype, self.shard.device

    def show(self, p: AnyTensor) -> None:
        """Set `p` as the parameter in the modules that own it."""
        for owner, name in self.owners:
            owner._parameters[name] = p

    def drop(self) -> None:
        """Free the full values."""
        self.values = None


class _Schedule:
    """State shared by the units of a model: the order of their forwards, and the pending reductions.

    Units usually run in the same order in each iteration, so the next unit is gathered while one computes.
    """

    def __init__(self) -> None:
        self.order: list[_Unit] = []
        self.before: list[_Unit] = []
        self.running = 0
        #: Reductions that still wait for gradients, and reductions in progress.
        self.open: dict[tuple[object, Hashable], Reduction] = {}
        self.reductions: list[Reduction] = []
        self.queued = False
        self.prefetches = True

    def neighbour(self, unit: _Unit, step: int) -> _Unit | None:
        """Return the unit that follows in forward (1), or in backward (-1)."""
        order = self.before if step > 0 else self.order
        k = len(self.order) - 1 if step > 0 else (self.order.index(unit) if unit in self.order else -1)
        if not 0 <= k < len(order) or order[k] is not unit or not 0 <= k + step < len(order):
            return None
        return order[k + step]

    def begin(self, key: tuple[object, Hashable]) -> None:
        """Begin a pending reduction of gradients."""
        reduction = self.open.pop(key)
        if self.reductions:
            self.reductions[-1].begin_over_replicas()
        reduction.begin()
        self.reductions.append(reduction)

    def collect(self) -> None:
        """Wait for the gradients that are being reduced, and assign them to the shards."""
        with no_grad():
            while self.reductions:
                self.reductions.pop(0).finish()

    def finish(self) -> None:
        """Finish backward: reduce the remaining gradients, wait for all of them, and free all full values."""
        self.queued = False
        units = list(dict.fromkeys([*self.order, *self.before]))
        with no_grad():
            for key in list(self.open):  # In these calls, some parameters got no gradient.
                self.begin(key)
            for unit in units:
                unit.reduce_pending()
        self.collect()
        for unit in units:
            unit.reduce_unreplicated()
            if unit.reshards_after_backward:
                unit.release()


class _Unit:
    """Parameters that are gathered and freed together: those of a module that no inner module shards."""

    def __init__(self, module: Module, slots: list[_Slot], policy: MixedPrecisionPolicy, reshard: bool | None) -> None:
        self.module, self.slots, self.policy, self.reshard = module, slots, policy, reshard
        self.schedule = _Schedule()
        self.is_root = False
        self.syncs = self.reshards_after_backward = self.reduces_over_replicas = True
        #: Units to gather while this one computes in forward (1) or backward (-1), instead of the next unit.
        self.following: dict[int, list[_Unit]] = {}
        #: The all-gathers in progress, each with its parameters.
        self.gatherings: list[tuple[Gathering, list[_Slot]]] = []
        self.contexts: list[tuple[saved_tensors_hooks | None, list[AnyTensor]]] = []

    # -- values -----------------------------------------------------------------------------------------------------

    def fetch(self) -> None:
        """Begin to gather the missing values, by one collective for all parameters of a kind."""
        with no_grad():
            if any(g.versions != [slot.shard._version for slot in slots] for g, slots in self.gatherings):
                self.take()  # some shards have changed since
            for slot in self.slots:
                if slot.values is not None and slot.version != slot.shard._version:
                    slot.drop()
            pending = {id(slot) for _, slots in self.gatherings for slot in slots}
            kinds: dict[Hashable, list[_Slot]] = {}
            for slot in self.slots:
                if slot.values is None and id(slot) not in pending:
                    kinds.setdefault(slot.kind, []).append(slot)
            for slots in kinds.values():
                gathering = Gathering([slot.shard for slot in slots], self.policy.param_dtype)
                self.gatherings.append((gathering, slots))

    def take(self) -> None:
        """Wait for the values that are being gathered."""
        with no_grad():
            while self.gatherings:
                gathering, slots = self.gatherings.pop(0)
                for slot, values, version in zip(slots, gathering.wait(), gathering.versions, strict=True):
                    slot.values, slot.version = values, version

    def take_assigned(self, module: Module, keys: object) -> None:
        """Replace shards whose owners have got other parameters by ``load_state_dict(assign=True)``."""
        for slot in self.slots:
            for owner, name in slot.owners:
                p = owner._parameters[name]
                if p is not slot.shard and p is not None:
                    slot.shard = slot.shard.replace(p)
                    slot.drop()
            slot.show(slot.shard)

    def gather(self, step: int) -> None:
        """Gather all values, and begin to gather those of the units that follow."""
        self.fetch()
        with record_function("gradcore::gather_parameters"):
            self.take()
        following = self.following.get(step)
        if following is None:
            neighbour = self.schedule.neighbour(self, step) if self.schedule.prefetches else None
            following = [] if neighbour is None else [neighbour]
        for unit in following:
            unit.fetch()

    def release(self) -> None:
        """Free the full values of all parameters."""
        self.take()
        for slot in self.slots:
            slot.drop()

    # -- forward ----------------------------------------------------------------------------------------------------

    def begin(self, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Replace the module's shards by full parameters before forward. This is a forward pre-hook."""
        if not self.schedule.running:
            self._become_root()
        self.schedule.order.append(self)
        self.gather(1)
        call = object()
        leaves = [self._leaf(slot, call) for slot in self.slots]
        hooks = None
        if is_grad_enabled():
            hooks = saved_tensors_hooks(*self._hooks())
            hooks.__enter__()
        self.contexts.append((hooks, leaves))
        self.schedule.running += 1
        dtype = self.policy.param_dtype
        if dtype is None or not self.policy.cast_forward_inputs:
            return None
        return _cast(args, dtype), _cast(kwargs, dtype)

    def _become_root(self) -> None:
        """Share the schedule with all inner units, whose forwards are a part of this one's."""
        self.is_root = True
        self.schedule.before, self.schedule.order = self.schedule.order, []
        for unit in units_of(self.module):
            unit.schedule = self.schedule
            unit.is_root = unit is self

    def _leaf(self, slot: _Slot, call: object) -> AnyTensor:
        """Return the full parameter of a slot for one forward. Its gradient is passed to `_receive`."""
        leaf = Parameter(slot.values, slot.shard.requires_grad and is_grad_enabled())
        if leaf.requires_grad:
            leaf.register_post_accumulate_grad_hook(partial(self._receive, slot, call))
        slot.show(leaf)
        return leaf

    def end(self, module: Module, args: Any, result: Any) -> Any:
        """Replace the module's full parameters by the shards after forward. This is a forward hook."""
        self.schedule.running -= 1
        hooks, leaves = self.contexts.pop()
        if hooks is not None:
            hooks.__exit__(None, None, None)
        reshard = not self.is_root if self.reshard is None else self.reshard
        for slot, leaf in zip(self.slots, leaves, strict=True):
            slot.show(slot.shard)
            _empty(leaf)
            if reshard or not is_grad_enabled():
                slot.drop()
        dtype = self.policy.output_dtype
        return result if dtype is None else _cast(result, dtype)

    def _hooks(self) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
        """Return hooks for saved tensors, which save only the layout of full parameters and gather them again."""
        outer = current_hooks()
        #: Parameters by the identity of their arrays, and of the arrays that own their memory.
        arrays = {id(slot.values._array): slot for slot in self.slots}
        memories = {id(_memory_of(slot.values)): slot for slot in self.slots if slot.values.numel()}

        def pack(t: AnyTensor) -> Any:
            slot = arrays.get(id(t._array))
            if slot is not None:
                return slot, None
            slot = memories.get(id(_memory_of(t)))
            if slot is None:
                return (None, t) if outer is None else (outer[1], outer[0](t))
            return slot, (t.shape, t.stride(), t.storage_offset(), t.dtype)

        def unpack(packed: Any) -> Any:
            slot, saved = packed
            if not isinstance(slot, _Slot):
                return saved if slot is None else slot(saved)
            if slot.values is None:
                self.schedule.collect()  # This frees the memory of reduced gradients.
                self.gather(-1)
            if saved is None:
                return slot.values
            shape, stride, offset, dtype = saved
            values = slot.values if slot.values.dtype is dtype else slot.values.view(dtype)
            return values.as_strided(shape, stride, offset)

        return pack, unpack

    # -- backward ---------------------------------------------------------------------------------------------------

    def _receive(self, slot: _Slot, call: object, leaf: AnyTensor) -> None:
        """Accept the full gradient of a parameter from backward.

        When all parameters of the forward `call` have gradients, their reduction begins, by one collective for all of a
        kind.
        """
        schedule, grad = self.schedule, leaf.grad
        if grad.requires_grad:
            raise RuntimeError(RECORDED)
        leaf.grad = None
        if self.reshards_after_backward:
            slot.drop()
        if not schedule.queued:
            schedule.queued = True
            Variable._execution_engine.queue_callback(schedule.finish)
        with no_grad():
            grad = grad.detach()
            if slot.pending is not None:
                grad, slot.pending = slot.pending + grad, None
            if not self.syncs:
                slot.pending = grad
                return
            self._reduce(slot, grad, call)

    def reduce_pending(self) -> None:
        """Reduce the gradients left from earlier backwards of parameters that got none in this backward."""
        pending_slots = [slot for slot in self.slots if slot.pending is not None] if self.syncs else []
        for slot in pending_slots:
            grad, slot.pending = slot.pending, None
            self._reduce(slot, grad, self, pending_slots)

    def reduce_unreplicated(self) -> None:
        """Reduce over replicas the gradients kept from earlier backwards, of parameters that got none in this one."""
        if self.syncs and self.reduces_over_replicas:
            with no_grad():
                for slot in self.slots:
                    slot.shard.reduce_over_replicas()

    def _reduce(self, slot: _Slot, grad: AnyTensor, call: object, together: Sequence[_Slot] | None = None) -> None:
        """Add a gradient to the reduction of a call, which begins when all of `together` have gradients.

        By default, these are all parameters that require grad.
        """
        key = call, slot.kind
        reduction = self.schedule.open.get(key)
        if reduction is None:
            slots = [s for s in self.slots if s.shard.requires_grad] if together is None else together
            shards = [s.shard for s in slots if s.kind == slot.kind]
            reduction = Reduction(shards, self.policy.reduce_dtype, self.reduces_over_replicas)
            self.schedule.open[key] = reduction
        if reduction.add(slot.shard, grad):
            self.schedule.begin(key)


def units_of(module: Module) -> Iterator[_Unit]:
    """Yield the units of a module and of its submodules."""
    for inner in module.modules():
        unit = inner.__dict__.get("_fsdp_unit")
        if unit is not None:
            yield unit


def _memory_of(t: AnyTensor) -> AnyArray:
    """Return the array that owns the memory of a tensor."""
    return t._device.backend.owner_of(t._array)


def _empty(leaf: AnyTensor) -> None:
    """Free the memory of a leaf that the graph still references.

    The leaf keeps its shape, with a single number as content.
    """
    xp = leaf._device.backend.xp
    with leaf._device.backend.use_index(leaf._device.index):
        array = leaf._array
        number = xp.full((), float("nan") if leaf.is_floating_point() else 0, array.dtype)
        leaf._array = xp.broadcast_to(number, array.shape)


def _cast(values: Any, dtype: Any) -> Any:
    def one(value: Any) -> Any:
        return value.to(dtype) if isinstance(value, Tensor) and value.is_floating_point() else value

    return _pytree.tree_map(one, values)


class UnshardHandle:
    """Handle that `FSDPModule.unshard` returns."""

    def __init__(self, unit: _Unit) -> None:
        self._unit = unit

    def wait(self) -> None:
        """Wait until the parameters are gathered."""
        self._unit.take()


class FSDPModule:
    """Methods of modules changed by `fully_shard`, which adds this class to the bases of the module's class."""

    _fsdp_unit: _Unit

    def unshard(self, async_op: bool = False) -> UnshardHandle | None:
        """Gather the parameters of this module now, in advance of its next forward.

        Parameters
        ----------
        async_op : bool
            Return a handle at once.
        """
        self._fsdp_unit.fetch()
        if async_op:
            return UnshardHandle(self._fsdp_unit)
        self._fsdp_unit.take()
        return None

    def reshard(self) -> None:
        """Free the gathered parameters of this module."""
        self._fsdp_unit.release()

    def set_prefetch(self, enabled: bool) -> None:
        """Set whether a module is gathered while the previous one computes, which needs the memory of two.

        Parameters
        ----------
        enabled : bool
        """
        self._fsdp_unit.schedule.prefetches = enabled

    def set_modules_to_forward_prefetch(self, modules: Sequence[FSDPModule]) -> None:
        """Set the modules that are gathered while this module computes its forward.

        Parameters
        ----------
        modules : sequence of FSDPModule
            By default the one whose forward came next in the last iteration.
        """
        self._fsdp_unit.following[1] = [module._fsdp_unit for module in modules]

    def set_modules_to_backward_prefetch(self, modules: Sequence[FSDPModule]) -> None:
        """Set the modules that are gathered while this module computes its backward.

        Parameters
        ----------
        modules : sequence of FSDPModule
            By default the one whose forward came before.
        """
        self._fsdp_unit.following[-1] = [module._fsdp_unit for module in modules]

    def set_requires_gradient_sync(self, requires_gradient_sync: bool, *, recurse: bool = True) -> None:
        """Set whether backward reduces gradients over processes.

        If not, it accumulates full gradients until it does again.

        Parameters
        ----------
        requires_gradient_sync : bool
            False in all but the last backward of a step: gradients are then communicated once. Whole gradients take
            the memory of whole parameters meanwhile.
        recurse : bool
            Whether to change the inner modules too.
        """
        for unit in self._units(recurse):
            unit.syncs = requires_gradient_sync

    def set_requires_all_reduce(self, requires_all_reduce: bool, *, recurse: bool = True) -> None:
        """Set whether backward reduces gradients over replicas, in addition to the shards of each replica.

        Parameters
        ----------
        requires_all_reduce : bool
            False in all but the last backward of a step: the replicas then communicate once, and each process keeps
            the gradients of its parts meanwhile. Without replicas it has no effect.
        recurse : bool
            Whether to change the inner modules too.
        """
        for unit in self._units(recurse):
            unit.reduces_over_replicas = requires_all_reduce

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """Do nothing, for compatibility: each backward waits for its gradients.

        Parameters
        ----------
        is_last_backward : bool
        """

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        """Set whether the full parameters are freed after forward.

        Parameters
        ----------
        reshard_after_forward : bool
        recurse : bool
            Whether to change the inner modules too.
        """
        for unit in self._units(recurse):
            unit.reshard = reshard_after_forward

    def set_reshard_after_backward(self, reshard_after_backward: bool, *, recurse: bool = True) -> None:
        """Set whether the full parameters are freed after backward.

        Parameters
        ----------
        reshard_after_backward : bool
            False saves a gathering where several backwards come before a step.
        recurse : bool
            Whether to change the inner modules too.
        """
        for unit in self._units(recurse):
            unit.reshards_after_backward = reshard_after_backward

    def _units(self, recurse: bool) -> list[_Unit]:
        assert isinstance(self, Module)
        return list(units_of(self)) if recurse else [self._fsdp_unit]


def fully_shard(
    module: Any,
    *,
    mesh: Any = None,
    reshard_after_forward: bool | None = None,
    shard_placement_fn: Any = None,
    mp_policy: MixedPrecisionPolicy | None = None,
    offload_policy: OffloadPolicy | None = None,
    ignored_params: Any = None,
) -> Any:
    """Shard the parameters of a module over processes, in place. All processes make this call.

    Each process keeps an equal part of every parameter, with the values of rank 0, as a `ShardedParameter`. A forward
    gathers the whole parameters, and frees them after it. Backward gathers them again, and reduces the gradients to the
    parts, which then have the mean over all processes. Each of these three is one collective for all parameters of one
    dtype. An optimiser created with ``module.parameters()`` has the
    state of the parts only. It has to treat elements one by one, as SGD, Adam and similar optimisers do.

    Call it on the modules inside first, such as the layers of a transformer, then on the whole: each call makes one
    unit that is gathered and freed together, of the parameters that are not sharded yet.

    A model that is too large for one process is built on the device ``"meta"``, where parameters have no memory, then
    sharded, moved by ``to_empty(device="cpu")``, and initialized by ``reset_parameters()`` of its modules, or from a
    checkpoint: no process ever has more than one whole module.

    Parameters
    ----------
    module : Module or list of Module
    mesh : ProcessGroup or DeviceMesh, optional
        By default the world. With a mesh of two dimensions, parameters are sharded over the processes of the second,
        and replicated over those of the first (hybrid sharding): the dimension of a slow network should be the first.
    reshard_after_forward : bool, optional
        Whether parameters are freed after forward, and gathered again in backward. By default all but those of the
        outermost module are.
    shard_placement_fn
        Accepted for compatibility: parts are slices of all elements in a row.
    mp_policy : MixedPrecisionPolicy, optional
    offload_policy : OffloadPolicy, optional
        `CPUOffloadPolicy()` keeps parts, gradients and the optimizer's state on the CPU. The module then computes on
        the device of `mesh`, or on that of its parameters, or, if these are on the CPU, on the device for which the
        group has an engine.
    ignored_params : set of Tensor, optional
        Parameters that stay whole in each process, whose gradients are not reduced.

    Returns
    -------
    Module or list of Module
        `module` itself.

    Examples
    --------
    >>> import gradcore as gc
    >>> from gradcore.distributed.fsdp import fully_shard
    >>> gc.distributed.init_process_group("mpi")
    >>> net = gc.nn.Sequential(gc.nn.Linear(3, 4), gc.nn.ReLU(), gc.nn.Linear(4, 2))
    >>> for layer in net:
    ...     layer = fully_shard(layer)
    >>> net = fully_shard(net)
    >>> optimizer = gc.optim.Adam(net.parameters())
    >>> net(gc.ones(5, 3)).sum().backward()
    >>> optimizer.step()
    >>> gc.distributed.destroy_process_group()
    """
    if isinstance(module, (list, tuple)):
        for one_group in module:
            fully_shard(
                one_group,
                mesh=mesh,
                reshard_after_forward=reshard_after_forward,
                mp_policy=mp_policy,
                offload_policy=offload_policy,
                ignored_params=ignored_params,
            )
        return module
    if "_fsdp_unit" in module.__dict__:
        raise AssertionError("fully_shard was called on this module already")
    named_parameters = dict(_parameters_of(module, {id(p) for p in ignored_params or ()}))
    group, replicas = _groups_of(module, *_split_mesh(mesh))
    layouts = [f"{tuple(p.shape)} {p.dtype.name}" for p, _ in named_parameters.values()]
    for one_group in (group,) if replicas is None else (group, replicas):
        check_alike(one_group, one_group.any_engine, "fully_shard", {"parameters": layouts}, always=True)
    offloads = isinstance(offload_policy, CPUOffloadPolicy)
    slots = []
    for p, owners in named_parameters.values():
        compute_device = _find_compute_device(p.device, mesh, group) if offloads else None
        own_mesh = mesh if isinstance(mesh, DeviceMesh) else None
        slots.append(_Slot(ShardedParameter.of(p, group, replicas, compute_device, own_mesh), owners))
        for owner, _ in owners if compute_device is not None else ():
            for name, buffer in owner._buffers.items():
                if buffer is not None and not buffer.is_meta:
                    owner._buffers[name] = buffer.to(compute_device)
    for slot in slots:
        slot.show(slot.shard)
        for owner, _ in slot.owners:
            for name in ("reset_parameters", "_reset_parameters"):
                initialize = getattr(owner, name, None)
                if initialize is not None and name not in owner.__dict__:
                    object.__setattr__(owner, name, partial(initialize_whole, owner, initialize))
    unit = _Unit(module, slots, mp_policy or MixedPrecisionPolicy(), reshard_after_forward)
    object.__setattr__(module, "_fsdp_unit", unit)
    module.register_forward_pre_hook(unit.begin, prepend=True, with_kwargs=True)
    module.register_forward_hook(unit.end, always_call=True)
    module.register_load_state_dict_post_hook(unit.take_assigned)
    kind = type(module)
    module.__class__ = type(f"FSDP{kind.__name__}", (FSDPModule, kind), {"__module__": kind.__module__})
    return module


def _find_compute_device(own: Device, mesh: object, group: ProcessGroup) -> Device | None:
    """Return the device on which a module with offloaded parts computes, or None if that is the CPU.

    Parameters
    ----------
    own : device
        The device of a parameter before it is sharded.
    mesh : ProcessGroup or DeviceMesh, optional
    group : ProcessGroup
        The processes that share the parameter.
    """
    if own.type not in ("cpu", "meta"):
        return own
    device = default_device(group, mesh.device_type if isinstance(mesh, DeviceMesh) else None)
    return None if device.type == "cpu" else device


def _split_mesh(mesh: object) -> tuple[ProcessGroup, ProcessGroup | None]:
    """Return the group over which parameters are sharded, and the group of replicas or None."""
    if not isinstance(mesh, DeviceMesh):
        return resolve(mesh), None
    if mesh.ndim > 2:
        raise ValueError(f"fully_shard expects a 1D or 2D DeviceMesh but got {mesh!r}")
    return mesh.get_group(mesh.ndim - 1), mesh.get_group(0) if mesh.ndim == 2 else None


def _groups_of(
    module: Module, group: ProcessGroup, replicas: ProcessGroup | None
) -> tuple[ProcessGroup, ProcessGroup | None]:
    """Return separate groups with the same processes, so that their calls do not mix with others.

    All units of a model share them.
    """
    for unit in units_of(module):
        for slot in unit.slots[:1]:
            unit_group, unit_replicas = slot.shard.process_group, slot.shard.replicas
            if unit_group.ranks == group.ranks and (unit_replicas and unit_replicas.ranks) == (
                replicas and replicas.ranks
            ):
                return unit_group, unit_replicas
    return duplicate_group(group, "fully_shard"), None if replicas is None else duplicate_group(
        replicas, "fully_shard replicas"
    )


def _parameters_of(
    module: Module, ignored: set[int]
) -> Iterator[tuple[int, tuple[AnyTensor, list[tuple[Module, str]]]]]:
    """Yield the parameters that are not sharded yet, with the modules and names under which they appear."""
    owners: dict[int, tuple[AnyTensor, list[tuple[Module, str]]]] = {}
    for inner in module.modules():
        for name, p in inner._parameters.items():
            if p is not None and id(p) not in ignored and not isinstance(p, ShardedParameter):
                owners.setdefault(id(p), (p, []))[1].append((inner, name))
    yield from owners.items()
