"""The CUDA streams that threads have chosen over time, where time is counted by the sequence numbers of graph nodes.

Therefore nodes do not store a stream: the sequence number of a node determines the stream in which its forward ran.
"""

from __future__ import annotations

import contextlib
import threading
from bisect import bisect
from collections.abc import Callable, Iterator
from typing import Any

from gradcore.core.locks import new_lock

__all__ = ["STREAMS", "Streams", "in_order"]

#: Largest number of choices that are stored for each thread and device: many while their streams have pending work, and
#: few once that is done, because the stream of a node makes no difference then. Older nodes run in the present stream.
_MOST_CHOICES, _FEW_CHOICES = 1 << 16, 1 << 10


class _Choices:
    """Streams that a thread has chosen on a device over time."""

    def __init__(self) -> None:
        self.times: list[int] = []
        self.streams: list[Any] = []

    def add(self, time: int, stream: Any) -> None:
        if self.streams and self.streams[-1] == stream:
            return
        count = len(self.times)
        if count and count % _FEW_CHOICES == 0 and (count >= _MOST_CHOICES or _are_done(self.streams[: count // 2])):
            del self.times[: count // 2], self.streams[: count // 2]
        self.times.append(time)
        self.streams.append(stream)

    def at(self, time: int) -> Any:
        count = bisect(self.times, time)
        return self.streams[count - 1] if count else None


#: A number that no node has.
_NEVER = 1 << 62


def _are_done(streams: list[Any]) -> bool:
    """Return whether all work in the streams is done; False for streams that are being captured."""
    distinct = {stream.ptr: stream for stream in streams}.values()
    return all(not stream.is_capturing() and stream.done for stream in distinct)


def _forget_ended(chosen: dict[int, _Choices]) -> None:
    """Forget threads that have ended and whose streams are done: no node has to wait for their work."""
    alive = {thread.ident for thread in threading.enumerate()}
    for ident in [i for i, choices in chosen.items() if i not in alive and _are_done(choices.streams)]:
        del chosen[ident]


class Streams:
    """The streams that each thread has chosen over time.

    Attributes
    ----------
    used : bool
        Whether any thread has ever chosen a stream. If not, callers can skip all look-ups.
    clock : callable
        Function that returns the next sequence number of nodes. The module that numbers nodes sets it.
    """

    def __init__(self) -> None:
        self.used = False
        self.clock: Callable[[], int] = int
        self._lock = new_lock()
        #: By device and thread.
        self._chosen: dict[int, dict[int, _Choices]] = {}

    def choose(self, stream: Any, device: Any) -> None:
        """Record that this thread queues its work on a device in `stream` from now on."""
        thread = threading.get_ident()
        with self._lock:
            self.used = True
            chosen = self._chosen.setdefault(device, {})
            if thread not in chosen:
                _forget_ended(chosen)
            chosen.setdefault(thread, _Choices()).add(self.clock(), stream)

    def at(self, time: int, device: int) -> list[Any]:
        """Return the streams that threads had chosen on a device at a time, this thread's first, or an empty list."""
        with self._lock:
            choices = self._chosen.get(device, {})
            own_choices = choices.get(threading.get_ident())
            streams = [
                each.at(time)
                for each in ([own_choices] if own_choices else [])
                + [c for c in choices.values() if c is not own_choices]
            ]
        return [s for i, s in enumerate(streams) if s is not None and not any(s == other for other in streams[:i])]

    def stays(self, backend: Any, device: int) -> Callable[[int], bool] | None:
        """Return a predicate of node numbers that returns whether the node runs in the present stream.

        During a capture, return None: the stream of each node must then be looked up with `as_at`.

        Parameters
        ----------
        backend : CupyBackend
        device : int
            The current device.
        """
        present = backend.xp.cuda.get_current_stream()
        if present.is_capturing():
            return None
        with self._lock:
            choices = list(self._chosen.get(device, {}).values())
            settled = all(each.streams[-1] == present for each in choices)
            settled_time = max((each.times[-1] for each in choices), default=0) if settled else _NEVER

        def is_in_present(time: int) -> bool:
            if time >= settled_time:
                return True
            streams = (each.at(time) for each in choices)
            return all(stream is None or stream is present or stream == present for stream in streams)

        return is_in_present

    @contextlib.contextmanager
    def as_at(self, time: int, backend: Any, device: int) -> Iterator[Any]:
        """Context in which work is queued in the stream of an earlier time, in order with the present stream's work.

        The context yields the present stream, or None if both streams are the same. During graph capture, work of nodes
        that were created before the capture is queued in the present stream.

        Parameters
        ----------
        time : int
        backend : CupyBackend
        device : int
            The current device.
        """
        present, streams = backend.xp.cuda.get_current_stream(), self.at(time, device)
        if present.is_capturing():
            streams = [s for s in streams if s.is_capturing()]
        target = streams[0] if streams else present
        # The other streams belong to other threads, one of which may have created the node.
        for other in streams[1:]:
            in_order(backend, (device, other), (device, target))
        if target == present:
            yield None
            return
        in_order(backend, (device, present), (device, target))
        try:
            with target:
                yield present
        finally:
            in_order(backend, (device, target), (device, present))


def in_order(backend: Any, first: tuple[int, Any], second: tuple[int, Any]) -> None:
    """Make later work of the second stream wait for the work in the first. Each is given with its device."""
    (of_first, stream), (of_second, following) = first, second
    with backend.use_index(of_first):
        event = backend.xp.cuda.Event(disable_timing=True)
        event.record(stream)
    with backend.use_index(of_second):  # a default stream is that of the current device
        following.wait_event(event)


STREAMS = Streams()
