"""Engines: collectives and messages of a group of processes, on flat arrays of the dtypes that they carry."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from gradcore.core.device import device as Device
from gradcore.core.dtypes import dtype as DType
from gradcore.core.typing import Array
from gradcore.distributed.reduce_op import BOOLS, ReduceOp
from gradcore.distributed.work import Request

__all__ = ["Alone", "Communicator", "select_engine_op"]


class Communicator:
    """The processes of a group, as an engine sees them.

    All calls return at once, and have finished when their request has. Arrays are one-dimensional, contiguous, and stay
    as they are until then. ``counts`` are numbers of elements, one for each rank. All processes make the same calls in
    the same order.

    Parameters
    ----------
    rank, size : int
        This process, and how many there are.
    """

    #: The name of the engine.
    name: str
    #: Whether it sums float16 and bfloat16 itself. If not, they are summed in float32 and rounded once.
    reduces_halves = False
    #: Whether small sums do not make the host wait for a device, so that each call can be compared beside it.
    compares = False

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size

    @property
    def side(self) -> Communicator:
        """The engine for calls that follow a failed one: of the same processes, with an order of its own."""
        return self

    def wire(self, array: Array, reduced: bool) -> Array:
        """Return a flat array that the engine can send: bools as bytes, complex numbers as pairs, halves as bits.

        It is a view of `array` where that is contiguous, unless halves are to be reduced.
        """
        flat = array.reshape(-1)
        kind, name = flat.dtype.kind, flat.dtype.name
        if kind == "b":
            return flat.view(np.uint8)
        if kind == "c":
            return flat.view(np.float32 if flat.dtype.itemsize == 8 else np.float64)
        if name in ("float16", "bfloat16"):
            if reduced:
                return flat if self.reduces_halves else flat.astype(np.float32)
            return flat.view(np.uint16)
        return flat

    @staticmethod
    def unwire(buffer: Array, like: Array) -> Array:
        """Return the array that `wire` has made of one like `like`, converted back."""
        reinterpreted = buffer.nbytes == like.nbytes
        return (buffer.view(like.dtype) if reinterpreted else buffer.astype(like.dtype)).reshape(like.shape)

    def check(self, call: str, dtype: DType, device: Device, op: ReduceOp | None) -> None:
        """Raise if a call, with a reduction or without, is not one that the engine can do."""

    def as_array(self, array: Array) -> Array:
        """Return an array of NumPy as one that the engine carries."""
        return array

    def as_host(self, array: Array) -> Array:
        """Such an array as one of NumPy."""
        return array

    def empty(self, count: int, dtype: Any) -> Array:
        """Return a new array that the engine carries."""
        return np.empty(count, dtype)

    def batch(self) -> AbstractContextManager[Any]:
        """Messages that are sent and received inside do not wait for each other."""
        return nullcontext()

    def split(self, ranks: Sequence[int]) -> Communicator:
        """Return the engine for some of the processes, of which this is one; only these call it."""
        raise NotImplementedError

    def close(self) -> None:
        """Give resources back."""

    def note_failure(self) -> None:
        """Note that a call has failed, so that the others do not wait for this process when it ends."""

    def all_reduce(self, buffer: Array, op: ReduceOp) -> Request:
        """Reduce `buffer` in place, in all processes."""
        raise NotImplementedError

    def reduce(self, buffer: Array, op: ReduceOp, root: int) -> Request:
        """Reduce `buffer` in place, in the process `root` alone."""
        raise NotImplementedError

    def broadcast(self, buffer: Array, root: int) -> Request:
        """Write the buffer of `root` into those of all others."""
        raise NotImplementedError

    def all_gather(self, out: Array, given: Array, counts: Sequence[int]) -> Request:
        """Write the arrays of all processes into `out`, one after the other."""
        raise NotImplementedError

    def gather(self, out: Array | None, given: Array, counts: Sequence[int], root: int) -> Request:
        """Write the arrays of all processes into `out`, in the process `root` alone."""
        raise NotImplementedError

    def scatter(self, out: Array, given: Array | None, counts: Sequence[int], root: int) -> Request:
        """Write parts of the array of `root` into `out`, one in each process."""
        raise NotImplementedError

    def reduce_scatter(self, out: Array, given: Array, counts: Sequence[int], op: ReduceOp) -> Request:
        """Reduce the arrays of all processes, and write a part of the result into `out` in each."""
        raise NotImplementedError

    def all_to_all(self, out: Array, given: Array, out_counts: Sequence[int], counts: Sequence[int]) -> Request:
        """Send a part of `given` to each process, and write what each sends into `out`."""
        raise NotImplementedError

    def barrier(self) -> Request:
        """Finish when all processes have made this call."""
        raise NotImplementedError

    def send(self, buffer: Array, to: int, tag: int) -> Request:
        """Send an array to another process."""
        raise NotImplementedError

    def receive(self, buffer: Array, source: int | None, tag: int) -> Request:
        """Receive an array; `source` is None for any process. The request has the `source` when it has finished."""
        raise NotImplementedError


def select_engine_op(op: ReduceOp, is_bool: bool) -> ReduceOp:
    """Return the reduction that the engine performs: one of bytes for bools, and SUM for AVG."""
    if is_bool:
        return BOOLS.get(op, op)
    return ReduceOp.SUM if op is ReduceOp.AVG else op


class Alone(Communicator):
    """The engine of a world of one process, for arrays of any device."""

    name = "alone"

    def __init__(self) -> None:
        super().__init__(0, 1)

    def split(self, ranks: Sequence[int]) -> Communicator:
        """Return the engine itself."""
        return self

    def all_reduce(self, buffer: Array, op: ReduceOp) -> Request:
        return Request()

    def reduce(self, buffer: Array, op: ReduceOp, root: int) -> Request:
        return Request()

    def broadcast(self, buffer: Array, root: int) -> Request:
        return Request()

    def all_gather(self, out: Array, given: Array, counts: Sequence[int]) -> Request:
        return copy_to(out, given)

    def gather(self, out: Array | None, given: Array, counts: Sequence[int], root: int) -> Request:
        return copy_to(out, given)

    def scatter(self, out: Array, given: Array | None, counts: Sequence[int], root: int) -> Request:
        return copy_to(out, given)

    def reduce_scatter(self, out: Array, given: Array, counts: Sequence[int], op: ReduceOp) -> Request:
        return copy_to(out, given)

    def all_to_all(self, out: Array, given: Array, out_counts: Sequence[int], counts: Sequence[int]) -> Request:
        return copy_to(out, given)

    def barrier(self) -> Request:
        return Request()


def copy_to(out: Array, given: Array) -> Request:
    out[...] = given
    return Request()
