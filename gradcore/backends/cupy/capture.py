"""cuBLAS while a CUDA graph is captured, when CuPy refuses to call it."""

from __future__ import annotations

import threading
from typing import Any

from gradcore.backends.cupy.gemm import SUMS_IN_FLOAT

__all__ = ["Capture", "CapturedCublas", "captured_cublas", "workspace_size"]

#: Bytes that cuBLAS may work in, as NVIDIA recommends from compute capability 9 on and before.
_HOPPER, _OTHERS = 32 << 20, 4 << 20


class Capture(threading.local):
    """The capture of a graph by this thread.

    Attributes
    ----------
    on : bool
        Whether a graph is being captured.
    cublas : CapturedCublas or None
        What multiplies matrices meanwhile, if the library that CuPy has loaded is found.
    differs : bool
        Whether something was captured that is computed by other kernels than outside of graphs.
    known : dict of int to CapturedCublas or None
        That of each device: a handle belongs to one thread.
    streams : dict of int to Stream
        By device, the stream that is captured where none is given: CuPy's pools keep the memory of streams apart, and
        so graphs of one stream can share it.
    """

    def __init__(self) -> None:
        self.on = False
        self.cublas: Any = None
        self.differs = False
        self.known: dict[int, CapturedCublas | None] = {}
        self.streams: dict[int, Any] = {}


class CapturedCublas:
    """cuBLAS's functions under the names that CuPy gives them, with a handle of its own.

    Every graph has workspaces of its own, one for each stream, in its own memory: graphs are replayed side by side.
    """

    def __init__(self, backend: Any, library: Any) -> None:
        self._size = workspace_size(backend.xp)
        self._backend, self._library = backend, library
        self._workspaces: dict[int, Any] = {}
        self._stream: int | None = None
        self.handle = library.create()
        library.set_math_mode(self.handle, SUMS_IN_FLOAT)

    def forget(self) -> None:
        """Drop the workspaces: the next capture takes new ones."""
        self._stream = None
        self._workspaces.clear()

    def gemmEx(self, *args: Any) -> None:
        self._follow()
        self._library.gemm_ex(*args)

    def gemmStridedBatchedEx(self, *args: Any) -> None:
        self._follow()
        self._library.gemm_strided_batched_ex(*args)

    def _follow(self) -> None:
        """Queue in the current stream."""
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
    """Return cuBLAS for graphs that are captured on the current device; None if its library is not found."""
    library = backend.cublas_library
    return None if library is None else CapturedCublas(backend, library)


def workspace_size(xp: Any) -> int:
    """Bytes that cuBLAS may work in on the current device."""
    return _HOPPER if int(xp.cuda.Device().compute_capability) >= 90 else _OTHERS
