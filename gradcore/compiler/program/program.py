"""The captured program: a flat list of calls on numbered values."""

from __future__ import annotations

import copy
import functools
import math
import operator
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from gradcore.core.size import contiguous_strides

__all__ = ["ArrayType", "Call", "Expression", "Literal", "Program", "Value", "last_uses", "leaves_in", "map_leaves",
           "substitute", "values_in"]  # fmt: skip


class Value(NamedTuple):
    """A value of a program, identified by its number."""

    number: int

    def __repr__(self) -> str:
        return f"v{self.number}"


class ArrayType(NamedTuple):
    """Static type of a value of a program.

    Attributes
    ----------
    shape : tuple of int
    dtype : dtype
    strides : tuple of int
        The strides in bytes.
    memory : int
        The number of the first value with this memory: its own number, unless the value is a view of another one.
    address : int
        The address of the first element in the captured run. Differences give the offsets of views. 0 if a call
        computes the value, which owns its memory, and no other value is a view of it.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...]
    memory: int
    address: int = 0

    def __repr__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def is_dense(self) -> bool:
        """Whether the elements lie in C order without gaps."""
        return self.strides == contiguous_strides(self.shape, self.dtype.itemsize)


class Literal(NamedTuple):
    """An array that is part of a program, by its number.

    The second field makes it unequal to the value of the same number, which is a tuple, too.
    """

    number: int
    is_literal: bool = True

    def __repr__(self) -> str:
        return f"array{self.number}"


class Expression(NamedTuple):
    """An argument that is computed from symbolic sizes.

    Attributes
    ----------
    text : str
        The Python expression, in names of symbols.
    numbers : tuple of int
        The value numbers of the symbols.
    """

    text: str
    numbers: tuple[int, ...]

    def __repr__(self) -> str:
        return self.text


class _Call(NamedTuple):
    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    named: dict[str, Any]
    results: Any


class Call(_Call):
    """A call of a function on values and settings.

    Attributes
    ----------
    name : str
        The kind and name of the function: ``kernels.mul``, ``backend.sum``, ``operator.add``, ``method.astype``.
    function : callable
    args, named
        The positional and keyword arguments, with `Value` and `Literal` in place of arrays.
    results : object
        The result, with `Value` in place of arrays: a value, a tuple or list of values, or None.
    """

    @functools.cached_property
    def read(self) -> tuple[int, ...]:
        """Return the numbers of the values among the arguments."""
        return tuple(values_in((self.args, self.named) if self.named else self.args))

    @functools.cached_property
    def outputs(self) -> tuple[int, ...]:
        """Return the numbers of the values among the results."""
        results = self.results
        return (results.number,) if type(results) is Value else tuple(values_in(results))

    @property
    def last_name(self) -> str:
        """The function's name without its kind."""
        return str(self.name.rpartition(".")[2])

    def __repr__(self) -> str:
        settings = [*map(repr, self.args), *(f"{name}={value!r}" for name, value in self.named.items())]
        call = f"{self.name}({', '.join(settings)})"
        return call if not self.outputs else f"{self.results!r} = {call}"


