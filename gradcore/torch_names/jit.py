"""Names of ``torch.jit`` for programs that are scripted under PyTorch. In gradcore they run as Python.

Examples
--------
>>> import gradcore
>>> @gradcore.jit.script
... def double(x):
...     return 2 * x
>>> double(gradcore.ones(2))
tensor([2., 2.])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Optional, TypeVar, Union  # noqa: F401 (names of torch.jit.annotations)

from gradcore.nn.module import Module
from gradcore.torch_names import paths
from gradcore.torch_names.futures import Future

__all__ = [
    "Final",
    "Future",
    "ScriptFunction",
    "ScriptModule",
    "annotate",
    "export",
    "fork",
    "freeze",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "load",
    "optimize_for_inference",
    "save",
    "script",
    "script_if_tracing",
    "script_method",
    "trace",
    "trace_module",
    "unused",
    "wait",
]

#: Generic types of annotations, which programs import from ``torch.jit.annotations``.
Dict, List, Tuple = dict, list, tuple

_Given = TypeVar("_Given")
_is_instance = isinstance


class ScriptModule(Module):
    """Base class of modules that were written for TorchScript. In gradcore they are ordinary modules."""


class ScriptFunction:
    """Class of functions compiled by TorchScript, for ``isinstance``. It has no instances in gradcore."""


def script(obj: _Given, *args: Any, **settings: Any) -> _Given:
    """Return the function, class or module itself."""
    return obj


def trace(func: _Given, *args: Any, **settings: Any) -> _Given:
    """Return the function or module itself; it is not called."""
    return func


trace_module = optimize_for_inference = freeze = script


def _return_unchanged(fn: _Given) -> _Given:
    """Return `fn` itself: decorators of TorchScript change nothing."""
    return fn


export = interface = script_if_tracing = script_method = unused = _overload = _overload_method = _return_unchanged


def ignore(drop: Any = False, **settings: Any) -> Any:
    """Return the function itself, or a decorator that returns it."""
    return drop if callable(drop) else _return_unchanged


def annotate(the_type: Any, the_value: _Given) -> _Given:
    """Return the value."""
    return the_value


def isinstance(obj: Any, target_type: Any) -> bool:
    """Return whether an object is of a type, or of one of several; with ``list[int]`` also check its elements."""
    if _is_instance(target_type, tuple):
        return any(isinstance(obj, each) for each in target_type)
    inner: Any
    origin, inner = getattr(target_type, "__origin__", None), getattr(target_type, "__args__", ())
    if origin is None:
        return _is_instance(obj, target_type)
    if not _is_instance(obj, origin):
        return False
    if origin is dict:
        return all(isinstance(k, inner[0]) and isinstance(v, inner[1]) for k, v in obj.items())
    if origin is tuple:
        return len(obj) == len(inner) and all(map(isinstance, obj, inner))
    return all(isinstance(each, inner[0]) for each in obj)


def is_scripting() -> bool:
    """Return False: programs are Python."""
    return False


is_tracing = is_scripting


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
    """Return the result of a call as a future; the call is made at once."""
    future: Future[Any] = Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future: Future[Any]) -> Any:
    """Return the result of a future."""
    return future.wait()


def save(m: Any, f: Any, **settings: Any) -> None:
    """Raise an error: gradcore cannot write programs to files; `gradcore.save` writes the state of a module."""
    raise RuntimeError("torch.jit.save: gradcore cannot write programs; use torch.save(module.state_dict(), file)")


def load(f: Any, **settings: Any) -> Any:
    """Raise an error: gradcore cannot read programs from files; `gradcore.load` reads the state of a module."""
    raise RuntimeError("torch.jit.load: gradcore cannot run TorchScript; load a state_dict with torch.load(file)")


__getattr__ = paths.further(__name__)

paths.show_public(__name__)
