"""A pool of threads that are woken with one lock each, in a third of the time of an executor.

The caller can take back a piece of work that no thread has begun. If a thread wakes late because other programs use its
core, the caller therefore does not wait for it.

Ctrl-C may come between any two steps, so every step can be repeated. The user of a thread, and the thread that has
begun a piece, are set with `dict.setdefault`, which lets only the first one win. Whether a piece is finished is set by
a single assignment. Locks are only used to wake threads.
"""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable
from contextlib import suppress

import numpy as np

from gradcore.backends.numpy.thread_state import current_core, is_flushing, keep_away, set_flushing
from gradcore.core.interrupts import run_despite_interrupts
from gradcore.core.locks import new_lock

__all__ = ["Helper", "Pool", "works_in_parts"]

Work = Callable[[], None]


class _Here(threading.local):
    """Thread-local state."""

    part = False


_here = _Here()


def works_in_parts() -> bool:
    """Return whether the current thread already works on a part of shared work."""
    return _here.part


class _Piece:
    """Piece of work for a helper.

    Attributes
    ----------
    begun : dict
        Empty until somebody takes the piece. Then ``begun["by"]`` is the helper's marker, or None if the caller has
        taken it back.
    flushes : bool
        Whether the caller's CPU replaces subnormal numbers by zeros. The helper's then does the same.
    """

    __slots__ = ("begun", "error", "finished", "flushes", "work")

    def __init__(self, work: Work | None) -> None:
        self.work, self.finished, self.flushes = work, False, is_flushing()
        self.begun: dict[str, object] = {}
        self.error: BaseException | None = None


#: Piece of helpers that have nothing to do; it counts as taken back.
_NOTHING = _Piece(None)
_NOTHING.begun["by"] = None

#: User of helpers that are about to end.
_NOBODY = object()


class Helper:
    """Daemon thread of the pool, with the piece of work that it was given last.

    The thread starts with its first piece, and ends when it is given None.

    Attributes
    ----------
    user : dict
        Empty, or ``{"is": user}`` while a user has reserved the helper.
    """

    __slots__ = ("away_from", "done", "native_id", "piece", "user", "wake")

    def __init__(self) -> None:
        self.away_from = -1
        self.wake, self.done = _thread.allocate_lock(), _thread.allocate_lock()
        self.wake.acquire()
        self.done.acquire()
        self.user: dict[str, object] = {}
        self.piece = _NOTHING
        self.native_id: int | None = None

    def _serve(self) -> None:
        self.native_id = threading.get_native_id()
        _here.part = True
        np.seterr(all="ignore")
        while True:
            self.wake.acquire()
            piece, me = self.piece, object()
            if piece.begun.setdefault("by", me) is not me:  # the piece was taken back, or done before
                continue
            if piece.work is None:
                self.native_id = None
                return
            try:
                set_flushing(piece.flushes)
                piece.work()
            except BaseException as error:
                piece.error = error
            piece.work = None
            piece.finished = True
            del piece
            with suppress(RuntimeError):  # the lock is still free if nobody waited for the previous piece
                self.done.release()

    def keep_away(self, core: int) -> None:
        """Keep the thread away from the core of its caller."""
        if core != self.away_from and self.native_id is not None:
            keep_away(self.native_id, core)
            self.away_from = core

    def give(self, work: Work | None) -> None:
        """Give a piece of work to the thread, which must have none, and start or wake it."""
        self.piece = _Piece(work)
        if self.native_id is None and work is not None:
            try:
                # Not a `threading.Thread`, whose `start` waits for ever if an interrupt hits the thread's first step.
                _thread.start_new_thread(self._serve, ())
            except RuntimeError:  # the interpreter is about to end, or the system allows no more threads
                return
        # A free lock means that the thread has not yet noticed that the last piece was taken back. It will find this.
        with suppress(RuntimeError):
            self.wake.release()

    def wait(self) -> BaseException | None:
        """Wait until the piece is done, or take it back if it has not begun. Return the exception that it raised.

        A KeyboardInterrupt during the wait is returned as well, after the piece is done, because nobody may read a
        result while a thread writes to it. `wait` may be called again.
        """
        interrupt: BaseException | None = None
        piece = self.piece
        while piece.begun.setdefault("by", None) is not None and not piece.finished:
            try:
                self.done.acquire()  # may return at once, if nobody waited for an earlier piece
            except BaseException as raised:
                interrupt = raised
        return interrupt if piece.error is None else piece.error


def _nobody_looks() -> None:
    pass


class Pool:
    """A pool of helpers, which are started when they are first needed.

    Parameters
    ----------
    size : int
        Largest number of helpers. It is one less than the number of threads, as the caller's thread works, too.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.helpers: list[Helper] = []
        self.lock = new_lock()
        #: Called before helpers get work, so that spinning threads of other libraries leave the cores to them.
        self.hush: Callable[[], object] = _nobody_looks

    @property
    def helper_count(self) -> int:
        """Number of helpers that have been started."""
        return len(self.helpers)

    @property
    def free(self) -> list[Helper]:
        """The helpers that no user has reserved."""
        return [helper for helper in self.helpers if not helper.user]

    def take(self, user: object, number: int) -> list[Helper]:
        """Reserve up to `number` free helpers for `user`, and return them. `give_back` frees them."""
        helpers = self._claim(user, number)
        if len(helpers) < number and self.helper_count < self.size:
            with self.lock:
                missing = min(number - len(helpers), self.size - self.helper_count)
                self.helpers = [*self.helpers, *[Helper() for _ in range(missing)]]
            helpers = self._claim(user, number)
        return helpers

    def _claim(self, user: object, number: int) -> list[Helper]:
        """Mark up to `number` free helpers as used by `user`, and return them."""
        claimed: list[Helper] = []
        for helper in self.helpers:
            if len(claimed) < number and helper.user.setdefault("is", user) is user:
                claimed.append(helper)
        return claimed

    def give_back(self, user: object) -> BaseException | None:
        """Wait for the helpers of a user and free them. Return an exception that one of them raised, or None.

        Helpers beyond the pool's size are ended.
        """
        error = None
        for helper in self.helpers:
            if helper.user.get("is") is user:
                error = helper.wait() or error
                helper.piece = _NOTHING
                helper.user.clear()
        if self.helper_count > self.size:
            self._end_some()
        return error

    def _end_some(self) -> None:
        with self.lock:
            for helper in self.helpers[self.size :]:
                if helper.user.setdefault("is", _NOBODY) is _NOBODY:
                    helper.give(None)
                    self.helpers = [other for other in self.helpers if other is not helper]

    def resize(self, size: int) -> None:
        """Set the largest number of helpers."""
        self.size = size
        self._end_some()

    def forget(self) -> None:
        """Reset the pool in the child of a fork, where the parent's threads do not exist and locks may be held."""
        self.helpers, self.lock = [], new_lock()

    def run(self, work: Work, number: int) -> None:
        """Call `work` in the current thread and in up to `number` helpers at the same time.

        `work` must take its parts from a shared source, because a helper may start too late to do any of them.
        """
        user = object()
        self.hush()
        try:
            helpers, core = self.take(user, number), current_core()
            for helper in helpers:
                helper.keep_away(core)
                helper.give(work)
            _here.part = True
            work()
        finally:
            _here.part = False
            try:
                error = self.give_back(user)
            except BaseException:
                run_despite_interrupts(lambda: self.give_back(user))
                raise
        if error is not None:
            raise error
