"""Checks of collective calls: that all processes make the same call, and that tensors can be sent."""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcore.autograd.modes import GRAD, local
from gradcore.autograd.variables import Variable, repeats
from gradcore.core.typing import AnyArray, AnyTensor
from gradcore.distributed.communicator import Communicator
from gradcore.distributed.errors import DistBackendError
from gradcore.distributed.reduce_op import ReduceOp
from gradcore.distributed.work import Request, Work, wait_until

if TYPE_CHECKING:
    from gradcore.distributed.groups import ProcessGroup

__all__ = [
    "Comparison",
    "begin_comparison",
    "check_alike",
    "check_same_kind",
    "check_tensor",
    "check_tensors",
    "check_written",
    "gather_bytes",
    "is_detailed",
    "split_bytes",
    "text_of",
    "wait_for",
]

#: The number of elements that a process sends to each process, and the number that it receives from each process. None
#: stands for any number.
Parts = tuple[Sequence[int] | None, Sequence[int] | None]


def is_detailed() -> bool:
    """Return whether calls are compared before they are made: ``GRADCORE_DISTRIBUTED_DEBUG=DETAIL``."""
    return _debug_mode() == "DETAIL"


def _debug_mode() -> str:
    return os.environ.get("GRADCORE_DISTRIBUTED_DEBUG", "").upper()


class CallsDiffer(RuntimeError):
    """Raised by a `Comparison` if processes make different calls."""


class Comparison(Request):
    """A check, under way, that all processes of a group make the same call.

    Each process contributes a 64-bit hash of its call to a sum over all processes: if the calls are the same, the sum
    is the number of processes times the own hash, modulo ``2**64``. A second sum compares the sizes of messages: each
    process adds a hash of what it sends to each other one and subtracts a hash of what it expects, so that the sum is 0
    if all sizes agree. The check therefore moves 16 bytes, whatever the number of processes.

    Parameters
    ----------
    group : ProcessGroup
    engine : Communicator
    call : str
    alike : mapping
        Arguments that must be the same in all processes.
    parts : pair of sequences of int, optional
        The number of elements sent to each process, and the number received from each.
    shown : mapping, optional
        Arguments of the call that the error shows, by default `alike`.
    """

    def __init__(
        self,
        group: ProcessGroup,
        engine: Communicator,
        call: str,
        alike: Mapping[str, object],
        parts: Parts | None = None,
        shown: Mapping[str, object] | None = None,
    ) -> None:
        self._group, self._engine, self._parts = group, engine, parts
        self._shown = f"{call}({text_of(alike if shown is None else shown)})"
        self._hash = _hash_of(f"{call}({text_of(alike)})")
        hashes = np.array([self._hash, 0 if parts is None else _balance(engine.rank, *parts)], np.uint64)
        self._sums = engine.as_array(hashes)
        self._request: Request | None = engine.all_reduce(self._sums, ReduceOp.SUM)

    def done(self) -> bool:
        """Return whether all processes have made the call; raise `CallsDiffer` if they made different ones."""
        if self._request is None:
            return True
        if not self._request.done():
            return False
        self._request = None
        total, balance = (int(x) for x in self._engine.as_host(self._sums))
        if total != self._hash * self._engine.size % 2**64 or balance:
            raise CallsDiffer(self._difference())
        return True

    def _difference(self) -> str:
        """Collect the calls of all processes, and return a text that says how they differ."""
        group, ranks = self._group, self._group.ranks
        with group.lock:
            # The thread that polls requests may detect a difference in another call at the same time.
            if group.difference is None:
                data = json.dumps([self._shown, self._parts]).encode()
                calls = [
                    json.loads(data_of_rank)
                    for data_of_rank in gather_bytes(group, self._engine.side, data, self._shown)
                ]
                group.difference = _unequal_parts([parts for _, parts in calls], ranks) or (
                    f"ranks of the group {group.name!r} make different calls: "
                    + "; ".join(f"rank {rank}: {shown}" for rank, (shown, _) in zip(ranks, calls, strict=True))
                )
            return str(group.difference)


