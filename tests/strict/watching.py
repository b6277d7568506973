"""Who is told of every access to memory that is queued on a strict device."""

from __future__ import annotations

from typing import Any


class Watcher:
    """Is told, in the order in which the host queues work; this one does not listen.

    Memory is given as NumPy arrays, which may be views, or by an address in it.
    """

    def made(self, array: Any, device: int) -> None:
        """Record that an array was created on a device, with new memory or as a view."""

    def read(self, array: Any) -> None:
        """Record that the current stream reads an array."""

    def written(self, array: Any) -> None:
        """Record that the current stream writes to an array."""

    def updated(self, array: Any) -> None:
        """Record that the current stream updates an array by atomic operations, whose order does not matter."""

    def copied(self, source: Any, device: int) -> None:
        """Record that the current stream begins to copy an array of another device."""

    def used_at(self, address: int, writes: bool) -> None:
        """Record that the current stream reads or writes the memory at an address."""

    def waited(self) -> None:
        """Record that the host waits for the current stream."""


NOBODY = Watcher()
#: Who is told.
watcher: Watcher = NOBODY


def watched_by(new: Watcher) -> None:
    """From now on, tell `new`."""
    global watcher
    watcher = new


def tell() -> Watcher:
    """Who is told now."""
    return watcher
