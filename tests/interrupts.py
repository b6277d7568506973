"""Ctrl-C at random times, or at every time: what it leaves behind in a program that is in the middle of something."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

__all__ = ["interrupt", "interrupt_everywhere", "interrupt_often"]

PACKAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "gradcore", "")


def interrupt(thread: threading.Thread) -> None:
    """Raise KeyboardInterrupt in a thread, between two of its steps."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(KeyboardInterrupt))


#: For each thread that is interrupted, its number and the times from which on a lost interrupt is to be sent again.
#: Two threads may have one number: that of a thread that has ended is used again.
_watched: list[tuple[int, list[float]]] = []
_lock = threading.Lock()
_hook_before: list[Any] = []


def _note_dropped(unraisable: Any) -> None:
    """Note a dropped interrupt for its thread, which calls this; hand everything else on.

    Until Python 3.11, a thread that has not run yet counts as the thread that starts it: an interrupt of the latter may
    end the former. Nothing says which thread that was, so it is noted for all, of which those that were interrupted
    have some seconds to end.
    """
    if unraisable.exc_type is not KeyboardInterrupt:
        _hook_before[0](unraisable)
        return
    own = [times for ident, times in _watched if ident == threading.get_ident()]
    for times in own or [times for _, times in _watched]:
        times.append(time.monotonic() + (0 if own else 3))


@contextlib.contextmanager
def _watch_dropped(thread: threading.Thread) -> Iterator[list[float]]:
    """Collect the times at which interrupts of a thread are to be sent again. Several threads may be watched."""
    watched: tuple[int, list[float]] = thread.ident or 0, []
    with _lock:
        if not _watched:
            _hook_before[:] = [sys.unraisablehook]
            sys.unraisablehook = _note_dropped
        _watched.append(watched)
    try:
        yield watched[1]
    finally:
        with _lock:
            _watched[:] = [each for each in _watched if each is not watched]
            if not _watched:
                sys.unraisablehook = _hook_before[0]


def interrupt_often(program: Callable[[], object], times: int, longest: float, seed: int = 0) -> None:
    """Run a program again and again, in so many threads one after the other, and interrupt each at a random time.

    Every one must end by its interrupt, within 20 seconds. Python drops an exception that arises in the callback of a
    weak reference (of threads that have ended, say): such an interrupt is sent again.
    """
    random = Random(seed)
    for _ in range(times):
        ended: list[BaseException] = []
        begun = threading.Event()  # `start` returns while Python still prepares the thread

        def run(ended: list[BaseException] = ended, begun: threading.Event = begun) -> None:
            try:
                begun.set()
                while True:
                    program()
            except BaseException as error:
                ended.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        begun.wait()
        time.sleep(random.uniform(0, longest))
        with _watch_dropped(thread) as dropped:
            interrupt(thread)
            for _ in range(200):
                thread.join(0.1)
                if not thread.is_alive():
                    break
                if dropped and time.monotonic() >= min(dropped):
                    dropped.clear()
                    interrupt(thread)
        assert not thread.is_alive(), "the interrupt did not end it"
        assert not ended or isinstance(ended[0], KeyboardInterrupt), ended  # (none: it came as the handler began)


def interrupt_everywhere(
    program: Callable[[], object], check: Callable[[str], None], longest: int = 1000, also: tuple[str, ...] = ()
) -> int:
    """Run a program again and again, interrupt it once in each run, one step later each time, and call `check`.

    Interrupts come where the interpreter looks for them: as one of gradcore's functions begins, and when it has called
    a function of C. Left out is the beginning of ``__exit__``, against which Python has no remedy. After `longest`
    runs, random numbers of steps are left out.

    Parameters
    ----------
    check : callable
        Called after each interrupt with the file, line and event where it came.
    also : tuple of str
        Files outside of gradcore in whose functions interrupts come, too.
    """
    random, steps, runs = Random(0), 0, 0
    while True:
        steps += 1 if runs < longest else random.randint(1, 20)
        left, where = steps, ""

        def profile(frame: Any, event: str, argument: object) -> None:
            nonlocal left, where
            code = frame.f_code
            if event not in ("call", "c_return") or not code.co_filename.startswith((PACKAGE, *also)):
                return
            left -= 1
            if left == 0 and event == "call" and code.co_name in ("__exit__", "__del__", "<genexpr>"):
                left = 1  # (Python drops what is raised as one of the latter two is closed)
            elif left == 0:
                where = f"{code.co_filename}:{frame.f_lineno}, {event} {getattr(argument, '__name__', code.co_name)}"
                raise KeyboardInterrupt

        before = sys.getprofile()
        sys.setprofile(profile)
        try:
            with _watch_dropped(threading.current_thread()):
                program()
        except KeyboardInterrupt:
            pass
        finally:
            sys.setprofile(before)
        if not where:
            return runs
        runs += 1
        check(where)
