"""SciPy's functions on tensors, with derivatives: ``from gradcore.scipy import ndimage, signal``.

Submodules and functions have SciPy's names, arguments, defaults, dtypes and result objects. Results are tensors with
their history, on the device of their arguments. NumPy and CuPy arrays are converted to tensors without a history.
"""

from __future__ import annotations

import importlib
from typing import Any

#: Submodules, which are imported on first access.
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
