"""Process groups: the world, and groups of some of its processes."""

from __future__ import annotations

import importlib.util
import os
import time
import warnings
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from gradcore.backends import registry
from gradcore.core.device import device as Device
from gradcore.core.locks import new_lock
from gradcore.cuda import devices
from gradcore.distributed import by_hand, environment
from gradcore.distributed.communicator import Alone, Communicator
from gradcore.distributed.errors import DistBackendError, DistNetworkError
from gradcore.distributed.work import Work

__all__ = [
    "Backend",
    "GroupMember",
    "ProcessGroup",
    "default_pg_timeout",
    "destroy_process_group",
    "get_backend",
    "get_global_rank",
    "get_group_rank",
    "get_node_local_rank",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "group",
    "init_process_group",
    "is_available",
    "is_backend_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "member",
    "new_group",
]

#: The default limit for the duration of a collective.
default_pg_timeout = timedelta(minutes=10)


class ProcessGroup:
    """Processes that make collective calls together. `init_process_group` and `new_group` create groups.

    Parameters
    ----------
    engines : mapping of str to Communicator
        The engine for tensors of each type of device.
    ranks : sequence of int
        The ranks of the processes in the world.
    timeout : timedelta
        How long a call may take.
    name : str
        Name of the group in error messages.
    backend : str
    """

    def __init__(
        self, engines: Mapping[str, Communicator], ranks: Sequence[int], timeout: timedelta, name: str, backend: str
    ) -> None:
        self.engines, self.ranks, self.timeout = dict(engines), list(ranks), timeout
        self.name, self.backend = name, backend
        self._engine = next(iter(self.engines.values()))
        #: The error of a failed call. After it, processes do not know in which call the others are.
        self.broken: str | None = None
        #: How the calls of the processes differ, once a `Comparison` has found that they do.
        self.difference: str | None = None
        self.lock = new_lock()
        #: Works that have failed: an engine may still write to their memory.
        self._failed: list[Work] = []

    def rank(self) -> int:
        """Return the rank of this process in the group."""
        return self._engine.rank

    def size(self) -> int:
        """Return the number of processes."""
        return self._engine.size

    @property
    def group_name(self) -> str:
        """Name of the group."""
        return self.name

    def __repr__(self) -> str:
        return f"<ProcessGroup {self.name!r} of ranks {self.ranks}, by {self.backend}>"

    def engine_for(self, device_type: str) -> Communicator:
        """Return the engine for tensors on a type of device."""
        if self.size() == 1:
            return self._engine
        result = self.engines.get(device_type)
        if result is None:
            raise RuntimeError(
                f"No backend type associated with device type {device_type}: the group carries tensors of "
                f"{' and '.join(self.engines)} (backend {self.backend!r})"
            )
        return result

    @property
    def any_engine(self) -> Communicator:
        """Return an engine for data that is on no device, preferably that of the CPU."""
        return self.engines.get("cpu", self._engine)

    def fail(self, why: str, work: Work) -> None:
        """Refuse further calls after a failure, since the state of the other processes is unknown."""
        self.broken = why
        self._failed.append(work)
        for engine in self.engines.values():
            engine.note_failure()

    def check(self) -> None:
        """Raise an error if the group can no longer be used."""
        if self.broken is not None:
            raise DistBackendError(f"the group {self.name!r} cannot be used after a failure: {self.broken}")

    def close(self) -> None:
        """Release the resources of the engines."""
        if self.broken is None:
            for engine in dict.fromkeys(self.engines.values()):
                engine.close()


class Backend:
    """Names of engines."""

    UNDEFINED = "undefined"
    GLOO, NCCL, MPI = "gloo", "nccl", "mpi"

    def __new__(cls, name: str) -> Any:
        return name.lower()


class GroupMember:
    """Placeholder for a group that does not contain this process."""

    NON_GROUP_MEMBER: Any = -100
    WORLD: Any = None


class _World(type):
    @property
    def WORLD(cls) -> ProcessGroup | None:
        """Return the group of all processes."""
        return _state.world


class group(metaclass=_World):
    """``group.WORLD``: the group of all processes."""


member = GroupMember


class _State:
    """Process groups of this process."""

    world: ProcessGroup | None = None

    def __init__(self) -> None:
        self.groups: list[ProcessGroup] = []


_state = _State()

_UNSET = "Default process group has not been initialized, please make sure to call init_process_group."


def find(group: Any) -> ProcessGroup:
    """Return `group`, or the world if it is None."""
    if group is None:
        group = _state.world
    if group is None:
        raise ValueError(_UNSET)
    if not isinstance(group, ProcessGroup):
        raise TypeError(f"group must be a ProcessGroup or None, not {type(group).__name__}")
    return group


