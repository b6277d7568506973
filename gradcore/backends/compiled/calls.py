"""Calls of the compiled library's kernels, shared among its threads."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from gradcore.backends.numpy import threads
from gradcore.backends.numpy.backend import NumpyBackend

__all__ = ["CompiledCalls", "Work"]


class Work(ctypes.Structure):
    """The shape of a kernel's work, and settings whose meaning depends on the kernel."""

    _fields_ = (
        ("parts", ctypes.c_int64), ("height", ctypes.c_int64), ("width", ctypes.c_int64), ("inner", ctypes.c_int64),
        ("cycle", ctypes.c_int64), ("number", ctypes.c_double),
    )  # fmt: skip


#: Types of the work, the grain and the number of threads.
_WORK = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64


class CompiledCalls(NumpyBackend):
    """Access to the library's kernels by name and dtype character."""

    library: ctypes.CDLL

    @cached_property
    def _functions(self) -> dict[tuple[str, str], Any]:
        return {}

    def _function(
        self, name: str, char: str, arrays: int, settings: tuple[Any, ...] = _WORK, result: Any = None
    ) -> Callable[..., Any]:
        """Return a kernel: ``(work, grain, threads, *arrays)``, or one with other types of settings and a result."""
        function = self._functions.get((name, char))
        if function is None:
            address = ctypes.c_void_p.in_dll(self.library, f"{name}_{char}").value or 0
            kind = ctypes.CFUNCTYPE(result, *settings, *[ctypes.py_object] * arrays)
            function = self._functions[name, char] = kind(address)
        return function

    def run_kernel(self, name: str, char: str, work: Any, size: int, *arrays: np.ndarray[Any, Any]) -> None:
        """Run a kernel of `size` elements on contiguous arrays of the dtypes that it expects."""
        grain = max(1, WORTH_A_THREAD * work.parts // size)
        self._function(name, char, len(arrays))(ctypes.byref(work), grain, threads.available(), *arrays)


#: Elements of a single pass from which a thread pays off.
WORTH_A_THREAD = 1 << 15
