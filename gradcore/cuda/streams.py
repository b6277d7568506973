"""Streams (queues of work on a device) and events (marks in streams).

They wrap CuPy's streams, so work queued by CuPy and by gradcore in a stream runs in order.
"""

from __future__ import annotations

import contextlib
from typing import Any

from gradcore.backends import registry
from gradcore.backends.streams import STREAMS
from gradcore.core.device import DeviceLike
from gradcore.core.device import device as Device
from gradcore.cuda.devices import index_of, is_available

__all__ = [
    "Event",
    "ExternalStream",
    "Stream",
    "StreamContext",
    "current_stream",
    "default_stream",
    "get_stream_from_external",
    "is_current_stream_capturing",
    "set_stream",
    "stream",
]


def _cuda() -> Any:
    return registry.find("cuda").xp.cuda


def _use_device(device: Any) -> contextlib.AbstractContextManager[Any]:
    """Context manager that makes a device current, since a default stream belongs to the current device."""
    return registry.find("cuda").use_index(device.index)


class Event:
    """A mark in a stream, which the host or other streams can wait for.

    Parameters
    ----------
    enable_timing : bool
        Whether the event can be used in `elapsed_time`.
    blocking : bool
        Whether the host sleeps while it waits, rather than spins.
    interprocess : bool
        Whether other processes may use it.

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     start, end = (gc.cuda.Event(enable_timing=True) for _ in range(2))
    ...     start.record()
    ...     y = gc.ones(1000, device="cuda").exp()
    ...     end.record()
    ...     end.synchronize()
    ...     milliseconds = start.elapsed_time(end)
    """

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        self._options = {"block": blocking, "disable_timing": not enable_timing, "interprocess": interprocess}
        #: CuPy's event, which is created by the first `record`, because it belongs to one device.
        self.cupy: Any = None
        self.device: Any = None

    def record(self, stream: Stream | None = None) -> None:
        """Put the mark at the end of a stream, by default the current one.

        Raises
        ------
        RuntimeError
            If the event has been recorded on another device.
        """
        stream = stream or current_stream()
        if self.device not in (None, stream.device):
            raise RuntimeError(f"Event device {self.device} does not match recording stream's device {stream.device}.")
        with _use_device(stream.device):
            if self.cupy is None:
                self.cupy, self.device = _cuda().Event(**self._options), stream.device
            self.cupy.record(stream.cupy)

    def wait(self, stream: Stream | None = None) -> None:
        """Make work that is queued later in a stream, by default the current one, wait for this event."""
        if self.cupy is not None:
            stream = stream or current_stream()
            with _use_device(stream.device):
                stream.cupy.wait_event(self.cupy)

    def query(self) -> bool:
        """Return whether all work before the mark is done."""
        return self.cupy is None or bool(self.cupy.done)

    def synchronize(self) -> None:
        """Wait on the host until all work before the mark is done."""
        if self.cupy is not None:
            self.cupy.synchronize()

    def elapsed_time(self, end_event: Event) -> float:
        """Return the milliseconds between this event and another one. Both need ``enable_timing=True``.

        Raises
        ------
        ValueError
            If one of the events has not been recorded.
        """
        if self.cupy is None or end_event.cupy is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return float(_cuda().get_elapsed_time(self.cupy, end_event.cupy))


class Stream:
    """A queue of work. Work in different streams may run at the same time.

    Parameters
    ----------
    device : device, str or int, optional
        The device of the stream, by default the current CUDA device.
    priority : int
        Work of streams with lower numbers goes first.

    Raises
    ------
    RuntimeError
        If CUDA cannot be used, with the reason.

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     side = gc.cuda.Stream()
    ...     with gc.cuda.stream(side):
    ...         y = gc.ones(1000, device="cuda").exp()
    ...     gc.cuda.current_stream().wait_stream(side)
    """

    def __init__(self, device: DeviceLike | None = None, priority: int = 0, *, cupy: Any = None) -> None:
        index = index_of(device)
        if cupy is None:
            with registry.find("cuda").use_index(index):
                cupy = _cuda().Stream(non_blocking=True, priority=priority)
        self.cupy = cupy
        self.device = Device("cuda", index)

    @property
    def cuda_stream(self) -> int:
        """The stream's handle, a ``cudaStream_t``, as an int."""
        return int(self.cupy.ptr)

    def wait_event(self, event: Event) -> None:
        """Make work that is queued in this stream from now on wait for an event."""
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """Make work that is queued in this stream from now on wait for the work now queued in another stream."""
        self.wait_event(stream.record_event())

    def record_event(self, event: Event | None = None) -> Event:
        """Record an event, by default a new one, at the end of this stream, and return it."""
        event = event or Event()
        event.record(self)
        return event

    def query(self) -> bool:
        """Return whether all work in the stream is done."""
        with _use_device(self.device):
            return bool(self.cupy.done)

    def synchronize(self) -> None:
        """Wait on the host until all work in the stream is done."""
        with _use_device(self.device):
            self.cupy.synchronize()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Stream):
            return NotImplemented
        return (self.device, self.cuda_stream) == (other.device, other.cuda_stream)

    def __hash__(self) -> int:
        return hash((self.device, self.cuda_stream))

    def __repr__(self) -> str:
        return f"<gradcore.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"

    def __enter__(self) -> Stream:
        self._open = [*getattr(self, "_open", ()), stream(self)]
        self._open[-1].__enter__()
        return self

    def __exit__(self, *exc: Any) -> None:
        self._open.pop().__exit__(*exc)


