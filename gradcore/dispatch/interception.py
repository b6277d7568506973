"""Interception of calls: ``__torch_function__``, the profiler and autocasting.

A call comes here only if the thread's mode says that something of this is on. They see it in the order in which they
are named above; each makes the rest of the call by ``run(op, args, state)``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from gradcore.autograd.modes import AUTOCAST, PROFILE, State
from gradcore.dispatch.torch_function import is_overridden, route_call
from gradcore.ops.declare.table import Op

__all__ = ["Run", "intercept"]

#: What computes a call of an operation: of the operation, its arguments, and the thread's state.
Run: TypeAlias = Callable[[Op, tuple[Any, ...], State], Any]


def intercept(op: Op, args: tuple[Any, ...], run: Run, state: State) -> Any:
    """Make a call in all modes of the current thread that intercept operations."""
    if is_overridden(args, state.mode):
        return route_call(op, args)
    if state.mode & PROFILE:
        return state.profiler.call(_displayed_name(op), args, partial(_autocast, run), op, args, state)
    return _autocast(run, op, args, state)


def _displayed_name(op: Op) -> str:
    """Return the operation's name in profiles and messages; for `nn.functional`, that of the public function."""
    return op.path.rpartition(".")[2] if op.path.startswith("nn.") else op.name


def _autocast(run: Run, op: Op, args: tuple[Any, ...], state: State) -> Any:
    if state.mode & AUTOCAST:
        return state.autocast.call(op, args, run, state)
    return run(op, args, state)
