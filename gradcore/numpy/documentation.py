"""Docstrings of functions that mirror NumPy or SciPy: summary, differentiable arguments and an example."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["compose", "describe", "read_entries", "summarize"]

#: Arrays that examples may use, with their definitions. An example defines those that it uses.
ARRAYS = {
    "x": "np.array([1.0, 2.0, 3.0])",
    "m": "np.array([[1.0, 2.0], [3.0, 4.0]])",
    "y": "np.array([3.0, 2.0, 1.0])",
}


def read_entries(text: str) -> dict[str, tuple[str, str]]:
    """Return the differentiable arguments and the example of each function, from a text of entries.

    An entry begins with a line ``name | arguments``. Entries are separated by empty lines.
    """
    entries = {}
    for entry in text.strip().split("\n\n"):
        first, _, example = entry.partition("\n")
        name, _, arguments = first.partition(" | ")
        entries[name] = arguments, example
    return entries


def summarize(original: Any) -> str:
    """Return the first paragraph of the docstring of `original`, without the signature in those of C functions."""
    for paragraph in (inspect.getdoc(original) or "").split("\n\n"):
        text = " ".join(paragraph.split())
        if text and not re.match(rf"{original.__name__}\(", text):
            return text
    return f"Compute `{original.__name__}` of tensors."  # under -OO there are no docstrings


def compose(
    summary: str, path: str, arguments: str, example: str, imports: str, arrays: Mapping[str, str] = ARRAYS
) -> str:
    """Compose a docstring in NumPy's style.

    Parameters
    ----------
    summary : str
        The first line.
    path : str
        The path of the function of NumPy or SciPy with the same signature, such as ``numpy.linalg.inv``.
    arguments : str
        The names of the differentiable arguments, separated by commas; ``a step function`` if the gradient is zero, and
        ``no derivative`` if there is none.
    example : str
        Lines of a session, with prompts.
    imports : str
        The import statements of the example.
    arrays : mapping
        Definitions of the names that the example may use.
    """
    code = "\n".join(line for line in example.splitlines() if line.startswith(">>> "))
    lines = [
        summary,
        "",
        f"The arguments are those of `{path}`. {_describe_derivative(arguments)}",
        "",
        "Examples",
        "--------",
        f">>> {imports}",
        *(
            f">>> {name} = {array}"
            for name, array in arrays.items()
            if re.search(rf"(?<![\w.\"]){name}\b(?!=[^=])", code)
        ),
        example,
    ]
    return "\n".join(lines) + "\n"


def _describe_derivative(arguments: str) -> str:
    """Return the sentence that names the arguments with respect to which a result is differentiable."""
    if arguments == "no derivative":
        return "The result has no derivative."
    if arguments == "a step function":
        return "The result is a step function of the argument: the gradient is zero."
    *names, last = [f"`{name}`" for name in arguments.split(", ")]
    listed = f"{', '.join(names)} and {last}" if names else last
    return f"The result is differentiable with respect to {listed}."


def describe(functions: Mapping[str, Callable[..., Any]], numpy: Any, text: str) -> None:
    """Set the docstrings of `functions`, keyed by their paths in the module `numpy`, from a text of entries.

    NumPy 2.0 lacks some of the functions. Those that need NumPy's are missing in `functions`, too.
    """
    for path, (arguments, example) in read_entries(text).items():
        original = numpy
        for name in path.split("."):
            original = getattr(original, name, None)
        if original is None and path not in functions:
            continue
        summary = summarize(functions[path] if original is None else original)
        functions[path].__doc__ = compose(summary, f"numpy.{path}", arguments, example, "import gradcore.numpy as np")
