"""Python's `multiprocessing`, whose processes share the tensors that `Tensor.share_memory_` has moved.

Other tensors are copied when a process gets them.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing import *  # noqa: F403
from multiprocessing import pool
from multiprocessing.reduction import ForkingPickler
from typing import Any

from gradcore.nn.parameter import Parameter
from gradcore.tensor import Tensor
from gradcore.tensor.sharing import reduce_for_processes
from gradcore.torch_names import paths

__all__ = [
    *multiprocessing.__all__,
    "ProcessContext",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "pool",
    "set_sharing_strategy",
    "spawn",
    "start_processes",
]

#: How memory is shared: by files that have no name.
_STRATEGY = "file_descriptor"


def get_all_sharing_strategies() -> set[str]:
    """Return the names of the ways to share memory, of which there is one."""
    return {_STRATEGY}


def get_sharing_strategy() -> str:
    """Return the way in which memory is shared."""
    return _STRATEGY


def set_sharing_strategy(new_strategy: str) -> None:
    """Check the strategy and do nothing else: memory is always shared by file descriptors."""
    if new_strategy not in ("file_descriptor", "file_system"):
        raise AssertionError(f"unknown sharing strategy {new_strategy!r}")


for _cls in (Tensor, Parameter):
    ForkingPickler.register(_cls, reduce_for_processes)


class ProcessContext:
    """Processes that were started together.

    Parameters
    ----------
    processes : sequence of Process
    """

    def __init__(self, processes: Sequence[Any]) -> None:
        self.processes = list(processes)

    def pids(self) -> list[int]:
        """Return the process ids."""
        return [process.pid for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait for the processes; return whether all of them have ended.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait.
        grace_period : float, optional
            Seconds that the others have to end after one has failed, before they are killed.

        Raises
        ------
        RuntimeError
            If one has failed; the others are ended.
        """
        end = None if timeout is None else time.monotonic() + timeout
        running = {process.sentinel: process for process in self.processes}
        while running and not any(process.exitcode for process in self.processes):
            remaining = None if end is None else max(end - time.monotonic(), 0.0)
            ended_sentinels = multiprocessing.connection.wait(list(running), remaining)
            if not ended_sentinels:
                return False
            for sentinel in ended_sentinels:
                running.pop(sentinel).join()
        failed = [i for i, process in enumerate(self.processes) if process.exitcode not in (0, None)]
        if failed:
            for process in self.processes:
                process.terminate()
            for process in self.processes:
                process.join(30.0 if grace_period is None else grace_period)
                process.kill()
            raise RuntimeError(f"process {failed[0]} terminated with exit code {self.processes[failed[0]].exitcode}")
        return all(process.exitcode == 0 for process in self.processes)


def _call(fn: Callable[..., object], *args: object) -> None:
    """Call `fn` in its own process, and store its error for the exit of the interpreter."""
    try:
        fn(*args)
    except BaseException as error:
        sys.last_value = error  # as for an uncaught error, so that MPI ends the other processes
        raise


def start_processes(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Call ``fn(i, *args)`` in processes, with `i` from 0.

    Parameters
    ----------
    fn : callable
    args : sequence
    nprocs : int
        How many processes.
    join : bool
        Whether to wait for them.
    daemon : bool
        Whether they end when this process does.
    start_method : {"spawn", "fork", "forkserver"}

    Returns
    -------
    ProcessContext or None
        The processes, if they are not waited for.
    """
    start: Any = multiprocessing.get_context(start_method)
    processes = [start.Process(target=_call, args=(fn, i, *args), daemon=daemon) for i in range(nprocs)]
    for process in processes:
        process.start()
    started = ProcessContext(processes)
    if not join:
        return started
    started.join()
    return None


def spawn(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Call `start_processes` with new interpreters."""
    return start_processes(fn, args, nprocs, join, daemon, start_method)


paths.show_public(__name__)
