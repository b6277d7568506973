"""Messages between two processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradcore.core.typing import AnyTensor
from gradcore.distributed.checks import check_tensor
from gradcore.distributed.collectives import Call, member_of, root_of
from gradcore.distributed.groups import ProcessGroup
from gradcore.distributed.work import Work

__all__ = ["P2POp", "batch_isend_irecv", "irecv", "isend", "recv", "send"]


def _peer(group: ProcessGroup, call: str, name: str, peer: int | None, group_peer: int | None) -> int:
    rank = root_of(group, call, name, peer, group_peer)
    if rank == group.rank():
        raise ValueError(f"Invalid {name}: the rank of this process itself, {group.ranks[rank]}")
    return rank


def isend(
    tensor: AnyTensor, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None
) -> Any:
    """Send a tensor to another process without waiting.

    Parameters
    ----------
    tensor : Tensor
        It must not be modified before the handle's ``wait`` has returned.
    dst : int
        The rank in the world of the process that receives.
    group : ProcessGroup, optional
        By default the world.
    tag : int
        Messages are received by their tags; NCCL has none.
    group_dst : int, optional
        The rank in the group, instead of `dst`.

    Returns
    -------
    Work
    """
    return _send("isend", tensor, dst, group, tag, group_dst, True)


def send(
    tensor: AnyTensor, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None
) -> None:
    """Send a tensor to another process, and wait until the tensor may be changed; see `isend`."""
    _send("send", tensor, dst, group, tag, group_dst, False)


def _send(name: str, tensor: Any, dst: int | None, group: Any, tag: int, group_dst: int | None, later: bool) -> Any:
    check_tensor(name, "tensor", tensor)
    members = member_of(group, name)
    if members is None:
        return None
    to = _peer(members, name, "dst", dst, group_dst)
    call = Call(name, members, [tensor], [], dst=members.ranks[to], tag=tag or None)
    elements = call.pack_tensors([tensor])
    return call.start(lambda: call.engine.send(elements, to, tag), None, later)


def irecv(
    tensor: AnyTensor, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None
) -> Any:
    """Receive a tensor from another process without waiting.

    Parameters
    ----------
    tensor : Tensor
        Of the size and dtype of the sent tensor. It is complete when the handle's ``wait`` has returned.
    src : int, optional
        The rank in the world of the process that sends; by default any, which NCCL cannot do.
    group : ProcessGroup, optional
        By default the world.
    tag : int
        The tag of the message. NCCL does not support tags.
    group_src : int, optional
        The rank in the group, instead of `src`.

    Returns
    -------
    Work
    """
    return _receive("irecv", tensor, src, group, tag, group_src)


def recv(
    tensor: AnyTensor, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None
) -> int:
    """Receive a tensor from another process, and wait for it; see `irecv`.

    Returns
    -------
    int
        The rank in the world of the process that has sent it.
    """
    work = _receive("recv", tensor, src, group, tag, group_src)
    if work is None:
        return -1
    work.wait()
    return int(work.source_rank())


class _Receipt(Work):
    """Handle of a message that is being received."""

    def source_rank(self) -> int:
        """Return the rank in the world of the process that has sent the message."""
        source: int = self._request.source  # type: ignore[attr-defined]
        return int(self._group.ranks[source])


def _receive(name: str, tensor: Any, src: int | None, group: Any, tag: int, group_src: int | None) -> Any:
    check_tensor(name, "tensor", tensor)
    members = member_of(group, name)
    if members is None:
        return None
    source = None if src is None and group_src is None else _peer(members, name, "src", src, group_src)
    source_rank = "any" if source is None else members.ranks[source]
    call = Call(name, members, [tensor], [tensor], src=source_rank, tag=tag or None)
    buffer, finish = call.target()
    return call.start(lambda: call.engine.receive(buffer, source, tag), finish, True, _Receipt)


class P2POp:
    """A message for `batch_isend_irecv` to send or receive.

    Parameters
    ----------
    op : callable
        `isend` or `irecv`.
    tensor : Tensor
    peer : int
        The rank in the world of the other process.
    group : ProcessGroup, optional
        By default the world.
    tag : int
    group_peer : int, optional
        The rank in the group, instead of `peer`.
    """

    def __init__(
        self,
        op: Callable[..., Any],
        tensor: AnyTensor,
        peer: int | None = None,
        group: Any = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if op not in (isend, irecv):
            raise ValueError("Invalid ``op``. Expected ``op`` to be of type ``isend`` or ``irecv``.")
        check_tensor("P2POp", "tensor", tensor)
        self.op, self.tensor, self.group, self.tag = op, tensor, group, tag
        self.peer, self.group_peer = peer, group_peer


P2POp.__module__ = __name__.rpartition(".")[0]


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[Any]:
    """Send and receive several messages that do not wait for each other.

    Parameters
    ----------
    p2p_op_list : sequence of P2POp
        All in one group.

    Returns
    -------
    list of Work
    """
    if not p2p_op_list or not all(isinstance(each, P2POp) for each in p2p_op_list):
        raise ValueError("Invalid ``p2p_op_list``. Each op is expected to to be of type ``P2POp``.")
    members = [member_of(each.group, "batch_isend_irecv") for each in p2p_op_list]
    if any(group is not members[0] for group in members):
        raise ValueError("All ops need to use the same group.")
    if members[0] is None:
        return []
    engine = members[0].engine_for(p2p_op_list[0].tensor._device.type)
    with engine.batch():
        return [each.op(each.tensor, each.peer, each.group, each.tag, each.group_peer) for each in p2p_op_list]
