"""Windows by name, for spectra and resampling."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["taper"]

_PERIODIC = "_periodic"


def taper(window: Any, n: int) -> np.ndarray[Any, Any]:
    """Return a window of `n` elements by its name, periodic unless the name says otherwise."""
    from scipy.signal import get_window

    name, *parameters = (window,) if isinstance(window, str) else window
    if isinstance(name, str) and name.endswith(_PERIODIC):  # which older versions of SciPy do not know
        name = name[: -len(_PERIODIC)]
    return get_window((name, *parameters) if parameters else name, n)  # type: ignore[no-any-return]
