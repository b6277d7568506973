"""Settings of autocasting under PyTorch's older names, which are specific to a type of device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradcore.amp.autocasting import (
    get_autocast_dtype,
    is_autocast_enabled,
    set_autocast_dtype,
    set_autocast_enabled,
)
from gradcore.core.errors import warn

__all__: list[str] = []


def _rename(name: str, function: Callable[..., Any], device_type: str, settings: str = "") -> Callable[..., Any]:
    """Return `function` under an older name, with the type of device fixed to `device_type`."""

    def call(*args: Any) -> Any:
        now = f"torch.{function.__name__}({', '.join(filter(None, (repr(device_type), settings)))})"
        warn(f"torch.{name}({settings}) is deprecated. Please use {now} instead.", DeprecationWarning)
        return function(device_type, *args)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"Call `gradcore.{function.__name__}` for {device_type!r}."
    return call


get_autocast_cpu_dtype = _rename("get_autocast_cpu_dtype", get_autocast_dtype, "cpu")
get_autocast_gpu_dtype = _rename("get_autocast_gpu_dtype", get_autocast_dtype, "cuda")
is_autocast_cpu_enabled = _rename("is_autocast_cpu_enabled", is_autocast_enabled, "cpu")
set_autocast_cpu_dtype = _rename("set_autocast_cpu_dtype", set_autocast_dtype, "cpu", "dtype")
set_autocast_cpu_enabled = _rename("set_autocast_cpu_enabled", set_autocast_enabled, "cpu", "enabled")
set_autocast_gpu_dtype = _rename("set_autocast_gpu_dtype", set_autocast_dtype, "cuda", "dtype")


def autocast_increment_nesting() -> int:
    """Do nothing, for compatibility: `gradcore.autocast` counts its own contexts."""
    return 1


def autocast_decrement_nesting() -> int:
    """Do nothing, for compatibility: `gradcore.autocast` counts its own contexts."""
    return 0
