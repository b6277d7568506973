"""A reference for programs of operations, views and writes in place: values and directional derivatives in NumPy.

Nothing is shared and nothing is overwritten: a memory is a flat array that every write replaces by a new one, and a
tensor is an array of places in a memory. Next to each value goes its derivative along one direction, by the rules of
calculus. There is no graph, no version and no history of views: what gradcore gets from these is computed anew here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


class Memory:
    """The numbers that several tensors share."""

    #: Of derivatives: those that take their place with the next write, as a base has been detached from its history.
    later = None

    def __init__(self, numbers, ordered=True):
        self.numbers = numbers
        self.writes = 0
        #: Whether they lie in the order of the tensor's indices, and not in that of what they were computed from.
        self.ordered = ordered


@dataclass
class Slot:
    """A tensor: places in a memory of values and in one of derivatives; complex places are pairs of real ones.

    What `detach` gives has a tensor's values and derivatives of its own.
    """

    values: Memory
    slopes: Memory
    where: np.ndarray
    #: After how many writes to the memory it was made.
    made: int = 0

    @property
    def value(self):
        return self._read(self.values.numbers)

    @property
    def slope(self):
        return self._read(self.slopes.numbers)

    def _read(self, numbers):
        if not self.is_complex:
            return numbers[self.where]
        return numbers[self.where.real.astype(int)] + 1j * numbers[self.where.imag.astype(int)]

    @property
    def shape(self):
        return self.where.shape

    @property
    def is_complex(self):
        return self.where.dtype.kind == "c"

    @property
    def is_contiguous(self):
        """Whether the places follow each other in memory."""
        flat = self.places().reshape(-1)
        return self.values.ordered and bool((np.diff(flat) == 1).all())

    def places(self):
        """Return the positions of the real numbers, with a last dim for real and imaginary parts."""
        return np.stack([self.where.real, self.where.imag], -1).astype(int) if self.is_complex else self.where

    def view(self, change):
        """Return a view of the positions that `change` selects."""
        return Slot(self.values, self.slopes, np.asarray(change(self.where)), self.values.writes)

    def detached(self):
        return Slot(self.values, Memory(np.zeros_like(self.slopes.numbers)), self.where, self.values.writes)

    def write(self, value, slope, recorded=True):
        """Write to the places; without recording, derivatives stay those of what was there before."""
        self.values.writes += 1
        for memory, numbers in ((self.values, value), (self.slopes, slope)):
            if memory is self.values or recorded:
                memory.numbers = memory.numbers.copy()
                if self.is_complex:
                    memory.numbers[self.where.real.astype(int)] = np.real(numbers)
                    memory.numbers[self.where.imag.astype(int)] = np.imag(numbers)
                else:
                    memory.numbers[self.where] = np.real(numbers)


def fresh(value, slope, dtype="float64"):
    """Return a tensor with memory of its own."""
    value = np.asarray(value)
    slope = np.broadcast_to(np.asarray(slope), value.shape)
    if not str(dtype).startswith("complex"):
        where = np.arange(value.size).reshape(value.shape)
        return Slot(Memory(value.reshape(-1).astype(dtype)), Memory(slope.reshape(-1).astype("float64")), where)
    parts = "float32" if dtype == "complex64" else "float64"
    pairs = [np.stack([x.real, x.imag], -1).reshape(-1) for x in (value.astype(complex), slope.astype(complex))]
    where = 2 * np.arange(value.size).reshape(value.shape)
    where = np.asarray(where + 1j * (where + 1))
    return Slot(Memory(pairs[0].astype(parts)), Memory(pairs[1].astype("float64")), where)


def elementwise(function, derivative):
    """Return the unary operation with value `function` and derivative `derivative`."""
    return lambda a, b=None: (function(a.value), derivative(a.value) * a.slope)


def along_difference(function, step=1e-6):
    """Return the binary operation with value `function`, and slopes by central differences."""

    def both(a, b):
        x, y = np.float64(a.value), np.float64(b.value)
        up, down = (function(x + s * a.slope, y + s * b.slope) for s in (step, -step))
        return function(x, y), (up - down) / (2 * step)

    return both


def linear(function):
    """Return the operation with value `function`, which is linear in both tensors jointly."""
    return lambda a, b: (function(a.value, b.value), function(a.slope, b.slope))


#: By name: value and slope of operations of two tensors of one shape (the second may be ignored).
UNARY = {
    "sin": elementwise(np.sin, np.cos),
    "tanh": elementwise(np.tanh, lambda x: 1 - np.tanh(x) ** 2),
    "exp": elementwise(lambda x: np.exp(np.minimum(x, 2)), lambda x: np.exp(np.minimum(x, 2)) * (x <= 2)),
    "square": elementwise(np.square, lambda x: 2 * x),
    "neg": elementwise(np.negative, lambda x: -np.ones_like(x)),
    "relu": elementwise(lambda x: np.maximum(x, 0), lambda x: np.float64(x > 0)),
    "leaky_relu": elementwise(lambda x: np.where(x > 0, x, x * 0.01), lambda x: np.where(x > 0, 1, 0.01)),
    "hardtanh": elementwise(lambda x: np.clip(x, -1, 1), lambda x: np.float64((x > -1) & (x < 1))),
    "threshold": elementwise(lambda x: np.where(x > 0.6, x, 0.2), lambda x: np.float64(x > 0.6)),
    "softshrink": elementwise(lambda x: x - np.clip(x, -0.5, 0.5), lambda x: np.float64(abs(x) > 0.5)),
    "modulus": elementwise(lambda x: np.remainder(x, 0.7), np.ones_like),
    "rmod": elementwise(lambda x: np.remainder(0.7, x * x + 1), np.zeros_like),
}
BINARY = {
    "mul": lambda a, b: (a.value * b.value, a.slope * b.value + a.value * b.slope),
    "add": lambda a, b: (a.value + b.value, a.slope + b.slope),
    "sub": lambda a, b: (a.value - b.value, a.slope - b.slope),
    "div": lambda a, b: (
        a.value / (b.value**2 + 1),
        a.slope / (b.value**2 + 1) - 2 * a.value * b.value * b.slope / (b.value**2 + 1) ** 2,
    ),
    "lerp": lambda a, b: (a.value + 0.3 * (b.value - a.value), a.slope + 0.3 * (b.slope - a.slope)),
    "fmod": lambda a, b: (
        np.fmod(a.value, b.value**2 + 0.5),
        a.slope - np.trunc(a.value / (b.value**2 + 0.5)) * 2 * b.value * b.slope,
    ),
    "addcmul": lambda a, b: (a.value + 0.5 * b.value**2, a.slope + b.value * b.slope),
    "prelu": lambda a, b: (
        np.where(a.value > 0, a.value, b.value.reshape(-1)[0] * a.value),
        np.where(a.value > 0, a.slope, b.value.reshape(-1)[0] * a.slope + b.slope.reshape(-1)[0] * a.value),
    ),
}
