"""Random numbers in a recorded CUDA graph, of which each replay draws new ones.

Every replay passes the same arguments to a recorded kernel. Its argument is therefore the position of its numbers
inside the graph. The kernel adds the position at which the graph's numbers begin, which it reads from memory of the
device. Before each replay, the generator advances by all numbers of the graph, and its former position is written to
that memory. So a replay draws the numbers that the same calls would draw if they were not recorded.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from .generator import WORDS_PER_BLOCK, PhiloxState, place_of

__all__ = ["RecordedState", "Recording", "RepeatedState", "again", "present", "record_draws"]


class RepeatedState(PhiloxState):
    """State that repeats numbers drawn before. A graph has to use the same ones in each replay."""

    __slots__ = ()


class RecordedState(PhiloxState):
    """A generator's state inside a graph. Its counter begins with 0 in each replay.

    Parameters
    ----------
    origin : PhiloxState
        The generator's state, from which a replay draws.
    memory : array
        Memory of the device for the key and the counter with which a replay begins.
    device : int
        The index of the memory's device.
    counter : int
        The block to start with.
    """

    __slots__ = ("device", "memory", "origin")

    def __init__(self, origin: PhiloxState, memory: Any, device: int, counter: int = 0) -> None:
        super().__init__(origin.seed, counter)
        self.origin, self.memory, self.device = origin, memory, device

    def draw(self, words: int) -> tuple[int, int]:
        """Reserve words for a device that records no graph, such as the CPU."""
        return self.origin.draw(words)

    def draw_recorded(self, words: int) -> tuple[Any, int]:
        """Reserve words of the graph. Instead of a key, return the memory that holds the replay's key and counter."""
        return self.memory, super().draw(words)[1]

    def copy(self) -> RecordedState:
        """Return an independent state at the same position of the same graph."""
        return RecordedState(self.origin, self.memory, self.device, self.counter)


def again(state: PhiloxState) -> PhiloxState:
    """Return a copy that will draw the same numbers as `state`, even if they are drawn outside of the graph."""
    if isinstance(state, RecordedState):
        return RecordedState(again(state.origin), state.memory, state.device, state.counter)
    return RepeatedState(*place_of(state))


class Recording:
    """The generator states that a graph draws from.

    Parameters
    ----------
    backend : Backend
        The backend of the device, which has `place_memory` and `write_place`.
    device : int
        The index of the graph's device.
    """

    def __init__(self, backend: Any, device: int) -> None:
        self.device = device
        self._backend = backend
        #: Records of the generators, by the ``id`` of their state.
        self._states: dict[int, RecordedState] = {}
        #: Memory that the graph reads but does not own, by ``id``.
        self._others: dict[int, Any] = {}

    def keep(self, array: Any) -> None:
        """Keep an array, which the graph reads, alive as long as the graph."""
        self._others[id(array)] = array

    def of(self, state: PhiloxState) -> PhiloxState:
        """Return a generator's state inside the graph. It is registered at the first call."""
        if isinstance(state, RepeatedState):
            return state
        if isinstance(state, RecordedState):
            self.keep(state.memory)
            return state
        result = self._states.get(id(state))
        if result is None:
            result = self._states[id(state)] = RecordedState(state, self._backend.place_memory(), self.device)
        return result

    def replay(self) -> None:
        """Advance each generator by the numbers that the graph draws, for the next launch in the current stream.

        The generator does not advance if the graph ends at the position at which it began. The beginning is written in
        any case, because the graph reads it.
        """
        for state in self._states.values():
            position = state.origin.draw(state.counter * WORDS_PER_BLOCK)
            self._backend.write_place(state.memory, *position)


class _Current(threading.local):
    recording: Recording | None = None


_current = _Current()


def present() -> Recording | None:
    """Return the recording of the graph that this thread records, or None."""
    return _current.recording


@contextlib.contextmanager
def record_draws(recording: Recording) -> Iterator[None]:
    """Context in which numbers that this thread draws on the device become part of a graph."""
    before, _current.recording = _current.recording, recording
    try:
        yield
    finally:
        _current.recording = before
