"""CuPy's default pool of memory, and those apart from it that graphs use: what they hold together, and their limit."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

__all__ = ["Pools", "PrivatePool"]


class PrivatePool:
    """A pool of memory apart from CuPy's default one.

    When nobody holds this any more, its memory goes back to the driver, as its arrays go, when a pool is made or
    emptied the next time, or the device is full: not at once, since the driver waits for the device then.

    Parameters
    ----------
    pools : Pools
        Those of the backend.
    """

    def __init__(self, pools: Pools) -> None:
        self._pools = pools
        self._memory, kept = pools.made()
        weakref.finalize(self, pools.left, self._memory, kept).atexit = False

    def malloc(self, size: int) -> Any:
        """Memory of so many bytes on the current device, within the limit of all pools."""
        return self._pools.within_limit(lambda: self._memory.malloc(size))


class Pools:
    """All pools of a backend. Numbers are those of the current device."""

    def __init__(self, backend: Any) -> None:
        self._backend, self._lock = backend, threading.RLock()
        #: Pools apart from the default one; and those of them that get no new arrays. Tuples, which readers can keep.
        self._private: tuple[Any, ...] = ()
        self._left: tuple[Any, ...] = ()
        #: By the device's index: the share of its memory that all pools may take, and the most that they had taken
        #: whenever they gave something back.
        self._shares: dict[int, float] = {}
        self._peaks: dict[int, int] = {}

    def _all(self) -> tuple[Any, ...]:
        return self._backend.xp.get_default_memory_pool(), *self._private

    def used_bytes(self) -> int:
        """Bytes that arrays occupy."""
        return sum(int(pool.used_bytes()) for pool in self._all())

    def total_bytes(self) -> int:
        """Bytes that were taken from the driver."""
        return sum(int(pool.total_bytes()) for pool in self._all())

    def most_bytes(self) -> int:
        """Return the most bytes that were taken from the driver since `forget_peak`."""
        return max(self._peaks.get(self._backend.current_index(), 0), self.total_bytes())

    def forget_peak(self) -> None:
        self._peaks.pop(self._backend.current_index(), None)

    # -- private pools -----------------------------------------------------------------------------------------------

    def made(self) -> tuple[Any, list[Any]]:
        """Return a new pool of CuPy's, which is counted until `left` is told of it and its last array is gone.

        With it what keeps all memory that it has taken from the driver. When there is no more, CuPy's pools give back
        what is free in them, also to arrays of which a graph has recorded the use.
        """
        self.release()
        cuda, kept = self._backend.xp.cuda, []

        def taken(size: int) -> Any:
            pointer = cuda.memory._malloc(size)
            kept.append(pointer.mem)
            return pointer

        pool = cuda.MemoryPool(taken)
        with self._lock:
            self._private = *self._private, pool
        return pool, kept

    def left(self, pool: Any, kept: list[Any]) -> None:
        """Take note that a pool gets no new arrays; called whenever Python collects what held it, in any thread."""
        kept.clear()
        with self._lock:
            self._left = *self._left, pool

    def release(self) -> None:
        """Give back to the driver what is free in pools that get no new arrays: graphs use what is free in others.

        While a graph is recorded, which giving back could disturb, that is left to the next call.
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
        used = False
        for index in range(self._backend.device_count()):
            with self._backend.use_index(index):
                if pool.total_bytes():
                    self._peaks[index] = self.most_bytes()
                    pool.free_all_blocks()
                    used |= bool(pool.total_bytes())
                    self._divide()
        return used

    def empty(self) -> None:
        """Give back to the driver what is free, on every device, and memory of the host that is free."""
        xp = self._backend.xp
        for index in range(self._backend.device_count()):
            with self._backend.use_index(index):
                self._peaks[index] = self.most_bytes()
                xp.get_default_memory_pool().free_all_blocks()
        xp.get_default_pinned_memory_pool().free_all_blocks()
        self.release()

    # -- the limit ---------------------------------------------------------------------------------------------------

    def share(self) -> float:
        """Return the share of the device's memory that all pools may take."""
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
        """Bytes that all pools together may take; None if that was not set."""
        share = self._shares.get(self._backend.current_index())
        return None if share is None else int(share * self._capacity())

    def within_limit(self, allocate: Callable[[], Any]) -> Any:
        """Memory that `allocate` takes from a private pool, while all pools keep to the limit."""
        if not self._shares:
            return allocate()
        with self._lock:
            self._divide()
            try:
                return allocate()
            finally:
                self._divide()

    def _divide(self) -> None:
        """Let each pool take what the others have left of the limit, as CuPy knows limits of single pools only."""
        limit = self.limit()
        if limit is None:
            return
        pools = self._all()
        taken = [int(pool.total_bytes()) for pool in pools]
        for pool, own in zip(pools, taken, strict=True):
            pool.set_limit(size=max(limit - sum(taken) + own, 1))  # 0 would be no limit

    def _capacity(self) -> int:
        return int(self._backend.xp.cuda.runtime.memGetInfo()[1])
