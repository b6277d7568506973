"""A CUDA runtime that notes what it is told (streams, events, memory) and runs captured work when it is launched."""

from __future__ import annotations

import contextlib
import types
from typing import Any

import numpy as np

from gradcore.backends.base import Backend
from tests.strict import capture
from tests.strict.device import StrictArray, StrictBackend, StrictNamespace, current

LOG: list[Any] = []


class FakeStream:
    count = 0

    def __init__(self, null: bool = False, non_blocking: bool = False, priority: int = 0) -> None:
        FakeStream.count += 1
        self.ptr = 0 if null else FakeStream.count
        self.done, self.capturing = True, False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FakeStream) and self.ptr == other.ptr

    __hash__ = None  # type: ignore[assignment]

    def __enter__(self) -> Any:
        RUNTIME.chosen.append(self)
        return self

    def __exit__(self, *exc: Any) -> None:
        RUNTIME.chosen.pop()

    def use(self) -> None:
        RUNTIME.chosen[-1] = self

    def wait_event(self, event: Any) -> None:
        LOG.append(("wait", self.ptr, event.stream))

    def synchronize(self) -> None:
        LOG.append(("synchronize", self.ptr))

    def is_capturing(self) -> bool:
        return self.capturing

    def begin_capture(self, mode: int | None = None) -> None:
        assert self.ptr, "cudaErrorStreamCaptureUnsupported: the default stream"
        self.capturing = True
        capture.begin()

    def end_capture(self) -> Any:
        self.capturing = False
        replay = capture.end()

        def launch(stream: Any) -> None:
            LOG.append(("launch", stream.ptr))
            replay()

        return types.SimpleNamespace(launch=launch, debug_dot_str=lambda: "digraph {}", graph=11, graphExec=12)


class FakeEvent:
    def __init__(self, block: bool = False, disable_timing: bool = False, interprocess: bool = False) -> None:
        self.done, self.stream = True, None

    def record(self, stream: Any = None) -> None:
        self.stream = (stream or RUNTIME.chosen[-1]).ptr

    def synchronize(self) -> None:
        LOG.append(("synchronize", "event"))


class FakePool:
    limit = 0.0

    def malloc(self, size: int) -> Any:
        if RUNTIME.full:
            raise OutOfMemory(f"Out of memory allocating {size:,} bytes")
        return size

    def used_bytes(self) -> int:
        return RUNTIME.used

    def total_bytes(self) -> int:
        return RUNTIME.reserved

    def free_bytes(self) -> int:
        return RUNTIME.reserved - RUNTIME.used

    def set_limit(self, fraction: float) -> None:
        FakePool.limit = fraction

    def get_limit(self) -> int:
        return int(FakePool.limit * (80 << 30))

    def free_all_blocks(self) -> None:
        LOG.append("freed")


#: What the driver tells of a device; CuPy has these names and more.
PROPERTIES = {
    "name": b"Fake", "major": 9, "minor": 0, "totalGlobalMem": 80 << 30, "multiProcessorCount": 132, "warpSize": 32,
    "maxThreadsPerBlock": 1024, "maxThreadsPerMultiProcessor": 2048, "regsPerMultiprocessor": 65536,
    "sharedMemPerBlock": 49152, "sharedMemPerBlockOptin": 232448, "sharedMemPerMultiprocessor": 233472,
    "l2CacheSize": 50 << 20, "integrated": 0, "isMultiGpuBoard": 0,
}  # fmt: skip


class OutOfMemory(MemoryError):
    """As CuPy's."""


class MemoryHook:
    def __enter__(self) -> Any:
        RUNTIME.hooks.append(self)
        return self


class Runtime:
    def __init__(self) -> None:
        FakeStream.count = 0
        self.null = FakeStream(null=True)
        self.chosen: list[Any] = [self.null]
        self.pool, self.hooks = FakePool(), []
        self.used, self.reserved, self.full, self.allocator = 1024, 4096, False, None
        self.capability = "90"
        FakePool.limit = 0.0

    def namespace(self) -> Any:
        stream = type("Stream", (FakeStream,), {"null": self.null})
        return types.SimpleNamespace(
            Stream=stream,
            ExternalStream=lambda ptr: _external(ptr),
            Event=FakeEvent,
            MemoryPool=FakePool,
            nvtx=types.SimpleNamespace(
                RangePush=lambda text: LOG.append(("push", text)),
                RangePop=lambda: LOG.append("pop"),
                RangeStart=lambda text: LOG.append(("start", text)) or 7,
                RangeEnd=lambda handle: LOG.append(("end", handle)),
                Mark=lambda text: LOG.append(("mark", text)),
            ),
            MemoryHook=MemoryHook,
            memory=types.SimpleNamespace(OutOfMemoryError=OutOfMemory),
            get_current_stream=lambda: self.chosen[-1],
            get_elapsed_time=lambda start, end: 2.5,
            using_allocator=lambda malloc: contextlib.nullcontext(),
            runtime=types.SimpleNamespace(
                getDevice=current,
                memGetInfo=lambda: (3 << 30, 80 << 30),
                deviceCanAccessPeer=lambda a, b: int(a != b),
                getDeviceProperties=lambda index: PROPERTIES,
            ),
            Device=lambda index=0: types.SimpleNamespace(
                compute_capability=self.capability, synchronize=lambda: LOG.append(("synchronize", "device"))
            ),
        )


def _external(ptr: int) -> FakeStream:
    found = FakeStream()
    found.ptr = ptr
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

    def __init__(self) -> None:
        Backend.__init__(self, FakeNamespace("", np), StrictArray)
        self._count = 2
