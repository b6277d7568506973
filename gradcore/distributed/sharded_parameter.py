"""Sharded parameters, and collectives that gather or reduce several of them at once."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import SupportsIndex

from gradcore import functional
from gradcore.autograd.grad_mode import no_grad
from gradcore.autograd.variables import as_class, wrap
from gradcore.core.device import device as Device
from gradcore.core.dtypes import dtype as DType
from gradcore.core.typing import AnyTensor
from gradcore.distributed import collectives
from gradcore.distributed.device_mesh import DeviceMesh
from gradcore.distributed.groups import ProcessGroup, resolve
from gradcore.distributed.reduce_op import ReduceOp
from gradcore.distributed.work import Work
from gradcore.nn.module import Module
from gradcore.nn.parameter import Parameter
from gradcore.tensor import Tensor
from gradcore.tensor.creation import empty, zeros
from gradcore.torch_names._C import _disabled_torch_function_impl

__all__ = [
    "DTensor",
    "Gathering",
    "Reduction",
    "Replicate",
    "Shard",
    "ShardedParameter",
    "distribute_tensor",
    "initialize_whole",
]


@dataclass(frozen=True)
class Shard:
    """Placement of a tensor whose parts are spread over the processes along a dimension of a mesh.

    Parts are consecutive elements of the tensor, in the order of memory, and all have the same size. They are whole
    rows if the number of processes divides the size of `dim`. Otherwise a row may be split.

    Parameters
    ----------
    dim : int
        The dim of the tensor, which must be 0.
    """

    dim: int = 0

    def is_shard(self, dim: int | None = None) -> bool:
        """Return whether the tensor is spread, along `dim` if it is not None."""
        return dim is None or dim == self.dim

    def is_replicate(self) -> bool:
        """Return False: each process has another part."""
        return False


@dataclass(frozen=True)
class Replicate:
    """Placement of a tensor of which all processes along a dimension of a mesh have the same part."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Return False: all processes have the same part."""
        return False

    def is_replicate(self) -> bool:
        """Return True."""
        return True