def default_device(group: ProcessGroup, kind: str | None = None) -> Device:
    """Return the device of this process for tensors of a group, of type `kind`.

    By default, it is a CUDA device if the group has an engine for CUDA, and else the CPU.
    """
    kind = kind or next((kind for kind in group.engines if kind != "cpu"), "cpu")
    return Device(kind, getattr(group.engines.get(kind), "index", None))


def resolve(group: Any) -> ProcessGroup:
    """Return the group for a call. Raise an error if it cannot be used."""
    result = find(group)
    result.check()
    return result


# -- queries -----------------------------------------------------------------------------------------------------------


def is_available() -> bool:
    """Return True. Use `is_mpi_available` and `is_nccl_available` to find out which engines are available."""
    return True


def is_initialized() -> bool:
    """Return whether `init_process_group` has been called."""
    return _state.world is not None


def is_mpi_available() -> bool:
    """Return whether mpi4py is installed, the engine for tensors on the CPU."""
    return importlib.util.find_spec("mpi4py") is not None


#: Programs that ask for gloo get MPI.
is_gloo_available = is_mpi_available


def is_nccl_available() -> bool:
    """Return whether there are CUDA devices and CuPy finds NCCL."""
    if registry.unavailable("cuda") is not None:
        return False
    from cupy.cuda import nccl

    return bool(nccl.available)


def is_backend_available(backend: str) -> bool:
    """Return whether the engine called `backend` is installed."""
    availability = {"mpi": is_mpi_available, "gloo": is_gloo_available, "nccl": is_nccl_available}
    return backend.lower() in availability and availability[backend.lower()]()


def is_torchelastic_launched() -> bool:
    """Return whether this process was started by ``python -m gradcore.distributed.run``, or by torchrun."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def get_rank(group: ProcessGroup | None = None) -> int:
    """Return the rank of this process: 0 before `init_process_group`, -1 in a group that it is not in.

    Parameters
    ----------
    group : ProcessGroup, optional
        By default the world.
    """
    if _is_other(group):
        return -1
    return 0 if group is None and _state.world is None else find(group).rank()


def get_world_size(group: ProcessGroup | None = None) -> int:
    """Return the number of processes: one before `init_process_group`, -1 in a group that this one is not in.

    Parameters
    ----------
    group : ProcessGroup, optional
        By default the world.
    """
    if _is_other(group):
        return -1
    return 1 if group is None and _state.world is None else find(group).size()


def _is_other(group: Any) -> bool:
    return isinstance(group, int) and group == GroupMember.NON_GROUP_MEMBER


def get_backend(group: ProcessGroup | None = None) -> str:
    """Return the names of the engines of a group, as given to `init_process_group`."""
    return find(group).backend


def get_process_group_ranks(group: ProcessGroup | None) -> list[int]:
    """Return the ranks of a group's processes in the world."""
    return list(find(group).ranks)


def get_group_rank(group: ProcessGroup, global_rank: int) -> int:
    """Return the rank in a group of the process with that rank in the world."""
    members = find(group)
    if global_rank not in members.ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {members}")
    return members.ranks.index(global_rank)


def get_global_rank(group: ProcessGroup, group_rank: int) -> int:
    """Return the rank in the world of the process with that rank in a group."""
    members = find(group)
    if not 0 <= group_rank < members.size():
        raise ValueError(f"Group rank {group_rank} is not part of group {members}")
    return members.ranks[group_rank]


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """Return the rank of this process on its machine, by which scripts choose a device."""
    result = environment.local_rank()
    if result is None:
        result = fallback_rank
    if result is None:
        raise RuntimeError(
            "LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow `get_node_local_rank` to "
            "work, assuming you are not running in a multi-device context and want the code to run locally instead."
        )
    return result


# -- making groups -----------------------------------------------------------------------------------------------------

_DEVICE = {"mpi": "cpu", "nccl": "cuda"}


