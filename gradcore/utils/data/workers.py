"""Worker threads of a data loader, and what they know of themselves."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

__all__ = ["END", "WorkerInfo", "Workers", "get_worker_info"]

#: What a worker returns when its part of an iterable dataset has ended.
END = object()
_local = threading.local()


class WorkerInfo(NamedTuple):
    """What is known of a worker.

    Attributes
    ----------
    id : int
        Its number.
    num_workers : int
        How many there are.
    seed : int
        For random numbers of its own.
    dataset : Dataset
        The dataset, which all workers share.
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any


def get_worker_info() -> WorkerInfo | None:
    """What is known of the worker thread that runs this; None outside of one.

    With it, an iterable dataset can give each worker a part of its own.
    """
    return getattr(_local, "info", None)


class Workers:
    """Threads that take turns: each makes every so-many-th batch, and batches come in their order.

    Parameters
    ----------
    dataset : Dataset
    count : int
    init : callable, optional
        Called with a worker's number in its thread.
    seed : int
        Of the first worker.
    """

    def __init__(self, dataset: Any, count: int, init: Callable[[int], object] | None, seed: int) -> None:
        def start(number: int) -> None:
            _local.info = WorkerInfo(number, count, seed + number, dataset)
            if init is not None:
                init(number)

        self.threads = [ThreadPoolExecutor(1, f"worker {i}", start, (i,)) for i in range(count)]

    def run(self, tasks: Iterator[Callable[[int], Any]], ahead: int, timeout: float) -> Iterator[Any]:
        """The results of tasks, each called with its worker's number, some of them computed ahead."""
        turns = itertools.cycle(enumerate(self.threads))
        waiting: deque[tuple[int, Future[Any]]] = deque()
        ended: set[int] = set()

        def submit() -> bool:
            task = next(tasks, None)
            if task is None:
                return False
            number, thread = next(turn for turn in turns if turn[0] not in ended)
            waiting.append((number, thread.submit(task, number)))
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
                if len(ended) < len(self.threads):
                    submit()
        finally:
            for _, future in waiting:
                future.cancel()

    def stop(self) -> None:
        """End the threads."""
        for thread in self.threads:
            thread.shutdown(wait=True, cancel_futures=True)


def _result(future: Future[Any], timeout: float) -> Any:
    try:
        return future.result(timeout or None)
    except TimeoutError as error:
        if future.done():
            raise
        raise RuntimeError(f"DataLoader timed out after {timeout} seconds") from error
