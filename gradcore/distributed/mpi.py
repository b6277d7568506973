"""The MPI engine, by mpi4py."""

from __future__ import annotations

import atexit
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcore.core.typing import AnyArray
from gradcore.distributed.communicator import Communicator
from gradcore.distributed.errors import DistNetworkError
from gradcore.distributed.lifetime import deliver_output, limit_start
from gradcore.distributed.reduce_op import ReduceOp
from gradcore.distributed.work import Request, wait_until

__all__ = ["MPICommunicator", "import_mpi"]

_OPS = {
    ReduceOp.SUM: "SUM", ReduceOp.PRODUCT: "PROD", ReduceOp.MIN: "MIN", ReduceOp.MAX: "MAX", ReduceOp.BAND: "BAND",
    ReduceOp.BOR: "BOR", ReduceOp.BXOR: "BXOR",
}  # fmt: skip


def import_mpi() -> Any:
    """Return the module ``mpi4py.MPI``, which starts MPI when it is imported."""
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise DistNetworkError(
            "processes of the CPU work together through MPI, and mpi4py cannot be imported: "
            f"pip install 'gradcore[mpi]' installs it together with an MPI ({error})"
        ) from error
    return MPI


class _MPIRequest(Request):
    """A request of MPI, with references to the arrays that it reads and writes."""

    def __init__(self, comm: Any, start: Callable[..., Any], *arrays: Any, **settings: Any) -> None:
        self._request, self._arrays = start(*arrays, **settings), arrays

    def done(self) -> bool:
        """Return whether the request is complete, after letting MPI make progress."""
        return bool(self._request.Test())


class _Received(_MPIRequest):
    """The request of a message that is being received."""

    source: int | None = None

    def __init__(self, comm: Any, buffer: AnyArray, source: int | None, tag: int) -> None:
        MPI = import_mpi()
        super().__init__(comm, comm.Irecv, buffer, source=MPI.ANY_SOURCE if source is None else source, tag=tag)
        self._status, self._nbytes = MPI.Status(), buffer.nbytes

    def done(self) -> bool:
        """Return whether the request is complete, after letting MPI make progress."""
        if self.source is None:
            MPI = import_mpi()
            if not self._request.Test(self._status):
                return False
            self.source, arrived = self._status.source, self._status.Get_count(MPI.BYTE)
            if arrived != self._nbytes:
                raise ValueError(f"rank {self.source} of the group has sent {arrived} bytes, not {self._nbytes}")
        return True


