"""Streams of random numbers, and the one that all devices share."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from gradcore import dtypes
from gradcore.backends.random.generator import PhiloxState
from gradcore.backends.registry import resolve
from gradcore.creation import from_numpy
from gradcore.device import DeviceLike
from gradcore.tensor import Tensor

__all__ = [
    "Generator",
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
]


class Generator:
    """A stream of random numbers with a state of its own.

    Parameters
    ----------
    device : device or str
        Accepted as in PyTorch; the numbers do not depend on it.

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
        self._state = PhiloxState(67280421310721)

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream of a seed; returns the generator."""
        self._state = PhiloxState(int(seed))
        return self

    def seed(self) -> int:
        """Start a stream chosen by the operating system's randomness, and return its seed."""
        chosen = int.from_bytes(os.urandom(8), "little") >> 1
        self.manual_seed(chosen)
        return chosen

    def initial_seed(self) -> int:
        """The seed of the current stream."""
        return self._state.seed

    def get_state(self) -> Tensor:
        """The state (key and counter) as a uint8 tensor."""
        return from_numpy(self._state.to_bytes())

    def set_state(self, new_state: Tensor) -> Generator:
        """Continue from a state that `get_state` returned."""
        if getattr(new_state, "dtype", None) is not dtypes.uint8:
            raise TypeError("RNG state must be a torch.ByteTensor")
        self._state = PhiloxState.from_bytes(new_state.host())
        return self

    def clone_state(self) -> Generator:
        """Another generator that gives the same numbers from here on."""
        other = Generator(self.device)
        other._state = self._state.copy()
        return other

    def __repr__(self) -> str:
        return f"<gradcore.Generator seed={self._state.seed} counter={self._state.counter}>"


default_generator = Generator()
default_generator.seed()


def manual_seed(seed: int) -> Generator:
    """Seed the default generator, which serves all devices.

    Parameters
    ----------
    seed : int
        From -2**63 up to 2**128 - 1.

    Returns
    -------
    Generator
        The default generator.
    """
    return default_generator.manual_seed(seed)


def seed() -> int:
    """Seed the default generator from the operating system, and return the seed."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed of the default generator."""
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """The default generator's state, as a uint8 tensor."""
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Set the default generator's state."""
    default_generator.set_state(new_state)


@contextlib.contextmanager
def fork_rng(devices: Any = None, enabled: bool = True, device_type: str = "cuda") -> Iterator[None]:
    """Context after which the default generator continues as if nothing had been drawn inside."""
    state = default_generator._state.copy()
    try:
        yield
    finally:
        if enabled:
            default_generator._state = state
