"""Calls in progress: requests of an engine, the thread that advances them, and the handles for users."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, NoReturn

from gradcore.core.locks import new_lock
from gradcore.distributed.errors import DistBackendError
from gradcore.tools.profiler.recording import record_function
from gradcore.torch_names.futures import Future

__all__ = ["Compared", "Request", "Work", "wait_until", "watch"]

NOT_ON_TIME = "did not finish within {:g} s: another rank has not made this call, is stuck or has ended"


class Request:
    """A call of an engine that may be in progress.

    An instance of this base class stands for a call that is already complete.
    """

    #: Whether `ready` makes a stream wait instead of the host. A thread then has to watch the call's end and timeout.
    watched = False

    def needs_polls(self) -> bool:
        """Return whether the call makes progress only while `done` is called."""
        return not self.watched

    def done(self) -> bool:
        """Return whether the call is complete, after letting it make progress."""
        return True

    def ready(self) -> bool:
        """Return whether the results can be used: the call is complete, or the current stream waits for it."""
        return self.done()


class Compared(Request):
    """A request whose call is compared with those of the other processes at the same time.

    Parameters
    ----------
    request : Request
    comparison : Request
        Its `done` raises an error if the calls differ, whether `request` has finished or not.
    """

    def __init__(self, request: Request, comparison: Request) -> None:
        self._request, self._comparison, self._compared = request, comparison, False
        self.watched = request.watched

    def needs_polls(self) -> bool:
        """Return whether the call or its comparison makes progress only while `done` is called."""
        return not self._compared or self._request.needs_polls()

    def done(self) -> bool:
        """Return whether both the call and the comparison are complete."""
        self._compared = self._compared or self._comparison.done()
        return self._request.done() and self._compared

    def ready(self) -> bool:
        """Return whether the results can be used."""
        return self._request.ready()


#: Polls before a waiting process sleeps between them. They yield the processor to other threads that are ready to run.
_SPINS = 2000
_yield: Callable[[], Any] = getattr(os, "sched_yield", lambda: time.sleep(0))


def wait_until(done: Callable[[], bool], seconds: float) -> bool:
    """Poll `done` until it returns True. Return False if that takes longer than `seconds`.

    There may be more processes than processors, so it does not keep a processor busy: after some polls it sleeps
    between them.
    """
    end = time.monotonic() + seconds
    for _ in range(_SPINS):
        if done():
            return True
        _yield()
    pause = 2e-5
    while not done():
        if time.monotonic() > end:
            return False
        time.sleep(pause)
        pause = min(pause * 1.1, 1e-3)
    return True


class _Progress:
    """Thread that advances requests while the program computes, since MPI moves data only within its own calls."""

    #: Seconds between two polls, and between two where devices make progress by themselves. Then only timeouts and
    #: errors have to be noticed.
    PERIOD, WATCH_PERIOD = 2e-4, 1e-2

    def __init__(self) -> None:
        self._works: list[Work] = []
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def add(self, work: Work) -> None:
        """Poll the request of `work` until it is complete."""
        with self._changed:
            self._works.append(work)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="gradcore-distributed", daemon=True)
                self._thread.start()
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._works:
                    self._changed.wait()
                works = list(self._works)
            finished = {work for work in works if work._poll() or work._is_late()}
            with self._changed:
                self._works = [work for work in self._works if work not in finished]
            polls = any(work.needs_polls() for work in works)
            del works, finished
            if polls:
                time.sleep(self.PERIOD)
            else:
                with self._changed:
                    self._changed.wait(self.WATCH_PERIOD)


_progress = _Progress()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_progress.__init__)  # type: ignore[misc]

#: Let a work go on without being waited for.
watch = _progress.add


class Work:
    """Handle of a collective or message that may be in progress.

    Parameters
    ----------
    group : ProcessGroup
    request : Request
    describe : callable
        Returns what was called, in which rank and with what, for errors.
    result : list of Tensor
        The tensors that are written.
    finish : callable, optional
        Puts the results into these. It runs in the thread that waits.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributed.init_process_group("mpi")
    >>> t = gc.ones(2)
    >>> work = gc.distributed.all_reduce(t, async_op=True)
    >>> work.wait(), work.is_completed()
    (True, True)
    >>> gc.distributed.destroy_process_group()
    """

    def __init__(
        self,
        group: Any,
        request: Request,
        describe: Callable[[], str],
        result: Sequence[Any],
        finish: Callable[[], None] | None = None,
    ) -> None:
        self._group, self._request, self._describe = group, request, describe
        self._result, self._finish = result, finish
        self._error: BaseException | None = None
        self._future: _WorkFuture | None = None
        self._lock, self._completed = new_lock(), False
        #: When the call was made, when it was seen to have finished, and for how long somebody waited.
        self._begun, self._ended, self._waited = time.perf_counter(), 0.0, 0.0
        #: The thread that continues before the device has finished, because its stream waits.
        self._trusting: int | None = None

    def needs_polls(self) -> bool:
        """Return whether the call makes progress only while it is polled, see `Request.needs_polls`."""
        return self._request.needs_polls()

    def _poll(self, ready: bool = False) -> bool:
        """Test the request, unless another thread does. Return whether it is complete or has failed.

        Parameters
        ----------
        ready : bool
            Whether it is enough that the current stream waits for the results.
        """
        if self._ended or self._error is not None:
            return True
        if not self._lock.acquire(blocking=False):
            return False
        try:
            if ready and self._request.watched:
                if self._request.ready():
                    self._trusting = threading.get_ident()
                    return True
            elif self._request.done():
                self._ended = time.perf_counter()
                return True
        except Exception as error:
            self._error = error
            if self._trusting is not None:
                self._fail(f"failed: {error}")
            return True
        finally:
            self._lock.release()
        return False

    def _is_late(self) -> bool:
        """Return whether the device should have finished long ago. If so, the engine aborts the call."""
        seconds = self._group.timeout.total_seconds()
        if not self._request.watched or time.perf_counter() < self._begun + seconds:
            return False
        if self._error is None:
            self._fail(NOT_ON_TIME.format(seconds))
        return True

    def _complete(self) -> None:
        """Copy the results to the tensors, once. Raise the error of the request, if there is one."""
        if self._error is not None:
            if not isinstance(self._error, DistBackendError):
                self._fail(f"failed: {self._error}")
            raise self._error
        with self._lock:
            if self._completed:
                return
            if self._finish is not None:
                self._finish()
            self._finish, self._completed = None, True
        if self._future is not None:
            self._future.set_result(self._result)

    def _fail(self, why: str) -> None:
        """Set an error for a failure, after which the group can no longer be used."""
        cause, text = self._error, f"{self._describe()} {why}"
        self._error = DistBackendError(text)
        self._error.__cause__ = cause
        if self._trusting not in (None, threading.get_ident()):
            _raise_in(self._trusting, text)
        self._group.fail(text, self)
        if self._future is not None:
            self._future.set_exception(self._error)

    def fail_late(self) -> NoReturn:
        """Raise an error because the call has not finished within the timeout of its group."""
        self._fail(NOT_ON_TIME.format(self._group.timeout.total_seconds()))
        assert self._error is not None
        raise self._error

    def is_completed(self) -> bool:
        """Return whether the call is complete and its results are available."""
        if not self._completed and self._poll():
            self._complete()
        return self._completed

    def is_success(self) -> bool:
        """Return whether the call is complete without an error."""
        return self._completed

    def exception(self) -> BaseException | None:
        """Return the error of the call, or None."""
        return self._error

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait until the call is complete. On CUDA, make the current stream wait instead.

        Parameters
        ----------
        timeout : timedelta, optional
            By default that of the group.

        Returns
        -------
        bool
            True.

        Raises
        ------
        DistBackendError
            If it fails, or does not finish in time.
        """
        if not self._completed:
            seconds = (timeout or self._group.timeout).total_seconds()
            start = time.perf_counter()
            with record_function("gradcore::wait"):
                on_time = wait_until(lambda: self._poll(ready=True), seconds)
            self._waited += time.perf_counter() - start
            if not on_time:
                self._fail(NOT_ON_TIME.format(seconds))
            self._complete()
        return True

    def seconds(self) -> float:
        """Wait for the call, and return the time that it took until it was seen to be complete."""
        self.wait()
        wait_until(self._poll, self._group.timeout.total_seconds())
        return self._ended - self._begun

    def result(self) -> Sequence[Any]:
        """Return the tensors that the call writes, once it is complete."""
        self.wait()
        return self._result

    def get_future(self) -> Future[Any]:
        """Return a future for the list of tensors. Waiting for it, or for a future that follows, waits for the call."""
        if self._future is None:
            self._future = _WorkFuture(self)
            if self._completed:
                self._future.set_result(self._result)
        return self._future


def _raise_in(thread: int, text: str) -> None:
    """Raise an error in a thread that uses results which will not arrive, as soon as it runs Python code again."""
    error = type("DistBackendError", (DistBackendError,), {"__str__": lambda _: text})
    error.__module__ = DistBackendError.__module__
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(error))


Work.__module__ = __name__.rpartition(".")[0]


class _WorkFuture(Future[Any]):
    """Future of a call or of a callback after it. It is completed when it is waited for."""

    def __init__(self, work: Work) -> None:
        super().__init__()
        self._work = work

    def done(self) -> bool:
        """Return whether there is a result or an error."""
        return super().done() or (self._work.is_completed() and super().done())

    def wait(self) -> Any:
        """Wait for the work, and return its result."""
        self._work.wait()
        return super().wait()

    def then(self, callback: Callable[[Future[Any]], Any]) -> Future[Any]:
        """Return a future for the result of `callback`, which is called with this future when it is done."""
        after = _WorkFuture(self._work)

        def run(_: Any) -> None:
            try:
                after.set_result(callback(self))
            except Exception as error:
                after.set_exception(error)

        self.add_done_callback(run)
        return after
