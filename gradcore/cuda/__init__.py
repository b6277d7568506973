"""CUDA: devices, streams, events, graphs, memory, random numbers, and detection of synchronization.

Every function can be imported without a GPU. Functions that need one raise an error with the reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradcore.cuda import nvtx
from gradcore.cuda.debugging import get_sync_debug_mode, set_sync_debug_mode, sync_debug_mode, transfers
from gradcore.cuda.devices import (
    can_device_access_peer,
    current_device,
    device,
    device_count,
    device_of,
    fusion,
    get_device_capability,
    get_device_name,
    index_checks,
    init,
    is_available,
    is_initialized,
    set_device,
    set_fusion,
    set_index_checks,
    synchronize,
)
from gradcore.cuda.memory import (
    OutOfMemoryError,
    device_memory_used,
    empty_cache,
    get_per_process_memory_fraction,
    ipc_collect,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_stats,
    memory_summary,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)
from gradcore.cuda.properties import (
    DeviceProperties,
    get_device_properties,
    is_bf16_supported,
    is_tf32_supported,
)
from gradcore.cuda.random import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from gradcore.cuda.streams import (
    Event,
    ExternalStream,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    get_stream_from_external,
    is_current_stream_capturing,
    set_stream,
    stream,
)
from gradcore.tensor.random import default_generator as _default_generator
from gradcore.torch_names import paths as _paths

if TYPE_CHECKING:  # These are imported when they are first looked up.
    from gradcore.cuda.graphed import make_graphed_callables
    from gradcore.cuda.graphs import CUDAGraph, graph, graph_pool_handle

__all__ = [
    "CUDAGraph",
    "DeviceProperties",
    "Event",
    "ExternalStream",
    "OutOfMemoryError",
    "Stream",
    "StreamContext",
    "can_device_access_peer",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "device_memory_used",
    "device_of",
    "empty_cache",
    "fusion",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_per_process_memory_fraction",
    "get_rng_state",
    "get_rng_state_all",
    "get_stream_from_external",
    "get_sync_debug_mode",
    "graph",
    "graph_pool_handle",
    "index_checks",
    "init",
    "initial_seed",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "is_tf32_supported",
    "make_graphed_callables",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "nvtx",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_fusion",
    "set_index_checks",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "set_sync_debug_mode",
    "stream",
    "sync_debug_mode",
    "synchronize",
    "transfers",
]


_further = _paths.further(__name__)


def __getattr__(name: str) -> object:
    """Return ``default_generators``: the default generator, once for each device as in PyTorch."""
    if name == "default_generators":
        return (_default_generator,) * device_count()
    return _further(name)
