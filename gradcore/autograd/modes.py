"""The modes of a thread: recording, forward-mode levels, hooks on saved tensors; and a new thread with the same."""

from __future__ import annotations

import contextvars
import ctypes
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

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
#: In inference mode nothing is recorded: this stands for GRAD until it ends.
GRAD_REQUESTED = 32
#: Interception of operations: modes that see every call, autocasting, a profiler. TORCH_FUNCTION_OFF: subclasses of
#: tensors do not override operations, which compute with them as with plain tensors.
TORCH_FUNCTION_MODE, AUTOCAST, PROFILE, TORCH_FUNCTION_OFF = 64, 128, 256, 512


def _silent_context() -> Callable[..., Any]:
    """Return a function that calls others in a context in which NumPy's floating-point warnings are off."""
    context = contextvars.copy_context()
    context.run(np.seterr, all="ignore")
    return context.run


class State:
    """The modes of one thread.

    Attributes
    ----------
    mode : int
        Bits as above; operations read it once.
    enter : callable
        ``enter(kernel, *args)`` calls a kernel in a context with NumPy's floating-point warnings off, as log(0) is no
        news here; the caller's own `numpy.errstate` stays as it is. A context cannot be entered twice: what may run
        within a kernel (a signal handler, a finalizer) calls `run`, or `reenter` where this raises.
    enclose : callable
        As `enter`, of a second context, for work that calls kernels one after another and may `enter` meanwhile.
    levels : tuple
        The open forward-mode levels, innermost last.
    batches : tuple
        The levels of the `vmap` calls that are running, innermost last.
    transforms : tuple
        The transformations of `func` that differentiate and are running, innermost last.
    pack_hooks : tuple
        Pairs of functions around saved tensors, innermost last.
    hooks_disabled : str or None
        Where such pairs are forbidden, what the error says.
    task : object
        The backward call that is running, or None.
    evaluated : Node or None
        With anomaly detection on, the node whose backward is running.
    check_nan : bool
        Whether anomaly detection takes nan for an error.
    functions : tuple
        The modes that see every call, innermost last.
    autocast : object
        What chooses the dtypes of operations, or None: its `arguments` converts those of a call.
    profiler : object
        What takes the time of operations, or None: its `call` makes a call and notes it.
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

    def run(self, kernel: Callable[..., Any], *args: Any, **named: Any) -> Any:
        """Call a kernel with NumPy's floating-point warnings off, also from within another kernel's call."""
        try:
            return self.enter(kernel, *args, **named)
        except RuntimeError as error:
            return self.reenter(error)(kernel, *args, **named)

    def reenter(self, error: RuntimeError, name: str = "enter") -> Callable[..., Any]:
        """Return `enter` (or `enclose`) of a fresh context, because a kernel is still running in the old one.

        The outer call has entered its own context and is not affected.

        Raises
        ------
        RuntimeError
            `error`, where it is the kernel's own.
        """
        traceback = error.__traceback__
        if traceback is None or traceback.tb_next or not str(error).startswith("cannot enter context"):
            raise error
        setattr(self, name, _silent_context())
        return getattr(self, name)  # type: ignore[no-any-return]


class _Local(threading.local):
    def __init__(self) -> None:
        self.state = State()


local = _Local()


def recording() -> bool:
    """Return whether operations are recorded in this thread (in inference mode: whether they were asked to be)."""
    return bool(local.state.mode & (GRAD | GRAD_REQUESTED))


def set_recording(on: bool) -> bool:
    """Switch recording on or off; returns whether it was on."""
    return set_flag(GRAD_REQUESTED if local.state.mode & INFERENCE else GRAD, on)


def set_flag(flag: int, on: bool) -> bool:
    """Switch one bit of this thread's mode; returns its former state."""
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
    """Run `call` in a new thread, which has an empty stack and the modes of this one; return or raise its outcome.

    What interrupts this thread, as Ctrl-C does, is raised in the new one and ends it. Interrupted once more, this
    thread waits no longer: the other one does not come back from something that is not Python.
    """
    here = local.state
    outcome: list[Any] = []

    def run() -> None:
        there = local.state
        for name in type(here).__slots__:
            if name not in ("enter", "enclose"):  # a context belongs to one thread
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
