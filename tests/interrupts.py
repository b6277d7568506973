"""Ctrl-C at random times: what `KeyboardInterrupt` leaves behind in a program that is in the middle of something."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from random import Random

__all__ = ["interrupt", "interrupt_often"]


def interrupt(thread: threading.Thread) -> None:
    """Raise KeyboardInterrupt in a thread, between two of its steps."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(KeyboardInterrupt))


def interrupt_often(program: Callable[[], object], times: int, longest: float, seed: int = 0) -> None:
    """Run a program again and again, in so many threads one after the other, and interrupt each at a random time.

    Every one must end by its interrupt, within 20 seconds.
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
        interrupt(thread)
        thread.join(20)
        assert not thread.is_alive(), "the interrupt did not end it"
        assert not ended or isinstance(ended[0], KeyboardInterrupt), ended  # (none: it came before the program)
