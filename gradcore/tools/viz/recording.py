"""Details of nodes, stored while they are recorded: the user's line, the shape of the result, times."""

from __future__ import annotations

import time
from typing import Any, Self

from gradcore.autograd.graph import current_graph_task
from gradcore.tensor import Tensor
from gradcore.tools.inspection import edges_of, gradient_edge, next_sequence_nr
from gradcore.tools.viz.source_lines import here
from gradcore.torch_names.overrides import TorchFunctionMode
from gradcore.utils._pytree import tree_leaves

__all__ = ["record"]


class record(TorchFunctionMode):
    """Context in which nodes store the line that recorded them and the shapes of their results.

    Outside it costs nothing. Inside, every operation takes some tens of microseconds more.

    Parameters
    ----------
    times : bool
        Whether to measure how long each operation takes in forward, and later in backward. Only the results that a
        function returns to its caller are measured; work that CUDA does meanwhile is not waited for.

    Examples
    --------
    >>> import gradcore
    >>> x = gradcore.ones(3, requires_grad=True)
    >>> with gradcore.viz.record():
    ...     y = (x * x).sum()
    >>> [vertex.title for vertex in gradcore.viz.graph(y, params={"x": x}).vertices]
    ['result', 'sum', 'mul', 'x']
    """

    #: Whether operations of derivative formulas are seen, too.
    sees_formulas = True

    def __init__(self, times: bool = False) -> None:
        self.times = times

    def __enter__(self) -> Self:
        return super().__enter__()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        first = next_sequence_nr()
        start = time.perf_counter()
        result = func(*args, **(kwargs or {}))
        seconds = time.perf_counter() - start
        name = getattr(func, "__name__", "")
        for t in (result,) if isinstance(result, Tensor) else tree_leaves(result):
            edge = gradient_edge(t) if isinstance(t, Tensor) else None
            if edge is not None and edge[0]._sequence_nr() > first and not edge[0].is_accumulator:
                self._note(edge[0], name, first, seconds)
        return result

    def _note(self, node: Any, name: str, first: int, seconds: float) -> None:
        """Store the user's line, and times, in a node and in the nodes that the same call has recorded."""
        notes = node.metadata
        if "line" in notes:
            return
        notes["line"], notes["called"] = here(), name
        notes["in backward"] = current_graph_task() is not None
        if self.times:
            notes["forward"] = seconds
            _measure_backward(node)
        # One call may record several nodes: they all come from this line.
        waiting = [node]
        while waiting:
            for source, _ in edges_of(waiting.pop()):
                if source._sequence_nr() > first and not source.is_accumulator:
                    source_notes = source.metadata
                    if "line" not in source_notes:
                        source_notes["line"] = notes["line"]
                        waiting.append(source)


def _measure_backward(node: Any) -> None:
    """Add hooks to a node that measure the time of its backward."""
    notes = node.metadata

    def begin(grads: Any) -> None:
        notes["begun"] = time.perf_counter()

    def end(grads_in: Any, grads_out: Any) -> None:
        notes["backward"] = notes.get("backward", 0.0) + time.perf_counter() - notes.pop("begun")

    node.register_prehook(begin)
    node.register_hook(end)
