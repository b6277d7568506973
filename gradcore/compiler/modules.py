"""Modules whose calls are compiled."""

from __future__ import annotations

import functools
from typing import Any

from gradcore.compiler.compiled import CompiledFunction

__all__ = ["compiled_module"]


def compiled_module(
    module: Any, fullgraph: bool, cpp: str | None = None, dynamic: bool | None = None, graphs: str | None = None
) -> Any:
    """A module with the attributes of another one, parameters and buffers included, whose calls are compiled."""
    if isinstance(module, _Compiled):
        return module
    other: Any = object.__new__(_class_of(module.__class__))
    object.__setattr__(other, "__dict__", vars(module))
    _Compiled._orig_mod.__set__(other, module)  # type: ignore[attr-defined]
    compiled = CompiledFunction(module, fullgraph, cpp, dynamic, graphs)
    _Compiled._compiled_call_impl.__set__(other, compiled)  # type: ignore[attr-defined]
    return other


class _Compiled:
    """What compiled modules have beside the attributes that they share."""

    __slots__ = ("_compiled_call_impl", "_orig_mod")

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self._compiled_call_impl(*args, **named)  # type: ignore[attr-defined]

    def __reduce_ex__(self, protocol: Any) -> Any:
        settings = self._compiled_call_impl  # type: ignore[attr-defined]
        own = settings._fullgraph, settings._cpp, settings._dynamic, settings._graphs
        return compiled_module, (self._orig_mod, *own)  # type: ignore[attr-defined]


@functools.cache
def _class_of(cls: Any) -> Any:
    return type(cls.__name__, (_Compiled, cls), {"__module__": cls.__module__, "__doc__": cls.__doc__})
