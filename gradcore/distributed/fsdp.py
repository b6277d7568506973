"""Modules whose parameters, gradients and optimiser state are sharded: each process keeps a part of every one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from gradcore.autograd.grad_mode import is_grad_enabled, no_grad
from gradcore.autograd.saved import current_hooks, saved_tensors_hooks
from gradcore.autograd.variables import Variable
from gradcore.creation import empty, zeros
from gradcore.distributed import collectives
from gradcore.distributed.checks import check_alike
from gradcore.distributed.groups import ProcessGroup, own_group, resolve
from gradcore.distributed.reduce_op import ReduceOp
from gradcore.distributed.work import Work
from gradcore.nn.module import Module
from gradcore.nn.parameter import Parameter
from gradcore.profiler.recording import record_function
from gradcore.tensor import Tensor
from gradcore.typing import AnyTensor
from gradcore.utils import _pytree

__all__ = ["FSDPModule", "MixedPrecisionPolicy", "ShardedParameter", "fully_shard"]

RECORDED = (
    "fully_shard reduces gradients without recording it, so derivatives of them (create_graph=True) would be wrong. "
    "Use gradcore.distributed.nn.functional on what you differentiate."
)


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """The dtypes in which a sharded module computes and communicates; its shards and their gradients keep their own.

    Parameters
    ----------
    param_dtype : dtype, optional
        Of the gathered parameters, and so of the computation and of the gradients.
    reduce_dtype : dtype, optional
        In which gradients are reduced, by default `param_dtype`.
    output_dtype : dtype, optional
        To which floating-point outputs are cast.
    cast_forward_inputs : bool
        Whether floating-point inputs are cast to `param_dtype`.
    """

    param_dtype: Any = None
    reduce_dtype: Any = None
    output_dtype: Any = None
    cast_forward_inputs: bool = True


class ShardedParameter(Parameter):
    """The part of a parameter that one process keeps: a slice of its elements in a row, padded to equal sizes.

    Examples
    --------
    >>> import gradcore as gc
    >>> from gradcore.distributed.fsdp import fully_shard
    >>> gc.distributed.init_process_group("mpi")
    >>> net = fully_shard(gc.nn.Linear(3, 2))
    >>> net.weight.shape, net.weight.full_shape
    (torch.Size([6]), (2, 3))
    >>> gc.distributed.destroy_process_group()
    """

    #: The shape of the whole parameter, and the processes that share it.
    full_shape: tuple[int, ...]
    process_group: ProcessGroup

    @classmethod
    def of(cls, p: AnyTensor, group: ProcessGroup) -> ShardedParameter:
        """The part of this process of a parameter, with the values of rank 0."""
        with no_grad():
            values = p.detach().reshape(-1)
            each = -(-values.numel() // group.size())
            whole = zeros(each * group.size(), dtype=p.dtype, device=p.device)
            whole[: values.numel()] = values
            collectives.broadcast(whole, group=group, group_src=0)
            own = whole[each * group.rank() : each * (group.rank() + 1)].clone()
        made: ShardedParameter = cls(own, p.requires_grad)
        made.full_shape, made.process_group = tuple(p.shape), group
        return made

    @property
    def full_numel(self) -> int:
        """How many elements the whole parameter has."""
        count = 1
        for size in self.full_shape:
            count *= size
        return count

    @property
    def start(self) -> int:
        """The number of the first element of this part."""
        return self.process_group.rank() * self.numel()

    def total_norm(self, own: AnyTensor, order: float) -> AnyTensor:
        """The norm over all processes of gradients of which this one has a part with the norm `own`."""
        total = own.detach().clone()
        if order == float("inf"):
            collectives.all_reduce(total, ReduceOp.MAX, self.process_group)
            return total
        total = total**order
        collectives.all_reduce(total, group=self.process_group)
        return total ** (1 / order)


class _Slot:
    """A parameter of a unit: where modules have it, and its shard."""

    def __init__(self, shard: ShardedParameter, owners: list[tuple[Module, str]]) -> None:
        self.shard, self.owners = shard, owners
        #: The gathered values, while they are needed, with the version of the shard; those that are on their way.
        self.values: AnyTensor = None
        self.version = -1
        self.fetched: tuple[AnyTensor, Work | None, int] | None = None

    def show(self, p: AnyTensor) -> None:
        """Let the modules have a parameter."""
        for owner, name in self.owners:
            owner._parameters[name] = p

    def fetch(self, dtype: Any) -> None:
        """Begin to gather the values."""
        shard = self.shard.detach()
        own = shard if dtype is None or not shard.is_floating_point() else shard.to(dtype)
        group = self.shard.process_group
        whole = empty(own.numel() * group.size(), dtype=own.dtype, device=own.device)
        work = collectives.all_gather_into_tensor(whole, own, group, async_op=True)
        self.fetched = whole, work, self.shard._version

    def take(self) -> None:
        """Wait for the values."""
        assert self.fetched is not None
        (whole, work, self.version), self.fetched = self.fetched, None
        if work is not None:
            work.wait()
        self.values = whole[: self.shard.full_numel].view(self.shard.full_shape)

    def drop(self) -> None:
        """Free the values."""
        self.values = None


class _Schedule:
    """What the units of a model share: the order of their forwards, and gradients on their way.

    Units run in the same order in each iteration, mostly: the one that comes next is gathered while one computes.
    """

    def __init__(self) -> None:
        self.order: list[_Unit] = []
        self.before: list[_Unit] = []
        self.running = 0
        self.reductions: list[tuple[ShardedParameter, AnyTensor, Work | None, AnyTensor]] = []
        self.queued = False
        self.prefetches = True

    def neighbour(self, unit: _Unit, step: int) -> _Unit | None:
        """The unit that follows in forward (1), or in backward (-1)."""
        order = self.before if step > 0 else self.order
        k = len(self.order) - 1 if step > 0 else (self.order.index(unit) if unit in self.order else -1)
        if not 0 <= k < len(order) or order[k] is not unit or not 0 <= k + step < len(order):
            return None
        return order[k + step]

    def collect(self) -> None:
        """Wait for the gradients on their way, and give them to the shards."""
        with no_grad():
            while self.reductions:
                shard, out, work, _ = self.reductions.pop(0)
                if work is not None:
                    work.wait()
                found = out.to(shard.dtype)
                shard.grad = found if shard.grad is None else shard.grad.add_(found)

    def finish(self) -> None:
        """At the end of backward: all gradients are there, and nothing is gathered any more."""
        self.queued = False
        self.collect()
        for unit in dict.fromkeys([*self.order, *self.before]):
            unit.release()


class _Unit:
    """The parameters that are gathered and freed together: those of a module that no module inside of it shards."""

    def __init__(self, module: Module, slots: list[_Slot], policy: MixedPrecisionPolicy, reshard: bool | None) -> None:
        self.module, self.slots, self.policy, self.reshard = module, slots, policy, reshard
        self.schedule = _Schedule()
        self.is_root = False
        self.contexts: list[tuple[saved_tensors_hooks | None, list[AnyTensor]]] = []

    # -- values -----------------------------------------------------------------------------------------------------

    def fetch(self) -> None:
        """Begin to gather what is not there."""
        with no_grad():
            for slot in self.slots:
                if slot.values is not None and slot.version != slot.shard._version:
                    slot.drop()  # the shard has changed since
                if slot.fetched is not None and slot.fetched[2] != slot.shard._version:
                    slot.take()
                    slot.drop()
                if slot.values is None and slot.fetched is None:
                    slot.fetch(self.policy.param_dtype)

    def gather(self, step: int) -> None:
        """Have all values, and begin to gather those of the unit that follows."""
        self.fetch()
        with record_function("gradcore::gather_parameters"):
            for slot in self.slots:
                if slot.fetched is not None:
                    slot.take()
        following = self.schedule.neighbour(self, step) if self.schedule.prefetches else None
        if following is not None:
            following.fetch()

    def release(self) -> None:
        """Free all values."""
        for slot in self.slots:
            if slot.fetched is not None:
                slot.take()
            slot.drop()

    # -- forward ----------------------------------------------------------------------------------------------------

    def begin(self, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Before forward: the module gets whole parameters."""
        if not self.schedule.running:
            self._become_root()
        self.schedule.order.append(self)
        self.gather(1)
        leaves = [self._leaf(slot) for slot in self.slots]
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
        """Share the schedule with all units inside, whose forwards are a part of this one."""
        self.is_root = True
        self.schedule.before, self.schedule.order = self.schedule.order, []
        for inner in self.module.modules():
            unit = inner.__dict__.get("_fsdp_unit")
            if unit is not None:
                unit.schedule = self.schedule
                unit.is_root = unit is self

    def _leaf(self, slot: _Slot) -> AnyTensor:
        leaf = Parameter(slot.values, slot.shard.requires_grad and is_grad_enabled())
        if leaf.requires_grad:
            leaf.register_post_accumulate_grad_hook(partial(self._reduce, slot))
        slot.show(leaf)
        return leaf

    def end(self, module: Module, args: Any, result: Any) -> Any:
        """After forward: the module gets its shards back."""
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
        """Functions for saved tensors: of whole parameters only their layout is kept, and they are gathered again."""
        outer = current_hooks()
        known = {slot.values.untyped_storage().data_ptr(): slot for slot in self.slots if slot.values.numel()}

        def pack(t: AnyTensor) -> Any:
            slot = known.get(t.untyped_storage().data_ptr())
            if slot is None:
                return (None, t) if outer is None else (outer[1], outer[0](t))
            return slot, (t.shape, t.stride(), t.storage_offset(), t.dtype)

        def unpack(packed: Any) -> Any:
            slot, kept = packed
            if not isinstance(slot, _Slot):
                return kept if slot is None else slot(kept)
            if slot.values is None:
                self.schedule.collect()  # so that their memory is free
                self.gather(-1)
            shape, stride, offset, dtype = kept
            values = slot.values if slot.values.dtype is dtype else slot.values.view(dtype)
            return values.as_strided(shape, stride, offset)

        return pack, unpack

    # -- backward ---------------------------------------------------------------------------------------------------

    def _reduce(self, slot: _Slot, leaf: AnyTensor) -> None:
        """A whole gradient is there: begin to reduce it, and free the parameter, which backward has used up."""
        schedule, grad = self.schedule, leaf.grad
        if grad.requires_grad:
            raise RuntimeError(RECORDED)
        leaf.grad = None
        slot.drop()
        if not schedule.queued:
            schedule.queued = True
            Variable._execution_engine.queue_callback(schedule.finish)
        group, dtype = slot.shard.process_group, self.policy.reduce_dtype or grad.dtype
        with no_grad():
            whole = grad.detach().to(dtype).reshape(-1)
            if whole.numel() < slot.shard.numel() * group.size():
                padded = zeros(slot.shard.numel() * group.size(), dtype=dtype, device=grad.device)
                padded[: grad.numel()] = whole
                whole = padded
            out = empty(slot.shard.numel(), dtype=dtype, device=grad.device)
            work = collectives.reduce_scatter_tensor(out, whole, ReduceOp.AVG, group, async_op=True)
        schedule.reductions.append((slot.shard, out, work, whole))


