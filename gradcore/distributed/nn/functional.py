"""Differentiable collectives, which return new tensors. Gradients flow back to the processes from which values came.

Each collective is a linear map or composed of such maps. So it has derivatives of every order in both modes, also under
`vmap`. If one process differentiates, all of them must, because gradients use collectives too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradcore import functional as F
from gradcore.core.typing import AnyTensor
from gradcore.distributed import array_collectives  # noqa: F401  # adds to groups the methods that the operations call
from gradcore.distributed.collectives import root_of
from gradcore.distributed.groups import ProcessGroup, resolve
from gradcore.distributed.reduce_op import ReduceOp, check_reduction

__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "scatter",
]


def reduce_by(call: str, t: AnyTensor, op: ReduceOp, group: ProcessGroup, total: Any) -> AnyTensor:
    """Return a reduction over processes. `total` computes sums and means; other reductions use the gathered tensors."""
    check_reduction(call, op, t.dtype)
    if op is ReduceOp.SUM:
        return total(t)
    if op is ReduceOp.AVG:
        return total(t) / group.size()
    result = F.all_gather_stacked(t, group)
    if op is ReduceOp.PRODUCT:
        return F.prod(result, 0)
    if op in (ReduceOp.MIN, ReduceOp.MAX):
        return (F.amin if op is ReduceOp.MIN else F.amax)(result, 0)
    raise ValueError(f"{call}: {op} has no derivative; use gradcore.distributed.{call}")


def all_reduce(tensor: AnyTensor, op: ReduceOp = ReduceOp.SUM, group: Any = None) -> AnyTensor:
    """Return the reduction of the tensors of all processes, in each process.

    Parameters
    ----------
    tensor : Tensor
        A tensor of the same shape in all processes.
    op : ReduceOp
        Sum, mean, product, minimum or maximum; ties share the gradient of an extremum.
    group : ProcessGroup, optional
        By default the world.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributed.init_process_group("mpi")
    >>> x = gc.ones(2, requires_grad=True)
    >>> gc.distributed.nn.functional.all_reduce(x).sum().backward()
    >>> x.grad
    tensor([1., 1.])
    >>> gc.distributed.destroy_process_group()
    """
    members = resolve(group)
    return reduce_by("all_reduce", tensor, op, members, lambda t: F.all_reduce_sum(t, members))


def reduce(tensor: AnyTensor, dst: int, op: ReduceOp = ReduceOp.SUM, group: Any = None) -> AnyTensor:
    """Return the reduction of the tensors of all processes in one of them, and zeros in the others.

    Parameters
    ----------
    tensor : Tensor
        A tensor of the same shape in all processes.
    dst : int
        The rank in the world of the process that gets the result.
    op : ReduceOp
        See `all_reduce`.
    group : ProcessGroup, optional
        By default the world.

    Returns
    -------
    Tensor
    """
    members = resolve(group)
    root = root_of(members, "reduce", "dst", dst, None)
    if op in (ReduceOp.SUM, ReduceOp.AVG):
        return reduce_by("reduce", tensor, op, members, lambda t: F.reduce_sum(t, members, root))
    result = reduce_by("reduce", tensor, op, members, None)
    return result if members.rank() == root else result * 0


def broadcast(tensor: AnyTensor, src: int, group: Any = None) -> AnyTensor:
    """Return the tensor of one process, in each process.

    Parameters
    ----------
    tensor : Tensor
        A tensor of the same shape in all processes.
    src : int
        The rank in the world of the process that sends.
    group : ProcessGroup, optional
        By default the world.

    Returns
    -------
    Tensor
    """
    members = resolve(group)
    return F.broadcast_from(tensor, members, root_of(members, "broadcast", "src", src, None))


def all_gather(tensor: AnyTensor, group: Any = None) -> tuple[AnyTensor, ...]:
    """Return the tensors of all processes, in each process.

    Parameters
    ----------
    tensor : Tensor
        A tensor of the same shape in all processes.
    group : ProcessGroup, optional
        By default the world.

    Returns
    -------
    tuple of Tensor
        One tensor of each rank.
    """
    return tuple(F.unbind(F.all_gather_stacked(tensor, resolve(group)), 0))


def gather(tensor: AnyTensor, dst: int = 0, group: Any = None) -> tuple[AnyTensor, ...]:
    """Return the tensors of all processes in one of them, and zeros in the others.

    Parameters
    ----------
    tensor : Tensor
        A tensor of the same shape in all processes.
    dst : int
        The rank in the world of the process that gets them.
    group : ProcessGroup, optional
        By default the world.

    Returns
    -------
    tuple of Tensor
        One tensor of each rank.
    """
    members = resolve(group)
    root = root_of(members, "gather", "dst", dst, None)
    size = members.size()
    is_root = members.rank() == root
    sent_rows = tuple(int(i == root) for i in range(size))
    rows = F.exchange_rows(F.unsqueeze(tensor, 0), members, (1,) * size if is_root else (0,) * size, sent_rows)
    if is_root:
        return tuple(F.unbind(rows, 0))
    # The sum of no rows is zero. Through it, backward makes the same collective call as in the other processes.
    nothing = F.sum(rows, 0)
    return tuple(nothing + 0 for _ in range(size))


def scatter(tensors: Sequence[AnyTensor], src: int = 0, group: Any = None) -> AnyTensor:
    """Return one of the tensors of the process `src`, a different one in each process.

    Parameters
    ----------
    tensors : sequence of Tensor
        One for each rank, all of one shape; those of other processes than `src` count for their shape alone.
    src : int
        The rank in the world of the process that sends.
    group : ProcessGroup, optional
        By default the world.

    Returns
    -------
    Tensor
    """
    members = resolve(group)
    root = root_of(members, "scatter", "src", src, None)
    size = members.size()
    if len(tensors) != size:
        raise ValueError(f"scatter: expected {size} tensors, one per rank, but got {len(tensors)}")
    rows = F.stack(list(tensors), 0)
    is_root = members.rank() == root
    received = tuple(int(i == root) for i in range(size))
    sent_rows = (1,) * size if is_root else (0,) * size
    return F.squeeze(F.exchange_rows(rows if is_root else rows[:0], members, received, sent_rows), 0)


def reduce_scatter(
    output: AnyTensor, input_list: Sequence[AnyTensor], op: ReduceOp = ReduceOp.SUM, group: Any = None
) -> AnyTensor:
    """Return the reduction over all processes of the tensors for this one.

    Parameters
    ----------
    output : Tensor
        Not read: the result is a new tensor.
    input_list : sequence of Tensor
        One tensor for each rank, all of one shape.
    op : ReduceOp
        Sum or mean.
    group : ProcessGroup, optional
        By default the world.

    Returns
    -------
    Tensor
    """
    members = resolve(group)
    if op not in (ReduceOp.SUM, ReduceOp.AVG):
        raise ValueError(f"reduce_scatter: {op} has no derivative here; use gradcore.distributed.reduce_scatter")
    rows = F.stack(list(input_list), 0)
    return reduce_by("reduce_scatter", rows, op, members, lambda t: F.reduce_scatter_sum(t, members))


def all_to_all(
    output_tensor_list: Sequence[AnyTensor], input_tensor_list: Sequence[AnyTensor], group: Any = None
) -> tuple[AnyTensor, ...]:
    """Return a tensor from each process, after sending one to each process.

    Parameters
    ----------
    output_tensor_list : sequence of Tensor
        Read for their shapes: the results are new tensors.
    input_tensor_list : sequence of Tensor
        One tensor for each rank.
    group : ProcessGroup, optional
        By default the world.

    Returns
    -------
    tuple of Tensor
        One tensor from each rank.
    """
    members = resolve(group)
    received = tuple(t.numel() for t in output_tensor_list)
    sent = tuple(t.numel() for t in input_tensor_list)
    elements = F.exchange_rows(F.cat([F.reshape(t, (-1,)) for t in input_tensor_list], 0), members, received, sent)
    parts = F.split(elements, list(received), 0)
    return tuple(F.reshape(part, tuple(t.shape)) for part, t in zip(parts, output_tensor_list, strict=True))


def all_to_all_single(
    output: AnyTensor,
    input: AnyTensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Any = None,
) -> AnyTensor:
    """Return rows from each process, concatenated along the first dim, after sending some rows to each process.

    Parameters
    ----------
    output : Tensor
        Read for its shape: the result is a new tensor.
    input : Tensor
    output_split_sizes, input_split_sizes : sequence of int, optional
        How many rows come from each rank, and go to each; by default equally many.
    group : ProcessGroup, optional
        By default the world.

    Returns
    -------
    Tensor
    """
    members = resolve(group)
    size = members.size()
    received = tuple(output_split_sizes or [output.shape[0] // size] * size)
    sent = tuple(input_split_sizes or [input.shape[0] // size] * size)
    if sum(received) != output.shape[0] or sum(sent) != input.shape[0]:
        raise ValueError(
            f"all_to_all_single: splits {received} and {sent} do not match {output.shape[0]} and {input.shape[0]} rows"
        )
    return F.exchange_rows(input, members, received, sent)