class ExternalStream(Stream):
    """A stream that was created by another library, given by its handle.

    Parameters
    ----------
    stream_ptr : int
        A ``cudaStream_t``, which must live as long as this object.
    device : device, str or int, optional

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     stream = gc.cuda.ExternalStream(gc.cuda.Stream().cuda_stream)
    """

    def __init__(self, stream_ptr: int, device: DeviceLike | None = None) -> None:
        super().__init__(device, cupy=_external(stream_ptr))


class _Handle:
    """A stream of another library, in the form that CuPy expects.

    Parameters
    ----------
    pointer : int
    """

    def __init__(self, pointer: int) -> None:
        self._pointer = pointer

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._pointer


def _external(pointer: int) -> Any:
    cuda = _cuda()
    if hasattr(cuda.Stream, "from_external"):
        return cuda.Stream.from_external(_Handle(pointer))
    return cuda.ExternalStream(pointer)


def current_stream(device: DeviceLike | None = None) -> Stream:
    """Return the stream in which this thread queues work on a CUDA device.

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     gc.cuda.current_stream().synchronize()
    """
    index = index_of(device)
    with registry.find("cuda").use_index(index):
        return Stream(index, cupy=_cuda().get_current_stream())


def default_stream(device: DeviceLike | None = None) -> Stream:
    """Return the stream in which work is queued if no other stream is chosen.

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     gc.cuda.default_stream().synchronize()
    """
    return Stream(device, cupy=_cuda().Stream.null)


def set_stream(stream: Stream | None) -> None:
    """Set the current stream of this thread; None changes nothing.

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     gc.cuda.set_stream(gc.cuda.default_stream())
    """
    if stream is not None:
        with _use_device(stream.device):
            stream.cupy.use()
        STREAMS.choose(stream.cupy, stream.device.index)


class StreamContext:
    """Context manager that queues work in a stream; see `stream`.

    Parameters
    ----------
    stream : Stream or None
        None changes nothing.

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     with gc.cuda.StreamContext(gc.cuda.Stream()):
    ...         y = gc.ones(2, device="cuda")
    """

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream
        self._inner = contextlib.ExitStack()

    def __enter__(self) -> None:
        stream = self.stream
        if stream is not None:
            with contextlib.ExitStack() as opened:  # restores the current stream if an error occurs
                index = stream.device.index
                opened.enter_context(_use_device(stream.device))
                opened.callback(STREAMS.choose, _cuda().get_current_stream(), index)
                STREAMS.choose(stream.cupy, index)
                opened.enter_context(stream.cupy)
                self._inner = opened.pop_all()

    def __exit__(self, *exc: Any) -> None:
        self._inner.close()


def stream(stream: Stream | None) -> StreamContext:
    """Queue the work of this block in a stream (context manager); None changes nothing.

    Backward runs each node in the stream in which its forward ran, after the nodes on which it depends.

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     with gc.cuda.stream(gc.cuda.Stream()):
    ...         y = gc.ones(2, device="cuda")
    """
    return StreamContext(stream)


def is_current_stream_capturing() -> bool:
    """Return whether a graph is captured in the current stream; False where CUDA cannot be used.

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     answer = gc.cuda.is_current_stream_capturing()
    """
    return is_available() and bool(_cuda().get_current_stream().is_capturing())


def get_stream_from_external(data_ptr: int, device: DeviceLike | None = None) -> Stream:
    """Return a stream that was created by another library, given by its handle; see `ExternalStream`.

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     stream = gc.cuda.get_stream_from_external(gc.cuda.Stream().cuda_stream)
    """
    return ExternalStream(data_ptr, device)
