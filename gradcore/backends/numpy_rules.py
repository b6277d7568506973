"""Registries of rules for NumPy's functions on arrays that are not NumPy's, for the meta device and ``vmap``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np

__all__ = ["RuleTable", "as_shape", "expand_ellipsis", "new_axes_key", "numpy_functions", "permuted_axes"]

R = TypeVar("R", bound=Callable[..., Any])


class RuleTable(dict[Any, Callable[..., Any]]):
    """A table from NumPy's functions to rules, which ``__array_function__`` calls instead."""

    def register(self, names: str) -> Callable[[R], R]:
        """Register the decorated function as the rule of the functions of these names."""

        def decorate(rule: R) -> R:
            self.update(dict.fromkeys(numpy_functions(names), rule))
            return rule

        return decorate

    def register_each(self, names: str, make_rule: Callable[[Any], Callable[..., Any]]) -> None:
        """Register, for each of the functions of these names, the rule that `make_rule` returns for it."""
        self.update((function, make_rule(function)) for function in numpy_functions(names))


def numpy_functions(names: str) -> Iterator[Any]:
    """Return NumPy's functions of these names that the installed NumPy has."""
    for name in names.split():
        function: Any = np
        for part in name.split("."):
            function = getattr(function, part, None)
        if function is not None:
            yield function


def as_shape(shape: Any) -> tuple[int, ...]:
    """Return a shape given as an int or a sequence of ints."""
    return (shape.__index__(),) if hasattr(shape, "__index__") else tuple(n.__index__() for n in shape)


def permuted_axes(function: Any, ndim: int, *args: Any, **kwargs: Any) -> tuple[int, ...]:
    """Return the order in which a function such as `numpy.moveaxis` puts the dims of an array."""
    # The sizes of an array without memory number its dims, so that the shape of the result shows their order.
    return function(np.empty(range(ndim)), *args, **kwargs).shape


def new_axes_key(ndim: int, axis: Any) -> tuple[Any, ...]:
    """Return the key that indexes an array of `ndim` dims as `numpy.expand_dims` does."""
    axes = as_shape(axis)
    axes = np.lib.array_utils.normalize_axis_tuple(axes, ndim + len(axes))
    return tuple(None if i in axes else slice(None) for i in range(ndim + len(axes)))


def expand_ellipsis(entries: list[Any], ndim: int) -> list[Any]:
    """Return the entries of a key with ``...`` replaced by full slices, so that there is one for every dim."""
    index_count = sum(entry is not None and entry is not ... for entry in entries)
    if index_count > ndim:
        raise IndexError(f"too many indices for array: array is {ndim}-dimensional, but {index_count} were indexed")
    rest = [slice(None)] * (ndim - index_count)
    at = next((i for i, entry in enumerate(entries) if entry is ...), None)
    return [*entries, *rest] if at is None else [*entries[:at], *rest, *entries[at + 1 :]]
