"""Docstrings for functions that are defined in loops, composed from the entries in `examples`."""

from __future__ import annotations

from collections.abc import Mapping

from gradcore.numpy.documentation import compose, read_entries

__all__ = ["describe"]


def describe(module: str, namespace: Mapping[str, object], text: str) -> None:
    """Set the docstrings of the functions in `namespace`, which mirrors a SciPy `module`, from a text of entries."""
    for name, (arguments, entry) in read_entries(text).items():
        summary, _, example = entry.partition("\n")
        imports = f"from gradcore.scipy import {module.removeprefix('scipy.')}"
        if "gc." in example:
            imports = f"import gradcore as gc\n>>> {imports}"
        namespace[name].__doc__ = compose(summary, f"{module}.{name}", arguments, example, imports, {})
