"""Host calls: methods of optimizers, schedulers and gradient scalers that a program calls between its segments.

During a capture, these methods are replaced by functions that pass the call to the recorder. Reading any other
attribute of such an object ends the capture, because a program would not notice when the attribute changes.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Sequence
from typing import Any

from gradcore.amp.scaling import GradScaler
from gradcore.compiler.capture.arrays import current
from gradcore.compiler.capture.reasons import Code
from gradcore.compiler.capture.trusted import is_library, is_library_class
from gradcore.optim import optimizer
from gradcore.optim.lr_scheduler.base import LRScheduler
from gradcore.optim.optimizer import Optimizer

__all__ = ["HOST_CLASSES", "can_be_observed", "end_observation", "host_codes", "late_bound", "methods_of", "observe",
           "runs_user_code"]  # fmt: skip

#: The methods that a program calls between segments, and those that are captured, unless a subclass overrides them.
_METHODS: dict[Any, tuple[tuple[str, ...], tuple[str, ...]]] = {
    Optimizer: (("step",), ("zero_grad",)), LRScheduler: (("step",), ()),
    GradScaler: (("unscale_", "step", "update"), ("scale", "is_enabled")),
}  # fmt: skip
HOST_CLASSES = tuple(_METHODS)


def methods_of(cls: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return two tuples of method names of a host class: host calls, and methods that are captured."""
    base, (called, captured) = next(each for each in _METHODS.items() if issubclass(cls, each[0]))
    recorded = tuple(name for name in captured if getattr(cls, name) is getattr(base, name))
    return (*called, *(name for name in captured if name not in recorded)), recorded


#: Methods that subclasses may not override, because the recorder observes host objects through them.
_OBSERVING = ("__getattribute__", "__setattr__", "__delattr__")


def can_be_observed(cls: type) -> bool:
    """Return whether the recorder can observe objects of a class: the class does not override attribute access."""
    classes = [each for each in cls.__mro__ if each not in (object, *HOST_CLASSES)]
    return not any(name in vars(each) for each in classes for name in _OBSERVING)


def observe(hosts: Sequence[Any], every: bool) -> None:
    """Report attribute access on `hosts`, or on `every` host object, to the recorder, without changing their class.

    During the capture, their base class gets methods for attribute access. In other threads and for other objects,
    these methods behave as the original ones.
    """
    observed = {id(host) for host in hosts}

    def is_observed(self: Any) -> bool:
        recorder = current.recorder
        return recorder is not None and (every or id(self) in observed)

    def __getattribute__(self: Any, name: str) -> Any:
        if not is_observed(self) or name == "__class__" or current.recorder.within_library:
            return object.__getattribute__(self, name)
        recorder, kind = current.recorder, type(self)
        host_methods, captured_methods = methods_of(kind)
        if name in host_methods:
            return functools.partial(recorder.host_call, self, name)
        if name in captured_methods:
            return lambda *args, **kwargs: recorder.within(self, name, args, kwargs)
        recorder.stop(Code.OPTIMIZER, f"{name} of {type(self).__name__} is used")
        return object.__getattribute__(self, name)

    def report(plain: Any, change: str) -> Any:
        def method(self: Any, name: str, *value: Any) -> None:
            if is_observed(self):
                current.recorder.stop(Code.OPTIMIZER, f"{name} of {type(self).__name__} is {change}")
            plain(self, name, *value)

        return method

    methods = __getattribute__, report(object.__setattr__, "set"), report(object.__delattr__, "deleted")
    for base in HOST_CLASSES if hosts or every else ():
        for name, method in zip(_OBSERVING, methods, strict=True):
            setattr(base, name, method)


def end_observation() -> None:
    """Remove the methods that `observe` has added."""
    for base in HOST_CLASSES:
        for name in _OBSERVING:
            if name in vars(base):
                delattr(base, name)


def late_bound(function: Any) -> Any:
    """Return `function`, or for a bound method of a host object, a function that looks up the method in each call."""
    if isinstance(function, types.MethodType) and isinstance(function.__self__, HOST_CLASSES):
        return lambda *args, **kwargs: getattr(function.__self__, function.__name__)(*args, **kwargs)
    return function


def runs_user_code(host: Any) -> bool:
    """Return whether a host call may run user code: a subclass's method, a hook, or a scheduler's lambda."""
    tables: list[Any] = [optimizer._global_pre_hooks, optimizer._global_post_hooks]
    waiting, seen = [host], set[int]()
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, HOST_CLASSES):
            if not is_library_class(type(each)):
                return True
            attributes = object.__getattribute__(each, "__dict__")
            tables += attributes.get("_hooks", {}).values()
            waiting += attributes.values()
        elif isinstance(each, (list, tuple)):
            waiting += each
        elif callable(each) and not is_library(getattr(each, "__globals__", {})):
            return True
    return any(tables)


@functools.cache
def host_codes() -> frozenset[types.CodeType]:
    """Return the code of the library's host calls."""
    classes, result = [*HOST_CLASSES], set[types.CodeType]()
    while classes:
        cls = classes.pop()
        classes += cls.__subclasses__()
        if is_library_class(cls):
            result |= {getattr(cls, name).__code__ for name in methods_of(cls)[0]}
    return frozenset(result)
