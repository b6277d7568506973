"""The thread-local modes: recording, forward-mode levels, saved-tensor hooks; and threads that inherit them."""

from __future__ import annotations

import contextvars
import ctypes
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from gradcore.backends.numpy.malloc import use_aligned_memory
from gradcore.backends.numpy.thread_state import is_flushing, set_flushing

__all__ = [
    "ANOMALY",
    "AUTOCAST",
    "DUAL",
    "GRAD",
    "INFERENCE",
    "PROFILE",
    "SAVED_HOOKS",
    "TORCH_FUNCTION_MODE",
    "TORCH_FUNCTION_OFF",
    "State",
    "is_stack_deep",
    "local",
    "recording",
    "run_in_new_thread",
    "set_flag",
    "set_recording",
]

#: Bits of `State.mode`. Everything above GRAD is off the fast path.
GRAD, DUAL, SAVED_HOOKS, INFERENCE, ANOMALY = 1, 2, 4, 8, 16
#: Stores the state of GRAD during inference mode, in which GRAD is off.
GRAD_REQUESTED = 32
#: Interception of operations: by a `TorchFunctionMode`, autocasting, or a profiler. With TORCH_FUNCTION_OFF, tensor
#: subclasses do not override operations, which treat them as plain tensors.
TORCH_FUNCTION_MODE, AUTOCAST, PROFILE, TORCH_FUNCTION_OFF = 64, 128, 256, 512


def _silent_context() -> Callable[..., Any]:
    """Return ``enter(function, *args)``, which calls a function with NumPy's warnings off and with aligned memory."""
    context = contextvars.copy_context()
    context.run(np.seterr, all="ignore")
    context.run(use_aligned_memory)
    return context.run


class State:
    """The modes of one thread.

    Attributes
    ----------
    mode : int
        Bits as above; operations read it once.
    enter : callable
        ``enter(kernel, *args)`` calls a kernel in a context with NumPy's floating-point warnings off. The caller's
        `numpy.errstate` does not change. A context cannot be entered twice, so code that may run within a kernel (a
        signal handler, a finalizer) calls `run`, or `reenter` if `enter` raises.
    enclose : callable
        Like `enter`, with a second context, for functions that call many kernels and may use `enter` themselves.
    levels : tuple
        The open forward-mode levels, innermost last.
    batches : tuple
        The levels of the `vmap` calls that are running, innermost last.
    transforms : tuple
        The transformations of `func` that differentiate and are running, innermost last.
    pack_hooks : tuple
        The active pairs of pack and unpack hooks for saved tensors, innermost last.
    hooks_disabled : str or None
        The message of the error if such hooks are disabled.
    task : object
        The backward call that is running, or None.
    evaluated : Node or None
        With anomaly detection on, the node whose backward is running.
    check_nan : bool
        Whether anomaly detection raises an error for nan.
    functions : tuple
        The active `TorchFunctionMode` objects, innermost last.
    autocast : object
        The autocast state, whose `arguments` converts the arguments of a call, or None.
    profiler : object
        The active profiler, whose `call` makes and records a call, or None.
    """

    __slots__ = (
        "autocast", "batches", "check_nan", "enclose", "enter", "evaluated", "functions", "hooks_disabled", "levels",
        "mode", "pack_hooks", "profiler", "task", "transforms",
    )  # fmt: skip

    def __init__(self) -> None:
        self.mode = GRAD
        self.enter: Callable[..., Any] = _silent_context()
        self.enclose: Callable[..., Any] = _silent_context()
        self.levels: tuple[Any, ...] = ()
        self.batches: tuple[Any, ...] = ()
        self.transforms: tuple[Any, ...] = ()
        self.pack_hooks: tuple[Any, ...] = ()
        self.hooks_disabled: str | None = None
        self.task: Any = None
        self.evaluated: Any = None
        self.check_nan = True
        self.functions: tuple[Any, ...] = ()
        self.autocast: Any = None
        self.profiler: Any = None

    def run(self, kernel: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a kernel with NumPy's floating-point warnings off, also from within another kernel's call."""
        try:
            return self.enter(kernel, *args, **kwargs)
        except RuntimeError as error:
            return self.reenter(error)(kernel, *args, **kwargs)

    def reenter(self, error: RuntimeError, name: str = "enter") -> Callable[..., Any]:
        """Return `enter` (or `enclose`) of a fresh context, because a kernel is still running in the old one.

        The outer call has entered its own context and is not affected.

        Raises
        ------
        RuntimeError
            If `error` was raised by the kernel itself; it is raised again.
        """
        traceback = error.__traceback__
        if traceback is None or traceback.tb_next or not str(error).startswith("cannot enter context"):
            try:
                raise error
            finally:  # This frame is in the traceback of the error: both would keep each other alive.
                del error, traceback
        setattr(self, name, _silent_context())
        return getattr(self, name)  # type: ignore[no-any-return]


class _Local(threading.local):
    def __init__(self) -> None:
        self.state = State()


local = _Local()


def recording() -> bool:
    """Return whether operations are recorded in this thread; in inference mode, whether they will be after it."""
    return bool(local.state.mode & (GRAD | GRAD_REQUESTED))


def set_recording(on: bool) -> bool:
    """Switch recording on or off, and return whether it was on."""
    return set_flag(GRAD_REQUESTED if local.state.mode & INFERENCE else GRAD, on)


def set_flag(flag: int, on: bool) -> bool:
    """Switch one bit of this thread's mode on or off, and return its former state."""
    state = local.state
    before = bool(state.mode & flag)
    state.mode = state.mode | flag if on else state.mode & ~flag
    return before


# -- backward within backward ------------------------------------------------------------------------------------------


def is_stack_deep() -> bool:
    """Return whether more than half of the frames that Python allows are in use."""
    try:
        sys._getframe(sys.getrecursionlimit() // 2)
    except ValueError:
        return False
    return True


def run_in_new_thread(call: Callable[[], Any]) -> Any:
    """Run `call` in a new thread with an empty stack and the modes of this thread; return or raise its outcome.

    An interrupt of this thread (Ctrl-C) is raised in the new thread and ends it. After a second interrupt, this thread
    stops waiting, because the new one must then be stuck in code that is not Python.
    """
    state, flushes = local.state, is_flushing()
    outcome: list[Any] = []

    def run() -> None:
        set_flushing(flushes)
        new_state = local.state
        for name in type(state).__slots__:
            if name not in ("enter", "enclose"):  # a context belongs to one thread
                setattr(new_state, name, getattr(state, name))
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
    """Wait until the new thread has ended, with regular steps at which this thread can be interrupted.

    (An interrupted `Thread.join` with a time limit reports a running thread as ended.)
    """
    while not outcome:
        ended.acquire(timeout=0.1)


def _raise_in(thread: int, error: type[BaseException]) -> None:
    """Raise an error in another thread, between two of its steps."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(error))