def _empty(leaf: AnyTensor) -> None:
    """Free the memory of a leaf that the graph still knows: it keeps its shape, and one number that is none."""
    xp = leaf._device.backend.xp
    with leaf._device.backend.use_index(leaf._device.index):
        array = leaf._array
        number = xp.full((), float("nan") if leaf.is_floating_point() else 0, array.dtype)
        leaf._array = xp.broadcast_to(number, array.shape)


def _cast(values: Any, dtype: Any) -> Any:
    def one(value: Any) -> Any:
        return value.to(dtype) if isinstance(value, Tensor) and value.is_floating_point() else value

    return _pytree.tree_map(one, values)


class FSDPModule:
    """What a module that `fully_shard` has changed is besides, in the place of PyTorch's class of that name."""

    def unshard(self) -> None:
        """Gather the parameters of this module now, so that its next forward finds them."""
        self._fsdp_unit.gather(0)  # type: ignore[attr-defined]

    def reshard(self) -> None:
        """Free the gathered parameters of this module."""
        self._fsdp_unit.release()  # type: ignore[attr-defined]

    def set_prefetch(self, enabled: bool) -> None:
        """Choose whether modules are gathered while the one before computes, which takes the memory of two.

        Parameters
        ----------
        enabled : bool
        """
        unit: _Unit = self._fsdp_unit  # type: ignore[attr-defined]
        unit.schedule.prefetches = enabled

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        """Choose whether parameters are freed after forward.

        Parameters
        ----------
        reshard_after_forward : bool
        recurse : bool
            Whether the modules inside do the same.
        """
        for module in self.modules() if recurse else (self,):  # type: ignore[attr-defined]
            unit = module.__dict__.get("_fsdp_unit")
            if unit is not None:
                unit.reshard = reshard_after_forward


