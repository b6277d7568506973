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

    def __init__(self, numbers):
        self.numbers = numbers


@dataclass
class Slot:
    """A tensor: places in a memory of values and in one of derivatives.

    What `detach` gives has a tensor's values and derivatives of its own.
    """

    values: Memory
    slopes: Memory
    where: np.ndarray

    @property
    def value(self):
        return self.values.numbers[self.where]

    @property
    def slope(self):
        return self.slopes.numbers[self.where]

    @property
    def shape(self):
        return self.where.shape

    def view(self, change):
        """A view of the places that `change` chooses."""
        return Slot(self.values, self.slopes, np.asarray(change(self.where)))

    def detached(self):
        return Slot(self.values, Memory(np.zeros_like(self.slopes.numbers)), self.where)

    def write(self, value, slope, recorded=True):
        """Write to the places; without recording, derivatives stay those of what was there before."""
        for memory, numbers in ((self.values, value), (self.slopes, slope)):
            if memory is self.values or recorded:
                memory.numbers = memory.numbers.copy()
                memory.numbers[self.where] = numbers


def fresh(value, slope):
    """A tensor of its own memory."""
    value, slope = np.asarray(value), np.asarray(slope)
    slope = np.broadcast_to(slope, value.shape)
    where = np.arange(value.size).reshape(value.shape)
    return Slot(Memory(value.reshape(-1).copy()), Memory(slope.reshape(-1).copy()), where)


def elementwise(function, derivative):
    """The operation of one tensor that `function` computes, of which `derivative` is the derivative."""
    return lambda a: (function(a.value), derivative(a.value) * a.slope)


#: By name: value and slope of operations of two tensors of one shape (the second may be ignored).
UNARY = {
    "sin": elementwise(np.sin, np.cos),
    "tanh": elementwise(np.tanh, lambda x: 1 - np.tanh(x) ** 2),
    "exp": elementwise(lambda x: np.exp(np.minimum(x, 2)), lambda x: np.exp(x) * (x <= 2)),
    "square": elementwise(np.square, lambda x: 2 * x),
    "neg": elementwise(np.negative, lambda x: -np.ones_like(x)),
}
BINARY = {
    "mul": lambda a, b: (a.value * b.value, a.slope * b.value + a.value * b.slope),
    "add": lambda a, b: (a.value + b.value, a.slope + b.slope),
    "sub": lambda a, b: (a.value - b.value, a.slope - b.slope),
    "div": lambda a, b: (
        a.value / (b.value**2 + 1),
        a.slope / (b.value**2 + 1) - 2 * a.value * b.value * b.slope / (b.value**2 + 1) ** 2,
    ),
}
