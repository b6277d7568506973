"""Signatures of declarations, read from their code: `inspect` takes ten times as long, and there are a thousand."""

from __future__ import annotations

from collections.abc import Callable
from inspect import CO_VARARGS
from inspect import Parameter as InspectParameter
from typing import Any, ClassVar

__all__ = ["Parameter", "parameters_of"]


class Parameter:
    """One parameter of a declaration: the part of `inspect.Parameter` that is used here."""

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


def parameters_of(function: Callable[..., Any]) -> list[Parameter]:
    """The parameters of a function (or those in its attribute ``__signature__``, a list)."""
    given = getattr(function, "__signature__", None)
    if given is not None:
        return list(given)
    code = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    defaults, annotations = function.__defaults__ or (), function.__annotations__
    optional, named = code.co_argcount - len(defaults), function.__kwdefaults__ or {}
    found = []
    for i, name in enumerate(names):
        if i >= code.co_argcount:
            default, kind = named.get(name, Parameter.empty), Parameter.KEYWORD_ONLY
        else:
            default = defaults[i - optional] if i >= optional else Parameter.empty
            kind = Parameter.POSITIONAL_OR_KEYWORD
        found.append(Parameter(name, default, annotations.get(name, Parameter.empty), kind))
    if code.co_flags & CO_VARARGS:
        name = code.co_varnames[len(names)]
        annotation = annotations.get(name, Parameter.empty)
        found.insert(code.co_argcount, Parameter(name, Parameter.empty, annotation, Parameter.VAR_POSITIONAL))
    return found
