"""Random number generators, and the default generator, which all devices share."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from typing import Any

from gradcore.backends.random.generator import PhiloxState
from gradcore.backends.random.recording import again, present
from gradcore.backends.registry import resolve
from gradcore.core import dtypes
from gradcore.core.device import DeviceLike
from gradcore.dispatch.settings import setting
from gradcore.tensor import Tensor
from gradcore.tensor.creation import from_numpy

__all__ = [
    "Generator",
    "begin_stream",
    "current_state",
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "repeat_draws",
    "seed",
    "set_rng_state",
    "use_state",
]

#: The message of the error for calls that are not possible during a graph capture.
_CAPTURING = (
    "Cannot {} during CUDA graph capture. Every replay goes on from where the generator then stands: do it before the "
    "capture, or between replays."
)


class Generator:
    """A random number generator with its own state.

    Parameters
    ----------
    device : device or str
        Accepted as in PyTorch; the numbers do not depend on it.

    Raises
    ------
    RuntimeError
        If it is created for CUDA while a CUDA graph is recorded.

    Examples
    --------
    >>> import gradcore
    >>> g = gradcore.Generator().manual_seed(0)
    >>> a = gradcore.rand(3, generator=g)
    >>> b = gradcore.rand(3, generator=g.manual_seed(0))
    >>> bool((a == b).all())
    True
    """

    def __init__(self, device: DeviceLike = "cpu") -> None:
        self.device = resolve(device)
        if self.device.type == "cuda":
            _refuse_capture("construct a new CUDAGeneratorImpl")
        #: Several generators may share this state (see `graphsafe_get_state`), so it is modified, never replaced.
        self._state = PhiloxState(67280421310721)

    def _present(self) -> PhiloxState:
        """Return the state, or its counterpart inside the graph that this thread captures."""
        recording = present()
        return self._state if recording is None else recording.of(self._state)

    def _go_to(self, wanted: PhiloxState) -> Generator:
        """Continue from a state. During a graph capture, the state is a position inside the graph."""
        state = self._present()
        if present() is not None and wanted.seed != state.seed:
            raise RuntimeError(
                "CUDAGeneratorImpl::set_current_seed can be called during stream capture only if new seed is the same "
                "as the original seed."
            )
        state.assign(wanted)
        return self

    def manual_seed(self, seed: int) -> Generator:
        """Set the seed, and return the generator.

        Parameters
        ----------
        seed : int
            From -2**63 up to 2**64 - 1.

        Raises
        ------
        ValueError
            If the seed is outside of that range.
        RuntimeError
            If a CUDA graph is recorded, unless the seed is the present one: then nothing is changed.
        """
        seed = seed if type(seed) is int else setting("manual_seed", "seed", "int", 0).take(seed)
        if not -(2**63) <= seed < 2**64:
            raise ValueError(
                f"Overflow when unpacking long long: the seed has to be from -2**63 to 2**64 - 1, not {seed}"
            )
        new_state = PhiloxState(seed)
        if present() is not None and new_state.seed == self._state.seed:
            return self
        return self._go_to(new_state)

    def seed(self) -> int:
        """Set a seed chosen by the operating system, and return it."""
        _refuse_capture("call CUDAGeneratorImpl::seed")
        chosen = int.from_bytes(os.urandom(8), "little") >> 1
        self.manual_seed(chosen)
        return chosen

    def initial_seed(self) -> int:
        """Return the seed of the current stream."""
        return self._state.seed

    def get_state(self) -> Tensor:
        """Return the state (key and counter) as a uint8 tensor.

        During a graph capture it is a position inside the graph.
        """
        return from_numpy(self._present().to_bytes())

    def set_state(self, new_state: Tensor) -> Generator:
        """Continue from a state that `get_state` returned.

        Parameters
        ----------
        new_state : Tensor

        Raises
        ------
        RuntimeError
            If a CUDA graph is recorded and the seed is another one.
        """
        if getattr(new_state, "dtype", None) is not dtypes.uint8:
            raise TypeError("RNG state must be a torch.ByteTensor")
        return self._go_to(PhiloxState.from_bytes(new_state.host()))

    def clone_state(self) -> Generator:
        """Return a new generator that continues with the same numbers, independently.

        Raises
        ------
        RuntimeError
            If a CUDA graph is recorded.

        Examples
        --------
        >>> import gradcore
        >>> g = gradcore.Generator().manual_seed(0)
        >>> other = g.clone_state()
        >>> gradcore.equal(gradcore.rand(3, generator=g), gradcore.rand(3, generator=other))
        True
        """
        _refuse_capture("call CUDAGeneratorImpl::clone_impl")
        return self._sharing(self._state.copy())

    def graphsafe_get_state(self) -> Generator:
        """Return a generator that shares this one's state: numbers drawn from one are not drawn again from the other.

        It can be called during a graph capture.

        Examples
        --------
        >>> import gradcore
        >>> g = gradcore.Generator().manual_seed(0)
        >>> same = g.graphsafe_get_state()
        >>> gradcore.equal(gradcore.rand(3, generator=g), gradcore.rand(3, generator=same))
        False
        """
        return self._sharing(self._state)

    def graphsafe_set_state(self, state: Generator) -> None:
        """Share the state of another generator from now on. It can be called during a graph capture.

        Parameters
        ----------
        state : Generator

        Raises
        ------
        TypeError
            If it is no generator.
        """
        if not isinstance(state, Generator):
            raise TypeError(f"expected a Generator, but got {type(state).__name__}")
        self._state = state._state

    def _sharing(self, state: PhiloxState) -> Generator:
        other = Generator.__new__(Generator)
        other.device, other._state = self.device, state
        return other

    def __repr__(self) -> str:
        return f"<gradcore.Generator seed={self._state.seed} counter={self._state.counter}>"


def _refuse_capture(attempt: str) -> None:
    if present() is not None:
        raise RuntimeError(_CAPTURING.format(attempt))


class _OfThread(threading.local):
    """Random stream of a thread that does not use the shared default stream."""

    state: PhiloxState | None = None


_own = _OfThread()


class _DefaultGenerator(Generator):
    """The default generator, from which a thread may draw in a stream of its own."""

    @property
    def _state(self) -> PhiloxState:
        thread_state = _own.state
        return self._of_all if thread_state is None else thread_state

    @_state.setter
    def _state(self, state: PhiloxState) -> None:
        if _own.state is None:
            self._of_all = state
        else:
            _own.state = state


default_generator = _DefaultGenerator()
default_generator.seed()


def begin_stream(seed: int) -> None:
    """Give the default generator its own stream in this thread, from now on."""
    _own.state = PhiloxState(seed)


def manual_seed(seed: int) -> Generator:
    """Seed the default generator, which serves all devices.

    Parameters
    ----------
    seed : int
        From -2**63 up to 2**64 - 1.

    Returns
    -------
    Generator
        The default generator.

    Examples
    --------
    >>> import gradcore as gc
    >>> generator = gc.manual_seed(0)
    >>> a = gc.rand(2)
    >>> generator = gc.manual_seed(0)
    >>> gc.equal(gc.rand(2), a)
    True
    """
    return default_generator.manual_seed(int(seed))


def seed() -> int:
    """Seed the default generator from the operating system, and return the seed.

    Examples
    --------
    >>> import gradcore as gc
    >>> number = gc.seed()
    >>> number == gc.initial_seed()
    True
    """
    return default_generator.seed()


def initial_seed() -> int:
    """Return the seed of the default generator.

    Examples
    --------
    >>> import gradcore as gc
    >>> generator = gc.manual_seed(42)
    >>> gc.initial_seed()
    42
    """
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """Return the default generator's state, as a uint8 tensor.

    Examples
    --------
    >>> import gradcore as gc
    >>> state = gc.get_rng_state()
    >>> a = gc.rand(2)
    >>> gc.set_rng_state(state)
    >>> gc.equal(gc.rand(2), a)
    True
    """
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Set the default generator's state.

    Examples
    --------
    >>> import gradcore as gc
    >>> state = gc.get_rng_state()
    >>> a = gc.rand(2)
    >>> gc.set_rng_state(state)
    >>> gc.equal(gc.rand(2), a)
    True
    """
    default_generator.set_state(new_state)


