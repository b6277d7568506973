"""Recorder of events while a program runs: begin, end and arguments of each operation."""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from time import perf_counter_ns
from typing import Any, Self

import numpy as np

from gradcore.autograd.modes import PROFILE, local
from gradcore.backends import registry
from gradcore.tensor import Tensor
from gradcore.tools.profiler.events import FunctionEvent

__all__ = ["Recorder", "is_profiling", "kineto_available", "record_function", "shape_of"]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))


class Recorder:
    """The profiler of one thread: operations and backward nodes are called through it.

    Parameters
    ----------
    shapes, memory, stacks : bool
        Whether to record the shapes of arguments, the bytes of new results, and the user's call stack of each call.
    use_device : str or None
        The device to measure times on, in addition to the CPU.
    """

    def __init__(self, *, shapes: bool, memory: bool, stacks: bool, use_device: str | None) -> None:
        self.events: list[FunctionEvent] = []
        self.shapes, self.memory, self.stacks = shapes, memory, stacks
        self.thread = threading.get_ident()
        self.device: Any = None if use_device is None else registry.find(use_device)
        self._open: list[FunctionEvent] = []

    # -- a call ---------------------------------------------------------------------------------------------------

    def begin(self, name: str, args: tuple[Any, ...] = ()) -> FunctionEvent:
        """Begin an event inside the innermost event that has not ended, and return it."""
        open_events = self._open
        event = FunctionEvent(len(self.events), name, self.thread, open_events[-1] if open_events else None)
        if open_events:
            open_events[-1].cpu_children.append(event)
        self.events.append(event)
        open_events.append(event)
        if self.shapes:
            event.input_shapes = [shape_of(value) for value in args]
        if self.stacks:
            event.stack = _stack()
        if self.device is not None:
            event.device_index = self._index(args)
            event.device_start = self._mark(event.device_index)
        event.start = perf_counter_ns()
        return event

    def end(self, event: FunctionEvent) -> None:
        """End the event `event`."""
        event.stop = perf_counter_ns()
        if event.device_start is not None:
            event.device_stop = self._mark(event.device_index)
        while self._open and self._open.pop() is not event:
            pass

    def call(self, name: str, args: tuple[Any, ...], run: Callable[..., Any], *given: Any) -> Any:
        """Make the call ``run(*given)`` of an operation with arguments `args`."""
        event = self.begin(f"aten::{name}", args)
        try:
            result = run(*given)
        finally:
            self.end(event)
        self._note_result(event, result, args)
        return result

    def node(self, node: Any, grad: Any, run: Callable[[], Any]) -> Any:
        """Run a node of backward, with `grad`: a gradient, or one for each output.

        `run` returns a gradient for each input; for a leaf, it returns the accumulated gradient.
        """
        name = node.name() if not node.is_accumulator else "torch::autograd::AccumulateGrad"
        outer = self.begin(f"autograd::engine::evaluate_function: {name}")
        inner = self.begin(name)
        outer.sequence_nr = inner.sequence_nr = node._sequence_nr()
        outer.scope, inner.scope = 0, 1
        try:
            pieces = run()
        finally:
            self.end(inner)
            self.end(outer)
        if self.memory:
            for event in (inner, outer):
                results = pieces if isinstance(pieces, list | tuple) else (pieces,)
                self._count(event, results, grad if isinstance(grad, list) else [grad])
        return pieces

    # -- what is noted --------------------------------------------------------------------------------------------

    def _note_result(self, event: FunctionEvent, result: Any, args: tuple[Any, ...]) -> None:
        first = next(_tensors((result,)), None)
        if first is not None and first._edge is not None and not first._edge[0].is_accumulator:
            event.sequence_nr = first._edge[0]._sequence_nr()
        if self.memory:
            self._count(event, _tensors((result,)), _tensors(args))

    def _count(self, event: FunctionEvent, results: Iterable[Any], arguments: Iterable[Any]) -> None:
        """Add the bytes of results (tensors or arrays) that do not share memory with the arguments to an event."""
        owner_ids = {id(_owner(each)) for each in arguments}
        for each in results:
            owner = _owner(each)
            if owner is None or id(owner) in owner_ids:
                continue
            owner_ids.add(id(owner))
            if isinstance(owner, np.ndarray):
                event.cpu_memory_usage += owner.nbytes
            else:
                event.device_memory_usage += getattr(owner, "nbytes", 0)

    def _index(self, args: tuple[Any, ...]) -> Any:
        """Return the index of the device that the arguments are on, else of the current one."""
        indices = (t._device.index for t in _tensors(args) if t._device.backend is self.device)
        return next(indices, self.device.current_index())

    def _mark(self, index: Any) -> Any:
        """Return a mark in the stream of a device."""
        with self.device.use_index(index):
            mark = self.device.xp.cuda.Event()
            mark.record()
        return mark

    def finish(self) -> None:
        """Wait for the device, and read the times between its marks."""
        if self.device is None:
            return
        for event in self.events:
            if event.device_stop is not None:
                event.device_stop.synchronize()
                elapsed = self.device.xp.cuda.get_elapsed_time(event.device_start, event.device_stop)
                event.device_time_total = elapsed * 1000.0
            event.device_start = event.device_stop = None


def _tensors(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


def shape_of(value: Any) -> list[Any]:
    """Return the shape of a tensor, a list of shapes for a sequence with tensors, or an empty list."""
    if isinstance(value, Tensor):
        return list(value._array.shape)
    if isinstance(value, (list, tuple)) and any(isinstance(t, Tensor) for t in value):
        return [shape_of(t) for t in value]
    return []


def _owner(value: Any) -> Any:
    """Return the array whose memory a tensor or an array is a view of."""
    array = getattr(value, "_array", value)
    while getattr(array, "base", None) is not None:
        array = array.base
    return array


def _stack() -> list[str]:
    """Return the lines of the user's call stack, innermost first."""
    frame: Any = sys._getframe(1)
    results = []
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith((_PACKAGE, "<gradcore")):
            results.append(f"{code.co_filename}({frame.f_lineno}): {code.co_name}")
        frame = frame.f_back
    return results


class record_function:
    """Context or decorator that gives a part of the program a name in the profiler's results.

    Parameters
    ----------
    name : str
    args : str, optional
        Accepted as in PyTorch.

    Examples
    --------
    >>> import gradcore
    >>> from gradcore.autograd import profiler
    >>> x = gradcore.ones(2)
    >>> with profiler.profile() as prof:
    ...     with profiler.record_function("twice"):
    ...         y = x + x
    >>> [event.name for event in prof.function_events]
    ['twice', 'aten::add']
    """

    __slots__ = ("_opened", "name")

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self._opened: list[tuple[Recorder, FunctionEvent] | None] = []

    def __enter__(self) -> Self:
        state = local.state
        if state.mode & PROFILE:
            event = state.profiler.begin(self.name)
            event.scope = 7
            self._opened.append((state.profiler, event))
        else:
            self._opened.append(None)
        return self

    def __exit__(self, *error: object) -> None:
        opened = self._opened.pop()
        if opened is not None:
            opened[0].end(opened[1])

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(func)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name):
                return func(*args, **kwargs)

        return wrapper


def is_profiling() -> bool:
    """Return whether a profiler records the operations of this thread."""
    return bool(local.state.mode & PROFILE)


def kineto_available() -> bool:
    """Return True: `gradcore.profiler` needs no library of its own.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.autograd.profiler.kineto_available()
    True
    """
    return True
