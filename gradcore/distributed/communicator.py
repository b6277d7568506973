"""Engines: collectives and messages of a group of processes, on flat arrays."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from gradcore.core.device import device as Device
from gradcore.core.dtypes import dtype as DType
from gradcore.core.typing import AnyArray
from gradcore.distributed.reduce_op import BOOLS, ReduceOp
from gradcore.distributed.work import Request

__all__ = ["Alone", "Communicator", "select_engine_op"]


class Communicator:
    """The interface of an engine, which connects the processes of a group.

    All calls return at once, and are complete when their request is. Until then, their arrays must not change. Arrays
    are one-dimensional and contiguous. ``counts`` are numbers of elements, one for each rank. All processes make the
    same calls in the same order.

    Parameters
    ----------
    rank, size : int
        This process, and how many there are.
    """

    #: The name of the engine.
    name: str
    #: Whether it sums float16 and bfloat16 itself. If not, they are summed in float32 and rounded once.
    reduces_halves = False
    #: Whether it computes means itself. If not, sums are divided afterwards.
    averages = False
    #: Whether calls can be compared while they run: small sums do not make the host wait for a device.
    compares = False

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size

    @property
    def side(self) -> Communicator:
        """Return an engine of the same processes with its own order of calls, to use after a call has failed."""
        return self

    def wire(self, array: AnyArray, reduced: bool) -> AnyArray:
        """Return a flat array that the engine can send: bools as bytes, complex as pairs, 16-bit floats as bits.

        It is a view of `array` if that is contiguous, unless 16-bit floats are to be reduced.
        """
        flat = array.reshape(-1)
        kind = flat.dtype.kind
        if kind == "b":
            return flat.view(np.uint8)
        if kind == "c":
            return flat.view(np.float32 if flat.dtype.itemsize == 8 else np.float64)
        if flat.dtype.itemsize == 2 and flat.dtype.name in ("float16", "bfloat16"):
            if reduced:
                return flat if self.reduces_halves else flat.astype(np.float32)
            return flat.view(np.uint16)
        return flat

    @staticmethod
    def unwire(buffer: AnyArray, like: AnyArray) -> AnyArray:
        """Return a buffer from `wire` converted back to the dtype and shape of `like`."""
        reinterpreted = buffer.nbytes == like.nbytes
        return (buffer.view(like.dtype) if reinterpreted else buffer.astype(like.dtype)).reshape(like.shape)

    def check(self, call: str, dtype: DType, device: Device, op: ReduceOp | None) -> None:
        """Raise an error if the engine does not support a call with this dtype, device and reduction."""

    def as_array(self, array: AnyArray) -> AnyArray:
        """Return a NumPy array as an array of the engine."""
        return array

    def as_host(self, array: AnyArray) -> AnyArray:
        """Return an array of the engine as a NumPy array."""
        return array

    def empty(self, count: int, dtype: Any) -> AnyArray:
        """Return a new array of the engine."""
        return np.empty(count, dtype)

    def batch(self) -> AbstractContextManager[Any]:
        """Return a context in which messages do not wait for each other."""
        return nullcontext()

    def split(self, ranks: Sequence[int]) -> Communicator:
        """Return the engine for a part of the processes, which includes this one.

        Only these processes make this call.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Release the resources of the engine."""

    def note_failure(self) -> None:
        """Record that a call has failed, so that the other processes do not wait for this one at its end."""

    def all_reduce(self, buffer: AnyArray, op: ReduceOp) -> Request:
        """Reduce `buffer` in place, in all processes."""
        raise NotImplementedError

    def reduce(self, buffer: AnyArray, op: ReduceOp, root: int) -> Request:
        """Reduce `buffer` in place, in the process `root` alone."""
        raise NotImplementedError

    def broadcast(self, buffer: AnyArray, root: int) -> Request:
        """Write the buffer of `root` into those of all others."""
        raise NotImplementedError

    def all_gather(self, out: AnyArray, values: AnyArray, counts: Sequence[int]) -> Request:
        """Write the arrays of all processes to `out`, concatenated."""
        raise NotImplementedError

    def gather(self, out: AnyArray | None, values: AnyArray, counts: Sequence[int], root: int) -> Request:
        """Write the arrays of all processes to `out` in the process `root`, concatenated."""
        raise NotImplementedError

    def scatter(self, out: AnyArray, values: AnyArray | None, counts: Sequence[int], root: int) -> Request:
        """Write parts of the array of `root` into `out`, one in each process."""
        raise NotImplementedError

    def reduce_scatter(self, out: AnyArray, values: AnyArray, counts: Sequence[int], op: ReduceOp) -> Request:
        """Reduce the arrays of all processes, and write a part of the result into `out` in each."""
        raise NotImplementedError

    def all_to_all(self, out: AnyArray, values: AnyArray, out_counts: Sequence[int], counts: Sequence[int]) -> Request:
        """Send a part of `values` to each process, and write the parts from all processes to `out`."""
        raise NotImplementedError

    def barrier(self) -> Request:
        """Complete when all processes have made this call."""
        raise NotImplementedError

    def send(self, buffer: AnyArray, to: int, tag: int) -> Request:
        """Send an array to another process."""
        raise NotImplementedError

    def receive(self, buffer: AnyArray, source: int | None, tag: int) -> Request:
        """Receive an array.

        `source` is None for any process; the request has the actual `source` when it is complete.
        """
        raise NotImplementedError


def select_engine_op(op: ReduceOp, is_bool: bool, averages: bool) -> ReduceOp:
    """Return the reduction that the engine performs: one of bytes for bools, and SUM for AVG unless it `averages`."""
    if is_bool:
        return BOOLS.get(op, op)
    return ReduceOp.SUM if op is ReduceOp.AVG and not averages else op


class Alone(Communicator):
    """Engine for a single process, for arrays on any device."""

    name = "alone"

    def __init__(self) -> None:
        super().__init__(0, 1)

    def split(self, ranks: Sequence[int]) -> Communicator:
        """Return the engine itself."""
        return self

    def all_reduce(self, buffer: AnyArray, op: ReduceOp) -> Request:
        return Request()

    def reduce(self, buffer: AnyArray, op: ReduceOp, root: int) -> Request:
        return Request()

    def broadcast(self, buffer: AnyArray, root: int) -> Request:
        return Request()

    def all_gather(self, out: AnyArray, values: AnyArray, counts: Sequence[int]) -> Request:
        return copy_to(out, values)

    def gather(self, out: AnyArray | None, values: AnyArray, counts: Sequence[int], root: int) -> Request:
        return copy_to(out, values)

    def scatter(self, out: AnyArray, values: AnyArray | None, counts: Sequence[int], root: int) -> Request:
        return copy_to(out, values)

    def reduce_scatter(self, out: AnyArray, values: AnyArray, counts: Sequence[int], op: ReduceOp) -> Request:
        return copy_to(out, values)

    def all_to_all(self, out: AnyArray, values: AnyArray, out_counts: Sequence[int], counts: Sequence[int]) -> Request:
        return copy_to(out, values)

    def barrier(self) -> Request:
        return Request()


def copy_to(out: AnyArray, values: AnyArray) -> Request:
    """Copy `values` to `out`, and return a completed request."""
    out[...] = values
    return Request()
