"""A process for each library, so that none profits or suffers from what another does to its process.

gradcore lets the C library keep freed memory, PyTorch and XLA start threads, garbage collectors walk through every
object: all of that belongs to the library, and stays with it. The processes take turns, one works at a time.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.cases import Case
from benchmarks.libraries import LIBRARIES, Library, UnavailableError
from benchmarks.threads import limit_threads
from benchmarks.timing import Plan, Time, Timer

__all__ = ["Worker", "WorkerError", "open_workers"]


class WorkerError(Exception):
    """Something failed in the process of a library; the message is that of the exception there."""


class Worker:
    """A library in a process of its own.

    Parameters
    ----------
    name : str
        A key of `LIBRARIES`.
    device : str
        ``"cpu"`` or ``"cuda"``.
    threads : int
        The CPU threads of the library.

    Raises
    ------
    UnavailableError
        Where the library is not installed or cannot use the device.
    """

    def __init__(self, name: str, device: str, threads: int) -> None:
        self.name, self.kind = name, LIBRARIES[name]
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, name, device, threads), daemon=True)
        self._process.start()
        other.close()
        try:
            self.version: str = self._receive()
        except WorkerError as error:
            raise UnavailableError(str(error)) from None

    def prepare(self, case: Case, plan: Plan) -> list[np.ndarray]:
        """Make a case ready, and return its results."""
        self._pipe.send((case, plan))
        return self._receive()  # type: ignore[no-any-return]

    def sample(self) -> Time:
        """Take one time of the case that was prepared last."""
        self._pipe.send(None)
        return self._receive()  # type: ignore[no-any-return]

    def _receive(self) -> Any:
        try:
            fine, value = self._pipe.recv()
        except EOFError:
            raise WorkerError("the process ended") from None
        if not fine:
            raise WorkerError(value)
        return value


def open_workers(names: Sequence[str], device: str, threads: int) -> tuple[dict[str, Worker], dict[str, str]]:
    """Start a process for each library that can be used.

    Returns
    -------
    dict
        The workers that are ready, by the library's name.
    dict
        The reason for each of the others that could have used this device.
    """
    ready, missing = {}, {}
    for name in names:
        if device in LIBRARIES[name].devices:
            try:
                ready[name] = Worker(name, device, threads)
            except UnavailableError as error:
                missing[name] = str(error)
    return ready, missing


# -- in the library's process --------------------------------------------------------------------------------------


def results(library: Library, outputs: Any) -> list[np.ndarray]:
    """Return copies of all outputs as a flat list of NumPy arrays."""
    library.wait(outputs)
    flat: list[np.ndarray] = []
    for output in outputs:
        flat += results(library, output) if isinstance(output, (list, tuple)) else [np.array(library.to_numpy(output))]
    return flat


def _serve(pipe: Any, name: str, device: str, threads: int) -> None:
    limit_threads(threads)
    try:
        library = LIBRARIES[name](device)
        library.limit_threads(threads)
    except UnavailableError as error:
        pipe.send((False, str(error)))
        return
    pipe.send((True, library.version))
    timer: Timer | None = None
    while True:
        try:
            message = pipe.recv()
        except EOFError:
            return
        try:
            if message is None:
                assert timer is not None
                answer: Any = timer.sample()
            else:
                case, plan = message
                timer = None  # what the last case holds goes first
                program = library.prepare(case, case.arrays())
                answer = results(library, program.outputs())
                timer = Timer(library, program, plan)
        except Exception as error:  # a library may raise anything; the others go on
            pipe.send((False, f"{type(error).__name__}: {error}".partition("\n")[0]))
        else:
            pipe.send((True, answer))
