"""Threads that wait for a piece of work each, and are woken with one lock: in a third of the time of an executor.

A piece that no thread has begun can be taken back. So a thread that wakes late, because other programs use its core,
costs what it takes to call it, and nobody waits for it.
"""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable
from contextlib import suppress

import numpy as np

from gradcore.backends.numpy.cores import current_core, keep_away

__all__ = ["Helper", "Pool", "works_in_parts"]

Work = Callable[[], None]


class _Here(threading.local):
    """What is so in a thread."""

    part = False


_here = _Here()


def works_in_parts() -> bool:
    """Whether the current thread does a part of something that is shared already."""
    return _here.part


class Helper:
    """A thread, and the piece of work that it was given last.

    It ends with the process, as daemons do, or when it is given None.
    """

    __slots__ = ("away_from", "done", "error", "pieces", "thread", "wake")

    def __init__(self) -> None:
        self.away_from = -1
        self.wake, self.done = _thread.allocate_lock(), _thread.allocate_lock()
        self.wake.acquire()
        self.done.acquire()
        self.pieces: list[Work | None] = []
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._serve, name="gradcore", daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        _here.part = True
        np.seterr(all="ignore")
        while True:
            self.wake.acquire()
            try:
                piece = self.pieces.pop()
            except IndexError:  # taken back
                continue
            if piece is None:
                return
            try:
                piece()
            except BaseException as error:
                self.error = error
            del piece
            self.done.release()

    def keep_away(self, core: int) -> None:
        """Keep the thread away from a core, where its caller is."""
        if core != self.away_from:
            self.away_from = core
            keep_away(self.thread.native_id or 0, core)

    def give(self, piece: Work | None) -> None:
        """Have a piece of work done; it has none at the moment."""
        self.pieces.append(piece)
        # If it has not yet noticed that the last piece was taken back, it will find this one.
        with suppress(RuntimeError):
            self.wake.release()

    def wait(self) -> BaseException | None:
        """Wait until the piece is done, unless it has not been begun: then it is taken back. Returns what it raised.

        An interrupt from the keyboard waits, too: nobody may see a result while a thread writes into it.
        """
        try:
            self.pieces.pop()
        except IndexError:
            interrupt: BaseException | None = None
            while True:
                try:
                    self.done.acquire()
                    break
                except BaseException as raised:
                    interrupt = raised
            error, self.error = self.error or interrupt, None
            return error
        return None


class Pool:
    """Helpers beside the threads that have work for them; started when there is first something to do.

    Parameters
    ----------
    size : int
        How many helpers there are at most, one less than the threads that work.
    """

    def __init__(self, size: int) -> None:
        self.size, self.started = size, 0
        self.free: list[Helper] = []
        self.lock = threading.Lock()

    def take(self, number: int) -> list[Helper]:
        """So many helpers that are free, or fewer."""
        taken: list[Helper] = []
        with self.lock:
            while len(taken) < number:
                if self.free:
                    taken.append(self.free.pop())
                elif self.started < self.size:
                    try:
                        taken.append(Helper())
                    except RuntimeError:  # the interpreter is about to end
                        break
                    self.started += 1
                else:
                    break
        return taken

    def put_back(self, helpers: list[Helper]) -> None:
        """These are free again, or end if there are too many by now."""
        with self.lock:
            self.free += helpers
            while self.started > self.size and self.free:
                self.free.pop().give(None)
                self.started -= 1

    def resize(self, size: int) -> None:
        """Have so many helpers at most from now on."""
        self.size = size
        self.put_back([])

    def forget(self) -> None:
        """The child of a fork has none of its parent's threads, and perhaps a lock that one of them held."""
        self.started, self.free, self.lock = 0, [], threading.Lock()

    def run(self, piece: Work, number: int) -> None:
        """Call `piece` in the current thread and in so many others, or fewer, which may come too late for it.

        So it has to be something that all of them draw their parts from.
        """
        helpers = self.take(number)
        core = current_core()
        for helper in helpers:
            helper.keep_away(core)
            helper.give(piece)
        _here.part = True
        try:
            piece()
        finally:
            _here.part = False
            errors = [helper.wait() for helper in helpers]
            self.put_back(helpers)
        for error in errors:
            if error is not None:
                raise error
