"""Profiling of training loops: some steps are skipped, some are recorded, and each recording is passed to a handler."""

from __future__ import annotations

import enum
import os
import time
from collections.abc import Callable, Iterable
from typing import Any, Self

from gradcore.autograd import profiler
from gradcore.backends import registry
from gradcore.tools.profiler.events import EventList
from gradcore.tools.profiler.recording import record_function

__all__ = [
    "ProfilerAction",
    "ProfilerActivity",
    "profile",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]


class ProfilerActivity(enum.Enum):
    """Devices whose activities can be timed.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.profiler.ProfilerActivity.CPU.name
    'CPU'
    """

    CPU = 0
    CUDA = 2


def supported_activities() -> set[ProfilerActivity]:
    """Return the activities that can be timed here: the CPU, and CUDA where it can be used.

    Examples
    --------
    >>> import gradcore
    >>> gradcore.profiler.ProfilerActivity.CPU in gradcore.profiler.supported_activities()
    True
    """
    cuda = {ProfilerActivity.CUDA} if registry.unavailable("cuda") is None else set()
    return {ProfilerActivity.CPU, *cuda}


class ProfilerAction(enum.Enum):
    """Action of the profiler in a step.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.profiler.schedule(wait=1, warmup=1, active=1)(0)
    <ProfilerAction.NONE: 0>
    """

    NONE = 0
    WARMUP = 1
    RECORD = 2
    #: Record, and pass the recording on at the end of the step.
    RECORD_AND_SAVE = 3


