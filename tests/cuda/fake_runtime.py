"""A CUDA runtime that notes what it is told (streams, events, memory) and runs captured work when it is launched."""

from __future__ import annotations

import contextlib
import threading
import types
from collections import defaultdict
from typing import Any

import numpy as np

from gradcore.backends.base import Backend
from tests.cuda.ordering import Stream
from tests.strict import capture
from tests.strict.device import StrictArray, StrictBackend, StrictNamespace, current

LOG: list[Any] = []
STREAM_CAPTURE_MODE_RELAXED = 2


class FakeStream:
    count = 0

    def __init__(self, null: bool = False, non_blocking: bool = False, priority: int = 0) -> None:
        FakeStream.count += 1
        self.ptr = 0 if null else FakeStream.count
        self.device = None if null else current()
        self.done, self.capturing = True, False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FakeStream) and self.ptr == other.ptr

    __hash__ = None  # type: ignore[assignment]

    def place(self) -> Stream:
        """Where its work is queued: the default stream is that of the current device."""
        return Stream(current() if self.device is None else self.device, self.ptr)

    def _check_device(self) -> None:
        if self.device not in (None, current()):
            raise RuntimeError(f"This stream was not created on the current device {current()}")

    def __enter__(self) -> Any:
        self._check_device()
        RUNTIME.chosen.append(self)
        return self

    def __exit__(self, *exc: Any) -> None:
        RUNTIME.chosen.pop()

    def use(self) -> None:
        self._check_device()
        RUNTIME.chosen[-1] = self

    def wait_event(self, event: Any) -> None:
        LOG.append(("wait", self.ptr, event.stream))
        if RUNTIME.order is not None:
            RUNTIME.order.waits(self.place(), event.clock)

    def synchronize(self) -> None:
        LOG.append(("synchronize", self.ptr))
        if RUNTIME.order is not None:
            RUNTIME.order.host_waits(RUNTIME.order.recorded(self.place())[1])

    def is_capturing(self) -> bool:
        if RUNTIME.order is not None:
            return self.capturing or RUNTIME.order.records(self.place())
        return capture.is_on() and bool(self.ptr)  # who waits for whom is not known

    def begin_capture(self, mode: int | None = None) -> None:
        assert self.ptr, "cudaErrorStreamCaptureUnsupported: the default stream"
        assert mode == STREAM_CAPTURE_MODE_RELAXED, "cudaErrorStreamCaptureUnsupported: cudaMalloc"
        self.capturing = True
        capture.begin()
        if RUNTIME.order is not None:
            RUNTIME.order.begin(self.place())

    def end_capture(self) -> Any:
        self.capturing = False
        replay = capture.end()
        recording = None if RUNTIME.order is None else RUNTIME.order.end(self.place())
        device = current()

        def launch(stream: Any) -> None:
            LOG.append(("launch", stream.ptr))
            assert current() == device, "a graph of another device"
            if recording is not None:
                RUNTIME.order.launched(recording, stream.place())
            replay()

        handle = 10 * len(RUNTIME.graphs) + 11
        RUNTIME.graphs[handle] = launch
        return types.SimpleNamespace(
            launch=launch, debug_dot_str=lambda flags: f"digraph {flags}", graph=handle, graphExec=handle + 1
        )


class FakeEvent:
    def __init__(self, block: bool = False, disable_timing: bool = False, interprocess: bool = False) -> None:
        self.stream: Any = None
        self.clock: Any = None
        self.device = current()

    @property
    def done(self) -> bool:
        order = RUNTIME.order
        if order is None or self.clock is None:
            return True
        found = order.is_done(self.clock[1])
        if found:
            order.host_waits(self.clock[1])
        return found

    def record(self, stream: Any = None) -> None:
        found = stream or RUNTIME.chosen[-1]
        if found.place().device != self.device:
            raise RuntimeError("cudaErrorInvalidResourceHandle: event and stream are of different devices")
        self.stream = found.ptr
        if RUNTIME.order is not None:
            self.clock = RUNTIME.order.recorded(found.place())

    def synchronize(self) -> None:
        LOG.append(("synchronize", "event"))
        if RUNTIME.order is not None and self.clock is not None:
            RUNTIME.order.host_waits(self.clock[1])


class Block(int):
    """Memory of so many bytes, which goes back to its pool."""

    pool: Any
    device: int

    def __del__(self) -> None:
        self.pool.used[self.device] -= self


class FakePool:
    """Bytes by device; those of the default pool begin with the numbers of the runtime."""

    def __init__(self, allocator: Any = None) -> None:
        self.used, self.reserved, self.limits = (defaultdict[int, int](int) for _ in range(3))

    def malloc(self, size: int) -> Any:
        device = current()
        grown = max(self.used[device] + size - self.reserved[device], 0)
        limit = self.limits[device]
        if RUNTIME.full or (limit and self.total_bytes() + grown > limit):
            raise OutOfMemory(f"Out of memory allocating {size:,} bytes")
        self.used[device] += size
        self.reserved[device] += grown
        block = Block(size)
        block.pool, block.device = self, device
        return block

    def used_bytes(self) -> int:
        return self.used[current()] + (RUNTIME.used if self is RUNTIME.pool else 0)

    def total_bytes(self) -> int:
        return self.reserved[current()] + (RUNTIME.reserved if self is RUNTIME.pool else 0)

    def set_limit(self, size: int) -> None:
        assert size, "no limit"
        self.limits[current()] = size

    def get_limit(self) -> int:
        return self.limits[current()]

    def free_all_blocks(self) -> None:
        LOG.append("freed")
        self.reserved[current()] = self.used[current()]


