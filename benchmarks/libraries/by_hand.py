"""NumPy and CuPy, with forward and backward written out by hand."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import numpy as np

from benchmarks.cases import Case
from benchmarks.libraries.base import Inputs, Library, NoProgramError, Program, updating_in_place


class RawNumPy(Library):
    """Forward and backward written out by hand: what NumPy gives to somebody with time."""

    name, module, devices = "numpy", "numpy", ("cpu",)

    def array(self, value: np.ndarray) -> Any:
        """Return a copy of `value` as an array of the library."""
        return value.copy()

    @classmethod
    def has_program(cls, case: Case) -> bool:
        return case.by_hand is not None

    def prepare(self, case: Case, arrays: Inputs) -> Program:
        if not self.has_program(case):
            raise NoProgramError
        parameters, constants = ([self.array(a) for a in group] for group in arrays)
        differentiate = functools.partial(case.by_hand, self.namespace, *parameters, *constants)
        return updating_in_place(case, parameters, differentiate)


class RawCuPy(RawNumPy):
    """The same on CUDA."""

    name, module, devices = "cupy", "cupy", ("cuda",)

    def open(self) -> None:
        self.namespace.cuda.runtime.getDeviceCount()

    def array(self, value: np.ndarray) -> Any:
        return self.namespace.asarray(value)

    def wait(self, outputs: Any) -> None:
        self.namespace.cuda.Device().synchronize()

    def mark(self) -> Any:
        return cupy_mark()

    def elapsed(self, start: Any, end: Any) -> float:
        return cupy_elapsed(start, end)

    def to_numpy(self, array: Any) -> np.ndarray:
        return self.namespace.asnumpy(array)


def cupy_mark() -> Any:
    """Record an event in CuPy's queue."""
    cuda = importlib.import_module("cupy").cuda
    event = cuda.Event()
    event.record()
    return event


def cupy_elapsed(start: Any, end: Any) -> float:
    """Seconds between two events."""
    cuda = importlib.import_module("cupy").cuda
    return float(cuda.get_elapsed_time(start, end)) / 1e3
