"""Arguments of operations on windows (kernel sizes, strides, paddings) and the resulting sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradcore.ops.declare.annotations import Steps
from gradcore.ops.declare.table import composite

__all__ = ["DIMS", "check_convolution_setting", "check_pooling_setting", "declare_for_dims", "each", "spatial"]


def each(value: Steps, n: int) -> tuple[int, ...] | None:
    """Return `value` as a tuple of `n` numbers, or None if that is impossible."""
    if value.__class__ is int:  # checks of abstract classes take longer
        return (value,) * n
    if isinstance(value, Sequence):
        values = tuple(int(v) for v in value)
        return values * n if len(values) == 1 else values if len(values) == n else None
    return (int(value),) * n


_INT = {int}


def check_convolution_setting(name: str, value: Steps, n: int, lowest: int) -> tuple[int, ...]:
    """Return an argument of a convolution with `n` spatial dimensions.

    Raises
    ------
    RuntimeError
        If the argument does not have `n` elements, or has an element below `lowest`.
    """
    if value.__class__ is tuple and len(value) == n and {*map(type, value)} == _INT:  # the most common case
        values: tuple[int, ...] | None = value
    else:
        values = each(value, n)
    if values is None:
        raise RuntimeError(
            f"expected {name} to be a single integer value or a list of {n} values to match the convolution "
            f"dimensions, but got {name}={list(value)}"  # type: ignore[arg-type]
        )
    if values and min(values) < lowest:
        if name == "dilation":
            raise RuntimeError("dilation should be greater than zero")
        raise RuntimeError(f"{'non-positive' if lowest else 'negative'} {name} is not supported")
    return values


#: The number of spatial dimensions as a word, for docstrings.
DIMS = {1: "one dim", 2: "two dims", 3: "three dims"}
#: A function that declares operations for a number of spatial dimensions.
_Declare = Callable[[int], None]


def declare_for_dims(*numbers: int) -> Callable[[_Declare], _Declare]:
    """Call the decorated function, which declares operations, for each of these numbers of spatial dimensions."""

    def declare_all(declare: _Declare) -> _Declare:
        for n in numbers:
            declare(n)
        return declare

    return declare_all


def spatial(name: str, **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare the decorated body as the composite operation ``nn.functional.<name>``, and return the body.

    The name has the number of spatial dimensions in it. The body's docstring may contain ``{n}``, this number, and
    ``{dims}``, the number as a word.

    Parameters
    ----------
    name : str
    **options
        Further options of the declaration.
    """
    n = int("".join(filter(str.isdigit, name)))

    def declare(body: Callable[..., Any]) -> Callable[..., Any]:
        body.__doc__ = (body.__doc__ or "").format(n=n, dims=DIMS[n])
        composite(name=name, path=f"nn.functional.{name}", **options)(body)
        return body

    return declare


_WORDS = {1: "one int", 2: "two ints", 3: "three ints"}


def check_pooling_setting(function: str, name: str, value: Steps, n: int) -> tuple[int, ...]:
    """Return an argument of a pooling function with `n` spatial dimensions.

    Raises
    ------
    RuntimeError
        If the argument does not have `n` elements, or one is not a 32-bit integer. PyTorch raises as well.
    """
    values = each(value, n)
    if values is None:
        raise RuntimeError(f"{function}: {name} must either be a single int, or a tuple of {_WORDS[n]}")
    if not -0x80000000 <= min(values) <= max(values) <= 0x7FFFFFFF:
        raise RuntimeError(f"{function}: value cannot be converted to type int without overflow: {name}={list(values)}")
    return values
