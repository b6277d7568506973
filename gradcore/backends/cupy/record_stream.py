"""Tracking of memory that other streams use: it goes back to its pool when these streams are done with it.

CuPy's pool gives freed memory to the next array of the stream in which it was allocated, even if another stream still
uses it.
"""

from __future__ import annotations

import weakref
from typing import Any

from gradcore.core.locks import new_lock

__all__ = ["Lifetimes"]


class Lifetimes:
    """Tracker of arrays that are used in other streams than the one in which they were allocated."""

    def __init__(self, backend: Any) -> None:
        self._backend, self._lock = backend, new_lock()
        #: Streams in which arrays are used, with their devices, by the ``id`` of the array.
        self._streams: dict[int, list[tuple[Any, int]]] = {}
        #: Memory of arrays that no longer exist, the event to wait for (None during a capture), and its stream.
        self.waiting: list[tuple[Any, Any, tuple[Any, int]]] = []

    def record_use(self, array: Any, stream: Any, device: int) -> None:
        """Record that a stream uses an array.

        Its memory is not freed before the work queued in the stream by then is done.

        Parameters
        ----------
        array : array
        stream : cupy.cuda.Stream
        device : int
            The index of the stream's device.
        """
        root = array if array.base is None else array.base
        self.release()
        with self._lock:
            streams = self._streams.get(id(root))
            if streams is None:
                streams = self._streams[id(root)] = []
                finalizer = weakref.finalize(root, self._gone, id(root), root.data)
                finalizer.atexit = False
            if (stream, device) not in streams:
                streams.append((stream, device))

    def _gone(self, key: int, memory: Any) -> None:
        with self._lock:
            self.waiting += [(memory, self._event(*user), user) for user in self._streams.pop(key, ())]

    def _event(self, stream: Any, device: int) -> Any:
        """Record an event at the end of a stream, and return it; None while the stream is captured."""
        with self._backend.use_index(device):
            if stream.is_capturing():
                return None
            event = self._backend.xp.cuda.Event(disable_timing=True)
            event.record(stream)
        return event

    def release(self, wait: bool = False) -> None:
        """Free the memory that no stream uses any more.

        Parameters
        ----------
        wait : bool
            Whether the host waits for memory that is still in use.
        """
        if not self.waiting:
            return
        with self._lock:
            blocks, self.waiting = self.waiting, []
            for memory, event, user in blocks:
                event = self._event(*user) if event is None else event
                if event is not None and wait:
                    event.synchronize()
                if event is None or not event.done:
                    self.waiting.append((memory, event, user))
