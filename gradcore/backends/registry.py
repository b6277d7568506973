"""The registry of backends by device type, and the fallback from CUDA to the CPU."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

from gradcore.backends.base import Backend, Kernels
from gradcore.core import config
from gradcore.core.device import DeviceLike, default_to, device, get_default_device
from gradcore.core.errors import DeviceFallbackWarning, Unavailable, caller_depth
from gradcore.core.locks import process_lock
from gradcore.core.typing import AnyArray

__all__ = [
    "CPU",
    "connect",
    "devices_of",
    "find",
    "find_cupy_backends",
    "in_use",
    "is_connected",
    "put",
    "register",
    "resolve",
    "set_default_device",
    "unavailable",
]


def _numpy() -> Backend:
    from gradcore.backends import compiled
    from gradcore.backends.numpy.backend import NumpyBackend

    return compiled.connect() or NumpyBackend()


def _cupy() -> Backend:
    from gradcore.backends.cupy.backend import connect

    return connect()


def _tracing() -> Backend:
    from gradcore.backends.meta import MetaBackend

    return MetaBackend()


_factories: dict[str, Callable[[], Backend]] = {"cpu": _numpy, "cuda": _cupy, "meta": _tracing}
_backends: dict[str, Backend] = {}
_reasons: dict[str, str] = {}
_warned: set[str] = set()
_lock = process_lock()


def register(type: str, factory: Callable[[], Backend]) -> None:
    """Register a backend. It is created when a device of its type is first used.

    Parameters
    ----------
    type : str
        The device type, as in ``device='mine'`` or ``'mine:1'``.
    factory : callable
        Returns a `gradcore.backends.Backend`; raises `gradcore.errors.Unavailable` with the reason in
        words where it cannot be used.

    Raises
    ------
    ValueError
        If the type is taken by a backend that is in use.

    Examples
    --------
    >>> import gradcore
    >>> from gradcore.backends import register
    >>> from gradcore.backends.numpy.backend import NumpyBackend
    >>> class Verbose(NumpyBackend):
    ...     type = "verbose"
    ...     def exp(self, x):
    ...         print("exp of", x.shape)
    ...         return self.xp.exp(x)
    >>> register("verbose", Verbose)
    >>> gradcore.zeros(2, device="verbose").exp()
    exp of (2,)
    tensor([1., 1.], device='verbose')
    """
    with _lock:
        if type in _backends:
            raise ValueError(f"the backend of device type {type!r} is in use and cannot be replaced")
        _factories[type] = factory
        _reasons.pop(type, None)


def find(type: str) -> Backend:
    """Return the backend of a device type, created on first use.

    Raises
    ------
    RuntimeError
        If no backend of that type was registered, or if it cannot be used (with the reason).
    """
    backend = _backends.get(type)
    if backend is None:
        with _lock:
            reason = unavailable(type)
            if reason is not None:
                raise RuntimeError(f"Device type '{type}' cannot be used: {reason}")
            backend = _backends[type]
    return backend


def unavailable(type: str) -> str | None:
    """Return the reason why a device type cannot be used here, or None if it can."""
    with _lock:
        if type in _backends:
            return None
        if type not in _factories:
            types = ", ".join(f"'{name}'" for name in sorted(_factories))
            return f"no backend of that type is registered (known: {types})"
        if type not in _reasons:
            try:
                _backends[type] = _factories[type]()
            except Unavailable as why:
                _reasons[type] = str(why)
        return _reasons.get(type)


def set_default_device(device_like: DeviceLike | None) -> None:
    """Set the device on which tensors are created when none is named (None: the CPU).

    Raises
    ------
    RuntimeError
        If there is no such type of device.

    Examples
    --------
    >>> import gradcore
    >>> gradcore.set_default_device("meta")
    >>> gradcore.empty(2).device
    device(type='meta')
    >>> gradcore.set_default_device(None)
    """
    default = device("cpu" if device_like is None else device_like)
    if default.type not in _factories:
        raise RuntimeError(f"Device '{default}' cannot be used: {unavailable(default.type)}")
    default_to(default)


def is_connected(type: str) -> bool:
    """Return whether the backend of a device type has been created."""
    return type in _backends


def in_use() -> list[Backend]:
    """Return the backends that have been created."""
    return list(_backends.values())


def find_cupy_backends() -> list[Any]:
    """Return the backends in use that compute with CuPy or a library with its interface."""
    # Another thread may be importing the module. Then the class is missing, and no backend of it is in use yet.
    cupy_class = getattr(sys.modules.get("gradcore.backends.cupy.backend"), "CupyBackend", None)
    return [] if cupy_class is None else [each for each in in_use() if isinstance(each, cupy_class)]


def devices_of(backend: Any) -> list[device]:
    """Return the devices, not batched, that use a backend."""
    return [each for each in list(device._interned.values()) if getattr(each, "backend", None) is backend]


def put(backend: Any) -> None:
    """Register an existing backend for its device type. Devices that are connected later use it."""
    _backends[backend.type] = backend


def _forget_after_fork() -> None:
    """Forget CUDA's backend in a forked child, which cannot use its parent's CUDA context."""
    if _backends.pop("cuda", None) is not None:
        _reasons["cuda"] = (
            "the process was forked after CUDA had been used. Start worker processes with the 'spawn' method: "
            "multiprocessing.set_start_method('spawn')"
        )


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)


def _connect(place: device, backend: Backend) -> device:
    """Connect an existing device with a backend."""
    count = backend.device_count()
    if count and not (place.index is not None and place.index < count):
        raise RuntimeError(
            f"Invalid device '{place}': {count} device{'s' if count > 1 else ''} of type '{place.type}' "
            f"{'are' if count > 1 else 'is'} available, with index 0{f' to {count - 1}' if count > 1 else ''}"
        )
    place.guarded = count > 1
    return connect(place, backend)


def connect(place: device, backend: Backend) -> device:
    """Set a device's backend and dispatch table. Kernels of a guarded device make it current."""
    place.kernels = (
        Kernels(functools.partial(_run_on_device, backend, place.index)) if place.guarded else backend.kernels
    )
    place.backend = backend
    return place


