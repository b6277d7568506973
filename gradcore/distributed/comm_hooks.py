"""Communication hooks for `DistributedDataParallel`: means of gradients, exact or rounded to send fewer bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradcore.core import dtypes
from gradcore.core.typing import AnyTensor
from gradcore.distributed import collectives
from gradcore.distributed.buckets import GradBucket
from gradcore.distributed.groups import ProcessGroup, find
from gradcore.tensor.creation import empty_like, zeros
from gradcore.torch_names.futures import Future

__all__ = [
    "allreduce_hook",
    "bf16_compress_hook",
    "bf16_compress_wrapper",
    "fp16_compress_hook",
    "fp16_compress_wrapper",
]

Hook = Callable[[Any, GradBucket], Future[Any]]


def allreduce_hook(process_group: Any, bucket: GradBucket) -> Future[Any]:
    """Return the mean over all processes, as without a hook.

    Parameters
    ----------
    process_group : ProcessGroup or None
        The state of the hook; by default the world.
    bucket : GradBucket
    """
    return _mean(process_group, bucket, None)


def _mean(process_group: Any, bucket: GradBucket, dtype: Any) -> Future[Any]:
    group = find(process_group)
    buffer = bucket.buffer()
    if dtype is not None and not group.engine_for(buffer.device.type).reduces_halves:
        return _mean_of_halves(group, buffer, buffer.to(dtype))
    rounded = (buffer if dtype is None else buffer.to(dtype)).div_(group.size())
    work = collectives.all_reduce(rounded, group=group, async_op=True)
    future: Future[Any] = work.get_future()
    return future.then(lambda future: future.value()[0].to(buffer.dtype))


def _mean_of_halves(group: ProcessGroup, buffer: AnyTensor, sent: AnyTensor) -> Future[Any]:
    """Return the mean of rounded numbers, with half the bytes of an all_reduce in float32.

    It is used if the engine would send sums of 16-bit numbers in float32. Each process gets a share of the numbers of
    all processes, sums it in float32, rounds the mean, and sends it to the others. The second half of the communication
    starts when the result is waited for.
    """
    size = group.size()
    share = -(-sent.numel() // size)
    rows = zeros(share * size, dtype=sent.dtype, device=sent.device)
    rows[: sent.numel()] = sent
    received = empty_like(rows)
    work = collectives.all_to_all_single(received, rows, group=group, async_op=True)

    def gather(_: Future[Any]) -> AnyTensor:
        mean = (received.view(size, share).float().sum(0) / size).to(sent.dtype)
        collectives.all_gather_into_tensor(rows, mean, group=group)
        return rows[: sent.numel()].to(buffer.dtype)

    future: Future[Any] = work.get_future()
    return future.then(gather)


def fp16_compress_hook(process_group: Any, bucket: GradBucket) -> Future[Any]:
    """Return the mean over all processes of gradients rounded to float16.

    Parameters
    ----------
    process_group : ProcessGroup or None
        The state of the hook; by default the world.
    bucket : GradBucket
    """
    return _mean(process_group, bucket, dtypes.float16)


def bf16_compress_hook(process_group: Any, bucket: GradBucket) -> Future[Any]:
    """Return the mean over all processes of gradients rounded to bfloat16.

    Parameters
    ----------
    process_group : ProcessGroup or None
        The state of the hook; by default the world.
    bucket : GradBucket
    """
    return _mean(process_group, bucket, dtypes.bfloat16)


def _wrapper(hook: Hook, dtype: Any) -> Hook:
    def average_compressed(state: Any, bucket: GradBucket) -> Future[Any]:
        buffer = bucket._buffer
        bucket._buffer = buffer.to(dtype)
        try:
            future = hook(state, bucket)
        finally:
            bucket._buffer = buffer
        return future.then(lambda f: _tensor(f.value()).to(buffer.dtype))

    return average_compressed


def _tensor(value: Any) -> Any:
    return value[0] if isinstance(value, (list, tuple)) else value


def fp16_compress_wrapper(hook: Hook) -> Hook:
    """Return a hook that calls `hook` with gradients in float16."""
    return _wrapper(hook, dtypes.float16)


def bf16_compress_wrapper(hook: Hook) -> Hook:
    """Return a hook that calls `hook` with gradients in bfloat16."""
    return _wrapper(hook, dtypes.bfloat16)
