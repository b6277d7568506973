"""Profiling of programs: ``with profile() as prof``, then ``prof.key_averages().table()``."""

from __future__ import annotations

import warnings
from typing import Any, Self

from gradcore.autograd.modes import PROFILE, local
from gradcore.backends import registry
from gradcore.tools.profiler.events import EventList, FunctionEvent, FunctionEventAvg
from gradcore.tools.profiler.recording import Recorder, kineto_available, record_function
from gradcore.torch_names import paths

__all__ = [
    "EnforceUnique",
    "EventList",
    "FunctionEvent",
    "FunctionEventAvg",
    "emit_nvtx",
    "kineto_available",
    "profile",
    "record_function",
]


class profile:
    """Context in which the operations of this thread, and the nodes that backward runs, are timed.

    Parameters
    ----------
    enabled : bool
        If False, nothing is noted.
    use_cuda : bool
        Old form of ``use_device="cuda"``.
    use_device : {"cuda"}, optional
        Also take the time that passes on the device, between marks in its stream around each operation.
    record_shapes : bool
        Whether to note the shapes of arguments.
    with_flops, with_modules, use_kineto, use_cpu
        Accepted as in PyTorch.
    profile_memory : bool
        Whether to note the bytes of new results.
    with_stack : bool
        Whether to note where in the program each call was made.

    Raises
    ------
    RuntimeError
        If the thread is being profiled already.

    Examples
    --------
    >>> import gradcore
    >>> x = gradcore.ones(3, requires_grad=True)
    >>> with gradcore.autograd.profiler.profile(record_shapes=True) as prof:
    ...     (x * 2).sum().backward()
    >>> print(prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=10))  # doctest: +SKIP
    >>> [event.name for event in prof.function_events][:2]
    ['aten::mul', 'aten::sum']
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        **others: Any,
    ) -> None:
        self.enabled = enabled
        device = "cuda" if use_cuda else use_device
        if device == "cuda" and enabled and registry.unavailable("cuda") is not None:
            warnings.warn("CUDA is not available, disabling CUDA profiling", stacklevel=2)
            device = None
        self.use_device = None if device == "cpu" else device
        self.record_shapes, self.profile_memory, self.with_stack = record_shapes, profile_memory, with_stack
        self.entered = False
        self._recorder: Recorder | None = None
        self._events: EventList | None = None

    def __enter__(self) -> Self:
        if not self.enabled:
            return self
        if self.entered:
            raise RuntimeError("Profiler context manager is not reentrant")
        recorder = Recorder(
            shapes=self.record_shapes, memory=self.profile_memory, stacks=self.with_stack, use_device=self.use_device
        )
        _enable(recorder)
        self.entered, self._recorder = True, recorder
        return self

    def __exit__(self, *error: object) -> None:
        recorder = self._recorder
        if not self.enabled or recorder is None:
            return
        _disable()
        recorder.finish()
        self._events = EventList(
            _complete_events(recorder.events), use_device=self.use_device, profile_memory=self.profile_memory
        )

    def _require_events(self) -> EventList:
        if self._events is None:
            raise RuntimeError("Profiler didn't finish running")
        return self._events

    @property
    def function_events(self) -> EventList:
        """All events, in the order in which they began."""
        return self._require_events()

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> EventList:
        """Return the sums over events of one name; see `EventList.key_averages`."""
        return self._require_events().key_averages(group_by_input_shape, group_by_stack_n)

    def total_average(self) -> FunctionEventAvg:
        """Return the sum over all events."""
        return self._require_events().total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all events, each without what it called."""
        return self._require_events().self_cpu_time_total

    def table(self, sort_by: str | None = None, row_limit: int = 100, **kwargs: Any) -> str:
        """Return the events as a table; see `EventList.table`."""
        return self._require_events().table(sort_by, row_limit, **kwargs)

    def export_chrome_trace(self, path: Any) -> None:
        """Write a file for ``chrome://tracing`` or Perfetto."""
        self._require_events().export_chrome_trace(path)

    def export_stacks(self, path: Any, metric: str = "self_cpu_time_total") -> None:
        """Write one line per place in the program with its time, for flame graphs; needs `with_stack`."""
        if not self.with_stack:
            raise AssertionError("export_stacks() requires with_stack=True")
        self._require_events().export_stacks(path, metric)

    def __repr__(self) -> str:
        return "<unfinished torch.autograd.profile>" if self._events is None else repr(self._events)

    def __str__(self) -> str:
        return "<unfinished torch.autograd.profile>" if self._events is None else str(self._events)


