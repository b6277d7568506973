"""Functions to list CUDA devices, to choose the current one, and to wait for it."""

from __future__ import annotations

import contextlib
from typing import Any

from gradcore.backends import registry
from gradcore.core.config import fusion, index_checks, set_fusion, set_index_checks
from gradcore.core.device import DeviceLike
from gradcore.core.device import device as Device

__all__ = [
    "can_device_access_peer",
    "current_device",
    "device",
    "device_count",
    "device_of",
    "fusion",
    "get_device_capability",
    "get_device_name",
    "index_checks",
    "index_of",
    "init",
    "is_available",
    "is_initialized",
    "set_device",
    "set_fusion",
    "set_index_checks",
    "synchronize",
]


def is_available() -> bool:
    """Return whether CUDA can be used, so that tensors can be on a CUDA device.

    Examples
    --------
    >>> import gradcore as gc
    >>> device = "cuda" if gc.cuda.is_available() else "cpu"
    """
    return registry.unavailable("cuda") is None


def device_count() -> int:
    """Return the number of usable CUDA devices; 0 where CUDA cannot be used.

    Examples
    --------
    >>> import gradcore as gc
    >>> devices = [gc.device("cuda", index) for index in range(gc.cuda.device_count())]
    """
    return registry.find("cuda").device_count() if is_available() else 0


def init() -> None:
    """Initialize CUDA, which otherwise happens on the first use of a CUDA device.

    Raises
    ------
    RuntimeError
        If CUDA cannot be used, with the reason.

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     gc.cuda.init()
    """
    registry.find("cuda")


def is_initialized() -> bool:
    """Return whether this process has initialized CUDA.

    Examples
    --------
    >>> import gradcore as gc
    >>> in_use = gc.cuda.memory_allocated() if gc.cuda.is_initialized() else 0
    """
    return registry.is_connected("cuda")


def current_device() -> int:
    """Return the index of the current CUDA device, on which ``device='cuda'`` creates tensors.

    Raises
    ------
    RuntimeError
        If CUDA cannot be used, with the reason.

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     index = gc.cuda.current_device()
    """
    index = registry.find("cuda").current_index()
    assert index is not None
    return index


def index_of(device: DeviceLike | None) -> int:
    """Return the index of a CUDA device, or of the current one for None.

    Raises
    ------
    ValueError
        If the device is not a CUDA device.
    RuntimeError
        If the device does not exist, or CUDA cannot be used.
    """
    if device is None:
        return current_device()
    cuda_device = Device(device)
    if cuda_device.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {cuda_device}")
    index = current_device() if cuda_device.index is None else cuda_device.index
    if index >= device_count():
        raise RuntimeError(f"Invalid device '{cuda_device}': {device_count()} CUDA devices are available")
    return index


def set_device(device: DeviceLike) -> None:
    """Set the current CUDA device of this thread. Without CUDA, this has no effect except for ``device="cuda"``.

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     gc.cuda.set_device(0)
    """
    if registry.unavailable("cuda") is not None:
        registry.resolve("cuda")  # warns that the CPU is used instead, or raises, as the user has chosen
        return
    registry.find("cuda").xp.cuda.Device(index_of(device)).use()


@contextlib.contextmanager
def device(device: DeviceLike | None) -> Any:
    """Context manager that makes a CUDA device the current one; None changes nothing.

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     with gc.cuda.device(0):
    ...         y = gc.ones(2, device="cuda")
    """
    if device is None:
        yield
        return
    with registry.find("cuda").use_index(index_of(device)):
        yield


def device_of(obj: Any) -> contextlib.AbstractContextManager[Any]:
    """Context manager that makes the CUDA device of a tensor the current one. Tensors on other devices change nothing.

    Examples
    --------
    >>> import gradcore
    >>> x = gradcore.ones(3)
    >>> with gradcore.cuda.device_of(x):
    ...     y = x * 2
    """
    obj_device = obj.device
    return device(obj_device if obj_device.type == "cuda" else None)


def synchronize(device: DeviceLike | None = None) -> None:
    """Wait until all work on a CUDA device is done.

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     gc.cuda.synchronize()
    """
    registry.find("cuda").synchronize(index_of(device))


def get_device_name(device: DeviceLike | None = None) -> str:
    """Return the name of a CUDA device, for example ``'NVIDIA H200'``.

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     name = gc.cuda.get_device_name()
    """
    xp = registry.find("cuda").xp
    name = xp.cuda.runtime.getDeviceProperties(index_of(device))["name"]
    return name.decode() if isinstance(name, bytes) else str(name)


def get_device_capability(device: DeviceLike | None = None) -> tuple[int, int]:
    """Return the compute capability of a CUDA device, for example ``(9, 0)``.

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     major, minor = gc.cuda.get_device_capability()
    """
    capability = registry.find("cuda").xp.cuda.Device(index_of(device)).compute_capability
    return int(capability[:-1]), int(capability[-1])


def can_device_access_peer(device: DeviceLike, peer_device: DeviceLike) -> bool:
    """Return whether a CUDA device can read the memory of another CUDA device.

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     answer = gc.cuda.can_device_access_peer(0, 0)
    """
    runtime = registry.find("cuda").xp.cuda.runtime
    return bool(runtime.deviceCanAccessPeer(index_of(device), index_of(peer_device)))
