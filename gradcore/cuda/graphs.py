"""CUDA graphs: work that is captured once and then replayed with a single launch."""

from __future__ import annotations

import contextlib
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from gradcore.backends import registry
from gradcore.backends.cupy.memory import allocator
from gradcore.backends.cupy.memory_pools import PrivatePool
from gradcore.backends.random import recording
from gradcore.core.errors import OutOfMemoryError
from gradcore.cuda.streams import Stream, current_stream, stream
from gradcore.tensor import Tensor
from gradcore.tensor.random import Generator
from gradcore.torch_names import paths
from gradcore.utils._pytree import tree_flatten, tree_unflatten

__all__ = ["CUDAGraph", "graph", "graph_pool_handle"]

#: Modes of CUDA for calls of threads during a capture that cannot be captured.
_ERROR_MODES = ("global", "thread_local", "relaxed")

#: Value of `cudaGraphDebugDotFlagsVerbose`, for a description with all properties of each node.
_VERBOSE = 1


def graph_pool_handle() -> Any:
    """Return a memory pool for several graphs, which must be replayed in the order of capture, and never at once.

    Returns
    -------
    object
        Value for the argument `pool` of `CUDAGraph.capture_begin` and `graph`.

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     pool = gc.cuda.graph_pool_handle()
    """
    backend: Any = registry.find("cuda")
    return PrivatePool(backend.pools)


