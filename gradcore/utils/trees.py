"""Nested containers (tuples, lists, dictionaries, named tuples) as a flat list of leaves and a structure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

__all__ = ["Structure", "flatten", "leaves", "map_leaves", "unflatten"]


class Structure(NamedTuple):
    """The containers of a tree without its leaves; ``kind`` is None for a leaf."""

    kind: type | None
    keys: tuple[Any, ...] = ()
    children: tuple[Structure, ...] = ()

    def __repr__(self) -> str:
        if self.kind is None:
            return "*"
        inner = ", ".join(map(repr, self.children))
        if issubclass(self.kind, dict):
            return "{" + ", ".join(f"{k!r}: {c!r}" for k, c in zip(self.keys, self.children, strict=True)) + "}"
        if self.kind is list:
            return f"[{inner}]"
        name = "" if self.kind is tuple else self.kind.__name__
        return f"{name}({inner}{',' if len(self.children) == 1 and not name else ''})"


_LEAF = Structure(None)


def flatten(tree: Any) -> tuple[list[Any], Structure]:
    """The leaves of `tree`, from left to right, and its structure.

    Examples
    --------
    >>> flatten({"a": 1, "b": (2, [3])})
    ([1, 2, 3], {'a': *, 'b': (*, [*])})
    """
    found: list[Any] = []
    return found, _collect(tree, found)


def _collect(tree: Any, found: list[Any]) -> Structure:
    kind = type(tree)
    if kind in (dict, OrderedDict):
        return Structure(kind, tuple(tree), tuple(_collect(child, found) for child in tree.values()))
    if kind in (tuple, list) or (isinstance(tree, tuple) and hasattr(kind, "_fields")):
        return Structure(kind, (), tuple(_collect(child, found) for child in tree))
    found.append(tree)
    return _LEAF


def unflatten(leaves: Sequence[Any], structure: Structure) -> Any:
    """The tree of that structure with these leaves."""
    return _build(iter(leaves), structure)


def _build(source: Iterator[Any], structure: Structure) -> Any:
    kind: Any = structure.kind
    if kind is None:
        return next(source)
    children = [_build(source, child) for child in structure.children]
    if issubclass(kind, dict):
        return kind(zip(structure.keys, children, strict=True))
    return kind(*children) if hasattr(kind, "_fields") else kind(children)


def leaves(tree: Any) -> list[Any]:
    """The leaves of `tree`, from left to right."""
    return flatten(tree)[0]


def map_leaves(function: Callable[[Any], Any], tree: Any) -> Any:
    """`tree` with `function` applied to every leaf."""
    found, structure = flatten(tree)
    return unflatten([function(leaf) for leaf in found], structure)
