"""cuBLAS while a CUDA graph is captured: CuPy does not call it then, nvmath-python does."""

from __future__ import annotations

import importlib
import threading
from typing import Any

__all__ = ["Capture", "CapturedCublas", "captured_cublas"]

#: Bytes that cuBLAS may work in, as NVIDIA recommends for compute capability 9 and for others.
_HOPPER, _OTHERS = 32 << 20, 4 << 20


class Capture(threading.local):
    """What this thread captures a graph with.

    Attributes
    ----------
    on : bool
        Whether a graph is being captured.
    cublas : CapturedCublas or None
        What multiplies matrices meanwhile, if nvmath-python is installed.
    """

    on: bool = False
    cublas: Any = None


class CapturedCublas:
    """cuBLAS's functions under the names that CuPy gives them, with a handle and a workspace of its own.

    A graph goes on using the workspace, which therefore lives as long as this.
    """

    def __init__(self, xp: Any, bindings: Any) -> None:
        size = _HOPPER if str(xp.cuda.Device().compute_capability).startswith("9") else _OTHERS
        self.gemmEx, self.gemmStridedBatchedEx = bindings.gemm_ex, bindings.gemm_strided_batched_ex
        self._bindings, self._workspace = bindings, xp.empty(size, "uint8")
        self.handle = bindings.create()

    def use(self, stream: int, address: int) -> None:
        """Queue in that stream, and work in the workspace, which lies at that address."""
        self._bindings.set_stream(self.handle, stream)  # this forgets the workspace
        self._bindings.set_workspace(self.handle, address, self._workspace.size)

    @property
    def workspace(self) -> Any:
        """The array that cuBLAS works in."""
        return self._workspace


def captured_cublas(xp: Any) -> CapturedCublas | None:
    """What calls cuBLAS on the current device; None without nvmath-python."""
    try:
        return CapturedCublas(xp, importlib.import_module("nvmath.bindings.cublas"))
    except ImportError:
        return None
