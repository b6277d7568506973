"""CUDA graphs of programs: captured once for fixed memory addresses, then launched.

Arguments are copied into memory of the graph. Parameters, buffers and all inputs that the program writes to are used in
place; if their addresses change, another graph is captured. Inputs that are only read and whose addresses change often
are copied from then on. Results are in memory of the graph. While they are in use, the graph is not launched again;
another instance of it is. Results that stay in use for long are copied.
"""

from __future__ import annotations

import weakref
from typing import Any

from gradcore.backends.streams import in_order
from gradcore.compiler.program.effects import Effects
from gradcore.compiler.program.program import Program
from gradcore.compiler.program.storage import bounds, share_memory
from gradcore.compiler.targets.cuda.groups import fuse_on_cuda
from gradcore.compiler.targets.python import emitter
from gradcore.core.locks import new_lock
from gradcore.cuda.graphs import CUDAGraph, graph

__all__ = ["GraphedProgram", "describe"]

#: The number of calls before the capture, in which kernels are compiled and selected.
_FIRST_CALLS = 2
#: The largest numbers of instances per graph, of graphs per program, and of captures before graphs are abandoned.
_MOST_INSTANCES, _MOST_PLACES, _MOST_CAPTURES = 2, 4, 24
#: The number of addresses after which an input is copied, and the largest ratio of its span in bytes to its size.
_MOST_ADDRESSES, _MOST_GAPS = 4, 4
#: The reason why programs with matrix products have no graph by default.
_OTHER_BITS = (
    "products are those of another kernel inside of a graph, as cuBLAS, which CuPy does not call there, is not found: "
    "compile with mode='reduce-overhead'"
)


def describe(run: GraphedProgram) -> list[str]:
    """Return lines about a program's kernels, and its graphs or the reason why there are none."""
    return [f"{run.groups} generated kernels of groups, {run.calls} calls in all", f"CUDA graph: {run.state}"]


