"""Calls of the compiled library's kernels, shared among its threads."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gradcore.backends.compiled.library import builtin
from gradcore.backends.numpy import threads
from gradcore.backends.numpy.backend import NumpyBackend
from gradcore.core.typing import AnyArray

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from gradcore.core.arrays import Array

__all__ = ["CompiledCalls", "Work", "as_dense"]


class Work(NamedTuple):
    """The shape of a kernel's work, and settings whose meaning depends on the kernel."""

    parts: int
    height: int = 0
    width: int = 0
    inner: int = 0
    cycle: int = 0
    number: float = 0.0


def as_dense(x: AnyArray, dtype: DTypeLike | None = None) -> AnyArray:
    """Return `x`, or a copy, as a contiguous array of aligned elements, which kernels read."""
    dense = np.ascontiguousarray(x, dtype)
    return dense if dense.flags.aligned else dense.copy()


class CompiledCalls(NumpyBackend):
    """Access to the library's kernels by name and dtype character."""

    library: ctypes.CDLL

    @cached_property
    def _functions(self) -> dict[tuple[str, str], Any]:
        return {}

    def _function(self, name: str, char: str) -> Callable[..., Any]:
        """Return a kernel: ``(*work, size, worth_a_thread, threads, *arrays)``, or one with other settings."""
        try:
            return self._functions[name, char]
        except KeyError:
            function = self._functions[name, char] = builtin(self.library, f"{name}_{char}")
            return function

    def run_kernel(self, name: str, char: str, work: Work, size: int, *arrays: np.ndarray[Any, Any]) -> None:
        """Run a kernel of `size` elements on contiguous arrays of the dtypes that it expects."""
        if not self._function(name, char)(*work, size, WORTH_A_THREAD, threads.available(), *arrays):
            raise AssertionError(f"the arrays of {name} are not contiguous and aligned")

    def allocate_zeros(self, shape: Sequence[int], dtype: DTypeLike) -> Array:
        """Return zeros that are written in the library's threads, which will add to them."""
        number, bytes_of_grain = threads.available(), 4 * WORTH_A_THREAD
        out = None if number < 2 else np.empty(shape, dtype)
        if out is None or out.nbytes < 2 * bytes_of_grain:
            return np.zeros(shape, dtype)
        self._function("write_zeros", "b")(bytes_of_grain, number, out.nbytes, out)
        return out


#: Elements of a single pass from which a thread pays off.
WORTH_A_THREAD = 1 << 15