_RECORDING = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0
) -> Callable[[int], ProfilerAction]:
    """Return a plan for `profile`: which steps are recorded.

    Parameters
    ----------
    wait, warmup, active : int
        Each cycle leaves out `wait` steps and `warmup` steps, and records `active` ones.
    repeat : int
        How many cycles there are; 0 for no end.
    skip_first : int
        How many steps to leave out before the first cycle.

    Returns
    -------
    callable
        A function from the number of a step to the `ProfilerAction` for it.

    Examples
    --------
    >>> from gradcore.profiler import schedule
    >>> plan = schedule(wait=1, warmup=0, active=2)
    >>> [plan(step).name for step in range(4)]
    ['NONE', 'RECORD', 'RECORD_AND_SAVE', 'NONE']
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise AssertionError(
            f"Invalid profiler schedule arguments. Got wait={wait} (need >= 0), warmup={warmup} (need >= 0), "
            f"active={active} (need > 0), repeat={repeat} (need >= 0), skip_first={skip_first} (need >= 0)."
        )

    def plan(step: int) -> ProfilerAction:
        if step < skip_first:
            return ProfilerAction.NONE
        cycle, offset = divmod(step - skip_first, wait + warmup + active)
        if (repeat and cycle >= repeat) or offset < wait:
            return ProfilerAction.NONE
        if offset < wait + warmup:
            return ProfilerAction.WARMUP
        is_last = offset == wait + warmup + active - 1
        return ProfilerAction.RECORD_AND_SAVE if is_last else ProfilerAction.RECORD

    return plan


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[profile], None]:
    """Return a handler for `on_trace_ready` that writes each recording as a trace into a folder.

    Examples
    --------
    >>> import gradcore as gc
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with gc.profiler.profile(on_trace_ready=gc.profiler.tensorboard_trace_handler(folder, "mine")):
    ...         y = gc.ones(2).exp()
    ...     [path.name for path in pathlib.Path(folder).iterdir()]
    ['mine....pt.trace.json']
    """

    def handler(prof: profile) -> None:
        import socket
        from pathlib import Path

        folder = Path(dir_name)
        folder.mkdir(parents=True, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        suffix = ".gz" if use_gzip else ""
        prof.export_chrome_trace(folder / f"{worker}.{time.time_ns()}.pt.trace.json{suffix}")

    return handler


class profile:
    """Context in which operations are timed, step by step if `step` is called.

    Parameters
    ----------
    activities : iterable of ProfilerActivity, optional
        CPU, CUDA or both; by default both where CUDA is available.
    schedule : callable, optional
        A function from the number of a step to a `ProfilerAction`; all steps are recorded if None.
    on_trace_ready : callable, optional
        Called with this object whenever a recording is complete.
    record_shapes, profile_memory, with_stack : bool
        What to record in addition to times, as in `gradcore.autograd.profiler.profile`.
    with_flops, with_modules, experimental_config, acc_events
        Accepted as in PyTorch.

    Examples
    --------
    >>> import gradcore
    >>> from gradcore.profiler import ProfilerActivity, profile, schedule
    >>> x = gradcore.ones(2)
    >>> def report(prof):
    ...     print(prof.step_num, [event.name for event in prof.events()])
    >>> plan = schedule(wait=1, warmup=0, active=1)
    >>> with profile(activities=[ProfilerActivity.CPU], schedule=plan, on_trace_ready=report) as prof:
    ...     for step in range(4):
    ...         y = x + 1
    ...         prof.step()
    2 ['ProfilerStep#1', 'aten::add']
    4 ['ProfilerStep#3', 'aten::add']
    """

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[profile], Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        acc_events: bool = False,
    ) -> None:
        from gradcore.cuda.devices import is_available

        chosen_activities = set(activities) if activities is not None else {ProfilerActivity.CPU}
        if activities is None and is_available():
            chosen_activities.add(ProfilerActivity.CUDA)
        if not chosen_activities:
            raise AssertionError("No valid profiler activities found")
        self.activities = chosen_activities
        self.record_shapes, self.profile_memory, self.with_stack = record_shapes, profile_memory, with_stack
        self.on_trace_ready = on_trace_ready
        self._by_steps = schedule is not None
        self.schedule = schedule or (lambda step: ProfilerAction.RECORD)
        self.step_num = 0
        self.current_action = self.schedule(0)
        self.profiler: profiler.profile | None = None
        self._running = False
        self._step: record_function | None = None

    # -- steps ------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin the session, as entering the context does."""
        if self.current_action in _RECORDING:
            self._begin_recording()

    def stop(self) -> None:
        """End the session, and pass the current recording on, as leaving the context does."""
        if self._running:
            self._end_recording()
            if self.on_trace_ready is not None:
                self.on_trace_ready(self)

    def step(self) -> None:
        """Mark the end of a step of the program."""
        ended = self.current_action
        self.step_num += 1
        self.current_action = self.schedule(self.step_num)
        if ended is ProfilerAction.RECORD_AND_SAVE or (ended in _RECORDING and self.current_action not in _RECORDING):
            self._end_recording()
            if self.on_trace_ready is not None:
                self.on_trace_ready(self)
        elif ended in _RECORDING:
            self._end_step()
            self._begin_step()
        if self.current_action in _RECORDING and not self._running:
            self._begin_recording()

    def _begin_recording(self) -> None:
        self.profiler = profiler.profile(
            use_device="cuda" if ProfilerActivity.CUDA in self.activities else None,
            record_shapes=self.record_shapes,
            profile_memory=self.profile_memory,
            with_stack=self.with_stack,
        )
        self.profiler.__enter__()
        self._running = True
        self._begin_step()

    def _end_recording(self) -> None:
        assert self.profiler is not None
        self._end_step()
        self.profiler.__exit__(None, None, None)
        self._running = False

    def _begin_step(self) -> None:
        if self._by_steps:
            self._step = record_function(f"ProfilerStep#{self.step_num}")
            self._step.__enter__()

    def _end_step(self) -> None:
        if self._step is not None:
            self._step.__exit__()
            self._step = None

    # -- results ------------------------------------------------------------------------------------------------------

    def _finish(self) -> profiler.profile:
        if self.profiler is None or self._running:
            raise AssertionError("Profiler must be initialized and have finished before its results are read")
        return self.profiler

    def events(self) -> EventList:
        """Return all events of the last recording."""
        return self._finish().function_events

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> EventList:
        """Return the sums over events of one name; see `EventList.key_averages`."""
        return self._finish().key_averages(group_by_input_shape, group_by_stack_n)

    def export_chrome_trace(self, path: Any) -> None:
        """Write a file for ``chrome://tracing`` or Perfetto."""
        self._finish().export_chrome_trace(path)

    def export_stacks(self, path: Any, metric: str = "self_cpu_time_total") -> None:
        """Write one line for each call stack, with its time, for flame graphs; needs `with_stack`."""
        self._finish().export_stacks(path, metric)
