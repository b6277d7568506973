"""Import of SciPy on first use, because it is an optional dependency."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["scipy_module"]


def scipy_module(name: str) -> Any:
    """Return a submodule of SciPy.

    Raises
    ------
    ImportError
        If SciPy is not installed; the message says how to install it.

    Examples
    --------
    >>> from gradcore.scipy.required import scipy_module
    >>> scipy_module("constants").pi  # doctest: +ELLIPSIS
    3.14159...
    """
    try:
        return importlib.import_module(f"scipy.{name}")
    except ImportError as error:
        raise ImportError(f"gradcore.scipy.{name} needs SciPy; install it: pip install scipy") from error
