"""Worker threads of a data loader."""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from queue import SimpleQueue
from typing import Any, NamedTuple

from gradcore.tensor.random.generator import begin_stream

__all__ = ["END", "WorkerInfo", "Workers", "get_worker_info"]

#: The result of a worker whose part of an iterable dataset has ended.
END = object()
#: Seconds to wait for the running tasks of workers when a loop ends before its last batch.
PATIENCE = 1.0
#: Seconds after which a waiting thread checks whether it was interrupted.
LOOK = 0.2
_local = threading.local()


class WorkerInfo(NamedTuple):
    """Information about a worker.

    Attributes
    ----------
    id : int
        The number of the worker.
    num_workers : int
        The number of workers.
    seed : int
        The seed of the worker's random numbers: gradcore draws from a stream with this seed.
    dataset : Dataset
        The dataset, which all workers share.
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any


def get_worker_info() -> WorkerInfo | None:
    """Return information about the worker thread that calls this function, or None in other threads.

    With it, an iterable dataset can yield a different part in each worker.

    Examples
    --------
    >>> import gradcore as gc
    >>> from gradcore.utils import data
    >>> data.get_worker_info() is None
    True
    """
    return getattr(_local, "info", None)


class Worker:
    """A thread that runs tasks in order. It ends with the process, even in the middle of a task.

    Parameters
    ----------
    info : WorkerInfo
    init : callable, optional
        Called with the worker's number in its thread.
    """

    def __init__(self, info: WorkerInfo, init: Callable[[int], object] | None) -> None:
        self.info, self.init = info, init
        self.tasks: SimpleQueue[tuple[Future[Any], Callable[[int], Any]] | None] = SimpleQueue()
        self.thread = threading.Thread(target=self._work, name=f"worker {info.id}", daemon=True)
        self.thread.start()

    def submit(self, task: Callable[[int], Any]) -> Future[Any]:
        """Submit a task, and return the future of its result."""
        future: Future[Any] = Future()
        self.tasks.put((future, task))
        return future

    def _work(self) -> None:
        _local.info = self.info
        begin_stream(self.info.seed)
        failed: BaseException | None = None
        if self.init is not None:
            try:
                self.init(self.info.id)
            except BaseException as error:
                failed = error
        while (item := self.tasks.get()) is not None:
            future, task = item
            if not future.set_running_or_notify_cancel():
                continue
            try:
                if failed is not None:
                    raise failed
                future.set_result(task(self.info.id))
            except BaseException as error:
                future.set_exception(error)
            del item, future, task


class Workers:
    """Several threads that take turns with the tasks. Results come in the order of the tasks.

    Parameters
    ----------
    dataset : Dataset
    count : int
    init : callable, optional
        Called with a worker's number in its thread.
    seed : int
        The seed of the first worker.
    """

    def __init__(self, dataset: Any, count: int, init: Callable[[int], object] | None, seed: int) -> None:
        self.workers = [Worker(WorkerInfo(i, count, seed + i, dataset), init) for i in range(count)]

    def run(self, tasks: Iterator[Callable[[int], Any]], ahead: int, timeout: float) -> Iterator[Any]:
        """Yield the results of tasks in order, up to `ahead` of them computed in advance.

        A task is called with the worker's number.
        """
        turns = itertools.cycle(enumerate(self.workers))
        waiting: deque[tuple[int, Future[Any]]] = deque()
        ended: set[int] = set()

        def submit() -> bool:
            task = next(tasks, None)
            if task is None:
                return False
            number, worker = next(turn for turn in turns if turn[0] not in ended)
            waiting.append((number, worker.submit(task)))
            return True

        try:
            while len(waiting) < ahead and submit():
                pass
            while waiting:
                number, future = waiting.popleft()
                result = _result(future, timeout)
                if result is END:
                    ended.add(number)
                else:
                    yield result
                if len(ended) < len(self.workers):
                    submit()
        finally:
            for _, future in waiting:
                future.cancel()

    def stop(self, patience: float = 0) -> None:
        """Stop the threads, and wait up to `patience` seconds. Threads that have not ended by then are abandoned."""
        for worker in self.workers:
            worker.tasks.put(None)
        end = time.monotonic() + patience
        for worker in self.workers:
            worker.thread.join(max(0, end - time.monotonic()))


def _result(future: Future[Any], timeout: float) -> Any:
    """Return the result or raise the error of a worker. This thread wakes up regularly, so that Ctrl-C is noticed."""
    end = time.monotonic() + timeout
    while not future.done():
        left = end - time.monotonic() if timeout else LOOK
        if left <= 0:
            raise RuntimeError(f"DataLoader timed out after {timeout} seconds")
        wait((future,), min(left, LOOK))
    return future.result()
