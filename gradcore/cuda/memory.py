"""Memory of CUDA devices: how much is in use and by what, limits, and what happens when there is none left.

There is one pool, CuPy's, for arrays of CuPy and tensors.
"""

from __future__ import annotations

import gc
from collections import Counter
from typing import Any

from gradcore.autograd.graph import Variable
from gradcore.backends import registry
from gradcore.backends.cupy_memory import OutOfMemoryError, Peaks
from gradcore.cuda.devices import index_of, is_available
from gradcore.device import DeviceLike
from gradcore.device import device as Device

__all__ = [
    "OutOfMemoryError",
    "empty_cache",
    "max_memory_allocated",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
]


def _of_pool(device: DeviceLike | None, what: str) -> int:
    backend = registry.find("cuda")
    with backend.use_index(index_of(device)):
        return int(getattr(backend.xp.get_default_memory_pool(), what)())


def memory_allocated(device: DeviceLike | None = None) -> int:
    """Bytes that arrays occupy in the memory pool of a CUDA device."""
    return _of_pool(device, "used_bytes")


def memory_reserved(device: DeviceLike | None = None) -> int:
    """Bytes that the memory pool of a CUDA device has taken from the driver: in use, or kept for new arrays."""
    return _of_pool(device, "total_bytes")


def max_memory_allocated(device: DeviceLike | None = None) -> int:
    """The most bytes that arrays have occupied since `reset_peak_memory_stats` was called.

    Before that was ever called nothing is watched, and this is what the pool has taken from the driver: an upper bound.
    """
    peak = Peaks.of(index_of(device))
    return memory_reserved(device) if peak is None else max(peak, memory_allocated(device))


def reset_peak_memory_stats(device: DeviceLike | None = None) -> None:
    """Watch the peak of memory from now on (which costs about a microsecond for each array)."""
    Peaks.watch(registry.find("cuda").xp, index_of(device), memory_allocated(device))


def mem_get_info(device: DeviceLike | None = None) -> tuple[int, int]:
    """Bytes that are free on a CUDA device, and all that it has."""
    backend = registry.find("cuda")
    with backend.use_index(index_of(device)):
        free, total = backend.xp.cuda.runtime.memGetInfo()
    return int(free), int(total)


def set_per_process_memory_fraction(fraction: float, device: DeviceLike | None = None) -> None:
    """Let the pool of a CUDA device take no more than that share of its memory.

    Raises
    ------
    ValueError
        If `fraction` is not between 0 and 1.
    """
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    backend = registry.find("cuda")
    with backend.use_index(index_of(device)):
        backend.xp.get_default_memory_pool().set_limit(fraction=fraction)


def empty_cache() -> None:
    """Give unused blocks of the memory pools, of the device and of pinned memory, back to the driver."""
    if is_available():
        xp = registry.find("cuda").xp
        xp.get_default_memory_pool().free_all_blocks()
        xp.get_default_pinned_memory_pool().free_all_blocks()


def memory_stats(device: DeviceLike | None = None) -> dict[str, int]:
    """Numbers of the memory pool of a CUDA device, by PyTorch's names."""
    return {
        "allocated_bytes.all.current": memory_allocated(device),
        "allocated_bytes.all.peak": max_memory_allocated(device),
        "reserved_bytes.all.current": memory_reserved(device),
    }


def memory_summary(device: DeviceLike | None = None) -> str:
    """What occupies the memory of a CUDA device, as a table: tensors that Python can reach, by shape and dtype."""
    where = Device("cuda", index_of(device))
    held: Counter[tuple[Any, ...]] = Counter()
    seen = set()
    # By their types: an object that only stands for another would be asked for its class, and may warn.
    for t in gc.get_objects():
        if issubclass(type(t), Variable) and getattr(t, "_device", None) is where:
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
