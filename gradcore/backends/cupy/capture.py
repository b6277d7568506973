"""cuBLAS calls during the capture of a CUDA graph, which CuPy refuses to make, and plans of FFTs that graphs use."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from gradcore.backends.cupy.gemm import SUMS_IN_FLOAT

__all__ = ["Capture", "CapturedCublas", "captured_cublas", "collect_fft_plans", "workspace_size"]

#: Sizes of cuBLAS's workspace in bytes that NVIDIA recommends, from compute capability 9 on and for older devices.
_HOPPER, _OTHERS = 32 << 20, 4 << 20


@contextlib.contextmanager
def collect_fft_plans(xp: ModuleType) -> Iterator[list[object]]:
    """Yield a list, and at the end of the context add this thread's plans of FFTs on the current device to it.

    CuPy destroys a plan and frees its work area when it is evicted from the cache. A replay of a graph would use the
    memory all the same, so a graph keeps its plans. Inside of the context no plan is evicted.
    """
    cache, plans = xp.fft.config.get_plan_cache(), list[object]()
    size, memory_size = cache.get_size(), cache.get_memsize()
    cache.set_size(-1)
    cache.set_memsize(-1)
    try:
        yield plans
    finally:
        plans += [node.plan for _, node in cache]
        cache.set_size(size)
        cache.set_memsize(memory_size)


class Capture(threading.local):
    """State of the graph capture of this thread.

    Attributes
    ----------
    on : bool
        Whether a graph is being captured.
    cublas : CapturedCublas or None
        cuBLAS functions used during the capture; None if the library is not found.
    differs : bool
        Whether a captured product uses another kernel than it does outside of graphs.
    known : dict of int to CapturedCublas or None
        The values of `cublas` by device. Each thread has its own, as a handle belongs to one thread.
    streams : dict of int to Stream
        The default capture stream of each device. CuPy's pools share no memory between streams, so graphs must be
        captured in the same stream to share memory.
    """

    def __init__(self) -> None:
        self.on = False
        self.cublas: Any = None
        self.differs = False
        self.known: dict[int, CapturedCublas | None] = {}
        self.streams: dict[int, Any] = {}


class CapturedCublas:
    """cuBLAS functions under CuPy's names, with a handle used only during graph capture.

    Each graph has its own workspaces, one for each stream, in its own memory. So graphs can be replayed side by side.
    """

    def __init__(self, backend: Any, library: Any) -> None:
        self._size = workspace_size(backend.xp)
        self._backend, self._library = backend, library
        self._workspaces: dict[int, Any] = {}
        self._stream: int | None = None
        self.handle = library.create()
        library.set_math_mode(self.handle, SUMS_IN_FLOAT)

    def forget(self) -> None:
        """Drop the workspaces. The next capture allocates new ones."""
        self._stream = None
        self._workspaces.clear()

    def gemmEx(self, *args: Any) -> None:
        self._follow()
        self._library.gemm_ex(*args)

    def gemmStridedBatchedEx(self, *args: Any) -> None:
        self._follow()
        self._library.gemm_strided_batched_ex(*args)

    def _follow(self) -> None:
        """Set the handle to the current stream, with a workspace for that stream."""
        stream = self._backend.xp.cuda.get_current_stream().ptr
        if stream == self._stream:
            return
        workspace = self._workspaces.get(stream)
        if workspace is None:
            workspace = self._workspaces[stream] = self._backend.xp.empty(self._size, "uint8")
        self._library.set_stream(self.handle, stream)  # this forgets the workspace
        self._library.set_workspace(self.handle, self._backend.address(workspace), self._size)
        self._stream = stream


def captured_cublas(backend: Any) -> CapturedCublas | None:
    """Return the cuBLAS functions for graph capture on the current device, or None if the library is not found."""
    library = backend.cublas_library
    return None if library is None else CapturedCublas(backend, library)


def workspace_size(xp: Any) -> int:
    """Return the size in bytes of a cuBLAS workspace on the current device."""
    return _HOPPER if int(xp.cuda.Device().compute_capability) >= 90 else _OTHERS
