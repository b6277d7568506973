"""What must have happened before what: vector clocks for streams and the host, and the accesses to memory they order.

Programs on the fake runtime run at once, in the order in which the host queues work. On a GPU, work of two streams runs
in any order that events and waiting do not exclude. An `Order` therefore notes, for each access to memory, by what it
is ordered, and collects every pair of accesses, at least one a write, that might as well happen the other way round.
Memory that was freed may be handed out again at once, as CuPy's pool does: by the next allocation in the stream that it
was allocated in, whatever other streams still do with it.
"""

from __future__ import annotations

import threading
import weakref
from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.strict.device import owner
from tests.strict.watching import Watcher

#: The time of each agent, a stream or a thread of the host, of which something is known to be done.
Clock = dict[Any, int]


class Stream(NamedTuple):
    """A stream as an agent."""

    device: int
    ptr: int

    def __repr__(self) -> str:
        return f"stream {self.ptr} of device {self.device}"


class Memory:
    """An allocation: where it goes back to, and who used it when, since it was last written to."""

    def __init__(self, arena: Any, label: str) -> None:
        self.arena, self.label = arena, label
        self.write: tuple[Any, int] | None = None
        self.reads: Clock = {}


def join(clock: Clock, other: Clock) -> None:
    for agent, time in other.items():
        if clock.get(agent, 0) < time:
            clock[agent] = time


