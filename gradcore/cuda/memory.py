"""Memory of CUDA devices: usage, peak, limits and out-of-memory errors.

CuPy's pool serves CuPy arrays and tensors. Graphs have private pools, which are counted too.
"""

from __future__ import annotations

import gc
import warnings
from collections import Counter
from typing import Any

from gradcore.backends import registry
from gradcore.backends.cupy.memory import Peaks
from gradcore.core.device import DeviceLike
from gradcore.core.device import device as Device
from gradcore.core.errors import OutOfMemoryError
from gradcore.cuda.devices import index_of, is_available
from gradcore.tensor import Tensor

__all__ = [
    "OutOfMemoryError",
    "device_memory_used",
    "empty_cache",
    "get_per_process_memory_fraction",
    "ipc_collect",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
]


def _call_pools(device: DeviceLike | None, what: str) -> Any:
    """Call the method `what` of the memory pools with `device` as the current device."""
    backend: Any = registry.find("cuda")
    with backend.use_index(index_of(device)):
        return getattr(backend.pools, what)()


def memory_allocated(device: DeviceLike | None = None) -> int:
    """Return the number of bytes that arrays occupy in the memory pools of a CUDA device, including graphs' pools.

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     used = gc.cuda.memory_allocated()
    """
    return int(_call_pools(device, "used_bytes"))


def memory_reserved(device: DeviceLike | None = None) -> int:
    """Return the number of bytes that the memory pools of a CUDA device hold: in use, or kept for new arrays.

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     kept = gc.cuda.memory_reserved()
    """
    return int(_call_pools(device, "total_bytes"))


def max_memory_allocated(device: DeviceLike | None = None) -> int:
    """Return the largest number of bytes that arrays have occupied since `reset_peak_memory_stats`.

    If that was never called, peaks are not tracked. The result is then the size of the pools, an upper bound.

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     peak = gc.cuda.max_memory_allocated()
    """
    peak = Peaks.of(index_of(device))
    return memory_reserved(device) if peak is None else max(peak, memory_allocated(device))


def max_memory_reserved(device: DeviceLike | None = None) -> int:
    """Return the largest number of bytes that the memory pools have held since `reset_peak_memory_stats`.

    Pools return memory to the driver only in `empty_cache`, when the device is full, or when a graph with its own pool
    is gone.

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     peak = gc.cuda.max_memory_reserved()
    """
    return int(_call_pools(device, "most_bytes"))


def reset_peak_memory_stats(device: DeviceLike | None = None) -> None:
    """Start tracking peak memory from now on, at a cost of about a microsecond for each array.

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     gc.cuda.reset_peak_memory_stats()
    """
    _call_pools(device, "forget_peak")
    Peaks.watch(index_of(device), memory_allocated(device))


def mem_get_info(device: DeviceLike | None = None) -> tuple[int, int]:
    """Return the free and the total memory of a CUDA device, in bytes.

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     free, total = gc.cuda.mem_get_info()
    """
    backend = registry.find("cuda")
    with backend.use_index(index_of(device)):
        free, total = backend.xp.cuda.runtime.memGetInfo()
    return int(free), int(total)


def set_per_process_memory_fraction(fraction: float, device: DeviceLike | None = None) -> None:
    """Limit the memory pools of a CUDA device to a share of its memory.

    Raises
    ------
    ValueError
        If `fraction` is not between 0 and 1.

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     gc.cuda.set_per_process_memory_fraction(0.5)
    ...     gc.cuda.set_per_process_memory_fraction(1.0)
    """
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    backend: Any = registry.find("cuda")
    with backend.use_index(index_of(device)):
        backend.pools.set_share(fraction)


def get_per_process_memory_fraction(device: DeviceLike | None = None) -> float:
    """Return the share of a CUDA device's memory that its pools may take, by default 1.

    Raises
    ------
    RuntimeError
        If the device does not exist, or CUDA cannot be used.

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     fraction = gc.cuda.get_per_process_memory_fraction()
    """
    return float(_call_pools(device, "share"))