class CUDAGraph:
    """CUDA work that is captured once and can be replayed.

    Its memory comes from its own pool, or from one that it shares with other graphs. A pool lives as long as its
    graphs.

    Parameters
    ----------
    keep_graph : bool
        Whether to keep the captured graph, so that `raw_cuda_graph` can return it, for example to modify it.

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     x = gc.ones(2, device="cuda")
    ...     graph = gc.cuda.CUDAGraph()
    ...     with gc.cuda.graph(graph):
    ...         y = x * 2
    ...     graph.replay()
    """

    def __init__(self, keep_graph: bool = False) -> None:
        self.keep_graph = keep_graph
        self._graph: Any = None
        #: Executable graph, which `replay` launches.
        self._executable: Any = None
        self._pool: Any = None
        #: Plans of FFTs, whose memory the recorded work uses.
        self._plans: Sequence[object] = ()
        #: Random numbers of the recorded work, and generators that were registered before the capture.
        self._random: Any = None
        self._generators: list[Generator] = []
        self._device = 0
        self._debug = False
        #: During a capture: the stream, and the contexts to close at its end.
        self._stream: Any = None
        self._open = contextlib.ExitStack()

    def register_generator_state(self, generator: Generator) -> None:
        """Register a generator with the graph, so that each replay continues from the generator's state.

        A generator that is used during the capture is registered automatically, including the default one.

        Parameters
        ----------
        generator : Generator

        Raises
        ------
        RuntimeError
            While work is recorded.
        """
        if recording.present() is not None:
            raise RuntimeError("Cannot register the state during capturing stage.")
        self._generators.append(generator)

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "relaxed") -> None:
        """Begin a capture: work queued in the current stream is recorded and not run.

        The context manager `graph` calls this.

        Parameters
        ----------
        pool : object, optional
            Memory pool that `graph_pool_handle`, or the method `pool` of another graph, returned.
        capture_error_mode : {'relaxed', 'thread_local', 'global'}
            All modes are treated as 'relaxed'. In the other modes, CUDA would refuse calls of this thread, or of any
            thread, that cannot be captured. It would also refuse CuPy's allocations of memory for the captured work.

        Raises
        ------
        RuntimeError
            If the current stream is the default stream, if the graph has already been captured, if a capture is in
            progress, or if `capture_error_mode` is unknown.
        """
        if self._graph is not None:
            raise RuntimeError(
                "This CUDAGraph instance already owns a captured graph. To capture a new graph, create a new instance."
            )
        if capture_error_mode not in _ERROR_MODES:
            raise RuntimeError(
                f"Unknown capture error mode. Expected `global`, `thread_local`, or `relaxed`, got {capture_error_mode}"
            )
        backend: Any = registry.find("cuda")
        if backend.is_capturing():
            raise RuntimeError(
                "CUDA error: operation not permitted when stream is capturing: this thread records another graph"
            )
        stream = current_stream().cupy
        if stream.ptr == 0:
            raise RuntimeError(
                "CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok to replay them "
                "on the default stream.)"
            )
        pool = graph_pool_handle() if pool is None else pool
        with contextlib.ExitStack() as opened:
            self._plans = opened.enter_context(backend.capturing())
            opened.enter_context(backend.xp.cuda.using_allocator(allocator(backend, pool.malloc)))
            numbers = recording.Recording(backend, backend.current_index())
            for generator in self._generators:
                numbers.of(generator._state)
            opened.enter_context(recording.record_draws(numbers))
            stream.begin_capture(backend.xp.cuda.runtime.streamCaptureModeRelaxed)
            self._open, self._stream, self._pool = opened.pop_all(), stream, pool
            self._device, self._random = backend.current_index(), numbers

    def capture_end(self) -> None:
        """End the capture that `capture_begin` began. After that, the work can be replayed.

        Raises
        ------
        RuntimeError
            If nothing is being recorded in the current stream by this graph.
        """
        if self._stream is None or current_stream().cupy != self._stream:
            raise RuntimeError("Capture must end on the same stream it began on.")
        stream, self._stream = self._stream, None
        with self._open:
            self._graph = self._executable = stream.end_capture()

    def _abandon(self) -> None:
        """Discard the unfinished capture."""
        if self._stream is None:
            return
        stream, self._stream, self._pool, self._random, self._plans = self._stream, None, None, None, ()
        with self._open, contextlib.suppress(Exception):  # the driver may have ended it already
            stream.end_capture()

    def capture(self, function: Callable[[], Any]) -> Any:
        """Call `function`, record the work that it queues instead of running it, and return its result.

        Raises
        ------
        RuntimeError
            If `function` does something that cannot be captured: it waits for the device, copies from or to the host,
            or factorises matrices (by CuPy's calls of cuSOLVER). As after any other error, the work captured so far is
            discarded.
        """
        with _Capturing(self):
            return function()

    def instantiate(self) -> None:
        """Prepare the captured work for launching, including changes made through `raw_cuda_graph`.

        `capture_end` does this the first time.

        Raises
        ------
        RuntimeError
            If nothing has been captured, or the graph was made without ``keep_graph=True``.
        """
        if self._graph is None:
            raise RuntimeError("capture_end() must have been called before calling instantiate")
        if not self.keep_graph:
            raise RuntimeError("instantiate() is intended to be called by the user only when keep_graph=true")
        backend: Any = registry.find("cuda")
        with backend.use_index(self._device):
            self._executable = _Executable(backend.xp.cuda.runtime, self._graph.graph)

    def replay(self) -> None:
        """Queue the captured work in the current stream.

        Generators advance by the random numbers that the work draws. Each replay draws the numbers that uncaptured work
        would draw.

        Raises
        ------
        RuntimeError
            If nothing has been captured, or another graph is being captured.
        """
        self._captured_graph("CUDAGraph::replay")
        if recording.present() is not None:
            raise RuntimeError("Cannot prepare for replay during capturing stage.")
        with registry.find("cuda").use_index(self._device):
            self._random.replay()
            self._executable.launch(current_stream().cupy)

    def reset(self) -> None:
        """Discard the captured work, its memory and any unfinished capture. The graph can then capture again."""
        self._abandon()
        self._graph = self._executable = self._pool = self._random = None
        self._generators, self._plans = [], ()

    def pool(self) -> Any:
        """Return the graph's memory pool, for other graphs that are never replayed at the same time.

        Raises
        ------
        RuntimeError
            If nothing has been captured.
        """
        self._captured_graph("CUDAGraph::pool()")
        return self._pool

    def enable_debug_mode(self) -> None:
        """Allow `debug_dump` to write a file, even without ``keep_graph=True``."""
        self._debug = True

    def debug_dump(self, debug_path: str) -> None:
        """Write a description of the captured work to a file, in the Graphviz language.

        Parameters
        ----------
        debug_path : str
            Path of the file.
        """
        if not (self._debug or self.keep_graph):
            warnings.warn("CUDA Graphs debug not enabled, set with [graph].enable_debug_mode()", stacklevel=2)
            return
        text = self._captured_graph("CUDAGraph::debug_dump").debug_dot_str(_VERBOSE)
        with open(debug_path, "w", encoding="utf-8") as file:
            file.write(text)

    def raw_cuda_graph(self) -> int:
        """Return the handle of the captured work, a ``cudaGraph_t``, as an int.

        Raises
        ------
        RuntimeError
            If the graph was made without ``keep_graph=True``, or nothing has been captured.
        """
        if not self.keep_graph:
            raise RuntimeError(
                "You cannot access the raw cudaGraph_t instance unless CUDAGraph was initialized with keep_graph=true"
            )
        if self._graph is None:
            raise RuntimeError("You cannot access the raw cudaGraph_t instance until capture_end() has been called")
        return int(self._graph.graph)

    def raw_cuda_graph_exec(self) -> int:
        """Return the handle of the executable graph, a ``cudaGraphExec_t``, as an int.

        It is valid until the next `instantiate`.

        Raises
        ------
        RuntimeError
            If nothing has been captured.
        """
        if self._executable is None:
            raise RuntimeError("You cannot access the raw cudaGraphExec_t instance until instantiate() has been called")
        return int(self._executable.graphExec)

    def _captured_graph(self, caller: str) -> Any:
        """Return CuPy's graph object. Raise an error that names `caller` if nothing has been captured."""
        if self._graph is None:
            raise RuntimeError(f"Called {caller} without a preceding successful capture.")
        return self._graph


