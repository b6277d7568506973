"""``torch.compile`` and what goes with it. Programs run as they are: compiling gives back what it was given.

Examples
--------
>>> import gradcore
>>> @gradcore.compile(mode="max-autotune")
... def double(x):
...     return 2 * x
>>> double(gradcore.ones(2))
tensor([2., 2.])
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, TypeVar

from gradcore import paths

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "cudagraph_mark_step_begin",
    "disable",
    "graph_break",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "list_backends",
    "mark_dynamic",
    "mark_static",
    "maybe_mark_dynamic",
    "nested_compile_region",
    "reset",
    "set_stance",
    "substitute_in_graph",
]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def compile(model: Any = None, **settings: Any) -> Any:
    """The model or function itself, see `gradcore.compiler`.

    Parameters
    ----------
    model : callable, optional
        Without one, a decorator is returned.
    **settings
        PyTorch's: ``fullgraph``, ``dynamic``, ``backend``, ``mode``, ``options``, ``disable``. They change nothing.

    Returns
    -------
    callable

    Raises
    ------
    TypeError
        For what cannot be called, and for other settings.
    """
    unknown = settings.keys() - {"backend", "disable", "dynamic", "fullgraph", "mode", "options"}
    if unknown:
        raise TypeError(f"compile() got an unexpected keyword argument {min(unknown)!r}")
    if model is None:
        return lambda given: compile(given, **settings)
    if not callable(model):
        raise TypeError(f"compile(): model must be a module or a function, not {type(model).__name__}")
    return model


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """The function itself, or a decorator that gives it back."""
    return _unchanged if fn is None else fn


def _unchanged(fn: _Function) -> _Function:
    """The function itself."""
    return fn


allow_in_graph = assume_constant_result = _unchanged


def nested_compile_region(fn: Any = None, **settings: Any) -> Any:
    """The function itself, or a decorator that gives it back."""
    return _unchanged if fn is None else fn


def substitute_in_graph(original_fn: Any, **settings: Any) -> Callable[[_Function], _Function]:
    """A decorator that gives back the function: `original_fn` is called where it is written."""
    return _unchanged


def is_compiling() -> bool:
    """False: nothing is ever compiled."""
    return False


is_dynamo_compiling = is_exporting = is_compiling


def list_backends(exclude_tags: Any = ()) -> list[str]:
    """The names of compilers: there are none."""
    return []


def reset() -> None:
    """Nothing: no compiled program is kept."""


def graph_break(msg: str = "") -> None:
    """Nothing: there is no compiled graph to end."""


def cudagraph_mark_step_begin() -> None:
    """Nothing: CUDA graphs are recorded by `gradcore.cuda.graph`, where a program says so."""


def mark_dynamic(t: Any, index: Any, **bounds: Any) -> None:
    """Nothing: sizes may change from call to call."""


maybe_mark_dynamic = mark_static = mark_dynamic


def set_stance(stance: str = "default", **settings: Any) -> contextlib.AbstractContextManager[None]:
    """A context that changes nothing."""
    return contextlib.nullcontext()


paths.show_public(__name__)
