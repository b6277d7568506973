"""Signatures of declarations, read from their code objects.

`inspect` takes ten times as long, which matters at import for a thousand declarations.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import CO_VARARGS
from inspect import Parameter as InspectParameter
from typing import Any, ClassVar

__all__ = ["Parameter", "names_of", "parameters_of"]


class Parameter:
    """A parameter of a declaration, with the attributes of `inspect.Parameter` that are used here."""

    __slots__ = ("annotation", "default", "kind", "name")

    empty: ClassVar[Any] = InspectParameter.empty
    KEYWORD_ONLY: ClassVar[Any] = InspectParameter.KEYWORD_ONLY
    VAR_POSITIONAL: ClassVar[Any] = InspectParameter.VAR_POSITIONAL
    POSITIONAL_OR_KEYWORD: ClassVar[Any] = InspectParameter.POSITIONAL_OR_KEYWORD

    def __init__(
        self, name: str, default: Any = empty, annotation: Any = empty, kind: Any = POSITIONAL_OR_KEYWORD
    ) -> None:
        self.name, self.default, self.annotation, self.kind = name, default, annotation, kind

    def __repr__(self) -> str:
        return f"Parameter({self.name!r})"


def names_of(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of a function's parameters (or of those in its attribute ``__signature__``, a list)."""
    signature = getattr(function, "__signature__", None)
    if signature is not None:
        return tuple(p.name for p in signature)
    code = function.__code__
    first, last = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    names = code.co_varnames
    if code.co_flags & CO_VARARGS:
        return (*names[:first], names[last], *names[first:last])
    return names[:last]


def parameters_of(function: Callable[..., Any]) -> list[Parameter]:
    """Return the parameters of a function (or those in its attribute ``__signature__``, a list)."""
    signature = getattr(function, "__signature__", None)
    if signature is not None:
        return list(signature)
    code = function.__code__
    annotations, keyword_defaults = function.__annotations__, function.__kwdefaults__ or {}
    positional, values = code.co_varnames[: code.co_argcount], function.__defaults__ or ()
    defaults = dict(zip(positional[len(positional) - len(values) :], values, strict=True))
    results = []
    for i, name in enumerate(names_of(function)):
        default, kind = defaults.get(name, Parameter.empty), Parameter.POSITIONAL_OR_KEYWORD
        if i >= len(positional):
            default, kind = keyword_defaults.get(name, Parameter.empty), Parameter.KEYWORD_ONLY
            if i == len(positional) and code.co_flags & CO_VARARGS:
                default, kind = Parameter.empty, Parameter.VAR_POSITIONAL
        results.append(Parameter(name, default, annotations.get(name, Parameter.empty), kind))
    return results
