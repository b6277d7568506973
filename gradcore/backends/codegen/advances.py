"""The settings of an optimiser's step as a kernel, where the device counts the steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from gradcore.backends.codegen.expressions import Value, fresh

__all__ = ["Advance"]


class Advance:
    """``settings(F, options, numbers)``, which moves the numbers on by a step, as a formula.

    Parameters
    ----------
    settings : callable
    options : dict
        Of which floats and arrays are operands of the formula: other values of theirs need no other kernel.
    numbers : dict
        Arrays with an element for each parameter.
    dtype : dtype
        What settings that follow from arrays are stored in.

    Attributes
    ----------
    key : hashable
        What tells formulas apart.
    """

    def __init__(
        self, settings: Callable[..., dict[str, Any]], options: dict[str, Any], numbers: dict[str, Any], dtype: Any
    ) -> None:
        self._settings, self._dtype = settings, dtype
        self._stored = {name: values.dtype for name, values in numbers.items()}
        #: Options by name, and the parts of tuples by name and place.
        self._fixed = {name: value for name, value in options.items() if name not in _NOT_OPTIONS}
        parts = list(_parts(self._fixed))
        self._operands = [label for label, value in parts if _varies(value)]
        kinds = tuple((label, value if isinstance(value, float) else repr(value)) for label, value in parts
                      if isinstance(value, float) or not _varies(value))  # fmt: skip
        self.key = getattr(settings, "__func__", settings), tuple(self._stored.items()), kinds, dtype
        #: The names of settings that follow from arrays, and the other settings: known when the formula was called.
        self._names: list[str] = []
        self._constants: dict[str, Any] = {}

    def operands(self, options: dict[str, Any], numbers: dict[str, Any]) -> list[tuple[str, Any]]:
        """The operands of the formula."""
        values = dict(_parts(options))
        return [*numbers.items(), *((_label(label), values[label]) for label in self._operands)]

    def formula(self, F: Any, *values: Any) -> list[Any]:
        """The new numbers, then the settings that follow from arrays."""
        numbers = dict(zip(self._stored, values, strict=False))
        given = dict(zip(self._operands, values[len(numbers) :], strict=True))
        options = {name: _with(name, value, given) for name, value in self._fixed.items()}
        found = self._settings(F, options, numbers)
        self._names = [name for name, value in found.items() if isinstance(value, Value)]
        self._constants = {
            name: float(value) if isinstance(value, float) else value
            for name, value in found.items()
            if name not in self._names
        }
        moved = [numbers[name].astype(dtype) for name, dtype in self._stored.items()]
        return [fresh(value) for value in (*moved, *(found[name].astype(self._dtype) for name in self._names))]

    def settings(self, results: Sequence[Any]) -> dict[str, Any]:
        """All settings, given the results of the formula after the numbers."""
        return {**self._constants, **dict(zip(self._names, results, strict=True))}


_NOT_OPTIONS = ("params", "param_names")


def _parts(options: dict[str, Any]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """The options, and the parts of those that are tuples, by name and place."""
    for name, option in options.items():
        if name in _NOT_OPTIONS:
            continue
        if isinstance(option, tuple):
            yield from (((name, i), part) for i, part in enumerate(option))
        else:
            yield (name,), option


def _label(label: tuple[Any, ...]) -> str:
    return "_".join(map(str, label))


def _varies(value: Any) -> bool:
    """Whether an option is an operand: a float, or an array."""
    return isinstance(value, float) or hasattr(value, "dtype")


def _with(name: str, option: Any, given: dict[Any, Any]) -> Any:
    """An option with what the formula was given in the place of floats and arrays."""
    if isinstance(option, tuple):
        return tuple(given.get((name, i), part) for i, part in enumerate(option))
    return given.get((name,), option)
