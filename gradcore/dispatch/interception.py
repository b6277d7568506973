"""Interception of calls by ``__torch_function__``, the profiler and autocasting.

A call is intercepted only if one of these is active in the current thread. They see the call in the order named here,
and each continues it with ``run(op, args, state)``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from gradcore.autograd.modes import AUTOCAST, PROFILE, State
from gradcore.dispatch.torch_function import is_overridden, route_call
from gradcore.ops.declare.table import Op

__all__ = ["Run", "intercept"]

#: Function that computes a call, from the operation, its arguments and the state of the current thread.
Run: TypeAlias = Callable[[Op, tuple[Any, ...], State], Any]


def intercept(op: Op, args: tuple[Any, ...], run: Run, state: State) -> Any:
    """Call an operation through all modes of the current thread that intercept calls, and return its result.

    The last of them computes the call with ``run(op, args, state)``.
    """
    if is_overridden(args, state.mode):
        return route_call(op, args)
    if state.mode & PROFILE:
        return state.profiler.call(_displayed_name(op), args, partial(_autocast, run), op, args, state)
    return _autocast(run, op, args, state)


def _displayed_name(op: Op) -> str:
    """Return the operation's name for profiles and messages: for `nn.functional`, the name of the public function."""
    return op.path.rpartition(".")[2] if op.path.startswith("nn.") else op.name


def _autocast(run: Run, op: Op, args: tuple[Any, ...], state: State) -> Any:
    if state.mode & AUTOCAST:
        return state.autocast.call(op, args, run, state)
    return run(op, args, state)
