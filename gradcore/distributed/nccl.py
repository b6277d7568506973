"""The NCCL engine, by CuPy. It is tested with a stand-in for NCCL, and has not run on GPUs yet."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import Any

import numpy as np

from gradcore.backends import registry
from gradcore.core.device import device as Device
from gradcore.core.dtypes import dtype as DType
from gradcore.core.typing import AnyArray
from gradcore.distributed.communicator import Communicator, select_engine_op
from gradcore.distributed.errors import DistNetworkError
from gradcore.distributed.reduce_op import ReduceOp
from gradcore.distributed.work import Request, wait_until

__all__ = ["NCCLCommunicator"]

_OPS = {
    ReduceOp.SUM: "NCCL_SUM", ReduceOp.PRODUCT: "NCCL_PROD", ReduceOp.MIN: "NCCL_MIN", ReduceOp.MAX: "NCCL_MAX",
    ReduceOp.AVG: "NCCL_AVG",
}  # fmt: skip
#: The first version of NCCL that has NCCL_AVG.
_AVERAGES = 21000

#: The names of dtypes for NCCL. Others are moved as bytes, and cannot be reduced.
_DTYPES = {
    "int8": "NCCL_INT8", "uint8": "NCCL_UINT8", "int32": "NCCL_INT32", "uint32": "NCCL_UINT32", "int64": "NCCL_INT64",
    "uint64": "NCCL_UINT64", "float16": "NCCL_FLOAT16", "float32": "NCCL_FLOAT32", "float64": "NCCL_FLOAT64",
    "bfloat16": "NCCL_BFLOAT16",
}  # fmt: skip


class _NCCLRequest(Request):
    """Work in a communicator's stream up to an event, with references to its arrays.

    Parameters
    ----------
    engine : NCCLCommunicator
    source : int, optional
        The rank that sends a message.
    *arrays : array
    """

    watched = True

    def __init__(self, engine: NCCLCommunicator, source: int | None, arrays: Sequence[Any]) -> None:
        self._engine, self.source, self._arrays = engine, source, arrays
        #: None until the messages of a batch have been passed to NCCL.
        self.event: Any = None

    def done(self) -> bool:
        """Return whether the device has finished the work."""
        if self.event is not None and self.event.done:
            return True
        self._engine.check_errors()
        return False

    def ready(self) -> bool:
        """Make the current stream wait for the work."""
        if self.event is None:
            raise RuntimeError("a message of a batch cannot be waited for inside of the batch: leave the batch first")
        with self._engine.on_device():
            self._engine.cuda.get_current_stream().wait_event(self.event)
        return True


class _HostRequest(_NCCLRequest):
    """Work for which the host waits."""

    def ready(self) -> bool:
        """Return whether the device has finished the work."""
        return self.done()


class NCCLCommunicator(Communicator):
    """Engine of an NCCL communicator, one process for each device, with its own stream.

    Parameters
    ----------
    rank, size : int
    index : int
        The device of this process.
    unique_id : bytes
        Of `unique_id`, the same in all processes.
    seconds : float
        How long to wait for the others.
    """

    name = "nccl"
    reduces_halves = True

    def __init__(self, rank: int, size: int, index: int, unique_id: bytes, seconds: float) -> None:
        super().__init__(rank, size)
        from cupy.cuda import nccl

        self.averages = hasattr(nccl, "NCCL_AVG") and nccl.get_version() >= _AVERAGES
        self._backend = registry.find("cuda")
        self._xp = self._backend.xp
        self.cuda, self._nccl, self.index, self._seconds = self._xp.cuda, nccl, index, seconds
        self._comm = self._connect(unique_id)
        with self.on_device():
            self._stream = self.cuda.Stream(non_blocking=True)
        #: The requests of messages of a batch, while it is open.
        self._batched: list[_NCCLRequest] | None = None
        self._aborted = False

    @staticmethod
    def unique_id() -> bytes:
        """Return a new identifier by which the processes of a communicator find each other."""
        from cupy.cuda import nccl

        return bytes(nccl.get_unique_id())

    def _connect(self, unique_id: bytes) -> Any:
        """Return the communicator once all processes are connected.

        A thread creates it, as NCCL waits without a limit.
        """
        outcome: list[Any] = []

        def connect() -> None:
            try:
                with self.on_device():
                    outcome.append(self._nccl.NcclCommunicator(self.size, unique_id, self.rank))
            except Exception as error:
                outcome.append(error)

        thread = threading.Thread(target=connect, name="gradcore-nccl", daemon=True)
        thread.start()
        thread.join(self._seconds)
        description = f"rank {self.rank} of {self.size}, on cuda:{self.index}"
        if not outcome:
            raise DistNetworkError(f"{description}: not all ranks have connected to NCCL within {self._seconds:g} s")
        if isinstance(outcome[0], Exception):
            raise DistNetworkError(
                f"{description}: NCCL does not start: {outcome[0]}. Each process needs a device of its own: "
                "cuda.set_device(local_rank) before init_process_group, or its device_id; NCCL_DEBUG=INFO says more"
            ) from outcome[0]
        return outcome[0]

    def on_device(self) -> Any:
        """Return a context in which the device of the communicator is current."""
        return self._backend.use_index(self.index)

    def check(self, call: str, dtype: DType, device: Device, op: ReduceOp | None) -> None:
        """Raise an error if NCCL does not support a call."""
        if device.index != self.index:
            raise ValueError(
                f"{call}: the tensor is on {device}, and this process works with cuda:{self.index} in its group: "
                "device_id of init_process_group chooses the device"
            )
        if op is None:
            return
        is_bool = dtype.category == 0
        if select_engine_op(op, is_bool, self.averages) not in _OPS:
            raise ValueError(f"{call}: NCCL has no {op.name}; move the tensor to the CPU, in a group with MPI")
        if not (is_bool or dtype.is_complex or dtype.name in _DTYPES):
            raise ValueError(f"{call}: NCCL does not reduce {dtype.name}; convert the tensor to int32")

    def as_array(self, array: AnyArray) -> AnyArray:
        with self.on_device():
            return self._xp.asarray(array)

    def as_host(self, array: AnyArray) -> AnyArray:
        return self._xp.asnumpy(array)

    def empty(self, count: int, dtype: Any) -> AnyArray:
        with self.on_device():
            return self._xp.empty(count, dtype)

    # -- calls ------------------------------------------------------------------------------------------------------

    def _call(
        self,
        start: Callable[[Any, int], Any],
        *arrays: AnyArray | None,
        source: int | None = None,
        kind: type[_NCCLRequest] = _NCCLRequest,
    ) -> Request:
        """Queue a call in the communicator's stream, after the work of the current stream."""
        request = kind(self, source, arrays)
        with self.on_device():
            self._stream.wait_event(self.record_events(self.cuda.get_current_stream()))
            start(self._comm, self._stream.ptr)
            if self._batched is None:
                request.event = self.record_events(self._stream)
            else:
                self._batched.append(request)
        return request

    def record_events(self, stream: Any) -> Any:
        event = self.cuda.Event(disable_timing=True)
        event.record(stream)
        return event

    @contextmanager
    def group_calls(self) -> Iterator[None]:
        """Combine the calls inside of the block into one call of NCCL."""
        self._nccl.groupStart()
        try:
            yield
        finally:
            self._nccl.groupEnd()

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Return a context in which messages do not wait for each other."""
        requests: list[_NCCLRequest] = []
        self._batched = requests
        try:
            with self.group_calls():
                yield
        finally:
            self._batched = None
        with self.on_device():
            event = self.record_events(self._stream)
        for request in requests:
            request.event = event

    def move_bytes(self, call: Callable[..., Any], array: AnyArray, stream: int, *rest: int) -> None:
        """Send or receive the bytes of an array."""
        if array.size:
            call(array.data.ptr, array.nbytes, self._nccl.NCCL_UINT8, *rest, stream)

    def _exchange(
        self, out: Sequence[AnyArray] | None, values: Sequence[AnyArray] | None, *arrays: AnyArray | None
    ) -> Request:
        """Receive an array from each rank, and send one to each. None means that nothing is sent or received."""

        def start(comm: Any, stream: int) -> None:
            with self.group_calls():
                for rank in range(self.size):
                    if values is not None:
                        self.move_bytes(comm.send, values[rank], stream, rank)
                    if out is not None:
                        self.move_bytes(comm.recv, out[rank], stream, rank)

        return self._call(start, *arrays)

    def reduce_buffer(self, buffer: AnyArray, op: ReduceOp) -> tuple[int, int]:
        return getattr(self._nccl, _DTYPES[buffer.dtype.name]), getattr(self._nccl, _OPS[op])

    def all_reduce(self, buffer: AnyArray, op: ReduceOp) -> Request:
        if not buffer.size:
            return Request()
        kinds, at = self.reduce_buffer(buffer, op), buffer.data.ptr
        return self._call(lambda comm, stream: comm.allReduce(at, at, buffer.size, *kinds, stream), buffer)

    def reduce(self, buffer: AnyArray, op: ReduceOp, root: int) -> Request:
        if not buffer.size:
            return Request()
        kinds, at = self.reduce_buffer(buffer, op), buffer.data.ptr
        return self._call(lambda comm, stream: comm.reduce(at, at, buffer.size, *kinds, root, stream), buffer)

    def broadcast(self, buffer: AnyArray, root: int) -> Request:
        if not buffer.size:
            return Request()
        at, kind = buffer.data.ptr, self._nccl.NCCL_UINT8
        return self._call(lambda comm, stream: comm.broadcast(at, at, buffer.nbytes, kind, root, stream), buffer)

    def all_gather(self, out: AnyArray, values: AnyArray, counts: Sequence[int]) -> Request:
        if len(set(counts)) > 1:
            return self._exchange(_parts(out, counts), [values] * self.size, out, values)
        if not values.size:
            return Request()
        to, at, kind = out.data.ptr, values.data.ptr, self._nccl.NCCL_UINT8
        return self._call(lambda comm, stream: comm.allGather(at, to, values.nbytes, kind, stream), out, values)

    def gather(self, out: AnyArray | None, values: AnyArray, counts: Sequence[int], root: int) -> Request:
        messages = [values if rank == root else values[:0] for rank in range(self.size)]
        return self._exchange(None if out is None else _parts(out, counts), messages, out, values)

    def scatter(self, out: AnyArray, values: AnyArray | None, counts: Sequence[int], root: int) -> Request:
        targets = [out if rank == root else out[:0] for rank in range(self.size)]
        return self._exchange(targets, None if values is None else _parts(values, counts), out, values)

    def reduce_scatter(self, out: AnyArray, values: AnyArray, counts: Sequence[int], op: ReduceOp) -> Request:
        if not values.size:
            return Request()
        kinds = self.reduce_buffer(values, op)
        if len(set(counts)) == 1:
            to, at = out.data.ptr, values.data.ptr
            return self._call(lambda comm, stream: comm.reduceScatter(at, to, out.size, *kinds, stream), out, values)

        def start(comm: Any, stream: int) -> None:
            with self.group_calls():
                for rank, part in enumerate(_parts(values, counts)):
                    if part.size:
                        to = out if rank == self.rank else part
                        comm.reduce(part.data.ptr, to.data.ptr, part.size, *kinds, rank, stream)

        return self._call(start, out, values)

    def all_to_all(self, out: AnyArray, values: AnyArray, out_counts: Sequence[int], counts: Sequence[int]) -> Request:
        return self._exchange(_parts(out, out_counts), _parts(values, counts), out, values)

    def barrier(self) -> Request:
        buffer = self.as_array(np.zeros(1, np.uint8))
        kinds, at = self.reduce_buffer(buffer, ReduceOp.SUM), buffer.data.ptr
        return self._call(lambda comm, stream: comm.allReduce(at, at, 1, *kinds, stream), buffer, kind=_HostRequest)

    def send(self, buffer: AnyArray, to: int, tag: int) -> Request:
        return self._call(lambda comm, stream: self.move_bytes(comm.send, buffer, stream, to), buffer)

    def receive(self, buffer: AnyArray, source: int | None, tag: int) -> Request:
        if source is None:
            raise ValueError("NCCL cannot receive from any process: pass src")
        return self._call(
            lambda comm, stream: self.move_bytes(comm.recv, buffer, stream, source), buffer, source=source
        )

    # -- communicators ----------------------------------------------------------------------------------------------

    def split(self, ranks: Sequence[int]) -> NCCLCommunicator:
        """Return the engine for a part of the processes. The first of them sends an identifier to the others."""
        first = ranks[0]
        if self.rank == first:
            unique_id = self.unique_id()
            buffer = self.as_array(np.frombuffer(unique_id, np.uint8))
            messages = [buffer if rank in ranks[1:] else buffer[:0] for rank in range(self.size)]
            request = self._exchange(None, messages, buffer)
        else:
            buffer = self.empty(128, np.uint8)
            request = self.receive(buffer, first, 0)
        if not wait_until(request.done, self._seconds):
            raise DistNetworkError(
                f"rank {self.rank} of {self.size}: ranks {list(ranks)} did not create a group in time"
            )
        number = bytes(self.as_host(buffer))
        return NCCLCommunicator(ranks.index(self.rank), len(ranks), self.index, number, self._seconds)

    def check_errors(self) -> None:
        """Raise an error if NCCL has detected that another process is gone."""
        if not self._aborted:
            self._comm.check_async_error()

    def note_failure(self) -> None:
        """Abort the work on the device, which would wait for other processes forever."""
        if not self._aborted:
            self._aborted = True
            self._comm.abort()

    def close(self) -> None:
        """Free the communicator, once the device has finished with it."""
        with self.on_device():
            self._stream.synchronize()
        self._comm.destroy()


def _parts(array: AnyArray, counts: Sequence[int]) -> list[AnyArray]:
    ends = list(accumulate(counts))
    return [array[end - count : end] for count, end in zip(counts, ends, strict=True)]