class _Executable:
    """A graph that was instantiated again, with the method names of CuPy's graphs.

    Parameters
    ----------
    runtime : module
        CuPy's functions of the CUDA runtime.
    handle : int
        The handle of the graph.
    """

    def __init__(self, runtime: Any, handle: int) -> None:
        self._runtime = runtime
        self.graphExec = int(runtime.graphInstantiate(handle))
        weakref.finalize(self, runtime.graphExecDestroy, self.graphExec).atexit = False

    def launch(self, stream: Any) -> None:
        self._runtime.graphLaunch(self.graphExec, stream.ptr)


def _default_stream() -> Stream:
    """Return the stream in which this thread captures on the current device by default."""
    streams, current = registry.find("cuda").capture.streams, current_stream()
    if current.device.index not in streams:
        streams[current.device.index] = Stream(current.device)
    return streams[current.device.index]  # type: ignore[no-any-return]


class _Capturing:
    """Context manager that captures work for a graph in a side stream; see `graph`."""

    def __init__(
        self, cuda_graph: CUDAGraph, pool: Any = None, stream: Stream | None = None, capture_error_mode: str = "relaxed"
    ) -> None:
        self.cuda_graph, self.pool, self.capture_error_mode = cuda_graph, pool, capture_error_mode
        self.capture_stream = stream

    def __enter__(self) -> None:
        self._side = self.capture_stream or _default_stream()
        self._side.wait_stream(current_stream())
        with contextlib.ExitStack() as opened:
            opened.enter_context(stream(self._side))
            self.cuda_graph.capture_begin(self.pool, self.capture_error_mode)
            self._open = opened.pop_all()

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        with self._open:
            if error is None:
                self.cuda_graph.capture_end()
            else:
                self.cuda_graph._abandon()
        # CuPy raises a RuntimeError for work that cannot be captured; other errors come from the function.
        if isinstance(error, RuntimeError) and not isinstance(error, OutOfMemoryError):
            raise RuntimeError(
                f"a CUDA graph cannot capture this function: {error}. Elementwise work, reductions, products of "
                "matrices and kernels of one's own can be captured; waiting for the device, copies to and from the "
                "host, and factorisations of matrices cannot."
            ) from error
        current_stream().wait_stream(self._side)


