"""CuPy's default memory pool and the private pools of graphs: their total usage and their common limit."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from gradcore.core.locks import new_lock

__all__ = ["Pools", "PrivatePool"]


class PrivatePool:
    """A memory pool separate from CuPy's default pool.

    When this object is collected, its memory goes back to the driver as its arrays are freed. That happens when the
    next pool is created or emptied, or when the device is full. It is not done at once, since the driver would wait for
    the device.

    Parameters
    ----------
    pools : Pools
        The pools of the backend.
    """

    def __init__(self, pools: Pools) -> None:
        self._pools = pools
        self._memory, allocator = pools.create_pool()
        weakref.finalize(self, pools.retire_pool, self._memory, allocator).atexit = False

    def malloc(self, size: int) -> Any:
        """Allocate `size` bytes on the current device, within the limit of all pools."""
        return self._pools.allocate_within_limit(lambda: self._memory.malloc(size))


class Pools:
    """All memory pools of a backend. Sizes refer to the current device."""

    def __init__(self, backend: Any) -> None:
        self._backend, self._lock = backend, new_lock()
        #: Pools other than the default one, and those of them that get no new arrays. Readers can keep the tuples.
        self._private: tuple[Any, ...] = ()
        self._left: tuple[Any, ...] = ()
        #: By device index: the share of the device's memory that all pools may take, and the largest total size of the
        #: pools, which is noted each time before they return memory.
        self._shares: dict[int, float] = {}
        self._peaks: dict[int, int] = {}

    def _all(self) -> tuple[Any, ...]:
        return self._backend.xp.get_default_memory_pool(), *self._private

    def used_bytes(self) -> int:
        """Return the number of bytes in use by arrays."""
        return sum(int(pool.used_bytes()) for pool in self._all())

    def total_bytes(self) -> int:
        """Return the number of bytes that the pools have taken from the driver."""
        return sum(int(pool.total_bytes()) for pool in self._all())

    def most_bytes(self) -> int:
        """Return the largest number of bytes that the pools have held since `forget_peak`."""
        return max(self._peaks.get(self._backend.current_index(), 0), self.total_bytes())

    def forget_peak(self) -> None:
        self._peaks.pop(self._backend.current_index(), None)

    # -- private pools -----------------------------------------------------------------------------------------------

    def create_pool(self) -> tuple[Any, list[Any]]:
        """Create a CuPy memory pool. Return it and a list that keeps its memory allocated.

        The pool is counted until `retire_pool` was called and its last array is freed. The list is needed because
        CuPy's pools free unused blocks when memory runs out, even blocks that a captured graph uses.
        """
        self.release()
        cuda, references = self._backend.xp.cuda, []

        def allocate_block(size: int) -> Any:
            pointer = cuda.memory._malloc(size)
            references.append(pointer.mem)
            return pointer

        pool = cuda.MemoryPool(allocate_block)
        with self._lock:
            self._private = *self._private, pool
        return pool, references

    def retire_pool(self, pool: Any, kept: list[Any]) -> None:
        """Mark a pool as one that gets no new arrays. Python's garbage collector calls this, in any thread."""
        kept.clear()
        with self._lock:
            self._left = *self._left, pool

    def release(self) -> None:
        """Return the free memory of retired pools to the driver. Graphs still use free blocks of other pools.

        During a capture, which this could disturb, nothing is done.
        """
        if not self._left or self._backend.is_capturing():
            return
        with self._lock:
            empty = [pool for pool in self._left if not self._is_used(pool)]
            self._private, self._left = (
                tuple(pool for pool in pools if not any(pool is other for other in empty))
                for pools in (self._private, self._left)
            )

    def _is_used(self, pool: Any) -> bool:
        is_used = False
        for index in range(self._backend.device_count()):
            with self._backend.use_index(index):
                if pool.total_bytes():
                    self._peaks[index] = self.most_bytes()
                    pool.free_all_blocks()
                    is_used |= bool(pool.total_bytes())
                    self._divide()
        return is_used

    def empty(self) -> None:
        """Return free memory to the driver: that of all devices, and page-locked host memory."""
        xp = self._backend.xp
        for index in range(self._backend.device_count()):
            with self._backend.use_index(index):
                self._peaks[index] = self.most_bytes()
                xp.get_default_memory_pool().free_all_blocks()
        xp.get_default_pinned_memory_pool().free_all_blocks()
        self.release()

    # -- the limit ---------------------------------------------------------------------------------------------------

    def share(self) -> float:
        """Return the share of the device's memory that all pools together may take."""
        index = self._backend.current_index()
        if index in self._shares:
            return self._shares[index]
        limit = int(self._backend.xp.get_default_memory_pool().get_limit())  # set by means of CuPy
        return limit / self._capacity() if limit else 1.0

    def set_share(self, share: float) -> None:
        with self._lock:
            self._shares[self._backend.current_index()] = share
            self._divide()

    def limit(self) -> int | None:
        """Return the number of bytes that all pools together may take, or None if there is no limit."""
        share = self._shares.get(self._backend.current_index())
        return None if share is None else int(share * self._capacity())

    def allocate_within_limit(self, allocate: Callable[[], Any]) -> Any:
        """Return the result of `allocate`, which allocates from a private pool, within the limit of all pools."""
        if not self._shares:
            return allocate()
        with self._lock:
            self._divide()
            try:
                return allocate()
            finally:
                self._divide()

    def _divide(self) -> None:
        """Set the limit of each pool to what the others leave of the common limit.

        CuPy's limits apply to single pools.
        """
        limit = self.limit()
        if limit is None:
            return
        pools = self._all()
        sizes = [int(pool.total_bytes()) for pool in pools]
        for pool, size in zip(pools, sizes, strict=True):
            pool.set_limit(size=max(limit - sum(sizes) + size, 1))  # 0 would be no limit

    def _capacity(self) -> int:
        return int(self._backend.xp.cuda.runtime.memGetInfo()[1])
