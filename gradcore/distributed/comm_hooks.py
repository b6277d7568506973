"""Communication hooks for `DistributedDataParallel`: means of gradients, exact, or rounded for fewer bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradcore import dtypes
from gradcore.distributed import collectives
from gradcore.distributed.buckets import GradBucket
from gradcore.distributed.groups import find
from gradcore.futures import Future

__all__ = [
    "allreduce_hook",
    "bf16_compress_hook",
    "bf16_compress_wrapper",
    "fp16_compress_hook",
    "fp16_compress_wrapper",
]

Hook = Callable[[Any, GradBucket], Future[Any]]


def allreduce_hook(process_group: Any, bucket: GradBucket) -> Future[Any]:
    """The mean over all processes: what happens without a hook.

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
    sent = (buffer if dtype is None else buffer.to(dtype)).div_(group.size())
    work = collectives.all_reduce(sent, group=group, async_op=True)
    future: Future[Any] = work.get_future()
    return future.then(lambda future: future.value()[0].to(buffer.dtype))


def fp16_compress_hook(process_group: Any, bucket: GradBucket) -> Future[Any]:
    """The mean over all processes of gradients that are rounded to float16.

    Parameters
    ----------
    process_group : ProcessGroup or None
        The state of the hook; by default the world.
    bucket : GradBucket
    """
    return _mean(process_group, bucket, dtypes.float16)


def bf16_compress_hook(process_group: Any, bucket: GradBucket) -> Future[Any]:
    """The mean over all processes of gradients that are rounded to bfloat16.

    Parameters
    ----------
    process_group : ProcessGroup or None
        The state of the hook; by default the world.
    bucket : GradBucket
    """
    return _mean(process_group, bucket, dtypes.bfloat16)


def _wrapper(hook: Hook, dtype: Any) -> Hook:
    def compressed(state: Any, bucket: GradBucket) -> Future[Any]:
        whole = bucket._buffer
        bucket._buffer = whole.to(dtype)
        try:
            future = hook(state, bucket)
        finally:
            bucket._buffer = whole
        return future.then(lambda f: _tensor(f.value()).to(whole.dtype))

    return compressed


def _tensor(value: Any) -> Any:
    return value[0] if isinstance(value, (list, tuple)) else value


def fp16_compress_wrapper(hook: Hook) -> Hook:
    """Another hook, which gets and returns gradients in float16."""
    return _wrapper(hook, dtypes.float16)


def bf16_compress_wrapper(hook: Hook) -> Hook:
    """Another hook, which gets and returns gradients in bfloat16."""
    return _wrapper(hook, dtypes.bfloat16)