@contextlib.contextmanager
def fork_rng(devices: Any = None, enabled: bool = True, device_type: str = "cuda") -> Iterator[None]:
    """Restore the state of the default generator after this context manager, so that draws inside have no effect.

    Examples
    --------
    >>> import gradcore as gc
    >>> a = gc.manual_seed(0)
    >>> with gc.fork_rng():
    ...     inside = gc.rand(2)
    >>> gc.equal(gc.rand(2), inside)
    True
    """
    states = [default_generator._state]
    if present() is not None:
        states.append(default_generator._present())  # the CPU's numbers are in no graph
    before = [(state, state.copy()) for state in states]
    try:
        yield
    finally:
        for state, position in before if enabled else ():
            state.assign(position)


@contextlib.contextmanager
def use_state(state: PhiloxState) -> Iterator[None]:
    """Make the default generator draw from a state in this thread, within the context."""
    before, _own.state = _own.state, state
    try:
        yield
    finally:
        _own.state = before


def repeat_draws(state: PhiloxState) -> contextlib.AbstractContextManager[None]:
    """Repeat, in this thread, the draws of the default generator that followed a state; see `again`.

    During a graph capture, each replay repeats the numbers drawn before, by the same graph, another graph, or no graph.
    """
    return use_state(again(state))


def current_state() -> PhiloxState:
    """Return the seed and offset of the default generator, for `repeat_draws`."""
    return again(default_generator._present())
