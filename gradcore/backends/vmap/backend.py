"""The backend of batched arrays, whose kernels run once for all samples."""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from gradcore.backends.base import Backend
from gradcore.backends.kernel_rules import OPERATIONS
from gradcore.backends.portable.elementwise import RENAMED, SPECIAL, Elementwise
from gradcore.backends.vmap import calls
from gradcore.backends.vmap.array import LIBRARIES, RULES, BatchedArray, apply, library_function, outermost
from gradcore.backends.vmap.creation import CREATION
from gradcore.backends.vmap.kernels import KERNEL_RULES, BatchedKernels
from gradcore.backends.vmap.messages import ITEM

__all__ = ["BatchedBackend"]


class Namespace:
    """NumPy's namespace for batched arrays. Creation functions make batches; others dispatch by NumPy's protocols.

    Parameters
    ----------
    module : module
        NumPy or a submodule.
    backend : Backend
        The backend of the arrays inside.
    level : VmapLevel
    """

    def __init__(self, module: Any, backend: Backend, level: Any) -> None:
        self._module, self._backend, self._level = module, backend, level

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._module, name)
        if name in CREATION:
            value = functools.partial(CREATION[name], self._backend.xp, self._level)
        elif isinstance(value, types.ModuleType):
            value = Namespace(value, self._backend, self._level)
        elif isinstance(value, np.ufunc):
            value = _Ufunc(value)
        elif callable(value) and not isinstance(value, type):
            value = functools.partial(_function, value)
        setattr(self, name, value)
        return value


