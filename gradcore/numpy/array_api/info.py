"""Capabilities of the namespace: its dtypes and devices."""

from __future__ import annotations

from typing import Any

from gradcore.backends.registry import resolve
from gradcore.core import dtypes
from gradcore.core.device import device, get_default_device

__all__ = ["__array_namespace_info__"]

_KINDS = {
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float32", "float64"),
    "complex floating": ("complex64", "complex128"),
}
_UNIONS = {
    "integral": ("signed integer", "unsigned integer"),
    "numeric": ("signed integer", "unsigned integer", "real floating", "complex floating"),
}


class __array_namespace_info__:
    """Dtypes, devices and capabilities of the namespace."""

    def capabilities(self) -> dict[str, Any]:
        """Return the capabilities: boolean indexing, data-dependent shapes, and the maximum number of dims."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> device:
        """Return the device on which tensors are created by default."""
        return get_default_device()

    def default_dtypes(self, *, device: Any = None) -> dict[str, dtypes.dtype]:
        """Return the default dtypes of real and complex floats, integers and indices."""
        return {
            "real floating": dtypes.float64,
            "complex floating": dtypes.complex128,
            "integral": dtypes.int64,
            "indexing": dtypes.int64,
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, dtypes.dtype]:
        """Return the dtypes by name, optionally of one `kind` or of a tuple of kinds."""
        kinds = tuple(_KINDS) if kind is None else kind if isinstance(kind, tuple) else (kind,)
        groups = [group for each in kinds for group in _UNIONS.get(each, (each,))]
        return {name: dtypes.DTYPES[name] for group in groups for name in _KINDS[group]}

    def devices(self) -> list[device]:
        """Return the available devices: the CPU and all CUDA devices."""
        from gradcore.cuda import devices

        return [resolve("cpu").real, *(device("cuda", i) for i in range(devices.device_count()))]
