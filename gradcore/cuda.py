"""CUDA devices: what is there, which is current, waiting for them.

Nothing here needs a GPU to be imported; what asks the driver says so in its errors.
"""

from __future__ import annotations

import contextlib
from typing import Any

from gradcore.backends import registry
from gradcore.config import fusion, index_checks, set_fusion, set_index_checks
from gradcore.device import DeviceLike
from gradcore.device import device as Device

__all__ = [
    "current_device",
    "device",
    "device_count",
    "empty_cache",
    "fusion",
    "get_device_name",
    "index_checks",
    "is_available",
    "max_memory_allocated",
    "memory_allocated",
    "set_device",
    "set_fusion",
    "set_index_checks",
    "synchronize",
]


def is_available() -> bool:
    """Whether tensors can live on a CUDA device here."""
    return registry.unavailable("cuda") is None


def device_count() -> int:
    """The number of usable CUDA devices; 0 where CUDA cannot be used."""
    return registry.find("cuda").device_count() if is_available() else 0


def current_device() -> int:
    """The index of the CUDA device on which ``device='cuda'`` makes tensors.

    Raises
    ------
    RuntimeError
        If CUDA cannot be used, with the reason.
    """
    index = registry.find("cuda").current_index()
    assert index is not None
    return index


def _index(device: DeviceLike | None) -> int:
    if device is None:
        return current_device()
    where = Device(device)
    if where.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {where}")
    index = current_device() if where.index is None else where.index
    if index >= device_count():
        raise RuntimeError(f"Invalid device '{where}': {device_count()} CUDA devices are available")
    return index


def set_device(device: DeviceLike) -> None:
    """Make a CUDA device the current one of this thread."""
    registry.find("cuda").xp.cuda.Device(_index(device)).use()


@contextlib.contextmanager
def device(device: DeviceLike | None) -> Any:
    """Context in which a CUDA device is the current one; None changes nothing."""
    if device is None:
        yield
        return
    with registry.find("cuda").use_index(_index(device)):
        yield


def synchronize(device: DeviceLike | None = None) -> None:
    """Wait until all work on a CUDA device is done."""
    registry.find("cuda").synchronize(_index(device))


def get_device_name(device: DeviceLike | None = None) -> str:
    """The name of a CUDA device, for example ``'NVIDIA H200'``."""
    xp = registry.find("cuda").xp
    name = xp.cuda.runtime.getDeviceProperties(_index(device))["name"]
    return name.decode() if isinstance(name, bytes) else str(name)


def memory_allocated(device: DeviceLike | None = None) -> int:
    """Bytes that arrays occupy in the memory pool of a CUDA device."""
    backend = registry.find("cuda")
    with backend.use_index(_index(device)):
        return int(backend.xp.get_default_memory_pool().used_bytes())


def max_memory_allocated(device: DeviceLike | None = None) -> int:
    """Bytes that the memory pool of a CUDA device has taken from the driver, an upper bound of what was ever in use."""
    backend = registry.find("cuda")
    with backend.use_index(_index(device)):
        return int(backend.xp.get_default_memory_pool().total_bytes())


def empty_cache() -> None:
    """Give unused blocks of the memory pool back to the driver."""
    if is_available():
        registry.find("cuda").xp.get_default_memory_pool().free_all_blocks()