class Program:
    """Captured calls in order, with the values that are inputs and outputs.

    Attributes
    ----------
    inputs : list of int
        Numbers of the values that are passed to the program.
    calls : list of Call
    outputs : list of int
        Numbers of the values that are returned.
    literals : list of array
    scalars : set of int
        Values that NumPy functions return as scalars, and that tensors hold as 0-dim arrays.
    types : dict
        The `ArrayType` of each value that is an array.
    native : Program or None
        An equivalent program for targets other than Python.
    backend : Backend or None
        The backend of arrays on a device; None if all arrays are on the CPU.
    index : int or None
        The current CUDA device; None if calls use several devices, or none.
    symbols : dict
        The names of the values that are symbolic sizes, by number. `types` then holds the types in the captured call.
    """

    def __init__(self) -> None:
        self.native: Program | None = None
        self.inputs: list[int] = []
        self.calls: list[Call] = []
        self.outputs: list[int] = []
        self.literals: list[Any] = []
        self.scalars: set[int] = set()
        self.types: dict[int, ArrayType] = {}
        self.free: int | None = None
        self.backend: Any = None
        self.index: int | None = None
        self.symbols: dict[int, str] = {}

    def copy(self, calls: list[Call] | None = None) -> Program:
        """Return a program with the same values and the given calls, by default none."""
        program = copy.copy(self)
        program.inputs, program.outputs, program.calls = [*self.inputs], [*self.outputs], [] if calls is None else calls
        program.literals, program.scalars, program.types = [*self.literals], {*self.scalars}, {**self.types}
        program.free = self.first_free()
        return program

    def with_calls(self, calls: list[Call]) -> Program:
        """Return a program with the given calls: this one if they are its own, so that its analysis is not repeated."""
        same = len(calls) == len(self.calls) and all(map(operator.is_, calls, self.calls))
        return self if same else self.copy(calls)

    def new_value(self, type: ArrayType) -> Value:
        """Add a value with memory of its own, and return it; a 0-dim value is a NumPy scalar."""
        number = self.first_free()
        self.free = number + 1
        self.types[number] = type._replace(memory=number)
        if not type.shape and self.backend is None:
            self.scalars.add(number)
        return Value(number)

    def first_free(self) -> int:
        """Return the first unused value number."""
        if self.free is not None:
            return self.free
        return 1 + max([*self.types, *(n for call in self.calls for n in call.outputs)], default=-1)

    def new_literal(self, array: Any) -> Literal:
        """Add an array as a literal, and return it."""
        self.literals.append(array)
        return Literal(len(self.literals) - 1)

    def type_of(self, leaf: Any) -> ArrayType | None:
        """Return the type of an argument, or None if it is no array."""
        if type(leaf) is Value:
            return self.types.get(leaf.number)
        if type(leaf) is Literal:
            array = self.literals[leaf.number]
            return ArrayType(array.shape, array.dtype, array.strides, -1)
        return None

    def name_of(self, number: int) -> str:
        """Return the name of a value."""
        return self.symbols.get(number) or f"v{number}"

    def __repr__(self) -> str:
        lines = [f"inputs: {', '.join(map(self.name_of, self.inputs))}", *map(repr, self.calls)]
        return "\n".join([*lines, f"outputs: {', '.join(f'v{n}' for n in self.outputs)}"])


def last_uses(calls: Iterable[Call], names: Callable[[int], int] = int) -> dict[int, int]:
    """Return the position of the last call that reads or computes each value; `names` may map values to memories."""
    return {names(n): i for i, call in enumerate(calls) for n in (*call.outputs, *call.read)}


def map_leaves(function: Callable[[Any], Any], value: Any) -> Any:
    """Return `value` with `function` applied to each leaf: everything except tuples, lists, dicts and slices."""
    kind = type(value)
    if kind is tuple or kind is list:
        return kind([function(each) if type(each) in _LEAVES else map_leaves(function, each) for each in value])
    if kind in _LEAVES:
        return function(value)
    if kind is dict:
        return {key: map_leaves(function, each) for key, each in value.items()}
    if kind is slice:
        return slice(*(map_leaves(function, each) for each in (value.start, value.stop, value.step)))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return kind(*(map_leaves(function, each) for each in value))
    return function(value)


def leaves_in(value: Any, kinds: tuple[type, ...] = (object,)) -> list[Any]:
    """Return the leaves of a value, see `map_leaves`, that are of certain types."""
    leaves: list[Any] = []
    map_leaves(leaves.append, value)
    return [leaf for leaf in leaves if isinstance(leaf, kinds)]


def substitute(call: Call, values: dict[int, Any]) -> Call:
    """Return `call` with arguments replaced by `values`, a dict from value numbers to arguments."""
    if not values or values.keys().isdisjoint(call.read):
        return call

    def other(leaf: Any) -> Any:
        return values.get(leaf.number, leaf) if type(leaf) is Value else leaf

    return call._replace(args=map_leaves(other, call.args), named=map_leaves(other, call.named))


def values_in(value: Any) -> list[int]:
    """Return the numbers of the values in an argument or a result."""
    leaves = leaves_in(value, (Value, Expression))
    return [n for leaf in leaves for n in (leaf if type(leaf) is Value else leaf.numbers)]


#: Frequent types of leaves, see `map_leaves`.
_LEAVES = frozenset([bool, int, float, str, type(None), Literal, Value, Expression])
