"""Functions of ``torch.accelerator`` for the device other than the CPU: CUDA, or none.

Examples
--------
>>> import gradcore
>>> device = gradcore.accelerator.current_accelerator() if gradcore.accelerator.is_available() else "cpu"
>>> gradcore.ones(2, device=device).sum().item()
2.0
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from gradcore import cuda
from gradcore.core.device import device as Device
from gradcore.torch_names import paths

__all__ = [
    "current_accelerator",
    "current_device_idx",
    "current_device_index",
    "current_stream",
    "device_count",
    "device_index",
    "empty_cache",
    "get_device_capability",
    "get_device_module",
    "get_memory_info",
    "is_available",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_peak_memory_stats",
    "set_device_idx",
    "set_device_index",
    "set_stream",
    "synchronize",
]

_Result = TypeVar("_Result")

is_available = cuda.is_available
device_count = cuda.device_count


def current_accelerator(check_available: bool = False) -> Device | None:
    """Return the device ``cuda``, without an index; None where CUDA cannot be used.

    Parameters
    ----------
    check_available : bool
        Accepted for compatibility: gradcore always checks whether the device is usable.
    """
    return Device("cuda") if cuda.is_available() else None


def get_device_module(device: Any = None) -> Any:
    """Return the module with the functions of a kind of device: `gradcore.cuda` or `gradcore.cpu`.

    Parameters
    ----------
    device : str or device, optional
        By default that of the accelerator, or else of the CPU.
    """
    kind = (current_accelerator() or Device("cpu")) if device is None else Device(device)
    if kind.type == "cuda":
        return cuda
    from gradcore.torch_names import cpu

    if kind.type == "cpu":
        return cpu
    raise RuntimeError(f"Invalid device string: '{device}': there are 'cpu' and 'cuda'")


def _require_accelerator(function: Callable[..., _Result]) -> Callable[..., _Result]:
    """Return `function` with a check that raises where there is no accelerator."""

    @functools.wraps(function)
    def call(*args: Any) -> _Result:
        if not cuda.is_available():
            raise RuntimeError("Cannot access accelerator device when none is available.")
        return function(*args)

    return call


current_device_index = current_device_idx = _require_accelerator(cuda.current_device)
set_device_index = set_device_idx = _require_accelerator(cuda.set_device)
current_stream = _require_accelerator(cuda.current_stream)
set_stream = _require_accelerator(cuda.set_stream)
synchronize = _require_accelerator(cuda.synchronize)
empty_cache = _require_accelerator(cuda.empty_cache)
get_device_capability = _require_accelerator(cuda.get_device_capability)
get_memory_info = _require_accelerator(cuda.mem_get_info)
max_memory_allocated = _require_accelerator(cuda.max_memory_allocated)
max_memory_reserved = _require_accelerator(cuda.max_memory_reserved)
memory_allocated = _require_accelerator(cuda.memory_allocated)
memory_reserved = _require_accelerator(cuda.memory_reserved)
memory_stats = _require_accelerator(cuda.memory_stats)
reset_peak_memory_stats = _require_accelerator(cuda.reset_peak_memory_stats)
#: Context in which a device of that number is the current one.
device_index = _require_accelerator(cuda.device)

paths.show_public(__name__)
