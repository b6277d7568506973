"""Arrays with a hidden batch dim for ``vmap``, on which kernels run as if they were a single sample."""

from gradcore.backends.vmap import indices  # noqa: F401  # which defines indexing
from gradcore.backends.vmap.array import BatchedArray, all_samples, split_batch, unwrap_batch, wrap_batch
from gradcore.backends.vmap.devices import BatchedDevice, VmapLevel, batched_device, unbatched_device

__all__ = [
    "BatchedArray",
    "BatchedDevice",
    "VmapLevel",
    "all_samples",
    "batched_device",
    "split_batch",
    "unbatched_device",
    "unwrap_batch",
    "wrap_batch",
]
