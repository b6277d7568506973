"""What each rank sends, keeps and computes for many ranks: one process of a world whose others exist only in numbers.

``python -m tests.distributed.simulated 2 4 64 1000`` prints a table. The same table of real processes:
``mpiexec -n 2 python -m tests.distributed.simulated real``.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np

import gradcore as gc
import gradcore.distributed as dist
from gradcore import nn
from gradcore.distributed import checkpoint, groups
from gradcore.distributed.checkpoint.state_dict import get_state_dict
from gradcore.distributed.communicator import Alone, Communicator
from gradcore.distributed.fsdp import fully_shard
from gradcore.distributed.reduce_op import ReduceOp
from gradcore.distributed.work import Request

LAYERS, WIDTH = 6, 256


class Simulated(Communicator):
    """Engine of rank 0, for which all other ranks have the same data."""

    name = "simulated"
    compares = True

    def split(self, ranks: Sequence[int]) -> Communicator:
        return Simulated(list(ranks).index(self.rank), len(ranks))

    def all_reduce(self, buffer: Any, op: ReduceOp) -> Request:
        if op is ReduceOp.SUM:
            buffer *= buffer.dtype.type(self.size)
        return Request()

    def reduce(self, buffer: Any, op: ReduceOp, root: int) -> Request:
        return self.all_reduce(buffer, op)

    def broadcast(self, buffer: Any, root: int) -> Request:
        assert root == self.rank
        return Request()

    def all_gather(self, out: Any, values: Any, counts: Sequence[int]) -> Request:
        out.reshape(self.size, -1)[...] = values
        return Request()

    def gather(self, out: Any, values: Any, counts: Sequence[int], root: int) -> Request:
        return self.all_gather(out, values, counts)

    def reduce_scatter(self, out: Any, values: Any, counts: Sequence[int], op: ReduceOp) -> Request:
        np.multiply(values[: out.size], out.dtype.type(self.size), out=out)
        return Request()

    def barrier(self) -> Request:
        return Request()


def sent(name: str, arguments: Sequence[Any], size: int) -> float:
    """Return the bytes that a rank sends in a call, by algorithms that send as little as possible."""
    share = (size - 1) / size
    if name == "all_reduce":
        return 2 * share * arguments[0].nbytes
    if name in ("broadcast", "reduce"):
        return share * arguments[0].nbytes
    if name == "all_gather":
        return share * arguments[0].nbytes
    if name == "reduce_scatter":
        return share * arguments[1].nbytes
    return arguments[1].nbytes if name in ("gather", "scatter") else 0.0


class Count:
    """Counts the calls of an engine's class and the bytes that this rank sends in them.

    Those of at most 16 bytes, which compare calls, are counted apart.
    """

    def __init__(self, kind: type[Communicator]) -> None:
        self.calls, self.nbytes, self.small = Counter[str](), 0.0, 0
        for name in ("all_reduce", "broadcast", "all_gather", "reduce_scatter", "gather", "reduce"):
            setattr(kind, name, self._counted(name, getattr(kind, name)))

    def _counted(self, name: str, call: Callable[..., Request]) -> Callable[..., Request]:
        def counted(engine: Communicator, *arguments: Any) -> Request:
            nbytes = sent(name, arguments, engine.size)
            if nbytes <= 32:
                self.small += 1
            else:
                self.calls[name] += 1
                self.nbytes += nbytes
            return call(engine, *arguments)

        return counted

    def clear(self) -> None:
        self.calls.clear()
        self.nbytes, self.small = 0.0, 0


def build() -> Any:
    """Return a module of equal layers."""
    return nn.Sequential(*[nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(LAYERS)])


def measure(work: Callable[[], Any]) -> tuple[float, float]:
    """Return the processor time of a call in ms, and the most memory that it had allocated at a time in KB."""
    begun = time.process_time()
    work()
    taken = (time.process_time() - begun) * 1e3
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1] / 1e3
    tracemalloc.stop()
    return taken, peak


def figures(count: Count, folder: str) -> dict[str, dict[str, float]]:
    """Return the figures of this rank for each part of a job."""
    x = gc.ones(2, WIDTH)
    found: dict[str, dict[str, float]] = {}

    def note(name: str, work: Callable[[], Any]) -> None:
        work()
        count.clear()
        work()
        calls, small, nbytes = sum(count.calls.values()), count.small, count.nbytes
        taken, peak = measure(work)
        found[name] = {"calls": calls, "comparisons": small, "KB sent": nbytes / 1e3, "ms": taken, "KB peak": peak}

    gc.manual_seed(0)
    ddp = nn.parallel.DistributedDataParallel(build())
    note("DDP step", lambda: (ddp.zero_grad(), ddp(x).sum().backward()))
    sharded = build()
    for layer in sharded:
        fully_shard(layer)
    fully_shard(sharded)
    optimizer = gc.optim.Adam(sharded.parameters())
    note("FSDP step", lambda: (sharded.zero_grad(), sharded(x).sum().backward(), optimizer.step()))
    parts = sum(p.nbytes + sum(t.nbytes for t in optimizer.state[p].values()) for p in sharded.parameters())
    found["FSDP step"]["KB kept"] = parts / 1e3
    model_state, optimizer_state = get_state_dict(sharded, optimizer)
    state = {"model": model_state, "optimizer": optimizer_state}
    note("checkpoint save", lambda: checkpoint.save(state, checkpoint_id=folder))
    found["checkpoint save"]["KB index"] = (Path(folder) / "index.json").stat().st_size / 1e3
    # Values that all processes have are written by others, which do not exist here.
    note("checkpoint load", lambda: checkpoint.load({"model": model_state}, checkpoint_id=folder))
    note("new_group", lambda: dist.destroy_process_group(dist.new_group()))
    return found


def simulate(size: int) -> dict[str, dict[str, float]]:
    """Return the figures of rank 0 of a simulated world."""
    engine = Simulated(0, size) if size > 1 else Alone()
    world = groups.ProcessGroup({"cpu": engine}, range(size), timedelta(seconds=60), "world", "mpi")
    groups._state.world, groups._state.groups = world, [world]
    originals = dict(vars(Simulated))
    count = Count(Simulated)
    folder = tempfile.mkdtemp()
    try:
        return figures(count, folder)
    finally:
        shutil.rmtree(folder)
        for name in ("all_reduce", "broadcast", "all_gather", "reduce_scatter", "gather", "reduce"):
            setattr(Simulated, name, originals.get(name) or getattr(Communicator, name))
        groups._state.world, groups._state.groups = None, []


def show(size: int, found: dict[str, dict[str, float]]) -> None:
    """Print figures as rows of a table."""
    for name, values in found.items():
        print(f"| {size} | {name} | " + ", ".join(f"{key} {value:,.4g}" for key, value in values.items()) + " |")


if __name__ == "__main__":
    if sys.argv[1:] == ["real"]:
        from gradcore.distributed.mpi import MPICommunicator

        dist.init_process_group("mpi")
        place = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
        dist.broadcast_object_list(place, src=0)
        result = figures(Count(MPICommunicator), str(place[0]))
        if dist.get_rank() == 0:
            show(dist.get_world_size(), result)
            shutil.rmtree(str(place[0]))
        dist.barrier()
    else:
        for ranks in map(int, sys.argv[1:]):
            show(ranks, simulate(ranks))
