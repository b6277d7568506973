"""Collectives of objects: what `gradcore.save` can write, sent as bytes.

What arrives is read as `gradcore.load` reads files: containers, numbers, strings, tensors, and classes that
`gradcore.serialization.add_safe_globals` has allowed. Nothing that another process sends can run code.
"""

from __future__ import annotations

import io
from typing import Any

from gradcore.distributed.checks import check_alike, exchange
from gradcore.distributed.collectives import member_of, root_of
from gradcore.serialization import load, save

__all__ = ["all_gather_object", "broadcast_object_list", "gather_object", "scatter_object_list"]


def _packed(value: Any) -> bytes:
    file = io.BytesIO()
    save(value, file)
    return file.getvalue()


def _unpacked(data: bytes) -> Any:
    return load(io.BytesIO(data))


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Write the objects of all processes into a list in each.

    Parameters
    ----------
    object_list : list
        As long as there are ranks.
    obj : object
        Containers, numbers, strings, tensors, and what `gradcore.serialization.add_safe_globals` has allowed.
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
    >>> found = [None]
    >>> gc.distributed.all_gather_object(found, {"rank": 0})
    >>> found
    [{'rank': 0}]
    >>> gc.distributed.destroy_process_group()
    """
    members = member_of(group, "all_gather_object")
    if members is None:
        return
    check_alike(members, members.any_engine, "all_gather_object", {})
    if len(object_list) != members.size():
        raise ValueError(f"all_gather_object: the list has {len(object_list)} places for {members.size()} ranks")
    object_list[:] = map(_unpacked, exchange(members, members.any_engine, _packed(obj), "all_gather_object"))


def broadcast_object_list(
    object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None, group_src: int | None = None
) -> None:
    """Write the objects in the list of one process into those of all others.

    Parameters
    ----------
    object_list : list
        Equally long in all processes.
    src : int
        The rank in the world of the process that sends; by default 0.
    group : ProcessGroup, optional
        By default the world.
    device
        Accepted for compatibility.
    group_src : int, optional
        Its rank in the group, in the place of `src`.

    Raises
    ------
    pickle.UnpicklingError
        If it sends something that is not allowed, see `all_gather_object`.
    """
    members = member_of(group, "broadcast_object_list")
    if members is None:
        return
    root = root_of(members, "broadcast_object_list", "src", 0 if src is None and group_src is None else src, group_src)
    check_alike(members, members.any_engine, "broadcast_object_list", {"src": root, "length": len(object_list)})
    own = _packed(list(object_list)) if members.rank() == root else b""
    sent = exchange(members, members.any_engine, own, "broadcast_object_list")[root]
    if members.rank() != root:
        found = _unpacked(sent)
        if len(found) != len(object_list):
            raise ValueError(
                f"broadcast_object_list: the list has {len(object_list)} objects, and that of the source {len(found)}"
            )
        object_list[:] = found


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
        In the process that gets them: as long as there are ranks.
    dst : int
        The rank in the world of that process; by default 0.
    group : ProcessGroup, optional
        By default the world.
    group_dst : int, optional
        Its rank in the group, in the place of `dst`.
    """
    members = member_of(group, "gather_object")
    if members is None:
        return
    root = root_of(members, "gather_object", "dst", 0 if dst is None and group_dst is None else dst, group_dst)
    check_alike(members, members.any_engine, "gather_object", {"dst": root})
    receives = members.rank() == root
    if receives != (object_gather_list is not None):
        raise ValueError("gather_object: the list is given on the destination rank, and on no other")
    found = exchange(members, members.any_engine, _packed(obj), "gather_object")
    if object_gather_list is not None:
        object_gather_list[:] = map(_unpacked, found)


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
        Its rank in the group, in the place of `src`.
    """
    members = member_of(group, "scatter_object_list")
    if members is None:
        return
    root = root_of(members, "scatter_object_list", "src", 0 if src is None and group_src is None else src, group_src)
    check_alike(members, members.any_engine, "scatter_object_list", {"src": root})
    if not scatter_object_output_list:
        raise ValueError("Expected argument scatter_object_output_list to be a list of size at least 1.")
    own = b""
    if members.rank() == root:
        given = scatter_object_input_list or []
        if len(given) != members.size():
            raise ValueError(f"scatter_object_list: {len(given)} objects for {members.size()} ranks")
        own = _packed([_packed(each).hex() for each in given])
    sent = exchange(members, members.any_engine, own, "scatter_object_list")[root]
    scatter_object_output_list[0] = _unpacked(bytes.fromhex(_unpacked(sent)[members.rank()]))
