"""Context managers and decorators that switch recording on and off.

Python delivers an interrupt (Ctrl-C) at calls. So ``__enter__`` changes the state of the thread last and without a
call: an interrupt then arrives either before the change, or inside the ``with`` block, whose end restores the state.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from gradcore.autograd import variables
from gradcore.autograd.modes import GRAD, GRAD_REQUESTED, INFERENCE, local, recording, set_recording
from gradcore.autograd.variables import Variable, version_counter
from gradcore.core.errors import warn

__all__ = [
    "enable_grad",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "is_multithreading_enabled",
    "no_grad",
    "set_grad_enabled",
    "set_multithreading_enabled",
]

C = TypeVar("C", bound=Callable[..., Any])


def is_grad_enabled() -> bool:
    """Return whether operations are recorded in this thread.

    Examples
    --------
    >>> import gradcore as gc
    >>> with gc.no_grad():
    ...     print(gc.is_grad_enabled())
    False
    """
    return recording()


def is_inference_mode_enabled() -> bool:
    """Return whether this thread is in inference mode.

    Examples
    --------
    >>> import gradcore as gc
    >>> with gc.inference_mode():
    ...     print(gc.is_inference_mode_enabled())
    True
    """
    return bool(local.state.mode & INFERENCE)


class _DecoratorContextManager:
    """Base class of context managers that also decorate functions, generators and classes."""

    def clone(self) -> _DecoratorContextManager:
        """Return a new manager with the same settings, for one more use."""
        return type(self)()

    def __call__(self, function: C) -> C:
        if inspect.isclass(function):
            warn(
                "Decorating classes is deprecated and will be disabled in future versions. You should only decorate "
                "functions or methods. To preserve the current behavior of class decoration, you can directly decorate "
                "the `__init__` method and nothing else.",
                FutureWarning,
            )
        if inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def generator(*args: Any, **kwargs: Any) -> Any:
                source = function(*args, **kwargs)
                with self.clone():  # between two steps of the generator, the caller's code runs in the caller's mode
                    try:
                        value = next(source)
                    except StopIteration as stop:
                        return stop.value
                while True:
                    try:
                        sent = yield value
                    except GeneratorExit:
                        with self.clone():
                            source.close()
                        raise
                    except BaseException as error:
                        with self.clone():
                            try:
                                value = source.throw(error)
                            except StopIteration as stop:
                                return stop.value
                    else:
                        with self.clone():
                            try:
                                value = source.send(sent)
                            except StopIteration as stop:
                                return stop.value

            return generator  # type: ignore[return-value]

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return function(*args, **kwargs)

        return wrapper  # type: ignore[return-value]

    def __enter__(self) -> None: ...

    def __exit__(self, *exc: object) -> None: ...


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """Base class of context managers without settings: ``@no_grad`` decorates as ``@no_grad()`` does."""

    def __new__(cls, function: Any = None) -> Any:
        self = object.__new__(cls)
        self.__init__()  # type: ignore[misc]
        return self if function is None else self(function)


class no_grad(_NoParamDecoratorContextManager):
    """Context manager and decorator in which operations are not recorded.

    Examples
    --------
    >>> import gradcore
    >>> x = gradcore.ones(2, requires_grad=True)
    >>> with gradcore.no_grad():
    ...     (x * 2).requires_grad
    False
    """

    _on = False

    def __init__(self, function: Any = None) -> None:
        self._before: list[int] = []

    def __enter__(self) -> None:
        state = local.state
        mode = state.mode
        flag = GRAD_REQUESTED if mode & INFERENCE else GRAD
        self._before.append(mode & flag)
        state.mode = mode | flag if self._on else mode & ~flag

    def __exit__(self, *exc: object) -> None:
        state = local.state
        mode = state.mode
        state.mode = mode & ~(GRAD_REQUESTED if mode & INFERENCE else GRAD) | self._before[-1]
        del self._before[-1]


class enable_grad(no_grad):
    """Context manager and decorator in which operations are recorded, also within `no_grad`.

    Examples
    --------
    >>> import gradcore as gc
    >>> x = gc.ones(1, requires_grad=True)
    >>> with gc.no_grad(), gc.enable_grad():
    ...     y = x * 2
    >>> y.requires_grad
    True
    """

    _on = True


class set_grad_enabled(_DecoratorContextManager):
    """Switch recording on or off, at once; as a context manager, switch back at the end.

    Parameters
    ----------
    mode : bool
        Whether operations are recorded.

    Examples
    --------
    >>> import gradcore as gc
    >>> x = gc.ones(1, requires_grad=True)
    >>> with gc.set_grad_enabled(False):
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    def __init__(self, mode: bool) -> None:
        self.mode = bool(mode)
        self._before = set_recording(self.mode)

    def clone(self) -> _DecoratorContextManager:
        return set_grad_enabled(self.mode)

    def __call__(self, function: C) -> C:
        set_recording(self._before)
        return super().__call__(function)

    def __enter__(self) -> None:
        set_recording(self.mode)

    def __exit__(self, *exc: object) -> None:
        state = local.state
        mode, flag = state.mode, GRAD_REQUESTED if state.mode & INFERENCE else GRAD
        state.mode = mode | flag if self._before else mode & ~flag

    def __repr__(self) -> str:
        return f"torch.autograd.grad_mode.set_grad_enabled(mode={self.mode})"


