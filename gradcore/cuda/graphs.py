"""CUDA graphs: a function's work, recorded once and queued again with a single launch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from gradcore.autograd.graph import Variable
from gradcore.backends import registry
from gradcore.cuda.streams import Stream, current_stream, stream
from gradcore.utils.trees import flatten, unflatten

__all__ = ["CUDAGraph", "graph"]


class CUDAGraph:
    """Work of a CUDA device that can be queued again.

    Its memory comes from a pool of its own, which lives as long as the graph.
    """

    def __init__(self) -> None:
        self._graph: Any = None
        self._pool: Any = None

    def capture(self, function: Callable[[], Any]) -> Any:
        """Call `function` and record, instead of run, what it queues; returns its result.

        Raises
        ------
        RuntimeError
            If it does what cannot be recorded: waiting for the device, copies from or to the host, and factorisations
            of matrices (cuSOLVER as CuPy calls it). What was captured until then is dropped.
        """
        backend: Any = registry.find("cuda")
        xp = backend.xp
        side = Stream()
        side.wait_stream(current_stream())
        pool = xp.cuda.MemoryPool()
        with stream(side), backend.capturing(side.cupy), xp.cuda.using_allocator(pool.malloc):
            side.cupy.begin_capture()
            try:
                result = function()
            except BaseException as error:
                _abandon(side)
                if isinstance(error, Exception):
                    raise RuntimeError(
                        f"a CUDA graph cannot capture this function: {error}. Elementwise work, reductions, products "
                        "of matrices and kernels of one's own can be captured; waiting for the device, copies to and "
                        "from the host, and factorisations of matrices cannot."
                    ) from error
                raise
            self._graph, self._pool = side.cupy.end_capture(), pool
        current_stream().wait_stream(side)
        return result

    def replay(self) -> None:
        """Queue the recorded work in the current stream.

        Raises
        ------
        RuntimeError
            If nothing has been captured.
        """
        if self._graph is None:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        self._graph.launch(current_stream().cupy)

    def reset(self) -> None:
        """Let go of the recorded work and its memory."""
        self._graph = self._pool = None


def _abandon(side: Stream) -> None:
    """End a capture that has failed."""
    with contextlib.suppress(Exception):  # the driver may have ended it already
        side.cupy.end_capture()


def graph(function: Callable[..., Any], warmup: int = 2) -> Callable[..., Any]:
    """A function that does the work of `function` by a single launch.

    The first call runs `function` some times, then records it. Every later call copies its arguments into the memory of
    the first ones and queues the recorded work. Python code runs during the first call only.

    Parameters
    ----------
    function : callable
        Takes and returns tensors, or nested containers of them, on one CUDA device. Shapes, dtypes and everything that
        is no tensor must be the same in every call.
    warmup : int
        How often to run it before it is recorded, so that kernels are compiled and chosen.

    Returns
    -------
    callable
        Called as `function`. Its results are overwritten by the next call: clone what is to stay.

    Raises
    ------
    RuntimeError
        If CUDA cannot be used, if the function cannot be captured (with the reason), or if arguments have changed.

    Examples
    --------
    >>> import gradcore
    >>> if gradcore.cuda.is_available():
    ...     step = gradcore.cuda.graph(lambda x: (x * 2 + 1).tanh())
    ...     y = step(gradcore.ones(1000, device="cuda"))
    """
    recorded: dict[str, Any] = {}

    def call(*args: Any) -> Any:
        flat, structure = flatten(args)
        if not recorded:
            _record(recorded, function, flat, structure, warmup)
        _refill(recorded, flat, structure)
        recorded["graph"].replay()
        return recorded["result"]

    return call


def _record(
    recorded: dict[str, Any], function: Callable[..., Any], flat: list[Any], structure: Any, warmup: int
) -> None:
    inputs = [t.detach().clone() if isinstance(t, Variable) else t for t in flat]  # type: ignore[attr-defined]
    side = Stream()
    side.wait_stream(current_stream())
    with stream(side):
        for _ in range(warmup):
            function(*unflatten(inputs, structure))
    current_stream().wait_stream(side)
    made = CUDAGraph()
    result = made.capture(lambda: function(*unflatten(inputs, structure)))
    recorded.update(graph=made, inputs=inputs, structure=structure, result=result)


def _refill(recorded: dict[str, Any], flat: list[Any], structure: Any) -> None:
    if structure != recorded["structure"]:
        raise RuntimeError("a captured function was called with arguments of another structure")
    for kept, given in zip(recorded["inputs"], flat, strict=True):
        if isinstance(kept, Variable):
            if not isinstance(given, Variable) or _kind(given) != _kind(kept):
                raise RuntimeError(
                    "a captured function was called with a tensor of another shape or dtype than that of the first call"
                )
            kept.copy_(given.detach())  # type: ignore[attr-defined]
        elif kept != given:
            raise RuntimeError(f"a captured function was called with {given!r} in the place of {kept!r}")


def _kind(t: Any) -> tuple[Any, ...]:
    return t._array.shape, t._dtype