class Recording:
    """The work of one graph: which memory it uses, and the order inside it."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.clocks: dict[Any, Clock] = {stream: {}}
        self.reads: dict[int, Any] = {}
        self.writes: dict[int, Any] = {}
        self.inside: dict[int, Memory] = {}


class Order(Watcher):
    """Collects what is not ordered.

    Parameters
    ----------
    where : callable
        The current stream.
    """

    def __init__(self, where: Callable[[], Stream]) -> None:
        self.where = where
        self.clocks: dict[Any, Clock] = defaultdict(dict)
        self.violations: list[str] = []
        #: Accesses to memory that has been freed, by where it may be handed out again.
        self.freed: dict[Any, Clock] = defaultdict(dict)
        #: The pool of the current allocator.
        self.pool: Any = None
        self.recording: Recording | None = None
        #: The default stream of another device that waits for the copy which is being made.
        self._after_copy: Any = None
        self._known: dict[int, tuple[Any, Memory]] = {}
        self._waiting = threading.local()

    # -- streams, events, the host --------------------------------------------------------------------------------

    @staticmethod
    def host() -> Any:
        return "host", threading.get_ident()

    def tick(self, agent: Any) -> Clock:
        """Return the clock of an agent, advanced by one."""
        if self.recording is not None:
            clock = self.recording.clocks.get(agent)
            if clock is None:
                self.violations.append(f"work is queued in {agent} while another one records a graph")
                clock = self.recording.clocks[agent] = {}
        else:
            clock = self.clocks[agent]
            join(clock, self.clocks[self.host()])
        clock[agent] = clock.get(agent, 0) + 1
        return clock

    def recorded(self, stream: Stream) -> tuple[Any, Clock]:
        """Return the graph that an event at the end of a stream belongs to, and the clock of the work before it."""
        if self.recording is not None and stream in self.recording.clocks:
            return self.recording, dict(self.tick(stream))
        clock = self.clocks[stream]
        join(clock, self.clocks[self.host()])
        clock[stream] = clock.get(stream, 0) + 1
        return None, dict(clock)

    def waits(self, stream: Stream, event: tuple[Any, Clock] | None) -> None:
        """Make a stream wait for an event."""
        if event is None:
            return
        recording, clock = event
        if recording is None:
            if self.recording is not None and stream in self.recording.clocks:
                self.violations.append(f"{stream}, which records a graph, waits for work outside of it")
            join(self.clocks[stream], clock)
        elif recording is self.recording:
            if stream.ptr == 0:
                self.violations.append("cudaErrorStreamCaptureImplicit: a default stream cannot be captured")
            join(recording.clocks.setdefault(stream, {}), clock)
        else:
            self.violations.append(f"{stream} waits for an event in a graph that was recorded")

    def is_done(self, clock: Clock) -> bool:
        """Whether the host, when it asks, is told that this is done: as late as possible."""
        known = self.clocks[self.host()]
        return all(time <= known.get(agent, 0) for agent, time in clock.items() if isinstance(agent, Stream))

    def host_waits(self, clock: Clock) -> None:
        join(self.clocks[self.host()], clock)

    def waited(self) -> None:
        self._commit()
        self.host_waits(self.tick(self.where()))

    def started(self, parent: Any) -> None:
        """Order the host's current thread after its parent, which started it or was waited for."""
        join(self.clocks[self.host()], self.clocks[parent])

    # -- graphs ---------------------------------------------------------------------------------------------------

    def begin(self, stream: Stream) -> None:
        self.recording = Recording(stream)

    def end(self, stream: Stream) -> Recording:
        recording, self.recording = self.recording, None
        assert recording is not None
        origin = recording.clocks[recording.stream]
        for agent, clock in recording.clocks.items():
            if clock.get(agent, 0) > origin.get(agent, 0):
                self.violations.append(f"{agent} was not joined before the end of the recording")
        return recording

    def launched(self, recording: Recording, stream: Stream) -> None:
        """Queue a graph, whose accesses all happen at one time."""
        clock = self.tick(stream)
        for array in recording.reads.values():
            self._access(self._memory(array), stream, clock, writes=False)
        for array in recording.writes.values():
            self._access(self._memory(array), stream, clock, writes=True)

    def records(self, stream: Stream) -> bool:
        """Whether what is queued in a stream is recorded for a graph."""
        return self.recording is not None and stream in self.recording.clocks

    # -- memory ---------------------------------------------------------------------------------------------------

    def made(self, array: Any, device: int) -> None:
        root = owner(array)
        if self._find(root) is not None:
            self._pending().clear()  # a view reads nothing
            return
        stream = self.where()
        self._new(root, (self.pool, stream), str(array.dtype) + str(list(array.shape)))
        clock = self.tick(stream)
        freed = self.freed.pop((self.pool, stream), {})
        self._require(freed, clock, f"memory that {stream} has freed and may use again")
        self._commit()
        self._used(root, stream, clock, writes=True)
        if self._after_copy is not None:
            join(self.clocks[self._after_copy], self.clocks[stream])
            self._after_copy = None

    def read(self, array: Any) -> None:
        self._pending().append(array)

    def written(self, array: Any) -> None:
        self._commit()
        stream = self.where()
        self._used(owner(array), stream, self.tick(stream), writes=True)

    def updated(self, array: Any) -> None:
        self.read(array)
        self._commit()

    def used_at(self, address: int, writes: bool) -> None:
        for root, _ in list(self._known.values()):
            found = root()
            if found is not None:
                begin = found.__array_interface__["data"][0]
                if begin <= address < begin + max(found.nbytes, 1):
                    (self.written if writes else self.read)(found)
                    return

    def copied(self, source: Any, device: int) -> None:
        """Between devices; copies in both default streams wait for all work in these, which waits for them."""
        here, there = self.where(), self.current(device)
        if here.ptr == there.ptr == 0:
            join(self.clocks[here], self.tick(there))
            self._after_copy = there
        self.read(source)

    #: The current stream of a device.
    current: Callable[[int], Stream]

    def host_writes(self, array: Any) -> None:
        """Record a write by the host to its own memory, which copies may still be reading."""
        agent = self.host()
        clock = self.clocks[agent]
        clock[agent] = clock.get(agent, 0) + 1
        self._used(owner(array), agent, clock, writes=True)

    def host_made(self, array: Any) -> None:
        """Page-locked memory was handed out, which may have been freed just now."""
        agent = self.host()
        self._new(owner(array), "pinned", "page-locked memory")
        self._require(self.freed.pop("pinned", {}), self.clocks[agent], "page-locked memory that was freed")
        self.host_writes(array)

    # -- inside ---------------------------------------------------------------------------------------------------

    def _pending(self) -> list[Any]:
        found: list[Any] = self._waiting.__dict__.setdefault("reads", [])
        return found

    def _commit(self) -> None:
        pending = self._pending()
        arrays, pending[:] = list(pending), []
        stream = self.where()
        clock = self.tick(stream) if arrays else {}
        for array in arrays:
            self._used(owner(array), stream, clock, writes=False)

    def _find(self, root: Any) -> Memory | None:
        known = self._known.get(id(root))
        return known[1] if known is not None and known[0]() is root else None

    def _new(self, root: Any, arena: Any, label: str) -> Memory:
        memory, key = Memory(arena, label), id(root)

        def gone(reference: Any) -> None:
            if self._known.get(key, (None,))[0] is reference:
                del self._known[key]
            clock = self.freed[memory.arena]
            join(clock, memory.reads)
            if memory.write is not None:
                join(clock, dict([memory.write]))

        self._known[key] = weakref.ref(root, gone), memory
        return memory

    def _memory(self, root: Any) -> Memory:
        return self._find(root) or self._new(root, None, str(root.dtype) + str(list(root.shape)))

    def _used(self, root: Any, agent: Any, clock: Clock, writes: bool) -> None:
        memory = self._memory(root)
        if self.recording is not None:
            recording = self.recording
            (recording.writes if writes else recording.reads)[id(root)] = root
            memory = recording.inside.setdefault(id(root), Memory(None, memory.label))
        self._access(memory, agent, clock, writes)

    def _access(self, memory: Memory, agent: Any, clock: Clock, writes: bool) -> None:
        before = dict([memory.write]) if memory.write is not None else {}
        self._require(before, clock, f"{agent} {'writes to' if writes else 'reads'} {memory.label}, written by")
        if writes:
            self._require(memory.reads, clock, f"{agent} writes to {memory.label}, read by")
            memory.write, memory.reads = (agent, clock[agent]), {}
        else:
            memory.reads[agent] = clock[agent]

    def _require(self, before: Clock, clock: Clock, what: str) -> None:
        for agent, time in before.items():
            if time > clock.get(agent, 0):
                self.violations.append(f"{what} {agent}, with nothing between them")
