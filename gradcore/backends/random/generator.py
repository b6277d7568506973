"""The state of a random number generator: a key and a counter.

Philox is a function of (key, counter); see `philox`. Therefore drawing numbers only reserves a range of the counter,
which is all that this module does. The numbers of a range can be computed later, on any device and in any order.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from gradcore.core.locks import process_lock
from gradcore.core.typing import NamedTuple

WORDS_PER_BLOCK = 4
"""64-bit words that Philox 4x64 makes for one value of the counter."""

KEY_BITS, COUNTER_BITS = 128, 256
_STATE_BYTES = (KEY_BITS + COUNTER_BITS) // 8

#: Lock that protects reading and changing a state.
_lock = process_lock()


class DropoutDraw(NamedTuple):
    """The random decisions of a dropout, which kernels compute where they use them.

    Attributes
    ----------
    shape : tuple of int
        Shape of the decisions. They are those of `philox.bernoulli` for float32, in row-major order.
    p : float
        Probability that an element is kept.
    scale : float
        Factor of elements that are kept.
    key, counter
        Position in the stream of random words, as `Backend.reserve_words` returns it.
    """

    shape: tuple[int, ...]
    p: float
    scale: float
    key: Any
    counter: int


class PhiloxState:
    """The position of a generator in its stream of words.

    Several threads may draw from one state: each gets words of its own.

    Parameters
    ----------
    seed : int
        Chooses the stream: an integer from -2**63 up to 2**128 - 1. A negative one means ``seed + 2**64``, as
        in PyTorch.
    counter : int
        The block to start with.

    Examples
    --------
    >>> state = PhiloxState(seed=7)
    >>> state.draw(10)  # three blocks of four words
    (7, 0)
    >>> state.draw(1)
    (7, 3)
    >>> state
    PhiloxState(seed=7, counter=4)
    """

    __slots__ = ("_counter", "_key")

    def __init__(self, seed: int = 0, counter: int = 0) -> None:
        seed = operator.index(seed)
        if not -(2**63) <= seed < 2**KEY_BITS:
            raise ValueError(f"expected a seed from -2**63 up to 2**{KEY_BITS} - 1, but got {seed}")
        self._key = seed if seed >= 0 else seed + 2**64
        self._counter: int = operator.index(counter) % 2**COUNTER_BITS

    @property
    def seed(self) -> int:
        """The seed as a non-negative integer."""
        return self._key

    @property
    def key(self) -> int:
        """The 128-bit key, which is the seed."""
        return self._key

    @property
    def counter(self) -> int:
        """The 256-bit number of the next block."""
        return self._counter

    def draw(self, words: int) -> tuple[int, int]:
        """Reserve whole blocks for at least `words` words and step over them.

        Parameters
        ----------
        words : int
            How many 64-bit words are needed.

        Returns
        -------
        key, counter : int
            Where the words are: what `philox.words` and the kernels take.
        """
        blocks = -(-words // WORDS_PER_BLOCK)
        if blocks < 0:
            raise ValueError(f"expected a number of words that is not negative, but got {words}")
        with _lock:
            key, counter = self._key, self._counter
            self._counter = (counter + blocks) % 2**COUNTER_BITS
        return key, counter

    def place(self) -> tuple[int, int]:
        """Return key and counter, read together even while another thread changes them."""
        return place_of(self)

    def assign(self, other: PhiloxState) -> None:
        """Set the key and the counter to those of another state, for all threads that draw from this one."""
        key, counter = other.place()
        with _lock:
            self._key, self._counter = key, counter

    def to_bytes(self) -> np.ndarray:
        """Return the state as 48 bytes: the key, then the counter, each with its lowest byte first."""
        key, counter = self.place()
        data = key.to_bytes(KEY_BITS // 8, "little") + counter.to_bytes(COUNTER_BITS // 8, "little")
        return np.frombuffer(data, np.uint8).copy()

    @classmethod
    def from_bytes(cls, data: Any) -> PhiloxState:
        """Return the state that `to_bytes` converted to bytes.

        Parameters
        ----------
        data : array or bytes
            48 bytes; an array has to be of dtype uint8.

        Raises
        ------
        TypeError
            If `data` is an array of another dtype.
        ValueError
            If there are more or fewer bytes.
        """
        if isinstance(data, np.ndarray):
            if data.dtype != np.uint8:
                raise TypeError(f"RNG state must be of dtype uint8, but got {data.dtype}")
            data = data.tobytes()
        data = bytes(data)
        if len(data) != _STATE_BYTES:
            raise ValueError(f"RNG state is wrong size: expected {_STATE_BYTES} bytes, but got {len(data)}")
        key, counter = data[: KEY_BITS // 8], data[KEY_BITS // 8 :]
        return cls(int.from_bytes(key, "little"), int.from_bytes(counter, "little"))

    def copy(self) -> PhiloxState:
        """Return an independent state at the same place."""
        return PhiloxState(*self.place())

    def __reduce__(self) -> tuple[type, tuple[int, int]]:
        return PhiloxState, self.place()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PhiloxState):
            return NotImplemented
        return self.place() == other.place()

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        return f"PhiloxState(seed={self._key}, counter={self._counter})"


def place_of(state: PhiloxState) -> tuple[int, int]:
    """Return key and counter of a state, for a copy that draws the same numbers; see `PhiloxState.place`."""
    with _lock:
        return state._key, state._counter