class emit_nvtx:
    """Context in which operations, and nodes that backward runs, are ranges for NVIDIA's profilers.

    Parameters
    ----------
    enabled : bool
        If False, there are no ranges.
    record_shapes : bool
        Whether the names of ranges have the shapes of arguments.

    Raises
    ------
    RuntimeError
        If CUDA cannot be used, with the reason, or the thread is being profiled already.

    Examples
    --------
    >>> import gradcore
    >>> x = gradcore.ones(3, requires_grad=True)
    >>> with gradcore.autograd.profiler.emit_nvtx(enabled=gradcore.cuda.is_available()):
    ...     (x * 2).sum().backward()
    """

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled, self.record_shapes, self.entered = enabled, record_shapes, False

    def __enter__(self) -> Self:
        if self.enabled:
            if self.entered:
                raise RuntimeError("NVTX annotation context manager is not reentrant")
            from gradcore.tools.profiler.ranges import Ranges  # Importing this module requires CUDA.

            _wait()
            _enable(Ranges(shapes=self.record_shapes))
            self.entered = True
        return self

    def __exit__(self, *error: object) -> None:
        if self.enabled:
            _wait()
            _disable()


def _wait() -> None:
    """Wait for the current CUDA device."""
    backend = registry.find("cuda")
    backend.synchronize(backend.current_index())


def _enable(profiler: Any) -> None:
    """Route operations and nodes of this thread through a profiler."""
    state = local.state
    if state.mode & PROFILE:
        raise RuntimeError("Profiler is already enabled on this thread")
    state.profiler, state.mode = profiler, state.mode | PROFILE


def _disable() -> None:
    state = local.state
    state.mode, state.profiler = state.mode & ~PROFILE, None


class EnforceUnique:
    """Refuses keys that it has seen.

    Examples
    --------
    >>> from gradcore.autograd.profiler import EnforceUnique
    >>> unique = EnforceUnique()
    >>> unique.see("forward", 1)
    >>> unique.see("forward", 1)
    Traceback (most recent call last):
    RuntimeError: duplicate key: ('forward', 1)
    """

    def __init__(self) -> None:
        self.seen: set[tuple[Any, ...]] = set()

    def see(self, *key: Any) -> None:
        """Note a key, or raise an error if it has been seen."""
        if key in self.seen:
            raise RuntimeError(f"duplicate key: {key}")
        self.seen.add(key)


def _complete_events(events: list[Any]) -> list[Any]:
    """Fill in memory and stacks of the events, and return them.

    The event of a range gets the sum of its children's bytes. The event of a node gets the stack of the recorded call.
    """
    origin = events[0].start if events else 0
    stacks: dict[int, list[str]] = {}
    for event in events:
        event.origin = origin
        if event.scope == 0 and event.sequence_nr >= 0 and not event.name.startswith("autograd::"):
            stacks.setdefault(event.sequence_nr, event.stack)
        elif event.sequence_nr in stacks:
            event.stack = stacks[event.sequence_nr]
    for event in reversed(events):
        if event.scope == 7:
            event.cpu_memory_usage = sum(child.cpu_memory_usage for child in event.cpu_children)
            event.device_memory_usage = sum(child.device_memory_usage for child in event.cpu_children)
    return events


paths.show_public(__name__)