def graph(
    cuda_graph: CUDAGraph | Callable[..., Any],
    pool: Any = None,
    stream: Stream | None = None,
    capture_error_mode: str = "relaxed",
    *,
    warmup: int = 2,
) -> Any:
    """Capture work for a graph as a context manager; or return a function that runs as a graph.

    The returned function runs `warmup` times in its first call, then is captured. Each later call copies its arguments
    to the memory of the first ones, and replays the graph. Python code runs in the first call only.

    Parameters
    ----------
    cuda_graph : CUDAGraph or callable
        The graph to record for; or a function that takes and returns tensors, or nested containers of them, on one
        CUDA device. Shapes, dtypes and everything that is no tensor must be the same in every call.
    pool : object, optional
        Memory to share with other graphs, see `graph_pool_handle`.
    stream : Stream, optional
        The stream in which to record, by default one of this thread. Only graphs that are recorded in the same
        stream reuse each other's memory.
    capture_error_mode : str
        See `CUDAGraph.capture_begin`.
    warmup : int
        The number of runs of a function before it is recorded, so that kernels are compiled and chosen.

    Returns
    -------
    context manager or callable
        A returned function is called like the given one. Its next call overwrites its results; clone them to keep them.

    Raises
    ------
    RuntimeError
        If CUDA cannot be used, if the work cannot be captured (with the reason), or if arguments have changed.

    Examples
    --------
    >>> import gradcore
    >>> if gradcore.cuda.is_available():
    ...     x = gradcore.ones(1000, device="cuda")
    ...     step = gradcore.cuda.graph(lambda x: (x * 2 + 1).tanh())
    ...     y = step(x)
    ...     g = gradcore.cuda.CUDAGraph()
    ...     with gradcore.cuda.graph(g):
    ...         z = x * 2
    ...     g.replay()
    """
    how = pool, stream, capture_error_mode
    if isinstance(cuda_graph, CUDAGraph):
        return _Capturing(cuda_graph, *how)
    recorded: dict[str, Any] = {}

    def call(*args: Any) -> Any:
        flat, structure = tree_flatten(args)
        if not recorded:
            recorded.update(_record(cuda_graph, flat, structure, warmup, how))
        _refill(recorded, flat, structure)
        recorded["graph"].replay()
        return recorded["result"]

    return call


def _record(
    function: Callable[..., Any], flat: list[Any], structure: Any, warmup: int, how: tuple[Any, ...]
) -> dict[str, Any]:
    inputs = [t.detach().clone() if isinstance(t, Tensor) else t for t in flat]
    side = Stream()
    side.wait_stream(current_stream())
    with stream(side):
        for _ in range(warmup):
            function(*tree_unflatten(inputs, structure))
    current_stream().wait_stream(side)
    captured = CUDAGraph()
    with _Capturing(captured, *how):
        result = function(*tree_unflatten(inputs, structure))
    return {"graph": captured, "inputs": inputs, "structure": structure, "result": result}


def _refill(recorded: dict[str, Any], flat: list[Any], structure: Any) -> None:
    if structure != recorded["structure"]:
        raise RuntimeError("a captured function was called with arguments of another structure")
    for recorded_input, argument in zip(recorded["inputs"], flat, strict=True):
        if isinstance(recorded_input, Tensor):
            if not isinstance(argument, Tensor) or _kind(argument) != _kind(recorded_input):
                raise RuntimeError(
                    "a captured function was called with a tensor of another shape or dtype than that of the first call"
                )
            recorded_input.copy_(argument.detach())
        elif recorded_input != argument:
            raise RuntimeError(f"a captured function was called with {argument!r} instead of {recorded_input!r}")


def _kind(t: Any) -> tuple[Any, ...]:
    return t.shape, t.dtype


__getattr__ = paths.further(__name__)

paths.show_public(__name__)
