"""Properties of CUDA devices: name, memory, compute capability, and supported dtypes."""

from __future__ import annotations

from typing import Any

from gradcore.backends import registry
from gradcore.core.device import DeviceLike
from gradcore.core.typing import NamedTuple
from gradcore.cuda.devices import get_device_capability, index_of, is_available

__all__ = ["DeviceProperties", "get_device_properties", "is_bf16_supported", "is_tf32_supported"]

MB = 1 << 20


class DeviceProperties(NamedTuple):
    """Properties of a CUDA device, as reported by the driver.

    Attributes
    ----------
    name : str
    major, minor : int
        The compute capability.
    total_memory : int
        The size of the memory in bytes.
    multi_processor_count : int
    warp_size : int
    max_threads_per_block, max_threads_per_multi_processor : int
    regs_per_multiprocessor : int
    shared_memory_per_block, shared_memory_per_block_optin, shared_memory_per_multiprocessor : int
        Sizes in bytes; `optin` is the limit for kernels that opt in to more.
    L2_cache_size : int
        The size of the cache in bytes.
    is_integrated, is_multi_gpu_board : int

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     memory = gc.cuda.get_device_properties(0).total_memory
    """

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int
    warp_size: int
    max_threads_per_block: int
    max_threads_per_multi_processor: int
    regs_per_multiprocessor: int
    shared_memory_per_block: int
    shared_memory_per_block_optin: int
    shared_memory_per_multiprocessor: int
    L2_cache_size: int
    is_integrated: int
    is_multi_gpu_board: int

    def __repr__(self) -> str:
        return (
            f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
            f"total_memory={self.total_memory // MB}MB, multi_processor_count={self.multi_processor_count}, "
            f"L2_cache_size={self.L2_cache_size // MB}MB)"
        )


#: The driver's names of the fields.
FIELDS = {
    "name": "name",
    "major": "major",
    "minor": "minor",
    "total_memory": "totalGlobalMem",
    "multi_processor_count": "multiProcessorCount",
    "warp_size": "warpSize",
    "max_threads_per_block": "maxThreadsPerBlock",
    "max_threads_per_multi_processor": "maxThreadsPerMultiProcessor",
    "regs_per_multiprocessor": "regsPerMultiprocessor",
    "shared_memory_per_block": "sharedMemPerBlock",
    "shared_memory_per_block_optin": "sharedMemPerBlockOptin",
    "shared_memory_per_multiprocessor": "sharedMemPerMultiprocessor",
    "L2_cache_size": "l2CacheSize",
    "is_integrated": "integrated",
    "is_multi_gpu_board": "isMultiGpuBoard",
}


def get_device_properties(device: DeviceLike | None = None) -> DeviceProperties:
    """Return the properties of a CUDA device.

    Parameters
    ----------
    device : device, str or int, optional
        The device, by default the current one.

    Returns
    -------
    DeviceProperties

    Raises
    ------
    RuntimeError
        If the device does not exist, or CUDA cannot be used.

    Examples
    --------
    >>> import gradcore
    >>> if gradcore.cuda.is_available():
    ...     size = gradcore.cuda.get_device_properties(0).total_memory
    """
    facts: Any = registry.find("cuda").xp.cuda.runtime.getDeviceProperties(index_of(device))
    fields = {field: facts[theirs] for field, theirs in FIELDS.items()}
    name = fields["name"]
    return DeviceProperties(**{**fields, "name": name.decode() if isinstance(name, bytes) else name})


def _is_since(major: int) -> bool:
    return is_available() and get_device_capability()[0] >= major


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Return whether the current CUDA device supports bfloat16.

    Parameters
    ----------
    including_emulation : bool
        Whether computing in float32 and rounding counts, which every device does. Without, the device must have
        units for bfloat16.

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     dtype = gc.bfloat16 if gc.cuda.is_bf16_supported() else gc.float16
    """
    return is_available() if including_emulation else _is_since(8)


def is_tf32_supported() -> bool:
    """Return whether the current CUDA device supports TensorFloat32.

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     answer = gc.cuda.is_tf32_supported()
    """
    return _is_since(8)
