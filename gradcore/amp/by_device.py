"""Settings of autocasting under the names from before they took the type of the device."""

from __future__ import annotations

from functools import partial

from gradcore.amp.autocasting import (
    get_autocast_dtype,
    is_autocast_enabled,
    set_autocast_dtype,
    set_autocast_enabled,
)

__all__: list[str] = []

get_autocast_cpu_dtype, get_autocast_gpu_dtype = (partial(get_autocast_dtype, kind) for kind in ("cpu", "cuda"))
set_autocast_cpu_dtype, set_autocast_gpu_dtype = (partial(set_autocast_dtype, kind) for kind in ("cpu", "cuda"))
is_autocast_cpu_enabled = partial(is_autocast_enabled, "cpu")
set_autocast_cpu_enabled = partial(set_autocast_enabled, "cpu")


def autocast_increment_nesting() -> int:
    """Accepted for compatibility: `gradcore.autocast` counts its own contexts."""
    return 1


def autocast_decrement_nesting() -> int:
    """Accepted for compatibility: `gradcore.autocast` counts its own contexts."""
    return 0