class DTensor(Tensor):
    """A tensor that is spread over the processes of a mesh, of which this process stores one part.

    `distribute_tensor` creates such tensors, and state dicts of modules that `fully_shard` has changed contain them, as
    do those of their optimizers. The shape is that of the part, which has one dim. Operations compute with the part
    and return plain tensors.

    Examples
    --------
    >>> import gradcore as gc
    >>> from gradcore.distributed.fsdp import fully_shard
    >>> gc.distributed.init_process_group("mpi")
    >>> weight = fully_shard(gc.nn.Linear(3, 2)).state_dict()["weight"]
    >>> weight.shape, weight.full_shape, weight.placements
    (torch.Size([6]), (2, 3), (Shard(dim=0),))
    >>> weight.full_tensor().shape
    torch.Size([2, 3])
    >>> gc.distributed.destroy_process_group()
    """

    __torch_function__ = _disabled_torch_function_impl

    #: The shape of the whole tensor, and the processes that share it.
    full_shape: tuple[int, ...]
    process_group: ProcessGroup
    #: The processes with the same part, if there are replicas of the whole.
    replicas: ProcessGroup | None
    #: Where whole values are gathered and gradients are reduced: another device than that of the part if the parts are
    #: offloaded, None for the same.
    compute_device: Device | None
    #: The mesh over which the tensor is spread, or None for one of `process_group` alone.
    mesh: DeviceMesh | None

    def _set_layout(self, like: DTensor) -> None:
        """Copy the description of the whole tensor from `like`, a part that this tensor replaces."""
        if self.shape != like.shape:
            raise RuntimeError(f"a part of shape {tuple(like.shape)} cannot be replaced by one of {tuple(self.shape)}")
        self.full_shape, self.process_group, self.replicas = like.full_shape, like.process_group, like.replicas
        self.compute_device, self.mesh = like.compute_device, like.mesh

    def with_part(self, part: Tensor) -> DTensor:
        """Return a tensor that is spread like this one, with `part`, whose memory is shared, as the part."""
        result: DTensor = as_class(Tensor.detach(part), DTensor)
        result._set_layout(self)
        return result

    def detach(self) -> DTensor:
        """Return a tensor without history that shares the memory of this one and is spread like it."""
        return self.with_part(self)

    def __deepcopy__(self, memo: dict[int, object]) -> DTensor:
        if id(self) not in memo:
            memo[id(self)] = self.with_part(self.to_local().clone())
        return memo[id(self)]  # type: ignore[return-value]

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[object, ...]:
        """Save the part alone, as a plain tensor."""
        return self.to_local().__reduce_ex__(protocol)

    @property
    def placements(self) -> tuple[Shard | Replicate, ...]:
        """Return how the tensor is spread along each dimension of the mesh."""
        return (Shard(0),) if self.replicas is None else (Replicate(), Shard(0))

    @property
    def device_mesh(self) -> DeviceMesh:
        """Return the mesh over which the tensor is spread."""
        if self.mesh is None:
            kind = (self.compute_device or self.device).type
            self.mesh = DeviceMesh.from_group(self.process_group, "cpu" if kind == "meta" else kind)
        return self.mesh

    @property
    def full_numel(self) -> int:
        """Number of elements of the whole tensor."""
        return math.prod(self.full_shape)

    @property
    def start(self) -> int:
        """Index of the first element of this part."""
        return self.process_group.rank() * self.numel()

    def full_tensor(self) -> Tensor:
        """Return the whole tensor, gathered from all processes. All processes make this call.

        Returns
        -------
        Tensor
            A copy without history.
        """
        with no_grad():
            return Gathering([self], None).wait()[0].clone()

    def to_local(self) -> Tensor:
        """Return this process's part as a tensor without history that shares its memory."""
        return Tensor.detach(self)

    def _take(self, whole: AnyTensor) -> None:
        """Write this process's part of the values that rank 0 of the first replica has for the whole tensor."""
        group, length = self.process_group, self.numel()
        with no_grad():
            padded = zeros(length * group.size(), dtype=self.dtype, device=self.compute_device or self.device)
            padded[: self.full_numel] = whole.reshape(-1).to(padded.device)
            collectives.broadcast(padded, group=group, group_src=0)
            part = padded[length * group.rank() : length * (group.rank() + 1)]
            if self.replicas is not None:
                collectives.broadcast(part, group=self.replicas, group_src=0)
            self.to_local().copy_(part)


