"""Sample inputs of operations: descriptions of arguments, from which the tests draw arrays."""

from __future__ import annotations

from typing import Any

from gradcore.core.typing import NamedTuple

__all__ = [
    "Bools",
    "Case",
    "Floats",
    "Ints",
    "Values",
    "bools",
    "case",
    "complexes",
    "constants",
    "floats",
    "ints",
    "values",
]


class Floats(NamedTuple):
    """Description of a differentiable tensor: its shape, and the range its elements are drawn from."""

    shape: tuple[int, ...]
    low: float | None = None
    high: float | None = None
    #: The name of a transformation that the test applies to the drawn values: for example ``"spd"`` makes matrices
    #: positive definite, and ``"distinct"`` makes elements distinct.
    form: str = ""


class Ints(NamedTuple):
    """Description of an int64 tensor with elements in ``[low, high)``."""

    shape: tuple[int, ...]
    low: int = 0
    high: int = 5


class Values(NamedTuple):
    """Description of a tensor with the given elements and dtype."""

    values: tuple[Any, ...]
    dtype: str


class Bools(NamedTuple):
    """Description of a bool tensor."""

    shape: tuple[int, ...]


class Case(NamedTuple):
    """Description of a call: its arguments, in which descriptions stand for tensors, and its settings."""

    args: tuple[Any, ...]
    settings: dict[str, Any]


def floats(*shape: int, low: float | None = None, high: float | None = None, form: str = "") -> Floats:
    """Describe a floating-point tensor; without bounds, those of the operation's `domain` hold.

    Examples
    --------
    >>> import gradcore as gc
    >>> from gradcore.ops.declare.samples import floats
    >>> floats(2, 3, low=0.0).shape
    (2, 3)
    """
    return Floats(shape, low, high, form)


def complexes(*shape: int, low: float | None = None, high: float | None = None) -> Floats:
    """Describe a complex tensor whose parts lie between the bounds."""
    return Floats(shape, low, high, "complex")


def constants(*shape: int, low: float | None = None, high: float | None = None) -> Floats:
    """Describe a floating-point tensor that is not differentiated, such as the weights of classes."""
    return Floats(shape, low, high, "constant")


def ints(*shape: int, low: int = 0, high: int = 5) -> Ints:
    """Describe an int64 tensor.

    Examples
    --------
    >>> import gradcore as gc
    >>> from gradcore.ops.declare.samples import ints
    >>> ints(2, 3, high=4).high
    4
    """
    return Ints(shape, low, high)


def bools(*shape: int) -> Bools:
    """Describe a bool tensor.

    Examples
    --------
    >>> import gradcore as gc
    >>> from gradcore.ops.declare.samples import bools
    >>> bools(2, 3).shape
    (2, 3)
    """
    return Bools(shape)


def case(*args: Any, **settings: Any) -> Case:
    """Describe one call of an operation.

    Examples
    --------
    >>> import gradcore as gc
    >>> from gradcore.ops.declare.samples import case, floats
    >>> case(floats(2, 3), dim=1).settings
    {'dim': 1}
    """
    return Case(args, settings)


def values(*numbers: Any, dtype: str) -> Values:
    """Describe a tensor with given elements, such as pivots or offsets."""
    return Values(numbers, dtype)
