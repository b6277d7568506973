"""Which CUDA stream was chosen when, on the clock by which nodes are numbered.

So a node need not remember its stream: its number says in which one its forward ran.
"""

from __future__ import annotations

import contextlib
import threading
from bisect import bisect
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["STREAMS", "Streams"]


class Streams:
    """The streams that a thread has chosen, one after the other.

    Attributes
    ----------
    used : bool
        Whether any thread has ever chosen a stream: else nothing needs to look.
    clock : callable
        Draws numbers as nodes are numbered; the layer of nodes puts it here.
    """

    def __init__(self) -> None:
        self.used = False
        self.clock: Callable[[], int] = int
        self._lock = threading.Lock()
        self._times: list[int] = []
        self._streams: list[Any] = []

    def chosen(self, stream: Any) -> None:
        """Note that `stream` is the one in which work is queued from now on."""
        with self._lock:
            self.used = True
            self._times.append(self.clock())
            self._streams.append(stream)

    def at(self, time: int) -> Any:
        """The stream that was chosen at that time; None before any was."""
        place = bisect(self._times, time)
        return self._streams[place - 1] if place else None

    @contextlib.contextmanager
    def as_at(self, time: int, cuda: Any) -> Iterator[None]:
        """Context in which work is queued as at that time, after the present stream's work and before its later work.

        Parameters
        ----------
        time : int
        cuda : module
            ``cupy.cuda``.
        """
        wanted, present = self.at(time), cuda.get_current_stream()
        if wanted is None or wanted == present:
            yield
            return
        self._order(cuda, present, wanted)
        try:
            with wanted:
                yield
        finally:
            self._order(cuda, wanted, present)

    @staticmethod
    def _order(cuda: Any, first: Any, second: Any) -> None:
        """Let later work of the second stream wait for what is in the first."""
        event = cuda.Event(disable_timing=True)
        event.record(first)
        second.wait_event(event)


STREAMS = Streams()