def device_memory_used(device: DeviceLike | None = None) -> int:
    """Return the number of bytes in use on a CUDA device by all processes.

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     used = gc.cuda.device_memory_used()
    """
    free, total = mem_get_info(device)
    return total - free


def empty_cache() -> None:
    """Return unused blocks of the memory pools to the driver, both device memory and page-locked memory.

    The pools of graphs keep their blocks as long as the graphs can be replayed.

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     gc.cuda.empty_cache()
    """
    if is_available():
        backend: Any = registry.find("cuda")
        backend.pools.empty()


def ipc_collect() -> None:
    """Do nothing: gradcore shares no device memory with other processes, so there is nothing to collect.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.cuda.ipc_collect()
    """


def memory_stats(device: DeviceLike | None = None) -> dict[str, int]:
    """Return statistics of the memory pools of a CUDA device, under PyTorch's names.

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     peak = gc.cuda.memory_stats()["allocated_bytes.all.peak"]
    """
    return {
        "allocated_bytes.all.current": memory_allocated(device),
        "allocated_bytes.all.peak": max_memory_allocated(device),
        "reserved_bytes.all.current": memory_reserved(device),
        "reserved_bytes.all.peak": max_memory_reserved(device),
    }


# -- deprecated names -------------------------------------------------------------------------------------------------


def _warn_renamed(old: str, new: str) -> None:
    """Warn that the function `old` has the new name `new`."""
    warnings.warn(f"`torch.cuda.{old}` has been renamed to `torch.cuda.{new}`", FutureWarning, stacklevel=3)


def memory_cached(device: DeviceLike | None = None) -> int:
    """Return the result of `memory_reserved`, the present name of this function.

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     kept = gc.cuda.memory_cached()
    """
    _warn_renamed("memory_cached", "memory_reserved")
    return memory_reserved(device)


def max_memory_cached(device: DeviceLike | None = None) -> int:
    """Return the result of `max_memory_reserved`, the present name of this function.

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     peak = gc.cuda.max_memory_cached()
    """
    _warn_renamed("max_memory_cached", "max_memory_reserved")
    return max_memory_reserved(device)


def reset_max_memory_allocated(device: DeviceLike | None = None) -> None:
    """Call `reset_peak_memory_stats`, the present name of this function.

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     gc.cuda.reset_max_memory_allocated()
    """
    _warn_renamed("reset_max_memory_allocated", "reset_peak_memory_stats")
    reset_peak_memory_stats(device)


def reset_max_memory_cached(device: DeviceLike | None = None) -> None:
    """Call `reset_peak_memory_stats`, the present name of this function.

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     gc.cuda.reset_max_memory_cached()
    """
    _warn_renamed("reset_max_memory_cached", "reset_peak_memory_stats")
    reset_peak_memory_stats(device)


# -- summaries --------------------------------------------------------------------------------------------------------


def memory_summary(device: DeviceLike | None = None) -> str:
    """Return a table of the tensors on a CUDA device that Python can reach, by shape and dtype.

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     text = gc.cuda.memory_summary()
    """
    target = Device("cuda", index_of(device))
    counts: Counter[tuple[Any, ...]] = Counter()
    seen = set()
    # Not `isinstance`, which would read ``__class__`` of proxy objects, and some of them warn.
    for t in gc.get_objects():
        if issubclass(type(t), Tensor) and getattr(t, "_device", None) is target:
            array = t._array if t._array.base is None else t._array.base
            if id(array) not in seen:
                seen.add(id(array))
                counts[tuple(t._array.shape), t._dtype.name, int(array.nbytes)] += 1
    lines = [
        f"memory of {target}: {memory_allocated(target):,} bytes in use, {memory_reserved(target):,} reserved, "
        f"{mem_get_info(target)[0]:,} free"
    ]
    rows = sorted(counts.items(), key=lambda row: -row[0][2] * row[1])[:10]
    lines += [f"{n:6} x {size:15,} bytes  {dtype} {list(shape)}" for (shape, dtype, size), n in rows]
    return "\n".join(lines)