class GraphedProgram:
    """A program that runs call by call at first, and as CUDA graphs once it is captured.

    Parameters
    ----------
    program : Program
    graphs : {'equal', 'always', 'never'}
        When the program becomes a CUDA graph: only if results stay bitwise equal, always, or never.
    copied, steps : set of int
        The inputs whose address differs in each call, and those that are a `StepInput`.

    Attributes
    ----------
    state : str
        A description of the graph, or the reason why there is none.
    calls, groups : int
        The number of calls of the program, and of generated kernels among them.
    """

    def __init__(self, program: Program, graphs: str, copied: frozenset[int], steps: frozenset[int]) -> None:
        fused = fuse_on_cuda(program)
        self.backend, self._program, self._graphs = program.backend, program, graphs
        self.calls, self.groups = len(fused.calls), sum(call.name == "fused" for call in fused.calls)
        self._run = emitter.function_of(fused)
        input_types = [program.types.get(n) for n in program.inputs]
        written_inputs = Effects(program).written_inputs()
        #: Positions of the inputs that are written to, that share memory with results, that are copied into memory of
        #: the graph, and that are optimizer steps.
        self._written = [i for i, n in enumerate(program.inputs) if n in written_inputs]
        returned = {program.types[n].memory for n in program.outputs if n in program.types}
        self._returned = [i for i, each in enumerate(input_types) if each is not None and each.memory in returned]
        self._copied = [i for i, n in enumerate(program.inputs) if n in copied and n not in written_inputs]
        #: For each input that is used in place, its addresses at the times of captures.
        self._addresses: dict[int, set[int]] = {}
        self._steps = [i for i, n in enumerate(program.inputs) if n in steps]
        self._kept: set[int] = set()
        self._instances: dict[tuple[Any, ...], list[_Instance]] = {}
        self._lock = new_lock()
        self._stream: Any = None
        self._captures = self._seen = 0
        self.state = f"not captured: it is after {_FIRST_CALLS} calls"
        refusal = self._why_not(graphs, input_types)
        self._waiting = refusal is None
        self.state = refusal or self.state

    def _why_not(self, graphs: str, given: list[Any]) -> str | None:
        """Return the reason why the program cannot become a graph, or None if it can."""
        program = self._program
        if graphs == "never":
            return "switched off"
        if not hasattr(self.backend, "capturing") or not self.backend.has_streams:
            return "the device has none"
        if program.index is None:
            return "calls are made on several devices"
        if any("fft" in call.name for call in program.calls):
            return "plans of FFTs, and the memory that they work in, belong to CuPy"
        if None in given or any(n not in program.types for n in program.outputs):
            return "segments pass random numbers on"
        return None

    def __call__(self, *arrays: Any) -> Any:
        if not self._waiting or self.backend.is_capturing():
            return self._run(*arrays)
        stream = self.backend.xp.cuda.get_current_stream()
        if self._seen < _FIRST_CALLS or stream.is_capturing() or self._reads_what_it_writes(arrays):
            self._seen += 1
            return self._run(*arrays)
        if any(arrays[i] is None for i in self._steps):  # The optimizer takes the step itself.
            return self._run(*arrays)
        with self._lock:
            instance = self._instance_for(arrays)
            if instance is None:
                return self._run(*arrays)
            self._wait(stream)
            return instance.launch(arrays, self._kept, stream)

    def _reads_what_it_writes(self, arrays: tuple[Any, ...]) -> bool:
        """Return whether an argument that would be copied overlaps memory that the program writes to."""
        return any(share_memory(arrays[i], arrays[j]) for i in self._written for j in self._copied)

    def _wait(self, stream: Any) -> None:
        """Make the current stream wait for earlier launches in another stream."""
        if self._stream is not None and self._stream != stream:
            index: Any = self._program.index
            in_order(self.backend, (index, self._stream), (index, stream))
        self._stream = stream

    # -- instances ------------------------------------------------------------------------------------------------

    def _instance_for(self, arrays: tuple[Any, ...]) -> _Instance | None:
        """Return a graph for these arrays whose earlier results are no longer in use, or None."""
        steps = self._steps
        if any(type(a) is not self.backend.array_type for i, a in enumerate(arrays) if i not in steps):
            return self._give_up("it reads arrays of the CPU")
        key = self._key(arrays)
        if key not in self._instances and self._copy_moving_inputs(arrays):
            if self._reads_what_it_writes(arrays):
                return None
            key = self._key(arrays)
        results = self._instances.get(key)
        if results is None:
            if len(self._instances) >= _MOST_PLACES:
                self._instances.clear()
            results = self._instances[key] = []
        for instance in results:
            if instance.is_free():
                return instance
        if len(results) >= _MOST_INSTANCES:
            self._kept |= results.pop(0).in_use()
        return self._capture(arrays, results)

    def _key(self, arrays: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the key of a captured graph: addresses of arrays, and kernels of optimizer steps."""
        copied, steps = self._copied, self._steps
        return tuple([a.key if i in steps else a.data.ptr for i, a in enumerate(arrays) if i not in copied])

    def _copy_moving_inputs(self, arrays: tuple[Any, ...]) -> bool:
        """Copy inputs that move often from now on; return whether there are any."""
        for i, array in enumerate(arrays):
            if not any(i in each for each in (self._steps, self._written, self._copied, self._returned)):
                self._addresses.setdefault(i, set()).add(array.data.ptr)
        results = [i for i, seen in self._addresses.items() if len(seen) > _MOST_ADDRESSES and _is_dense(arrays[i])]
        for i in results:
            del self._addresses[i]
        self._copied += results
        if results:
            self._instances.clear()
        return bool(results)

    def _capture(self, arrays: tuple[Any, ...], found: list[_Instance]) -> _Instance | None:
        """Capture a graph for these arrays, append its instance to `found` and return it; None if it is impossible."""
        if self._captures >= _MOST_CAPTURES:
            return self._give_up(f"its inputs have moved {self._captures} times")
        self._captures += 1
        try:
            instance = _Instance(self._run, self.backend, arrays, self._copied, self._steps)
        except Exception as error:
            return self._give_up(f"it cannot be captured: {error}")
        if self._graphs == "equal" and self.backend.capture.differs:
            return self._give_up(_OTHER_BITS)
        found.append(instance)
        self.state = f"{self._captures} captured, {len(self._copied)} of {len(arrays)} inputs copied"
        return instance

    def _give_up(self, why: str) -> _Instance | None:
        self._waiting, self.state = False, why
        self._instances.clear()
        return None


def _is_dense(array: Any) -> bool:
    """Return whether the span of an array contains so few unused bytes that the whole span can be copied."""
    start, stop = bounds(array)
    return stop - start <= _MOST_GAPS * array.nbytes or not array.size


def _allocate_like(backend: Any, array: Any) -> tuple[Any, Any, int]:
    """Return an empty array with the strides of `array`, its memory, and the offset of its first element in bytes."""
    start, stop = bounds(array)
    memory, offset = backend.xp.empty(stop - start, "u1"), array.data.ptr - start
    return backend.xp.ndarray(array.shape, array.dtype, memory.data + offset, array.strides), memory, offset


class _Result:
    """Owner of a result's memory: when it is collected, the result is no longer in use."""

    __slots__ = ("__weakref__", "array")

    def __init__(self, array: Any) -> None:
        self.array = array


class _Instance:
    """A captured graph, with memory for copied inputs and for results.

    Each instance has a memory pool of its own, so that intermediate values of others cannot overwrite its results.
    """

    def __init__(self, run: Any, backend: Any, arrays: tuple[Any, ...], copied: list[int], steps: list[int]) -> None:
        self.backend, inputs = backend, list(arrays)
        #: Position of each step, and memory for its hyperparameters.
        self.steps = [(i, backend.xp.asarray(arrays[i].values)) for i in steps]
        for i, numbers in self.steps:
            inputs[i] = arrays[i].within(numbers)
        #: For each copied input: position, memory, and the offset of the first element in bytes.
        self.copies: list[tuple[int, Any, int]] = []
        for i in copied:
            if not _is_dense(arrays[i]):
                raise RuntimeError("an argument has gaps in memory")
            if arrays[i].size:
                inputs[i], memory, offset = _allocate_like(backend, arrays[i])
                self.copies.append((i, memory, offset))
        self.graph = CUDAGraph()
        with graph(self.graph):
            self.outputs = run(*inputs)
        #: The inputs that the graph reads or writes in place; references keep their memory alive.
        self.inputs = inputs
        self.results: list[Any] = [None] * len(self.outputs)

    def is_free(self) -> bool:
        """Return whether no result of the last launch is in use."""
        return not any(result is not None and result() is not None for result in self.results)

    def in_use(self) -> set[int]:
        """Return the positions of the results of the last launch that are in use."""
        return {i for i, result in enumerate(self.results) if result is not None and result() is not None}

    def launch(self, arrays: tuple[Any, ...], kept: set[int], stream: Any) -> list[Any]:
        """Copy arguments, launch the graph, and return its results, those in `kept` as copies."""
        for i, memory, offset in self.copies:
            memory.data.copy_from_device_async(arrays[i].data - offset, memory.nbytes, stream)
        for i, numbers in self.steps:
            values = arrays[i].values
            if values.size:  # Unpinned memory is read before the copy returns, so it may change afterwards.
                numbers.data.copy_from_host_async(values.ctypes.data, values.nbytes, stream)
        self.graph.replay()
        return [self._result(i, out, i in kept) for i, out in enumerate(self.outputs)]

    def _result(self, i: int, out: Any, kept: bool) -> Any:
        """Return a result of the launch, as a copy if it is `kept`, else in memory of the graph."""
        if kept:
            self.results[i] = None
            return out.copy("K")
        cuda, result = self.backend.xp.cuda, _Result((self, out))
        self.results[i] = weakref.ref(result)
        if not out.size:
            return out.copy("K")
        start, stop = out.data.ptr, out.data.mem.ptr + out.data.mem.size
        memory = cuda.UnownedMemory(start, max(stop - start, out.nbytes), result, out.device.id)
        return self.backend.xp.ndarray(out.shape, out.dtype, cuda.MemoryPointer(memory, 0), out.strides)
