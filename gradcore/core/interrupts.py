"""Cleanup that an interrupt, such as Ctrl-C, must not leave unfinished."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["run_despite_interrupts"]

#: The number of attempts: a step that is interrupted more often than that fails by itself.
MOST_INTERRUPTS = 100


def run_despite_interrupts(step: Callable[[], Any]) -> Any:
    """Call `step` until it completes despite interrupts; then raise the last interrupt.

    It is meant for the end of a ``try`` statement, where `step` repeats a cleanup that must be completed.
    """
    interrupt: BaseException | None = None
    for _ in range(MOST_INTERRUPTS):
        try:
            result = step()
            break
        except BaseException as raised:
            interrupt = raised
    if interrupt is not None:
        raise interrupt
    return result
