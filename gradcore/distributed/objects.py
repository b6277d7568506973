"""Collectives of Python objects, sent as bytes in the format of `gradcore.save`.

Received bytes are read as `gradcore.load` reads files: only containers, numbers, strings, tensors, and classes allowed
by `gradcore.serialization.add_safe_globals`. Nothing that another process sends can run code.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradcore.distributed.checks import check_alike, gather_bytes, split_bytes, wait_for
from gradcore.distributed.collectives import member_of, root_of
from gradcore.distributed.groups import ProcessGroup
from gradcore.serialization import load, save

__all__ = ["all_gather_object", "broadcast_object_list", "gather_object", "scatter_object_list"]


def serialize_object(value: Any) -> bytes:
    file = io.BytesIO()
    save(value, file)
    return file.getvalue()


def deserialize_object(data: bytes) -> Any:
    return load(io.BytesIO(data))


def _broadcast(group: ProcessGroup, data: bytes, root: int, call: str) -> bytes:
    """Return the bytes of the process `root`."""
    engine = group.any_engine
    length = engine.as_array(np.array([len(data)]))
    wait_for(group, engine.broadcast(length, root), call)
    size = int(engine.as_host(length)[0])
    buffer = (
        engine.as_array(np.frombuffer(data, np.uint8).copy()) if engine.rank == root else engine.empty(size, np.uint8)
    )
    wait_for(group, engine.broadcast(buffer, root), call)
    return bytes(engine.as_host(buffer))


def _gather(group: ProcessGroup, data: bytes, root: int, call: str) -> list[bytes]:
    """Return the bytes of all processes in the process `root`, and an empty list in the others."""
    engine = group.any_engine
    own_bytes, receives = engine.as_array(np.frombuffer(data, np.uint8)), engine.rank == root
    counts = engine.empty(engine.size, np.int64) if receives else None
    wait_for(group, engine.gather(counts, engine.as_array(np.array([len(data)])), [1] * engine.size, root), call)
    lengths = engine.as_host(counts).tolist() if counts is not None else []
    out = engine.empty(sum(lengths), np.uint8) if receives else None
    wait_for(group, engine.gather(out, own_bytes, lengths, root), call)
    return [] if out is None else split_bytes(engine.as_host(out), lengths)


def _scatter(group: ProcessGroup, parts: Sequence[bytes], root: int, call: str) -> bytes:
    """Return the part for this process, of the parts that the process `root` passes."""
    engine = group.any_engine
    lengths, sends = [len(part) for part in parts], engine.rank == root
    length = engine.empty(1, np.int64)
    counts = engine.as_array(np.array(lengths)) if sends else None
    wait_for(group, engine.scatter(length, counts, [1] * engine.size, root), call)
    out = engine.empty(int(engine.as_host(length)[0]), np.uint8)
    joined = engine.as_array(np.frombuffer(b"".join(parts), np.uint8)) if sends else None
    wait_for(group, engine.scatter(out, joined, lengths, root), call)
    return bytes(engine.as_host(out))


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Write the objects of all processes into a list in each.

    Parameters
    ----------
    object_list : list
        As long as there are ranks.
    obj : object
        A container, number, string or tensor, or a class that `gradcore.serialization.add_safe_globals` has allowed.
    group : ProcessGroup, optional
        By default the world.

    Raises
    ------
    pickle.UnpicklingError
        If a process sends something else.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributed.init_process_group("mpi")
    >>> ranks = [None]
    >>> gc.distributed.all_gather_object(ranks, {"rank": 0})
    >>> ranks
    [{'rank': 0}]
    >>> gc.distributed.destroy_process_group()
    """
    members = member_of(group, "all_gather_object")
    if members is None:
        return
    check_alike(members, members.any_engine, "all_gather_object", {}, always=True)
    if len(object_list) != members.size():
        raise ValueError(
            f"all_gather_object: object_list needs {members.size()} elements, one per rank, but has {len(object_list)}"
        )
    object_list[:] = map(
        deserialize_object, gather_bytes(members, members.any_engine, serialize_object(obj), "all_gather_object")
    )


def broadcast_object_list(
    object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None, group_src: int | None = None
) -> None:
    """Write the objects in the list of one process into those of all others.

    Parameters
    ----------
    object_list : list
        A list of the same length in all processes.
    src : int
        The rank in the world of the process that sends; by default 0.
    group : ProcessGroup, optional
        By default the world.
    device
        Accepted for compatibility.
    group_src : int, optional
        The rank of that process in the group, instead of `src`.

    Raises
    ------
    pickle.UnpicklingError
        If that process sends an object that is not allowed, see `all_gather_object`.
    """
    members = member_of(group, "broadcast_object_list")
    if members is None:
        return
    root = root_of(members, "broadcast_object_list", "src", 0 if src is None and group_src is None else src, group_src)
    arguments = {"src": root, "length": len(object_list)}
    check_alike(members, members.any_engine, "broadcast_object_list", arguments, always=True)
    own_bytes = serialize_object(list(object_list)) if members.rank() == root else b""
    sent_bytes = _broadcast(members, own_bytes, root, "broadcast_object_list")
    if members.rank() != root:
        object_list[:] = deserialize_object(sent_bytes)


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Any = None,
    group_dst: int | None = None,
) -> None:
    """Write the objects of all processes into a list in one.

    Parameters
    ----------
    obj : object
        See `all_gather_object`.
    object_gather_list : list, optional
        In the destination process: a list with one element for each rank.
    dst : int
        The rank in the world of that process; by default 0.
    group : ProcessGroup, optional
        By default the world.
    group_dst : int, optional
        The rank of that process in the group, instead of `dst`.
    """
    members = member_of(group, "gather_object")
    if members is None:
        return
    root = root_of(members, "gather_object", "dst", 0 if dst is None and group_dst is None else dst, group_dst)
    receives = members.rank() == root
    if receives != (object_gather_list is not None):
        raise ValueError("gather_object: pass object_gather_list on the destination rank, and on no other rank")
    check_alike(members, members.any_engine, "gather_object", {"dst": root}, always=True)
    serialized = _gather(members, serialize_object(obj), root, "gather_object")
    if object_gather_list is not None:
        object_gather_list[:] = map(deserialize_object, serialized)


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    group_src: int | None = None,
) -> None:
    """Write each object of a list in one process into the list of another, as its first element.

    Parameters
    ----------
    scatter_object_output_list : list
        With at least one element.
    scatter_object_input_list : list, optional
        In the process that sends: one object for each rank.
    src : int
        The rank in the world of that process; by default 0.
    group : ProcessGroup, optional
        By default the world.
    group_src : int, optional
        The rank of that process in the group, instead of `src`.
    """
    members = member_of(group, "scatter_object_list")
    if members is None:
        return
    root = root_of(members, "scatter_object_list", "src", 0 if src is None and group_src is None else src, group_src)
    if not scatter_object_output_list:
        raise ValueError("Expected argument scatter_object_output_list to be a list of size at least 1.")
    objects: Sequence[Any] = scatter_object_input_list or [] if members.rank() == root else []
    if members.rank() == root and len(objects) != members.size():
        raise ValueError(
            f"scatter_object_list: expected {members.size()} objects, one per rank, but got {len(objects)}"
        )
    check_alike(members, members.any_engine, "scatter_object_list", {"src": root}, always=True)
    serialized = _scatter(members, [serialize_object(obj) for obj in objects], root, "scatter_object_list")
    scatter_object_output_list[0] = deserialize_object(serialized)
