"""What calls of several processes must agree on, and what tensors can be sent."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gradcore.autograd.modes import GRAD, local
from gradcore.autograd.variables import Variable, repeats
from gradcore.distributed.communicator import Communicator
from gradcore.distributed.errors import DistBackendError
from gradcore.distributed.work import Request, Work
from gradcore.typing import AnyTensor

__all__ = ["check_alike", "check_tensor", "check_tensors", "check_written", "exchange", "is_detailed", "text_of"]


def is_detailed() -> bool:
    """Whether calls are compared before they are made: ``GRADCORE_DISTRIBUTED_DEBUG=DETAIL``."""
    return os.environ.get("GRADCORE_DISTRIBUTED_DEBUG", "").upper() == "DETAIL"


def exchange(group: Any, engine: Communicator, data: bytes, call: str) -> list[bytes]:
    """The bytes that every process of a group gives to this call."""

    def wait(request: Request) -> None:
        where = f"rank {group.rank()} of {group.size()}: {call}, in group {group.name!r},"
        Work(group, request, lambda: where, ()).wait()

    size = engine.size
    counts = engine.empty(size, np.int64)
    wait(engine.all_gather(counts, engine.as_array(np.array([len(data)])), [1] * size))
    lengths = [int(n) for n in engine.as_host(counts)]
    out = engine.empty(sum(lengths), np.uint8)
    wait(engine.all_gather(out, engine.as_array(np.frombuffer(data, np.uint8)), lengths))
    together, found, start = engine.as_host(out).tobytes(), [], 0
    for length in lengths:
        found.append(together[start : start + length])
        start += length
    return found


def check_alike(
    group: Any, engine: Communicator, call: str, alike: Mapping[str, Any], parts: Any = None, always: bool = False
) -> None:
    """Raise in all processes unless they make the same call; in the debug mode, or always.

    Parameters
    ----------
    group : ProcessGroup
    engine : Communicator
    call : str
    alike : mapping
        What must be the same in all processes.
    parts : pair of sequences of int, optional
        How much each process is sent, and how much comes from each: what one sends is what the other receives.
    always : bool
    """
    if engine.size == 1 or not (always or is_detailed()):
        return
    own = {"call": call, **{key: str(value) for key, value in alike.items()}}
    sent = json.dumps([own, parts]).encode()
    found = [json.loads(each) for each in exchange(group, engine, sent, f"{call}({text_of(alike)})")]
    calls = [each for each, _ in found]
    if any(each != calls[0] for each in calls):
        raise DistBackendError(
            f"rank {group.rank()} of {group.size()}: ranks of the group {group.name!r} make different calls: "
            + "; ".join(f"rank {rank}: {_text(each)}" for rank, each in zip(group.ranks, calls, strict=True))
        )
    if parts is None:
        return
    for i, (_, (gives, _)) in enumerate(found):
        for j, (_, (_, takes)) in enumerate(found):
            if gives is not None and takes is not None and gives[j] != takes[i]:
                raise DistBackendError(
                    f"rank {group.rank()} of {group.size()}: {call}: rank {group.ranks[i]} sends {gives[j]} elements "
                    f"to rank {group.ranks[j]}, which receives {takes[i]}"
                )


def _text(own: Mapping[str, str]) -> str:
    return f"{own['call']}({text_of({key: value for key, value in own.items() if key != 'call'})})"


def text_of(details: Mapping[str, Any]) -> str:
    """The arguments of a call, for errors."""
    return ", ".join(f"{key} {value}" for key, value in details.items() if value is not None)


def check_tensor(call: str, name: str, t: Any) -> None:
    """Raise unless an argument is a tensor with data of its own."""
    if not isinstance(t, Variable):
        raise TypeError(
            f"{call}: Invalid function argument. Expected parameter `{name}` of type torch.Tensor but got {type(t)} "
            "instead."
        )
    device = t._device.real  # that of the batch, inside of vmap
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
    """Refuse a tensor whose elements share memory, and warn of one that has a history, which does not change."""
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
