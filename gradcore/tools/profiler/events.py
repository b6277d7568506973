"""Events of a profiler, and their sums."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

from gradcore.core.typing import NamedTuple
from gradcore.tools.profiler.tables import format_time, table

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "Interval"]


class Interval(NamedTuple):
    """Start and end of an event, in microseconds since the first event."""

    start: float
    end: float

    def elapsed_us(self) -> float:
        """Return the length of the interval in microseconds."""
        return self.end - self.start


class _Times:
    """Base class of events and of sums of events, with average times and times as text."""

    __slots__ = ()

    count: int
    cpu_time_total: float
    self_cpu_time_total: float
    device_time_total: float
    self_device_time_total: float

    @property
    def cpu_time(self) -> float:
        """Microseconds per call."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def device_time(self) -> float:
        """Microseconds per call on the device."""
        return self.device_time_total / self.count if self.count else 0.0

    #: Names from before there were other devices than CUDA.
    cuda_time = device_time

    @property
    def cuda_time_total(self) -> float:
        """Microseconds on the device."""
        return self.device_time_total

    @property
    def self_cuda_time_total(self) -> float:
        """Microseconds on the device, without the events called from here."""
        return self.self_device_time_total

    @property
    def cpu_time_str(self) -> str:
        """`cpu_time` with its unit."""
        return format_time(self.cpu_time)

    @property
    def cpu_time_total_str(self) -> str:
        """`cpu_time_total` with its unit."""
        return format_time(self.cpu_time_total)

    @property
    def self_cpu_time_total_str(self) -> str:
        """`self_cpu_time_total` with its unit."""
        return format_time(self.self_cpu_time_total)

    @property
    def device_time_str(self) -> str:
        """`device_time` with its unit."""
        return format_time(self.device_time)

    @property
    def device_time_total_str(self) -> str:
        """`device_time_total` with its unit."""
        return format_time(self.device_time_total)

    @property
    def self_device_time_total_str(self) -> str:
        """`self_device_time_total` with its unit."""
        return format_time(self.self_device_time_total)


class FunctionEvent(_Times):
    """A call of an operation, a run of a node, or a time through a named part of the program.

    Attributes
    ----------
    name : str
    time_range : Interval
    thread : int
    cpu_parent : FunctionEvent or None
        The event from which this one was called.
    cpu_children : list of FunctionEvent
    input_shapes : list
        The shapes of the arguments, if recorded; empty lists for arguments that are not tensors.
    stack : list of str
        The lines of the call stack, innermost first, if recorded.
    cpu_memory_usage, device_memory_usage : int
        Bytes of results that are not views of arguments, if recorded.
    sequence_nr : int
        The number of the node that a call recorded, or that backward ran: the same number for both. -1 without a node.
    scope : int
        0 for operations, 1 for nodes of backward, 7 for named parts.

    Examples
    --------
    >>> import gradcore as gc
    >>> with gc.autograd.profiler.profile() as profile:
    ...     y = gc.ones(2).exp()
    >>> [(event.name, event.count) for event in profile.function_events]
    [('aten::exp', 1)]
    """

    __slots__ = (
        "cpu_children", "cpu_memory_usage", "cpu_parent", "device_index", "device_memory_usage", "device_start",
        "device_stop", "device_time_total", "id", "input_shapes", "name", "origin", "scope", "sequence_nr",
        "stack", "start", "stop", "thread",
    )  # fmt: skip

    count = 1

    def __init__(self, id: int, name: str, thread: int, parent: FunctionEvent | None) -> None:
        self.id, self.name, self.thread, self.cpu_parent = id, name, thread, parent
        self.cpu_children: list[FunctionEvent] = []
        self.input_shapes: list[Any] = []
        self.stack: list[str] = []
        #: On the clock, in nanoseconds; and when the first event of all began.
        self.start = self.stop = self.origin = 0
        #: A device, and marks in its stream.
        self.device_index: Any = None
        self.device_start: Any = None
        self.device_stop: Any = None
        self.device_time_total = 0.0
        self.cpu_memory_usage = self.device_memory_usage = 0
        self.sequence_nr, self.scope = -1, 0

    @property
    def key(self) -> str:
        """Aggregation key: the name."""
        return self.name

    @property
    def time_range(self) -> Interval:
        """The start and end of the event."""
        return Interval((self.start - self.origin) / 1e3, (self.stop - self.origin) / 1e3)

    @property
    def cpu_time_total(self) -> float:  # type: ignore[override]
        """Microseconds from begin to end."""
        return (self.stop - self.start) / 1e3

    @property
    def self_cpu_time_total(self) -> float:  # type: ignore[override]
        """Microseconds without the events called from here."""
        return self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)

    @property
    def self_device_time_total(self) -> float:  # type: ignore[override]
        """Microseconds on the device without the events called from here."""
        return self.device_time_total - sum(child.device_time_total for child in self.cpu_children)

    @property
    def self_cpu_memory_usage(self) -> int:
        """Bytes without those of the events called from here; negative if those have been freed again."""
        return self.cpu_memory_usage - sum(child.cpu_memory_usage for child in self.cpu_children)

    @property
    def self_device_memory_usage(self) -> int:
        """Bytes on the device without those of the events called from here."""
        return self.device_memory_usage - sum(child.device_memory_usage for child in self.cpu_children)

    def __repr__(self) -> str:
        interval = self.time_range
        return (
            f"<FunctionEvent id={self.id} name={self.name} cpu_time={self.cpu_time_str} start_us={interval.start:.3f} "
            f"end_us={interval.end:.3f} cpu_children={[child.id for child in self.cpu_children]} thread={self.thread} "
            f"input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage}>"
        )


