"""What a library under comparison has to do: prepare a case, wait for it, copy to NumPy."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from benchmarks.cases import Case
from benchmarks.cases.base import Arrays

Inputs = tuple[Arrays, Arrays]


class UnavailableError(Exception):
    """A library, or its use of a device, is not to be had on this machine; the message says why."""


class Program(NamedTuple):
    """A case made ready for one library.

    `run` does the work that is timed and returns what has to be waited for. `outputs` does the same work and
    returns all results: the loss and the gradients, or what the case computes.
    """

    run: Callable[[], Any]
    outputs: Callable[[], Sequence[Any]]


class NoProgramError(Exception):
    """A case has no program for a library; nothing is wrong."""


def updating_in_place(
    case: Case, parameters: Sequence[Any], differentiate: Callable[[], tuple[Any, Sequence[Any]]]
) -> Program:
    """Return the program of a library that hands out gradients as arrays and whose arrays can be changed."""

    def run() -> Sequence[Any]:
        if not case.differentiated:
            return differentiate()
        loss, gradients = differentiate()
        if case.learning_rate:
            for p, gradient in zip(parameters, gradients, strict=True):
                p -= case.learning_rate * gradient
        return [loss, *gradients]

    return Program(run, run)


class Library:
    """One library on one device.

    Parameters
    ----------
    device : str
        ``"cpu"`` or ``"cuda"``.

    Raises
    ------
    UnavailableError
        Where the library is not installed or cannot use the device.
    """

    name: ClassVar[str]
    #: The heading of its column, where that is not its name.
    title: ClassVar[str] = ""
    module: ClassVar[str]
    devices: ClassVar[tuple[str, ...]] = ("cpu", "cuda")
    #: Variables of the environment that the module is imported with.
    environment: ClassVar[dict[str, str]] = {}
    #: Calls of a program after which it runs as it always will.
    compiling_calls: ClassVar[int] = 0

    def __init__(self, device: str) -> None:
        if device not in self.devices:
            raise UnavailableError(f"{self.name} has no {device}")
        self.device = device
        os.environ.update(self.environment)
        try:
            self.namespace = importlib.import_module(self.module)
            self.open()
        except UnavailableError:
            raise
        except Exception as error:  # a broken installation raises anything; the others go on
            raise UnavailableError(f"{type(error).__name__}: {error}") from error

    def open(self) -> None:
        """Take hold of the device; raise anything where that fails."""

    @property
    def version(self) -> str:
        """The installed version."""
        return getattr(self.namespace, "__version__", None) or importlib.metadata.version(self.module)

    def prepare(self, case: Case, arrays: Inputs) -> Program:
        """Place `arrays`, the inputs of `case`, on the device and return the program that works on them.

        Raises
        ------
        NoProgramError
            Where the case has nothing for this library.
        """
        raise NotImplementedError

    @classmethod
    def has_program(cls, case: Case) -> bool:
        """Whether `case` has something for this library."""
        return True

    @classmethod
    def caches(cls, folder: Path) -> dict[str, str]:
        """Variables of the environment that let it keep what it compiles in a folder, and nowhere else."""
        return {}

    def limit_threads(self, count: int) -> None:
        """Hold the library to `count` CPU threads, where the environment does not do it."""

    def wait(self, outputs: Any) -> None:
        """Return when the device has finished all work."""

    def mark(self) -> Any:
        """Record a point in the device's queue, or return None if it has none. `elapsed` measures between two."""
        return None

    def elapsed(self, start: Any, end: Any) -> float:
        """Seconds of the device between two points, when it has passed both."""
        raise NotImplementedError

    def to_numpy(self, array: Any) -> np.ndarray:
        """Copy `array` to the CPU."""
        return np.asarray(array)
