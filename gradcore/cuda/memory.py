"""Memory of CUDA devices: how much is in use and by what, limits, and what happens when there is none left.

There is one pool, CuPy's, for arrays of CuPy and tensors; graphs have pools of their own, which are counted too.
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


def _of_pools(device: DeviceLike | None, what: str) -> Any:
    """Call a method of `Pools` with that device current."""
    backend: Any = registry.find("cuda")
    with backend.use_index(index_of(device)):
        return getattr(backend.pools, what)()


def memory_allocated(device: DeviceLike | None = None) -> int:
    """Bytes that arrays occupy in the memory pools of a CUDA device, those of graphs among them.

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     used = gc.cuda.memory_allocated()
    """
    return int(_of_pools(device, "used_bytes"))


def memory_reserved(device: DeviceLike | None = None) -> int:
    """Bytes that the memory pools of a CUDA device have taken from the driver: in use, or kept for new arrays.

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     kept = gc.cuda.memory_reserved()
    """
    return int(_of_pools(device, "total_bytes"))


def max_memory_allocated(device: DeviceLike | None = None) -> int:
    """Return the most bytes that arrays have occupied since `reset_peak_memory_stats` was called.

    Before that was ever called nothing is watched, and this is what pools have taken from the driver: an upper bound.

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     peak = gc.cuda.max_memory_allocated()
    """
    peak = Peaks.of(index_of(device))
    return memory_reserved(device) if peak is None else max(peak, memory_allocated(device))


def max_memory_reserved(device: DeviceLike | None = None) -> int:
    """Return the most bytes that the pools of a CUDA device have taken from the driver since `reset_peak_memory_stats`.

    They give none back before `empty_cache`, before the device is full, or before a graph that has its own is gone.

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     peak = gc.cuda.max_memory_reserved()
    """
    return int(_of_pools(device, "most_bytes"))


def reset_peak_memory_stats(device: DeviceLike | None = None) -> None:
    """Watch the peak of memory from now on (which costs about a microsecond for each array).

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     gc.cuda.reset_peak_memory_stats()
    """
    _of_pools(device, "forget_peak")
    Peaks.watch(index_of(device), memory_allocated(device))


def mem_get_info(device: DeviceLike | None = None) -> tuple[int, int]:
    """Bytes that are free on a CUDA device, and all that it has.

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
    """Limit the pools of a CUDA device, together, to a share of its memory.

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
    """The share of a CUDA device's memory that its pools may take; 1 where `set_per_process_memory_fraction` set none.

    Raises
    ------
    RuntimeError
        If there is no such device, or CUDA cannot be used.

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     fraction = gc.cuda.get_per_process_memory_fraction()
    """
    return float(_of_pools(device, "share"))


def device_memory_used(device: DeviceLike | None = None) -> int:
    """Bytes that are in use on a CUDA device, by all processes.

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     used = gc.cuda.device_memory_used()
    """
    free, total = mem_get_info(device)
    return total - free


def empty_cache() -> None:
    """Give unused blocks of the memory pools, of the device and of pinned memory, back to the driver.

    Graphs keep those of their pools as long as they can be replayed.

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
    """Do nothing: gradcore shares no memory of a device with other processes, so there is none to be collected.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.cuda.ipc_collect()
    """


def memory_stats(device: DeviceLike | None = None) -> dict[str, int]:
    """Numbers of the memory pools of a CUDA device, by PyTorch's names.

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


# -- names of before --------------------------------------------------------------------------------------------------


def _renamed(old: str, new: str) -> None:
    warnings.warn(f"`torch.cuda.{old}` has been renamed to `torch.cuda.{new}`", FutureWarning, stacklevel=3)


def memory_cached(device: DeviceLike | None = None) -> int:
    """Return the former name of `memory_reserved`.

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     kept = gc.cuda.memory_cached()
    """
    _renamed("memory_cached", "memory_reserved")
    return memory_reserved(device)


def max_memory_cached(device: DeviceLike | None = None) -> int:
    """Return the former name of `max_memory_reserved`.

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     peak = gc.cuda.max_memory_cached()
    """
    _renamed("max_memory_cached", "max_memory_reserved")
    return max_memory_reserved(device)


def reset_max_memory_allocated(device: DeviceLike | None = None) -> None:
    """The former name of `reset_peak_memory_stats`.

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     gc.cuda.reset_max_memory_allocated()
    """
    _renamed("reset_max_memory_allocated", "reset_peak_memory_stats")
    reset_peak_memory_stats(device)


def reset_max_memory_cached(device: DeviceLike | None = None) -> None:
    """The former name of `reset_peak_memory_stats`.

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     gc.cuda.reset_max_memory_cached()
    """
    _renamed("reset_max_memory_cached", "reset_peak_memory_stats")
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
    where = Device("cuda", index_of(device))
    held: Counter[tuple[Any, ...]] = Counter()
    seen = set()
    # By their types: an object that only stands for another would be asked for its class, and may warn.
    for t in gc.get_objects():
        if issubclass(type(t), Tensor) and getattr(t, "_device", None) is where:
            array = t._array if t._array.base is None else t._array.base
            if id(array) not in seen:
                seen.add(id(array))
                held[tuple(t._array.shape), t._dtype.name, int(array.nbytes)] += 1
    lines = [
        f"memory of {where}: {memory_allocated(where):,} bytes in use, {memory_reserved(where):,} reserved, "
        f"{mem_get_info(where)[0]:,} free"
    ]
    rows = sorted(held.items(), key=lambda row: -row[0][2] * row[1])[:10]
    lines += [f"{n:6} x {size:15,} bytes  {dtype} {list(shape)}" for (shape, dtype, size), n in rows]
    return "\n".join(lines)