class FunctionEventAvg(_Times):
    """The sums over events of one name (and with the same shapes and stack, if these were recorded).

    Examples
    --------
    >>> import gradcore as gc
    >>> with gc.autograd.profiler.profile() as profile:
    ...     y = gc.ones(2).exp().exp()
    >>> max(average.count for average in profile.key_averages())
    2
    """

    __slots__ = (
        "count", "cpu_memory_usage", "cpu_time_total", "device_memory_usage", "device_time_total", "input_shapes",
        "key", "self_cpu_memory_usage", "self_cpu_time_total", "self_device_memory_usage", "self_device_time_total",
        "stack",
    )  # fmt: skip

    #: The attributes that are added up.
    SUMS = (
        "count", "cpu_time_total", "self_cpu_time_total", "device_time_total", "self_device_time_total",
        "cpu_memory_usage", "self_cpu_memory_usage", "device_memory_usage", "self_device_memory_usage",
    )  # fmt: skip

    cpu_memory_usage: int
    device_memory_usage: int
    self_cpu_memory_usage: int
    self_device_memory_usage: int

    def __init__(self, key: str, input_shapes: Any = "", stack: Any = ()) -> None:
        self.key, self.input_shapes, self.stack = key, input_shapes, list(stack)
        for name in self.SUMS:
            setattr(self, name, 0)

    def add(self, other: Any) -> Self:
        """Add an event, or another sum."""
        for name in self.SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        return self

    __iadd__ = add

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} "
            f"cpu_time={self.cpu_time_str} self_cuda_time={self.self_device_time_total_str} "
            f"cuda_time={self.device_time_str} input_shapes={self.input_shapes} "
            f"cpu_memory_usage={self.cpu_memory_usage} cuda_memory_usage={self.device_memory_usage}>"
        )


class EventList(list[Any]):
    """A list of events, or of sums of events, with methods that export and summarize them.

    Examples
    --------
    >>> import gradcore as gc
    >>> with gc.autograd.profiler.profile() as profile:
    ...     y = gc.ones(2).exp()
    >>> [event.name for event in profile.function_events if "exp" in event.name]
    ['aten::exp']
    """

    def __init__(self, events: Iterable[Any] = (), *, use_device: str | None = None, profile_memory: bool = False):
        super().__init__(events)
        self._use_device, self._profile_memory = use_device, profile_memory

    def _like(self, events: Iterable[Any]) -> EventList:
        return EventList(events, use_device=self._use_device, profile_memory=self._profile_memory)

    def key_averages(self, group_by_input_shapes: bool = False, group_by_stack_n: int = 0) -> EventList:
        """Return the sums over events of one name.

        Parameters
        ----------
        group_by_input_shapes : bool
            Whether calls with different shapes of arguments have separate sums.
        group_by_stack_n : int
            Calls have separate sums if this many innermost lines of their call stacks differ.
        """
        sums: dict[Any, FunctionEventAvg] = {}
        for event in self:
            shapes = str(event.input_shapes) if group_by_input_shapes else ""
            stack = tuple(event.stack[:group_by_stack_n])
            key = event.key, shapes, stack
            if key not in sums:
                sums[key] = FunctionEventAvg(event.key, event.input_shapes if group_by_input_shapes else "", stack)
            sums[key].add(event)
        return self._like(sums.values())

    def total_average(self) -> FunctionEventAvg:
        """Return the sum over all events."""
        total = FunctionEventAvg("Total")
        for event in self:
            total.add(event)
        return total

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all events, each without the events called from it."""
        return float(sum(event.self_cpu_time_total for event in self))

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
    ) -> str:
        """Return the events as a table.

        Parameters
        ----------
        sort_by : str, optional
            The attribute to sort by, largest first: ``"cpu_time_total"``, ``"self_cpu_time_total"``, ``"cpu_time"``,
            ``"device_time_total"``, ``"self_device_time_total"``, ``"cpu_memory_usage"``, ``"count"`` ...
        row_limit : int
            Number of rows to show; -1 for all.
        max_src_column_width, max_name_column_width, max_shapes_column_width : int
            The largest number of characters in these columns.
        header : str, optional
            A line above the table.
        top_level_events_only : bool
            Leave out events that were called from other events.
        """
        events: list[Any] = list(self)
        if top_level_events_only:
            events = [event for event in events if getattr(event, "cpu_parent", None) is None]
        if sort_by is not None:
            events.sort(key=lambda event: getattr(event, sort_by), reverse=True)
        widths = {"name": max_name_column_width, "shapes": max_shapes_column_width, "source": max_src_column_width}
        shown_events = events[:row_limit] if row_limit >= 0 else events
        return table(self, shown_events, widths, header, self._use_device, self._profile_memory)

    def export_chrome_trace(self, path: Any) -> None:
        """Write a file for ``chrome://tracing`` or Perfetto."""
        from gradcore.tools.profiler.traces import write_chrome_trace

        write_chrome_trace(self, path)

    def supported_export_stacks_metrics(self) -> list[str]:
        """Return the metrics that `export_stacks` can sum."""
        return ["self_cpu_time_total", "self_cuda_time_total"]

    def export_stacks(self, path: Any, metric: str) -> None:
        """Write one line for each call stack, with its time, for flame graphs."""
        from gradcore.tools.profiler.traces import write_stacks

        if metric not in self.supported_export_stacks_metrics():
            raise ValueError(f"metric should be one of: {self.supported_export_stacks_metrics()}")
        write_stacks(self, path, metric)

    def __str__(self) -> str:
        return self.table()
