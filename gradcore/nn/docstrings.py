"""Docstrings of module classes that are generated from tables and in loops."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator

from gradcore.nn import functional
from gradcore.nn.examples import EXAMPLES

__all__ = ["Docstring"]

_SECTION = re.compile(r"^(\w+)\n-{3,}\n", re.MULTILINE)


class Docstring:
    """A class docstring with an example, which is assembled when it is read.

    Parameters
    ----------
    text : str
        The summary, and sections that are not generated.
    function : str
        The function of `gradcore.nn.functional` that the module calls: its summary comes first, and `settings` are
        described as there.
    settings : iterable of str
        The function's parameters that are settings of the module.
    """

    __slots__ = ("function", "settings", "text")

    def __init__(self, text: str, function: str = "", settings: Iterable[str] = ()) -> None:
        self.text, self.function, self.settings = text, function, frozenset(settings)

    def __get__(self, instance: object, owner: type) -> str:
        parts = [inspect.cleandoc(self.text)]
        if self.function:
            summary, *sections = _SECTION.split(inspect.getdoc(getattr(functional, self.function)) or "")
            parameters = dict(zip(sections[::2], sections[1::2], strict=True)).get("Parameters", "")
            parameter_lines = "".join(_describe(parameters, self.settings))
            parts = [summary.strip(), *parts, f"Parameters\n----------\n{parameter_lines}" if parameter_lines else ""]
        if owner.__name__ in EXAMPLES:
            parts.append(f"Examples\n--------\n>>> import gradcore as gc\n{EXAMPLES[owner.__name__]}")
        return "\n\n".join(part.strip() for part in parts if part) + "\n"


def _describe(parameters: str, names: frozenset[str]) -> Iterator[str]:
    """Yield the entries of a parameters section that describe `names`."""
    for entry in re.split(r"^(?=\S)", parameters, flags=re.MULTILINE):
        if names.intersection(re.split(r",\s*", entry.partition(" :")[0])):
            yield entry