def distribute_tensor(
    tensor: Tensor, device_mesh: DeviceMesh | None = None, placements: Sequence[Shard | Replicate] | None = None
) -> DTensor:
    """Spread a tensor over the processes of a mesh, with the values of rank 0. All processes make this call.

    Parameters
    ----------
    tensor : Tensor
        A tensor of the same shape and dtype in all processes.
    device_mesh : DeviceMesh, optional
        By default one dimension of all processes.
    placements : sequence of Shard or Replicate, optional
        ``[Shard(0)]``, which is the default, or ``[Replicate(), Shard(0)]`` for a mesh of two dimensions.

    Returns
    -------
    DTensor

    Examples
    --------
    >>> import gradcore as gc
    >>> from gradcore.distributed.tensor import Shard, distribute_tensor
    >>> gc.distributed.init_process_group("mpi")
    >>> t = distribute_tensor(gc.ones(2, 3), gc.distributed.init_device_mesh("cpu", (1,)), [Shard(0)])
    >>> t.to_local()
    tensor([1., 1., 1., 1., 1., 1.])
    >>> gc.distributed.destroy_process_group()
    """
    mesh = device_mesh or DeviceMesh.from_group(resolve(None), "cpu" if tensor.is_meta else tensor.device.type)
    allowed = {1: (Shard(0),), 2: (Replicate(), Shard(0))}.get(mesh.ndim)
    chosen = allowed if placements is None else tuple(placements)
    if allowed is None or chosen != allowed:
        raise NotImplementedError(
            f"distribute_tensor: placements {chosen} on {mesh!r}: tensors are spread over the last dimension of a mesh "
            "of one or two dimensions, by [Shard(0)] or [Replicate(), Shard(0)]"
        )
    group, replicas = mesh.get_group(mesh.ndim - 1), mesh.get_group(0) if mesh.ndim == 2 else None
    with no_grad():
        part = empty(-(-tensor.numel() // group.size()), dtype=tensor.dtype, device=tensor.device)
    result: DTensor = as_class(Tensor.detach(part), DTensor)
    result.full_shape, result.process_group, result.replicas = tuple(tensor.shape), group, replicas
    result.compute_device, result.mesh = None, mesh
    if not tensor.is_meta:
        result._take(tensor.detach())
    return result


class ShardedParameter(DTensor, Parameter):
    """The part of a parameter that one process stores: consecutive elements, padded so that all parts have equal sizes.

    Functions of `gradcore.nn.init`, ``reset_parameters`` and random methods (``normal_``, ``uniform_``, ...) write the
    part of values that rank 0 draws for the whole parameter. Other methods operate on the elements of the part.

    Examples
    --------
    >>> import gradcore as gc
    >>> from gradcore.distributed.fsdp import fully_shard
    >>> gc.distributed.init_process_group("mpi")
    >>> net = fully_shard(gc.nn.Linear(3, 2))
    >>> net.weight.shape, net.weight.full_shape
    (torch.Size([6]), (2, 3))
    >>> net.weight.full_tensor().shape
    torch.Size([2, 3])
    >>> gc.distributed.destroy_process_group()
    """

    #: The gradient that was reduced over `process_group` and not yet over `replicas`.
    unreplicated_grad: AnyTensor

    @classmethod
    def of(
        cls,
        p: AnyTensor,
        group: ProcessGroup,
        replicas: ProcessGroup | None = None,
        compute_device: Device | None = None,
        mesh: DeviceMesh | None = None,
    ) -> ShardedParameter:
        """Return this process's part of a parameter, with the values of rank 0. On ``meta`` it has no values.

        With a `compute_device`, the part is on the CPU.
        """
        length = -(-p.numel() // group.size())
        with no_grad():
            part = empty(length, dtype=p.dtype, device=p.device if compute_device is None or p.is_meta else "cpu")
        result: ShardedParameter = cls(part, p.requires_grad)
        result.full_shape, result.process_group, result.mesh = tuple(p.shape), group, mesh
        result.replicas, result.unreplicated_grad, result.compute_device = replicas, None, compute_device
        if not p.is_meta:
            result._take(p.detach())
        return result

    def __deepcopy__(self, memo: dict[int, object]) -> ShardedParameter:
        if id(self) not in memo:
            memo[id(self)] = self.replace(self.to_local().clone().requires_grad_(self.requires_grad))
        return memo[id(self)]  # type: ignore[return-value]

    def replace(self, p: Tensor) -> ShardedParameter:
        """Return a parameter that is spread like this one, with the values of `p`, whose memory is shared."""
        result: ShardedParameter = type(self)(Tensor.detach(p), p.requires_grad)
        result._set_layout(self)
        result.unreplicated_grad = None
        return result

    def initialize_whole(self, initialize: Callable[[Tensor], object]) -> ShardedParameter:
        """Write this process's part of the values that `initialize` writes to a whole tensor on rank 0.

        All processes make this call. It temporarily allocates one whole parameter.
        """
        with no_grad():
            parameter = empty(self.full_shape, dtype=self.dtype, device=self.device)
            initialize(parameter)
        self._take(parameter)
        return self

    def accumulate(self, grad: Tensor) -> None:
        """Add a gradient of this part to ``.grad``. The gradient must not be used elsewhere."""
        grad = grad.to(self.device, self.dtype)
        if self.grad is not None:
            self.grad.add_(grad)
        else:
            self.grad = grad

    def reduce_over_replicas(self) -> None:
        """Reduce a gradient that was not yet reduced over the replicas, and add it to ``.grad``."""
        grad, self.unreplicated_grad = self.unreplicated_grad, None
        if grad is not None:
            collectives.all_reduce(grad, ReduceOp.AVG, self.replicas)
            self.accumulate(grad)

    def total_norm(self, own: AnyTensor, order: float) -> AnyTensor:
        """Return the norm of gradients over all processes, given the norm `own` of this process's parts."""
        total = own.detach().clone()
        if self.compute_device is not None:
            total = total.to(self.compute_device)
        if order == float("inf"):
            collectives.all_reduce(total, ReduceOp.MAX, self.process_group)
            return total.to(own.device)
        total = total**order
        collectives.all_reduce(total, group=self.process_group)
        return (total ** (1 / order)).to(own.device)


def _drawn_whole(name: str) -> Callable[..., ShardedParameter]:
    """Return a random method that draws the whole parameter. Parts drawn separately would have equal numbers."""

    def draw(self: ShardedParameter, *args: object, **kwargs: object) -> ShardedParameter:
        return self.initialize_whole(lambda t: getattr(t, name)(*args, **kwargs))

    draw.__name__, draw.__doc__ = name, f"Call ``{name}`` on the whole parameter, see `initialize_whole`."
    return draw


for _name in ("bernoulli", "cauchy", "exponential", "geometric", "log_normal", "normal", "random", "uniform"):
    setattr(ShardedParameter, f"{_name}_", _drawn_whole(f"{_name}_"))


def initialize_whole(owner: Module, initialize: Callable[..., object], *args: object, **kwargs: object) -> None:
    """Call a function that initializes a module's parameters, such as ``reset_parameters``, on whole parameters.

    All processes make this call. It temporarily allocates the whole parameters of this module only, and rank 0
    determines the values.
    """
    shards = {name: p for name, p in owner._parameters.items() if isinstance(p, ShardedParameter)}
    whole_parameters = {
        name: Parameter(empty(p.full_shape, dtype=p.dtype, device=p.device), p.requires_grad)
        for name, p in shards.items()
    }
    owner._parameters |= whole_parameters
    try:
        initialize(*args, **kwargs)
    finally:
        owner._parameters.update(shards)
    for name, p in shards.items():
        p._take(whole_parameters[name].detach())


class Gathering:
    """An all-gather in progress of the whole values of several parameters.

    Parameters
    ----------
    shards : sequence of DTensor
        Parameters of one dtype, device and group.
    dtype : dtype, optional
        The dtype in which floating-point values are sent and returned, by default their own.
    """

    def __init__(self, shards: Sequence[DTensor], dtype: DType | None) -> None:
        self._shards, first = shards, shards[0]
        if first.is_meta:
            raise RuntimeError(
                "fully_shard: the parameters are on the device 'meta' and have no values; call to_empty(device=...) "
                "and reset_parameters(), or load a checkpoint"
            )
        if first.compute_device is not None and first.device.type != "cpu":
            raise RuntimeError(
                "FSDP parameters should be materialized on CPU when enabling CPU offloading. For example, load a CPU "
                f'state dict or call module.to_empty(device="cpu"). Found a parameter on {first.device}'
            )
        group, device = first.process_group, first.compute_device or first.device
        dtype = dtype if dtype is not None and first.is_floating_point() else first.dtype
        width = sum(shard._array.size for shard in shards)
        self._whole = empty(width * group.size(), dtype=dtype, device=device)
        own_part = self._whole[width * group.rank() : width * (group.rank() + 1)]
        if dtype is first.dtype and first.compute_device is None:
            with device.backend.use_index(device.index):
                device.backend.xp.concatenate([shard._array for shard in shards], out=own_part._array)
        else:
            own_part.copy_(functional.cat([shard.to_local() for shard in shards]))
        self._work = collectives.all_gather_into_tensor(self._whole, own_part, group, async_op=True)
        self.versions = [shard._version for shard in shards]

    def wait(self) -> list[Tensor]:
        """Wait for the values. Return the whole parameters in the order of the shards."""
        if self._work is not None:
            self._work.wait()
        gathered, first = self._whole, self._shards[0]
        values, start = [], 0
        with gathered._device.backend.use_index(gathered._device.index):
            rows = gathered._array.reshape(first.process_group.size(), -1)
            for shard in self._shards:
                end = start + shard._array.size
                part = rows[:, start:end].reshape(-1)  # This copies unless there is a single shard.
                values.append(
                    wrap(part[: shard.full_numel].reshape(shard.full_shape), gathered._device, gathered._dtype)
                )
                start = end
        return values


class Reduction:
    """A reduce-scatter of the gradients of several parameters, which are added one by one before it begins.

    With replicas, each process's part is then all-reduced over the replicas.

    Parameters
    ----------
    shards : sequence of ShardedParameter
        Parameters of one dtype, device and group.
    dtype : dtype, optional
        The dtype in which gradients are reduced, by default that of the first gradient.
    over_replicas : bool
        Whether gradients are reduced over replicas, or added to `ShardedParameter.unreplicated_grad`.
    """

    def __init__(self, shards: Sequence[ShardedParameter], dtype: DType | None, over_replicas: bool = True) -> None:
        self._shards, self._dtype = list(shards), dtype
        has_replicas = self._shards[0].replicas is not None
        #: Whether parts are still to be reduced over replicas, and whether they are left for a later reduction.
        self._spreads, self._keeps = has_replicas and over_replicas, has_replicas and not over_replicas
        self._positions = {id(shard): i for i, shard in enumerate(self._shards)}
        #: The columns of each parameter in the buffer, each row of which goes to one process.
        ends = list(itertools.accumulate(shard.numel() for shard in self._shards))
        self._columns = [slice(end - s.numel(), end) for s, end in zip(self._shards, ends, strict=True)]
        self._added: set[int] = set()
        self._rows: AnyTensor = None
        self._out: AnyTensor = None
        self._work: Work | None = None

    def add(self, shard: ShardedParameter, grad: AnyTensor) -> bool:
        """Copy the whole gradient of a parameter to the buffer. Return whether all parameters have gradients."""
        position = self._positions[id(shard)]
        size, length = shard.process_group.size(), shard._array.size
        if self._rows is None:
            dtype, width = self._dtype or grad.dtype, self._columns[-1].stop
            self._rows = empty(size, width, dtype=dtype, device=grad.device)
        with grad._device.backend.use_index(grad._device.index):
            flat = grad._array.reshape(-1)
            part = self._rows._array[:, self._columns[position]]
            full = flat.size // length if length else 0
            part[:full] = flat[: full * length].reshape(full, length)
            if full < size:
                rest = flat.size - full * length
                part[full, :rest] = flat[full * length :]
                part[full, rest:], part[full + 1 :] = 0, 0
        self._added.add(position)
        return len(self._added) == len(self._shards)

    def begin(self) -> None:
        """Begin to reduce the added gradients. All processes must have added the same ones."""
        self._shards = [self._shards[i] for i in sorted(self._added)]
        rows = self._rows
        if rows.shape[1] > sum(shard.numel() for shard in self._shards):
            rows = functional.cat([rows[:, self._columns[i]] for i in sorted(self._added)], 1)
        group = self._shards[0].process_group
        self._out = empty(rows.shape[1], dtype=rows.dtype, device=rows.device)
        self._rows = rows  # The buffer must exist until it has been sent.
        self._work = collectives.reduce_scatter_tensor(self._out, rows.view(-1), ReduceOp.AVG, group, async_op=True)

    def begin_over_replicas(self) -> None:
        """Wait for this process's parts, and begin to reduce them over the replicas, if there are any.

        All processes call this for all reductions in the same order. A second call does nothing.
        """
        if not self._spreads:
            return
        self._spreads = False
        if self._work is not None:
            self._work.wait()
        for shard, part in self._split():
            if shard.unreplicated_grad is not None:
                part.add_(shard.unreplicated_grad)
                shard.unreplicated_grad = None
        self._work = collectives.all_reduce(self._out, ReduceOp.AVG, self._shards[0].replicas, async_op=True)

    def _split(self) -> list[tuple[ShardedParameter, Tensor]]:
        """Return pairs of a parameter and its part of the reduced gradients, separate slices of one buffer."""
        out, parts, start = self._out, [], 0
        for shard in self._shards:
            end = start + shard._array.size
            parts.append((shard, wrap(out._array[start:end], out._device, out._dtype)))
            start = end
        return parts

    def finish(self) -> None:
        """Wait for the gradients, and add them to ``.grad`` of the parameters."""
        self.begin_over_replicas()
        if self._work is not None:
            self._work.wait()
        if self._shards[0].compute_device is not None and not self._keeps:
            self._out = self._out.to(self._shards[0].device)  # One copy serves all parameters.
        for shard, part in self._split():
            if self._keeps:
                earlier = shard.unreplicated_grad
                shard.unreplicated_grad = part if earlier is None else earlier + part
            else:
                shard.accumulate(part)
        self._rows = self._out = self._work = None