@functools.lru_cache(4096)
def _hash_of(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def _balance(rank: int, sent: Sequence[int] | None, received: Sequence[int] | None) -> int:
    """Return the hashes of the messages that `rank` sends minus those that it expects, modulo ``2**64``."""
    ranks = np.arange(max(len(sent or ()), len(received or ())), dtype=np.uint64)
    own_rank = np.full_like(ranks, rank)
    total = 0
    if sent is not None:
        total += int(_hash_messages(own_rank, ranks, np.array(sent, np.uint64)).sum())
    if received is not None:
        total -= int(_hash_messages(ranks, own_rank, np.array(received, np.uint64)).sum())
    return total % 2**64


def _hash_messages(source: AnyArray, target: AnyArray, count: AnyArray) -> AnyArray:
    """Return a 64-bit hash of each ``(source, target, count)``, and 0 for messages without elements.

    The mixing function is the finalizer of SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number
    Generators", OOPSLA 2014).
    """
    mixed = (source << np.uint64(42)) ^ (target << np.uint64(21)) ^ (count * np.uint64(0x9E3779B97F4A7C15))
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.where(count == 0, np.uint64(0), mixed ^ (mixed >> np.uint64(31)))


def _unequal_parts(parts: Sequence[Parts | None], ranks: Sequence[int]) -> str | None:
    """Return a text that names two processes of which one sends another number of elements than the other expects."""
    counts = [part for part in parts if part is not None]
    if len(counts) < len(parts):
        return None
    for i, (sent, _) in enumerate(counts):
        for j, (_, received) in enumerate(counts):
            if sent is not None and received is not None and sent[j] != received[i]:
                return f"rank {ranks[i]} sends {sent[j]} elements to rank {ranks[j]}, which receives {received[i]}"
    return None


def wait_for(group: ProcessGroup, request: Request, call: str) -> None:
    """Wait until a request has finished; raise the error of `call` if it fails or takes too long."""
    Work(group, request, lambda: f"rank {group.rank()} of {group.size()}: {call}, in group {group.name!r},", ()).wait()


def gather_bytes(group: ProcessGroup, engine: Communicator, data: bytes, call: str) -> list[bytes]:
    """Return the bytes that each process of a group passes to this call, without comparing the calls."""
    counts = engine.empty(engine.size, np.int64)
    wait_for(group, engine.all_gather(counts, engine.as_array(np.array([len(data)])), [1] * engine.size), call)
    lengths = engine.as_host(counts).tolist()
    out = engine.empty(sum(lengths), np.uint8)
    wait_for(group, engine.all_gather(out, engine.as_array(np.frombuffer(data, np.uint8)), lengths), call)
    return split_bytes(engine.as_host(out), lengths)


def split_bytes(joined: AnyArray, lengths: Sequence[int]) -> list[bytes]:
    """Return the consecutive parts of an array of bytes that have these lengths."""
    return [
        bytes(joined[end - length : end]) for end, length in zip(itertools.accumulate(lengths), lengths, strict=True)
    ]


def begin_comparison(
    group: ProcessGroup,
    engine: Communicator,
    call: str,
    alike: Mapping[str, object],
    parts: Parts | None,
    shown: Mapping[str, object],
) -> Comparison | None:
    """Begin to compare a call with those of the other processes; return None if nothing is compared.

    NCCL's calls are compared by the engine of the CPU, where the group has one: their results are not waited for by the
    host. ``GRADCORE_DISTRIBUTED_DEBUG=NONE`` switches comparisons off.
    """
    if engine.size == 1 or _debug_mode() == "NONE":
        return None
    engine = group.engines.get("cpu", engine)
    return Comparison(group, engine, call, alike, parts, shown) if engine.compares else None


def check_alike(
    group: ProcessGroup,
    engine: Communicator,
    call: str,
    alike: Mapping[str, object],
    parts: Parts | None = None,
    always: bool = False,
) -> None:
    """Raise in all processes unless they make the same call; in the debug mode, or always.

    Nothing else has been sent then, so the group can still be used. See `Comparison` for the parameters.
    """
    if engine.size == 1 or not (always or is_detailed()):
        return
    comparison = Comparison(group, engine, call, alike, parts)
    description = f"rank {group.rank()} of {group.size()}: {call}({text_of(alike)}), in group {group.name!r},"
    try:
        if wait_until(comparison.done, group.timeout.total_seconds()):
            return
    except CallsDiffer as error:
        group.difference = None
        raise DistBackendError(f"rank {group.rank()} of {group.size()}: {call}: {error}") from None
    work = Work(group, comparison, lambda: description, ())
    work.fail_late()


def text_of(details: Mapping[str, object]) -> str:
    """Return the arguments of a call as text, for errors and hashes."""
    return ", ".join(f"{key} {value}" for key, value in details.items() if value is not None)


def check_tensor(call: str, name: str, t: Any) -> None:
    """Raise unless an argument is a tensor with data of its own."""
    if not isinstance(t, Variable):
        raise TypeError(
            f"{call}: Invalid function argument. Expected parameter `{name}` of type torch.Tensor but got {type(t)} "
            "instead."
        )
    device = t._device.real  # Inside of vmap, the device of a tensor is that of the batch.
    if device is not t._device or device.type == "meta":
        raise RuntimeError(
            f"{call}: `{name}` has no data that could be sent: it is on the device 'meta', or inside of vmap; "
            "see distributed.nn.functional for collectives that can be transformed"
        )


def check_tensors(call: str, name: str, tensors: Any, count: int | None = None) -> None:
    """Raise unless an argument is a sequence of tensors of one dtype and device."""
    if not isinstance(tensors, (list, tuple)):
        raise TypeError(f"{call}: `{name}` must be a list of tensors, not {type(tensors).__name__}")
    for t in tensors:
        check_tensor(call, name, t)
    if count is not None and len(tensors) != count:
        raise ValueError(f"{call}: `{name}` has {len(tensors)} tensors, and the group has {count} ranks")


def check_same_kind(call: str, tensors: Sequence[AnyTensor]) -> None:
    """Raise unless all tensors of a call have one dtype and one device."""
    kinds = {(t._dtype, t._device.real): None for t in tensors}
    if len(kinds) > 1:
        raise ValueError(
            f"{call}: Invalid usage of tensors with different dtypes or devices: found "
            + ", ".join(f"{dtype.name} on {device}" for dtype, device in kinds)
        )


def check_written(call: str, t: AnyTensor) -> None:
    """Raise if elements of a tensor to write to share memory; warn if it has a history, which the write ignores."""
    if repeats(t._array):
        raise RuntimeError(
            f"{call}: more than one element of the written-to tensor refers to a single memory location. Please "
            "clone() the tensor before performing the operation."
        )
    if local.state.mode & GRAD and t._edge is not None and not t.is_leaf:
        warnings.warn(
            f"{call} writes into a tensor whose history does not know of it, so gradients are those of the value "
            "before: use detach(), or gradcore.distributed.nn.functional, whose collectives have derivatives",
            stacklevel=4,
        )