def _engines_of(backend: str | None) -> dict[str, str]:
    """Return the name of the engine for each type of device."""
    if backend is None or backend == Backend.UNDEFINED:
        backend = "mpi"
    results: dict[str, str] = {}
    for part in backend.lower().split(","):
        device, _, name = part.strip().rpartition(":")
        name = "mpi" if name == "gloo" else name
        if name not in _DEVICE:
            raise ValueError(f"Invalid backend: '{part}'; engines are 'mpi' (also as 'gloo') and 'nccl'")
        reason = registry.unavailable("cuda") if name == "nccl" else None
        if reason is not None:
            warnings.warn(f"CUDA is not available ({reason}): 'nccl' falls back to 'mpi' on the CPU", stacklevel=3)
            device, name = "cpu", "mpi"
        if device and device != _DEVICE[name]:
            raise ValueError(f"Invalid backend: '{part}'; {name} carries tensors of {_DEVICE[name]}")
        results[_DEVICE[name]] = name
    return results


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Initialize the default process group, and wait for the other processes.

    The processes were started by ``mpiexec``, ``srun``, ``gradcore.distributed.run``, `multiprocessing.spawn`, or one
    command each. In the last two cases they find each other by `init_method`, and need an MPI of MPICH's family, as
    ``gradcore[mpi]`` installs it.

    Parameters
    ----------
    backend : str, optional
        ``"mpi"`` for tensors of the CPU; ``"gloo"`` is MPI too. ``"nccl"`` for tensors of CUDA, ``"cpu:mpi,cuda:nccl"``
        for both. Without CUDA, ``"nccl"`` is MPI, with a warning. A process that was started alone is a world of
        one process, which needs neither.
    init_method : str, optional
        How processes of NCCL, and processes that no launcher of MPI has started, find each other: ``env://``
        (``MASTER_ADDR`` and ``MASTER_PORT``), ``tcp://host:port``, or ``file:///path`` of a file that does not exist
        yet; by default MPI where it has started them, else ``env://``.
    timeout : timedelta, optional
        How long a collective may take before it is an error: by default ten minutes.
    world_size, rank : int
        By default those of the launcher. They must agree with those of MPI.
    store
        Accepted for compatibility: None.
    group_name : str
        Name of the world in error messages.
    pg_options
        Accepted for compatibility.
    device_id : device or int, optional
        The device that NCCL uses in this process, by default the current device. If none was
        chosen, it is the device of the local rank. It becomes the current device.

    Raises
    ------
    DistNetworkError
        If an engine is missing, or its rank and size differ from those of the environment.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributed.init_process_group("mpi")
    >>> gc.distributed.get_rank(), gc.distributed.get_world_size()
    (0, 1)
    >>> gc.distributed.destroy_process_group()
    """
    if _state.world is not None:
        raise ValueError("trying to initialize the default process group twice!")
    if store is not None:
        raise ValueError("store is not supported: processes find each other by MPI or by init_method")
    names = _engines_of(backend)
    limit = default_pg_timeout if timeout is None else timeout
    if not isinstance(limit, timedelta):
        raise TypeError(f"Expected timeout argument to be of type datetime.timedelta, got {limit}")
    rank_and_size = rank if rank >= 0 else environment.rank(), world_size if world_size > 0 else environment.size()
    engines: dict[str, Communicator] = {}
    if "cpu" in names:
        engines["cpu"] = _start_mpi(rank_and_size, limit, init_method)
    if "cuda" in names:
        engines["cuda"] = _start_nccl(rank_and_size, limit, init_method, device_id, engines.get("cpu"))
    first = next(iter(engines.values()))
    name = backend.lower() if backend else ",".join(f"{device}:{engine}" for device, engine in names.items())
    _state.world = ProcessGroup(engines, range(first.size), limit, group_name or "world", name)
    _state.groups = [_state.world]


def _start_mpi(
    expected: tuple[int | None, int | None], limit: timedelta, init_method: str | None = None
) -> Communicator:
    """Return the engine for the CPU: MPI, or `Alone` for a single process.

    `expected` is the rank and the number of processes according to arguments or variables, None where unknown.
    """
    rank, size = expected
    if not is_mpi_available() and size in (None, 1):
        return Alone()
    started_by_hand = size not in (None, 1) and is_mpi_available() and not by_hand.is_launched()
    if started_by_hand:
        if rank is None:
            raise ValueError(f"the rank of this process among {size} is not known: rank, or the variable RANK")
        start = time.monotonic()
        assert size is not None
        by_hand.join_world(rank, size, init_method, limit.total_seconds())
        limit = timedelta(seconds=max(limit.total_seconds() - (time.monotonic() - start), 0.1))
    from gradcore.distributed.mpi import MPICommunicator

    try:
        communicator = MPICommunicator.create_world(limit.total_seconds())
    finally:
        if started_by_hand:
            by_hand.forget_world()
    if rank not in (None, communicator.rank) or size not in (None, communicator.size):
        raise DistNetworkError(
            f"MPI has started this process as rank {communicator.rank} of {communicator.size}, and it should be rank "
            f"{rank} of {size}: start the program with mpiexec -n {size}, of the MPI that mpi4py was built for, or "
            "with python -m gradcore.distributed.run"
        )
    return communicator if communicator.size > 1 else Alone()


def _start_nccl(
    expected: tuple[int | None, int | None], limit: timedelta, init_method: str | None, device_id: Any, cpu: Any
) -> Communicator:
    """Return the engine for CUDA: NCCL, or `Alone` for a single process."""
    has_address = init_method is not None or ("MASTER_ADDR" in os.environ and not by_hand.is_launched())
    if cpu is None and not has_address and is_mpi_available():
        cpu = _start_mpi(expected, limit) if expected[1] not in (None, 1) else None
    rank, size = expected if cpu is None else (cpu.rank, cpu.size)
    if size in (None, 1):
        return Alone()
    if rank is None or size is None:
        raise ValueError(f"the rank of this process among {size} is not known: rank, or the variable RANK")
    if not is_nccl_available():
        raise DistNetworkError("NCCL is not installed: pip install nvidia-nccl-cu12, or -cu13, as CUDA is")
    from gradcore.distributed.nccl import NCCLCommunicator
    from gradcore.distributed.rendezvous import share

    seconds = limit.total_seconds()
    if cpu is None:
        number = share(NCCLCommunicator.unique_id, rank, size, init_method, seconds)
    else:
        number = cpu.share(NCCLCommunicator.unique_id() if rank == 0 else bytes(128), seconds)
    index = _index_of_device(device_id)
    devices.set_device(index)
    return NCCLCommunicator(rank, size, index, number, seconds)


def _index_of_device(device_id: Any) -> int:
    """Return the CUDA device of this process: `device_id`, the current one, or that of the local rank."""
    if device_id is not None:
        return devices.index_of(device_id)
    current, local = devices.current_device(), environment.local_rank()
    return local if not current and local is not None and local < devices.device_count() else current


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Leave a group; by default the world, and all other groups with it.

    Parameters
    ----------
    group : ProcessGroup, optional
    """
    if _is_other(group):
        return
    if group is None or group is _state.world:
        if _state.world is None:
            raise ValueError(_UNSET)
        for member_group in reversed(_state.groups):
            member_group.close()
        _state.world, _state.groups = None, []
        return
    group.close()
    _state.groups.remove(group)


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
) -> Any:
    """Create a group of some processes. All processes make this call in the same order, also those not in the group.

    Parameters
    ----------
    ranks : sequence of int, optional
        Ranks of the world; by default all.
    timeout : timedelta, optional
        How long a call may take; by default as in the world.
    backend : str, optional
        Accepted for compatibility: the engines are those of the world.
    pg_options, use_local_synchronization, device_id
        Accepted for compatibility.
    group_desc : str, optional
        Name of the group in error messages.

    Returns
    -------
    ProcessGroup or GroupMember.NON_GROUP_MEMBER

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributed.init_process_group("mpi")
    >>> gc.distributed.new_group([0])
    <ProcessGroup 'ranks [0]' of ranks [0], by mpi>
    >>> gc.distributed.destroy_process_group()
    """
    world = resolve(None)
    members = list(range(world.size())) if ranks is None else sorted(ranks)
    if len(set(members)) < len(members) or not members or not {*members} <= {*range(world.size())}:
        raise ValueError(f"the ranks of a group must be different, and below {world.size()}, but they are {members}")
    from gradcore.distributed.checks import check_alike

    check_alike(world, world.any_engine, "new_group", {"ranks": members}, always=True)  # nobody is left waiting
    if world.rank() not in members:
        return GroupMember.NON_GROUP_MEMBER
    engines = {device: engine.split(members) for device, engine in world.engines.items()}
    result = ProcessGroup(engines, members, timeout or world.timeout, group_desc or f"ranks {members}", world.backend)
    _state.groups.append(result)
    return result


def duplicate_group(group: ProcessGroup, name: str) -> ProcessGroup:
    """Return a new group of the same processes, whose calls do not mix with those of others.

    All processes of the group make this call.
    """
    if group.size() == 1:
        return group
    from gradcore.distributed.checks import check_alike

    check_alike(group, group.any_engine, "new_group", {"name": name}, always=True)
    engines = {device: engine.split(range(group.size())) for device, engine in group.engines.items()}
    result = ProcessGroup(engines, group.ranks, group.timeout, f"{name} in {group.name}", group.backend)
    _state.groups.append(result)
    return result


for _class in (ProcessGroup, Backend, GroupMember, group):
    _class.__module__ = __name__.rpartition(".")[0]