class inference_mode(_DecoratorContextManager):
    """Context manager and decorator without recording, whose results may never take part in recorded operations.

    Parameters
    ----------
    mode : bool
        Whether inference mode is on.

    Examples
    --------
    >>> import gradcore as gc
    >>> x = gc.ones(1, requires_grad=True)
    >>> with gc.inference_mode():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    def __new__(cls, mode: Any = True) -> Any:
        if callable(mode):
            return cls()(mode)
        return object.__new__(cls)

    def __init__(self, mode: Any = True) -> None:
        self.mode = bool(mode)
        self._before: list[int] = []

    def clone(self) -> _DecoratorContextManager:
        return inference_mode(self.mode)

    def __enter__(self) -> None:
        state = local.state
        self._before.append(state.mode & _ALL)
        if self.mode:
            variables.inference_used = True
        state.mode = state.mode & ~_ALL | (INFERENCE if self.mode else GRAD)

    def __exit__(self, *exc: object) -> None:
        state = local.state
        state.mode = state.mode & ~_ALL | self._before[-1]
        del self._before[-1]


_ALL = GRAD | INFERENCE | GRAD_REQUESTED


class set_multithreading_enabled(_DecoratorContextManager):
    """Accepted for compatibility: backward runs in the thread that called it, whatever the mode.

    Parameters
    ----------
    mode : bool
        What `is_multithreading_enabled` says.

    Examples
    --------
    >>> import gradcore as gc
    >>> with gc.autograd.set_multithreading_enabled(False):
    ...     print(gc.autograd.is_multithreading_enabled())
    False
    """

    def __init__(self, mode: bool) -> None:
        self.mode = bool(mode)
        self._before = _Threads.wished
        _Threads.wished = self.mode

    def clone(self) -> _DecoratorContextManager:
        return set_multithreading_enabled(self.mode)

    def __call__(self, function: C) -> C:
        _Threads.wished = self._before
        return super().__call__(function)

    def __exit__(self, *exc: object) -> None:
        _Threads.wished = self._before


class _Threads:
    wished = True


def is_multithreading_enabled() -> bool:
    """Return the last setting of `set_multithreading_enabled`; by default True.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.autograd.is_multithreading_enabled()
    True
    """
    return _Threads.wished


class _unsafe_preserve_version_counter(_DecoratorContextManager):
    """Inside, writes to some tensors are hidden from autograd, which then cannot tell that saved values have changed.

    Parameters
    ----------
    tensors : Tensor or tuple of Tensor
    """

    def __init__(self, tensors: Any) -> None:
        self.tensors = (tensors,) if isinstance(tensors, Variable) else tuple(tensors)
        self._before: list[Any] = []

    def clone(self) -> _DecoratorContextManager:
        return _unsafe_preserve_version_counter(self.tensors)

    def __enter__(self) -> None:
        self._before = [version_counter(t).snapshot() for t in self.tensors]

    def __exit__(self, *exc: object) -> None:
        for t, before in zip(self.tensors, self._before, strict=True):
            version_counter(t).restore(before)
