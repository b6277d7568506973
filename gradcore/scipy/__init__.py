"""SciPy's functions on tensors, with derivatives: ``from gradcore.scipy import ndimage, signal``.

Submodules have SciPy's names, and functions SciPy's arguments, defaults, dtypes and result objects; results are tensors
with their history, on the device of their arguments. Arrays of NumPy and CuPy are taken as tensors without one.
"""

from __future__ import annotations

import importlib
from typing import Any

#: Imported when they are first looked up.
_SUBMODULES: tuple[str, ...] = (
    "fft",
    "integrate",
    "interpolate",
    "linalg",
    "ndimage",
    "optimize",
    "signal",
    "sparse",
    "spatial",
    "special",
    "stats",
)

__all__ = [*_SUBMODULES]


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
