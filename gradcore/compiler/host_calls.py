"""Host calls: methods of optimisers, schedulers and gradient scalers that a program calls between its parts.

While a function is recorded, such objects are of a subclass of their class, which hands calls of these methods to the
recorder. Whatever else the function reads of them ends the recording, as a program does not see how it changes.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from gradcore.amp.scaling import GradScaler
from gradcore.compiler.arrays import current
from gradcore.compiler.scopes import is_library, namespace_of
from gradcore.optim import optimizer
from gradcore.optim.lr_scheduler.base import LRScheduler
from gradcore.optim.optimizer import Optimizer

__all__ = ["HOST_CLASSES", "host_codes", "looked_up", "recorded_methods", "runs_user_code", "watched", "watched_class"]

#: The methods that are called as they are.
_CALLED = {Optimizer: ("step",), LRScheduler: ("step",), GradScaler: ("unscale_", "step", "update")}
#: The methods that are recorded, unless a subclass has its own.
_RECORDED = {Optimizer: ("zero_grad",), LRScheduler: (), GradScaler: ("scale", "is_enabled")}
HOST_CLASSES = tuple(_CALLED)


def _names(table: dict[Any, tuple[str, ...]], cls: type) -> tuple[str, ...]:
    return next(names for base, names in table.items() if issubclass(cls, base))


def recorded_methods(cls: type) -> tuple[str, ...]:
    """The methods of a class of host objects that are recorded as other functions are."""
    base = next(base for base in HOST_CLASSES if issubclass(cls, base))
    return tuple(name for name in _names(_RECORDED, cls) if getattr(cls, name) is getattr(base, name))


@functools.cache
def watched_class(cls: Any) -> Any:
    """The subclass whose instances tell the recorder what is done with them."""
    recorded = recorded_methods(cls)
    called = {*_names(_CALLED, cls), *_names(_RECORDED, cls)} - {*recorded}

    def __getattribute__(self: Any, name: str) -> Any:
        recorder = current.recorder
        if recorder is None or recorder.within_library or name == "__class__":
            return cls.__getattribute__(self, name)
        if name in called:
            return functools.partial(recorder.host_call, self, name)
        if name in recorded:
            return lambda *args, **named: recorder.within(self, name, args, named)
        recorder.stop(f"{name} of {cls.__name__} is used")
        return cls.__getattribute__(self, name)

    def __setattr__(self: Any, name: str, value: Any) -> None:
        if current.recorder is not None:
            current.recorder.stop(f"{name} of {cls.__name__} is set")
        cls.__setattr__(self, name, value)

    members = {"__getattribute__": __getattribute__, "__setattr__": __setattr__, "__module__": cls.__module__}
    return type(cls.__name__, (cls,), {**members, "__qualname__": cls.__qualname__})


@contextmanager
def watched(hosts: Sequence[Any], on: bool = True) -> Iterator[None]:
    """Context in which host objects tell the recorder what is done with them; or, within it, do not."""
    before: list[Any] = [type(host) for host in hosts]
    for host, cls in zip(hosts, before, strict=True):
        object.__setattr__(host, "__class__", watched_class(cls) if on else cls.__bases__[0])
    try:
        yield
    finally:
        for host, cls in zip(hosts, before, strict=True):
            object.__setattr__(host, "__class__", cls)


def looked_up(function: Any) -> Any:
    """A function; of a bound method of a host object, one that looks the method up in each call."""
    if isinstance(function, types.MethodType) and isinstance(function.__self__, HOST_CLASSES):
        return lambda *args, **named: getattr(function.__self__, function.__name__)(*args, **named)
    return function


def runs_user_code(host: Any) -> bool:
    """Whether a host call may run functions of the user's: of a class of theirs, hooks, or a scheduler's lambdas."""
    tables: list[Any] = [optimizer._global_pre_hooks, optimizer._global_post_hooks]
    waiting, seen = [host], set[int]()
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, HOST_CLASSES):
            if not is_library(namespace_of(type(each))):
                return True
            own = object.__getattribute__(each, "__dict__")
            tables += own.get("_hooks", {}).values()
            waiting += own.values()
        elif isinstance(each, (list, tuple)):
            waiting += each
        elif callable(each) and not is_library(getattr(each, "__globals__", {})):
            return True
    return any(tables)


@functools.cache
def host_codes() -> frozenset[types.CodeType]:
    """The code of the library's host calls."""
    classes, found = [*HOST_CLASSES], set[types.CodeType]()
    while classes:
        cls = classes.pop()
        classes += cls.__subclasses__()
        if is_library(namespace_of(cls)):
            found |= {getattr(cls, name).__code__ for name in _names(_CALLED, cls)}
    return frozenset(found)