def fully_shard(
    module: Any,
    *,
    mesh: Any = None,
    reshard_after_forward: bool | None = None,
    shard_placement_fn: Any = None,
    mp_policy: MixedPrecisionPolicy | None = None,
    offload_policy: Any = None,
    ignored_params: Any = None,
) -> Any:
    """Shard the parameters of a module over processes, in place. All processes make this call.

    Each process keeps an equal part of every parameter, with the values of rank 0, as a `ShardedParameter`. A forward
    gathers the whole parameters, and frees them after it. Backward gathers them again, and reduces the gradients to the
    parts, which then have the mean over all processes. An optimiser made of ``module.parameters()`` has the state of
    the parts alone; it has to treat elements one by one, as SGD, Adam and their like do.

    Call it on the modules inside first, such as the layers of a transformer, then on the whole: each call makes one
    unit that is gathered and freed together, of the parameters that are not sharded yet.

    Parameters
    ----------
    module : Module or list of Module
    mesh : ProcessGroup, optional
        By default the world.
    reshard_after_forward : bool, optional
        Whether parameters are freed after forward, and gathered again in backward. By default all but those of the
        outermost module are.
    shard_placement_fn
        Accepted for compatibility: parts are slices of all elements in a row.
    mp_policy : MixedPrecisionPolicy, optional
    offload_policy
        Accepted for compatibility: parts stay where they are.
    ignored_params : set of Tensor, optional
        Parameters that stay whole in each process, whose gradients are not reduced.

    Returns
    -------
    Module or list of Module
        What was given.

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
        for each in module:
            fully_shard(
                each,
                mesh=mesh,
                reshard_after_forward=reshard_after_forward,
                mp_policy=mp_policy,
                ignored_params=ignored_params,
            )
        return module
    if "_fsdp_unit" in module.__dict__:
        raise AssertionError("fully_shard was called on this module already")
    found = dict(_parameters_of(module, {id(p) for p in ignored_params or ()}))
    group = _group_of(module, resolve(mesh))
    alike = [f"{tuple(p.shape)} {p.dtype.name}" for p, _ in found.values()]
    check_alike(group, group.any_engine, "fully_shard", {"parameters": alike}, always=True)
    slots = [_Slot(ShardedParameter.of(p, group), owners) for p, owners in found.values()]
    for slot in slots:
        slot.show(slot.shard)
    unit = _Unit(module, slots, mp_policy or MixedPrecisionPolicy(), reshard_after_forward)
    object.__setattr__(module, "_fsdp_unit", unit)
    module.register_forward_pre_hook(unit.begin, prepend=True, with_kwargs=True)
    module.register_forward_hook(unit.end, always_call=True)
    kind = type(module)
    module.__class__ = type(f"FSDP{kind.__name__}", (FSDPModule, kind), {"__module__": kind.__module__})
    return module


def _group_of(module: Module, group: ProcessGroup) -> ProcessGroup:
    """A group whose calls do not mix with others, which all units of a model share."""
    for inner in module.modules():
        unit = inner.__dict__.get("_fsdp_unit")
        if unit is not None and unit.slots and unit.slots[0].shard.process_group.ranks == group.ranks:
            return unit.slots[0].shard.process_group  # type: ignore[no-any-return]
    return own_group(group, "fully_shard")


def _parameters_of(
    module: Module, ignored: set[int]
) -> Iterator[tuple[int, tuple[AnyTensor, list[tuple[Module, str]]]]]:
    """The parameters that are not sharded yet, with all modules and names that have them."""
    owners: dict[int, tuple[AnyTensor, list[tuple[Module, str]]]] = {}
    for inner in module.modules():
        for name, p in inner._parameters.items():
            if p is not None and id(p) not in ignored and not isinstance(p, ShardedParameter):
                owners.setdefault(id(p), (p, []))[1].append((inner, name))
    yield from owners.items()
