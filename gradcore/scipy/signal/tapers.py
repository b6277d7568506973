"""Windows by name, as functions of spectra take them."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["taper"]

_PERIODIC = "_periodic"


def taper(window: Any, n: int) -> np.ndarray[Any, Any]:
    """Return a window of `n` elements that fits together with its repetitions, unless its name says otherwise."""
    from scipy.signal import get_window

    name, *parameters = (window,) if isinstance(window, str) else window
    if isinstance(name, str) and name.endswith(_PERIODIC):  # which older versions of SciPy do not know
        name = name[: -len(_PERIODIC)]
    return get_window((name, *parameters) if parameters else name, n)  # type: ignore[no-any-return]
