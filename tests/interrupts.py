"""Ctrl-C at random times: what `KeyboardInterrupt` leaves behind in a program that is in the middle of something."""

from __future__ import annotations

import contextlib
import ctypes
import sys
import threading
import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

__all__ = ["interrupt", "interrupt_often"]


def interrupt(thread: threading.Thread) -> None:
    """Raise KeyboardInterrupt in a thread, between two of its steps."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(KeyboardInterrupt))


@contextlib.contextmanager
def _dropped() -> Iterator[list[object]]:
    """The callbacks, so far, in which Python has dropped a KeyboardInterrupt."""
    found: list[object] = []
    before = sys.unraisablehook

    def hook(unraisable: Any) -> None:
        if unraisable.exc_type is KeyboardInterrupt:
            found.append(unraisable.object)
        else:
            before(unraisable)

    sys.unraisablehook = hook
    try:
        yield found
    finally:
        sys.unraisablehook = before


def interrupt_often(program: Callable[[], object], times: int, longest: float, seed: int = 0) -> None:
    """Run a program again and again, in so many threads one after the other, and interrupt each at a random time.

    Every one must end by its interrupt, within 20 seconds. Python drops an exception that arises in the callback of a
    weak reference (of threads that have ended, say): such an interrupt is sent again.
    """
    random = Random(seed)
    for _ in range(times):
        ended: list[BaseException] = []

        def run(ended: list[BaseException] = ended) -> None:
            try:
                while True:
                    program()
            except BaseException as error:
                ended.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        time.sleep(random.uniform(0, longest))
        with _dropped() as dropped:
            interrupt(thread)
            for _ in range(200):
                thread.join(0.1)
                if not thread.is_alive():
                    break
                if dropped:
                    dropped.clear()
                    interrupt(thread)
        assert not thread.is_alive(), "the interrupt did not end it"
        assert not ended or isinstance(ended[0], KeyboardInterrupt), ended  # (none: it came before the program)
