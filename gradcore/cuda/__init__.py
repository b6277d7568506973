"""CUDA: devices, streams, graphs, memory, and what makes the host wait.

Nothing here needs a GPU to be imported; what asks the driver says so in its errors.
"""

from gradcore.cuda.debugging import get_sync_debug_mode, set_sync_debug_mode, sync_debug_mode, transfers
from gradcore.cuda.devices import (
    can_device_access_peer,
    current_device,
    device,
    device_count,
    fusion,
    get_device_capability,
    get_device_name,
    index_checks,
    is_available,
    set_device,
    set_fusion,
    set_index_checks,
    synchronize,
)
from gradcore.cuda.graphs import CUDAGraph, graph
from gradcore.cuda.memory import (
    OutOfMemoryError,
    empty_cache,
    max_memory_allocated,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_stats,
    memory_summary,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)
from gradcore.cuda.streams import (
    Event,
    ExternalStream,
    Stream,
    current_stream,
    default_stream,
    set_stream,
    stream,
)

__all__ = [
    "CUDAGraph",
    "Event",
    "ExternalStream",
    "OutOfMemoryError",
    "Stream",
    "can_device_access_peer",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "empty_cache",
    "fusion",
    "get_device_capability",
    "get_device_name",
    "get_sync_debug_mode",
    "graph",
    "index_checks",
    "is_available",
    "max_memory_allocated",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "reset_peak_memory_stats",
    "set_device",
    "set_fusion",
    "set_index_checks",
    "set_per_process_memory_fraction",
    "set_stream",
    "set_sync_debug_mode",
    "stream",
    "sync_debug_mode",
    "synchronize",
    "transfers",
]
