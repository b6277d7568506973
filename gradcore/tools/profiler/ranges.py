"""A recorder without events of its own: operations and backward nodes become ranges for NVIDIA's profilers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradcore.cuda import nvtx
from gradcore.tools.profiler.events import FunctionEvent
from gradcore.tools.profiler.recording import shape_of

__all__ = ["Ranges"]


class Ranges:
    """Null recorder of a thread that is not profiled.

    Parameters
    ----------
    shapes : bool
        Whether the names of ranges have the shapes of arguments.
    """

    def __init__(self, *, shapes: bool) -> None:
        self.shapes = shapes

    def begin(self, name: str, args: tuple[Any, ...] = ()) -> FunctionEvent:
        """Begin a range."""
        sizes = f", sizes = {[shape_of(value) for value in args]}" if self.shapes and args else ""
        nvtx.range_push(name + sizes)
        return FunctionEvent(0, name, 0, None)

    def end(self, event: FunctionEvent) -> None:
        """End the range `event`."""
        nvtx.range_pop()

    def call(self, name: str, args: tuple[Any, ...], run: Callable[..., Any], *given: Any) -> Any:
        """Make the call ``run(*given)`` of an operation with arguments `args`."""
        return self._inside(f"aten::{name}", args, run, *given)

    def node(self, node: Any, grad: Any, run: Callable[[], Any]) -> Any:
        """Run a node of backward, whose range has the node's number."""
        return self._inside(f"{node.name()}, seq = {node._sequence_nr()}", (), run)

    def _inside(self, name: str, args: tuple[Any, ...], run: Callable[..., Any], *given: Any) -> Any:
        event = self.begin(name, args)
        try:
            return run(*given)
        finally:
            self.end(event)