def _run_on_device(backend: Backend, index: int | None, name: str) -> Callable[..., Any]:
    """Return a kernel that makes the device of this index current before it runs."""
    kernel = backend.kernels[name]
    if hasattr(kernel, "nout") or hasattr(kernel, "takes_out"):

        def run_into(*args: AnyArray, out: AnyArray = None) -> AnyArray:
            with contextlib.nullcontext() if backend.current_index() == index else backend.use_index(index):
                return kernel(*args) if out is None else kernel(*args, out=out)

        run_into.takes_out = True  # type: ignore[attr-defined]
        return run_into

    def run(*args: Any) -> Any:
        if backend.current_index() == index:
            return kernel(*args)
        with backend.use_index(index):
            return kernel(*args)

    return run


def resolve(where: DeviceLike | None) -> device:
    """Return the device on which a tensor asked for on `where` will live, with its backend connected.

    ``'cuda'`` becomes the current CUDA device, or the CPU where CUDA cannot be used and the policy allows it.
    """
    target = get_default_device() if where is None else device(where)
    connected = _backends.get(target.type)
    if connected is not None and hasattr(target, "backend"):
        return target
    reason = unavailable(target.type) if connected is None else None
    if reason is None:
        backend = _backends[target.type] if connected is None else connected
        if backend.device_count() == 0:
            target = device(target.type)
        elif target.index is None:
            target = device(target.type, backend.current_index())
        return target if getattr(target, "backend", None) is backend else _connect(target, backend)
    if target.type != "cuda" or config.cuda_fallback() == "error":
        raise RuntimeError(f"Device '{target}' cannot be used: {reason}")
    if config.cuda_fallback() == "warn" and reason not in _warned:
        _warned.add(reason)
        warnings.warn(
            f"device='{target}' cannot be used, so the CPU is used instead: {reason} "
            "(GRADCORE_CUDA_FALLBACK=error makes this an error, =silent hides this warning)",
            DeviceFallbackWarning,
            stacklevel=caller_depth(),
        )
    return CPU


CPU = resolve("cpu")
