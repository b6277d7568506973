"""CuPy's memory pools, watched: the peak, and errors that say what was asked for."""

from __future__ import annotations

from typing import Any, ClassVar

from gradcore.core.errors import OutOfMemoryError

__all__ = ["Peaks", "allocator"]


class Peaks:
    """The most bytes in use on each device since it is watched, whichever threads use them."""

    watched: ClassVar[dict[int, int]] = {}

    @classmethod
    def of(cls, index: int) -> int | None:
        """Return the peak of a device in bytes; None if it is not watched."""
        return cls.watched.get(index)

    @classmethod
    def watch(cls, index: int, used: int) -> None:
        """Begin anew from `used` bytes."""
        cls.watched[index] = used

    @classmethod
    def note(cls, backend: Any) -> None:
        """Take note of what is in use on the current device, where it is watched."""
        index, peaks = backend.current_index(), cls.watched
        if index in peaks:
            peaks[index] = max(peaks[index], backend.pools.used_bytes())


def allocator(backend: Any, malloc: Any) -> Any:
    """Return `malloc` of a pool with an error that says what was asked for and what is in use.

    Memory that other streams have used goes back to its pool before. The pool may be CuPy's default one, that of the
    driver (`cupy.cuda.MemoryAsyncPool`) or another library's: all of them raise a `MemoryError`.
    """
    xp, lifetimes, pools = backend.xp, backend.lifetimes, backend.pools
    is_default = malloc == xp.get_default_memory_pool().malloc
    failure = MemoryError

    def allocate(size: int) -> Any:
        if lifetimes.waiting:
            lifetimes.release()
        try:
            memory = malloc(size)
        except failure:
            memory = after_release(size)
        if Peaks.watched:
            Peaks.note(backend)
        return memory

    def after_release(size: int) -> Any:
        lifetimes.release(wait=True)
        pools.release()
        try:
            return malloc(size)
        except failure:
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
        kept, allowed = pools.total_bytes() - used, "" if limit is None else f"{_readable(limit)} allowed; "
        return f"{allowed}{_readable(used)} is in use by arrays and {_readable(kept)} is reserved but unallocated. "

    return allocate


def _readable(size: float) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} bytes" if unit == "bytes" else f"{size:.2f} {unit}"
        size /= 1024
    return f"{size:.2f} GiB"
