"""Builder of generated Python functions: their lines, and the objects that the lines refer to by name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from gradcore.core.tracebacks import define

__all__ = ["Source", "names_assigned_in", "names_in_lines"]

_NAME = re.compile(r"(?<!['\w])[^\W\d]\w*(?!['\w])")  # keys of attributes are quoted
_ASSIGNED = re.compile(r"\b(\w+)(?:, \w+)*\]? :?= ")


class Source:
    """The scope of generated functions.

    Parameters
    ----------
    prefix : str
        The beginning of the names of objects.
    scope : dict
        Objects that have a name already.
    """

    def __init__(self, prefix: str, scope: dict[str, Any]) -> None:
        self.prefix, self.scope = prefix, scope
        #: The names of objects by id. The scope keeps them alive.
        self._names: dict[int, str] = {}

    def bind(self, value: Any) -> str:
        """Return the name of an object in the source."""
        name = self._names.get(id(value))
        if name is None:
            name = self._names[id(value)] = f"{self.prefix}{len(self._names)}"
            self.scope[name] = value
        return name

    def define(self, name: str, lines: Iterable[str]) -> Any:
        """Return the function `name` whose source is `lines`; tracebacks show them."""
        return define(__name__, name, lines, self.scope)


def names_in_lines(lines: Iterable[str]) -> list[str]:
    """Return the names in source lines, as often as they occur."""
    return _NAME.findall("\n".join(lines))


def names_assigned_in(lines: Iterable[str]) -> list[str]:
    """Return the names that source lines assign; of a list of names, the first."""
    return _ASSIGNED.findall("\n".join(lines))
