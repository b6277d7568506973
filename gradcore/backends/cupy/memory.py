"""Tracking of CuPy's memory pools: peak usage, and out-of-memory errors with sizes."""

from __future__ import annotations

from typing import Any, ClassVar

from gradcore.core.errors import OutOfMemoryError

__all__ = ["Peaks", "allocator"]


class Peaks:
    """Peak memory usage in bytes of each tracked device, over all threads."""

    watched: ClassVar[dict[int, int]] = {}

    @classmethod
    def of(cls, index: int) -> int | None:
        """Return the peak usage of a device in bytes, or None if it is not tracked."""
        return cls.watched.get(index)

    @classmethod
    def watch(cls, index: int, used: int) -> None:
        """Start tracking a device, with `used` bytes as its peak."""
        cls.watched[index] = used

    @classmethod
    def note(cls, backend: Any) -> None:
        """Update the peak of the current device, if it is tracked."""
        index, peaks = backend.current_index(), cls.watched
        if index in peaks:
            peaks[index] = max(peaks[index], backend.pools.used_bytes())


def allocator(backend: Any, malloc: Any) -> Any:
    """Return a function that calls `malloc` of a pool, and whose error gives the size requested and the memory in use.

    Before it allocates, memory whose streams are done returns to its pool. `malloc` may be of CuPy's default pool, the
    driver's (`cupy.cuda.MemoryAsyncPool`) or another library's: each raises a `MemoryError`. Without a pool
    (`cupy.cuda.set_allocator(None)`) it is the runtime's error, whose status says that memory is exhausted.
    """
    xp, lifetimes, pools = backend.xp, backend.lifetimes, backend.pools
    is_default = malloc == xp.get_default_memory_pool().malloc

    def allocate(size: int) -> Any:
        if lifetimes.waiting:
            lifetimes.release()
        try:
            memory = malloc(size)
        except (MemoryError, RuntimeError) as error:
            if not _is_exhausted(error):
                raise
            memory = allocate_after_release(size)
        if Peaks.watched:
            Peaks.note(backend)
        return memory

    def allocate_after_release(size: int) -> Any:
        lifetimes.release(wait=True)
        pools.release()
        try:
            return malloc(size)
        except (MemoryError, RuntimeError) as error:
            if not _is_exhausted(error):
                raise
            free, total = xp.cuda.runtime.memGetInfo()
            raise OutOfMemoryError(
                f"CUDA out of memory. Tried to allocate {_readable(size)}. GPU {xp.cuda.runtime.getDevice()} has a "
                f"total capacity of {_readable(total)} of which {_readable(free)} is free. {in_use()}"
                "gradcore.cuda.memory_summary() says by which tensors; graphs that are kept alive (losses in a list) "
                "hold what they saved: use .detach() or .item()."
            ) from None

    def in_use() -> str:
        if not is_default:
            return f"Memory comes from an allocator that was set by cupy.cuda.set_allocator ({malloc!r}). "
        used, limit = pools.used_bytes(), pools.limit()
        cached, allowed = pools.total_bytes() - used, "" if limit is None else f"{_readable(limit)} allowed; "
        return f"{allowed}{_readable(used)} is in use by arrays and {_readable(cached)} is reserved but unallocated. "

    return allocate


def _is_exhausted(error: Any) -> bool:
    """Return whether an allocator's error says that there is no memory left: 2 is `cudaErrorMemoryAllocation`."""
    return isinstance(error, MemoryError) or getattr(error, "status", None) == 2


def _readable(size: float) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} bytes" if unit == "bytes" else f"{size:.2f} {unit}"
        size /= 1024
    return f"{size:.2f} GiB"
