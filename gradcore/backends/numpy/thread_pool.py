"""A pool of threads that are woken with one lock each, in a third of the time of an executor.

A piece that no thread has begun can be taken back. So a thread that wakes late, because other programs use its core,
costs what it takes to call it, and nobody waits for it.

Ctrl-C may come between any two steps. So nothing here is a step that must not be repeated: what a thread owns, who has
begun a piece and whether it is done are written down where they can be read again, by `dict.setdefault`, which has one
winner, or by a single assignment; locks only wake.
"""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable
from contextlib import suppress

import numpy as np

from gradcore.backends.numpy.affinity import current_core, keep_away
from gradcore.core.interrupts import run_despite_interrupts

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
    """A piece of work for a helper.

    Attributes
    ----------
    begun : dict
        Empty, or who has taken the piece: a helper that does it, or None, its giver, so that nobody does.
    """

    __slots__ = ("begun", "error", "finished", "work")

    def __init__(self, work: Work | None) -> None:
        self.work, self.finished = work, False
        self.begun: dict[str, object] = {}
        self.error: BaseException | None = None


#: What a helper has that has nothing to do: it was taken back.
_NOTHING = _Piece(None)
_NOTHING.begun["by"] = None

#: The user of helpers that are to end.
_NOBODY = object()


class Helper:
    """A daemon thread of the pool, and the piece of work that it was given last.

    It starts with its first piece, and ends when it is given None.

    Attributes
    ----------
    user : dict
        Empty, or the one for whom it works.
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
            if piece.begun.setdefault("by", me) is not me:  # taken back, or done before
                continue
            if piece.work is None:
                self.native_id = None
                return
            try:
                piece.work()
            except BaseException as error:
                piece.error = error
            piece.work = None
            piece.finished = True
            del piece
            with suppress(RuntimeError):  # nobody has waited for the last one
                self.done.release()

    def keep_away(self, core: int) -> None:
        """Keep the thread away from the core of its caller."""
        if core != self.away_from and self.native_id is not None:
            keep_away(self.native_id, core)
            self.away_from = core

    def give(self, work: Work | None) -> None:
        """Give a piece of work to the thread, which has none at the moment."""
        self.piece = _Piece(work)
        if self.native_id is None and work is not None:
            try:
                # Not a `threading.Thread`, whose start waits: for ever, if an interrupt hits the thread's first step.
                _thread.start_new_thread(self._serve, ())
            except RuntimeError:  # the interpreter is about to end, or there are as many as the system allows
                return
        # If it has not yet noticed that the last piece was taken back, it will find this one.
        with suppress(RuntimeError):
            self.wake.release()

    def wait(self) -> BaseException | None:
        """Wait until the piece is done, or take it back if it has not begun. Return the exception that it raised.

        An interrupt from the keyboard waits, too, and is returned: nobody may see a result while a thread writes into
        it. `wait` may be called again.
        """
        interrupt: BaseException | None = None
        piece = self.piece
        while piece.begun.setdefault("by", None) is not None and not piece.finished:
            try:
                self.done.acquire()  # also where nobody waited for an earlier piece
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
        How many helpers there are at most, one less than the threads that work.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.helpers: list[Helper] = []
        self.lock = threading.Lock()
        #: Called before helpers get work: threads of others that look for some are to leave them the cores.
        self.hush: Callable[[], object] = _nobody_looks

    @property
    def helper_count(self) -> int:
        """Number of helpers that have been started."""
        return len(self.helpers)

    @property
    def free(self) -> list[Helper]:
        """The helpers that nobody uses."""
        return [helper for helper in self.helpers if not helper.user]

    def take(self, user: object, number: int) -> list[Helper]:
        """Reserve up to `number` free helpers for `user`, and return them. `give_back` frees them."""
        taken = self._claim(user, number)
        if len(taken) < number and self.helper_count < self.size:
            with self.lock:
                missing = min(number - len(taken), self.size - self.helper_count)
                self.helpers = [*self.helpers, *[Helper() for _ in range(missing)]]
            taken = self._claim(user, number)
        return taken

    def _claim(self, user: object, number: int) -> list[Helper]:
        """Mark up to `number` free helpers as used by `user`, and return them."""
        taken: list[Helper] = []
        for helper in self.helpers:
            if len(taken) < number and helper.user.setdefault("is", user) is user:
                taken.append(helper)
        return taken

    def give_back(self, user: object) -> BaseException | None:
        """Wait for the helpers of a user and free them. Return an exception that one of them raised, or None.

        Helpers beyond the pool's size end.
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
        self.helpers, self.lock = [], threading.Lock()

    def run(self, work: Work, number: int) -> None:
        """Call `work` in the current thread and in up to `number` helpers at the same time.

        `work` has to fetch its parts from a shared source, as a helper may come too late to do anything.
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
