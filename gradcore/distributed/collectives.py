"""Collectives: calls that all processes of a group make together."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from functools import partial
from typing import Any

from gradcore.autograd.variables import bump_all
from gradcore.core.typing import AnyArray, AnyTensor
from gradcore.distributed.checks import (
    begin_comparison,
    check_alike,
    check_same_kind,
    check_tensor,
    check_tensors,
    check_written,
    is_detailed,
    text_of,
)
from gradcore.distributed.communicator import Communicator, select_engine_op
from gradcore.distributed.groups import GroupMember, ProcessGroup, get_group_rank, resolve
from gradcore.distributed.reduce_op import ReduceOp, check_reduction
from gradcore.distributed.work import Compared, Request, Work, watch
from gradcore.tools.profiler.recording import record_function

__all__ = [
    "Call",
    "all_gather",
    "all_gather_into_tensor",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "gather",
    "member_of",
    "monitored_barrier",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "root_of",
    "scatter",
]


class Call:
    """A collective call of this process: group, engine, tensors, and a description for errors.

    Parameters
    ----------
    name : str
    group : ProcessGroup
    tensors : sequence of Tensor
        All tensors of the call, of one dtype and device.
    written : sequence of Tensor
        The tensors that the call writes to.
    op : ReduceOp, optional
        The reduction.
    **details
        Further arguments that errors show.
    """

    def __init__(
        self,
        name: str,
        group: ProcessGroup,
        tensors: Sequence[AnyTensor],
        written: Sequence[AnyTensor],
        op: ReduceOp | None = None,
        **details: Any,
    ) -> None:
        self.name, self.group, self.written, self.op = name, group, list(written), op
        check_same_kind(name, tensors)
        self.dtype, self.device = tensors[0]._dtype, tensors[0]._device.real
        if op is not None:
            check_reduction(name, op, self.dtype)
        for t in written:
            check_written(name, t)
        self.shapes = [tuple(t._array.shape) for t in tensors]
        self.details = {"dtype": self.dtype.name, "op": None if op is None else op.name, **details}
        self.engine: Communicator = group.engine_for(self.device.type)
        self.engine.check(name, self.dtype, self.device, op)
        #: Numbers on the wire for each element: a complex number is a pair.
        self.width = 2 if self.dtype.is_complex else 1
        #: A function that begins to compare this call with those of the other processes. Messages are not compared.
        self._comparison: Callable[[], Request | None] = lambda: None

    def describe(self) -> str:
        """Return a text that names the call, the process and the arguments."""
        group, shapes = self.group, self.shapes
        shape = f"shape {shapes[0]}" if len(set(shapes)) == 1 else f"shapes {', '.join(map(str, shapes))}"
        return (
            f"rank {group.rank()} of {group.size()}: {self.name}({shape}, {text_of(self.details)}) on {self.device}, "
            f"in group {group.name!r},"
        )

    def check(self, shape: Any = None, parts: Any = None) -> None:
        """Compare the call with those of the other processes: before it in the debug mode, otherwise at the same time.

        Parameters
        ----------
        shape : tuple of int, optional
            The shape that the tensors of all processes must have. Comparisons at the same time as the call only
            check its number of elements.
        parts : pair of sequences of int, optional
            The number of elements sent to each process, and the number received from each.
        """
        shown = self.details if shape is None else {"shape": shape, **self.details}
        if is_detailed():
            check_alike(self.group, self.engine, self.name, shown, parts)
        else:
            expected = self.details if shape is None else {"numel": math.prod(shape), **self.details}
            self._comparison = partial(begin_comparison, self.group, self.engine, self.name, expected, parts, shown)

    # -- from tensors to what the engine carries, and back --------------------------------------------------------

    def pack_tensors(self, tensors: Sequence[AnyTensor]) -> AnyArray:
        """Return the elements of all tensors in one flat array, in the format that the engine sends."""
        return self._wire([t._array for t in tensors])

    def _wire(self, arrays: Sequence[AnyArray]) -> AnyArray:
        with self._use_device():
            if len(arrays) == 1:
                return self.engine.wire(_contiguous(self.device, arrays[0]), self.op is not None)
            xp = self.device.backend.xp
            return self.engine.wire(xp.concatenate([a.reshape(-1) for a in arrays]), self.op is not None)

    def _use_device(self) -> AbstractContextManager[Any]:
        """Return a context in which the device of the tensors is current."""
        result: AbstractContextManager[Any] = self.device.backend.use_index(self.device.index)
        return result

    def target(self, filled: bool = False, tensors: Sequence[AnyTensor] | None = None) -> tuple[AnyArray, Any]:
        """Return memory for the result, and a function that copies it to the tensors.

        The tensor itself is used if possible.

        Parameters
        ----------
        filled : bool
            Whether the tensors' elements are read too.
        tensors : sequence of Tensor, optional
            By default all that are written.
        """
        arrays = [t._array for t in (self.written if tensors is None else tensors)]
        if len(arrays) == 1 and _can_be_sent(arrays[0]):
            buffer = self.engine.wire(arrays[0], self.op is not None)
            if buffer.nbytes == arrays[0].nbytes:
                return buffer, lambda: self._divide(buffer)
        if filled:
            buffer = self._wire(arrays)
        else:
            sample = self._wire([self.device.backend.xp.empty(0, arrays[0].dtype)])
            with self._use_device():
                buffer = self.device.backend.xp.empty(sum(a.size for a in arrays) * self.width, sample.dtype)

        def finish() -> None:
            self._divide(buffer)
            start = 0
            for array in arrays:
                end = start + array.size * self.width
                array[...] = self.engine.unwire(buffer[start:end], array)
                start = end

        return buffer, finish

    def _divide(self, buffer: AnyArray) -> None:
        """Divide a sum by the number of processes, in place, unless the engine has computed a mean."""
        if self.op is ReduceOp.AVG and not self.engine.averages and self.engine.size > 1:
            buffer /= buffer.dtype.type(self.engine.size)

    @property
    def engine_op(self) -> ReduceOp:
        """Return the reduction that the engine performs, see `select_engine_op`."""
        assert self.op is not None
        return select_engine_op(self.op, self.dtype.category == 0, self.engine.averages)

    def start(
        self,
        begin: Callable[[], Request],
        finish: Callable[[], None] | None,
        async_op: bool,
        handle: type[Work] = Work,
    ) -> Work | None:
        """Start the call, and wait for it unless `async_op`, in which case a handle is returned."""
        written = self.written
        bump_all(written)

        def complete_call() -> None:
            if finish is not None:
                with self._use_device():
                    finish()
            if async_op:
                # A node that has saved the tensor since the start of the call has saved values that were overwritten.
                bump_all(written)

        with record_function(f"gradcore::{self.name}"), self._use_device():
            try:
                comparison = self._comparison()
                request = begin() if comparison is None else Compared(begin(), comparison)
            except Exception as error:
                work = handle(self.group, Request(), self.describe, written)
                work._error = error
            else:
                work = handle(self.group, request, self.describe, written, complete_call)
            if async_op:
                watch(work)
                return work
            if work._request.watched:
                watch(work)
            work.wait()
        return None


def _can_be_sent(array: AnyArray) -> bool:
    """Return whether engines can send an array as it is: contiguous and, unlike arrays of mapped files, aligned."""
    return array.flags.c_contiguous and getattr(array.flags, "aligned", True)


def _contiguous(device: Any, array: AnyArray) -> AnyArray:
    return array if _can_be_sent(array) else device.backend.xp.array(array, order="C")


def member_of(group: Any, call: str) -> ProcessGroup | None:
    """Return the group of a call, or None with a warning if this process is not in it."""
    if isinstance(group, int) and group == GroupMember.NON_GROUP_MEMBER:
        warnings.warn(f"Running {call} on a rank that is not part of the group has no effect", stacklevel=3)
        return None
    return resolve(group)


def root_of(group: ProcessGroup, call: str, name: str, root: int | None, group_root: int | None) -> int:
    """Return the rank in the group of the root process, which is given by its rank in the world or in the group."""
    if group_root is not None:
        if root is not None:
            raise ValueError(f"{call}: Can't specify both group_{name} and {name}")
        if not 0 <= group_root < group.size():
            raise ValueError(f"{call}: group_{name} {group_root} is not in the group of {group.size()}")
        return group_root
    if root is None:
        raise ValueError(f"{call}: {name} or group_{name} is needed")
    return get_group_rank(group, root)


# -- one tensor --------------------------------------------------------------------------------------------------------


def all_reduce(tensor: AnyTensor, op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Any:
    """Reduce the tensors of all processes into the tensor of each, in place.

    Parameters
    ----------
    tensor : Tensor
        A tensor of the same size in all processes. MPI reduces float16 and bfloat16 in float32, and rounds once.
    op : ReduceOp
    group : ProcessGroup, optional
        By default the world.
    async_op : bool
        Return a handle at once.

    Returns
    -------
    Work or None

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributed.init_process_group("mpi")
    >>> t = gc.tensor([1.0, 2.0])
    >>> gc.distributed.all_reduce(t)
    >>> t
    tensor([1., 2.])
    >>> gc.distributed.destroy_process_group()
    """
    check_tensor("all_reduce", "tensor", tensor)
    members = member_of(group, "all_reduce")
    if members is None:
        return None
    call = Call("all_reduce", members, [tensor], [tensor], op)
    call.check(shape=call.shapes[0])
    buffer, finish = call.target(filled=True)
    return call.start(lambda: call.engine.all_reduce(buffer, call.engine_op), finish, async_op)


def reduce(
    tensor: AnyTensor,
    dst: int | None = None,
    op: ReduceOp = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Any:
    """Reduce the tensors of all processes into the tensor of one, in place; those of the others stay as they are.

    Parameters
    ----------
    tensor : Tensor
        A tensor of the same size in all processes.
    dst : int
        The rank in the world of the process that gets the result.
    op : ReduceOp
    group : ProcessGroup, optional
        By default the world.
    async_op : bool
        Return a handle at once.
    group_dst : int, optional
        The rank of that process in the group, instead of `dst`.

    Returns
    -------
    Work or None

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributed.init_process_group("mpi")
    >>> t = gc.tensor([1.0, 2.0])
    >>> gc.distributed.reduce(t, dst=0)
    >>> gc.distributed.destroy_process_group()
    """
    check_tensor("reduce", "tensor", tensor)
    members = member_of(group, "reduce")
    if members is None:
        return None
    root = root_of(members, "reduce", "dst", dst, group_dst)
    call = Call("reduce", members, [tensor], [tensor] if members.rank() == root else [], op, dst=members.ranks[root])
    call.check(shape=call.shapes[0])
    if members.rank() == root:
        buffer, finish = call.target(filled=True)
    else:
        buffer, finish = call.pack_tensors([tensor]), None
    return call.start(lambda: call.engine.reduce(buffer, call.engine_op, root), finish, async_op)


def broadcast(
    tensor: AnyTensor, src: int | None = None, group: Any = None, async_op: bool = False, group_src: int | None = None
) -> Any:
    """Write the tensor of one process into those of all others.

    Parameters
    ----------
    tensor : Tensor
        A tensor of the same size in all processes.
    src : int
        The rank in the world of the process that sends.
    group : ProcessGroup, optional
        By default the world.
    async_op : bool
        Return a handle at once.
    group_src : int, optional
        The rank of that process in the group, instead of `src`.

    Returns
    -------
    Work or None

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributed.init_process_group("mpi")
    >>> gc.distributed.broadcast(gc.ones(2), src=0)
    >>> gc.distributed.destroy_process_group()
    """
    check_tensor("broadcast", "tensor", tensor)
    members = member_of(group, "broadcast")
    if members is None:
        return None
    root = root_of(members, "broadcast", "src", src, group_src)
    sends = members.rank() == root
    call = Call("broadcast", members, [tensor], [] if sends else [tensor], src=members.ranks[root])
    call.check(shape=call.shapes[0])
    buffer, finish = (call.pack_tensors([tensor]), None) if sends else call.target()
    return call.start(lambda: call.engine.broadcast(buffer, root), finish, async_op)


# -- one tensor for each rank ------------------------------------------------------------------------------------------


def _numels(tensors: Sequence[AnyTensor]) -> list[int]:
    """Return the numbers of elements of tensors."""
    return [t._array.size for t in tensors]


def _check_size(call: str, name: str, size: int, expected: int, other: str) -> None:
    """Raise ValueError if the argument `name` has another number of elements than `other`, which it must match."""
    if size != expected:
        raise ValueError(f"{call}: `{name}` has {size} elements, and {other} has {expected}")


def all_gather(tensor_list: list[AnyTensor], tensor: AnyTensor, group: Any = None, async_op: bool = False) -> Any:
    """Write the tensors of all processes into a list of tensors in each.

    Parameters
    ----------
    tensor_list : list of Tensor
        One tensor for each rank, each with the size of that rank's `tensor`; sizes may differ between ranks.
    tensor : Tensor
    group : ProcessGroup, optional
        By default the world.
    async_op : bool
        Return a handle at once.

    Returns
    -------
    Work or None

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributed.init_process_group("mpi")
    >>> out = [gc.empty(2)]
    >>> gc.distributed.all_gather(out, gc.ones(2))
    >>> out
    [tensor([1., 1.])]
    >>> gc.distributed.destroy_process_group()
    """
    check_tensor("all_gather", "tensor", tensor)
    members = member_of(group, "all_gather")
    if members is None:
        return None
    check_tensors("all_gather", "tensor_list", tensor_list, members.size())
    call = Call("all_gather", members, [tensor, *tensor_list], tensor_list)
    counts = _numels(tensor_list)
    _check_size("all_gather", "tensor", tensor._array.size, counts[members.rank()], "its place in `tensor_list`")
    call.check(parts=([counts[members.rank()]] * len(counts), counts))
    out, finish = call.target()
    elements, counts = call.pack_tensors([tensor]), [call.width * n for n in counts]
    return call.start(lambda: call.engine.all_gather(out, elements, counts), finish, async_op)


def all_gather_into_tensor(
    output_tensor: AnyTensor, input_tensor: AnyTensor, group: Any = None, async_op: bool = False
) -> Any:
    """Write the tensors of all processes into one tensor in each: concatenated, or stacked.

    Parameters
    ----------
    output_tensor : Tensor
        As many times the size of the input as there are ranks.
    input_tensor : Tensor
        A tensor of the same size in all processes. If it is this process's part of `output_tensor`, it is not copied.
    group : ProcessGroup, optional
        By default the world.
    async_op : bool
        Return a handle at once.

    Returns
    -------
    Work or None

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributed.init_process_group("mpi")
    >>> out = gc.empty(1, 2)
    >>> gc.distributed.all_gather_into_tensor(out, gc.ones(2))
    >>> out
    tensor([[1., 1.]])
    >>> gc.distributed.destroy_process_group()
    """
    name = "all_gather_into_tensor"
    check_tensor(name, "output_tensor", output_tensor)
    check_tensor(name, "input_tensor", input_tensor)
    members = member_of(group, name)
    if members is None:
        return None
    call = Call(name, members, [input_tensor, output_tensor], [output_tensor])
    count = input_tensor._array.size
    _check_size(name, "output_tensor", output_tensor._array.size, count * members.size(), "all input together")
    call.check(shape=call.shapes[0])
    out, finish = call.target()
    elements, counts = call.pack_tensors([input_tensor]), [call.width * count] * members.size()
    return call.start(lambda: call.engine.all_gather(out, elements, counts), finish, async_op)


def gather(
    tensor: AnyTensor,
    gather_list: list[AnyTensor] | None = None,
    dst: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Any:
    """Write the tensors of all processes into a list of tensors in one.

    Parameters
    ----------
    tensor : Tensor
    gather_list : list of Tensor, optional
        In the process that gets them: one for each rank, each with the size of that rank's `tensor`.
    dst : int
        The rank in the world of that process; by default 0.
    group : ProcessGroup, optional
        By default the world.
    async_op : bool
        Return a handle at once.
    group_dst : int, optional
        The rank of that process in the group, instead of `dst`.

    Returns
    -------
    Work or None

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributed.init_process_group("mpi")
    >>> out = [gc.empty(2)]
    >>> gc.distributed.gather(gc.ones(2), out, dst=0)
    >>> gc.distributed.destroy_process_group()
    """
    check_tensor("gather", "tensor", tensor)
    members = member_of(group, "gather")
    if members is None:
        return None
    root = root_of(members, "gather", "dst", 0 if dst is None and group_dst is None else dst, group_dst)
    receives = members.rank() == root
    _check_list("gather", "gather_list", gather_list, members, receives, "destination")
    lists: list[AnyTensor] = gather_list if receives and gather_list else []
    call = Call("gather", members, [tensor, *lists], lists, dst=members.ranks[root])
    sizes = [tensor._array.size if i == root else 0 for i in range(members.size())]
    counts = _numels(lists)
    if receives:
        _check_size("gather", "tensor", tensor._array.size, counts[root], "its place in `gather_list`")
    call.check(parts=(sizes, counts or [0] * members.size()))
    out, finish = call.target() if receives else (None, None)
    elements, counts = call.pack_tensors([tensor]), [call.width * n for n in counts]
    return call.start(lambda: call.engine.gather(out, elements, counts, root), finish, async_op)


def _check_list(call: str, name: str, tensors: Any, group: ProcessGroup, is_root: bool, role: str) -> None:
    """Check a list of tensors that the root process alone passes, whose role is "source" or "destination"."""
    if not is_root:
        if tensors:
            raise ValueError(f"{call}: Argument ``{name}`` must NOT be specified on non-{role} ranks.")
        return
    if not tensors:
        raise ValueError(f"{call}: Argument ``{name}`` must be specified on {role} rank.")
    check_tensors(call, name, tensors, group.size())


def scatter(
    tensor: AnyTensor,
    scatter_list: list[AnyTensor] | None = None,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Any:
    """Write each tensor of a list in one process into the tensor of another.

    Parameters
    ----------
    tensor : Tensor
    scatter_list : list of Tensor, optional
        In the process that sends: one for each rank, each with the size of that rank's output.
    src : int
        The rank in the world of that process; by default 0.
    group : ProcessGroup, optional
        By default the world.
    async_op : bool
        Return a handle at once.
    group_src : int, optional
        The rank of that process in the group, instead of `src`.

    Returns
    -------
    Work or None

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributed.init_process_group("mpi")
    >>> t = gc.empty(2)
    >>> gc.distributed.scatter(t, [gc.ones(2)], src=0)
    >>> gc.distributed.destroy_process_group()
    """
    check_tensor("scatter", "tensor", tensor)
    members = member_of(group, "scatter")
    if members is None:
        return None
    root = root_of(members, "scatter", "src", 0 if src is None and group_src is None else src, group_src)
    sends = members.rank() == root
    _check_list("scatter", "scatter_list", scatter_list, members, sends, "source")
    lists: list[AnyTensor] = scatter_list if sends and scatter_list else []
    call = Call("scatter", members, [tensor, *lists], [tensor], src=members.ranks[root])
    counts = _numels(lists)
    received = [tensor._array.size if i == root else 0 for i in range(members.size())]
    if sends:
        _check_size("scatter", "tensor", tensor._array.size, counts[root], "its place in `scatter_list`")
    call.check(parts=(counts or [0] * members.size(), received))
    out, finish = call.target()
    elements, counts = call.pack_tensors(lists) if sends else None, [call.width * n for n in counts]
    return call.start(lambda: call.engine.scatter(out, elements, counts, root), finish, async_op)


def reduce_scatter(
    output: AnyTensor,
    input_list: list[AnyTensor],
    op: ReduceOp = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """Reduce a list of tensors over all processes, and write one of the results into the tensor of each.

    Parameters
    ----------
    output : Tensor
    input_list : list of Tensor
        One tensor for each rank, each with the size of that rank's output.
    op : ReduceOp
    group : ProcessGroup, optional
        By default the world.
    async_op : bool
        Return a handle at once.

    Returns
    -------
    Work or None

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributed.init_process_group("mpi")
    >>> t = gc.empty(2)
    >>> gc.distributed.reduce_scatter(t, [gc.ones(2)])
    >>> gc.distributed.destroy_process_group()
    """
    check_tensor("reduce_scatter", "output", output)
    members = member_of(group, "reduce_scatter")
    if members is None:
        return None
    check_tensors("reduce_scatter", "input_list", input_list, members.size())
    call = Call("reduce_scatter", members, [output, *input_list], [output], op)
    counts = _numels(input_list)
    _check_size("reduce_scatter", "output", output._array.size, counts[members.rank()], "its place in `input_list`")
    call.check(parts=(counts, [output._array.size] * members.size()))
    return _reduce_scatter(call, input_list, counts, async_op)


def _reduce_scatter(call: Call, tensors: Sequence[AnyTensor], counts: Sequence[int], async_op: bool) -> Any:
    out, finish = call.target()
    elements, counts = call.pack_tensors(tensors), [call.width * n for n in counts]
    return call.start(lambda: call.engine.reduce_scatter(out, elements, counts, call.engine_op), finish, async_op)


def reduce_scatter_tensor(
    output: AnyTensor, input: AnyTensor, op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Any:
    """Reduce a tensor over all processes, and write a part of the result into the tensor of each.

    Parameters
    ----------
    output : Tensor
    input : Tensor
        As many times the size of the output as there are ranks.
    op : ReduceOp
    group : ProcessGroup, optional
        By default the world.
    async_op : bool
        Return a handle at once.

    Returns
    -------
    Work or None

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributed.init_process_group("mpi")
    >>> t = gc.empty(2)
    >>> gc.distributed.reduce_scatter_tensor(t, gc.ones(2))
    >>> gc.distributed.destroy_process_group()
    """
    name = "reduce_scatter_tensor"
    check_tensor(name, "output", output)
    check_tensor(name, "input", input)
    members = member_of(group, name)
    if members is None:
        return None
    call = Call(name, members, [input, output], [output], op)
    count = output._array.size
    _check_size(name, "input", input._array.size, count * members.size(), "all output together")
    call.check(shape=call.shapes[0])
    return _reduce_scatter(call, [input], [count] * members.size(), async_op)


def all_to_all(
    output_tensor_list: list[AnyTensor], input_tensor_list: list[AnyTensor], group: Any = None, async_op: bool = False
) -> Any:
    """Send each tensor of a list to another process, and receive one from each.

    Parameters
    ----------
    output_tensor_list, input_tensor_list : list of Tensor
        One for each rank. A sent tensor and the received one must have the same size; sizes may differ otherwise.
    group : ProcessGroup, optional
        By default the world.
    async_op : bool
        Return a handle at once.

    Returns
    -------
    Work or None

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributed.init_process_group("mpi")
    >>> gc.distributed.all_to_all([gc.empty(2)], [gc.ones(2)])
    >>> gc.distributed.destroy_process_group()
    """
    members = member_of(group, "all_to_all")
    if members is None:
        return None
    check_tensors("all_to_all", "output_tensor_list", output_tensor_list, members.size())
    check_tensors("all_to_all", "input_tensor_list", input_tensor_list, members.size())
    call = Call("all_to_all", members, [*input_tensor_list, *output_tensor_list], output_tensor_list)
    return _all_to_all(call, input_tensor_list, _numels(output_tensor_list), _numels(input_tensor_list), async_op)


def _all_to_all(
    call: Call, tensors: Sequence[AnyTensor], out_counts: Sequence[int], counts: Sequence[int], async_op: bool
) -> Any:
    call.check(parts=(list(counts), list(out_counts)))
    out, finish = call.target()
    elements = call.pack_tensors(tensors)
    sizes = [call.width * n for n in out_counts], [call.width * n for n in counts]
    return call.start(lambda: call.engine.all_to_all(out, elements, *sizes), finish, async_op)


def all_to_all_single(
    output: AnyTensor,
    input: AnyTensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """Send parts of a tensor, along its first dim, to all processes, and receive parts of another from all.

    Parameters
    ----------
    output, input : Tensor
    output_split_sizes, input_split_sizes : sequence of int, optional
        How many rows come from each rank, and go to each; by default equally many.
    group : ProcessGroup, optional
        By default the world.
    async_op : bool
        Return a handle at once.

    Returns
    -------
    Work or None

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributed.init_process_group("mpi")
    >>> gc.distributed.all_to_all_single(gc.empty(2), gc.ones(2))
    >>> gc.distributed.destroy_process_group()
    """
    name = "all_to_all_single"
    check_tensor(name, "output", output)
    check_tensor(name, "input", input)
    members = member_of(group, name)
    if members is None:
        return None
    call = Call(name, members, [input, output], [output])
    out_counts = _split_counts(name, output, output_split_sizes, members.size())
    counts = _split_counts(name, input, input_split_sizes, members.size())
    return _all_to_all(call, [input], out_counts, counts, async_op)


def _split_counts(call: str, t: AnyTensor, sizes: Sequence[int] | None, ranks: int) -> list[int]:
    """Return the numbers of elements of the parts of a tensor along its first dim."""
    rows = t._array.shape[0] if t._array.ndim else 1
    if not sizes:
        if rows % ranks:
            raise ValueError(f"{call}: Tensor's dim 0 of size {rows} does not divide equally across group size {ranks}")
        sizes = [rows // ranks] * ranks
    elif len(sizes) != ranks or sum(sizes) != rows:
        raise ValueError(f"{call}: Split sizes {list(sizes)} don't match total dim 0 size {rows} of {ranks} ranks")
    of_row = t._array.size // rows if rows else 0
    return [size * of_row for size in sizes]


# -- no tensor ---------------------------------------------------------------------------------------------------------


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Any:
    """Wait until all processes have made this call.

    Parameters
    ----------
    group : ProcessGroup, optional
        By default the world.
    async_op : bool
        Return a handle at once.
    device_ids
        Accepted for compatibility.

    Returns
    -------
    Work or None

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributed.init_process_group("mpi")
    >>> gc.distributed.barrier()
    >>> gc.distributed.destroy_process_group()
    """
    members = member_of(group, "barrier")
    if members is None:
        return None
    engine = members.any_engine
    check_alike(members, engine, "barrier", {})
    description = f"rank {members.rank()} of {members.size()}: barrier in group {members.name!r}"
    comparison = None if is_detailed() else begin_comparison(members, engine, "barrier", {}, None, {})
    # The comparison is a barrier itself.
    work = Work(members, comparison or engine.barrier(), lambda: description, ())
    if async_op:
        watch(work)
        return work
    work.wait()
    return None


def monitored_barrier(group: Any = None, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
    """Wait until all processes have made this call, up to a time limit.

    Parameters
    ----------
    group : ProcessGroup, optional
        By default the world.
    timeout : timedelta, optional
        By default that of the group.
    wait_all_ranks : bool
        Accepted for compatibility.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributed.init_process_group("mpi")
    >>> gc.distributed.monitored_barrier()
    >>> gc.distributed.destroy_process_group()
    """
    work = barrier(group, async_op=True)
    if work is not None:
        work.wait(timeout)
