"""Names that programs take from ``torch._C``."""

from __future__ import annotations

from typing import Any

from gradcore import paths
from gradcore.device import device
from gradcore.dispatch.torch_function import DisableTorchFunction, DisableTorchFunctionSubclass
from gradcore.dispatch.torch_function import disabled as _disabled_torch_function_impl
from gradcore.dtypes import dtype
from gradcore.layouts import layout, memory_format
from gradcore.random import Generator
from gradcore.size import Size

__all__ = [
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
    "Generator",
    "Size",
    "_disabled_torch_function_impl",
    "device",
    "dtype",
    "layout",
    "memory_format",
]


def _log_api_usage_once(event: str) -> None:
    """Nothing: uses are not counted."""


def _get_tracing_state() -> None:
    """None: programs are not traced."""


def _add_docstr(obj: Any, doc: str) -> Any:
    """The object, with that documentation where it can have one."""
    obj.__doc__ = doc
    return obj


__getattr__ = paths.further(__name__)