class MPICommunicator(Communicator):
    """Engine of an MPI communicator.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm
        The communicator, which no other object uses.
    side : mpi4py.MPI.Intracomm, optional
        A second communicator of the same processes, for `side`.
    """

    name = "mpi"
    compares = True

    def __init__(self, comm: Any, side: Any = None) -> None:
        super().__init__(comm.rank, comm.size)
        self.comm, self._mpi, self._side = comm, import_mpi(), side
        self._ops = {op: getattr(self._mpi, name) for op, name in _OPS.items()}

    @classmethod
    def create_world(cls, seconds: float) -> MPICommunicator:
        """Return the engine of all processes that were started together.

        Raise an error if they do not arrive in time.
        """
        start = time.monotonic()
        with limit_start(seconds):
            world = import_mpi().COMM_WORLD
        seconds = max(seconds - (time.monotonic() - start), 0.1)
        atexit.register(_end_all_if_failed)
        if not wait_until(world.Ibarrier().Test, seconds):
            note_failure()
            raise DistNetworkError(
                f"rank {world.rank} of {world.size}: not all ranks called init_process_group within {seconds:g} s"
            )
        return cls(world.Dup(), world.Dup())

    @property
    def side(self) -> MPICommunicator:
        return self if self._side is None else MPICommunicator(self._side)

    def share(self, data: bytes, seconds: float) -> bytes:
        """Return the bytes of rank 0. All processes pass the same number of bytes."""
        buffer = np.frombuffer(bytearray(data), np.uint8)
        if not wait_until(self.broadcast(buffer, 0).done, seconds):
            note_failure()
            raise DistNetworkError(f"rank {self.rank} of {self.size}: no message from rank 0 within {seconds:g} s")
        return bytes(buffer)

    def split(self, ranks: Sequence[int]) -> MPICommunicator:
        """Return the engine for some of the processes."""
        chosen = self.comm.Get_group().Incl(ranks)
        return MPICommunicator(self.comm.Create_group(chosen), self.comm.Create_group(chosen))

    def close(self) -> None:
        """Free the communicator."""
        if not self._mpi.Is_finalized():
            self.comm.Free()
            if self._side is not None:
                self._side.Free()

    def note_failure(self) -> None:
        """Arrange that all processes end with this one, as MPI cannot be finalized normally."""
        note_failure()

    def _call(self, start: Callable[..., Any], *arrays: Any, **settings: Any) -> Request:
        return _MPIRequest(self.comm, start, *arrays, **settings)

    def all_reduce(self, buffer: AnyArray, op: ReduceOp) -> Request:
        return self._call(self.comm.Iallreduce, self._mpi.IN_PLACE, buffer, op=self._ops[op])

    def reduce(self, buffer: AnyArray, op: ReduceOp, root: int) -> Request:
        buffers = (self._mpi.IN_PLACE, buffer) if self.rank == root else (buffer, None)
        return self._call(self.comm.Ireduce, *buffers, op=self._ops[op], root=root)

    def broadcast(self, buffer: AnyArray, root: int) -> Request:
        return self._call(self.comm.Ibcast, buffer, root=root)

    def all_gather(self, out: AnyArray, values: AnyArray, counts: Sequence[int]) -> Request:
        if min(counts) == max(counts):
            own_address = _address(out) + self.rank * values.nbytes
            return self._call(
                self.comm.Iallgather, self._mpi.IN_PLACE if _address(values) == own_address else values, out
            )
        return self._call(self.comm.Iallgatherv, values, [out, counts])

    def gather(self, out: AnyArray | None, values: AnyArray, counts: Sequence[int], root: int) -> Request:
        return self._call(self.comm.Igatherv, values, None if out is None else [out, counts], root=root)

    def scatter(self, out: AnyArray, values: AnyArray | None, counts: Sequence[int], root: int) -> Request:
        return self._call(self.comm.Iscatterv, None if values is None else [values, counts], out, root=root)

    def reduce_scatter(self, out: AnyArray, values: AnyArray, counts: Sequence[int], op: ReduceOp) -> Request:
        if min(counts) == max(counts):
            return self._call(self.comm.Ireduce_scatter_block, values, out, op=self._ops[op])
        return self._call(self.comm.Ireduce_scatter, values, out, counts, op=self._ops[op])

    def all_to_all(self, out: AnyArray, values: AnyArray, out_counts: Sequence[int], counts: Sequence[int]) -> Request:
        return self._call(self.comm.Ialltoallv, [values, counts], [out, out_counts])

    def barrier(self) -> Request:
        return self._call(self.comm.Ibarrier)

    def send(self, buffer: AnyArray, to: int, tag: int) -> Request:
        return self._call(self.comm.Isend, buffer, dest=to, tag=tag)

    def receive(self, buffer: AnyArray, source: int | None, tag: int) -> Request:
        return _Received(self.comm, buffer, source, tag)


def _address(array: AnyArray) -> int:
    """Return the address of the first element of an array."""
    return int(array.__array_interface__["data"][0])


_failed = False


def note_failure() -> None:
    """Record that MPI cannot be finalized normally, since a process is still inside a call."""
    global _failed
    _failed = True


def _end_all_if_failed() -> None:
    """End the other processes at the exit of a process that failed, as they may wait for it forever."""
    if not _failed and getattr(sys, "last_value", None) is None:
        return
    MPI = import_mpi()
    if MPI.Is_finalized() or MPI.COMM_WORLD.size == 1:
        return
    deliver_output()
    MPI.COMM_WORLD.Abort(1)