class _Ufunc:
    """A universal function that accepts batched arrays."""

    def __init__(self, ufunc: Any) -> None:
        self.ufunc, self.nout = ufunc, ufunc.nout

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return apply(self.ufunc, "__call__", *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return functools.partial(apply, self.ufunc, name)


def _function(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Return a function of NumPy that calls another library's counterpart if no array is batched."""
    level = outermost((args, kwargs)) if LIBRARIES else None
    if level is None:
        return library_function(function, *args)(*args, **kwargs)
    return RULES[function](level, *args, **kwargs) if function in RULES else function(*args, **kwargs)


class _Table:
    """The dispatch table: kernels by name."""

    __slots__ = ("backend",)

    def __init__(self, backend: Any) -> None:
        self.backend = backend

    def __getitem__(self, name: str) -> Any:
        return getattr(self.backend, name)

    @property
    def small(self) -> Any:
        """The table itself: the backend inside chooses by the size of the whole batch."""
        return self


class BatchedBackend(BatchedKernels, Backend):
    """Backend of the samples of one level, on top of the backend of the inner arrays.

    A kernel is the first of these that exists:

    - the rule in `kernels`,
    - for elementwise operations, the kernel of the inner backend, called with aligned ranks,
    - the generic kernel or body, whose array operations handle batched arrays.

    Parameters
    ----------
    inner : Backend
    level : VmapLevel
    """

    def __init__(self, inner: Backend, level: Any) -> None:
        self.xp, self.array_type = Namespace(np, inner, level), BatchedArray
        self.inner, self.level = inner, level
        if inner.array_type is not BatchedArray and inner.array_type is not np.ndarray:
            LIBRARIES[inner.array_type] = inner.xp
        self.type = inner.type  # type: ignore[misc]
        self.upcasts, self.host_scalars, self.has_streams = inner.upcasts, False, inner.has_streams

    def __getattr__(self, name: str) -> Any:
        if name not in self.bodies:
            raise AttributeError(f"the {self.type!r} backend has no kernel named {name!r}")
        body = functools.partial(self.bodies[name], self)
        takes_sequence = _takes_sequence(name)
        return functools.partial(calls.call_generic, self.level, body, self.inner.kernels[name], takes_sequence)

    @property
    def kernels(self) -> Any:  # type: ignore[override]
        """The dispatch table. It caches no kernels: they refer to their backend, and every batch has a table."""
        return _Table(self)

    def broadcasts_rows(self, name: str, char: str) -> bool:
        return self.inner.broadcasts_rows(name, char)

    # -- devices ------------------------------------------------------------------------------------------------

    def device_count(self) -> int:
        return self.inner.device_count()

    def current_index(self) -> int | None:
        return self.inner.current_index()

    def use_index(self, index: int | None) -> contextlib.AbstractContextManager[Any]:
        return self.inner.use_index(index)

    def synchronize(self, index: int | None = None) -> None:
        self.inner.synchronize(index)

    # -- arrays -------------------------------------------------------------------------------------------------

    def asarray(self, value: Any) -> Any:
        """Return an array unchanged: one that is not batched is the same for every sample."""
        return value if self.is_tensor(value) else self.inner.asarray(value)

    def from_host(self, array: Any) -> Any:
        return self.inner.from_host(array)

    def constant(self, table: Any) -> Any:
        return self.inner.constant(table)

    def to_host(self, array: Any) -> Any:
        if isinstance(array, BatchedArray):
            raise RuntimeError(ITEM)
        return self.inner.to_host(array)  # the same for every sample

    def scalar(self, value: complex, dtype: Any) -> Any:
        return self.inner.scalar(value, dtype)

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, BatchedArray) or self.inner.is_tensor(value)


def _takes_sequence(name: str) -> bool:
    return name in OPERATIONS and bool(OPERATIONS[name].sequences)


# -- methods of the class, for the kernels that run as they are in the backend inside ------------------------------


def _generic(name: str) -> Callable[..., Any]:
    method = getattr(Backend, name)

    def kernel(self: Any, *args: Any) -> Any:
        return calls.call_generic(
            self.level, functools.partial(method, self), self.inner.kernels[name], _takes_sequence(name), *args
        )

    return kernel


def _wrap_rule(name: str, rule: Callable[..., Any]) -> Callable[..., Any]:
    generic = _generic(name) if hasattr(Backend, name) else None

    def kernel(self: Any, *args: Any) -> Any:
        plain = None if generic is None else functools.partial(generic, self)
        return rule(self.level, self.inner.kernels[name], plain, *args)

    return kernel


def _wrap_elementwise(name: str) -> Callable[..., Any]:
    def kernel(self: Any, *args: Any) -> Any:
        char = getattr(getattr(args[0], "dtype", None), "char", "")
        broadcasts_rows = len(args) > 1 and self.inner.broadcasts_rows(name, char)
        return calls.call_elementwise(self.level, self.inner.kernels[name], *args, broadcasts_rows=broadcasts_rows)

    return kernel


#: Methods of the elementwise family that do not act on each element.
_OTHERS = {
    "zeros_like", "ones_like", "new_zeros", "copy_into", "special_function", "is_complex", "degrees_up_to",
    "view_as_real", "view_as_complex", "number",
}  # fmt: skip


def _elementwise_names() -> set[str]:
    methods = {name for name in vars(Elementwise) if callable(getattr(Elementwise, name)) and name[0] != "_"}
    declared = {key for op in OPERATIONS.values() if op.kind == "elementwise" for key in (op.name, op.kernel)}
    return (methods - _OTHERS) | set(RENAMED) | set(SPECIAL) | declared | {"equal_or_nan"}


def _declared_kernels() -> set[str]:
    """Return the names of kernels that are methods of the kernel classes rather than bodies of operations."""
    return {op.kernel for op in OPERATIONS.values() if hasattr(Backend, op.kernel)}


for _name in _declared_kernels().difference(vars(BatchedKernels)):
    setattr(BatchedBackend, _name, _generic(_name))
for _name in _elementwise_names():
    setattr(BatchedBackend, _name, _wrap_elementwise(_name))
for _name, _rule in KERNEL_RULES.items():
    setattr(BatchedBackend, _name, _wrap_rule(_name, _rule))
