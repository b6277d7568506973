"""Backward within backward, in another thread where the stack of this one runs out; what is called at its end."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable
from typing import Any

from gradcore.autograd.modes import local

__all__ = ["CALLBACKS", "call_back", "elsewhere", "is_deep"]

#: Under this key the notes of a backward call have the functions to call at its end.
CALLBACKS = object()


def call_back(notes: dict[Any, Any]) -> None:
    """Call these functions, and those that they ask for."""
    callbacks = notes.get(CALLBACKS, [])
    while callbacks:
        callbacks.pop(0)()


def is_deep() -> bool:
    """Whether more than half of the frames that Python allows are in use."""
    try:
        sys._getframe(sys.getrecursionlimit() // 2)
    except ValueError:
        return False
    return True


def elsewhere(call: Callable[[], Any]) -> Any:
    """What `call` returns or raises in a new thread, which has an empty stack and the modes of this one.

    What interrupts this thread, as Ctrl-C does, is raised in the new one and ends it. Interrupted once more, this
    thread waits no longer: the other one does not come back from something that is not Python.
    """
    here = local.state
    outcome: list[Any] = []

    def run() -> None:
        there = local.state
        for name in type(here).__slots__:
            if name != "run":  # a context belongs to one thread
                setattr(there, name, getattr(here, name))
        try:
            outcome.append((call(), None))
        except BaseException as error:
            outcome.append((None, error))
        ended.release()

    ended = threading.Lock()
    ended.acquire()
    thread = threading.Thread(target=run, name="backward", daemon=True)
    try:
        thread.start()
        _wait(ended, outcome)
    except BaseException as interrupt:
        if not outcome and thread.ident is not None:
            _raise_in(thread.ident, type(interrupt))
            _wait(ended, outcome)
        raise
    finally:
        if outcome:
            thread.join()
    result, error = outcome[0]
    if error is not None:
        raise error
    return result


def _wait(ended: threading.Lock, outcome: list[Any]) -> None:
    """Wait for an outcome; now and then there is a step at which this thread can be interrupted.

    (`Thread.join` with a time limit takes a thread that runs for one that has ended, if it is interrupted.)
    """
    while not outcome:
        ended.acquire(timeout=0.1)


def _raise_in(thread: int, error: type[BaseException]) -> None:
    """Raise an error in another thread, between two of its steps."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(error))