#: What the driver tells of a device; CuPy has these names and more.
PROPERTIES = {
    "name": b"Fake", "major": 9, "minor": 0, "totalGlobalMem": 80 << 30, "multiProcessorCount": 132, "warpSize": 32,
    "maxThreadsPerBlock": 1024, "maxThreadsPerMultiProcessor": 2048, "regsPerMultiprocessor": 65536,
    "sharedMemPerBlock": 49152, "sharedMemPerBlockOptin": 232448, "sharedMemPerMultiprocessor": 233472,
    "l2CacheSize": 50 << 20, "integrated": 0, "isMultiGpuBoard": 0,
}  # fmt: skip


class OutOfMemory(MemoryError):
    """As CuPy's."""


class Runtime:
    def __init__(self) -> None:
        FakeStream.count = 0
        self.null = FakeStream(null=True)
        self._chosen = threading.local()
        #: Who watches what happens before what, if anyone does.
        self.order: Any = None
        self.pool = FakePool()
        self.used, self.reserved, self.full, self.allocator = 1024, 4096, False, None
        self.capability = "90"
        #: What launches work, by the handle of its graph; and what was made ready to be launched in addition.
        self.graphs: dict[int, Any] = {}
        self.executables: dict[int, Any] = {}

    def chosen_on(self, device: int) -> list[Any]:
        """Return the stack of streams that this thread has selected on a device, the current one last."""
        found: list[Any] = self._chosen.__dict__.setdefault(str(device), [self.null])
        return found

    @property
    def chosen(self) -> list[Any]:
        return self.chosen_on(current())

    def place(self, device: int | None = None) -> Stream:
        """Return the current stream of a device."""
        device = current() if device is None else device
        return Stream(device, self.chosen_on(device)[-1].ptr)

    @contextlib.contextmanager
    def using_allocator(self, malloc: Any) -> Any:
        before, self.allocator = self.allocator, malloc
        if self.order is not None:
            self.order.pool = malloc
        try:
            yield
        finally:
            self.allocator = before
            if self.order is not None:
                self.order.pool = before

    def instantiate(self, graph: int) -> int:
        handle = graph + 2 + len(self.executables)
        self.executables[handle] = self.graphs[graph]
        return handle

    def launch(self, executable: int, stream: int) -> None:
        assert stream == self.chosen[-1].ptr
        self.executables[executable](self.chosen[-1])

    def synchronize(self) -> None:
        LOG.append(("synchronize", "device"))
        if self.order is not None:
            for agent, clock in list(self.order.clocks.items()):
                if agent[0] == current():
                    self.order.host_waits(clock)

    def namespace(self) -> Any:
        stream = type("Stream", (FakeStream,), {"null": self.null, "from_external": staticmethod(_external)})
        return types.SimpleNamespace(
            Stream=stream,
            Event=FakeEvent,
            MemoryPool=FakePool,
            nvtx=types.SimpleNamespace(
                RangePush=lambda text: LOG.append(("push", text)),
                RangePop=lambda: LOG.append("pop"),
                RangeStart=lambda text, color: LOG.append(("start", text)) or 7,
                RangeEnd=lambda handle: LOG.append(("end", handle)),
                Mark=lambda text: LOG.append(("mark", text)),
            ),
            memory=types.SimpleNamespace(OutOfMemoryError=OutOfMemory),
            get_current_stream=lambda: self.chosen[-1],
            get_elapsed_time=lambda start, end: 2.5,
            using_allocator=self.using_allocator,
            runtime=types.SimpleNamespace(
                getDevice=current,
                streamCaptureModeRelaxed=STREAM_CAPTURE_MODE_RELAXED,
                memGetInfo=lambda: (3 << 30, 80 << 30),
                deviceCanAccessPeer=lambda a, b: int(a != b),
                getDeviceProperties=lambda index: PROPERTIES,
                graphInstantiate=self.instantiate,
                graphLaunch=self.launch,
                graphExecDestroy=self.executables.pop,
            ),
            Device=lambda index=0: types.SimpleNamespace(
                compute_capability=self.capability, synchronize=self.synchronize
            ),
        )


def _external(stream: Any) -> FakeStream:
    found = FakeStream()
    found.ptr = stream.__cuda_stream__()[1]
    return found


RUNTIME = Runtime()


class FakeNamespace(StrictNamespace):
    def __getattr__(self, name: str) -> Any:
        if name == "cuda" and not self._prefix:
            return RUNTIME.namespace()
        if name == "get_default_memory_pool":
            return lambda: RUNTIME.pool
        if name == "get_default_pinned_memory_pool":
            return lambda: RUNTIME.pool
        return super().__getattr__(name)


class FakeCudaBackend(StrictBackend):
    """The strict device under the name ``cuda``, with a runtime."""

    type = "cuda"
    has_streams = True

    def __init__(self) -> None:
        Backend.__init__(self, FakeNamespace("", np), StrictArray)
        self._count = 2

    def wait(self) -> None:
        super().wait()
        RUNTIME.synchronize()
